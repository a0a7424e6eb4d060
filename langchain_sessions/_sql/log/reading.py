"""Reading a log by criteria, in its order.

Reads need no transaction. A log only grows, so the session row that is read first says which version is read,
and what is appended meanwhile is left out by position.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, func, select

from langchain_sessions._core import rows as r
from langchain_sessions._core.matching import EventQuery, asks_for_words, cut_window, holds_keywords, may_have_moved_on
from langchain_sessions._core.rows import EventRow, SessionKey, SessionLog, stored_row
from langchain_sessions._core.view import (
    MOST_READS,
)
from langchain_sessions._sql.driver.transaction import Prepared, Transaction, param
from langchain_sessions._sql.driver.workers import beside
from langchain_sessions._sql.log.criteria import (
    Criterion,
    criteria_of,
)
from langchain_sessions._sql.log.lookup import (
    event_columns,
    require_view,
    with_runs,
)
from langchain_sessions.stores._values import EventSlice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._core.ledger import LogView

# Rows that a predicate looks at between two round trips: few enough to stop soon, enough for a whole log in reason.
_CHUNK = 500
_FIRST = 32
_READ_AT_ONCE = 1 << 22
"""Characters of a chunk, about."""


_tuple = tuple.__new__


def find_events(tx: Transaction, key: SessionKey, query: EventQuery, now: int) -> EventSlice:
    """The contract's `find_events`."""
    session, view = require_view(tx, key, now, query.idle_before)
    reads = 0
    while True:
        found = _found(tx, session, view, query)
        reads += 1
        if reads == MOST_READS or not may_have_moved_on(found.rows, view.head, query.standings):
            return found
        newer, newer_view = require_view(tx, key, now, query.idle_before)
        if newer.head_runs == session.head_runs:
            return found
        session, view = newer, newer_view


def _found(tx: Transaction, session: SessionLog, view: LogView, query: EventQuery) -> EventSlice:
    """The rows that meet a query."""
    criteria = criteria_of(query, view, tx.tables, tx.flavour)
    if query.predicate is not None or query.keyword is not None or query.keywords:
        found = _looked_through(tx, session, criteria, query, view)
        return found._replace(view=with_runs(tx, session, view, found.rows, query.idle_before))
    rows = select_events(tx, session, criteria, newest=query.newest, limit=query.limit, offset=query.offset)
    total = _count(tx, session, criteria) if query.with_total else None
    return EventSlice(rows, with_runs(tx, session, view, rows, query.idle_before), total)


def _prepared(tx: Transaction, shape: tuple[Any, ...], criteria: list[Criterion], build: Any) -> Prepared:
    """A cached statement, or a fresh one where a criterion carries its values in its clause."""
    if any(type(criterion.shape) is object for criterion in criteria):
        return Prepared(build(), tx.cache.dialect)
    return tx.prepare((*shape, *(criterion.shape for criterion in criteria)), build)


def select_events(
    tx: Transaction,
    session: SessionLog,
    criteria: list[Criterion],
    *,
    newest: bool,
    limit: int | None,
    offset: int = 0,
) -> list[EventRow]:
    """The rows that meet criteria, in log order; of the newest only so many."""
    e = tx.tables.events.c

    def build() -> Select[Any]:
        statement = select(*event_columns(tx.tables)).where(
            e.skey == param("skey"), *(criterion.build() for criterion in criteria)
        )
        # By both columns, as the key has them, so that no planner has to see that one of them is fixed.
        order = (e.skey.desc(), e.seq.desc()) if newest else (e.skey, e.seq)
        statement = statement.order_by(*order)
        if limit is None and not offset:
            return statement
        return statement.limit(param("q_limit")).offset(param("q_offset"))

    values: dict[str, Any] = {"skey": session.skey, "q_limit": limit, "q_offset": offset}
    for criterion in criteria:
        values.update(criterion.values)
    if limit is None and offset:
        # No database here takes an OFFSET without a LIMIT, but for PostgreSQL.
        values["q_limit"] = 2**62
    statement = _prepared(tx, ("events", newest, limit is None and not offset), criteria, build)
    found = tx.rows(statement, values)
    packed = [len(row[-1]) for row in found if row[-1] is not None]
    rows = beside(tx, packed, partial(_stored, found)) if packed else [_tuple(EventRow, row[:-1]) for row in found]
    if newest:
        rows.reverse()
    return rows


def _stored(found: list[tuple[Any, ...]]) -> list[EventRow]:
    return [_tuple(EventRow, row[:-1]) if row[-1] is None else stored_row(row) for row in found]


def _count(tx: Transaction, session: SessionLog, criteria: list[Criterion]) -> int:
    e = tx.tables.events.c

    def build() -> Select[Any]:
        found = (criterion.build() for criterion in criteria)
        return select(func.count()).select_from(tx.tables.events).where(e.skey == param("skey"), *found)

    values: dict[str, Any] = {"skey": session.skey}
    for criterion in criteria:
        values.update(criterion.values)
    row = tx.row(_prepared(tx, ("count",), criteria, build), values)
    return int(row[0]) if row else 0


def _looked_through(
    tx: Transaction, session: SessionLog, criteria: list[Criterion], query: EventQuery, view: LogView
) -> EventSlice:
    """Ask rows one by one for what no database can tell of them, until the window is full."""
    wanted = None if query.limit is None else query.offset + query.limit
    is_told = query.with_total and wanted is not None and query.predicate is None
    if query.with_total and not is_told:
        wanted = None
    # Of what is not packed a database has found the words already: mostly each row is one of those wanted.
    first = _CHUNK if wanted is None or query.predicate is not None else min(wanted, _CHUNK)
    found = list(islice(_passing(tx, session, criteria, query, first), wanted))
    if query.newest:
        found.reverse()
    window = cut_window(found, query, view)
    return window._replace(total=_count_words(tx, session, criteria, query)) if is_told else window


def _passing(
    tx: Transaction, session: SessionLog, criteria: list[Criterion], query: EventQuery, size: int
) -> Iterator[EventRow]:
    """The rows that have the words of a query and pass its predicate, read in chunks of which the first has a size."""
    e = tx.tables.events.c
    edge = session.last_seq + 1 if query.newest else 0
    words, predicate, size = asks_for_words(query), query.predicate, min(size, _FIRST)
    while size:
        side = (lambda: e.seq < param("q_edge")) if query.newest else (lambda: e.seq > param("q_edge"))
        here = [*criteria, Criterion(("edge", query.newest), side, {"q_edge": edge})]
        chunk = select_events(tx, session, here, newest=query.newest, limit=size)
        if query.newest:
            chunk.reverse()
        for row in chunk:
            if (not words or holds_keywords(row, query)) and (predicate is None or predicate(row)):
                yield row
        if len(chunk) < size:
            return
        # Packed texts may be a thousand times as long as they lie there.
        edge, size = chunk[-1].seq, max(1, min(_CHUNK, 4 * size, _READ_AT_ONCE * len(chunk) // (r.bytes_of(chunk) + 1)))


def _count_words(tx: Transaction, session: SessionLog, criteria: list[Criterion], query: EventQuery) -> int:
    """How many rows have the words of a query; those whose text is packed are read for it."""
    e = tx.tables.events.c
    plain = Criterion("plain", lambda: e.packed.is_(None), {})
    packed = Criterion("packed", lambda: e.packed.is_not(None), {})
    read = _passing(tx, session, [*criteria, packed], query, _CHUNK)
    return _count(tx, session, [*criteria, plain]) + sum(1 for _ in read)
