"""Memory beside our own checkpointer on the same thread: one log, each message once."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions import Compaction, TurnCount, TurnWindow
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import Fail
from tests.surface.conftest import TWO_CALLS, Face, logged, question, texts, weather

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub


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
    stub.script("hello", TWO_CALLS, "sunny", "bye")
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
    stub.script("one", TWO_CALLS, "two", "three", "four", "five")
    for number in range(3):
        await face.invoke(agent, question(f"question {number}"), thread)
    await face.invoke(SessionMemoryAdvisor(sessions).wrap(model), "by chain", thread)
    state = await face.invoke(agent, question("last"), thread)
    assert stub.last.texts == ["by chain", "four", "last"]
    assert len(state["messages"]) == 11  # the state keeps all that went through the graph
    assert texts(ada) == ["by chain", "four", "last", "five"]


def an_agent(sessions: SessionService, model: ChatOpenAI, *tools: Any) -> Any:
    return create_agent(
        model,
        tools,
        middleware=[SessionMemoryMiddleware(sessions)],
        checkpointer=SessionCheckpointSaver(sessions),
    )


def a_graph(sessions: SessionService, model: ChatOpenAI) -> Any:
    """A graph whose node is a model with memory."""
    chat = SessionMemoryAdvisor(sessions).wrap(model)
    node: Any = itemgetter("messages") | chat | (lambda reply: {"messages": [reply]})
    builder = StateGraph(MessagesState).add_node("chat", node).add_edge(START, "chat")
    return builder.compile(checkpointer=SessionCheckpointSaver(sessions))


@pytest.mark.backends("sqlite", "postgres", "mariadb")
@pytest.mark.parametrize("make", [an_agent, a_graph])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_failed_turns(
    face: Face,
    stub: OpenAIStub,
    stored: SessionService,
    model: ChatOpenAI,
    make: Any,
    durability: Any,
) -> None:
    """The thread holds the questions of failed turns; a model is not shown them again, whoever asks."""
    thread: RunnableConfig = {"configurable": {"thread_id": "s1"}}
    graph = make(stored, model)
    stub.script(Fail(), Fail(), "hello", "bye")
    for text in ("first", "second"):
        with pytest.raises(Exception, match="429"):
            await face.invoke(graph, question(text), thread, durability=durability)
    await face.invoke(graph, question("third"), thread, durability=durability)
    assert stub.last.texts == ["third"]
    await face.invoke(SessionMemoryAdvisor(stored).wrap(model), "and a chain", thread)
    assert stub.last.texts == ["third", "hello", "and a chain"]
    assert texts(stored) == ["third", "hello", "and a chain", "bye"]
    assert [(text, stand) for kind, text, stand in logged(stored) if kind == "human"] == [
        ("first", "failed"),
        ("second", "failed"),
        ("third", "live"),
        ("and a chain", "live"),
    ]
    assert stored.count("s1").turns == 2
    assert stored.verify("s1") == []


async def test_a_failed_turn_is_taken_up_again(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI
) -> None:
    stub.several_questions = True
    thread: RunnableConfig = {"configurable": {"thread_id": "s1", "user_id": "ada"}}
    agent = an_agent(sessions, model)
    both = {"messages": [HumanMessage("one"), HumanMessage("two")]}
    stub.script(Fail(), "three", "bye")
    with pytest.raises(Exception, match="429"):
        await face.invoke(agent, both, thread, durability="sync")
    assert texts(ada) == []
    await face.invoke(agent, None, thread, durability="sync")
    assert stub.last.texts == ["one", "two"]
    await face.invoke(agent, question("four"), thread, durability="sync")
    assert stub.last.texts == ["one", "two", "three", "four"]
    assert texts(ada) == ["one", "two", "three", "four", "bye"]
    assert {standing for _, _, standing in logged(ada)} == {"live"}


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_tool_loop_that_is_given_up(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI, durability: Any
) -> None:
    """Nothing tells that a graph hit its limit; that the thread moved on does."""
    agent = an_agent(sessions, model, weather)
    limited: RunnableConfig = {"configurable": {"thread_id": "s1", "user_id": "ada"}, "recursion_limit": 3}
    stub.script(TWO_CALLS, TWO_CALLS, "hello")
    with pytest.raises(GraphRecursionError):
        await face.invoke(agent, question("weather?"), limited, durability=durability)
    assert "open" in {standing for _, _, standing in logged(ada)}
    await face.invoke(agent, question("never mind"), limited, durability=durability)
    assert stub.last.texts == ["never mind"]
    assert texts(ada) == ["never mind", "hello"]
    assert {standing for _, _, standing in logged(ada)} == {"failed", "live"}
