"""Services on every backend, and the graphs that the tests run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions.service import SessionService
from langchain_sessions.stores._memory import InMemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def open_service(backend: str, database_url: str, table_prefix: str) -> Iterator[Callable[..., SessionService]]:
    """Opens services on one database: another call is another process's view of it."""
    database: Any = InMemoryStore() if backend == "memory" else database_url
    with contextlib.ExitStack() as stack:

        def opened(**options: Any) -> SessionService:
            service = SessionService(database, table_prefix=table_prefix, create_schema=True, **options)
            return stack.enter_context(service)

        yield opened


@pytest.fixture
def service(open_service: Callable[..., SessionService]) -> SessionService:
    return open_service()
