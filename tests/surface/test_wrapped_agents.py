"""A whole agent with memory around it: every message that it made is stored, calls and results in pairs, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langchain_sessions._chat.replies import new_messages
from tests.openai_stub.replies import Call, CallTools, Fail
from tests.surface.conftest import TWO_CALLS, Face, logged, texts, weather

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from langchain_sessions.memory import SessionMemoryAdvisor
    from tests.openai_stub.server import OpenAIStub

KINDS = ["human", "ai", "tool", "tool", "ai", "human", "ai"]


@tool
def broken(city: str) -> str:
    """A tool that raises."""
    raise RuntimeError(city)


@pytest.mark.parametrize("mode", [None, "values", "updates", "messages", ["updates", "messages"]])
async def test_an_agent(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
    mode: Any,
) -> None:
    if mode is not None:
        face.needs_config_in_tasks()
    agent = memory.wrap(create_agent(model, [weather], system_prompt="Be brief."), input_key="messages")
    stub.script(TWO_CALLS, "sunny", "bye")
    for text in ("weather?", "thanks"):
        if mode is None:
            await face.invoke(agent, {"messages": text}, config)
        else:
            await face.stream(agent, {"messages": text}, config, stream_mode=mode)
    assert stub.last.roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
    assert [(kind, standing) for kind, _, standing in logged(ada)] == [(kind, "live") for kind in KINDS]
    assert sorted(texts(ada)[2:4]) == ["sun in Oslo", "sun in Rome"]


async def test_a_tool_that_raises(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    agent = memory.wrap(create_agent(model, [broken]), input_key="messages")
    stub.script(CallTools((Call("broken", {"city": "Rome"}),)), Fail(), "bye")
    with pytest.raises(RuntimeError, match="Rome"):
        await face.invoke(agent, {"messages": "weather?"}, config)
    with pytest.raises(Exception, match="429"):
        await face.invoke(agent, {"messages": "and now?"}, config)
    await face.invoke(agent, {"messages": "thanks"}, config)
    assert stub.last.texts == ["thanks"]
    assert texts(ada) == ["thanks", "bye"]


async def test_a_reader_who_leaves_between_the_steps(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    face.needs_config_in_tasks()
    agent = memory.wrap(create_agent(model, [weather]), input_key="messages")
    stub.script(CallTools((Call("weather", {"city": "Rome"}),)), "bye")
    await face.stream(agent, {"messages": "weather?"}, config, take=2, stream_mode="updates")
    assert [(kind, standing) for kind, _, standing in logged(ada)] == [
        (kind, "interrupted") for kind in ("human", "ai", "tool")
    ]
    assert texts(ada) == ["weather?", "", "sun in Rome"]


def test_what_is_new_in_a_state() -> None:
    question, reply = HumanMessage("q", id="1"), AIMessage("a", id="2")
    assert new_messages([question, reply], [question]) == [reply]
    assert new_messages([reply], [question]) == [reply]
    copied = HumanMessage("q", id="made by the graph")
    assert new_messages([copied, reply], [HumanMessage("q")]) == [reply]
    assert new_messages([question], [question]) == []
    result = ToolMessage("r", tool_call_id="c", id="3")
    assert new_messages([result, reply], [question]) == [result, reply]
