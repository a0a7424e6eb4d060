"""What the tests of hosts and neighbours share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest_asyncio

from langchain_sessions import InMemoryStore, SessionService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def service(backend: str, database_url: str, table_prefix: str) -> AsyncIterator[SessionService]:
    """A service on each backend; closed in the loop that its asynchronous half ran in."""
    database: Any = InMemoryStore() if backend == "memory" else database_url
    options: dict[str, Any] = {} if backend == "memory" else {"table_prefix": table_prefix, "create_schema": True}
    async with SessionService(database, **options) as opened:
        yield opened
