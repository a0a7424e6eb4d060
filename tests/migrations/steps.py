"""Two synthetic steps beyond the newest schema, and processes that die while they take them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.store import SqlStore
from langchain_sessions._sql.tables import migrations
from langchain_sessions._sql.tables.schema import SCHEMA_VERSION
from tests.faults.drills import engines_of, make_service, opened
from tests.faults.injection import FaultyConnection, Injector

if TYPE_CHECKING:
    from langchain_sessions import SessionService
    from langchain_sessions._sql.driver.transaction import Transaction

NEWEST = SCHEMA_VERSION + 2


def _add_colour(tx: Transaction) -> None:
    """A step that looks at what is there before each change."""
    name = tx.tables.sessions.name
    if not migrations.has_column(tx, name, "colour"):
        tx.script(f"ALTER TABLE {_quoted(tx, name)} ADD COLUMN colour VARCHAR(20)")
    if not migrations.has_index(tx, name, f"{name}_colour"):
        index = _quoted(tx, f"{name}_colour")
        tx.script(f"CREATE INDEX {index} ON {_quoted(tx, name)} (colour)")


def _paint(tx: Transaction) -> None:
    """A step that moves data into a new table."""
    extra = f"{tx.tables.sessions.name}_paint"
    if not migrations.has_table(tx, extra):
        tx.script(f"CREATE TABLE {_quoted(tx, extra)} (id VARCHAR(255) PRIMARY KEY, colour VARCHAR(20))")
    tx.script(f"UPDATE {_quoted(tx, tx.tables.sessions.name)} SET colour = 'red' WHERE colour IS NULL")
    tx.script(f"DELETE FROM {_quoted(tx, extra)}")
    sessions = _quoted(tx, tx.tables.sessions.name)
    tx.script(f"INSERT INTO {_quoted(tx, extra)} (id, colour) SELECT id, colour FROM {sessions}")


STEPS = {**migrations.STEPS, SCHEMA_VERSION + 1: _add_colour, SCHEMA_VERSION + 2: _paint}


def _quoted(tx: Transaction, name: str) -> str:
    return tx.cache.dialect.identifier_preparer.quote_identifier(name)


class Killer(Injector):
    """Kills this process where an injector cuts a connection."""

    def cut(self, connection: FaultyConnection) -> None:
        """The end."""
        os.kill(os.getpid(), signal.SIGKILL)


def upgrade(service: SessionService) -> None:
    """Bring the database to the newest of the versions that only these tests know."""
    store = log_of(service).store
    assert isinstance(store, SqlStore)
    flavour = {"mysql": "mariadb"}.get(store._runner.flavour, store._runner.flavour)
    while store._runner.run_on_any(TransactionKind.WRITE, migrations.migrate, flavour, NEWEST, STEPS):
        pass


def upgrade_at(url: str, prefix: str) -> None:
    """`upgrade` in a process of its own."""
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        upgrade(service)


def die_at(url: str, prefix: str, boundary: int) -> None:
    """Upgrade, but be killed before a boundary."""
    service = make_service(url, table_prefix=prefix)
    injector = Killer(*engines_of(service))
    with injector.failing(boundary, "cut before"):
        upgrade(service)


def die_creating(url: str, prefix: str, boundary: int) -> None:
    """Create the tables, but be killed before a boundary."""
    service = make_service(url, table_prefix=prefix)
    injector = Killer(*engines_of(service))
    with injector.failing(boundary, "cut before"):
        service.create_schema()
