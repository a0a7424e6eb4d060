"""What an application talks to: conversations as logs, for one user or for the operator."""

from __future__ import annotations

import copy
import json
import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from langchain_sessions import rows as r
from langchain_sessions._flow import Flow, ask, faces
from langchain_sessions.codec.messages import MessageCodec
from langchain_sessions.codec.values import dump_exact
from langchain_sessions.compaction.background import BackgroundRuns
from langchain_sessions.context import Context, pair_tool_calls
from langchain_sessions.encoding import EventEncoder, as_events
from langchain_sessions.errors import InvalidInputError, SessionNotFoundError, require
from langchain_sessions.events import InvocationStatus, NewEvent, SessionEvent
from langchain_sessions.filters import EventFilter
from langchain_sessions.ids import check_branch, check_id, check_optional_id, check_title
from langchain_sessions.invocation import Invocation
from langchain_sessions.page import Page, decode_positions, encode_cursor
from langchain_sessions.recall.settings import INDEX_EVERY, SearchSettings
from langchain_sessions.rows import ANYONE, Anyone, Counters, EventRow, Owner, SessionKey, SessionRow
from langchain_sessions.runs import SeqSet
from langchain_sessions.session import Session
from langchain_sessions.state import APP, TEMP, USER, dump_delta, merged_view
from langchain_sessions.stores.base import (
    AppendBatch,
    ArchivePlan,
    EventSlice,
    RewindPlan,
    SessionDraft,
    SessionQuery,
    SessionStore,
)
from langchain_sessions.stores.indexing import LogScope
from langchain_sessions.times import check_duration, from_micros, to_micros, utc_now
from langchain_sessions.tokens import EstimatedTokenCounter, TokenCounter
from langchain_sessions.turns import Turn, split_turns

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from langchain_core.messages import BaseMessage
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL
    from sqlalchemy.ext.asyncio import AsyncEngine
    from typing_extensions import Self

    from langchain_sessions.recall.hits import SearchFilter, SearchPage
    from langchain_sessions.recall.indexing import Indexer
    from langchain_sessions.compaction.base import Compaction, CompactionResult, ModelCall

DEFAULT_TIME_TO_LIVE = timedelta(days=60)
TOMBSTONE = timedelta(hours=24)
_HOUR = 3_600_000_000


class _Unset:
    """The type of `UNSET`: distinguishes None from nothing given."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindResult:
    """What a rewind did.

    Attributes:
        seq: Position of its record.
        to_seq: The position gone back to: the log reads as it did then.
        kept_keys: `user:` and `app:` keys that events out of sight had changed; they are shared and stay.
    """

    seq: int
    to_seq: int
    kept_keys: tuple[str, ...]


class SessionService:
    """Conversations as append-only logs.

    Every method `x` that does I/O has a twin `ax`. The service itself is the operator's: it reaches every session
    of its app. `as_user` gives the view that applications use: it reaches one user's sessions and nothing else.

    Args:
        database: A URL such as `sqlite:///chat.db`, a SQLAlchemy `Engine` or `AsyncEngine`, or a store. Engines
            and stores that are given are never closed.
        app: The application; sessions of another app do not exist here.
        codec: A LangGraph serializer for what JSON cannot hold; an encrypting one seals whole messages.
        encrypted: Whether `codec` encrypts. By default asked of LangGraph's own `EncryptedSerializer`.
        table_prefix: Put before every table's name.
        create_schema: Create the tables on first use; by default on SQLite only.
        tokens: Counts tokens; by default an estimate that needs no vocabulary.
        time_to_live: How long an explicitly created session lives; None for ever.
        adapter_time_to_live: How long a session lives that `open` creates; None for ever.
        expiry: `fixed`, or `sliding`: every append renews the time, at most hourly.
        invocation_timeout: An invocation that is open and idle for longer counts as failed.
        require_user: Refuse sessions that nobody owns.
        synchronous: SQLite's durability for a URL: FULL, or NORMAL (a power cut may take the last transactions).
        search: Whether appends keep the index of recall up to date, and how recall works. It costs one append in
            hundreds some milliseconds.
        clock: The present, aware; for tests.
    """

    def __init__(
        self,
        database: str | URL | Engine | AsyncEngine | SessionStore = "sqlite://",
        *,
        app: str = "default",
        codec: SerializerProtocol | None = None,
        encrypted: bool | None = None,
        table_prefix: str = "",
        create_schema: bool | None = None,
        tokens: TokenCounter | None = None,
        time_to_live: timedelta | None = DEFAULT_TIME_TO_LIVE,
        adapter_time_to_live: timedelta | None = None,
        expiry: Literal["fixed", "sliding"] = "fixed",
        invocation_timeout: timedelta = timedelta(minutes=15),
        require_user: bool = False,
        synchronous: str = "FULL",
        search: bool | SearchSettings = True,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """See the class. Nothing is opened before first use."""
        self.app = check_id(app, "app")
        require(expiry in ("fixed", "sliding"), "expiry", "give 'fixed' or 'sliding'")
        self._time_to_live = None if time_to_live is None else check_duration(time_to_live, "time_to_live")
        self._adapter_time_to_live = (
            None if adapter_time_to_live is None else check_duration(adapter_time_to_live, "adapter_time_to_live")
        )
        self._slides = expiry == "sliding"
        self._invocation_timeout = check_duration(invocation_timeout, "invocation_timeout")
        self._require_user = require_user
        self._clock = clock
        self._owner: Owner = ANYONE
        self.background = BackgroundRuns()
        self.tokens: TokenCounter = tokens if tokens is not None else EstimatedTokenCounter()
        self.codec = MessageCodec(codec, encrypts=_encrypts(codec, encrypted))
        self.encoder = EventEncoder(self.codec, self.tokens)
        self._search_settings = _search_settings(search)
        self._is_view = False
        self._owns_store = not isinstance(database, SessionStore)
        self.store = (
            database
            if isinstance(database, SessionStore)
            else _sql_store(database, table_prefix=table_prefix, create_schema=create_schema, synchronous=synchronous)
        )

    # -- whose view ----------------------------------------------------------------------------------------

    def as_user(self, user_id: str | None) -> Self:
        """The same service bound to one owner: every call enforces it.

        Args:
            user_id: The user; None for the sessions that nobody owns.

        Raises:
            InvalidInputError: The id is blank, or None where a user is required.
        """
        require(user_id is not None or not self._require_user, "user_id", "this service requires a user")
        bound = copy.copy(self)
        bound._owner = check_optional_id(user_id, "user_id")
        bound._owns_store = False
        bound._is_view = True
        return bound

    @property
    def owner(self) -> Owner:
        """Whose sessions this view reaches: a user's, those of nobody (None), or `ANYONE`'s."""
        return self._owner

    def key(self, session_id: str) -> SessionKey:
        """The key of a session for this view.

        Raises:
            InvalidInputError: The id cannot be one.
        """
        return SessionKey(self.app, check_id(session_id, "session_id"), self._owner)

    def now(self) -> int:
        """The present in microseconds."""
        return to_micros(self._clock())

    def idle_before(self, now: int) -> int:
        """Open invocations that were not touched since then count as failed."""
        return now - self._invocation_timeout

    # -- schema and life -----------------------------------------------------------------------------------

    def _create_schema(self) -> Flow[None]:
        """Create or upgrade the tables. Idempotent; safe when many processes do it at once."""
        yield from ask(self.store.create_schema)

    create_schema, acreate_schema = faces(_create_schema)

    def _close(self) -> Flow[None]:
        """Finish what runs in the background and close what the service opened. A view closes nothing."""
        if not self._is_view:
            yield from ask(self.background.drain, close=True)
        if self._owns_store:
            yield from ask(self.store.close)

    close, aclose = faces(_close)

    def __enter__(self) -> Self:
        """Use the service as a context manager; it is closed at the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the service."""
        self.close()

    async def __aenter__(self) -> Self:
        """Use the service as an async context manager; it is closed at the end."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the service."""
        await self.aclose()

    # -- sessions ------------------------------------------------------------------------------------------

    def _create(
        self,
        session_id: str | None = None,
        *,
        user_id: str | _Unset | None = UNSET,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        time_to_live: timedelta | _Unset | None = UNSET,
    ) -> Flow[Session]:
        """Create a session.

        Args:
            session_id: Its id; by default a new one.
            user_id: Its owner, on the operator's service. A bound view creates for its own user.
            title: What a list shows.
            metadata: The caller's own data.
            state: Initial state; `user:` and `app:` keys reach further, `temp:` keys are dropped.
            time_to_live: How long it lives, None for ever; by default the service's.

        Raises:
            SessionExistsError: The id is taken, by whomever; nothing was changed.
            InvalidInputError: A value cannot be used.
        """
        ttl = self._time_to_live if isinstance(time_to_live, _Unset) else _duration(time_to_live)
        draft = self._draft(uuid.uuid4().hex if session_id is None else session_id, user_id, ttl)
        draft = _with_state(draft, state)
        draft = replace(draft, title=check_title(title), metadata=dump_exact(dict(metadata or {}), "metadata"))
        row = yield from ask(self.store.create_session, draft)
        return self.session_of(row)

    create, acreate = faces(_create)

    def _open(self, session_id: str, *, user_id: str | _Unset | None = UNSET, anew: bool = True) -> Flow[Session]:
        """The session of an id, created if there is none. Atomic: of many callers one creates.

        Args:
            session_id: Its id.
            user_id: Its owner, on the operator's service; by default whoever owns it, else nobody.
            anew: Whether an id that was deleted lately may start anew. A late write passes False.

        Raises:
            SessionNotFoundError: It belongs to somebody else, or was deleted lately and `anew` is False.
        """
        if isinstance(self._owner, Anyone) and isinstance(user_id, _Unset):
            found = yield from ask(self.store.find_session, self.key(session_id), self.now())
            if found is not None:
                return self.session_of(found)
        draft = self._draft(session_id, user_id, self._adapter_time_to_live)
        row = yield from ask(self.store.open_session, replace(draft, anew=anew))
        return self.session_of(row)

    open, aopen = faces(_open)

    def adapter_draft(self, session_id: str) -> SessionDraft:
        """How an adapter opens a session of this view.

        Raises:
            InvalidInputError: The id cannot be one.
        """
        return self._draft(session_id, UNSET, self._adapter_time_to_live)

    def _draft(self, session_id: str, user_id: str | _Unset | None, ttl: int | None) -> SessionDraft:
        owner = self._new_owner(user_id)
        now = self.now()
        draft = SessionDraft(app=self.app, id=check_id(session_id, "session_id"), user_id=owner, now=now)
        if ttl is None:
            return draft
        if not self._slides:
            return replace(draft, expires_at=now + ttl)
        return replace(draft, expires_at=now + ttl, renewal=ttl, renewal_grain=min(_HOUR, ttl // 4))

    def _new_owner(self, user_id: str | _Unset | None) -> str | None:
        """Who owns a session that this view creates."""
        if isinstance(self._owner, Anyone):
            owner = None if isinstance(user_id, _Unset) else check_optional_id(user_id, "user_id")
        else:
            owner = self._owner
            same = isinstance(user_id, _Unset) or user_id == owner
            require(same, "user_id", "this view is bound to another user")
        require(owner is not None or not self._require_user, "user_id", "this service requires a user")
        return owner

    def _get(self, session_id: str) -> Flow[Session]:
        """The session of an id, without its events.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        row = yield from ask(self.store.find_session, self.key(session_id), self.now())
        if row is None:
            raise SessionNotFoundError(session_id)
        return self.session_of(row)

    get, aget = faces(_get)

    def _list_sessions(self, *, limit: int = 50, after: str | None = None) -> Flow[Page[Session]]:
        """Sessions of this view, newest activity first, without loading events.

        Args:
            limit: How many at most.
            after: The `next_cursor` of an earlier page.

        Raises:
            InvalidInputError: The cursor is not one of this method, or the limit is not above 0.
        """
        require(type(limit) is int and limit > 0, "limit", "give a whole number above 0")
        place = None if after is None else tuple(decode_positions(after, 2, "sessions")[1])
        query = SessionQuery(app=self.app, owner=self._owner, now=self.now(), limit=limit, after=place)
        found = yield from ask(self.store.list_sessions, query)
        cursor = None if found.after is None else encode_cursor("sessions", *found.after)
        return Page(items=tuple(self.session_of(row) for row in found.rows), next_cursor=cursor)

    list_sessions, alist_sessions = faces(_list_sessions)

    def _update(
        self,
        session_id: str,
        *,
        title: str | _Unset | None = UNSET,
        metadata: Mapping[str, Any] | None = None,
        time_to_live: timedelta | _Unset | None = UNSET,
    ) -> Flow[Session]:
        """Change what a session says about itself; its log is not touched.

        Args:
            session_id: The session.
            title: The new title.
            metadata: Keys to set; a key with None is removed, others stay.
            time_to_live: How long it lives from now on; None for ever.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        now = self.now()
        changes: dict[str, Any] = {}
        if not isinstance(title, _Unset):
            changes["title"] = check_title(title)
        if metadata is not None:
            changes["metadata"] = dump_exact(dict(metadata), "metadata")
        if not isinstance(time_to_live, _Unset):
            ttl = _duration(time_to_live)
            slides = self._slides and ttl is not None
            changes["expires_at"] = None if ttl is None else now + ttl
            changes["renewal"] = ttl if slides else None
            changes["renewal_grain"] = min(_HOUR, ttl // 4) if slides and ttl is not None else None
        row = yield from ask(self.store.update_session, self.key(session_id), changes, now)
        return self.session_of(row)

    update, aupdate = faces(_update)

    def _end(self, session_id: str) -> Flow[Session]:
        """End a session: it can be read and searched, but takes no events until `reopen`. Idempotent.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        now = self.now()
        row = yield from ask(self.store.end_session, self.key(session_id), self._record(r.LIFECYCLE, now), now, now)
        return self.session_of(row)

    end, aend = faces(_end)

    def _reopen(self, session_id: str) -> Flow[Session]:
        """Let an ended session take events again. Idempotent.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        now = self.now()
        row = yield from ask(self.store.end_session, self.key(session_id), self._record(r.LIFECYCLE, now), None, now)
        return self.session_of(row)

    reopen, areopen = faces(_reopen)

    def _delete(self, session_id: str) -> Flow[bool]:
        """Remove a session with everything that it holds: events, state, index, checkpoints. False if there is none.

        A late write cannot bring it back; `create` starts anew.
        """
        now = self.now()
        until = now + TOMBSTONE // timedelta(microseconds=1)
        return (yield from ask(self.store.delete_session, self.key(session_id), now, until))

    delete, adelete = faces(_delete)

    def _delete_user(self, user_id: str | None = None) -> Flow[int]:
        """Remove all sessions of a user and the user's `user:` state; how many sessions there were.

        Args:
            user_id: Whose, on the operator's service; a bound view removes its own.
        """
        bound = None if isinstance(self._owner, Anyone) else self._owner
        wanted = check_id(bound if user_id is None else user_id, "user_id")
        require(isinstance(self._owner, Anyone) or wanted == bound, "user_id", "this view is bound to another user")
        now = self.now()
        until = now + TOMBSTONE // timedelta(microseconds=1)
        return (yield from ask(self.store.delete_user, self.app, wanted, now, until))

    delete_user, adelete_user = faces(_delete_user)

    def _purge_expired(self, *, batch: int = 100, progress: Callable[[int], None] | None = None) -> Flow[int]:
        """Remove expired sessions for good, a batch per transaction; how many.

        Args:
            batch: How many per transaction.
            progress: Told the total after each batch.
        """
        require(type(batch) is int and batch > 0, "batch", "give a whole number above 0")
        total, now = 0, self.now()
        while True:
            gone = yield from ask(self.store.purge_expired, self.app, self._owner, now, batch)
            total += gone
            if progress is not None:
                progress(total)
            if gone < batch:
                return total

    purge_expired, apurge_expired = faces(_purge_expired)

    def _fork(
        self,
        session_id: str,
        *,
        at_seq: int | None = None,
        new_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Flow[Session]:
        """A new session of the same owner with a copy of the log up to a position, hidden events included.

        `user:` and `app:` state is shared, not copied. The fork's metadata names its source.

        Args:
            session_id: The source.
            at_seq: The last position to copy; by default all.
            new_id: The fork's id; by default a new one.
            title: The fork's title; by default the source's.
            metadata: Added to the source's metadata.

        Raises:
            SessionNotFoundError: There is no source for this view.
            SessionExistsError: The new id is taken.
            EventNotFoundError: The source has no such position.
        """
        require(at_seq is None or (type(at_seq) is int and at_seq >= 0), "at_seq", "give a position of the log")
        source = yield from self._get(session_id)
        draft = replace(
            self._draft(uuid.uuid4().hex if new_id is None else new_id, UNSET, self._time_to_live),
            user_id=source.user_id,
            title=source.title if title is None else check_title(title),
            metadata=dump_exact({**source.metadata, **(metadata or {}), "forked_from": source.id}, "metadata"),
        )
        row = yield from ask(self.store.fork_session, self.key(session_id), draft, at_seq)
        return self.session_of(row)

    fork, afork = faces(_fork)

    # -- the log -------------------------------------------------------------------------------------------

    def _append(
        self,
        session_id: str,
        messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent],
        *,
        branch: str | None = None,
        author: str | None = None,
        invocation_id: str | None = None,
        invocation_status: InvocationStatus | None = None,
        first_ordinal: int = 0,
        state_delta: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | None = None,
        expected_version: int | None = None,
    ) -> Flow[list[SessionEvent]]:
        """Append messages or prepared events: all of them or none, in one transaction.

        Idempotent by event id: a message with an id, or any message within an invocation, is stored once however
        often the append is repeated. A message that is stored already is returned as it stands.

        Args:
            session_id: The session.
            messages: A message, a `NewEvent`, or several.
            branch: Dotted path of the agent; None is root.
            author: Who speaks.
            invocation_id: The run that they belong to.
            invocation_status: How far that run has got with this append.
            first_ordinal: Position of the first message within its invocation; a handle counts for you.
            state_delta: Changes of state; they take effect with the first event.
            metadata: The caller's own data, for each event that has none.
            timestamp: When it happened, aware; by default now.
            expected_version: Append only if the log is at this version.

        Returns:
            An event for each message, in order; streaming chunks (`partial`) are left out.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            SessionEndedError: It has ended.
            StaleSessionError: The log is at another version; nothing was written.
            EventConflictError: An event id stands with another message; nothing was written.
            InvalidInputError: A value cannot be stored exactly; nothing was written.
        """
        key = self.key(session_id)
        whole = expected_version is None or type(expected_version) is int
        require(whole, "expected_version", "give the version of a session, a whole number")
        shared = None
        if any(value is not None for value in (branch, author, invocation_id, metadata, timestamp)):
            shared = NewEvent(
                branch=branch, author=author, invocation_id=invocation_id, metadata=metadata, timestamp=timestamp
            )
        events = as_events(messages, shared)
        if state_delta:
            events = _with_delta(events, state_delta, shared or NewEvent())
        mark = 0 if invocation_status is None else r.MARKS[invocation_status.value]
        require(not mark or invocation_id is not None, "invocation_status", "needs an invocation_id")
        if mark and not events:
            events = [NewEvent(invocation_id=invocation_id, branch=branch)]
        if not events:
            yield from self._get(session_id)
            return []
        now = self.now()
        marked = -1 if not mark else 0 if invocation_status is InvocationStatus.OPEN else len(events) - 1
        rows = tuple(
            self.encoder.row(event, now, ordinal=first_ordinal + at, mark=mark if at == marked else 0)
            if isinstance(event, NewEvent)
            else self.encoder.message_row(event, now)
            for at, event in enumerate(events)
        )
        batch = AppendBatch(
            rows=rows,
            now=now,
            same=self.codec.same,
            expected_version=expected_version,
            idle_before=self.idle_before(now),
        )
        appended = yield from ask(self.store.append_events, key, batch)
        if appended.version % INDEX_EVERY < len(rows) and self._search_settings is not None:
            yield from self._indexer().catch_up_quietly(key)
        return [self.encoder.event(session_id, row, appended.view) for row in appended.rows]

    append, aappend = faces(_append)

    def _edit(
        self,
        session_id: str,
        message: BaseMessage,
        *,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Flow[SessionEvent]:
        """Replace a message by its id. The old revision stays in the log; the new one takes its place.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: No message of that id stands in the log.
            InvalidInputError: The message has no id.
        """
        require(message.id, "message", "needs the id of the message that it replaces")
        now = self.now()
        event = NewEvent(id=uuid.uuid4().hex, message=message, author=author, metadata=metadata)
        batch = AppendBatch(
            rows=(self.encoder.row(event, now),),
            now=now,
            same=self.codec.same,
            replaces_only=True,
            idle_before=self.idle_before(now),
        )
        appended = yield from ask(self.store.append_events, self.key(session_id), batch)
        return self.encoder.event(session_id, appended.rows[0], appended.view)

    edit, aedit = faces(_edit)

    def invocation(
        self, session_id: str, invocation_id: str | None = None, *, branch: str | None = None, author: str | None = None
    ) -> Invocation:
        """One run of a model over a session, as a context manager, sync or async.

        Until it is done, other readers' contexts leave its messages out; if its body raises, they stay left out.

        Args:
            session_id: The session.
            invocation_id: Its id; by default a new one. The id of a run that failed resumes it.
            branch: The branch that it appends to.
            author: Who speaks in it.
        """
        self.key(session_id)
        name = uuid.uuid4().hex if invocation_id is None else check_id(invocation_id, "invocation_id")
        return Invocation(self, session_id, name, branch=check_branch(branch), author=author)

    def _events(
        self,
        session_id: str,
        wanted: EventFilter | None = None,
        *,
        cursor: str | None = None,
        with_total: bool = False,
    ) -> Flow[Page[SessionEvent]]:
        """Events in log order: all of them, or those that a filter wants. Nothing is left out by default.

        Args:
            session_id: The session.
            wanted: The filter; its page size counts for cursors too.
            cursor: The `next_cursor` or `previous_cursor` of an earlier page. Cursors stay right while events are
                appended; `next_cursor` of the newest page leads to what is appended later.
            with_total: Count how many there are in all.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        now = self.now()
        chosen = wanted if wanted is not None else _EVERYTHING
        query = self.encoder.query(chosen, idle_before=self.idle_before(now), with_total=with_total)
        older = False
        if cursor is not None:
            direction, (at, size, *_) = decode_positions(cursor, 2, "older", "newer")
            older = direction == "older"
            query = replace(query, newest=older, offset=0, limit=query.limit or size or None)
            if older:
                query = replace(query, before_seq=min(at, query.before_seq or at))
            else:
                query = replace(query, after_seq=max(at, query.after_seq or at))
        found = yield from ask(self.store.find_events, self.key(session_id), query, now)
        return self._page(session_id, found, query.limit, cursor, newest=query.newest, offset=query.offset)

    events, aevents = faces(_events)

    def _page(
        self, session_id: str, found: EventSlice, size: int | None, cursor: str | None, *, newest: bool, offset: int
    ) -> Page[SessionEvent]:
        items = tuple(self.encoder.event(session_id, row, found.view) for row in found.rows)
        if not items:
            # An empty page keeps its place, so that asking again finds what was appended meanwhile.
            edge = cursor if cursor is not None and not newest else encode_cursor("newer", found.view.last_seq, size)
            return Page(items=(), next_cursor=edge, total=found.total)
        starts = items[0].seq == 1 or size is None or (newest and len(items) < size)
        first = not newest and cursor is None and not offset
        previous = None if starts or first else encode_cursor("older", items[0].seq, size)
        return Page(
            items=items,
            next_cursor=encode_cursor("newer", items[-1].seq, size),
            previous_cursor=previous,
            total=found.total,
        )

    def _context(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> Flow[Context]:
        """What a model is to see: standing messages in context order, tool calls whole.

        Args:
            session_id: The session.
            branch: The viewer: it sees root, its ancestors and itself.
            last_n: At most the newest n messages; a tool result whose call is cut off is dropped.
            invocation_id: The running invocation, whose own messages are seen.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        require(last_n is None or (type(last_n) is int and last_n > 0), "last_n", "give a whole number above 0")
        now = self.now()
        viewer = check_branch(branch)
        found = yield from ask(
            self.store.load_context, self.key(session_id), viewer, invocation_id, last_n, now, self.idle_before(now)
        )
        messages = self.codec.decode_all(session_id, found.rows)
        paired = pair_tool_calls(messages)
        cover = found.view.ledger.covers.get(viewer)
        return Context(
            session_id=session_id,
            branch=viewer,
            events=tuple(self.encoder.event(session_id, found.rows[index], found.view) for index, _ in paired),
            messages=tuple(message for _, message in paired),
            tokens=sum(found.rows[index].tokens for index, _ in paired),
            exact=self.tokens.exact,
            version=found.session.last_seq,
            compaction=0 if cover is None else cover.record,
        )

    context, acontext = faces(_context)

    def _messages(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> Flow[list[BaseMessage]]:
        """The messages of `context`, and nothing else.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        require(last_n is None or (type(last_n) is int and last_n > 0), "last_n", "give a whole number above 0")
        now = self.now()
        found = yield from ask(
            self.store.load_context,
            self.key(session_id),
            check_branch(branch),
            invocation_id,
            last_n,
            now,
            self.idle_before(now),
        )
        return [message for _, message in pair_tool_calls(self.codec.decode_all(session_id, found.rows))]

    messages, amessages = faces(_messages)

    def _turns(self, session_id: str, *, branch: str | None = None) -> Flow[list[Turn]]:
        """The turns of one branch scope that stand in the context, in order; a preamble comes first.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        context = yield from self._context(session_id, branch=branch)
        return split_turns(context.events, branch)

    turns, aturns = faces(_turns)

    def _count(self, session_id: str, *, branch: str | None = None) -> Flow[Counters]:
        """How many events, turns and tokens are live in one branch scope, without loading any.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return (yield from ask(self.store.count_live, self.key(session_id), check_branch(branch), self.now()))

    count, acount = faces(_count)

    # -- state ---------------------------------------------------------------------------------------------

    def _state(self, session_id: str) -> Flow[dict[str, Any]]:
        """State as one dictionary: the session's keys, `user:` keys and `app:` keys.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        found = yield from ask(self.store.load_state, self.key(session_id), self.now())
        return merged_view(found.session, found.user, found.app)

    state, astate = faces(_state)

    def _rewind(
        self,
        session_id: str,
        *,
        before_invocation: str | None = None,
        to_seq: int | None = None,
        reset_thread: bool = False,
    ) -> Flow[RewindResult]:
        """Go back: what came after is hidden, and the session's state is what it was. Nothing is deleted.

        Args:
            session_id: The session.
            before_invocation: To before the first standing event of this invocation.
            to_seq: To how the log read at this position; 0 is the beginning. A position before another rewind
                undoes that one.
            reset_thread: On a LangGraph thread, go back even where no checkpoint remains to resume from.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: There is no such invocation or position.
        """
        one = (before_invocation is None) != (to_seq is None)
        require(one, "to_seq", "give either before_invocation or to_seq")
        require(to_seq is None or (type(to_seq) is int and to_seq >= 0), "to_seq", "give a position of the log")
        name = check_optional_id(before_invocation, "before_invocation")
        return (yield from self._go_back(session_id, name, to_seq, undo=False, reset_thread=reset_thread))

    rewind, arewind = faces(_rewind)

    def _undo_rewind(self, session_id: str) -> Flow[RewindResult]:
        """Take the newest standing rewind back: the log reads as it did just before it.

        What was appended since that rewind is hidden in turn.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: There is no rewind to undo.
        """
        return (yield from self._go_back(session_id, None, None, undo=True, reset_thread=False))

    undo_rewind, aundo_rewind = faces(_undo_rewind)

    def _go_back(
        self, session_id: str, before_invocation: str | None, to_seq: int | None, *, undo: bool, reset_thread: bool
    ) -> Flow[RewindResult]:
        now = self.now()
        plan = RewindPlan(
            record=self._record(r.REWIND, now),
            now=now,
            to_seq=to_seq,
            before_invocation=before_invocation,
            undo=undo,
            reset_thread=reset_thread,
        )
        done = yield from ask(self.store.rewind_events, self.key(session_id), plan)
        return RewindResult(seq=done.record.seq, to_seq=done.to_seq, kept_keys=done.kept_keys)

    # -- compaction's commit -------------------------------------------------------------------------------

    def _archive(
        self,
        session_id: str,
        covered: Iterable[int],
        *,
        base: Context,
        summary: Sequence[NewEvent] = (),
        details: Mapping[str, Any] | None = None,
    ) -> Flow[list[SessionEvent] | None]:
        """Archive events of one branch scope and put a summary in their place.

        A compare-and-set on its own range: valid as long as no rewind, edit or other compaction touched it since
        `base` was read. Appends meanwhile stay live and in place.

        Args:
            session_id: The session.
            covered: Positions of standing events of the scope `base.branch`.
            base: The context that they were chosen from.
            summary: Events that stand for them; without any, the summary in force stays.
            details: What the record says about it, such as strategy and token counts.

        Returns:
            The record and the summary events; None when the range was touched, and nothing was changed.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        now = self.now()
        record = self._record(r.COMPACTION, now)
        if details:
            extra = {"metadata": self.encoder.seal(dict(details), "details")}
            record = record._replace(extra=json.dumps(extra, separators=(",", ":")))
        plan = ArchivePlan(
            scope=base.branch,
            covered=SeqSet.of(covered),
            base_version=base.version,
            base_record=base.compaction,
            record=record,
            now=now,
            summaries=tuple(self.encoder.row(replace(event, synthetic=True), now) for event in summary),
            idle_before=self.idle_before(now),
        )
        rows = yield from ask(self.store.archive_events, self.key(session_id), plan)
        if rows is not None and self._search_settings is not None:
            yield from self._indexer().catch_up_quietly(self.key(session_id))
        return None if rows is None else [self.encoder.event(session_id, row, None) for row in rows]

    archive, aarchive = faces(_archive)

    def _compact(
        self,
        session_id: str,
        compaction: Compaction,
        *,
        branch: str | None = None,
        invocation_id: str | None = None,
        force: bool = False,
        call: ModelCall | None = None,
        automatic: bool = False,
    ) -> Flow[CompactionResult]:
        """Compact one branch scope of a session if it is time. Nothing is lost: what goes is archived.

        Args:
            session_id: The session.
            compaction: When and how; without a trigger it is always time.
            branch: The scope; None is root.
            invocation_id: The running invocation, whose events count and stay.
            force: Do not ask the trigger.
            call: What is known of the model call ahead: model, system prompt, tools, context window.
            automatic: Nobody asked for this run: whatever goes wrong becomes an outcome and is never raised, and
                a run that finds another one at work makes way.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        from langchain_sessions.compaction.workflow import compact_session

        return (
            yield from compact_session(
                self,
                session_id,
                compaction,
                branch=branch,
                invocation_id=invocation_id,
                force=force,
                call=call,
                automatic=automatic,
            )
        )

    compact, acompact = faces(_compact)

    def _compact_later(
        self, session_id: str, compaction: Compaction, *, branch: str | None = None, call: ModelCall | None = None
    ) -> Flow[bool]:
        """Compact in the background: on a thread, or as a task of the running loop. `close` waits for it.

        Args:
            session_id: The session.
            compaction: When and how; its `on_result` hears what came of it.
            branch: The scope; None is root.
            call: What is known of the model's calls.

        Returns:
            Whether a run was begun: there is never more than one of a scope.
        """
        place = (self.app, session_id, branch)

        def run() -> Flow[CompactionResult]:
            return self._compact(session_id, compaction, branch=branch, call=call, automatic=True)

        return (yield from ask(self.background.start, place, run))

    compact_later, acompact_later = faces(_compact_later)

    # -- maintenance ---------------------------------------------------------------------------------------

    def _verify(self, session_id: str) -> Flow[list[str]]:
        """Build everything that is derived from the log of a session anew; a line for each thing that differs.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        key = self.key(session_id)
        found = yield from ask(self.store.verify_session, key, self.now())
        return [*found, *((yield from self._indexer().verify(key)) if self._search_settings is not None else ())]

    verify, averify = faces(_verify)

    # -- recall --------------------------------------------------------------------------------------------

    def _search(
        self,
        query: str | re.Pattern[str],
        *,
        session_id: str | None = None,
        whole_app: bool = False,
        where: SearchFilter | None = None,
        mode: Literal["ranked", "literal"] = "ranked",
        order: Literal["relevance", "time"] = "relevance",
        limit: int = 10,
        page: int = 0,
        cursor: str | None = None,
        neighbours: int = 1,
        recency: float = 0.0,
    ) -> Flow[SearchPage]:
        """Find what was said, compacted or not: the best first, each hit with its neighbours and the reasons for it.

        What was just appended is found. What a rewind hid and revisions that an edit replaced are not, unless asked.

        Args:
            query: Words, a "phrase", prefix*, AND, OR, -not; nothing in it is an error. Or a compiled regular
                expression, from code only: then every event that it is found in, oldest first.
            session_id: The session; by default all sessions of this view's owner.
            whole_app: On the operator's service: search the sessions of everybody.
            where: Criteria beside the words.
            mode: `literal` finds every event that holds the text as it is, whatever its case, oldest first.
            order: `time` returns the hits of a page oldest first of all.
            limit: Hits per page.
            page: Which page, from 0.
            cursor: The `next_cursor` of an earlier page instead; it stays right while events are appended.
            neighbours: How many events to show on each side of a hit.
            recency: What an event of now gains in score; half of it is left after 30 days.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            SealedEventError: A log was written with an encrypting codec that this service does not have.
            InvalidInputError: A parameter other than the query cannot be used.
        """
        from langchain_sessions.recall.hits import SearchFilter  # noqa: PLC0415 - few services search
        from langchain_sessions.recall.search import Searcher, SearchRequest  # noqa: PLC0415

        everyone = isinstance(self._owner, Anyone)
        require(session_id is not None or whole_app or not everyone, "session_id", "give one, or whole_app=True")
        require(not whole_app or (everyone and session_id is None), "whole_app", "only the operator's service may")
        key = SessionKey(self.app, "" if session_id is None else check_id(session_id, "session_id"), self._owner)
        now = self.now()
        request = SearchRequest(
            text=query,
            scope=LogScope(
                app=key.app, owner=key.owner, session_id=session_id, now=now, idle_before=self.idle_before(now)
            ),
            where=SearchFilter() if where is None else where,
            mode=mode,
            order=order,
            limit=limit,
            page=page,
            cursor=cursor,
            neighbours=neighbours,
            recency=recency,
        )
        return (yield from Searcher(self.store, self.encoder, self._indexer()).search(request))

    search, asearch = faces(_search)

    def _reindex(
        self, session_id: str | None = None, *, progress: Callable[[str, int], None] | None = None
    ) -> Flow[int]:
        """Bring the index of recall up to date; how many events were added to it.

        Nobody has to: appends and searches do. It spares the first search of an imported log the wait, and that after
        a release or a language that makes other terms. It may be stopped at any time and goes on where it was.

        Args:
            session_id: The session; by default all sessions that this view reaches.
            progress: Told the id of each session and how many of its events were added.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        if session_id is None:
            return (yield from self._indexer().reindex(self.app, self._owner, progress))
        added = yield from self._indexer().catch_up(self.key(session_id))
        if progress is not None:
            progress(session_id, added)
        return added

    reindex, areindex = faces(_reindex)

    def _indexer(self) -> Indexer:
        from langchain_sessions.recall.indexing import Indexer  # noqa: PLC0415 - few services search

        settings = self._search_settings
        if settings is None:
            raise InvalidInputError("search", "this service was built with search=False")
        return Indexer(self.store, self.codec, settings.engine, self.now)

    def _record(self, kind: int, now: int) -> EventRow:
        """A record of something that happens to a log."""
        name = uuid.uuid4().hex
        return EventRow(0, name, 0, None, None, kind, 0, now, 0, None, None, None, None, None, None, None, None)

    def session_of(self, row: SessionRow) -> Session:
        """The public value of a session row."""
        return Session(
            id=row.id,
            app=row.app,
            user_id=row.user_id,
            title=row.title,
            created_at=from_micros(row.created_at),
            updated_at=from_micros(row.updated_at),
            expires_at=None if row.expires_at is None else from_micros(row.expires_at),
            ended_at=None if row.ended_at is None else from_micros(row.ended_at),
            metadata=json.loads(row.metadata),
            version=row.last_seq,
            message_count=row.live_events,
            turn_count=row.live_turns,
            token_count=row.live_tokens,
        )


_EVERYTHING = EventFilter()


def _search_settings(given: bool | SearchSettings) -> SearchSettings | None:  # noqa: FBT001 - as users give it
    if isinstance(given, SearchSettings):
        return given
    return SearchSettings() if given else None


def _encrypts(codec: SerializerProtocol | None, given: bool | None) -> bool:
    if codec is None:
        return False
    if given is not None:
        return given
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    return isinstance(codec, EncryptedSerializer)


def _sql_store(database: Any, **options: Any) -> SessionStore:
    from langchain_sessions.stores.sql.store import SqlStore

    return SqlStore(database, **options)


def _duration(ttl: timedelta | None) -> int | None:
    return None if ttl is None else check_duration(ttl, "time_to_live")


def _with_state(draft: SessionDraft, state: Mapping[str, Any] | None) -> SessionDraft:
    """The draft with its initial state, scoped keys apart."""
    if not state:
        return draft
    stored = dump_delta(state, "state")
    scoped = {key: value for key, value in state.items() if key.startswith((USER, APP))}
    own = {key: value for key, value in json.loads(stored or "{}").items() if key not in scoped and value is not None}
    return replace(draft, state=dump_exact(own, "state"), scoped_delta=dump_delta(scoped, "state"))


def _with_delta(
    events: list[BaseMessage | NewEvent], delta: Mapping[str, Any], shared: NewEvent
) -> list[BaseMessage | NewEvent]:
    """The events with a batch's state delta on the first; an event of its own where there is none."""
    if all(isinstance(key, str) and key.startswith(TEMP) for key in delta):
        return events
    if not events:
        return [replace(shared, state_delta=delta)]
    first = events[0]
    if not isinstance(first, NewEvent):
        first = replace(shared, message=first)
    return [replace(first, state_delta={**delta, **(first.state_delta or {})}), *events[1:]]
