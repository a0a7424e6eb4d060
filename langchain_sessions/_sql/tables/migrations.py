"""Numbered steps from each schema to the next, each in a transaction of its own and recorded in a table.

A fresh database starts at the newest schema. A step is a function of a transaction; it may be run again after a
crash between its statements on databases whose DDL commits by itself, so each one first looks at what is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from typing import Any

from sqlalchemy import Column, Table, insert, select, text

from langchain_sessions._core.edge import packed_id
from langchain_sessions._sql.driver.transaction import Transaction
from langchain_sessions._sql.tables.rebuilding import SET_ASIDE, copy_rows
from langchain_sessions._sql.tables.schema import FILL_OF_STAGED, SCHEMA_VERSION, ddl_by_table
from langchain_sessions.errors import SchemaError, SchemaMissingError, SchemaVersionError, StoreUnavailableError

Step = Callable[[Transaction], None]
# Any number will do that no other library is likely to have chosen: advisory locks have one space per database.
_LOCK_ID = 7_203_511_004
_LOCK_NAME = f"langchain_sessions_{_LOCK_ID}"


def touch(tx: Transaction) -> None:
    """Ask for nothing: SQLAlchemy asks a server for its version when the first connection is made."""
    tx.ask("SELECT 1")


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


def migrate(
    tx: Transaction, ddl_flavour: str, known: int = SCHEMA_VERSION, steps: Mapping[int, Step] | None = None
) -> bool:
    """Bring the database one step further; whether there may be more to do.

    Raises:
        SchemaVersionError: The database is newer.
    """
    lock_schema(tx)
    try:
        more = _migrate_once(tx, ddl_flavour, known, STEPS if steps is None else steps)
    except BaseException:
        unlock_schema(tx, "ROLLBACK")
        raise
    unlock_schema(tx, "COMMIT")
    return more


def _migrate_once(tx: Transaction, ddl_flavour: str, known: int, steps: Mapping[int, Step]) -> bool:
    version = found_version(tx) if has_table(tx, tx.tables.versions.name) else 0
    if version > known:
        raise SchemaVersionError(version, known)
    if version == known:
        return False
    if version == 0:
        _refuse_others(tx)
        _create_tables(tx, ddl_flavour)
        _record(tx, known)
        return False
    steps[version + 1](tx)
    _record(tx, version + 1)
    return version + 1 < known


def _refuse_others(tx: Transaction) -> None:
    """Leave a database alone in which a table of ours is another program's: LangGraph's savers have `checkpoints`, too.

    Raises:
        SchemaError: There is one.
    """
    for table in tx.tables.metadata.sorted_tables:
        if has_table(tx, table.name) and not all(has_column(tx, table.name, column.name) for column in table.c):
            problem = f"The database has a table {str(table.name)!r} of another program; nothing was written. "
            raise SchemaError(f"{problem}Give a table_prefix, such as 'chat_', or another database.")


def _create_tables(tx: Transaction, ddl_flavour: str, only: Collection[Table] | None = None) -> None:
    """Create what is not there: on MySQL and MariaDB a creation that was broken off has left some tables."""
    deflates = ddl_flavour == "mariadb" and _deflates(tx)
    for table, statements in ddl_by_table(ddl_flavour, tx.tables, deflates=deflates):
        if only is not None and table not in only:
            continue
        if not has_table(tx, table.name):
            tx.script(statements[None])
        for name, statement in statements.items():
            if name is not None and not has_index(tx, table.name, name):
                tx.script(statement)


def _deflates(tx: Transaction) -> bool:
    """Whether a MariaDB server takes tables whose pages are deflated to half of theirs."""
    asked = "'innodb_page_size', 'innodb_file_per_table', 'innodb_read_only_compressed'"
    # From 10.6.0 to 10.6.5 it only read what is deflated unless told otherwise. What it has no variable for is no bar.
    rows = tx.ask(f"SHOW VARIABLES WHERE variable_name IN ({asked})")
    found = {str(name).lower(): str(value).upper() for name, value in rows}
    return (
        found.get("innodb_page_size") == "16384"
        and found.get("innodb_file_per_table", "ON") == "ON"
        and found.get("innodb_read_only_compressed", "OFF") == "OFF"
    )


def has_table(tx: Transaction, table: str) -> bool:
    """Whether a table exists; for steps that may be run again.

    Asked of the catalogue, since a failed query ends a PostgreSQL transaction.
    """
    catalogue = {
        # SQLite takes names of tables for equal whatever their case.
        "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :table_ COLLATE NOCASE",
        "postgresql": "SELECT count(to_regclass(quote_ident(:table_)))",
        "mysql": "SELECT count(*) FROM information_schema.tables"
        " WHERE table_schema = database() AND table_name = :table_",
    }
    return bool(_asked(tx, catalogue, table_=table))


def has_column(tx: Transaction, table: str, column: str) -> bool:
    """Whether a table has a column; for steps that may be run again."""
    catalogue = {
        "sqlite": "SELECT count(*) FROM pragma_table_info(:table_) WHERE name = :column_",
        "postgresql": "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(:table_))"
        " AND attname = :column_ AND NOT attisdropped",
        "mysql": "SELECT count(*) FROM information_schema.columns"
        " WHERE table_schema = database() AND table_name = :table_ AND column_name = :column_",
    }
    return bool(_asked(tx, catalogue, table_=table, column_=column))


def _holds_bytes(tx: Transaction, table: str, column: str) -> bool:
    """Whether a column is one of bytes; for a step that makes it one."""
    catalogue = {
        "sqlite": "SELECT count(*) FROM pragma_table_info(:table_) WHERE name = :column_ AND type = 'BLOB'",
        "postgresql": "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(:table_))"
        " AND attname = :column_ AND atttypid = 'bytea'::regtype",
        "mysql": "SELECT count(*) FROM information_schema.columns WHERE table_schema = database()"
        " AND table_name = :table_ AND column_name = :column_ AND data_type = 'varbinary'",
    }
    return bool(_asked(tx, catalogue, table_=table, column_=column))


def has_index(tx: Transaction, table: str, index: str) -> bool:
    """Whether a table has an index; for steps that may be run again."""
    catalogue = {
        "sqlite": "SELECT count(*) FROM pragma_index_list(:table_) WHERE name = :index_",
        "postgresql": "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE indrelid = to_regclass(quote_ident(:table_)) AND relname = :index_",
        "mysql": "SELECT count(*) FROM information_schema.statistics"
        " WHERE table_schema = database() AND table_name = :table_ AND index_name = :index_",
    }
    return bool(_asked(tx, catalogue, table_=table, index_=index))


def _asked(tx: Transaction, by_flavour: Mapping[str, str], **values: str | int) -> Any:
    """One value. The text goes through SQLAlchemy, so that each driver gets the marks that it has for values."""
    return tx.once(text(by_flavour[tx.flavour]).bindparams(**values))[0][0]


def lock_schema(tx: Transaction) -> None:
    """Let other processes wait; SQLite's write lock is held already.

    Raises:
        StoreUnavailableError: Another process is at it for longer than a minute.
    """
    if tx.flavour == "postgresql":
        tx.ask(f"SELECT pg_advisory_xact_lock({_LOCK_ID})")
    elif tx.flavour == "mysql" and tx.ask(f"SELECT GET_LOCK('{_LOCK_NAME}', 60)")[0][0] != 1:
        raise StoreUnavailableError("Another process is changing the schema; try again.")


def unlock_schema(tx: Transaction, ending: str) -> None:
    """Let the next process go on; PostgreSQL's lock ends with the transaction.

    MySQL's lock belongs to the connection, so the transaction ends first: whoever comes next must see the outcome.
    """
    if tx.flavour == "mysql":
        # Why it failed is the error to tell, not that it could not be undone.
        with suppress(Exception) if ending == "ROLLBACK" else nullcontext():
            tx.script(ending)
        with suppress(Exception):
            tx.ask(f"SELECT RELEASE_LOCK('{_LOCK_NAME}')")


def _record(tx: Transaction, version: int) -> None:
    tx.change(insert(tx.tables.versions).values(version=version, applied_at=time.time_ns() // 1000))


def _flavour(tx: Transaction) -> str:
    """Asked of the server: a URL may say mysql for MariaDB, too, and their collations have other names."""
    is_mariadb = tx.flavour == "mysql" and "mariadb" in str(tx.ask("SELECT version()")[0][0]).lower()
    return "mariadb" if is_mariadb else tx.flavour


def _quoted(tx: Transaction, name: str) -> str:
    return tx.cache.dialect.identifier_preparer.quote_identifier(name)


def _add_shelves(tx: Transaction) -> None:
    """Tables for the copies of an owner's indexes; searches fill them."""
    recall = tx.tables.recall
    _create_tables(tx, _flavour(tx), (recall.shelves, recall.shelf_logs, recall.shelf_terms))


def _add_bases(tx: Transaction) -> None:
    """Columns that say by which event the text of another one is told; of what is there it is none."""
    events = tx.tables.events.c
    _add_columns(tx, events.base, events.kept, events.folded_kept)


def _add_writes_within(tx: Transaction) -> None:
    """Columns for the writes and the parent of a checkpoint; those that are there stay where they are."""
    t = tx.tables.threads
    _add_columns(tx, t.checkpoints.c.origin, t.checkpoints.c.writes)
    if tx.flavour == "postgresql":
        tx.script(f"ALTER TABLE {_quoted(tx, t.staged.name)} SET (fillfactor = {FILL_OF_STAGED})")


def _pack_ids(tx: Transaction) -> None:
    """Ids of checkpoints as bytes: they are in keys, by which rows are sorted."""
    for table in (tx.tables.threads.checkpoints, tx.tables.threads.writes):
        old = f"{table.name}{SET_ASIDE}"
        if has_table(tx, table.name) and not _holds_bytes(tx, table.name, "cid"):
            if has_table(tx, old):  # ours would not stand beside it: what is set aside has another name meanwhile
                problem = f"The table {old!r} is in the way of a migration: give it another name."
                raise SchemaError(problem)
            _set_aside(tx, table, old)
        _create_tables(tx, _flavour(tx), (table,))
        if has_table(tx, old):
            copy_rows(tx, table, {"cid": packed_id})
            tx.script(f"DROP TABLE {_quoted(tx, old)}")


def _set_aside(tx: Transaction, table: Table, old: str) -> None:
    """Give a table another name. Its indexes leave theirs, where a database has one of each."""
    tx.script(f"ALTER TABLE {_quoted(tx, table.name)} RENAME TO {_quoted(tx, old)}")
    if tx.flavour == "postgresql":
        tx.script(f"ALTER INDEX IF EXISTS {_quoted(tx, f'{table.name}_pkey')} RENAME TO {_quoted(tx, f'{old}_pkey')}")
    if tx.flavour != "mysql":
        for index in table.indexes:
            tx.script(f"DROP INDEX IF EXISTS {_quoted(tx, str(index.name))}")


def _add_packed(tx: Transaction) -> None:
    """A column for long texts; those that are there stay where they are."""
    _add_columns(tx, tx.tables.events.c.packed)


def _add_columns(tx: Transaction, *columns: Column[Any]) -> None:
    """Columns of a table that are NULL in the rows that are there: no database writes those anew for it."""
    for column in columns:
        table = column.table.name
        if not has_column(tx, table, column.name):
            kind = column.type.compile(tx.cache.dialect)
            tx.script(f"ALTER TABLE {_quoted(tx, table)} ADD COLUMN {_quoted(tx, column.name)} {kind}")


STEPS: Mapping[int, Step] = {2: _add_shelves, 3: _add_bases, 4: _add_writes_within, 5: _pack_ids, 6: _add_packed}
"""The step that leads to each version above 1."""
