"""The store in memory: the reference behaviour in plain lists under one lock. It forgets when the process ends."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from langchain_sessions import rows as r
from langchain_sessions.errors import (
    EventNotFoundError,
    SessionEndedError,
    SessionExistsError,
    SessionNotFoundError,
)
from langchain_sessions.ledger import Ledger, LogView
from langchain_sessions.rows import (
    Counters,
    EventRow,
    InvocationRow,
    Mark,
    Owner,
    SessionKey,
    SessionRow,
)
from langchain_sessions.runs import decode_runs
from langchain_sessions.state import apply_deltas, scoped_keys, split_delta
from langchain_sessions.stores import base, placing
from langchain_sessions.stores.matching import cut_window, matches, sees
from langchain_sessions.stores.vectors import VectorChange, VectorPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from langchain_sessions.runs import SeqSet
    from langchain_sessions.stores.indexing import LogScope

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Log:
    """One session and all that it holds."""

    session: SessionRow
    events: list[EventRow] = field(default_factory=list[EventRow])
    marks: list[Mark] = field(default_factory=list[Mark])
    invocations: dict[str, InvocationRow] = field(default_factory=dict[str, InvocationRow])
    leases: dict[str | None, tuple[str, int]] = field(default_factory=dict[str | None, tuple[str, int]])
    vectors: dict[int, bytes] = field(default_factory=dict[int, bytes])
    embedded: tuple[int, int, str] = (0, 0, "")

    @property
    def vector_place(self) -> VectorPlace:
        """How far its vectors go."""
        return VectorPlace(self.session.skey, self.session.id, self.session.last_seq, *self.embedded)

    def view(self, idle_before: int) -> LogView:
        """Where its events stand."""
        head = None if self.session.head_runs is None else tuple(decode_runs(self.session.head_runs))
        standings = placing.open_invocations(self.invocations.values(), idle_before)
        return LogView(Ledger.decode(self.session.ledger), head, standings, self.session.last_seq)

    def write(self, rows: tuple[EventRow, ...], now: int) -> None:
        """Append rows that have their positions already, and what follows from them."""
        self.events.extend(rows)
        self.marks.extend(placing.marks_of(rows))
        for row in rows:
            self._note_invocation(row, now)
        renewed = self.session.expires_at
        if self.session.renewal is not None and self.session.renewal_grain is not None and renewed is not None:
            due = now + self.session.renewal
            renewed = due if due - renewed >= self.session.renewal_grain else renewed
        self.session = self.session._replace(
            last_seq=self.session.last_seq + len(rows), updated_at=now, activity=now, expires_at=renewed
        )

    def _note_invocation(self, row: EventRow, now: int) -> None:
        if row.invocation_id is None:
            return
        mark = row.flags >> r.MARK_SHIFT & 7
        known = self.invocations.get(row.invocation_id)
        status = mark or (known.status if known else r.MARKS["done"])
        first = known.first_seq if known else row.seq
        self.invocations[row.invocation_id] = InvocationRow(row.invocation_id, first, status, now)


def _locked(method: Callable[Concatenate[MemoryStore, P], T]) -> Callable[Concatenate[MemoryStore, P], T]:
    @wraps(method)
    def run(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return run


def _direct(
    method: Callable[Concatenate[MemoryStore, P], T],
) -> Callable[Concatenate[MemoryStore, P], Coroutine[Any, Any, T]]:
    """The async twin: nothing here waits for anything but a short lock."""

    @wraps(method)
    async def run(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self, *args, **kwargs)

    run.__name__ = f"a{method.__name__}"
    return run


class MemoryStore(base.SessionStore):
    """Keeps logs in this process. For tests and trials, and to say what every other store must do."""

    def __init__(self) -> None:
        """An empty store."""
        self._lock = threading.RLock()
        self._logs: dict[tuple[str, str], _Log] = {}
        self._user_state: dict[tuple[str, str], dict[str, str]] = {}
        self._app_state: dict[str, dict[str, str]] = {}
        self._tombstones: dict[tuple[str, str], int] = {}
        self._keys = count(1)

    def create_schema(self) -> None:
        """Nothing to create."""

    def close(self) -> None:
        """Nothing to release."""

    def _find(self, key: SessionKey, now: int) -> _Log | None:
        log = self._logs.get((key.app, key.id))
        if log is None or not key.admits(log.session.user_id):
            return None
        expires = log.session.expires_at
        return None if expires is not None and expires <= now else log

    def _get(self, key: SessionKey, now: int) -> _Log:
        log = self._find(key, now)
        if log is None:
            raise SessionNotFoundError(key.id)
        return log

    # -- sessions ------------------------------------------------------------------------------------------

    @_locked
    def create_session(self, draft: base.SessionDraft) -> SessionRow:
        place = (draft.app, draft.id)
        log = self._logs.get(place)
        if log is not None:
            expired = log.session.expires_at is not None and log.session.expires_at <= draft.now
            if not expired or log.session.user_id != draft.user_id:
                raise SessionExistsError(draft.id)
            del self._logs[place]
        return self._add(draft).session

    def _add(self, draft: base.SessionDraft) -> _Log:
        placing.require_owner(draft.user_id, [draft.scoped_delta])
        row = placing.new_session_row(next(self._keys), draft)
        log = self._logs[draft.app, draft.id] = _Log(row)
        self._tombstones.pop((draft.app, draft.id), None)
        self._change_scoped(log, [draft.scoped_delta])
        return log

    @_locked
    def open_session(self, draft: base.SessionDraft) -> SessionRow:
        place = (draft.app, draft.id)
        log = self._logs.get(place)
        if log is None:
            if not draft.anew and self._tombstones.get(place, 0) > draft.now:
                raise SessionNotFoundError(draft.id)
            return self._add(draft).session
        if log.session.user_id != draft.user_id:
            raise SessionNotFoundError(draft.id)
        if log.session.expires_at is not None and log.session.expires_at <= draft.now:
            del self._logs[place]
            return self._add(draft).session
        return self._counted(log)

    @_locked
    def find_session(self, key: SessionKey, now: int) -> SessionRow | None:
        log = self._find(key, now)
        return None if log is None else self._counted(log)

    def _counted(self, log: _Log) -> SessionRow:
        counters = placing.count_scope(log.events, log.view(0), None)
        return log.session._replace(live_events=counters.events, live_turns=counters.turns, live_tokens=counters.tokens)

    @_locked
    def list_sessions(self, query: base.SessionQuery) -> base.SessionSlice:
        key = SessionKey(query.app, "", query.owner)
        rows = [
            self._counted(log)
            for (app, _), log in self._logs.items()
            if app == query.app
            and key.admits(log.session.user_id)
            and (log.session.expires_at is None or log.session.expires_at > query.now)
        ]
        rows.sort(key=lambda row: (row.updated_at, row.skey), reverse=True)
        if query.after is not None:
            rows = [row for row in rows if (row.updated_at, row.skey) < tuple(query.after[:2])]
        page = rows[: query.limit]
        more = len(rows) > query.limit
        return base.SessionSlice(page, (page[-1].updated_at, page[-1].skey) if more else None)

    @_locked
    def update_session(self, key: SessionKey, changes: Mapping[str, Any], now: int) -> SessionRow:
        log = self._get(key, now)
        values = placing.merged_changes(log.session, changes)
        log.session = log.session._replace(**values, updated_at=now, activity=now)
        return self._counted(log)

    @_locked
    def end_session(self, key: SessionKey, record: EventRow, ended_at: int | None, now: int) -> SessionRow:
        log = self._get(key, now)
        if (log.session.ended_at is None) != (ended_at is None):
            log.write((record._replace(seq=log.session.last_seq + 1),), now)
            log.session = log.session._replace(ended_at=ended_at)
        return self._counted(log)

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
        mine = [log.session.id for (a, _), log in self._logs.items() if a == app and log.session.user_id == user_id]
        for session_id in mine:
            del self._logs[app, session_id]
            self._tombstones[app, session_id] = tombstone_until
        self._user_state.pop((app, user_id), None)
        return len(mine)

    @_locked
    def purge_expired(self, app: str, owner: Owner, now: int, limit: int) -> int:
        self._tombstones = {place: until for place, until in self._tombstones.items() if until > now}
        key = SessionKey(app, "", owner)
        gone = [
            place
            for place, log in self._logs.items()
            if place[0] == app
            and key.admits(log.session.user_id)
            and log.session.expires_at is not None
            and log.session.expires_at <= now
        ][:limit]
        for place in gone:
            del self._logs[place]
        return len(gone)

    @_locked
    def fork_session(self, key: SessionKey, draft: base.SessionDraft, at_seq: int | None) -> SessionRow:
        source = self._get(key, draft.now)
        upto = source.session.last_seq if at_seq is None else at_seq
        if not 0 <= upto <= source.session.last_seq:
            raise EventNotFoundError(key.id, f"position {upto}")
        if (draft.app, draft.id) in self._logs:
            raise SessionExistsError(draft.id)
        log = self._add(draft)
        log.events = source.events[:upto]
        log.marks = [mark for mark in source.marks if mark.seq <= upto]
        log.invocations = {name: row for name, row in source.invocations.items() if row.first_seq <= upto}
        ledger = Ledger.of(log.marks, upto)
        log.session = log.session._replace(
            last_seq=upto,
            ledger=ledger.encode(),
            initial_state=source.session.initial_state,
            aliased=source.session.aliased,
        )
        log.session = log.session._replace(state=self._replayed(log, ledger))
        return self._counted(log)

    # -- the log -------------------------------------------------------------------------------------------

    @_locked
    def append_events(self, key: SessionKey, batch: base.AppendBatch) -> base.Appended:
        log = self._get(key, batch.now)
        if log.session.ended_at is not None:
            raise SessionEndedError(key.id)
        last = log.session.last_seq
        idents, ids = {row.ident for row in batch.rows}, {row.id for row in batch.rows}
        existing = [row for row in log.events if row.ident in idents or row.id in ids]
        view = log.view(batch.idle_before)
        placing.require_version(key.id, batch, existing, view, last)
        placed = placing.place_batch(key.id, batch, existing, view, last)
        placing.require_owner(log.session.user_id, [row.delta for row in placed.fresh])
        if not placed.fresh:
            self._touch_invocations(log, batch)
            return base.Appended(placed.rows, last, log.view(batch.idle_before))
        ledger = view.ledger
        for edit in placed.edits:
            ledger = ledger.with_edit(edit)
        log.write(placed.fresh, batch.now)
        self._touch_invocations(log, batch)
        deltas = [row.delta for row in placed.fresh if row.delta is not None]
        log.session = log.session._replace(
            ledger=ledger.encode(), state=apply_deltas(log.session.state, deltas) if deltas else log.session.state
        )
        self._change_scoped(log, deltas)
        return base.Appended(placed.rows, log.session.last_seq, log.view(batch.idle_before))

    def _touch_invocations(self, log: _Log, batch: base.AppendBatch) -> None:
        """A retry that stored nothing still says how far its invocation got."""
        for row in batch.rows:
            known = None if row.invocation_id is None else log.invocations.get(row.invocation_id)
            mark = row.flags >> r.MARK_SHIFT & 7
            if known is not None and mark:
                log.invocations[known.id] = known._replace(status=mark, updated_at=batch.now)

    @_locked
    def append_record(self, key: SessionKey, record: EventRow, now: int) -> EventRow:
        log = self._get(key, now)
        row = record._replace(seq=log.session.last_seq + 1)
        log.write((row,), now)
        return row

    @_locked
    def find_events(self, key: SessionKey, query: base.EventQuery, now: int) -> base.EventSlice:
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
    ) -> base.ContextSlice:
        log = self._get(key, now)
        view = log.view(idle_before)
        rows = view.ordered(
            row
            for row in log.events
            if row.kind < r.FIRST_RECORD and sees(viewer, row) and view.in_context(row, invocation_id)
        )
        return base.ContextSlice(self._counted(log), rows if last_n is None else rows[-last_n:], view)

    @_locked
    def rewind_events(self, key: SessionKey, plan: base.RewindPlan) -> base.Rewound:
        log = self._get(key, plan.now)
        ledger = Ledger.decode(log.session.ledger)
        target = self._target(key.id, log, ledger, plan)
        seq = log.session.last_seq + 1
        record = plan.record._replace(seq=seq, extra=placing.with_extra(plan.record.extra, "mark", target))
        log.write((record,), plan.now)
        after = Ledger.of(log.marks, seq)
        kept = scoped_keys(row.delta for row in log.events if row.seq in after.hidden and row.seq not in ledger.hidden)
        log.session = log.session._replace(ledger=after.encode(), state=self._replayed(log, after))
        return base.Rewound(record, target, kept)

    def _target(self, session_id: str, log: _Log, ledger: Ledger, plan: base.RewindPlan) -> int:
        if plan.undo:
            return placing.undone_target(session_id, log.marks, ledger.hidden)
        if plan.before_invocation is not None:
            hits = (row.seq for row in log.events if row.invocation_id == plan.before_invocation)
            first = next((seq for seq in hits if seq not in ledger.hidden), None)
            if first is None:
                raise EventNotFoundError(session_id, f"invocation {plan.before_invocation!r}")
            return first - 1
        target = plan.to_seq or 0
        if target > log.session.last_seq:
            raise EventNotFoundError(session_id, f"position {target}")
        return target

    def _replayed(self, log: _Log, ledger: Ledger) -> str:
        deltas = (row.delta for row in log.events if row.seq not in ledger.hidden)
        return apply_deltas(log.session.initial_state, deltas)

    @_locked
    def archive_events(self, key: SessionKey, plan: base.ArchivePlan) -> tuple[EventRow, ...] | None:
        log = self._get(key, plan.now)
        view = log.view(plan.idle_before)
        old = view.ledger.covers.get(plan.scope)
        old_covers = placing.covers_of(log.events[old.record - 1]) if old else []
        archived = placing.settle_archive(plan, log.events, view, old_covers)
        if archived is None:
            return None
        log.write(archived.rows, plan.now)
        log.session = log.session._replace(ledger=view.ledger.with_cover(archived.cover).encode())
        return archived.rows

    @_locked
    def count_live(self, key: SessionKey, scope: str | None, now: int) -> Counters:
        log = self._get(key, now)
        return placing.count_scope(log.events, log.view(0), scope)

    @_locked
    def measure_scope(self, key: SessionKey, scope: str | None, now: int) -> base.ScopeMeasure:
        log = self._get(key, now)
        return base.ScopeMeasure(self._counted(log), placing.count_scope(log.events, log.view(0), scope))

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
    def load_state(self, key: SessionKey, now: int) -> base.StateRows:
        session = self._get(key, now).session
        user = self._user_state.get((session.app, session.user_id), {}) if session.user_id is not None else {}
        return base.StateRows(session.state, dict(user), dict(self._app_state.get(session.app, {})))

    def _change_scoped(self, log: _Log, deltas: Iterable[str | None]) -> None:
        app, user_id = log.session.app, log.session.user_id
        for delta in deltas:
            split = split_delta(delta)
            if split.app:
                self._app_state[app] = placing.merge_scoped(self._app_state.get(app, {}), split.app)
            if split.user and user_id is not None:
                self._user_state[app, user_id] = placing.merge_scoped(
                    self._user_state.get((app, user_id), {}), split.user
                )

    # -- maintenance ---------------------------------------------------------------------------------------

    @_locked
    def verify_session(self, key: SessionKey, now: int) -> list[str]:
        log = self._get(key, now)
        found: list[str] = []
        marks = placing.marks_of(log.events)
        if [row.seq for row in log.events] != list(range(1, log.session.last_seq + 1)):
            found.append("positions are not gap-free")
        if marks != log.marks:
            found.append("marks differ from the log")
        ledger = Ledger.of(marks, log.session.last_seq)
        if ledger.encode() != log.session.ledger:
            found.append("ledger differs from the log")
        if self._replayed(log, ledger) != log.session.state:
            found.append("state differs from the log")
        return found

    # -- vectors -------------------------------------------------------------------------------------------

    @_locked
    def list_vectors(self, scope: LogScope) -> list[VectorPlace]:
        found = (self._find(scope.key._replace(id=name), scope.now) for app, name in self._logs if app == scope.app)
        places = (log.vector_place for log in found if log is not None)
        return sorted(place for place in places if scope.session_id in (None, place.session_id))

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
        if log is None or log.vector_place._replace(last_seq=change.place.last_seq) != change.place:
            return False
        if change.anew:
            log.vectors.clear()
        log.vectors.update(change.vectors)
        log.embedded = (change.embedded_to, change.generation, change.fingerprint)
        return True

    # -- the asynchronous half -----------------------------------------------------------------------------

    acreate_session = _direct(create_session)
    aopen_session = _direct(open_session)
    afind_session = _direct(find_session)
    alist_sessions = _direct(list_sessions)
    aupdate_session = _direct(update_session)
    aend_session = _direct(end_session)
    adelete_session = _direct(delete_session)
    adelete_user = _direct(delete_user)
    apurge_expired = _direct(purge_expired)
    afork_session = _direct(fork_session)
    aappend_events = _direct(append_events)
    aappend_record = _direct(append_record)
    afind_events = _direct(find_events)
    aload_context = _direct(load_context)
    arewind_events = _direct(rewind_events)
    aarchive_events = _direct(archive_events)
    acount_live = _direct(count_live)
    ameasure_scope = _direct(measure_scope)
    alease_scope = _direct(lease_scope)
    afind_invocation = _direct(find_invocation)
    aload_state = _direct(load_state)
    averify_session = _direct(verify_session)
    alist_vectors = _direct(list_vectors)
    afind_vectors = _direct(find_vectors)
    aload_vectors = _direct(load_vectors)
    awrite_vectors = _direct(write_vectors)
