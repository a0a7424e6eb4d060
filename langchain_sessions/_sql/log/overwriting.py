"""Overwriting what was said, in SQL: events, what recall made of them, and copies in the thread's own rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, delete, literal_column, select, update

from langchain_sessions._core.blanking import (
    Overwriting,
    ThreadBytes,
    blank_record,
    choose,
    overwrite_thread,
    replaced_seqs,
    summaries_of,
)
from langchain_sessions._core.checkpoints import WITHIN, ValueRow, stored_parent
from langchain_sessions._core.edge import packed_id
from langchain_sessions._core.ledger import open_invocations, tally_change, view_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ALL_AWAKE, EventRow, SessionKey, SessionRow, moved, stored_row
from langchain_sessions._sql.driver.transaction import call_passed_in
from langchain_sessions._sql.log.by_position import load_marks, read_rows
from langchain_sessions._sql.log.counting import add_counters
from langchain_sessions._sql.log.lookup import (
    event_columns,
    insert_events,
    require_session,
    set_session,
    update_rows,
)
from langchain_sessions._sql.log.removing import remove_shelves
from langchain_sessions._sql.log.revisions import release_bases, set_whole
from langchain_sessions._sql.log.views import load_unfinished_of
from langchain_sessions._sql.tables.blanking import blank, blank_rows
from langchain_sessions._sql.tables.types import as_bytes
from langchain_sessions._sql.threads.history import all_rows, chunks
from langchain_sessions._sql.threads.staging import writes_stored
from langchain_sessions._sql.threads.values import insert_values, rows_of_values
from langchain_sessions.stores._erasing import Blanked, BlankPlan

if TYPE_CHECKING:
    from sqlalchemy import Table

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._sql.driver.transaction import Transaction


def blank_events(tx: Transaction, key: SessionKey, plan: BlankPlan) -> Blanked:
    """The contract's `blank_events`."""
    # Everything below is of this one session, so its lock keeps appends and checkpoints out until all copies are gone.
    session = require_session(tx, key, plan.now, lock=True)
    ledger_alone = view_of(session, (), ALL_AWAKE)
    rows = _asked(tx, session, ledger_alone, plan)
    view = replace(ledger_alone, invocations=open_invocations(load_unfinished_of(tx, session, rows), ALL_AWAKE))
    chosen = choose(session.id, rows, view, plan.asked, plan.seqs, superseded=plan.superseded)
    marks = load_marks(tx, session)
    made = summaries_of(chosen.all, marks)
    if not chosen.left:
        return Blanked(None, (), tuple(chosen.all), made)
    record = blank_record(plan.record, session.last_seq + 1, chosen)
    blanked = [call_passed_in(plan.row, row) for row in chosen.left]
    _overwrite_events(tx, session.skey, blanked)
    insert_events(tx, session.skey, [record])
    ledger = view.ledger.with_blank(record.seq, chosen.seqs)
    set_session(tx, session.skey, **moved(session, 1, plan.now), ledger=ledger.encode())
    add_counters(tx, session, tally_change(chosen.left, view, blanked, view))
    _forget_words(tx, session, chosen.seqs)
    _overwrite_thread(tx, session.skey, Overwriting([call_passed_in(plan.words, row) for row in chosen.left]))
    return Blanked(record, tuple(chosen.seqs), tuple(chosen.all), made)


def _asked(tx: Transaction, session: SessionRow, view: LogView, plan: BlankPlan) -> list[EventRow]:
    """The events among which a call chooses."""
    e = tx.tables.events.c
    if plan.ident is not None:
        named = (e.skey == session.skey, e.ident == plan.ident, e.rev >= literal_column("0"))
        return [*map(stored_row, tx.once(select(*event_columns(tx.tables)).where(*named)))]
    return read_rows(tx, session, SeqSet.of(plan.seqs) if plan.seqs else replaced_seqs(view))


def _zero(tx: Transaction, table: Table, which: ColumnElement[bool]) -> None:
    """SQLite may leave copies of what it replaces; copies of zeroes tell nothing."""
    if tx.flavour == "sqlite":
        blank(tx, table, which)


def _overwrite_events(tx: Transaction, skey: int, rows: list[EventRow]) -> None:
    table = tx.tables.events
    release_bases(tx, skey, rows)
    for some in chunks(rows):
        _zero(tx, table, and_(table.c.skey == skey, table.c.seq.in_([row.seq for row in some])))
    for row in rows:
        # All of it: zeroes are in every column that has no bound.
        set_whole(tx, skey, row.seq, **dict(zip(EventRow._fields[1:], row[1:], strict=True)))


def _forget_words(tx: Transaction, session: SessionRow, seqs: SeqSet) -> None:
    """The index of the log, its copies on shelves, and the vectors of some events: what is left is built again."""
    recall, skey = tx.tables.recall, session.skey
    # Words of a chunk cannot be taken out one by one, so the index of the log is made again from what is left.
    remove_shelves(tx, [skey])
    for table in (recall.chunks, recall.terms):
        if tx.flavour == "sqlite":
            blank_rows(tx, table, [skey])
        tx.change(delete(table).where(table.c.skey == skey))
    logs = recall.logs.c
    again: dict[str, Any] = {"indexed_to": 0, "fingerprint": "", "generation": logs.generation + 1}
    tx.change(update(recall.logs).where(logs.skey == skey).values(again))
    vectors = recall.vectors
    for low, high in seqs.ranges:
        mine = and_(vectors.c.skey == skey, vectors.c.seq.between(low, high))
        _zero(tx, vectors, mine)
        tx.change(delete(vectors).where(mine))


def _overwrite_thread(tx: Transaction, skey: int, overwriting: Overwriting) -> None:
    """Words in values, and in messages that a task left until the next checkpoint."""
    t = tx.tables.threads
    found = ThreadBytes(
        all_rows(tx, skey),
        writes_stored(tx, skey),
        {n: as_bytes(body) for n, body in _all(tx, t.staged, ("n", "body"), skey) if body is not None},
        {**rows_of_values(_all(tx, t.stored_values, ValueRow._fields, skey))},
    )
    change = overwrite_thread(found, overwriting)
    _overwrite_checkpoints(tx, skey, found, change)
    for write in change.writes:
        if write.part != WITHIN:
            columns = {**write._asdict(), "cid": packed_id(write.cid)}
            _replace(tx, t.writes, skey, ("ns", "cid", "cut", "part"), columns)
    for n, body in change.staged.items():
        _replace(tx, t.staged, skey, ("n",), {"n": n, "body": body})
    values = t.stored_values
    # What is stored anew under its own name goes first, too.
    for some in chunks([*change.values]):
        gone = and_(values.c.skey == skey, values.c.digest.in_(some))
        _zero(tx, values, gone)
        tx.change(delete(values).where(gone))
    insert_values(tx, skey, [ValueRow(name, data) for name, data in change.values.items() if data is not None])


def _overwrite_checkpoints(tx: Transaction, skey: int, found: ThreadBytes, change: ThreadBytes) -> None:
    """Rows of checkpoints, with the writes that lie within: zeroes are in every column that has no bound."""
    rows = {(row.ns, row.cid): row for row in (*found.checkpoints, *change.checkpoints)}
    within = {(part.ns, part.cid): part for part in (*found.writes, *change.writes) if part.part == WITHIN}
    changed = [(row.ns, row.cid) for row in change.checkpoints]
    changed += [(part.ns, part.cid) for part in change.writes if part.part == WITHIN]
    for place in dict.fromkeys(changed):
        writes = within[place].body if place in within else None
        row = rows[place]
        parent, origin = stored_parent(row.cid, row.parent)
        told = {"cid": packed_id(row.cid), "parent": parent, "origin": origin, "writes": writes}
        _replace(tx, tx.tables.threads.checkpoints, skey, ("ns", "cid"), {**row._asdict(), **told})


def _all(tx: Transaction, table: Table, names: tuple[str, ...], skey: int) -> list[Any]:
    return list(tx.once(select(*(table.c[name] for name in names)).where(table.c.skey == skey)))


def _replace(tx: Transaction, table: Table, skey: int, key: tuple[str, ...], row: dict[str, Any]) -> None:
    """Write a row over the one that has its key."""
    same = {"skey": skey, **{name: row[name] for name in key}}
    _zero(tx, table, and_(*(table.c[name] == value for name, value in same.items())))
    update_rows(tx, table, same, **{name: value for name, value in row.items() if name not in key})
