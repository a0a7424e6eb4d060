"""The tables, for every database that the library knows.

Ids compare exactly everywhere: binary collations in our own DDL, whatever the server's default. Payloads are
JSON in columns without a length limit. The session key is a small integer that is never used again; all
rows of a session lie together under it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Identity,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    UniqueConstraint,
    insert,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from langchain_sessions._core import rows as r
from langchain_sessions._core.edge import require
from langchain_sessions._sql.tables.recall import RecallTables, build_recall_tables
from langchain_sessions._sql.tables.threads import ThreadTables, build_thread_tables
from langchain_sessions._sql.tables.types import (
    INNODB,
    apply_options,
    big_key,
    bytes_type,
    ident_type,
    only_where,
    options_for,
    quote_names,
    session_table,
    text_type,
)
from langchain_sessions._sql.tables.whole_texts import event_column
from langchain_sessions.errors import UnsupportedDatabaseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA_VERSION = 6
# Room for the emptied versions of all rows of a page: half a page for each would double what small threads leave.
FILL_OF_STAGED = 85
# PostgreSQL cuts names at 63 bytes, which leaves 33 to those of tables and indexes.
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,29}\Z|\Z")


@dataclass(frozen=True, slots=True)
class Tables:
    """All tables of one installation, and the columns of an event as statements read them."""

    metadata: MetaData
    versions: Table
    sessions: Table
    events: Table
    marks: Table
    invocations: Table
    scopes: Table
    leases: Table
    user_state: Table
    app_state: Table
    tombstones: Table
    threads: ThreadTables
    recall: RecallTables
    of_event: Mapping[str, ColumnElement[Any]]

    @property
    def of_session(self) -> list[Table]:
        """Every table with rows of single sessions, the session row itself last."""
        others = [table for table in self.metadata.sorted_tables if "skey" in table.c and table is not self.sessions]
        return [*others, self.sessions]


def build_tables(prefix: str = "") -> Tables:
    """The tables under a name prefix.

    Raises:
        InvalidInputError: The prefix is not made of at most 30 letters, digits and underscores.
    """
    require(_PREFIX.match(prefix), "table_prefix", "use at most 30 letters, digits and underscores")
    metadata = MetaData()
    key = partial(Column, "skey", big_key(), primary_key=True, autoincrement=False)
    tables = Tables(
        metadata=metadata,
        versions=session_table(
            metadata,
            f"{prefix}schema_versions",
            Column("version", Integer, primary_key=True, autoincrement=False),
            Column("applied_at", BigInteger, nullable=False),
        ),
        sessions=_sessions(metadata, prefix),
        events=_events(metadata, prefix),
        marks=session_table(
            metadata,
            f"{prefix}marks",
            key(),
            Column("seq", BigInteger, primary_key=True, autoincrement=False),
            Column("kind", ident_type(16), nullable=False),
            Column("data", text_type(), nullable=False),
        ),
        invocations=_invocations(metadata, prefix),
        scopes=session_table(
            metadata,
            f"{prefix}scopes",
            key(),
            Column("scope", ident_type(), primary_key=True),
            Column("events", BigInteger, nullable=False),
            Column("turns", BigInteger, nullable=False),
            Column("tokens", BigInteger, nullable=False),
        ),
        leases=session_table(
            metadata,
            f"{prefix}leases",
            key(),
            Column("scope", ident_type(), primary_key=True),
            Column("holder", ident_type(), nullable=False),
            Column("until", BigInteger, nullable=False),
        ),
        **_beyond_sessions(metadata, prefix),
        threads=build_thread_tables(metadata, prefix),
        recall=build_recall_tables(metadata, prefix),
        of_event={},
    )
    quote_names(metadata)
    # Made of columns whose names are quoted.
    columns = {name: event_column(tables.events, name) for name in r.EventRow._fields}
    return replace(tables, of_event={**columns, "packed": tables.events.c.packed})


def _beyond_sessions(metadata: MetaData, prefix: str) -> dict[str, Table]:
    """What does not belong to one session: shared state, and ids that were deleted lately."""
    return {
        "user_state": session_table(
            metadata,
            f"{prefix}user_state",
            Column("app", ident_type(), primary_key=True),
            Column("user_id", ident_type(), primary_key=True),
            Column("name", ident_type(), primary_key=True),
            Column("value", text_type(), nullable=False),
        ),
        "app_state": session_table(
            metadata,
            f"{prefix}app_state",
            Column("app", ident_type(), primary_key=True),
            Column("name", ident_type(), primary_key=True),
            Column("value", text_type(), nullable=False),
        ),
        "tombstones": session_table(
            metadata,
            f"{prefix}tombstones",
            Column("digest", ident_type(64), primary_key=True),
            Column("until", BigInteger, nullable=False),
        ),
    }


def _sessions(metadata: MetaData, prefix: str) -> Table:
    expires = Column("expires_at", BigInteger)
    table = Table(
        f"{prefix}sessions",
        metadata,
        Column("skey", big_key(), Identity(), primary_key=True),
        Column("app", ident_type(), nullable=False),
        Column("id", ident_type(), nullable=False),
        Column("user_id", ident_type()),
        Column("title", text_type()),
        Column("metadata", text_type(), nullable=False),
        Column("initial_state", text_type(), nullable=False),
        Column("state", text_type(), nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        # `updated_at` to the minute. An index on the exact time would be written by every append.
        Column("activity", BigInteger, nullable=False),
        expires,
        Column("renewal", BigInteger),
        Column("renewal_grain", BigInteger),
        Column("ended_at", BigInteger),
        Column("last_seq", BigInteger, nullable=False),
        Column("live_events", BigInteger, nullable=False),
        Column("live_turns", BigInteger, nullable=False),
        Column("live_tokens", BigInteger, nullable=False),
        # 1 once an event has an id that its caller gave: appends then look for ids as well as for identities.
        Column("aliased", SmallInteger, nullable=False),
        Column("ledger", text_type()),
        Column("head_id", ident_type()),
        # NULL where the session is no thread of a graph; empty where the thread has no checkpoint in sight.
        Column("head_runs", bytes_type()),
        UniqueConstraint("app", "id", name=f"{prefix}sessions_app_id"),
        info=options_for(sqlite={"autoincrement": True}, mysql=INNODB, mariadb=INNODB),
    )
    Index(f"{prefix}sessions_by_user", table.c.app, table.c.user_id, table.c.activity, table.c.skey)
    Index(f"{prefix}sessions_by_activity", table.c.app, table.c.activity, table.c.skey)
    some = expires.is_not(None)
    Index(f"{prefix}sessions_by_expiry", table.c.app, expires, info=only_where(some))
    return table


def _events(metadata: MetaData, prefix: str) -> Table:
    event_id = Column("event_id", ident_type())
    table = session_table(
        metadata,
        f"{prefix}events",
        Column("skey", big_key(), primary_key=True, autoincrement=False),
        Column("seq", BigInteger, primary_key=True, autoincrement=False),
        Column("ident", ident_type(), nullable=False),
        Column("rev", Integer, nullable=False),
        event_id,
        Column("position", BigInteger),
        Column("kind", SmallInteger, nullable=False),
        Column("flags", Integer, nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("tokens", Integer, nullable=False),
        Column("branch", ident_type()),
        Column("author", ident_type()),
        Column("invocation_id", ident_type()),
        Column("delta", text_type()),
        Column("text", text_type()),
        Column("folded", text_type()),
        Column("body", text_type()),
        Column("extra", text_type()),
        # Which event a text is told by, and what of it stands around what the row holds: `whole_texts`.
        Column("base", BigInteger),
        Column("kept", BigInteger),
        Column("folded_kept", BigInteger),
        # The text and what keyword search compares, deflated, where both columns hold nothing: `_core/packed_texts`.
        Column("packed", bytes_type()),
        # What makes an append idempotent: the second of two equal ones runs into it and looks at what is there.
        UniqueConstraint("skey", "ident", "rev", name=f"{prefix}events_ident"),
        large=True,
        deflated=True,
    )
    named = event_id.is_not(None)
    Index(f"{prefix}events_event_id", table.c.skey, event_id, info=only_where(named))
    return table


def _invocations(metadata: MetaData, prefix: str) -> Table:
    status = Column("status", SmallInteger, nullable=False)
    table = session_table(
        metadata,
        f"{prefix}invocations",
        Column("skey", big_key(), primary_key=True, autoincrement=False),
        Column("id", ident_type(), primary_key=True),
        Column("first_seq", BigInteger, nullable=False),
        status,
        Column("updated_at", BigInteger, nullable=False),
    )
    # Nearly all are done, and only the others are ever asked for.
    unfinished = status != r.MARKS["done"]
    Index(
        f"{prefix}invocations_unfinished",
        table.c.skey,
        status,
        info=only_where(unfinished),
    )
    return table


_DIALECTS = {
    "sqlite": ("sqlite", "dialect"),
    "postgresql": ("postgresql", "dialect"),
    "mysql": ("mysql", "dialect"),
    "mariadb": ("mysql.mariadb", "MariaDBDialect"),
}
"""Where each dialect is: it brings all its drivers' parts along, so it is loaded when it is asked for."""


def flavour_dialect(flavour: str) -> Dialect:
    """A dialect to write DDL for.

    Raises:
        UnsupportedDatabaseError: The library does not know the database.
    """
    if flavour not in _DIALECTS:
        problem = f"{flavour!r} is not supported. Use one of: {', '.join(_DIALECTS)}."
        raise UnsupportedDatabaseError(problem)
    module, name = _DIALECTS[flavour]
    dialect: type[Dialect] = getattr(import_module(f"sqlalchemy.dialects.{module}"), name)
    return dialect()


def ddl_by_table(
    flavour: str, tables: Tables, *, deflates: bool = True
) -> Iterator[tuple[Table, dict[str | None, str]]]:
    """For each table, in order, the statement that creates it (under None) and its indexes by name.

    Args:
        flavour: The database.
        tables: What to create.
        deflates: Whether the server takes pages that are deflated, where tables ask for it.
    """
    dialect = flavour_dialect(flavour)
    for table in tables.metadata.sorted_tables:
        apply_options(table, flavour)
        created = str(CreateTable(table).compile(dialect=dialect)).strip()
        fill = {tables.sessions: 70, tables.threads.staged: FILL_OF_STAGED}.get(table)
        if flavour == "postgresql" and fill:
            # Updates of a row stay on its page where there is room. SQLAlchemy 2.0 has no option for it.
            created += f" WITH (fillfactor = {fill})"
        if not deflates:
            created = created.replace("=COMPRESSED", "=DYNAMIC").replace(" KEY_BLOCK_SIZE=8", "")
        statements: dict[str | None, str] = {None: created}
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            statements[str(index.name)] = str(CreateIndex(index).compile(dialect=dialect)).strip()
        yield table, statements


def ddl_statements(flavour: str, tables: Tables) -> list[str]:
    """The statements that create the tables and their indexes, in order."""
    return [statement for _, named in ddl_by_table(flavour, tables) for statement in named.values()]


def schema_sql(dialect: str, table_prefix: str = "") -> str:
    """The DDL of the current schema, for people who run migrations of their own.

    Args:
        dialect: `sqlite`, `postgresql`, `mysql` or `mariadb`.
        table_prefix: As given to the service.

    Returns:
        Statements separated by semicolons, ending with the row that records the schema's version.
    """
    tables = build_tables(table_prefix)
    row = insert(tables.versions).values(version=SCHEMA_VERSION, applied_at=0)
    record = row.compile(dialect=flavour_dialect(dialect), compile_kwargs={"literal_binds": True})
    return ";\n\n".join([*ddl_statements(dialect, tables), str(record)]) + ";\n"
