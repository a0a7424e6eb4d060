"""What accompanies the events of a batch: the row of its invocation, and the counters of its branch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from typing import cast as cast_type

from sqlalchemy import Select, Table, cast, func, select

from langchain_sessions._core.rows import Counters
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.lookup import upsert

if TYPE_CHECKING:
    from sqlalchemy.sql.dml import Insert


def side_source(table: Table, skey: Any, **given: Any) -> Select[Any]:
    """Selects a row of a side table for a session key that another row names."""
    # PostgreSQL cannot infer the type of a bare value in the SELECT of a CTE.
    named = {c.name: cast(param(c.name), c.type) if given else param(c.name) for c in table.c}
    columns: list[Any] = list({**named, "skey": skey, **given}.values())
    return cast_type("Select[Any]", select(*columns))


def note_invocation(tx: Transaction, source: Select[Any], *, marked: bool) -> Any:
    """Note that an invocation wrote something, and with `marked` how far it got; else it answers how far it is.

    MariaDB hands a value of a changed row back as the id that the statement generated; 0 where there was no row.
    """
    table = tx.tables.invocations
    changes: dict[str, Any] = {"updated_at": lambda new: new.updated_at}
    if marked:
        changes["status"] = lambda new: new.status
    elif tx.flavour == "mysql":
        changes["status"] = lambda _: func.last_insert_id(table.c.status)
    noted = upsert(tx, table, source, ("skey", "id"), changes)
    return noted if marked or tx.flavour == "mysql" else noted.returning(table.c.status)


def note_scope(tx: Transaction, source: Select[Any]) -> Insert:
    """Add to the counters of a branch."""
    table = tx.tables.scopes
    changes = {name: partial(_plus, table.c[name], name) for name in Counters._fields}
    return upsert(tx, table, source, ("skey", "scope"), changes)


def _plus(column: Any, name: str, new: Any) -> Any:
    return column + new[name]
