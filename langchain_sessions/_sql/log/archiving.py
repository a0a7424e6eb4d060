"""Compactions: a record and a summary are appended, and the ledger is rewritten.

What a compaction needs to know of its range is read before the session is locked: the lock is held as long as an append
holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.archive import Prepared, prepare_archive
from langchain_sessions._core.ledger import Ledger, covers_of, view_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ALL_AWAKE, EventRow, SessionKey, SessionRow, moved
from langchain_sessions._sql.log.by_position import load_light, read_rows
from langchain_sessions._sql.log.counting import add_counters
from langchain_sessions._sql.log.lookup import (
    insert_events,
    require_session,
)
from langchain_sessions._sql.log.views import load_unfinished_of, lock_view

if TYPE_CHECKING:
    from langchain_sessions._sql.driver.transaction import Transaction
    from langchain_sessions.stores._values import ArchivePlan


def prepare_archiving(tx: Transaction, key: SessionKey, plan: ArchivePlan, *, lock: bool = False) -> Prepared | None:
    """What a compaction comes to, as long as nothing of its range is touched; None where something was already."""
    session = require_session(tx, key, plan.now, lock=lock)
    near = load_light(tx, session, plan.scope, view_of(session, (), plan.idle_before))
    unfinished = load_unfinished_of(tx, session, near)
    view, counting = (view_of(session, unfinished, idle_before) for idle_before in (plan.idle_before, ALL_AWAKE))
    return prepare_archive(plan, near, session, (view, counting), _old_covers(tx, session, view.ledger, plan.scope))


def commit_archiving(tx: Transaction, key: SessionKey, prepared: Prepared) -> tuple[EventRow, ...] | None:
    """Write a compaction that was prepared; None where it has to be prepared anew."""
    plan = prepared.plan
    session, view = lock_view(tx, key, plan.now, plan.idle_before, prepared.range[1])
    # Appends meanwhile do not matter; a rewind or another compaction of the range does.
    if not prepared.stands(session, view):
        return None
    archived = prepared.at(session.last_seq)
    insert_events(tx, session.skey, archived.rows)
    ledger = view.ledger.with_cover(archived.cover).encode()
    changes = {**moved(session, len(archived.rows), plan.now), "ledger": ledger}
    add_counters(tx, session, archived.counted, changes)
    return archived.rows


def archive_events(tx: Transaction, key: SessionKey, plan: ArchivePlan) -> tuple[EventRow, ...] | None:
    """Prepare and write under one lock: where the range was touched again and again in between."""
    prepared = prepare_archiving(tx, key, plan, lock=True)
    return None if prepared is None else commit_archiving(tx, key, prepared)


def _old_covers(tx: Transaction, session: SessionRow, ledger: Ledger, scope: str | None) -> list[list[int]]:
    cover = ledger.covers.get(scope)
    if cover is None:
        return []
    rows = read_rows(tx, session, SeqSet.of([cover.record]))
    return covers_of(rows[0]) if rows else []
