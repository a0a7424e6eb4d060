"""The store in memory: the reference behaviour in plain lists under one lock. It forgets when the process ends."""

from __future__ import annotations

import threading
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from langchain_sessions._core.drafts import merged_changes, new_session_row
from langchain_sessions._core.matching import cut_window, matches
from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, Owner, SessionKey, SessionRow
from langchain_sessions._core.state import merge_scoped, require_owner, split_delta
from langchain_sessions._core.view import context_rows
from langchain_sessions.errors import EventNotFoundError, SessionExistsError, SessionNotFoundError
from langchain_sessions.stores.base import SessionStore
from langchain_sessions.stores.defaults import ScannedIndex
from langchain_sessions.stores.memory.log import MemoryLog
from langchain_sessions.stores.values import (
    AppendBatch,
    Appended,
    ArchivePlan,
    ContextSlice,
    EventQuery,
    EventSlice,
    RewindPlan,
    Rewound,
    ScopeMeasure,
    SessionDraft,
    SessionQuery,
    SessionSlice,
    StateRows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores.values import LogScope, VectorChange, VectorPlace

P = ParamSpec("P")
T = TypeVar("T")


def _locked(method: Callable[Concatenate[MemoryStore, P], T]) -> Callable[Concatenate[MemoryStore, P], T]:
    @wraps(method)
    def run(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return run


class MemoryStore(ScannedIndex, SessionStore):
    """Keeps logs in this process. For tests and trials, and to say what every other store must do."""

    waits = False

    def __init__(self) -> None:
        """An empty store."""
        self._lock = threading.RLock()
        self._logs: dict[tuple[str, str], MemoryLog] = {}
        self._user_state: dict[tuple[str, str], dict[str, str]] = {}
        self._app_state: dict[str, dict[str, str]] = {}
        self._tombstones: dict[tuple[str, str], int] = {}
        self._keys = count(1)

    def create_schema(self) -> None:
        """Nothing to create."""

    def close(self) -> None:
        """Nothing to release."""

    def _find(self, key: SessionKey, now: int) -> MemoryLog | None:
        log = self._logs.get((key.app, key.id))
        return None if log is None or not key.admits(log.session.user_id) or log.is_expired(now) else log

    def _get(self, key: SessionKey, now: int) -> MemoryLog:
        log = self._find(key, now)
        if log is None:
            raise SessionNotFoundError(key.id)
        return log

    def _owned(self, app: str, owner: Owner) -> list[MemoryLog]:
        key = SessionKey(app, "", owner)
        return [log for place, log in self._logs.items() if place[0] == app and key.admits(log.session.user_id)]

    # -- sessions ------------------------------------------------------------------------------------------

    @_locked
    def create_session(self, draft: SessionDraft) -> SessionRow:
        log = self._logs.get((draft.app, draft.id))
        if log is not None and (not log.is_expired(draft.now) or log.session.user_id != draft.user_id):
            raise SessionExistsError(draft.id)
        return self._add(draft).session

    def _add(self, draft: SessionDraft) -> MemoryLog:
        """A new log, in the place of an expired one if there is any."""
        require_owner(draft.user_id, [draft.scoped_delta])
        row = new_session_row(next(self._keys), draft)
        log = self._logs[draft.app, draft.id] = MemoryLog(row)
        self._tombstones.pop((draft.app, draft.id), None)
        self._change_scoped(row, [draft.scoped_delta])
        return log

    @_locked
    def open_session(self, draft: SessionDraft) -> SessionRow:
        place = (draft.app, draft.id)
        log = self._logs.get(place)
        if log is None:
            if not draft.anew and self._tombstones.get(place, 0) > draft.now:
                raise SessionNotFoundError(draft.id)
            return self._add(draft).session
        if log.session.user_id != draft.user_id:
            raise SessionNotFoundError(draft.id)
        return self._add(draft).session if log.is_expired(draft.now) else log.counted

    @_locked
    def find_session(self, key: SessionKey, now: int) -> SessionRow | None:
        log = self._find(key, now)
        return None if log is None else log.counted

    @_locked
    def list_sessions(self, query: SessionQuery) -> SessionSlice:
        rows = [log.counted for log in self._owned(query.app, query.owner) if not log.is_expired(query.now)]
        rows.sort(key=lambda row: (row.updated_at, row.skey), reverse=True)
        if query.after is not None:
            rows = [row for row in rows if (row.updated_at, row.skey) < tuple(query.after[:2])]
        page = rows[: query.limit]
        more = len(rows) > query.limit
        return SessionSlice([row.heading for row in page], (page[-1].updated_at, page[-1].skey) if more else None)

    @_locked
    def update_session(self, key: SessionKey, changes: Mapping[str, Any], now: int) -> SessionRow:
        log = self._get(key, now)
        values = merged_changes(log.session, changes)
        log.session = log.session._replace(**values, updated_at=now, activity=now)
        return log.counted

    @_locked
    def end_session(self, key: SessionKey, record: EventRow, ended_at: int | None, now: int) -> SessionRow:
        log = self._get(key, now)
        if (log.session.ended_at is None) != (ended_at is None):
            log.write((record._replace(seq=log.session.last_seq + 1),), now)
            log.session = log.session._replace(ended_at=ended_at)
        return log.counted

    @_locked
    def delete_session(self, key: SessionKey, now: int, tombstone_until: int) -> bool:
        log = self._find(key, now)
        if log is None:
            return False
        del self._logs[key.app, key.id]
        self._tombstones[key.app, key.id] = tombstone_until
        return True

    @_locked
    def delete_user(self, app: str, user_id: str, now: int, tombstone_until: int) -> int:
        del now
        mine = [log.session.id for log in self._owned(app, user_id)]
        for session_id in mine:
            del self._logs[app, session_id]
            self._tombstones[app, session_id] = tombstone_until
        self._user_state.pop((app, user_id), None)
        return len(mine)

    @_locked
    def purge_expired(self, app: str, owner: Owner, now: int, limit: int) -> int:
        self._tombstones = {place: until for place, until in self._tombstones.items() if until > now}
        gone = [log.session.id for log in self._owned(app, owner) if log.is_expired(now)][:limit]
        for session_id in gone:
            del self._logs[app, session_id]
        return len(gone)

    @_locked
    def fork_session(self, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> SessionRow:
        source = self._get(key, draft.now)
        upto = source.session.last_seq if at_seq is None else at_seq
        if not 0 <= upto <= source.session.last_seq:
            raise EventNotFoundError(key.id, f"position {upto}")
        if (draft.app, draft.id) in self._logs:
            raise SessionExistsError(draft.id)
        log = self._add(draft)
        log.copy_from(source, upto)
        return log.counted

    # -- the log -------------------------------------------------------------------------------------------

    @_locked
    def append_events(self, key: SessionKey, batch: AppendBatch) -> Appended:
        log = self._get(key, batch.now)
        appended, deltas = log.append(batch)
        self._change_scoped(log.session, deltas)
        return appended

    @_locked
    def append_record(self, key: SessionKey, record: EventRow, now: int) -> EventRow:
        log = self._get(key, now)
        row = record._replace(seq=log.session.last_seq + 1)
        log.write((row,), now)
        return row

    @_locked
    def find_events(self, key: SessionKey, query: EventQuery, now: int) -> EventSlice:
        log = self._get(key, now)
        view = log.view(query.idle_before)
        return cut_window((row for row in log.events if matches(row, query, view)), query, view)

    @_locked
    def load_context(
        self,
        key: SessionKey,
        viewer: str | None,
        invocation_id: str | None,
        last_n: int | None,
        now: int,
        idle_before: int,
    ) -> ContextSlice:
        log = self._get(key, now)
        view = log.view(idle_before)
        return ContextSlice(log.counted, context_rows(log.events, view, viewer, invocation_id, last_n), view)

    @_locked
    def rewind_events(self, key: SessionKey, plan: RewindPlan) -> Rewound:
        return self._get(key, plan.now).rewind(plan)

    @_locked
    def archive_events(self, key: SessionKey, plan: ArchivePlan) -> tuple[EventRow, ...] | None:
        return self._get(key, plan.now).archive(plan)

    @_locked
    def count_live(self, key: SessionKey, scope: str | None, now: int) -> Counters:
        return self._get(key, now).count(scope)

    @_locked
    def measure_scope(self, key: SessionKey, scope: str | None, now: int) -> ScopeMeasure:
        log = self._get(key, now)
        return ScopeMeasure(log.counted, log.count(scope))

    @_locked
    def lease_scope(self, key: SessionKey, scope: str | None, holder: str, now: int, until: int) -> bool:
        log = self._get(key, now)
        held = log.leases.get(scope)
        if held is not None and held[0] != holder and held[1] > now:
            return False
        log.leases[scope] = (holder, until)
        return True

    @_locked
    def find_invocation(self, key: SessionKey, invocation_id: str, now: int) -> InvocationRow | None:
        log = self._find(key, now)
        return None if log is None else log.invocations.get(invocation_id)

    # -- state ---------------------------------------------------------------------------------------------

    @_locked
    def load_state(self, key: SessionKey, now: int) -> StateRows:
        session = self._get(key, now).session
        user = self._user_state.get((session.app, session.user_id), {}) if session.user_id is not None else {}
        return StateRows(session.state, dict(user), dict(self._app_state.get(session.app, {})))

    def _change_scoped(self, session: SessionRow, deltas: Iterable[str | None]) -> None:
        app, user_id = session.app, session.user_id
        for delta in deltas:
            split = split_delta(delta)
            if split.app:
                self._app_state[app] = merge_scoped(self._app_state.get(app, {}), split.app)
            if split.user and user_id is not None:
                mine = self._user_state.get((app, user_id), {})
                self._user_state[app, user_id] = merge_scoped(mine, split.user)

    # -- maintenance ---------------------------------------------------------------------------------------

    @_locked
    def verify_session(self, key: SessionKey, now: int) -> list[str]:
        return self._get(key, now).problems()

    # -- vectors -------------------------------------------------------------------------------------------

    @_locked
    def list_vectors(self, scope: LogScope) -> list[VectorPlace]:
        found = (log.vector_place for log in self._owned(scope.app, scope.owner) if not log.is_expired(scope.now))
        return sorted(place for place in found if scope.session_id in (None, place.session_id))

    @_locked
    def find_vectors(self, key: SessionKey, now: int) -> VectorPlace:
        return self._get(key, now).vector_place

    @_locked
    def load_vectors(self, places: Mapping[VectorPlace, SeqSet]) -> dict[tuple[int, int], bytes]:
        logs = {log.session.skey: log for log in self._logs.values()}
        return {
            (place.skey, seq): log.vectors[seq]
            for place, seqs in places.items()
            if (log := logs.get(place.skey)) is not None and log.vector_place.generation == place.generation
            for seq in seqs
            if seq in log.vectors
        }

    @_locked
    def write_vectors(self, key: SessionKey, change: VectorChange, now: int) -> bool:
        log = self._find(key, now)
        return log is not None and log.add_vectors(change)
