"""What a store keeps for recall: packed chunks of an index beside the log, and the logs themselves to scan.

The index belongs to the log: it lags behind it, it is deleted with it, and it can always be built anew. A store does
not know what is in a chunk. One that keeps no index answers everything from the log, which is what the functions here
do for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions import rows as r
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.rows import EventRow, SessionKey, SessionRow

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from langchain_sessions.ledger import LogView
    from langchain_sessions.rows import Owner
    from langchain_sessions.runs import SeqSet
    from langchain_sessions.stores.base import EventQuery, EventSlice, SessionStore

_PAGE = 200
SCANNED_AT_ONCE: Final = 4096
"""About how many events one step of a scan goes through."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogScope:
    """Which logs are searched: one session, or all sessions of an owner within an app.

    Attributes:
        app: The app.
        owner: Whose sessions.
        session_id: The only session; None for all.
        now: The present; expired sessions are not there.
        idle_before: Open invocations not touched since count as failed.
    """

    app: str
    owner: Owner
    session_id: str | None
    now: int
    idle_before: int = 0

    @property
    def key(self) -> SessionKey:
        """The key of the one session; its id is empty where there are many."""
        return SessionKey(self.app, self.session_id or "", self.owner)


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexQuery:
    """What to read of the index.

    Attributes:
        scope: Of which logs.
        fingerprint: Only what was built like this counts.
        buckets: Buckets of terms.
        beginnings: Also buckets that begin so.
        most_scanned: How many events may be left to scan; above that nothing is read but what lags behind.
        held: Facts that the caller has: key of the session, number of the chunk, generation that wrote it.
    """

    scope: LogScope
    fingerprint: str
    buckets: tuple[str, ...]
    beginnings: tuple[str, ...] = ()
    most_scanned: int = 0
    held: Container[tuple[int, int, int]] = ()


class StoredChunk(NamedTuple):
    """A chunk of the index. It never changes: a merged one is written anew.

    Attributes:
        number: Its number in its log.
        last_seq: The position up to which it goes.
        events: How many events it holds.
        terms: How many terms they have in all.
        written: The generation of the index that wrote it.
        facts: What the index knows of its events, packed; empty where the caller has it.
    """

    number: int
    last_seq: int
    events: int
    terms: int
    written: int
    facts: bytes


class IndexedLog(NamedTuple):
    """One log as search reads it: its chunks, the asked buckets by chunk, and the events after the last chunk."""

    session: SessionRow
    view: LogView
    chunks: tuple[StoredChunk, ...]
    buckets: Mapping[int, Mapping[str, bytes]]
    tail: list[EventRow]


class IndexRead(NamedTuple):
    """The answer to an `IndexQuery`: the logs; or, where the index lags too far behind, whose it is."""

    logs: list[IndexedLog]
    behind: list[SessionKey]


class IndexPlace(NamedTuple):
    """How far the index of a log goes.

    Attributes:
        skey: The session's own key.
        last_seq: The log's newest position.
        indexed_to: The newest position in the index; 0 where there is none of this fingerprint.
        generation: Counts changes of the index; 0 where there is none at all.
        chunks: Number and events of each chunk, in order.
    """

    skey: int
    last_seq: int
    indexed_to: int
    generation: int
    chunks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexChange:
    """One step forward of an index, valid as long as nobody else made one.

    Attributes:
        place: What it was planned from.
        fingerprint: How it was built.
        indexed_to: The newest position in the index afterwards.
        replaced: Chunks that the new one takes the place of; it gets the number of the first.
        chunk: The new chunk; None where the new events hold nothing to search.
        buckets: Its terms by bucket.
    """

    place: IndexPlace
    fingerprint: str
    indexed_to: int
    replaced: tuple[int, ...] = ()
    chunk: StoredChunk | None = None
    buckets: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class LogSlice(NamedTuple):
    """Rows of one of several logs."""

    session: SessionRow
    rows: EventSlice


def sessions_in(store: SessionStore, scope: LogScope) -> Iterator[SessionRow]:
    """The sessions of a scope.

    Raises:
        SessionNotFoundError: The one session is not there.
    """
    from langchain_sessions.stores.base import SessionQuery

    if scope.session_id is not None:
        found = store.find_session(scope.key, scope.now)
        if found is None:
            raise SessionNotFoundError(scope.session_id)
        yield found
        return
    after: tuple[int, ...] | None = None
    while True:
        query = SessionQuery(app=scope.app, owner=scope.owner, now=scope.now, limit=_PAGE, after=after)
        page = store.list_sessions(query)
        yield from page.rows
        if page.after is None:
            return
        after = page.after


class LogScan(NamedTuple):
    """One stretch of several logs: what meets a query there, and the place to go on from; None at the end."""

    slices: list[LogSlice]
    after: tuple[int, int] | None


class Stretch(NamedTuple):
    """What one step of a scan reads: whole sessions, or positions of one that are above `low` and up to `high`."""

    sessions: list[SessionRow]
    low: int
    high: int
    after: tuple[int, int] | None


def next_stretch(sessions: Iterable[SessionRow], after: tuple[int, int]) -> Stretch | None:
    """The next step of a scan over sessions in the order of their keys; None where nothing is left.

    Args:
        sessions: All sessions of the scope.
        after: Key and position up to which was read.
    """
    left = [session for session in sorted(sessions) if (session.skey, session.last_seq) > after]
    if not left:
        return None
    first = left[0]
    low = after[1] if first.skey == after[0] else 0
    high = min(first.last_seq, low + SCANNED_AT_ONCE)
    taken = 1
    size = high - low
    while not low and high == first.last_seq and taken < len(left) and size + left[taken].last_seq <= SCANNED_AT_ONCE:
        size += left[taken].last_seq
        taken += 1
    last = left[taken - 1]
    if taken > 1:
        high = max(session.last_seq for session in left[:taken])
    more = taken < len(left) or (taken == 1 and high < first.last_seq)
    reached = (last.skey, high if taken == 1 else last.last_seq)
    return Stretch(left[:taken], low, high, reached if more else None)


def scan_logs(store: SessionStore, scope: LogScope, query: EventQuery, after: tuple[int, int]) -> LogScan:
    """One stretch of the logs of a scope."""
    stretch = next_stretch(sessions_in(store, scope), after)
    if stretch is None:
        return LogScan([], None)
    wanted = replace(query, after_seq=stretch.low, before_seq=stretch.high + 1)
    return LogScan(_slices(store, scope, wanted, stretch.sessions), stretch.after)


def _slices(store: SessionStore, scope: LogScope, query: EventQuery, sessions: Iterable[SessionRow]) -> list[LogSlice]:
    found: list[LogSlice] = []
    for session in sessions:
        try:
            rows = store.find_events(SessionKey(session.app, session.id, session.user_id), query, scope.now)
        except SessionNotFoundError:  # deleted in between
            continue
        if rows.rows or scope.session_id is not None:
            found.append(LogSlice(session, rows))
    return found


def scan_index(store: SessionStore, scope: LogScope) -> IndexRead:
    """All messages of a scope as one tail per log: what a store answers that keeps no index."""
    from langchain_sessions.stores.base import EventQuery

    messages = EventQuery(kinds=frozenset(range(r.HUMAN, r.FIRST_RECORD)), idle_before=scope.idle_before)
    logs = _slices(store, scope, messages, sessions_in(store, scope))
    return IndexRead([IndexedLog(log.session, log.rows.view, (), {}, log.rows.rows) for log in logs], [])


def pick_events(store: SessionStore, scope: LogScope, places: Mapping[str, SeqSet]) -> list[LogSlice]:
    """Rows at some positions of some sessions."""
    from langchain_sessions.stores.base import EventQuery

    found: list[LogSlice] = []
    for session_id, seqs in places.items():
        key = SessionKey(scope.app, session_id, scope.owner)
        session = store.find_session(key, scope.now)
        if session is None or not seqs:
            continue
        query = EventQuery(
            after_seq=seqs.runs[0][0] - 1, before_seq=seqs.runs[-1][1] + 1, idle_before=scope.idle_before
        )
        try:
            rows = store.find_events(key, query, scope.now)
        except SessionNotFoundError:  # deleted in between
            continue
        found.append(LogSlice(session, rows._replace(rows=[row for row in rows.rows if row.seq in seqs])))
    return found
