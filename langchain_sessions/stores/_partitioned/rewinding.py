"""Rewinds: a record is appended, the ledger is rewritten, and the state is what stands then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from langchain_sessions._core.ledger import Ledger, differing, marks_of
from langchain_sessions._core.message_types import REWIND
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rewinding import rewind_target
from langchain_sessions._core.rows import Mark, SessionKey, moved, with_extra
from langchain_sessions._core.state import (
    StateChange,
    apply_deltas,
    shared_keys,
    state_before,
    with_turned,
)
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import ROWS_AT_ONCE, Change, Partitions, event_rows
from langchain_sessions.stores._partitioned.live import counted_between
from langchain_sessions.stores._partitioned.runs import read_run
from langchain_sessions.stores._partitioned.thread_upkeep import rewind_thread
from langchain_sessions.stores._values import Rewound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores._values import RewindPlan
    from langchain_sessions.stores.engine import Row


_DELTAS, _MOST_DELTAS = 4, 256
"""How many changes of state are read at a time, from the newest back: few first, then more and more."""


def rewind_events(at: Partitions, key: SessionKey, plan: RewindPlan) -> Flow[Rewound]:
    """The contract's `rewind_events`."""
    done: Rewound = yield from at.change(key, plan.now, partial(_rewind, at, plan))
    return done


def _rewind(at: Partitions, plan: RewindPlan, head: SessionHead) -> Flow[Change]:
    before = Ledger.decode(head.session.ledger)
    marks = yield from read_marks(at, head)
    run = plan.before_invocation
    first = None if run is None else (yield from _first_of(at, head, run, before.hidden))
    target = rewind_target(head.session, plan, marks, before.hidden, first)
    seq = head.session.last_seq + 1
    record = plan.record._replace(seq=seq, extra=with_extra(plan.record.extra, "mark", target))
    after = Ledger.of([*marks, *marks_of([record])], seq)
    state, kept = yield from _state_after(at, head, marks, target, (before, after))
    record = record._replace(extra=with_turned(record.extra, head.session.state, state))
    changes = {**moved(head.session, 1, plan.now), "ledger": after.encode(), "state": state}
    moved_head = head.with_session(**changes)
    more, cut = yield from rewind_thread(at, head, after, seq, is_undo=plan.undo, reset=plan.reset_thread)
    moved_head = moved_head.with_session(**more)
    rows = event_rows(head.skey, [record]) | cut
    counted = yield from counted_between(at, head, moved_head)
    return Change(Rewound(record, target, kept), moved_head.adding(counted), rows)


def _first_of(at: Partitions, head: SessionHead, invocation_id: str, hidden: SeqSet) -> Flow[int | None]:
    """The first event of an invocation that is not hidden; what is hidden is not read."""
    run = yield from read_run(at, head, invocation_id)
    if run is None:
        return None
    for low, high in hidden.complement(run.first_seq, head.session.last_seq).ranges:
        start = low
        while start <= high:
            some = yield from at.some_events(head, start, high, ROWS_AT_ONCE)
            found = next((row.seq for row in some if row.invocation_id == invocation_id), None)
            if found is not None:
                return found
            start = some[-1].seq + 1
    return None


def read_marks(at: Partitions, head: SessionHead) -> Flow[list[Mark]]:
    """All marks of a log, in order."""
    found = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.MARK)))
    marks: list[Mark] = []
    for row in found:
        kind, _, data = row.value.decode().partition(" ")
        marks.append(Mark(keys.number_in(row.key), kind, data))
    return marks


def _state_after(
    at: Partitions, head: SessionHead, marks: Iterable[Mark], target: int, ledgers: tuple[Ledger, Ledger]
) -> Flow[tuple[str, tuple[str, ...]]]:
    """The session's state as it was at a position, with the ledgers before and after; and shared keys out of sight."""
    before, after = ledgers
    runs = differing(after.hidden, before.hidden).ranges
    found = yield from at.rows(head, keys.in_runs(head.skey, keys.DELTA, runs))
    turned = [_delta_in(row) for rows in found for row in rows]
    kept = shared_keys(delta for seq, delta in turned if seq in after.hidden)
    later = yield from at.rows(head, keys.in_runs(head.skey, keys.DELTA, [(target + 1, head.session.last_seq)]))
    changing = [keys.number_in(row.key) for rows in later for row in rows]
    changing += [mark.seq for mark in marks if mark.kind == "rewind" and mark.seq > target]
    entries = yield from at.events(head, SeqSet.of(changing).ranges)
    entries = sorted(entries, key=lambda row: row.seq)
    state = state_before(head.session.state, ((row.delta, row.extra, row.kind == REWIND) for row in entries))
    if state is not None:
        return state, kept
    change = StateChange(head.session.initial_state, head.session.state, (delta for _, delta in turned))
    seen, size = after.hidden.complement(1, head.session.last_seq).ranges, _DELTAS
    upto = seen[-1][1] if seen else 0
    while not change.is_complete:
        wanted = keys.between(head.skey, keys.DELTA, 1, upto, size, newest=True)
        older = [_delta_in(row) for row in (yield from at.rows(head, [wanted]))[0]]
        for seq, delta in older:
            if seq not in after.hidden:
                change.look_at(delta)
        if len(older) < size:
            break
        upto, size = older[-1][0] - 1, min(4 * size, _MOST_DELTAS)
    return change.state(), kept


def _delta_in(row: Row) -> tuple[int, str]:
    return keys.number_in(row.key), row.value.decode()


def replay(at: Partitions, head: SessionHead, ledger: Ledger) -> Flow[str]:
    """The session's state from its initial one and all deltas that stand."""
    rows = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.DELTA)))
    deltas = (_delta_in(row) for row in rows)
    return apply_deltas(head.session.initial_state, (delta for seq, delta in deltas if seq not in ledger.hidden))
