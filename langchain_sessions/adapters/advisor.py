"""Memory for any chat model or chain: `memory.wrap(model)`."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from langchain_core.runnables import Runnable, RunnableConfig
from typing_extensions import override

from langchain_sessions.adapters.chat import ChatWithMemory, chat_model
from langchain_sessions.adapters.running import Keeping, window_of
from langchain_sessions.adapters.selecting import Selector, not_empty
from langchain_sessions.errors import SessionsError, require
from langchain_sessions.ids import check_branch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions.adapters.modes import MemoryMode
    from langchain_sessions.compaction.base import Compaction
    from langchain_sessions.service import SessionService


class BareAdvisorError(SessionsError, TypeError):
    """An advisor was run as a step of a chain, where it never sees the reply."""

    def __init__(self) -> None:
        """Say what to write instead."""
        super().__init__(
            "A memory advisor cannot be a step of a chain: it would never see the reply. "
            "Write prompt | memory.wrap(model) instead of prompt | memory | model."
        )


class SessionMemoryAdvisor(Runnable[Any, Any]):
    """Keeps the conversation of a chat model or a chain in a session.

    `memory.wrap(model)` is the model with memory: it opens the session that the config names, shows the model what
    was said so far, stores what is new in the request and the reply, each exactly once, and compacts when it is time.
    `memory | model` is the same.

    Args:
        sessions: The service. Unbound, the config's `user_id` says whose session it is.
        compaction: When and how to compact.
        branch: The branch that the agent speaks on; None is root, which all see.
        last_n: Show at most so many messages; a system message is not counted and stays.
        select: Chooses which remembered messages the prompt shows.
        store: Chooses which new messages are stored; by default all but empty assistant frames.
        store_system: Store system messages of requests; a newer one replaces the older.
        store_examples: Store few-shots of requests.
        author: Who answers, as the log names it.
        human: Who asks, as the log names it.
        modes: How memory reaches the model: as messages by default.
        on_missing_session: Raise where the config names no session, or `skip` memory for that call.
        context_window: The model's window in tokens, where its profile does not say.
        name: The name of its runs in traces and events.
    """

    def __init__(
        self,
        sessions: SessionService,
        *,
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
        context_window: int | None = None,
        name: str | None = None,
    ) -> None:
        """See the class."""
        require(on_missing_session in ("error", "skip"), "on_missing_session", "give 'error' or 'skip'")
        self.sessions = sessions
        self.on_missing_session = on_missing_session
        self.context_window = context_window
        self.name = name
        self.keeping = Keeping(
            compaction=compaction,
            branch=check_branch(branch),
            author=author,
            human=human,
            store=store,
            show=window_of(last_n, select),
            store_system=store_system,
            store_examples=store_examples,
            modes=tuple(modes),
        )

    def __repr__(self) -> str:
        """Short: where it speaks."""
        branch = "" if self.keeping.branch is None else f"branch={self.keeping.branch!r}"
        return f"{type(self).__name__}({branch})"

    def on_branch(self, branch: str | None) -> SessionMemoryAdvisor:
        """The same memory for an agent on another branch."""
        bound = copy.copy(self)
        bound.keeping = replace(self.keeping, branch=check_branch(branch))
        return bound

    def wrap(
        self, inner: Runnable[Any, Any], *, input_key: str | None = None, history_key: str | None = None
    ) -> ChatWithMemory:
        """A model or a chain with memory.

        Args:
            inner: A chat model, or a chain.
            input_key: Where a chain's input dictionary holds what the user says.
            history_key: Where a chain expects the history. Without it, `input_key` receives the whole conversation.
        """
        return ChatWithMemory(self, inner, input_key=input_key, history_key=history_key)

    @override
    def __or__(self, other: Any) -> Any:
        """`memory | model` is `memory.wrap(model)`."""
        if isinstance(other, Runnable) and chat_model(other) is not None:
            return self.wrap(other)
        return super().__or__(other)

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> NoReturn:
        """Refuse: an advisor is no step of a chain.

        Raises:
            BareAdvisorError: Always.
        """
        raise BareAdvisorError
