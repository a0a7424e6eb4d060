# ruff: noqa: ANN401 - stands in for what users pass, which may be anything
"""A service on every backend, called through both faces."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_sessions import InMemoryStore, SessionService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Faced:
    """Calls the methods of a service through one of its faces; every call is awaited."""

    def __init__(self, service: SessionService, face: str) -> None:
        self.service = service
        self.face = face

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.service, f"a{name}" if self.face == "async" else name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            answer = method(*args, **kwargs)
            return await answer if inspect.isawaitable(answer) else answer

        return call

    async def texts(self, session_id: str, **kwargs: Any) -> list[str]:
        """The texts of the context."""
        messages: list[BaseMessage] = await self.messages(session_id, **kwargs)
        return [str(message.text) for message in messages]

    async def talk(self, session_id: str, turns: int, *, first: int = 0, **kwargs: Any) -> None:
        """Append some turns, one question and one answer each."""
        for n in range(first, first + turns):
            await self.append(session_id, [HumanMessage(f"question {n}"), AIMessage(f"answer {n}")], **kwargs)


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> str:
    """Which of the two faces a test calls."""
    name: str = request.param
    return name


@pytest_asyncio.fixture
async def operator(backend: str, database_url: str, table_prefix: str) -> AsyncIterator[SessionService]:
    """The operator's service on one backend."""
    database = InMemoryStore() if backend == "memory" else database_url
    service = SessionService(database, table_prefix=table_prefix, create_schema=True, synchronous="NORMAL")
    yield service
    await service.aclose()
    service.close()


@pytest_asyncio.fixture
async def ada(operator: SessionService, face: str) -> Faced:
    """Ada's view, with the session s1, through one face."""
    view = operator.as_user("ada")
    await view.aopen("s1")
    return Faced(view, face)


@pytest.fixture
def local() -> Faced:
    """Ada's view of a store in memory, for what no backend decides."""
    view = SessionService(InMemoryStore()).as_user("ada")
    view.open("s1")
    return Faced(view, "sync")
