"""What the advisor and the middleware have in common: whose conversation it is, how it is kept, what fits."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from langchain_sessions._chat.address import Address, Addressing, OwnerPolicy
from langchain_sessions._chat.overflow import is_context_overflow
from langchain_sessions._chat.prompt import SystemLookups
from langchain_sessions._core.codec.same import equal
from langchain_sessions._core.edge import check_branch, helpful, require
from langchain_sessions._log.log import log_of
from langchain_sessions.compaction._plan import ModelCall, check_compaction
from langchain_sessions.selectors import Selector, message_window, not_empty
from langchain_sessions.tokens._estimate import EstimatedTokenCounter, holds_media
from langchain_sessions.tokens._exact_for_model import ExactForModel
from langchain_sessions.tokens._usage import UsageBook, kind_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from langchain_core.runnables.config import RunnableConfig
    from typing_extensions import Self

    from langchain_sessions._chat.replies import Heard, ReplyRecorder
    from langchain_sessions.compaction._plan import Compaction
    from langchain_sessions.modes import MemoryMode
    from langchain_sessions.service import SessionService
    from langchain_sessions.tokens import TokenCounter, Tool

_REPLY = 3  # as `TokenCounter.count_messages` counts the opening of a reply
# Schemas that are remembered with what they count for; who makes new ones with every call has them counted anew.
_TOOLS = 256
_NAMES = ("model_name", "model", "model_id")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatOptions:
    """How a conversation is kept.

    Attributes:
        compaction: When and how to compact.
        branch: The agent's branch; None is root.
        author: Who answers.
        human: Who asks.
        store: Chooses which new messages are stored.
        show: Chooses which remembered messages a prompt shows.
        window: How many of the newest `show` needs to see, where that is known; None for all.
        store_system: Whether system messages of a request are stored; a newer one replaces the older.
        store_examples: Whether few-shots of a request are stored.
        modes: How memory reaches the model; as messages where there is none.
        on_store_error: What becomes of an answer that could not be stored.
        max_characters: How long one text of a prompt may be.
    """

    compaction: Compaction | None = None
    branch: str | None = None
    author: str | None = None
    human: str | None = None
    store: Selector = not_empty
    show: Selector | None = None
    window: int | None = None
    store_system: bool = False
    store_examples: bool = False
    modes: tuple[MemoryMode, ...] = ()
    on_store_error: Literal["warn", "raise"] = "warn"
    max_characters: int | None = None

    def author_of(self, message: BaseMessage) -> str | None:
        """Who says a message, as the log names it."""
        return self.human if message.type.startswith(("human", "Human")) else self.author


@helpful
class SessionMemory:
    """Keeps a conversation in a session.

    Args:
        sessions: The service.
        owner: Whose sessions a config reaches, see `OwnerPolicy`: by default those of its `user_id`.
        compaction: When and how to compact.
        branch: The branch that the agent speaks on; None is root, which all see.
        last_n: Show at most so many remembered messages; a system message is not counted and stays.
        select: Chooses which remembered messages the prompt shows.
        store: Chooses which new messages are stored; by default all but empty assistant frames.
        store_system: Store system messages of requests; a newer one replaces the older.
        store_examples: Store few-shots of requests.
        author: Who answers, as the log names it.
        human: Who asks, as the log names it.
        modes: How memory reaches the model: as messages by default.
        on_missing_session: Raise where the config names no session, or `skip` memory for that call.
        on_store_error: When an answer cannot be stored, deliver it and log an error (`warn`), or raise a
            `ReplyNotStoredError` that holds it (`raise`).
        context_window: The model's window in tokens, where its profile does not say.
        is_overflow: Says of an error that the prompt was too long; then it is compacted and asked once more.
        max_characters: How long one text of a prompt may be, such as the result of a tool: of a longer one the model is
            shown the beginning and the end. The log keeps all of it.
    """

    def __init__(
        self,
        sessions: SessionService,
        *,
        owner: OwnerPolicy = "config",
        compaction: Compaction | None = None,
        branch: str | None = None,
        last_n: int | None = None,
        select: Selector | None = None,
        store: Selector = not_empty,
        store_system: bool = False,
        store_examples: bool = False,
        author: str | None = None,
        human: str | None = None,
        modes: Sequence[MemoryMode] = (),
        on_missing_session: Literal["error", "skip"] = "error",
        on_store_error: Literal["warn", "raise"] = "warn",
        context_window: int | None = None,
        is_overflow: Callable[[Exception], bool] = is_context_overflow,
        max_characters: int | None = None,
    ) -> None:
        """See the class."""
        super().__init__()
        require(on_missing_session in ("error", "skip"), "on_missing_session", "give 'error' or 'skip'")
        require(on_store_error in ("warn", "raise"), "on_store_error", "give 'warn' or 'raise'")
        require(max_characters is None or max_characters > 0, "max_characters", "give a number above 0")
        check_compaction(compaction)
        self.sessions = sessions
        self._addressing = Addressing(sessions, owner)
        self.on_missing_session = on_missing_session
        self.context_window = context_window
        self._is_overflow = is_overflow
        self.systems: SystemLookups = SystemLookups()
        self.budget: PromptBudget = PromptBudget(log_of(sessions).tokens)
        for mode in modes:
            mode.attach(sessions)
        self.options: ChatOptions = ChatOptions(
            compaction=compaction,
            branch=check_branch(branch),
            author=author,
            human=human,
            store=store,
            show=_window_behind(select, last_n),
            window=last_n if select is None else None,
            store_system=store_system,
            store_examples=store_examples,
            modes=tuple(modes),
            on_store_error=on_store_error,
            max_characters=max_characters,
        )

    def __repr__(self) -> str:
        """Short: where it speaks."""
        branch = "" if self.options.branch is None else f"branch={self.options.branch!r}"
        return f"{type(self).__name__}({branch})"

    def on_branch(self, branch: str | None) -> Self:
        """The same memory for an agent on another branch."""
        bound = copy.copy(self)
        bound.options = replace(self.options, branch=check_branch(branch))
        return bound

    def model_call(self, **known: Any) -> ModelCall:
        """A model call as far as it is known."""
        return ModelCall(context_window=self.context_window, **known)

    def is_overflow(self, error: Exception) -> bool:
        """Whether an error says that the prompt was too long; a predicate that fails says no."""
        try:
            return self._is_overflow(error)
        except Exception as failure:  # noqa: BLE001 - the model's own error is what the caller has to see
            _log.warning("is_overflow raised %s", type(failure).__name__)
            return False

    def address(self, config: RunnableConfig | None) -> Address | None:
        """The session that a config names; None where it names none and that is allowed.

        Raises:
            InvalidInputError: It names none, or an id is unusable.
        """
        if self.on_missing_session == "skip":
            return self._addressing.find(config)
        return self._addressing.require(config)


def _window_behind(select: Selector | None, last_n: int | None) -> Selector | None:
    """The selector and the window of a caller as one."""
    if last_n is None:
        return select
    window = message_window(last_n)
    return window if select is None else lambda messages: window(select(messages))


def speaks_chat(runnable: object) -> bool:
    """Whether something offers what a chat model does: a model, a binding, fallbacks, a model to be configured."""
    # Such wrappers are no BaseChatModel; they forward attributes, and LangChain itself tells them by this method.
    return isinstance(runnable, Runnable) and callable(getattr(runnable, "bind_tools", None))


def model_behind(runnable: Runnable[Any, Any]) -> BaseChatModel | None:
    """The chat model that answers behind bindings, fallbacks and the steps of a chain; None where none is found."""
    if isinstance(runnable, BaseChatModel):
        return runnable
    if isinstance(runnable, RunnableBindingBase):
        return model_behind(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return model_behind(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        # From the end: the last model of a chain is the one that answers.
        found = (model_behind(step) for step in reversed(runnable.steps))
        return next((model for model in found if model is not None), None)
    return None


def tools_behind(runnable: Runnable[Any, Any]) -> tuple[Any, ...]:
    """The schemas that were bound to the model behind bindings, fallbacks and the steps of a chain."""
    if isinstance(runnable, RunnableBindingBase):
        bound = runnable.kwargs.get("tools")
        # Some providers bind objects of their own, which nobody else can count.
        schemas = [tool for tool in bound if isinstance(tool, dict)] if isinstance(bound, (list, tuple)) else []
        return tuple(schemas) or tools_behind(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return tools_behind(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        found = (tools_behind(step) for step in reversed(runnable.steps))
        return next((tools for tools in found if tools), ())
    return ()


class PromptBudget:
    """Counts the prompts of one memory, and learns from what was reported of them. Safe to share between threads.

    Between us and the provider others may change a prompt: middleware behind ours, the template of a chain, an agent
    with instructions of its own. What a model is really asked is heard by a callback, and only that is set against a
    report: where all that we showed went out, what was added is counted too, and expected of the next prompt; where
    anything of it was changed or left out, nothing is learned.
    """

    def __init__(self, counter: TokenCounter) -> None:
        """Count with `counter`."""
        self._counter = counter
        self._book = UsageBook()
        self._exact = ExactForModel()
        self._tools: dict[int, tuple[Tool, int]] = {}

    # -- before the model ----------------------------------------------------------------------------------

    def measured(
        self, call: ModelCall, conversation: Hashable, prompt: Sequence[BaseMessage], known: Mapping[int, int]
    ) -> ModelCall:
        """A call with what its prompt counts for, and what is known of its model.

        Args:
            call: The call, with the tools that are offered.
            conversation: Names the conversation.
            prompt: The messages as they go out.
            known: What messages count for that were counted before, by the identity of the object.
        """
        exact = self._count_exactly(call.model, prompt)
        messages = exact or sum(known.get(id(message)) or self._counter.count_message(message) for message in prompt)
        tokens = messages + self.count_tools(call.tools) + _REPLY
        name = _name_of(call, is_exact=exact is not None)
        usage = replace(self._book.usage(name, _kind_of(prompt), conversation), is_exact=exact is not None)
        return replace(call, prompt_tokens=tokens, usage=usage)

    def _count_exactly(self, model: object, prompt: Sequence[BaseMessage]) -> int | None:
        """What messages count for by a model's own vocabulary; None where that is not at hand.

        Whoever chose a counter keeps it.
        """
        if type(self._counter) is not EstimatedTokenCounter:
            return None
        counter = self._exact.counter(model)
        try:
            return None if counter is None else counter.count(prompt)
        except Exception as error:  # noqa: BLE001 - a model's own count must not cost the answer
            _log.warning("%s could not count a prompt: %s", type(model).__name__, type(error).__name__)
            return None

    def count_messages(self, messages: Sequence[BaseMessage]) -> int:
        """What messages count for, by the counter of the service."""
        return sum(map(self._counter.count_message, messages))

    def count_tools(self, tools: Sequence[Tool]) -> int:
        """What the schemas of tools count for."""
        return sum(map(self._count_tool, tools))

    def _count_tool(self, tool: Tool) -> int:
        # Making a schema costs far more than counting it, and the same tools come with every call.
        found = self._tools.get(id(tool))
        if found is not None and found[0] is tool:
            return found[1]
        tokens = self._counter.count_messages((), tools=[tool]).tools
        if len(self._tools) >= _TOOLS:
            self._tools.clear()
        self._tools[id(tool)] = (tool, tokens)
        return tokens

    # -- after the model -----------------------------------------------------------------------------------

    def learn(
        self, call: ModelCall, conversation: Hashable, shown: Sequence[BaseMessage], recorder: ReplyRecorder
    ) -> None:
        """Take in what was reported of a prompt, unless it was changed on its way to the model."""
        if call.prompt_tokens is None:
            return
        for heard in recorder.reported:
            usage, counted = heard.reply.usage_metadata, self._count_sent(call, call.prompt_tokens, shown, heard)
            if usage is not None and counted is not None:
                self._book.report(
                    _name_of(call, is_exact=call.usage.is_exact),
                    _kind_of(heard.sent),
                    conversation,
                    counted=counted,
                    reported=usage["input_tokens"],
                    added=counted - call.prompt_tokens,
                )
                return
        if recorder.reported:
            _log.debug("A prompt was changed on its way to the model: nothing is learned from its reply.")

    def _count_sent(self, call: ModelCall, expected: int, shown: Sequence[BaseMessage], heard: Heard) -> int | None:
        """What was really sent counts for, where it holds all that was shown and went to the model that we know."""
        if not (_is_of(call, heard.params) and carries(heard.sent, shown)):
            return None
        tools = self._count_sent_tools(call.tools, heard.params)
        if tools is None:
            return None
        if len(heard.sent) == len(shown) and all(map(_is_alike, heard.sent, shown)):
            return expected - self.count_tools(call.tools) + tools
        exact = self._count_exactly(call.model, heard.sent) if call.usage.is_exact else None
        return (exact or self.count_messages(heard.sent)) + tools + _REPLY

    def _count_sent_tools(self, known: Sequence[Tool], params: Mapping[str, Any]) -> int | None:
        """What the tools of a request count for; None where they are not those that we know, and cannot be counted.

        A client that names them in a way of its own is believed to send what it was given.
        """
        sent = params.get("tools")
        if not isinstance(sent, (list, tuple)):
            return self.count_tools(known)
        offered = cast("Sequence[Any]", sent)
        if len(offered) == len(known) and {*map(_tool_name, offered)} <= {None, *map(_tool_name, known)}:
            return self.count_tools(known)
        try:
            return self._counter.count_messages((), tools=offered).tools
        except Exception:  # noqa: BLE001 - objects of a provider's own
            return None


def _tool_name(tool: Any) -> object:  # noqa: ANN401 - a schema, a tool, a function, a model, an object of a client's own
    """What a tool is called, in whatever form it is offered; None where it does not say."""
    if not isinstance(tool, dict):
        return getattr(getattr(tool, "function", tool), "name", None) or getattr(tool, "__name__", None)
    schema = cast("dict[str, Any]", tool)
    inner = schema.get("function")
    named: Any = cast("dict[str, Any]", inner) if isinstance(inner, dict) else schema
    return named.get("name") or named.get("title") or named.get("type")


def _name_of(call: ModelCall, *, is_exact: bool) -> str:
    """What tells the vocabulary of a model, as far as it can be told, and whether it is what we count with."""
    return f"{type(call.model).__name__}:{_model_name(call.model)}:{is_exact}"


def _model_name(model: object) -> object:
    return next(filter(None, (getattr(model, name, None) for name in _NAMES)), None)


def _is_of(call: ModelCall, params: Mapping[str, Any]) -> bool:
    """Whether a request went to the model that the call knows, as far as both say: a fallback has other tokens."""
    if call.model is None:
        return True
    kind, ours = params.get("_type"), getattr(call.model, "_llm_type", None)
    named, known = next(filter(None, map(params.get, _NAMES)), None), _model_name(call.model)
    return (kind is None or kind == ours) and (named is None or known is None or named == known)


def _kind_of(prompt: Sequence[BaseMessage]) -> str:
    """Which kind of text a prompt is mostly of; what media cost says nothing of texts."""
    if any(not isinstance(message.content, str) and holds_media(message.content) for message in prompt):
        return "media"
    spoken = [message for message in prompt if not isinstance(message, SystemMessage)]
    return kind_of_text("\n".join(str(message.text)[:500] for message in spoken[-4:]))


def carries(sent: Sequence[BaseMessage], shown: Sequence[BaseMessage]) -> bool:
    """Whether all that we showed went out as it was, in order; others may have added to it, or to the system prompt."""
    left = iter(sent)
    return all(any(_is_alike(one, ours) for one in left) for ours in shown if not isinstance(ours, SystemMessage))


def _is_alike(one: BaseMessage, ours: BaseMessage) -> bool:
    """Whether a message costs what ours does, since everything of it that a client sends is the same."""
    if one is ours:
        return True
    return (
        one.type == ours.type
        and all(equal(mine, theirs) for mine, theirs in zip(_sent_beside(ours), _sent_beside(one), strict=True))
        and (equal(one.content, ours.content) or _plain_text(one) == _plain_text(ours) is not None)
    )


def _sent_beside(message: BaseMessage) -> Iterator[object]:
    """What of a message goes out beside its content."""
    yield message.name
    yield message.additional_kwargs
    if isinstance(message, AIMessage):
        yield message.tool_calls
        yield message.invalid_tool_calls
    if isinstance(message, ToolMessage):
        yield message.tool_call_id


def _plain_text(message: BaseMessage) -> str | None:
    """What a message says, in one text or in blocks of text; None where it shows anything else."""
    content = message.content
    if isinstance(content, str):
        return content
    is_plain = all(isinstance(block, str) or block.get("type") == "text" for block in content)
    return str(message.text) if is_plain else None
