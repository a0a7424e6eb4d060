"""SQLite: overwriting what is deleted, before it is deleted.

`secure_delete` zeroes the cells that a statement frees. But when pages are then merged, SQLite copies cells and leaves
the old copies in the unused part of a page, where rows of another session may go on living. Measured: in one of five
deletions some words were left. Zeroes of the same length are written in place, and copies of zeroes tell nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import LargeBinary, Text, case, func, null, update
from sqlalchemy import cast as sql_cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Column, ColumnElement, Table

    from langchain_sessions._sql.driver.transaction import Transaction


def blank_rows(tx: Transaction, table: Table, skeys: Sequence[int]) -> None:
    """Overwrite every text and every blob of some sessions' rows by zeroes."""
    blank(tx, table, table.c.skey.in_(skeys))


def blank(tx: Transaction, table: Table, which: ColumnElement[bool]) -> None:
    """Overwrite every text and every blob of some rows by zeroes."""
    long = [column for column in table.c if isinstance(column.type, (Text, LargeBinary)) and not column.primary_key]
    if long:
        # Not the key: its columns are positions and numbers, which tell nothing, and changing them would move the row.
        zeroes = {column.name: _zeroes(column) for column in long}
        tx.change(update(table).where(which).values(zeroes))


def _zeroes(column: Column[Any]) -> Any:
    blob = func.zeroblob(func.length(sql_cast(column, LargeBinary())))
    same = blob if isinstance(column.type, LargeBinary) else sql_cast(blob, Text())
    return case((column.is_(None), null()), else_=same)
