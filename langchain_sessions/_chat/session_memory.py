"""What the advisor and the middleware have in common: whose conversation it is, how it is kept, what fits."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from langchain_sessions._chat.address import Address, Addressing, OwnerPolicy
from langchain_sessions._chat.overflow import is_context_overflow
from langchain_sessions._chat.prompt import SystemLookups
from langchain_sessions._core.edge import check_branch, helpful, require
from langchain_sessions._log.log import log_of
from langchain_sessions.compaction._plan import ModelCall, check_compaction
from langchain_sessions.selectors import Selector, message_window, not_empty
from langchain_sessions.tokens._at_hand import ExactAtHand
from langchain_sessions.tokens._estimate import EstimatedTokenCounter
from langchain_sessions.tokens._usage import UsageBook, kind_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from langchain_core.runnables.config import RunnableConfig
    from typing_extensions import Self

    from langchain_sessions._chat.replies import ReplyRecorder
    from langchain_sessions.compaction._plan import Compaction
    from langchain_sessions.modes import MemoryMode
    from langchain_sessions.service import SessionService
    from langchain_sessions.tokens import TokenCounter, Tool

_REPLY = 3  # as `TokenCounter.count_messages` counts the opening of a reply
_TOOLS = 256

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
    """Counts the prompts of one memory, and learns from what was reported of them. Safe to share between threads."""

    def __init__(self, counter: TokenCounter) -> None:
        """Count with `counter`."""
        self._counter = counter
        self._book = UsageBook()
        self._exact = ExactAtHand()
        self._tools: dict[int, tuple[Tool, int]] = {}

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

    def learn(
        self, call: ModelCall, conversation: Hashable, shown: Sequence[BaseMessage], recorder: ReplyRecorder
    ) -> None:
        """Take in what was reported of a prompt, unless it was changed on its way to the model."""
        if call.prompt_tokens is None:
            return
        for reply, sent in recorder.reported:
            if reply.usage_metadata is not None and _carries(sent, shown):
                self._book.report(
                    _name_of(call, is_exact=call.usage.is_exact),
                    _kind_of(shown),
                    conversation,
                    counted=call.prompt_tokens,
                    reported=reply.usage_metadata["input_tokens"],
                )
                return
        if recorder.reported:
            _log.debug("A prompt was changed on its way to the model: nothing is learned from its reply.")


def _name_of(call: ModelCall, *, is_exact: bool) -> str:
    """What tells the vocabulary of a model, as far as it can be told, and whether it is what we count with."""
    model = call.model
    named = getattr(model, "model_name", None) or getattr(model, "model", None) or getattr(model, "model_id", None)
    return f"{type(model).__name__}:{named}:{is_exact}"


def _kind_of(prompt: Sequence[BaseMessage]) -> str:
    spoken = [message for message in prompt if not isinstance(message, SystemMessage)]
    return kind_of_text("\n".join(str(message.text)[:500] for message in spoken[-4:]))


def _carries(sent: Sequence[BaseMessage], shown: Sequence[BaseMessage]) -> bool:
    """Whether all that we showed went out as it was, in order; a chain's template may have added to it."""
    left = iter(sent)
    return all(
        any(one is ours or (one.type == ours.type and one.content == ours.content) for one in left)
        for ours in shown
        if not isinstance(ours, SystemMessage)
    )
