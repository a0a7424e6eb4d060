"""The invocations of a log that are not done, for calls that change it.

A log gathers runs that failed or were interrupted, and keeps them for ever. So a call reads those that the rows which
it looks at belong to, and no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, literal_column, select

from langchain_sessions._core.ledger import LogView, view_of
from langchain_sessions._core.rows import EventRow, InvocationRow, SessionKey, SessionRow, owner_shape
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.lookup import (
    check_position,
    has_unfinished,
    key_criteria,
    key_values,
    load_unfinished,
    locating,
    named_unfinished,
    session_columns,
    session_row,
    skey_named,
    unfinished_called,
    unfinished_of,
)
from langchain_sessions.errors import SessionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


FEW: int = 8
"""So many invocations that are not done come along with other answers; where there are more, they are asked by name."""


def load_view(tx: Transaction, session: SessionRow, idle_before: int) -> LogView:
    """Where the events of a session stand."""
    return view_of(session, load_unfinished(tx, session), idle_before)


def lock_view(
    tx: Transaction, key: SessionKey, now: int, idle_before: int, runs: Collection[str]
) -> tuple[SessionRow, LogView]:
    """`require_view` of the whole row, locked for this transaction, mostly in one round trip.

    Where events of some `runs` stand it tells, and of others perhaps.

    Raises:
        SessionNotFoundError: There is none for this key.
    """
    located, unfinished = (_lock_in_one if tx.flavour == "sqlite" else _lock_and_look)(tx, key, now)
    if located is None:
        raise SessionNotFoundError(key.id)
    session = session_row(located)
    check_position(key.id, session.last_seq)
    if unfinished is None or len(unfinished) > FEW:
        unfinished = unfinished_called(tx, session, runs)
    return session, view_of(session, unfinished, idle_before)


def _lock_in_one(
    tx: Transaction, key: SessionKey, now: int
) -> tuple[tuple[Any, ...] | None, Sequence[InvocationRow] | None]:
    """One statement, on SQLite; of most sessions all runs are done, and None says that some are not."""
    shape = owner_shape(key.owner)

    def build() -> Select[Any]:
        return select(*session_columns(tx.tables), has_unfinished(tx)).where(*key_criteria(tx.tables, shape))

    found = tx.row(tx.prepare(("lock with runs", shape), build), key_values(key, now))
    return (None, ()) if found is None else (found[:-1], None if found[-1] else ())


def _lock_and_look(
    tx: Transaction, key: SessionKey, now: int
) -> tuple[tuple[Any, ...] | None, Sequence[InvocationRow] | None]:
    """Two statements that are sent together: what one of them saw before it got the lock may have changed since."""
    shape = owner_shape(key.owner)
    located = tx.later(
        tx.prepare(("locate", shape, True), lambda: locating(tx, shape, lock=True)), key_values(key, now)
    )
    statement = tx.prepare("few unfinished, named", lambda: few_unfinished(tx, skey_named(tx)))
    unfinished = tx.later(statement, {"k_app": key.app, "k_id": key.id})
    tx.flush()
    return located.row, [InvocationRow(*row) for row in unfinished.rows]


def few_unfinished(tx: Transaction, skey: Any) -> Select[Any]:
    """The statement that goes along with others: of few invocations all, and of more than `FEW` one more than those."""
    return unfinished_of(tx, skey).limit(literal_column(str(FEW + 1)))


def unfinished_among(
    tx: Transaction, session: SessionRow, few: Sequence[InvocationRow], rows: Iterable[EventRow]
) -> Sequence[InvocationRow]:
    """What `few_unfinished` found, if that is all; or else the invocations of some rows."""
    return few if len(few) <= FEW else named_unfinished(tx, session, rows)


def load_unfinished_of(tx: Transaction, session: SessionRow, rows: Collection[EventRow]) -> Sequence[InvocationRow]:
    """At least those of the invocations that are not done to which some rows belong; most sessions have none."""
    if not rows:
        return ()
    found = tx.rows(tx.prepare("few unfinished", lambda: few_unfinished(tx, param("skey"))), {"skey": session.skey})
    return unfinished_among(tx, session, [InvocationRow(*row) for row in found], rows)
