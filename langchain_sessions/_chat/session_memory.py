"""What the advisor and the middleware have in common: whose conversation it is, how it is kept, what fits."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from langchain_sessions._chat.address import Address, Addressing, OwnerPolicy
from langchain_sessions._chat.budget import PromptBudget
from langchain_sessions._chat.graph_state import GraphRuns
from langchain_sessions._chat.news import as_messages
from langchain_sessions._chat.overflow import is_context_overflow
from langchain_sessions._chat.system_lookups import SystemLookups
from langchain_sessions._compaction.plan import ModelCall, check_compaction
from langchain_sessions._core.edge import check_branch, helpful, require
from langchain_sessions._log.log import log_of
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.selectors import Selector, message_window, not_empty

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables.config import RunnableConfig
    from typing_extensions import Self

    from langchain_sessions._compaction.plan import Compaction
    from langchain_sessions.modes import MemoryMode
    from langchain_sessions.service import SessionService

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
        require(callable(store), "store", f"give a selector, {_SUCH_AS}")
        require(select is None or callable(select), "select", f"give a selector, {_SUCH_AS}")
        are_modes = isinstance(modes, Sequence) and all(map(_is_mode, modes))
        require(are_modes, "modes", "give a list of modes, such as [SummaryAsFact()]")
        check_compaction(compaction)
        self.sessions = sessions
        self._addressing = Addressing(sessions, owner)
        self.on_missing_session = on_missing_session
        self.context_window = context_window
        self._is_overflow = is_overflow
        self.systems: SystemLookups = SystemLookups()
        self.graph_runs: GraphRuns = GraphRuns()
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


_SUCH_AS = "such as by_type('human', 'ai') of langchain_sessions.selectors"


def _is_mode(mode: object) -> bool:
    """Whether this shapes prompts: a mode, and not its class or its name."""
    return not isinstance(mode, type) and callable(getattr(mode, "shape", None))


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
        known = filter(_is_countable, bound) if isinstance(bound, (list, tuple)) else ()
        return tuple(known) or tools_behind(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return tools_behind(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        found = (tools_behind(step) for step in reversed(runnable.steps))
        return next((tools for tools in found if tools), ())
    return ()


def _is_countable(tool: object) -> bool:
    """Whether a bound tool is a schema, or has one: some providers bind objects of their own, which nobody counts."""
    if isinstance(tool, dict):
        return True
    from langchain_core.tools import BaseTool  # noqa: PLC0415 - nearly every client binds schemas

    return isinstance(tool, BaseTool)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapped:
    """A runnable and how it is fed.

    Attributes:
        inner: A chat model or a chain.
        input_key: Where a chain's input holds what the user says; None for a model.
        history_key: Where a chain expects what is remembered; without it `input_key` takes the whole conversation.
        system_key: Where a chain expects what memory writes for its system prompt.
        tools: What was bound to the model after it was wrapped.
    """

    inner: Runnable[Any, Any]
    input_key: str | None = None
    history_key: str | None = None
    system_key: str | None = None
    tools: tuple[Any, ...] = ()

    def check(self, *, writes_system: bool) -> None:
        """Refuse keys that do not fit each other or the memory.

        Raises:
            InvalidInputError: They do not.
        """
        require(self.history_key is None or self.input_key is not None, "input_key", "history_key needs it")
        require(self.system_key is None or self.history_key is not None, "history_key", "system_key needs it")
        require(
            not (self.history_key is not None and writes_system and self.system_key is None),
            "system_key",
            "this memory writes for the system prompt: name the key where the chain's template expects it",
        )

    def with_inner(self, inner: Runnable[Any, Any], tools: Sequence[Any] | None = None) -> Self:
        """The same around another runnable."""
        return replace(self, inner=inner, tools=self.tools if tools is None else tuple(tools))

    def method(self, name: str) -> Callable[..., Runnable[Any, Any]]:
        """A method of a chat model.

        Raises:
            InvalidInputError: What is wrapped is no chat model.
        """
        if not speaks_chat(self.inner):
            raise InvalidInputError("inner", f"{type(self.inner).__name__} is no chat model, so it has no {name}")
        return cast("Callable[..., Runnable[Any, Any]]", getattr(self.inner, name))

    def said(self, value: object) -> list[BaseMessage]:
        """What the user says in an input.

        Raises:
            InvalidInputError: It cannot be found there.
        """
        if self.input_key is None:
            if isinstance(value, Mapping):
                raise InvalidInputError(
                    "input_key", "the input is a dictionary; use memory.wrap(chain, input_key=..., history_key=...)"
                )
            return as_messages(value)
        if not isinstance(value, Mapping) or self.input_key not in value:
            raise InvalidInputError("input_key", f"the input has no key {self.input_key!r}")
        return as_messages(cast("Mapping[str, object]", value)[self.input_key])

    @property
    def model(self) -> BaseChatModel | None:
        """The chat model that answers, where one is found."""
        return model_behind(self.inner)

    @property
    def call_tools(self) -> tuple[Any, ...]:
        """The tools that go out with a call, for those who count tokens."""
        return self.tools or tools_behind(self.inner)
