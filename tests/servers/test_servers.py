"""The servers that the other tests stand on, and the databases that they are given."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers import PrivateMariaDB, PrivatePostgres, PrivateServer
from tests.servers.__main__ import main
from tests.servers.databases import (
    async_url,
    connection,
    create_database,
    drop_database,
    drop_tables,
    empty_tables,
    normal_url,
    tables,
    with_driver,
)
from tests.servers.machine import descendants, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS: dict[str, type[PrivateServer]] = {"postgres": PrivatePostgres, "mariadb": PrivateMariaDB}
on_servers = pytest.mark.backends("postgres", "mariadb")


@on_servers
def test_committed_rows_survive_a_kill_and_the_port_stays(backend: str) -> None:
    with _private(backend, durable=True) as server:
        port, before = server.port, [server.pid, *descendants(server.pid)]
        with connection(server.url) as conn:
            conn.execute(text("CREATE TABLE kept (id INTEGER)"))
            conn.execute(text("INSERT INTO kept VALUES (1815)"))
        server.kill()
        assert [pid for pid in before if is_alive(pid)] == []
        server.start()
        assert server.port == port
        with connection(server.url) as conn:
            assert conn.execute(text("SELECT id FROM kept")).scalars().all() == [1815]
        server.restart()
        directory = server.directory
        assert directory.exists()
    assert not directory.exists()


@on_servers
def test_the_default_collation_does_not_compare_exactly(backend: str) -> None:
    with _private(backend) as server, connection(server.url) as conn:
        conn.execute(text("CREATE TABLE names (name VARCHAR(20))"))
        conn.execute(text("INSERT INTO names VALUES ('Zoe'), ('ada'), ('Ada')"))
        names = conn.execute(text("SELECT name FROM names ORDER BY name")).scalars().all()
        equal = conn.execute(text("SELECT count(*) FROM names WHERE name = 'ADA  '")).scalar_one()
    assert names[-1] == "Zoe", "not the order of bytes, in which capitals come first"
    assert equal == (2 if backend == "mariadb" else 0)


@on_servers
def test_databases_and_tables_are_made_emptied_and_dropped(backend: str, database_url: str, table_prefix: str) -> None:
    url = create_database(database_url)
    with connection(url) as conn:
        for name in ("mine", "other"):
            conn.execute(text(f"CREATE TABLE {table_prefix}{name} (id INTEGER PRIMARY KEY)"))
            conn.execute(text(f"INSERT INTO {table_prefix}{name} VALUES (1)"))
        empty_tables(url, table_prefix, keep=[f"{table_prefix}other"])
        assert conn.execute(text(f"SELECT count(*) FROM {table_prefix}mine")).scalar_one() == 0
        assert conn.execute(text(f"SELECT count(*) FROM {table_prefix}other")).scalar_one() == 1
        drop_tables(url, f"{table_prefix}m")
        assert tables(conn, table_prefix) == [f"{table_prefix}other"]
        drop_database(url)  # also while this connection is open
        conn.invalidate()


@on_servers
async def test_the_same_database_is_reached_through_the_async_driver(database_url: str) -> None:
    engine = create_async_engine(async_url(database_url))
    async with engine.connect() as conn:
        assert (await conn.execute(text("SELECT 1"))).scalar_one() == 1
    await engine.dispose()


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_fresh_databases_are_apart(fresh_database: Callable[[], str]) -> None:
    with connection(fresh_database()) as first, connection(fresh_database()) as second:
        first.execute(text("CREATE TABLE here (id INTEGER)"))
        assert tables(first) == ["here"]
        assert tables(second) == []


def test_every_backend_has_a_url(backend: str, database_url: str) -> None:
    scheme = {"files": "file", "postgres": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
    assert database_url.startswith(f"{scheme.get(backend, backend)}://")


def test_urls_are_brought_to_the_drivers_of_the_extras() -> None:
    assert normal_url("postgres://ada:pw@db/x") == "postgresql+psycopg://ada:pw@db/x"
    assert normal_url("mariadb://ada:pw@db/x?charset=utf8mb4") == "mysql+pymysql://ada:pw@db/x?charset=utf8mb4"
    assert with_driver("postgresql+psycopg://ada:pw@db/x", "asyncpg") == "postgresql+asyncpg://ada:pw@db/x"
    with pytest.raises(ValueError, match="sqlite"):
        normal_url("sqlite:///chat.db")


def test_run_hands_on_the_status_of_its_command() -> None:
    assert main(["run", "--only", "", "--", sys.executable, "-c", "raise SystemExit(7)"]) == 7


@on_servers
def test_run_provides_a_server_and_removes_it_on_sigterm(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not SERVERS[backend].installed():
        pytest.skip(f"the programs of {backend} are not on this machine")
    variable = f"LANGCHAIN_SESSIONS_TEST_{backend.upper()}"
    script = f"import os, time; print(os.environ[{variable!r}], flush=True); time.sleep(100)"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers", "run", "--only", backend, "--", sys.executable, "-c", script],
        env={name: value for name, value in os.environ.items() if name != variable},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = normal_url(process.stdout.readline().strip())
        with connection(url) as conn:
            assert conn.execute(text("SELECT 1")).scalar_one() == 1
        below = descendants(process.pid)
        process.terminate()
        assert process.wait() == 128 + 15
    assert [pid for pid in below if is_alive(pid)] == []


def _private(backend: str, *, durable: bool = False) -> PrivateServer:
    kind = SERVERS[backend]
    if not kind.installed():
        pytest.skip(f"the programs of {backend} are not on this machine")
    return kind(durable=durable)
