"""How a conversation is kept, and one model call in progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from langchain_sessions.compaction.plan import Compaction, ModelCall
from langchain_sessions.selectors import Selector, message_window, not_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.news import News, Remembered, Request
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.modes import MemoryMode


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeping:
    """How a conversation is kept.

    Attributes:
        compaction: When and how to compact.
        branch: The agent's branch; None is root.
        author: Who answers.
        human: Who asks.
        store: Chooses which new messages are stored.
        show: Chooses which remembered messages a prompt shows.
        store_system: Whether system messages of a request are stored; a newer one replaces the older.
        store_examples: Whether few-shots of a request are stored.
        modes: How memory reaches the model; as messages where there is none.
        on_store_error: What becomes of an answer that could not be stored.
    """

    compaction: Compaction | None = None
    branch: str | None = None
    author: str | None = None
    human: str | None = None
    store: Selector = not_empty
    show: Selector | None = None
    store_system: bool = False
    store_examples: bool = False
    modes: tuple[MemoryMode, ...] = ()
    on_store_error: Literal["warn", "raise"] = "warn"


@dataclass(kw_only=True, slots=True)
class Running:
    """One model call in progress."""

    address: Address
    invocation_id: str
    request: Request
    news: News
    appended: tuple[SessionEvent, ...] = ()
    call: ModelCall = field(default_factory=ModelCall)
    configurable: Mapping[str, Any] = field(default_factory=dict[str, Any])
    context: tuple[Remembered, ...] | None = None

    @property
    def count(self) -> int:
        """How many messages of the run the log holds."""
        return self.news.stored + len(self.appended)


def window_of(last_n: int | None, show: Selector | None) -> Selector | None:
    """The window and the selector of a caller as one."""
    if last_n is None:
        return show
    window = message_window(last_n)
    return window if show is None else lambda messages: window(show(messages))
