"""Going through the logs of a scope one after the other: what a store may do, and one that keeps no index does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._core.kinds import MESSAGE_CODES
from langchain_sessions._core.rows import SessionKey, SessionRow
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores.base import IndexStore, LogStore
from langchain_sessions.stores.values import (
    EventQuery,
    IndexedLog,
    IndexPlace,
    IndexRead,
    LogScan,
    LogScope,
    LogSlice,
    SessionQuery,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores.values import IndexChange, IndexQuery, StoredChunk

_PAGE = 200
SCANNED_AT_ONCE: Final = 4096
"""About how many events one step of a scan goes through."""


def sessions_in(store: LogStore, scope: LogScope) -> Iterator[SessionRow]:
    """The sessions of a scope.

    Raises:
        SessionNotFoundError: The one session is not there.
    """
    if scope.session_id is not None:
        found = store.find_session(scope.key, scope.now)
        if found is None:
            raise SessionNotFoundError(scope.session_id)
        yield found
        return
    after: tuple[int, int] | None = None
    while True:
        query = SessionQuery(app=scope.app, owner=scope.owner, now=scope.now, limit=_PAGE, after=after)
        page = store.list_sessions(query)
        for heading in page.rows:
            found = store.find_session(SessionKey(heading.app, heading.id, heading.user_id), scope.now)
            if found is not None:  # not deleted in between
                yield found
        if page.after is None:
            return
        after = page.after


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


def scan_logs(store: LogStore, scope: LogScope, query: EventQuery, after: tuple[int, int]) -> LogScan:
    """One stretch of the logs of a scope."""
    stretch = next_stretch(sessions_in(store, scope), after)
    if stretch is None:
        return LogScan([], None)
    wanted = replace(query, after_seq=stretch.low, before_seq=stretch.high + 1)
    return LogScan(_slices(store, scope, wanted, stretch.sessions), stretch.after)


def _slices(store: LogStore, scope: LogScope, query: EventQuery, sessions: Iterable[SessionRow]) -> list[LogSlice]:
    found: list[LogSlice] = []
    for session in sessions:
        try:
            rows = store.find_events(SessionKey(session.app, session.id, session.user_id), query, scope.now)
        except SessionNotFoundError:  # deleted in between
            continue
        if rows.rows or scope.session_id is not None:
            found.append(LogSlice(session, rows))
    return found


def scan_index(store: LogStore, scope: LogScope) -> IndexRead:
    """All messages of a scope as one tail per log: what a store answers that keeps no index."""
    messages = EventQuery(kinds=MESSAGE_CODES, idle_before=scope.idle_before)
    logs = _slices(store, scope, messages, sessions_in(store, scope))
    return IndexRead([IndexedLog(log.session, log.rows.view, (), {}, log.rows.rows) for log in logs], [])


def pick_events(store: LogStore, scope: LogScope, places: Mapping[str, SeqSet]) -> list[LogSlice]:
    """Rows at some positions of some sessions."""
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


class ScannedIndex(LogStore, IndexStore):
    """The part of a store that keeps no index: a search goes through the logs themselves."""

    def load_index(self, query: IndexQuery) -> IndexRead:
        return scan_index(self, query.scope)

    def find_index(self, key: SessionKey, fingerprint: str, now: int) -> IndexPlace:
        del fingerprint
        session = self.find_session(key, now)
        if session is None:
            raise SessionNotFoundError(key.id)
        return IndexPlace(session.skey, session.last_seq, session.last_seq, 0, ())

    def load_chunks(
        self, key: SessionKey, place: IndexPlace, numbers: Sequence[int], now: int
    ) -> list[tuple[StoredChunk, dict[str, bytes]]] | None:
        del key, place, numbers, now
        return []

    def write_index(self, key: SessionKey, change: IndexChange, now: int) -> bool:
        del key, change, now
        return False

    def scan_logs(self, scope: LogScope, query: EventQuery, after: tuple[int, int] = (0, 0)) -> LogScan:
        return scan_logs(self, scope, query, after)

    def load_events(self, scope: LogScope, places: Mapping[str, SeqSet]) -> list[LogSlice]:
        return pick_events(self, scope, places)
