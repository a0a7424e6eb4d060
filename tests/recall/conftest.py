"""A service on every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from langchain_sessions import InMemoryStore, SessionService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def service(backend: str, database_url: str, table_prefix: str) -> AsyncIterator[SessionService]:
    """The operator's service on one backend."""
    database = InMemoryStore() if backend == "memory" else database_url
    made = SessionService(database, table_prefix=table_prefix, create_schema=True, synchronous="NORMAL")
    yield made
    await made.aclose()
    made.close()


@pytest.fixture
def ada(service: SessionService) -> SessionService:
    """Ada's view, with the session s1."""
    view = service.as_user("ada")
    view.open("s1")
    return view
