"""Changing where events stand: rewinds and compactions. Both append a record and rewrite the session's ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from langchain_sessions._core.archive import settle_archive
from langchain_sessions._core.ledger import Ledger, covers_of, marks_of, undone_target
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import EventRow, SessionKey, SessionRow, moved, with_extra
from langchain_sessions._core.state import apply_deltas, scoped_keys
from langchain_sessions._sql.log.appending import insert_events
from langchain_sessions._sql.log.counting import ALL_AWAKE, recount, recount_scope
from langchain_sessions._sql.log.lookup import (
    event_columns,
    load_light,
    load_marks,
    load_view,
    require_session,
    set_session,
)
from langchain_sessions._sql.threads.history import rewind_thread
from langchain_sessions.errors import EventNotFoundError
from langchain_sessions.stores._values import ArchivePlan, RewindPlan, Rewound

if TYPE_CHECKING:
    from langchain_sessions._sql.driver.transaction import Transaction


def rewind_events(tx: Transaction, key: SessionKey, plan: RewindPlan) -> Rewound:
    """The contract's `rewind_events`."""
    session = require_session(tx, key, plan.now, lock=True)
    before = Ledger.decode(session.ledger)
    marks = load_marks(tx, session)
    target = _target(tx, session, before, plan)
    seq = session.last_seq + 1
    record = plan.record._replace(seq=seq, extra=with_extra(plan.record.extra, "mark", target))
    insert_events(tx, session.skey, [record])
    after = Ledger.of([*marks, *marks_of([record])], seq)
    state, kept = replay(tx, session, after, before)
    changes = {**moved(session, 1, plan.now), "ledger": after.encode(), "state": state}
    changes |= rewind_thread(tx, session, after, seq, is_undo=plan.undo, reset=plan.reset_thread)
    set_session(tx, session.skey, **changes)
    recount(tx, session._replace(**changes))
    return Rewound(record, target, kept)


def _target(tx: Transaction, session: SessionRow, ledger: Ledger, plan: RewindPlan) -> int:
    """The position to go back to."""
    e = tx.tables.events.c
    if plan.undo:
        return undone_target(session.id, load_marks(tx, session), ledger.hidden)
    if plan.before_invocation is not None:
        mine = tx.once(
            select(e.seq).where(e.skey == session.skey, e.invocation_id == plan.before_invocation).order_by(e.seq)
        )
        first = next((row[0] for row in mine if row[0] not in ledger.hidden), None)
        if first is None:
            raise EventNotFoundError(session.id, f"invocation {plan.before_invocation!r}")
        return int(first) - 1
    target = plan.to_seq or 0
    if target > session.last_seq:
        raise EventNotFoundError(session.id, f"position {target}")
    return target


def replay(tx: Transaction, session: SessionRow, after: Ledger, before: Ledger) -> tuple[str, tuple[str, ...]]:
    """The session's state from its initial one and all deltas that stand; and scoped keys that went out of sight."""
    e = tx.tables.events.c
    columns = (e.seq, e.delta)
    deltas = tx.once(select(*columns).where(e.skey == session.skey, e.delta.is_not(None)).order_by(e.seq))
    kept = scoped_keys(delta for seq, delta in deltas if seq in after.hidden and seq not in before.hidden)
    return apply_deltas(session.initial_state, (delta for seq, delta in deltas if seq not in after.hidden)), kept


def archive_events(tx: Transaction, key: SessionKey, plan: ArchivePlan) -> tuple[EventRow, ...] | None:
    """The contract's `archive_events`."""
    session = require_session(tx, key, plan.now, lock=True)
    view = load_view(tx, session, plan.idle_before)
    near = load_light(tx, session, plan.scope, view)
    archived = settle_archive(plan, near, view, _old_covers(tx, session, view.ledger, plan.scope))
    if archived is None:
        return None
    insert_events(tx, session.skey, archived.rows)
    ledger = view.ledger.with_cover(archived.cover)
    changes = {**moved(session, len(archived.rows), plan.now), "ledger": ledger.encode()}
    set_session(tx, session.skey, **changes)
    after = session._replace(**changes)
    recount_scope(tx, after, load_view(tx, after, ALL_AWAKE), plan.scope)
    return archived.rows


def _old_covers(tx: Transaction, session: SessionRow, ledger: Ledger, scope: str | None) -> list[list[int]]:
    cover = ledger.covers.get(scope)
    if cover is None:
        return []
    rows = read_rows(tx, session, SeqSet.of([cover.record]))
    return covers_of(rows[0]) if rows else []


def read_rows(tx: Transaction, session: SessionRow, seqs: SeqSet) -> list[EventRow]:
    """The rows at some positions, in log order."""
    e = tx.tables.events.c
    found: list[EventRow] = []
    for low, high in seqs.runs:
        statement = select(*event_columns(tx.tables)).where(e.skey == session.skey, e.seq.between(low, high))
        found.extend(EventRow(*row) for row in tx.once(statement.order_by(e.seq)))
    return found
