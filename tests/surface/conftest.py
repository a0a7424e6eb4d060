"""A strict provider, a service and the two faces of every call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.pregel import Pregel
from pydantic import BaseModel, SecretStr

from langchain_sessions import InMemoryStore, SessionService
from langchain_sessions.memory import SessionMemoryAdvisor
from tests.openai_stub.replies import Call, CallTools
from tests.openai_stub.server import OpenAIStub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.runnables import Runnable, RunnableConfig


class Face:
    """Calls a runnable the synchronous or the asynchronous way."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def needs_config_in_tasks(self) -> None:
        """Skip where LangGraph hides the config from async code, which has to be asked without it here."""
        if self.name == "async" and sys.version_info < (3, 11):
            pytest.skip("LangGraph hides the config from async code on Python 3.10")

    async def invoke(self, chat: Runnable[Any, Any], value: Any, config: RunnableConfig, **kwargs: Any) -> Any:
        if self.name == "sync":
            return chat.invoke(value, config, **kwargs)
        return await chat.ainvoke(value, config, **named_for_python_3_10(chat, config), **kwargs)

    async def stream(
        self, chat: Runnable[Any, Any], value: Any, config: RunnableConfig, take: int | None = None, **kwargs: Any
    ) -> list[Any]:
        """The chunks of a stream; with `take`, the reader leaves after so many."""
        found: list[Any] = []
        if self.name == "sync":
            chunks = chat.stream(value, config, **kwargs)
            for chunk in chunks:
                found.append(chunk)
                if len(found) == take:
                    break
            chunks.close()  # type: ignore[attr-defined]
            return found
        stream = chat.astream(value, config, **named_for_python_3_10(chat, config), **kwargs)
        async for chunk in stream:
            found.append(chunk)
            if len(found) == take:
                break
        await stream.aclose()  # type: ignore[attr-defined]
        return found


def named_for_python_3_10(chat: Runnable[Any, Any], config: RunnableConfig) -> dict[str, Any]:
    """The run's context where LangGraph hides the config from async code: what the docs tell users of Python 3.10."""
    given = config.get("configurable", {})
    session = given.get("session_id", given.get("thread_id"))
    if sys.version_info >= (3, 11) or not isinstance(chat, Pregel) or session is None:
        return {}
    return {"context": {"session_id": session, "user_id": given.get("user_id")}}


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> Face:
    return Face(request.param)


@pytest.fixture
def stub() -> Iterator[OpenAIStub]:
    """A provider; the test fails when any request that went out breaks a rule."""
    with OpenAIStub() as running:
        yield running
    assert running.complaints == []


@pytest.fixture
def model(stub: OpenAIStub) -> ChatOpenAI:
    return make_model(stub)


def make_model(stub: OpenAIStub, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o-mini", base_url=stub.base_url, api_key=SecretStr("k"), max_retries=0, **options)


@pytest.fixture
def sessions() -> Iterator[SessionService]:
    """A service in memory: what files and servers do differently is tested with `stored`."""
    with SessionService("sqlite://") as service:
        yield service


@pytest_asyncio.fixture
async def stored(backend: str, database_url: str, table_prefix: str) -> AsyncIterator[SessionService]:
    """A service on each backend, bound to ada; closed in the loop that its asynchronous half ran in."""
    database: Any = InMemoryStore() if backend == "memory" else database_url
    options: dict[str, Any] = {} if backend == "memory" else {"table_prefix": table_prefix, "create_schema": True}
    async with SessionService(database, **options) as service:
        yield service.as_user("ada")


@pytest.fixture
def ada(sessions: SessionService) -> SessionService:
    return sessions.as_user("ada")


@pytest.fixture
def memory(sessions: SessionService) -> SessionMemoryAdvisor:
    return SessionMemoryAdvisor(sessions)


@pytest.fixture
def config() -> RunnableConfig:
    return config_for("s1")


@pytest.fixture
def thread() -> RunnableConfig:
    """The same session as a graph names it."""
    return {"configurable": {"thread_id": "s1", "user_id": "ada"}}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sun in {city}"


TWO_CALLS = CallTools((Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"})))
"""A reply that asks for the weather of two cities at once."""


class Person(BaseModel):
    """Somebody."""

    name: str


def question(text: str) -> dict[str, Any]:
    """The state of a graph in which somebody asks something."""
    return {"messages": [HumanMessage(text)]}


def config_for(session_id: str, user_id: str = "ada", **more: Any) -> RunnableConfig:
    return {"configurable": {"session_id": session_id, "user_id": user_id, **more}}


def texts(service: SessionService, session_id: str = "s1", **options: Any) -> list[str]:
    """What a prompt would show, as texts."""
    return [str(message.text) for message in service.messages(session_id, **options)]


def logged(service: SessionService, session_id: str = "s1") -> list[tuple[str, str, str]]:
    """All messages of the log: type, text, standing."""
    return [
        (event.message.type, str(event.message.text), event.standing.value)
        for event in service.events(session_id)
        if event.message is not None
    ]
