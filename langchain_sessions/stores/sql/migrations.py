"""Numbered steps from each schema to the next, each in a transaction of its own and recorded in a table.

A fresh database starts at the newest schema. A step is a function of a transaction; it may be run again after a
crash between its statements on databases whose DDL commits by itself, so each one first looks at what is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from sqlalchemy import insert, select

from langchain_sessions.errors import SchemaError, SchemaMissingError, SchemaVersionError
from langchain_sessions.stores.sql.schema import SCHEMA_VERSION, ddl_statements
from langchain_sessions.stores.sql.transaction import Transaction

Step = Callable[[Transaction], None]
STEPS: Mapping[int, Step] = {}
"""The step that leads to each version above 1."""
_LOCK_ID = 7_203_511_004


def found_version(tx: Transaction) -> int:
    """The newest schema version that the database records.

    Raises:
        SchemaMissingError: There are no tables.
    """
    table = tx.tables.versions
    rows = tx.once(select(table.c.version).order_by(table.c.version.desc()).limit(1))
    return int(rows[0][0]) if rows else 0


def check_version(tx: Transaction, known: int = SCHEMA_VERSION) -> None:
    """Refuse a database that this release cannot work on.

    Raises:
        SchemaMissingError: There are no tables.
        SchemaVersionError: The database is newer.
        SchemaError: It is older, and create_schema() has to upgrade it first.
    """
    found = found_version(tx)
    if found == 0:
        raise SchemaMissingError
    if found > known:
        raise SchemaVersionError(found, known)
    if found < known:
        problem = f"The database has schema version {found}; this release needs {known}. Call create_schema()."
        raise SchemaError(problem)


def migrate(tx: Transaction, ddl_flavour: str, known: int = SCHEMA_VERSION, steps: Mapping[int, Step] = STEPS) -> bool:
    """Bring the database one step further; whether there may be more to do.

    Raises:
        SchemaVersionError: The database is newer.
    """
    lock_schema(tx)
    try:
        version = _version_or_zero(tx)
        if version > known:
            raise SchemaVersionError(version, known)
        if version == known:
            return False
        if version == 0:
            for statement in ddl_statements(ddl_flavour, tx.tables, if_missing=True):
                tx.script(statement)
            _record(tx, known)
            return False
        steps[version + 1](tx)
        _record(tx, version + 1)
        return version + 1 < known
    finally:
        unlock_schema(tx)


def _version_or_zero(tx: Transaction) -> int:
    """The recorded version; 0 where there is no table.

    Asked of the catalogue, since a failed query ends a PostgreSQL transaction.
    """
    name = tx.tables.versions.name
    catalogue = {
        "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?",
        "postgresql": "SELECT count(*) FROM (SELECT to_regclass(%s) AS found) t WHERE found IS NOT NULL",
        "mysql": "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = %s",
    }[tx.flavour]
    return found_version(tx) if tx.ask(catalogue, (name,))[0][0] else 0


def lock_schema(tx: Transaction) -> None:
    """Let other processes wait; SQLite's write lock is held already."""
    if tx.flavour == "postgresql":
        tx.ask("SELECT pg_advisory_xact_lock(%s)", (_LOCK_ID,))
    elif tx.flavour == "mysql":
        tx.ask("SELECT GET_LOCK(%s, 60)", (f"langchain_sessions_{_LOCK_ID}",))


def unlock_schema(tx: Transaction) -> None:
    """Let the next process go on; PostgreSQL's lock ends with the transaction."""
    if tx.flavour == "mysql":
        with suppress(Exception):
            tx.ask("SELECT RELEASE_LOCK(%s)", (f"langchain_sessions_{_LOCK_ID}",))


def _record(tx: Transaction, version: int) -> None:
    tx.change(insert(tx.tables.versions).values(version=version, applied_at=time.time_ns() // 1000))
