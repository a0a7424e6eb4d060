"""Rows that are named by the values of some columns: statements whose shape is all that there is to say about them.

Like every statement that runs more than now and then they are compiled once; compiling takes ten times as long as
running one on SQLite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from langchain_sessions._sql.driver.transaction import Transaction, Values, param

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Column, ColumnElement, Table

Row = tuple[Any, ...]


def find_rows(tx: Transaction, columns: Sequence[Column[Any]], **same: Any) -> list[Row]:
    """Some columns of the rows in which others have these values."""
    table = columns[0].table
    shape = ("find rows", table, *(column.name for column in columns), None, *same)
    return tx.rows(tx.prepare(shape, lambda: select(*columns).where(*_matching(table, same))), same)


def insert_row(tx: Transaction, table: Table, **values: Any) -> None:
    """Insert a row; no answer is waited for."""
    statement = tx.prepare(("insert row", table, *values), lambda: insert(table).values(_params(values)))
    tx.later(statement, values)


def update_rows(tx: Transaction, table: Table, same: Values, **values: Any) -> None:
    """Set columns of the rows in which others have some values; no answer is waited for."""
    shape = ("update rows", table, *same, None, *values)
    given = {f"v_{name}": value for name, value in values.items()}

    def build() -> Any:
        return update(table).where(*_matching(table, same)).values({name: param(f"v_{name}") for name in values})

    tx.later(tx.prepare(shape, build), {**same, **given})


def delete_rows(tx: Transaction, table: Table, **same: Any) -> None:
    """Delete the rows in which columns have these values; no answer is waited for."""
    statement = tx.prepare(("delete rows", table, *same), lambda: delete(table).where(*_matching(table, same)))
    tx.later(statement, same)


def _matching(table: Any, names: Iterable[str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == param(name) for name in names]


def _params(names: Iterable[str]) -> dict[str, Any]:
    return {name: param(name) for name in names}
