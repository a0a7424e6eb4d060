"""What a session is: identity and life cycle of one conversation, without its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.edge import pointing
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.showing import html_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@pointing
@dataclass(frozen=True, kw_only=True)
class Session:
    """One conversation. Immutable; it carries no events, they are read when asked for.

    Attributes:
        id: Unique within the app, exact in case, accents and blanks.
        app: The application that the session belongs to.
        user_id: Its one owner; None for a session that nobody owns.
        title: What a list of conversations shows.
        created_at: When it was created, aware UTC.
        updated_at: When its log or its data last changed.
        expires_at: From then on it reads as missing; None for never.
        ended_at: When it was ended; None while it takes events.
        metadata: The caller's own data.
        version: The last seq of the log; every change of the log moves it.
        message_count: Live messages of the root scope: what a prompt would hold.
        turn_count: Live turns of the root scope.
        token_count: Tokens of the live messages of the root scope, as counted when they were appended.
    """

    id: str
    app: str
    user_id: str | None
    title: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: int = 0
    message_count: int = 0
    turn_count: int = 0
    token_count: int = 0

    @property
    def is_ended(self) -> bool:
        """Whether `end` was called and not undone."""
        return self.ended_at is not None

    def __repr__(self) -> str:
        """Short: identity, owner and size."""
        owner = "" if self.user_id is None else f" of {self.user_id!r}"
        title = "" if self.title is None else f" {self.title!r}"
        return f"<Session {self.id!r}{owner}{title} version={self.version}>"

    def _repr_html_(self) -> str:
        return html_of("Session", [self])

    def _shown(self) -> Mapping[str, object]:
        return {
            "id": self.id,
            "owner": self.user_id,
            "title": self.title,
            "version": self.version,
            "messages": self.message_count,
            "turns": self.turn_count,
            "tokens": self.token_count,
            "updated": f"{self.updated_at:%Y-%m-%d %H:%M}",
            "expires": self.expires_at and f"{self.expires_at:%Y-%m-%d %H:%M}",
            "ended": self.ended_at and f"{self.ended_at:%Y-%m-%d %H:%M}",
        }


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
