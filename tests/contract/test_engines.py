"""The contract on what callers bring: engines of their own, one face only, and SQLite in memory."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from langchain_sessions import SessionService
from langchain_sessions._sql.store import SqlStore
from langchain_sessions.errors import SyncNotAvailableError
from langchain_sessions.testing import PrivateLoop, StoreContract
from langchain_sessions.testing.suites.appending import IdentitySuite, OrderSuite
from langchain_sessions.testing.suites.sessions import DeletionSuite, ExpirySuite
from langchain_sessions.testing.suites.state import StateSuite
from tests.servers import databases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Databases


class TestSqliteInMemory(StoreContract):
    """`sqlite://`: one connection that all threads share."""

    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        store = SqlStore("sqlite:///:memory:")
        yield store
        store.close()


@pytest.fixture(scope="module")
def engine_store(backend: str, all_databases: Databases) -> Iterator[SqlStore]:
    """A store on an engine that the caller made."""
    url, prefix = all_databases.shared(backend), f"e{secrets.token_hex(4)}_"
    engine = create_engine(url)
    store = SqlStore(engine, table_prefix=prefix)
    store.create_schema()
    yield store
    store.close()
    pool: object = engine.pool
    assert getattr(pool, "checkedout", lambda: 0)() == 0
    engine.dispose()
    if backend != "sqlite":
        databases.drop_tables(url, prefix)


@pytest.mark.backends("sqlite", "postgres", "mariadb")
class TestGivenEngine(OrderSuite, IdentitySuite, DeletionSuite):
    """An `Engine`: the async face hops into a thread."""

    @pytest.fixture
    def store(self, engine_store: SqlStore) -> SqlStore:
        return engine_store


@pytest.fixture(scope="module")
def async_engine_store(backend: str, all_databases: Databases, shared_loop: PrivateLoop) -> Iterator[SqlStore]:
    """A store on an async engine that the caller made."""
    url, prefix = all_databases.shared(backend), f"a{secrets.token_hex(4)}_"
    driver = {"postgres": "psycopg_async", "mariadb": "asyncmy"}[backend]
    engine = create_async_engine(databases.with_driver(url, driver))
    store = SqlStore(engine, table_prefix=prefix)
    shared_loop.run(store.acreate_schema())
    yield store
    shared_loop.run(store.aclose())
    assert getattr(engine.pool, "checkedout", lambda: 0)() == 0
    shared_loop.run(engine.dispose())
    databases.drop_tables(url, prefix)


@pytest.mark.backends("postgres", "mariadb")
class TestGivenAsyncEngine(OrderSuite, IdentitySuite, StateSuite, ExpirySuite, DeletionSuite):
    """An `AsyncEngine` (psycopg, asyncmy): there is no synchronous face."""

    faces = ("async",)

    @pytest.fixture
    def store(self, async_engine_store: SqlStore) -> SqlStore:
        return async_engine_store

    @pytest.fixture
    def loop(self, shared_loop: PrivateLoop) -> PrivateLoop:
        return shared_loop

    def test_the_synchronous_face_says_so(self, async_engine_store: SqlStore) -> None:
        with pytest.raises(SyncNotAvailableError, match="async engine"):
            SessionService(async_engine_store).get("s1")
