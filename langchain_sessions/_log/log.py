"""What the methods of a service work on, in one value: a store, seen by one owner at one clock."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain_sessions._core.codec.values import as_dict
from langchain_sessions._core.edge import (
    MOST,
    UNREADABLE,
    bounded,
    built,
    check_aware,
    check_id,
    check_optional_id,
    from_micros,
    require,
    to_micros,
    utc_now,
)
from langchain_sessions._core.expiry import expiry_columns
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import ANYONE, EDIT, YEARS, Anyone, SessionKey
from langchain_sessions._log.indexing import embed_later, indexer_of
from langchain_sessions._log.values import UNSET, Unset
from langchain_sessions._recall.settings import EMBED_EVERY, INDEX_EVERY, MOST_BYTES
from langchain_sessions.errors import CorruptRowError, InvalidInputError, ServiceClosedError
from langchain_sessions.events import Standing
from langchain_sessions.session import Session
from langchain_sessions.stores._values import SessionDraft

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from langchain_sessions._compaction.background import BackgroundRuns
    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.rows import EventRow, Owner, SessionHeading, SessionRow
    from langchain_sessions._log.copies import Copies
    from langchain_sessions._recall.settings import SearchSettings
    from langchain_sessions._tokens.base import TokenCounter
    from langchain_sessions.filters import EventFilter
    from langchain_sessions.service import SessionService
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import ContextSlice

_tuple = tuple.__new__
# What a draft holds between its time and `anew`.
_UNTITLED: Final = tuple(SessionDraft._field_defaults.values())[:-1]

Service = TypeVar("Service", bound="SessionService")
# Logs that are counted; with more, counting begins anew: of each too little is known, and a search finds what waits.
_MOST_LOGS: Final = 10_000
# Edited messages that are known of each; where they are forgotten too much is counted, not too little.
_MOST_EDITED: Final = 64
_READ: Final = 16
"""What an edit replaces is read for the index and not inverted, so that so many times as much may wait: on SQLite it
takes a sixtieth."""


class Tally:
    """How many bytes of each log wait for its index, as far as this process appended them; threads may share it.

    It decides no more than which append pays: a search looks at what waits itself. So nothing is locked: of two appends
    to a log that come at once one may not be counted.
    """

    def __init__(self) -> None:
        """Nothing waits."""
        self._waiting: dict[tuple[str, str], int] = {}
        # By log and message: how much of what waits is its newest revision.
        self._edited: dict[tuple[str, str], dict[str, int]] = {}

    def passes(self, key: SessionKey, rows: Sequence[EventRow], *, is_due: bool) -> bool:
        """Count what was appended; whether with it too much waits, or the index is due: all is then counted as done."""
        app, session_id, _ = key
        known, name = self._waiting, (app, session_id)
        waiting = known.get(name, 0)
        for row in rows:
            size = len(row.text or "") + len(row.body or "")
            waiting += self._more(name, row.ident, size) if row.flags & EDIT else size
        if is_due or waiting > MOST_BYTES:
            known.pop(name, None)
            self._edited.pop(name, None)
            return True
        if len(known) >= _MOST_LOGS:
            known.clear()
            self._edited.clear()
        known[name] = waiting
        return False

    def _more(self, name: tuple[str, str], ident: str, size: int) -> int:
        """How much an edit adds to what is inverted, where it takes the place of one that waits."""
        edited = self._edited.setdefault(name, {})
        if ident not in edited and len(edited) >= _MOST_EDITED:
            edited.clear()
        before = edited.get(ident, 0)
        edited[ident] = size
        return size - before + before // _READ


@dataclass(slots=True)
class Shared:
    """What a service and all its views have in common and what changes.

    Attributes:
        is_closed: The service was closed: every call is refused.
        to_embed: Logs with something to embed, in the order in which they asked.
        tally: What waits for the index.
        copies: What keeps copies of what was said elsewhere, and is told before a session goes.
        under_way: By event loop and session the last of those that append something long or wait for that; see `order`.
    """

    is_closed: bool = False
    to_embed: dict[SessionKey, None] = field(default_factory=dict[SessionKey, None])
    tally: Tally = field(default_factory=Tally)
    copies: list[Copies] = field(default_factory=list["Copies"])
    under_way: dict[tuple[Any, str, str], Any] = field(default_factory=dict[tuple[Any, str, str], Any])


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
        hide_superseded: Whether views do not see what an edit replaced.
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
    hide_superseded: bool
    shared: Shared

    def key(self, session_id: str) -> SessionKey:
        """The key of a session for this view.

        Raises:
            InvalidInputError: The id cannot be one.
        """
        return _tuple(SessionKey, (self.app, check_id(session_id, "session_id"), self.owner))

    def now(self) -> int:
        """The present in microseconds. Whatever touches the store asks for it, so a closed service says so here.

        Raises:
            ServiceClosedError: The service was closed.
        """
        if self.shared.is_closed:
            raise ServiceClosedError
        # The usual clock, without a datetime in between.
        if self.clock is utc_now:
            return time_ns() // 1000
        return to_micros(check_aware(self.clock(), "clock"))

    def check_open(self) -> None:
        """Refuse where the service was closed.

        Raises:
            ServiceClosedError: It was.
        """
        if self.shared.is_closed:
            raise ServiceClosedError

    def seen(self, where: EventFilter) -> EventFilter:
        """A filter without what this view may not see."""
        if not self.hide_superseded or isinstance(self.owner, Anyone):
            return where
        left = (where.standings or frozenset(Standing)) - {Standing.SUPERSEDED}
        # A filter for nothing else finds nothing: an empty set would mean every standing.
        return replace(where, standings=left) if left else replace(where, before_seq=1)

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
            if _is_sound(row):
                raise  # a mistake of ours
            problem = f"The row of session {row.id!r} cannot be read; other sessions can."
            raise CorruptRowError(problem) from error


def bound_to(service: Service, user_id: str | None) -> Service:
    """`SessionService.as_user`."""
    log = log_of(service)
    require(user_id is not None or not log.require_user, "user_id", "this service requires a user")
    is_free = isinstance(log.owner, Anyone) or user_id == log.owner
    require(is_free, "user_id", "this view is bound to another user; the service that it was made of is not")
    # Store, codec and background are shared with the operator's service, which alone closes them.
    bound = copy.copy(service)
    bound._log = replace(log, owner=check_optional_id(user_id, "user_id"))
    bound._is_view = True
    return bound


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


def _is_sound(row: SessionRow | SessionHeading) -> bool:
    """Whether a row says what can be told of a session; asked where something went wrong."""
    times = (row.created_at, row.updated_at, row.expires_at or 0, row.ended_at or 0)
    try:
        told = isinstance(json.loads(row.metadata), dict)
    except UNREADABLE:
        return False
    return told and all(type(each) is int and each in YEARS for each in times)


def after_append(log: Log, key: SessionKey, version: int, rows: Sequence[EventRow]) -> Flow[None] | None:
    """What recall is to do about new events, so that no search pays for all of them; mostly nothing. Never an error."""
    search = log.search
    if search is None or not rows:
        return None
    added = len(rows)
    index = log.shared.tally.passes(key, rows, is_due=version % INDEX_EVERY < added)
    embed = search.embedder is not None and version % EMBED_EVERY < added
    return _catch_up(log, key, index=index, embed=embed) if index or embed else None


def _catch_up(log: Log, key: SessionKey, *, index: bool, embed: bool) -> Flow[None]:
    if index:
        yield from indexer_of(log).catch_up_quietly(key)
    if embed:
        yield from embed_later(log, [key])


def adapter_draft(log: Log, session_id: str, *, anew: bool = True) -> SessionDraft:
    """How an adapter opens a session of this view; `anew` tells whether it may have been deleted before.

    Raises:
        InvalidInputError: The id cannot be one.
    """
    return new_draft(log, session_id, UNSET, log.adapter_time_to_live, anew=anew)


def thread_draft(log: Log, key: SessionKey, *, anew: bool) -> SessionDraft:
    """`adapter_draft` for a key, whose id was checked."""
    owner = None if key.owner is ANYONE else key.owner
    if log.adapter_time_to_live is not None or (owner is None and log.require_user) or isinstance(owner, Anyone):
        return adapter_draft(log, key.id, anew=anew)
    return _tuple(SessionDraft, (key.app, key.id, owner, log.now(), *_UNTITLED, anew))


def new_draft(
    log: Log, session_id: str, user_id: str | Unset | None, ttl: int | None, *, anew: bool = True
) -> SessionDraft:
    """A session as this view creates it, with a time to live in microseconds.

    Raises:
        InvalidInputError: The id cannot be one, or the owner is none that this view may create for.
    """
    owner = _new_owner(log, user_id)
    now = log.now()
    draft = SessionDraft(log.app, check_id(session_id, "session_id"), owner, now, anew=anew)
    return draft if ttl is None else draft._replace(**expiry_columns(ttl, now, slides=log.slides))


def _new_owner(log: Log, user_id: str | Unset | None) -> str | None:
    """Who owns a session that this view creates."""
    owner = log.owner
    if isinstance(owner, Anyone):
        owner = None if isinstance(user_id, Unset) else check_optional_id(user_id, "user_id")
    elif not isinstance(user_id, Unset):
        require(user_id == owner, "user_id", "this view is bound to another user")
    if owner is None:
        require(not log.require_user, "user_id", "this service requires a user")
    return owner


def read_rows(
    log: Log,
    session_id: str,
    viewer: str | None,
    *,
    invocation_id: str | None = None,
    last_n: int | None = None,
    said_only: bool = False,
) -> Flow[ContextSlice]:
    """The rows of a viewer's context in the order of a prompt: what every reader of the one view begins with."""
    now = log.now()
    most = last_n if last_n is None or 0 <= last_n < MOST else bounded(last_n)
    given = (log.key(session_id), viewer, invocation_id, most, now, log.idle_before(now), said_only)
    return (yield from ask(log.store.load_context, *given))
