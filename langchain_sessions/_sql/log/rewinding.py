"""Rewinds: a record is appended, the ledger is rewritten, and the state is what stands then.

Counters move by the difference of what changes its standing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from langchain_sessions._core.ledger import Ledger, differing, marks_of, view_of
from langchain_sessions._core.message_types import REWIND
from langchain_sessions._core.rewinding import rewind_target
from langchain_sessions._core.rows import ALL_AWAKE, SessionKey, SessionRow, moved, with_extra
from langchain_sessions._core.state import StateChange, apply_deltas, shared_keys, state_before, with_turned
from langchain_sessions._sql.log.by_position import load_marks
from langchain_sessions._sql.log.counting import count_moved, read_invocation
from langchain_sessions._sql.log.lookup import (
    insert_events,
    require_session,
    set_session,
)
from langchain_sessions._sql.threads.history import rewind_thread
from langchain_sessions.stores._values import RewindPlan, Rewound

if TYPE_CHECKING:
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._sql.driver.transaction import Transaction


_DELTAS, _MOST_DELTAS = 1, 256
"""How many changes of state are read at a time, from the newest back: one first, then more and more."""


def rewind_events(tx: Transaction, key: SessionKey, plan: RewindPlan) -> Rewound:
    """The contract's `rewind_events`."""
    session = require_session(tx, key, plan.now, lock=True)
    stood = view_of(session, (), ALL_AWAKE)
    before = stood.ledger
    marks = load_marks(tx, session)
    run = plan.before_invocation
    first = None if run is None else _first_of(tx, session, run, before.hidden)
    target = rewind_target(session, plan, marks, before.hidden, first)
    seq = session.last_seq + 1
    # The record says where it led, so that the ledger can be built again from records alone.
    record = plan.record._replace(seq=seq, extra=with_extra(plan.record.extra, "mark", target))
    after = Ledger.of([*marks, *marks_of([record])], seq)
    state, kept = _state_after(tx, session, target, (before, after))
    record = record._replace(extra=with_turned(record.extra, session.state, state))
    insert_events(tx, session.skey, [record])
    changes = {**moved(session, 1, plan.now), "ledger": after.encode(), "state": state}
    changes |= rewind_thread(tx, session, after, seq, is_undo=plan.undo, reset=plan.reset_thread)
    set_session(tx, session.skey, **changes)
    count_moved(tx, session, stood, view_of(session._replace(**changes), (), ALL_AWAKE))
    return Rewound(record, target, kept)


def _first_of(tx: Transaction, session: SessionRow, invocation_id: str, hidden: SeqSet) -> int | None:
    """The first event of an invocation that is not hidden; what came before the invocation is not looked at."""
    e = tx.tables.events.c
    known = read_invocation(tx, session.skey, invocation_id)
    for low, high in hidden.complement(1 if known is None else known.first_seq, session.last_seq).ranges:
        mine = (e.skey == session.skey, e.seq.between(low, high), e.invocation_id == invocation_id)
        found = tx.once(select(e.seq).where(*mine).order_by(e.seq).limit(1))
        if found:
            return int(found[0][0])
    return None


def _state_after(
    tx: Transaction, session: SessionRow, target: int, ledgers: tuple[Ledger, Ledger]
) -> tuple[str, tuple[str, ...]]:
    """The session's state as it was at a position, with the ledgers before and after; and shared keys out of sight."""
    before, after = ledgers
    e = tx.tables.events.c
    statement = select(e.seq, e.delta).where(e.skey == session.skey, e.delta.is_not(None))
    turned: list[tuple[int, str]] = []
    for low, high in differing(after.hidden, before.hidden).ranges:
        turned += tx.once(statement.where(e.seq.between(low, high)))
    kept = shared_keys(delta for seq, delta in turned if seq in after.hidden)
    since = select(e.delta, e.extra, e.kind).where(e.skey == session.skey, e.seq > target)
    entries = tx.once(since.where(or_(e.delta.is_not(None), e.kind == REWIND)).order_by(e.skey, e.seq))
    state = state_before(session.state, ((delta, extra, kind == REWIND) for delta, extra, kind in entries))
    if state is not None:
        return state, kept
    change = StateChange(session.initial_state, session.state, (delta for _, delta in turned))
    seen, size = after.hidden.complement(1, session.last_seq).ranges, _DELTAS
    # From the newest back, until each changed key has met the delta that set it last: mostly within a few rows.
    upto = seen[-1][1] if seen else 0
    while not change.is_complete:
        older = tx.once(statement.where(e.seq <= upto).order_by(e.skey.desc(), e.seq.desc()).limit(size))
        for seq, delta in older:
            if seq not in after.hidden:
                change.look_at(delta)
        if len(older) < size:
            break
        upto, size = older[-1][0] - 1, min(4 * size, _MOST_DELTAS)
    return change.state(), kept


def replay(tx: Transaction, session: SessionRow, ledger: Ledger) -> str:
    """The session's state from its initial one and all deltas that stand."""
    e = tx.tables.events.c
    deltas = tx.once(select(e.seq, e.delta).where(e.skey == session.skey, e.delta.is_not(None)).order_by(e.seq))
    return apply_deltas(session.initial_state, (delta for seq, delta in deltas if seq not in ledger.hidden))
