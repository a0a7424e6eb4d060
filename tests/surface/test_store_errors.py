"""A database that goes away during a call: the answer was paid for, and nobody is left in the dark."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from langchain_sessions import ReplyNotStoredError, SessionService
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import call
from tests.surface.conftest import Face, config_for, logged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from tests.openai_stub.server import OpenAIStub


class Meanwhile(FakeListChatModel):
    """A model during whose call something happens."""

    act: Any

    def _call(self, *args: Any, **kwargs: Any) -> str:
        self.act()
        return super()._call(*args, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self.act()
        yield from super()._stream(*args, **kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.act()
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionService]:
    with SessionService(f"sqlite:///{tmp_path / 'chat.db'}") as service:
        yield service


def rename(path: Path, before: str, after: str) -> None:
    """What a migration gone wrong does to a table."""
    with sqlite3.connect(path / "chat.db") as connection:
        (name,) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?", (f"%{before}",)
        ).fetchone()
        connection.execute(f"ALTER TABLE {name} RENAME TO {name.removesuffix(before)}{after}")
    connection.close()


@pytest.fixture
def lose(tmp_path: Path) -> Callable[[], None]:
    return lambda: rename(tmp_path, "events", "hidden")


@pytest.fixture
def find(tmp_path: Path) -> Callable[[], None]:
    return lambda: rename(tmp_path, "hidden", "events")


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_answer_is_delivered(
    face: Face,
    sessions: SessionService,
    ada: SessionService,
    config: RunnableConfig,
    lose: Callable[[], None],
    find: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
    *,
    streamed: bool,
) -> None:
    memory = SessionMemoryAdvisor(sessions)
    chat = memory.wrap(Meanwhile(responses=["secret answer"], act=lose))
    if streamed:
        found = "".join(str(chunk.content) for chunk in await face.stream(chat, "question", config))
    else:
        found = (await face.invoke(chat, "question", config)).content
    assert found == "secret answer"
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "not stored" in record.getMessage()
    assert "'s1'" in record.getMessage()
    assert "secret" not in record.getMessage()
    find()
    assert logged(ada) == [("human", "question", "open")]
    await face.invoke(memory.wrap(FakeListChatModel(responses=["fine"])), "next", config)
    assert ada.messages("s1")[-1].content == "fine"


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_holds_the_answer(
    face: Face, sessions: SessionService, config: RunnableConfig, lose: Callable[[], None], *, streamed: bool
) -> None:
    memory = SessionMemoryAdvisor(sessions, on_store_error="raise")
    chat = memory.wrap(Meanwhile(responses=["answer"], act=lose))
    call_it = face.stream if streamed else face.invoke
    with pytest.raises(ReplyNotStoredError, match="'s1'") as raised:
        await call_it(chat, "question", config)
    assert [message.content for message in raised.value.messages] == ["answer"]
    assert raised.value.session_id == "s1"
    assert raised.value.__cause__ is not None


async def test_what_fails_is_told_even_where_it_cannot_be_marked(
    face: Face, sessions: SessionService, config: RunnableConfig, lose: Callable[[], None]
) -> None:
    def lose_and_fail() -> None:
        lose()
        raise ConnectionError

    chat = SessionMemoryAdvisor(sessions).wrap(Meanwhile(responses=["answer"], act=lose_and_fail))
    with pytest.raises(ConnectionError):
        await face.invoke(chat, "question", config)


async def test_a_database_that_is_gone_before_the_call_costs_nothing(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
    lose: Callable[[], None],
) -> None:
    chat = SessionMemoryAdvisor(sessions).wrap(model)
    await face.invoke(chat, "hi", config)
    lose()
    with pytest.raises(Exception, match=r"(?i)table|store"):
        await face.invoke(chat, "question", config)
    assert len(stub.requests) == 1


async def test_a_session_that_is_deleted_during_the_call(
    face: Face, sessions: SessionService, ada: SessionService, config: RunnableConfig
) -> None:
    chat = SessionMemoryAdvisor(sessions).wrap(Meanwhile(responses=["answer"], act=lambda: ada.delete("s1")))
    assert (await face.invoke(chat, "question", config)).content == "answer"
    assert len(ada.list_sessions()) == 0


async def test_an_agent(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    lose: Callable[[], None],
    find: Callable[[], None],
) -> None:
    """A result that could not be stored is stored with the next call of the model."""

    @tool
    def weather(city: str) -> str:
        """The weather of a city."""
        lose()
        return f"sun in {city}"

    class Finding(SessionMemoryMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            restore()
            return super().wrap_model_call(request, handler)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            restore()
            return await super().awrap_model_call(request, handler)

    def restore() -> None:
        if stub.requests:
            find()

    agent = create_agent(model, [weather], middleware=[Finding(sessions)])
    stub.script(call("weather", city="Rome"), "sunny")
    state = await face.invoke(agent, {"messages": [HumanMessage("weather?")]}, config_for("s1"))
    assert isinstance(state["messages"][-1], AIMessage)
    assert [kind for kind, _, standing in logged(ada) if standing == "live"] == ["human", "ai", "tool", "ai"]


def test_the_policy_is_one_of_two(sessions: SessionService) -> None:
    with pytest.raises(InvalidInputError, match="on_store_error"):
        SessionMemoryAdvisor(sessions, on_store_error="ignore")  # type: ignore[arg-type]
