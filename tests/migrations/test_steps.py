"""V02, V05: the schema's numbered steps, refused, interrupted and taken up again."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import make_url, text

from langchain_sessions import SessionService
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.tables import migrations
from langchain_sessions._sql.tables.schema import SCHEMA_VERSION
from langchain_sessions.errors import SchemaError, SchemaMissingError, SchemaVersionError
from tests.faults.drills import assert_whole, engines_of, make_service, message, opened
from tests.faults.injection import Injector
from tests.faults.processes import CONTEXT, run_at_once
from tests.migrations.steps import NEWEST, die_at, die_creating, upgrade, upgrade_at
from tests.servers.databases import connection, tables

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.backends("sqlite", "postgres", "mariadb")


def _filled(url: str, prefix: str) -> None:
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        service.create_schema()
        service.open("s")
        service.append("s", [message("m1"), message("m2")])


def _assert_upgraded_once(url: str, prefix: str) -> None:
    with connection(url) as conn:
        quote = conn.dialect.identifier_preparer.quote_identifier
        versions = conn.scalars(text(f"SELECT version FROM {quote(f'{prefix}schema_versions')} ORDER BY 1")).all()
        assert versions == [SCHEMA_VERSION, SCHEMA_VERSION + 1, SCHEMA_VERSION + 2]
        painted = conn.execute(text(f"SELECT id, colour FROM {quote(f'{prefix}sessions_paint')}")).all()
        assert [tuple(row) for row in painted] == [("s", "red")]


@pytest.fixture
def place(fresh_database: Callable[[], str]) -> tuple[str, str]:
    """A database with a session in it, and the prefix of its tables."""
    url, prefix = fresh_database(), "App_"
    _filled(url, prefix)
    return url, prefix


def test_a_migration_that_is_killed_at_any_boundary_is_taken_up_again(place: tuple[str, str]) -> None:
    """V05."""
    url, prefix = place
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        injector = Injector(*engines_of(service))
        with injector.counting():
            upgrade(service)
        injector.close()
    _assert_upgraded_once(url, prefix)
    for boundary in range(injector.count):
        _downgrade(url, prefix)
        process = CONTEXT.Process(target=die_at, args=(url, prefix, boundary))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, boundary
        upgrade_at(url, prefix)
        _assert_upgraded_once(url, prefix)
        assert _ids(url, prefix) == ["m1", "m2"]


def _downgrade(url: str, prefix: str) -> None:
    """Take both steps back, which no release ever does."""
    with connection(url) as conn:
        quote = conn.dialect.identifier_preparer.quote_identifier
        sessions = quote(f"{prefix}sessions")
        of_table = f" ON {sessions}" if conn.dialect.name == "mysql" else ""
        for statement in (
            f"DROP TABLE {quote(f'{prefix}sessions_paint')}",
            f"DROP INDEX {quote(f'{prefix}sessions_colour')}{of_table}",
            f"ALTER TABLE {sessions} DROP COLUMN colour",
            f"DELETE FROM {quote(f'{prefix}schema_versions')} WHERE version > {SCHEMA_VERSION}",
        ):
            conn.execute(text(statement))


def _ids(url: str, prefix: str) -> list[str]:
    """The log, read by a service that knows the newer version."""
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        log_of(service).store._runner.is_checked = True  # type: ignore[attr-defined]
        return assert_whole(service, "s")


def test_a_creation_that_is_killed_is_taken_up_again(fresh_database: Callable[[], str]) -> None:
    _kill_creations(fresh_database(), points=4)


@pytest.mark.soak
def test_a_creation_that_is_killed_at_any_boundary_is_taken_up_again(fresh_database: Callable[[], str]) -> None:
    _kill_creations(fresh_database(), points=1000)


def _kill_creations(url: str, points: int) -> None:
    with opened(make_service(url)) as (service,):
        injector = Injector(*engines_of(service))
        with injector.counting():
            service.create_schema()
        injector.close()
    for boundary in range(1, injector.count, max(1, injector.count // points)):
        prefix = f"c{boundary}_"
        process = CONTEXT.Process(target=die_creating, args=(url, prefix, boundary))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, boundary
        _filled(url, prefix)


def test_processes_that_upgrade_at_once_upgrade_once(place: tuple[str, str]) -> None:
    run_at_once(upgrade_at, *[place] * 4)
    _assert_upgraded_once(*place)


@pytest.mark.parametrize("create_schema", [True, False])
def test_a_newer_database_is_refused_and_left_alone(place: tuple[str, str], create_schema: bool) -> None:  # noqa: FBT001
    """V02."""
    url, prefix = place
    upgrade_at(url, prefix)
    before = _everything(url, prefix)
    with opened(make_service(url, table_prefix=prefix, create_schema=create_schema)) as (service,):
        for attempt in (lambda: service.open("new"), lambda: service.append("s", message("m3")), service.list_sessions):
            with pytest.raises(SchemaVersionError, match=f"{NEWEST}.*{SCHEMA_VERSION}"):
                attempt()
    assert _everything(url, prefix) == before


def test_an_older_database_is_upgraded_only_where_that_was_asked_for(place: tuple[str, str]) -> None:
    url, prefix = place
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        runner = log_of(service).store._runner  # type: ignore[attr-defined]
        with pytest.raises(SchemaError, match=rf"version {SCHEMA_VERSION}.*{NEWEST}.*create_schema"):
            runner.run_on_any(TransactionKind.READ, migrations.check_version, NEWEST)


def test_tables_are_not_created_unless_asked_for(fresh_database: Callable[[], str]) -> None:
    url = fresh_database()
    with opened(SessionService(url, create_schema=False)) as (service,):
        with pytest.raises(SchemaMissingError, match="create_schema"):
            service.open("s")
        with connection(url) as conn:
            assert tables(conn) == []
        service.create_schema()
        service.open("s")
        service.create_schema()
        assert [session.id for session in service.list_sessions().items] == ["s"]


def _everything(url: str, prefix: str) -> dict[str, Any]:
    """Every row of every table."""
    assert make_url(url)
    with connection(url) as conn:
        quote = conn.dialect.identifier_preparer.quote_identifier
        return {
            name: sorted(map(repr, conn.execute(text(f"SELECT * FROM {quote(name)}")).all()))
            for name in tables(conn, prefix)
        }
