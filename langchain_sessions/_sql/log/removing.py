"""Removing sessions with all that belongs to them, and shelves of the recall index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import (
    delete,
    select,
)

from langchain_sessions._sql.tables.blanking import blank, blank_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._sql.driver.transaction import Transaction


def remove_rows(tx: Transaction, skeys: Iterable[int]) -> None:
    """Remove everything that belongs to some sessions, the session rows last."""
    keys = list(skeys)
    remove_shelves(tx, keys)
    for table in tx.tables.of_session:
        if tx.flavour == "sqlite":
            blank_rows(tx, table, keys)
        tx.change(delete(table).where(table.c.skey.in_(keys)))


def remove_shelves(tx: Transaction, skeys: Sequence[int]) -> None:
    """Remove the copies in which the words of these sessions lie beside those of others."""
    held = tx.tables.recall.shelf_logs.c
    if skeys:
        rows = tx.once(select(held.shelf).where(held.skey.in_(skeys)).distinct())
        drop_shelves(tx, [row[0] for row in rows])


def drop_shelves(tx: Transaction, numbers: Sequence[int]) -> None:
    """Remove shelves of the recall index, and what they hold."""
    recall = tx.tables.recall
    for table in (recall.shelf_terms, recall.shelf_logs, recall.shelves) if numbers else ():
        mine = table.c.shelf.in_(numbers)
        if tx.flavour == "sqlite":
            blank(tx, table, mine)
        tx.change(delete(table).where(mine))
