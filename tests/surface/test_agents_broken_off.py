"""What an agent leaves in the log when its reader leaves, a reply is refused, or some of its tools answer directly."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, StructuredOutputError
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime

from langchain_sessions import SessionCheckpointSaver, SessionMemoryAdvisor, SessionMemoryMiddleware
from tests.openai_stub.replies import Call, CallTools, call
from tests.surface.conftest import Face, Person, logged, named_for_python_3_10, question, texts, weather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub

SAVERS = [None, InMemorySaver, SessionCheckpointSaver]


@tool(return_direct=True)
def ticket(city: str) -> str:
    """A ticket to a city."""
    return f"ticket to {city}"


def saver_of(kind: Any, sessions: SessionService) -> Any:
    return kind(sessions) if kind is SessionCheckpointSaver else kind and kind()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="what an agent's model says asynchronously comes as a whole")
@pytest.mark.parametrize("kind", SAVERS)
async def test_a_reader_who_leaves_an_agent_early(
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    kind: Any,
) -> None:
    memory = SessionMemoryMiddleware(sessions)
    agent: Any = create_agent(model, [weather], middleware=[memory], checkpointer=saver_of(kind, sessions))
    stub.script(call("weather", city="Rome"), "one two three four five six", "fine")
    options: dict[str, Any] = named_for_python_3_10(agent, thread)
    chunks = agent.astream(question("weather?"), thread, stream_mode="messages", **options)
    arrived = 0
    async for chunk, _ in chunks:
        arrived += chunk.type == "AIMessageChunk" and bool(chunk.text)
        if arrived == 3:
            break
    await chunks.aclose()
    assert [(said, standing) for said, _, standing in logged(ada)] == [
        (said, "interrupted") for said in ("human", "ai", "tool", "ai")
    ]
    assert texts(ada)[-1].startswith("one")
    await agent.ainvoke(question("go on"), thread, **options)
    assert stub.last.roles == ["user", "assistant", "tool", "assistant", "user"]
    assert ada.verify("s1") == []


@pytest.mark.skipif(
    "tools" not in {each.name for each in dataclasses.fields(ToolRuntime)},
    reason="an older LangGraph does not say which of the tools answer directly",
)
@pytest.mark.parametrize("kind", SAVERS)
async def test_a_turn_goes_on_where_not_all_tools_answer_directly(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    kind: Any,
) -> None:
    memory = SessionMemoryMiddleware(sessions)
    agent = create_agent(model, [ticket, weather], middleware=[memory], checkpointer=saver_of(kind, sessions))
    both = CallTools((Call("ticket", {"city": "Rome"}), Call("weather", {"city": "Rome"})))
    stub.script(both, "There you are.", CallTools((Call("ticket", {"city": "A"}), Call("ticket", {"city": "B"}))))
    await face.invoke(agent, question("ticket and weather?"), thread)
    runs = {event.invocation_id for event in ada.events("s1") if event.message and event.message.type != "human"}
    assert len(runs) == 1
    await face.invoke(agent, question("two tickets"), thread)
    assert len(stub.requests) == 3
    assert {standing for *_, standing in logged(ada)} == {"live"}


async def test_a_reply_that_no_schema_fits_is_in_the_log(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    """As where a chain's parser raises: it was paid for, and no prompt shows it."""
    agent = create_agent(
        model, middleware=[SessionMemoryMiddleware(sessions)], response_format=ProviderStrategy(Person)
    )
    stub.script("no json", '{"name": "grace"}')
    with pytest.raises(StructuredOutputError):
        await face.invoke(agent, question("who?"), thread)
    assert ("ai", "no json", "failed") in logged(ada)
    await face.invoke(agent, question("who, please?"), thread)
    assert stub.last.texts == ["who, please?"]


def redacting(said: Sequence[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy(update={"content": str(message.text).replace("secret", "…")}) for message in said]


async def test_what_arrived_of_a_reply_is_stored_as_store_says(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    chat = SessionMemoryAdvisor(sessions, store=redacting).wrap(model)
    stub.script("a secret plan for all of us")
    await face.stream(chat, "my secret?", config, take=4)
    assert [(said, standing) for said, _, standing in logged(ada)] == [("human", "interrupted"), ("ai", "interrupted")]
    assert not any("secret" in text for text in texts(ada))
