"""Stores for the contract: one per backend and worker, since every test works in an app of its own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from langchain_sessions._sql.store import SqlStore
from langchain_sessions.stores._files.engine import FilesEngine
from langchain_sessions.stores._memory import InMemoryStore
from langchain_sessions.stores._partitioned.store import PartitionedStore
from langchain_sessions.testing import PrivateLoop
from tests.servers import databases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions.stores._base import SessionStore
    from tests.conftest import Databases


@pytest.fixture(scope="session")
def shared_loop() -> Iterator[PrivateLoop]:
    """The loop that the shared stores' connections belong to."""
    loop = PrivateLoop()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def shared_store(backend: str, all_databases: Databases, shared_loop: PrivateLoop) -> Iterator[SessionStore]:
    """The store of a backend, on tables of its own."""
    if backend == "memory":
        yield InMemoryStore()
        return
    if backend == "files":
        yield PartitionedStore(FilesEngine(all_databases.shared(backend)))
        return
    url, prefix = all_databases.shared(backend), f"c{secrets.token_hex(4)}_"
    store = SqlStore(url, table_prefix=prefix)
    store.create_schema()
    yield store
    shared_loop.run(store.aclose())
    if backend in {"postgres", "mariadb"}:
        databases.drop_tables(url, prefix)
