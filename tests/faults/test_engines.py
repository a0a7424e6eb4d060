"""What a service accepts as its database, and what it does to an engine that is somebody else's."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import secrets
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import NullPool, QueuePool, SingletonThreadPool, StaticPool, create_engine, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from langchain_sessions import InvalidInputError, SessionService, StoreError
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver import connecting
from langchain_sessions.errors import MissingDependencyError, SyncNotAvailableError, UnsupportedDatabaseError
from tests.faults.drills import FACES, Face, assert_whole, checked_out, in_threads, make_service, message
from tests.servers.databases import async_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

on_servers = pytest.mark.backends("postgres", "mariadb")
POOLS: dict[str, dict[str, Any]] = {
    "default": {},
    "queue": {"poolclass": QueuePool},
    "null": {"poolclass": NullPool},
    "static": {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}},
    "autocommit": {"isolation_level": "AUTOCOMMIT"},
    "serializable": {"isolation_level": "SERIALIZABLE"},
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("face", FACES)
def test_a_given_sqlite_engine_works_in_many_threads(scratch_directory: Path, pool: str, face: str) -> None:
    engine = create_engine(f"sqlite:///{scratch_directory}/{secrets.token_hex(4)}.db", **POOLS[pool])
    _use_in_threads(SessionService(engine), face)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM events")).scalar_one() == 40
    engine.dispose()


@pytest.mark.parametrize("pool", ["default", "static", "singleton"])
@pytest.mark.parametrize("face", FACES)
def test_a_given_engine_in_memory_is_one_database_for_all_threads(pool: str, face: str) -> None:
    options = {"poolclass": SingletonThreadPool} if pool == "singleton" else POOLS[pool]
    engine = create_engine("sqlite://", **options)
    _use_in_threads(SessionService(engine), face)
    engine.dispose()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:{}?mode=memory&uri=true"])
def test_a_url_in_memory_is_one_database_for_all_threads(url: str) -> None:
    service = SessionService(url.format(secrets.token_hex(4)))
    _use_in_threads(service, "sync")
    service.close()


def _use_in_threads(service: SessionService, face: str) -> None:
    service.open("s")

    def append(number: int) -> Callable[[], None]:
        def work() -> None:
            call = Face(face)
            for at in range(10):
                call(service, "append", "s", message(f"{number}-{at}"))
                assert call(service, "messages", "s", last_n=1)
            call.close()

        return work

    in_threads([append(number) for number in range(4)])
    assert len(assert_whole(service, "s")) == 40
    assert checked_out(service) == 0
    service.close()


@on_servers
def test_engines_that_mix_up_transactions_or_tenants_are_refused(database_url: str) -> None:
    """With a StaticPool threads wrote in the middle of each other's transactions: MariaDB's log got gaps."""
    for engine, way_out in (
        (create_engine(database_url, poolclass=StaticPool), "pool_size=1"),
        (create_engine(database_url).execution_options(schema_translate_map={None: "tenant"}), "search_path"),
    ):
        with pytest.raises(InvalidInputError, match=f"database.*{way_out}"):
            SessionService(engine)
    url = make_url(database_url)
    driver = {"postgresql": "psycopg_async", "mysql": "asyncmy"}[url.get_backend_name()]
    for_tasks = create_async_engine(url.set(drivername=f"{url.get_backend_name()}+{driver}"), poolclass=StaticPool)
    with pytest.raises(InvalidInputError, match="pool_size=1"):
        SessionService(for_tasks)


@on_servers
@pytest.mark.parametrize("isolation", [None, "AUTOCOMMIT", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("face", FACES)
def test_a_given_engine_stays_as_it_was(database_url: str, table_prefix: str, isolation: str | None, face: str) -> None:
    options = {} if isolation is None else {"isolation_level": isolation}
    engine = create_engine(database_url, pool_size=1, max_overflow=0, **options)
    service, call = SessionService(engine, table_prefix=table_prefix, create_schema=True), Face(face)
    call(service, "open", "s")
    call(service, "append", "s", message("m"), state_delta={"app:k": 1})
    with pytest.raises(InvalidInputError):
        call(service, "append", "s", message("n"), state_delta={"user:k": 1})
    assert call(service, "get", "s").version == 1, "what was refused was rolled back, whatever the engine's mode"
    with engine.connect() as connection:
        connection.execute(text(f"DELETE FROM {table_prefix}events"))
        connection.rollback()
    assert len(service.messages("s")) == (0 if isolation == "AUTOCOMMIT" else 1)
    assert checked_out(service) == 0
    call.close(service)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    engine.dispose()


@on_servers
def test_async_methods_of_a_sync_engine_run_in_a_thread(
    database_url: str, table_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    absent = {"asyncmy", "greenlet"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in absent else find(name, *rest))
    service, call = make_service(database_url, table_prefix=table_prefix), Face("async")
    assert log_of(service).store._engines.async_ is None  # type: ignore[attr-defined]
    call(service, "open", "s")
    call(service, "append", "s", message("m"))
    assert [found.id for found in call(service, "messages", "s")] == ["m"]
    call.close(service)


@on_servers
async def test_sync_methods_of_an_async_engine_say_so(database_url: str, table_prefix: str) -> None:
    engine = create_async_engine(async_url(database_url))
    service = SessionService(engine, table_prefix=table_prefix, create_schema=True)
    await service.aopen("s")
    await service.aappend("s", message("m"))
    for attempt in (
        lambda: service.open("s"),
        lambda: service.append("s", message("n")),
        lambda: service.messages("s"),
    ):
        with pytest.raises(SyncNotAvailableError, match="only an async engine"):
            attempt()
    assert [found.id for found in await service.amessages("s")] == ["m"]
    await service.aclose()
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    await engine.dispose()


@on_servers
def test_one_service_serves_both_faces_and_closes_both(database_url: str, table_prefix: str) -> None:
    service = make_service(database_url, table_prefix=table_prefix)

    async def both() -> None:
        await service.aopen("s")
        service.append("s", message("m1"))
        await service.aappend("s", message("m2"))
        assert await asyncio.to_thread(assert_whole, service, "s") == ["m1", "m2"]
        await service.aclose()

    asyncio.run(both())
    service.close()
    assert checked_out(service) == 0


@on_servers
def test_loops_one_after_another_and_at_once_have_connections_of_their_own(
    database_url: str, table_prefix: str
) -> None:
    _append_on_loops(database_url, table_prefix)
    # What the loops left behind was closed with the service, so that nothing complains.
    gc.collect()


def _append_on_loops(url: str, prefix: str) -> None:
    service = make_service(url, table_prefix=prefix)
    service.open("s")

    async def append(*names: str) -> None:
        for name in names:
            await service.aappend("s", message(name))

    def on_a_loop(*names: str) -> Callable[[], None]:
        return lambda: asyncio.run(append(*names))

    for number in range(3):
        on_a_loop(f"after-{number}")()
    in_threads([on_a_loop(*(f"{at}-{number}" for number in range(5))) for at in range(4)])
    assert len(assert_whole(service, "s")) == 23
    service.close()


@pytest.mark.parametrize(
    "url",
    [
        "oracle://u:hush@h/d",
        "postgresql+asyncpg://u:hush@h/d",
        "postgresql+psycopg2://u:hush@h/d",
        "mssql://u:hush@h/d",
    ],
)
def test_an_unsupported_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises((UnsupportedDatabaseError, MissingDependencyError)) as caught:
        SessionService(url)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("database", ["not a url", "postgresql://u:hush@h:port/d", "", 7, None])
def test_what_is_no_database_is_refused_without_its_password(database: Any) -> None:
    with pytest.raises((InvalidInputError, UnsupportedDatabaseError)) as caught:
        SessionService(database)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["postgresql", "mysql", "mariadb"])
@pytest.mark.parametrize("face", FACES)
def test_an_unreachable_server_is_named_without_its_password(name: str, face: str) -> None:
    service, call = SessionService(f"{name}://ada:hush-hush@127.0.0.1:1/d"), Face(face)
    with pytest.raises(StoreError) as caught:
        call(service, "open", "s")
    assert "hush" not in "".join(traceback.format_exception(caught.value))
    assert "hush" not in repr(service)
    call.close(service)


@pytest.mark.parametrize(
    ("name", "driver", "extra"), [("postgresql", "psycopg", "postgres"), ("mysql", "pymysql", "mysql")]
)
def test_a_missing_driver_names_the_extra(name: str, driver: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, driver, None)
    with pytest.raises(MissingDependencyError, match=rf"langchain-sessions\[{extra}\]"):
        SessionService(f"{name}://ada@h/d")


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_engines_of_our_own_hide_parameters(database_url: str) -> None:
    made = connecting.engines_for(database_url)
    assert made.sync is not None
    assert made.sync.hide_parameters
    assert make_url(database_url).password is None or str(make_url(database_url).password) not in repr(made)
    if made.async_ is not None:
        assert made.async_.sync_engine.hide_parameters


def test_what_made_a_file_waits_for_nobody_when_it_deletes(scratch_directory: Path) -> None:
    with SessionService(f"sqlite:///{scratch_directory / 'new.db'}", lock_timeout=timedelta(seconds=1)) as service:
        service.create("s")
        service.append("s", message("secret"))
        service.delete("s")
        # The checkpoint that failed would have left the log as it was.
        assert (scratch_directory / "new.db-wal").stat().st_size == 0
