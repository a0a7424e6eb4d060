"""Memory beside our own checkpointer on the same thread: one log, each message once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from langchain_sessions.adapters.advisor import SessionMemoryAdvisor
from langchain_sessions.adapters.checkpointer.saver import SessionCheckpointSaver
from langchain_sessions.adapters.middleware import SessionMemoryMiddleware
from langchain_sessions.compaction import Compaction, TurnCount, TurnWindow
from tests.openai_stub.replies import Call, CallTools, Fail
from tests.surface.conftest import Face, logged, texts

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub

TWO = CallTools((Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"})))


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sun in {city}"


@pytest.fixture
def thread() -> RunnableConfig:
    return {"configurable": {"thread_id": "s1", "user_id": "ada"}}


def question(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


async def test_each_message_is_stored_once(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    agent = create_agent(
        model,
        [weather],
        middleware=[SessionMemoryMiddleware(sessions)],
        checkpointer=SessionCheckpointSaver(sessions),
    )
    stub.script("hello", TWO, "sunny", "bye")
    state: dict[str, Any] = {}
    for text in ("hi", "weather?", "thanks"):
        state = await face.invoke(agent, question(text), thread)
    assert stub.last.roles == ["user", "assistant", "user", "assistant", "tool", "tool", "assistant", "user"]
    kinds = ["human", "ai", "human", "ai", "tool", "tool", "ai", "human", "ai"]
    assert sorted(kind for kind, _, _ in logged(ada)) == sorted(kinds)
    assert [message.type for message in state["messages"]] == kinds
    assert [message.type for message in ada.messages("s1")] == kinds
    assert ada.verify("s1") == []


async def test_compaction_and_a_chain_on_the_thread(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    compaction = Compaction(TurnCount(2), TurnWindow(max_turns=2))
    agent = create_agent(
        model,
        [weather],
        middleware=[SessionMemoryMiddleware(sessions, compaction=compaction)],
        checkpointer=SessionCheckpointSaver(sessions),
    )
    stub.script("one", TWO, "two", "three", "four", "five")
    for number in range(3):
        await face.invoke(agent, question(f"question {number}"), thread)
    await face.invoke(SessionMemoryAdvisor(sessions).wrap(model), "by chain", thread)
    state = await face.invoke(agent, question("last"), thread)
    assert stub.last.texts == ["by chain", "four", "last"]
    assert len(state["messages"]) == 11  # the state keeps all that went through the graph
    assert texts(ada) == ["by chain", "four", "last", "five"]


async def test_a_failed_turn(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    stub.several_questions = True  # a question that the thread holds stays in its state, with whatever came of it
    agent = create_agent(
        model,
        [weather],
        middleware=[SessionMemoryMiddleware(sessions)],
        checkpointer=SessionCheckpointSaver(sessions),
    )
    stub.script(Fail(), "hello")
    with pytest.raises(Exception, match="429"):
        await face.invoke(agent, question("first"), thread)
    await face.invoke(agent, question("second"), thread)
    assert stub.last.texts[-1] == "second"
    assert texts(ada)[-2:] == ["second", "hello"]
