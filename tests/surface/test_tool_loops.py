"""Tool loops of every kind: calls and results stored in pairs, nothing injected twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_sessions import Compaction, TurnCount, TurnWindow
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from langchain_sessions.selectors import by_type, without_failed_calls, without_tool_calls
from tests.openai_stub.replies import Call, CallTools, Fail, call
from tests.surface.conftest import Face, logged, texts, weather

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub


async def hand_written_loop(
    face: Face, chat: Any, question: str, config: RunnableConfig, *, ids: bool, only_news: bool = False
) -> str:
    """What people write: the whole turn is sent again with each result."""
    messages: list[BaseMessage] = [HumanMessage(question)]
    while True:
        reply = await face.invoke(chat, messages, config)
        if not reply.tool_calls:
            return str(reply.text)
        again = reply if ids else AIMessage(reply.content, tool_calls=reply.tool_calls)
        results = [ToolMessage(weather.invoke(c["args"]), tool_call_id=c["id"]) for c in reply.tool_calls]
        messages = [*results] if only_news else [*messages, again, *results]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("only_news", [True, False])
async def test_a_hand_written_tool_loop(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
    *,
    ids: bool,
    only_news: bool,
) -> None:
    chat = memory.wrap(model).bind_tools([weather])
    two = CallTools((Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"})))
    stub.script("hello", two, call("weather", city="Bonn"), "sunny everywhere", "bye")
    await face.invoke(chat, "hi", config)
    await hand_written_loop(face, chat, "weather?", config, ids=ids, only_news=only_news)
    await face.invoke(chat, "thanks", config)
    roles = ["user", "assistant", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user"]
    assert stub.last.roles == roles
    kinds = ["human", "ai", "human", "ai", "tool", "tool", "ai", "tool", "ai", "human", "ai"]
    assert [(kind, standing) for kind, _, standing in logged(ada)] == [(kind, "live") for kind in kinds]


async def test_an_unfinished_tool_loop_is_not_replayed(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    chat = memory.wrap(model).bind_tools([weather])
    stub.script(call("weather", city="Rome"), "hello")
    await face.invoke(chat, "weather?", config)
    await face.invoke(chat, "never mind", config)
    assert stub.last.texts == ["never mind"]


@pytest.mark.parametrize("with_saver", [True, False])
async def test_a_graph_that_passes_its_whole_state(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI, *, with_saver: bool
) -> None:
    compaction = Compaction(TurnCount(2), TurnWindow(max_turns=2))
    chat = SessionMemoryAdvisor(sessions, compaction=compaction).wrap(model).bind_tools([weather])

    def sync_node(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [chat.invoke(state["messages"], config)]}

    async def async_node(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [await chat.ainvoke(state["messages"], config)]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", sync_node if face.name == "sync" else async_node)
    builder.add_node("tools", ToolNode([weather]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    graph = builder.compile(checkpointer=InMemorySaver() if with_saver else None)
    config: RunnableConfig = {"configurable": {"thread_id": "s1", "user_id": "ada"}}
    stub.script("hello", call("weather", city="Rome"), "sunny", "bye")
    for question in ("hi", "weather?", "thanks"):
        await face.invoke(graph, {"messages": [HumanMessage(question)]}, config)
    # The compacted turns are not brought back by the state that the graph carries.
    assert stub.last.texts == ["weather?", "", "sun in Rome", "sunny", "thanks"]
    assert [kind for kind, _, _ in logged(ada)] == ["human", "ai", "human", "ai", "tool", "ai", "human", "ai"]


async def test_a_failed_step_of_a_tool_loop_is_taken_up_again(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model).bind_tools([weather])
    stub.script(call("weather", city="Rome"), Fail(), "sunny", "bye")
    asked = HumanMessage("weather?")
    reply = await face.invoke(chat, [asked], config)
    request = [asked, reply, ToolMessage("sun", tool_call_id=reply.tool_calls[0]["id"])]
    with pytest.raises(Exception, match="429"):
        await face.invoke(chat, request, config)
    assert texts(ada) == []
    await face.invoke(chat, request, config)
    await face.invoke(chat, "thanks", config)
    assert texts(ada) == ["weather?", "", "sun", "sunny", "thanks", "bye"]


async def test_what_is_stored_and_what_is_shown(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    memory = SessionMemoryAdvisor(
        sessions, store=by_type("human", "ai", "tool"), select=without_tool_calls, author="bot", human="Ada"
    )
    chat = memory.wrap(model).bind_tools([weather])
    stub.script(call("weather", city="Rome"), "sunny", "bye")
    await hand_written_loop(face, chat, "weather?", config, ids=False)
    await face.invoke(chat, "thanks", config)
    assert stub.last.texts == ["weather?", "sunny", "thanks"]
    assert [event.author for event in ada.events("s1") if event.message is not None][:2] == ["Ada", "bot"]


async def test_failed_calls_need_not_be_stored(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    chat = SessionMemoryAdvisor(sessions, store=without_failed_calls).wrap(model).bind_tools([weather])
    stub.script(call("weather", city="Rome"), "sorry", "bye")
    asked = HumanMessage("weather?")
    reply = await face.invoke(chat, [asked], config)
    failed = ToolMessage("no net", tool_call_id=reply.tool_calls[0]["id"], status="error")
    await face.invoke(chat, [asked, reply, failed], config)
    assert stub.last.roles == ["user", "assistant", "tool"]
    await face.invoke(chat, "thanks", config)
    assert stub.last.texts == ["weather?", "sorry", "thanks"]


async def test_a_log_with_broken_pairs(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    ada.open("s1")
    asks: dict[str, Any] = {"tool_calls": [{"name": "t", "args": {}, "id": "same"}]}
    said = [
        *[HumanMessage("one"), AIMessage("let me see", tool_calls=[{"name": "t", "args": {}, "id": "lost"}])],
        *[HumanMessage("two"), AIMessage("first", **asks), ToolMessage("r1", tool_call_id="same"), AIMessage("a")],
        *[HumanMessage("three"), AIMessage("second", **asks), ToolMessage("r2", tool_call_id="same"), AIMessage("b")],
        ToolMessage("orphan", tool_call_id="nobody"),
    ]
    ada.append("s1", said)
    await face.invoke(memory.wrap(model), "now", config)
    expected = ["one", "let me see", "two", "first", "r1", "a", "three", "second", "r2", "b", "now"]
    assert stub.last.texts == expected
    assert len(logged(ada)) == len(said) + 2


async def test_few_shots_are_shown_all_through_a_loop(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    shots: list[BaseMessage] = [HumanMessage("2+2"), AIMessage("4")]
    chat = memory.wrap(model).bind_tools([weather])
    stub.script("hello", call("weather", city="Rome"), "sunny")
    await face.invoke(chat, "hi", config)
    asked: list[BaseMessage] = [*shots, HumanMessage("weather?")]
    reply = await face.invoke(chat, asked, config)
    again = AIMessage(reply.content, tool_calls=reply.tool_calls)
    result = ToolMessage("sun", tool_call_id=reply.tool_calls[0]["id"])
    await face.invoke(chat, [*asked, again, result], config)
    assert stub.last.texts == ["2+2", "4", "hi", "hello", "weather?", "", "sun"]


async def test_what_a_node_without_memory_said_is_shown_where_it_was_said(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    face.needs_config_in_tasks()
    agent: Any = create_agent(model, middleware=[SessionMemoryMiddleware(sessions)], checkpointer=InMemorySaver())
    await face.invoke(agent, {"messages": "first"}, thread)
    elsewhere = {"messages": [HumanMessage("to somebody else"), AIMessage("from somebody else"), AIMessage("")]}
    if face.name == "sync":
        agent.update_state(thread, elsewhere, as_node="model")
    else:
        await agent.aupdate_state(thread, elsewhere, as_node="model")
    await face.invoke(agent, {"messages": "second"}, thread)
    said = ["first", "reply 1", "to somebody else", "from somebody else", "second"]
    assert stub.last.texts == said
    assert texts(ada) == [*said, "reply 2"]
