"""What a database tells of itself: what it is, and how much room the tables take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import column, func, literal, select, table

if TYPE_CHECKING:
    from langchain_sessions._sql.driver.transaction import Transaction


def described(tx: Transaction) -> tuple[str, int]:
    """The database with its version, and the bytes of the tables."""
    asked = "SELECT sqlite_version()" if tx.flavour == "sqlite" else "SELECT version()"
    return f"{tx.flavour} {tx.ask(asked)[0][0]}", _bytes(tx)


def _bytes(tx: Transaction) -> int:
    """The bytes of the tables and their indexes; on SQLite those of the whole file."""
    if tx.flavour == "sqlite":
        return int(tx.ask("PRAGMA page_count")[0][0]) * int(tx.ask("PRAGMA page_size")[0][0])
    names = sorted(tx.tables.metadata.tables)
    if tx.flavour == "postgresql":
        sizes = (func.coalesce(func.pg_total_relation_size(func.to_regclass(literal(name))), 0) for name in names)
        return sum(int(tx.once(select(size))[0][0]) for size in sizes)
    known = table(
        "tables",
        column("table_schema"),
        column("table_name"),
        column("data_length"),
        column("index_length"),
        schema="information_schema",
    ).c
    total = func.coalesce(func.sum(known.data_length + known.index_length), 0)
    here = known.table_schema == func.database()
    return int(tx.once(select(total).where(here, known.table_name.in_(names)))[0][0])
