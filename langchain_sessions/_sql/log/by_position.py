"""Rows of a log that no filter looks for: those at some positions, those that are not archived, all marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Select,
    literal_column,
    or_,
    select,
)
from sqlalchemy import and_ as both

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.rows import LIGHT, EventRow, Mark, SessionRow, light_row, stored_row
from langchain_sessions._sql.driver.transaction import param
from langchain_sessions._sql.log.lookup import event_columns

if TYPE_CHECKING:
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._sql.driver.transaction import Transaction
    from langchain_sessions._sql.tables.schema import Tables


def light_columns(tables: Tables) -> list[ColumnElement[Any]]:
    """What bookkeeping needs of events: everything but bodies."""
    return [tables.events.c[name] for name in LIGHT]


def load_light(tx: Transaction, session: SessionRow, scope: str | None, view: LogView) -> list[EventRow]:
    """Every message of a scope that is not archived, without bodies, in log order."""
    e = tx.tables.events.c
    cover = view.ledger.covers.get(scope)
    rooted = e.flags.op("&")(literal_column(str(r.ROOTED))) != literal_column("0")
    mine = or_(e.branch.is_(None), rooted) if scope is None else both(e.branch == scope, ~rooted)

    def build(found: ColumnElement[bool]) -> Select[Any]:
        return select(*light_columns(tx.tables)).where(e.skey == session.skey, mine, e.kind < k.FIRST_RECORD, found)

    after = cover.upto if cover is not None else 0
    rows = tx.once(build(e.seq > after))
    beside = sorted({*(cover.holes if cover else ()), *(cover.summaries if cover else ())})
    # Below every driver's limit of values in one statement.
    for start in range(0, len(beside), 500):
        rows += tx.once(build(both(e.seq <= after, e.seq.in_(beside[start : start + 500]))))
    return sorted(light_row(row) for row in rows)


def load_light_at(tx: Transaction, skey: int, seqs: SeqSet) -> list[EventRow]:
    """The events at some positions, without bodies."""
    e = tx.tables.events.c

    def within() -> Select[Any]:
        return select(*light_columns(tx.tables)).where(
            e.skey == param("skey"), e.seq.between(param("low"), param("high"))
        )

    rows: list[tuple[Any, ...]] = []
    single: list[int] = []
    for low, high in seqs.ranges:
        if low == high:
            single.append(low)
        else:
            rows += tx.rows(tx.prepare("light within", within), {"skey": skey, "low": low, "high": high})
    # As above: SQLite took 999 values once, and PostgreSQL's protocol counts them in two bytes.
    for start in range(0, len(single), 500):
        rows += _light_among(tx, skey, single[start : start + 500])
    return [light_row(row) for row in rows]


def _light_among(tx: Transaction, skey: int, seqs: list[int]) -> list[tuple[Any, ...]]:
    """The events at a few positions: each edit asks for some, so there is a statement for each size, by the doubles."""
    e, size = tx.tables.events.c, 1 << (len(seqs) - 1).bit_length()

    def among() -> Select[Any]:
        wanted = e.seq.in_([param(f"seq{number}") for number in range(size)])
        return select(*light_columns(tx.tables)).where(e.skey == param("skey"), wanted)

    named = {f"seq{number}": seqs[min(number, len(seqs) - 1)] for number in range(size)}
    return tx.rows(tx.prepare(("light among", size), among), {"skey": skey, **named})


def load_marks(tx: Transaction, session: SessionRow, upto: int | None = None) -> list[Mark]:
    """All marks of a log, in order."""
    table = tx.tables.marks
    statement = select(table.c.seq, table.c.kind, table.c.data).where(table.c.skey == session.skey)
    if upto is not None:
        statement = statement.where(table.c.seq <= upto)
    return [Mark(*row) for row in tx.once(statement.order_by(table.c.seq))]


def read_rows(tx: Transaction, session: SessionRow, seqs: SeqSet) -> list[EventRow]:
    """The rows at some positions, in log order."""
    e = tx.tables.events.c
    found: list[EventRow] = []
    for low, high in seqs.ranges:
        statement = select(*event_columns(tx.tables)).where(e.skey == session.skey, e.seq.between(low, high))
        found.extend(map(stored_row, tx.once(statement.order_by(e.seq))))
    return found
