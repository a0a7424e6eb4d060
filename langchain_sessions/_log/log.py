"""What the methods of a service work on, in one value: a store, seen by one owner at one clock."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.codec.values import as_dict
from langchain_sessions._core.edge import UNREADABLE, built, check_aware, check_id, from_micros, to_micros
from langchain_sessions._core.rows import Owner, SessionHeading, SessionKey, SessionRow
from langchain_sessions.errors import CorruptRowError, InvalidInputError, ServiceClosedError
from langchain_sessions.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from langchain_sessions._core.codec.messages import MessageCodec
    from langchain_sessions._core.encode import EventEncoder
    from langchain_sessions._log.copies import Copies
    from langchain_sessions._recall.settings import SearchSettings
    from langchain_sessions.compaction._background import BackgroundRuns
    from langchain_sessions.service import SessionService
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.tokens import TokenCounter


@dataclass(slots=True)
class Shared:
    """What a service and all its views have in common and what changes.

    Attributes:
        is_closed: The service was closed: every call is refused.
        to_embed: Logs with something to embed, in the order in which they asked.
        copies: What keeps copies of what was said elsewhere, and is told before a session goes.
    """

    is_closed: bool = False
    to_embed: dict[SessionKey, None] = field(default_factory=dict[SessionKey, None])
    copies: list[Copies] = field(default_factory=list["Copies"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """The plumbing of a service: what its methods are functions of, and what adapters reach through `log_of`.

    Attributes:
        app: The application.
        owner: Whose sessions are reached: a user's, those of nobody (None), or `ANYONE`'s.
        store: Where the logs are.
        codec: Messages as rows and back.
        encoder: Events as rows and back.
        tokens: Counts tokens.
        background: What runs beside the conversations.
        search: How recall works; None where there is no index.
        clock: The present, aware.
        time_to_live: Microseconds that a created session lives; None for ever.
        adapter_time_to_live: The same for a session that `open` creates.
        slides: Whether an append renews that time.
        invocation_timeout: Microseconds after which an idle invocation counts as failed.
        require_user: Refuse sessions that nobody owns.
        shared: What all views have in common and what changes.
    """

    app: str
    owner: Owner
    store: SessionStore
    codec: MessageCodec
    encoder: EventEncoder
    tokens: TokenCounter
    background: BackgroundRuns
    search: SearchSettings | None
    clock: Callable[[], datetime]
    time_to_live: int | None
    adapter_time_to_live: int | None
    slides: bool
    invocation_timeout: int
    require_user: bool
    shared: Shared

    def key(self, session_id: str) -> SessionKey:
        """The key of a session for this view.

        Raises:
            InvalidInputError: The id cannot be one.
        """
        return SessionKey(self.app, check_id(session_id, "session_id"), self.owner)

    def now(self) -> int:
        """The present in microseconds. Whatever touches the store asks for it, so a closed service says so here.

        Raises:
            ServiceClosedError: The service was closed.
        """
        self.check_open()
        return to_micros(check_aware(self.clock(), "clock"))

    def check_open(self) -> None:
        """Refuse where the service was closed.

        Raises:
            ServiceClosedError: It was.
        """
        if self.shared.is_closed:
            raise ServiceClosedError

    def idle_before(self, now: int) -> int:
        """Open invocations that were not touched since then count as failed."""
        return now - self.invocation_timeout

    def session_of(self, row: SessionRow | SessionHeading) -> Session:
        """The public value of a session row.

        Raises:
            CorruptRowError: It cannot be read.
        """
        try:
            return built(Session, _fields(row))
        except UNREADABLE as error:
            problem = f"The row of session {row.id!r} cannot be read; other sessions can."
            raise CorruptRowError(problem) from error


def log_of(service: SessionService) -> Log:
    """The plumbing of a service or of a view of it: the one way in for adapters of this package.

    Raises:
        InvalidInputError: It is something else, such as a URL.
    """
    log = getattr(service, "_log", None)
    if not isinstance(log, Log):
        problem = f"give a SessionService, such as SessionService('sqlite:///chat.db'), not {type(service).__name__}"
        raise InvalidInputError("sessions", problem)
    return log


def _fields(row: SessionRow | SessionHeading) -> dict[str, Any]:
    return {
        "id": row.id,
        "app": row.app,
        "user_id": row.user_id,
        "title": row.title,
        "created_at": from_micros(row.created_at),
        "updated_at": from_micros(row.updated_at),
        "expires_at": None if row.expires_at is None else from_micros(row.expires_at),
        "ended_at": None if row.ended_at is None else from_micros(row.ended_at),
        "metadata": {} if row.metadata == "{}" else as_dict(json.loads(row.metadata), "metadata"),
        "version": row.last_seq,
        "message_count": row.live_events,
        "turn_count": row.live_turns,
        "token_count": row.live_tokens,
    }
