"""The rows of a table that is made anew, in pages: what a migration writes anew is as large as somebody's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, Select, Table, and_, bindparam, delete, insert, or_, select

from langchain_sessions._sql.tables.types import ident_type, quote_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_sessions._sql.driver.transaction import Row, Transaction

_PAGE = 500
SET_ASIDE = "_old"
"""What the name of a table ends with while its rows are copied."""


def copy_rows(tx: Transaction, table: Table, changed: Mapping[str, Callable[[str], Any]]) -> None:
    """Fill a table from the one that was set aside for it, once more if that was broken off.

    Args:
        tx: The transaction.
        table: The new one.
        changed: The columns that were names, and what makes of a name what they are now.
    """
    source = _set_aside(table, changed)
    tx.change(delete(table))
    keys = [column.name for column in table.primary_key]
    places = [column.name for column in table.c].index
    putting = tx.prepare(("rebuild", table.name), lambda: insert(table))
    last: Row = ()
    while True:
        shape = ("rebuild from", table.name, bool(last))
        page = tx.prepare(shape, _page, source, keys if last else [])
        rows = tx.rows(page, {f"k_{name}": last[places(name)] for name in keys} if last else {})
        tx.run_many(putting, [_anew(page.columns, row, changed) for row in rows])
        if len(rows) < _PAGE:
            return
        last = rows[-1]


def _set_aside(table: Table, changed: Mapping[str, object]) -> Table:
    columns: list[Column[Any]] = [
        Column(c.name, ident_type() if c.name in changed else c.type, primary_key=c.primary_key) for c in table.c
    ]
    source = Table(f"{table.name}{SET_ASIDE}", metadata := MetaData(), *columns)
    quote_names(metadata)
    return source


def _page(source: Table, keys: Sequence[str]) -> Select[Any]:
    """Rows in the order of their keys, behind one."""
    read = select(source).order_by(*source.primary_key).limit(_PAGE)
    if not keys:
        return read
    before: list[Any] = [source.c[name] == bindparam(f"k_{name}") for name in keys]
    beyond: list[Any] = [source.c[name] > bindparam(f"k_{name}") for name in keys]
    # The first says from where on the index is read: databases do not find that out by themselves.
    start = source.c[keys[0]] >= bindparam(f"k_{keys[0]}")
    return read.where(start, or_(*(and_(*before[:at], beyond[at]) for at in range(len(keys)))))


def _anew(names: Sequence[str], row: Row, changed: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(names, row, strict=True))
    for name, value in values.items():
        if isinstance(value, memoryview):
            values[name] = bytes(value)
        # What was altered into something else stays as it is, and is told by who reads it.
        elif name in changed and isinstance(value, str):
            values[name] = changed[name](value)
    return values
