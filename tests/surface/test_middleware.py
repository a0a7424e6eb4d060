"""Memory in an agent: what the model sees, what the log holds, what the graph does not notice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime

from langchain_sessions import Compaction, InvalidInputError, SessionNotFoundError, TurnCount, TurnWindow
from langchain_sessions._chat.address import config_of_run
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import Call, CallTools, Fail, Fill, Overflow, call
from tests.surface.conftest import TWO_CALLS, Face, Person, logged, question, texts, weather

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub


@tool(return_direct=True)
def ticket(city: str) -> str:
    """A ticket to a city."""
    return f"ticket to {city}"


@tool
def address(name: str) -> str:
    """The address of somebody."""
    return f"{name}@example.org"


@tool
def broken(city: str) -> str:
    """A tool that raises."""
    raise RuntimeError(city)


@pytest.mark.parametrize("with_saver", [True, False])
async def test_an_agent_with_tools(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    *,
    with_saver: bool,
) -> None:
    agent = create_agent(
        model,
        [weather],
        system_prompt="Be brief.",
        middleware=[SessionMemoryMiddleware(sessions)],
        checkpointer=InMemorySaver() if with_saver else None,
    )
    stub.script("hello", TWO_CALLS, "sunny", "bye")
    for text in ("hi", "weather?", "thanks"):
        await face.invoke(agent, question(text), thread)
    roles = ["system", "user", "assistant", "user", "assistant", "tool", "tool", "assistant", "user"]
    assert stub.last.roles == roles
    kinds = ["human", "ai", "human", "ai", "tool", "tool", "ai", "human", "ai"]
    assert [(kind, standing) for kind, _, standing in logged(ada)] == [(kind, "live") for kind in kinds]


async def test_no_step_and_no_checkpoint_is_added(
    face: Face, stub: OpenAIStub, sessions: SessionService, model: ChatOpenAI, thread: RunnableConfig
) -> None:
    found = []
    for middleware in ([], [SessionMemoryMiddleware(sessions)]):
        saver = InMemorySaver()
        agent = create_agent(model, [weather], middleware=middleware, checkpointer=saver)
        stub.script(TWO_CALLS, "sunny")
        state = await face.invoke(agent, question("weather?"), thread)
        found.append((len(list(saver.list(thread))), [m.type for m in state["messages"]], len(agent.nodes)))
    assert found[0] == found[1]


async def test_compaction_leaves_the_state_alone(
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
        checkpointer=InMemorySaver(),
    )
    stub.script("one", TWO_CALLS, "two", "three", "four")
    state: dict[str, Any] = {}
    for number in range(4):
        state = await face.invoke(agent, question(f"question {number}"), thread)
    assert stub.last.texts == ["question 2", "three", "question 3"]
    assert len(state["messages"]) == 11
    assert len(logged(ada)) == 11


async def test_an_overflow_in_a_tool_loop(
    face: Face, stub: OpenAIStub, sessions: SessionService, model: ChatOpenAI, thread: RunnableConfig
) -> None:
    agent = create_agent(model, [weather], middleware=[SessionMemoryMiddleware(sessions)], checkpointer=InMemorySaver())
    stub.script("one", TWO_CALLS, Overflow(), "sunny")
    await face.invoke(agent, question("hi"), thread)
    await face.invoke(agent, question("weather?"), thread)
    assert stub.last.roles == ["user", "assistant", "tool", "tool"]


@pytest.mark.parametrize(
    ("strategy", "reply"), [(ToolStrategy, call("Person", name="grace")), (ProviderStrategy, Fill({"name": "grace"}))]
)
async def test_structured_output(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    strategy: Any,
    reply: Any,
) -> None:
    agent = create_agent(
        model, [weather], middleware=[SessionMemoryMiddleware(sessions)], response_format=strategy(Person)
    )
    stub.script(reply)
    state = await face.invoke(agent, question("who?"), thread)
    assert state["structured_response"] == Person(name="grace")
    assert {standing for _, _, standing in logged(ada)} == {"live"}
    stub.script(reply)
    await face.invoke(agent, question("sure?"), thread)
    assert stub.last.roles == ["user", "assistant", "user"]
    assert "grace" in stub.last.texts[1]


@pytest.mark.parametrize("with_saver", [True, False])
@pytest.mark.parametrize(
    "first",
    [
        CallTools((Call("Person", {"nome": "grace"}),)),
        CallTools((Call("Person", {"name": "grace"}), Call("Person", {"name": "hedy"}))),
    ],
    ids=["not valid", "two of them"],
)
async def test_an_output_that_is_asked_for_again_is_of_the_same_run(
    face: Face,
    stub: OpenAIStub,
    stored: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    first: CallTools,
    *,
    with_saver: bool,
) -> None:
    agent = create_agent(
        model,
        [weather],
        middleware=[SessionMemoryMiddleware(stored)],
        checkpointer=SessionCheckpointSaver(stored, allow=[Person]) if with_saver else None,
        response_format=ToolStrategy(Person),
    )
    stub.script(call("weather", city="Rome"), first, call("Person", name="grace"))
    state = await face.invoke(agent, question("who?"), thread)
    assert state["structured_response"] == Person(name="grace")
    events = [event for event in stored.events("s1").items if event.message]
    assert {event.standing.value for event in events} == {"live"}
    assert len({event.invocation_id for event in events} - {None}) == 1
    stub.script(call("Person", name="grace"))
    await face.invoke(agent, question("sure?"), thread)
    assert len(stored.turns("s1")) == 2
    assert stored.verify("s1") == []


@pytest.mark.parametrize("with_saver", [True, False])
async def test_a_structured_output_ends_the_turn_whatever_else_was_called(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    *,
    with_saver: bool,
) -> None:
    """The agent runs the tool and asks nobody about its result."""
    agent = create_agent(
        model,
        [weather],
        middleware=[SessionMemoryMiddleware(sessions)],
        checkpointer=SessionCheckpointSaver(sessions, allow=[Person]) if with_saver else None,
        response_format=ToolStrategy(Person),
    )
    stub.script(CallTools((Call("weather", {"city": "Rome"}), Call("Person", {"name": "grace"}))))
    state = await face.invoke(agent, question("who, and the weather?"), thread)
    assert state["structured_response"] == Person(name="grace")
    assert [(kind, standing) for kind, _, standing in logged(ada)] == [
        (kind, "live") for kind in ("human", "ai", "tool", "tool")
    ]
    stub.script(call("Person", name="grace"))
    await face.invoke(agent, question("sure?"), thread)
    assert stub.last.texts[0] == "who, and the weather?"
    assert stub.last.roles == ["user", "assistant", "user"]


async def test_a_tool_that_answers_directly_ends_the_turn(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    agent = create_agent(model, [ticket], middleware=[SessionMemoryMiddleware(sessions)])
    stub.script(call("ticket", city="Rome"))
    await face.invoke(agent, question("ticket?"), thread)
    assert texts(ada) == ["ticket?", "", "ticket to Rome"]
    await face.invoke(agent, question("thanks"), thread)
    assert stub.last.texts == ["ticket?", "ticket to Rome", "thanks"]
    assert stub.last.roles == ["user", "assistant", "user"]


@pytest.mark.parametrize("saver", [InMemorySaver, SessionCheckpointSaver])
async def test_what_the_graph_redacts_is_redacted_in_later_turns(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    saver: Any,
) -> None:
    redact = PIIMiddleware("email", apply_to_input=True, apply_to_output=True, apply_to_tool_results=True)
    agent = create_agent(
        model,
        [address],
        middleware=[SessionMemoryMiddleware(sessions), redact],
        checkpointer=saver() if saver is InMemorySaver else saver(sessions),
    )
    stub.script(call("address", name="grace"), "It is grace@example.org.", "bye")
    await face.invoke(agent, question("I am ada@example.org, who is grace?"), thread)
    await face.invoke(agent, question("thanks"), thread)
    assert len(stub.last.texts) == 5
    assert not any("example.org" in text for request in stub.requests for text in request.texts)
    assert not any("example.org" in text for text in texts(ada))


async def test_an_edit_of_the_log_is_not_undone_by_the_state(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    agent = create_agent(model, middleware=[SessionMemoryMiddleware(sessions)], checkpointer=InMemorySaver())
    state = await face.invoke(agent, question("rough"), thread)
    first = state["messages"][0]
    ada.edit("s1", HumanMessage("polished", id=first.id))
    for text in ("and?", "and then?"):
        await face.invoke(agent, question(text), thread)
    assert stub.last.texts[0] == "polished"
    edited = {"messages": [HumanMessage("perfect", id=first.id)]}
    if face.name == "sync":
        agent.update_state(thread, edited)
    else:
        await agent.aupdate_state(thread, edited)
    await face.invoke(agent, question("and now?"), thread)
    assert stub.last.texts[0] == "perfect"


async def test_a_failed_turn_is_not_replayed(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    agent = create_agent(model, [weather], middleware=[SessionMemoryMiddleware(sessions)], checkpointer=InMemorySaver())
    stub.script(Fail(), "hello")
    with pytest.raises(Exception, match="429"):
        await face.invoke(agent, question("first"), thread)
    await face.invoke(agent, question("second"), thread)
    assert stub.last.texts == ["second"]
    assert texts(ada) == ["second", "hello"]


async def test_a_tool_that_raises(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    agent = create_agent(model, [broken], middleware=[SessionMemoryMiddleware(sessions)])
    stub.script(call("broken", city="Rome"), "hello")
    with pytest.raises(RuntimeError, match="Rome"):
        await face.invoke(agent, question("first"), thread)
    assert {standing for _, _, standing in logged(ada)} == {"failed"}
    await face.invoke(agent, question("second"), thread)
    assert stub.last.texts == ["second"]


async def test_one_conversation_through_a_chain_and_an_agent(
    face: Face, stub: OpenAIStub, sessions: SessionService, model: ChatOpenAI, thread: RunnableConfig
) -> None:
    agent = create_agent(model, [weather], middleware=[SessionMemoryMiddleware(sessions)])
    await face.invoke(SessionMemoryAdvisor(sessions).wrap(model), "by chain", thread)
    await face.invoke(agent, question("by agent"), thread)
    assert stub.last.texts == ["by chain", "reply 1", "by agent"]


async def test_no_session(face: Face, stub: OpenAIStub, sessions: SessionService, model: ChatOpenAI) -> None:
    face.needs_config_in_tasks()
    with pytest.raises(InvalidInputError, match="session_id"):
        await face.invoke(create_agent(model, middleware=[SessionMemoryMiddleware(sessions)]), question("hi"), {})
    agent = create_agent(model, [weather], middleware=[SessionMemoryMiddleware(sessions, on_missing_session="skip")])
    stub.script(TWO_CALLS, "sunny")
    await face.invoke(agent, question("weather?"), {})
    assert len(sessions.list_sessions()) == 0


async def test_a_foreign_session_costs_nothing(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI
) -> None:
    ada.create("s1")
    agent = create_agent(model, middleware=[SessionMemoryMiddleware(sessions)])
    with pytest.raises(SessionNotFoundError):
        await face.invoke(agent, question("hi"), {"configurable": {"thread_id": "s1", "user_id": "grace"}})
    assert stub.requests == []


def test_where_the_config_is_hidden_the_context_names_the_session() -> None:
    """Outside a run it is hidden as it is from async code on Python 3.10."""
    named = {"session_id": "s1", "user_id": "ada"}
    for context in (named, SimpleNamespace(**named, other=1)):
        assert config_of_run(Runtime(context=context)) == {"configurable": named}
    for missing in (None, {"user_id": "ada"}):
        with pytest.raises(InvalidInputError, match=r"Python 3\.10"):
            config_of_run(Runtime(context=missing))
