"""Memory as a part of larger things: fallbacks, alternatives, parallel steps, nodes, agents within agents."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelRetryMiddleware
from langchain.chat_models import init_chat_model
from langchain.tools import ToolRuntime  # noqa: TC002 - LangChain reads the annotation
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import ToolMessage
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableParallel, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from langchain_sessions import InvalidInputError, SessionService, Standing
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import Fail, call
from tests.surface.conftest import Face, config_for, logged, make_model, question, texts, weather

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

    from langchain_sessions.memory import SessionMemoryAdvisor
    from tests.openai_stub.server import OpenAIStub

LOOP = ["human", "ai", "tool", "ai"]


def kinds(ada: SessionService) -> list[str]:
    """The messages of the log, all of which stand."""
    assert {standing for _, _, standing in logged(ada)} == {"live"}
    return [kind for kind, _, _ in logged(ada)]


def kinds_in_a_graph(ada: SessionService) -> list[str]:
    """The messages of the log that stand, each once.

    The checkpoint of a node may log a question before its graph's does. What memory moved to its own branch then is
    left superseded on the node's, by its equal; nothing else may stand no longer.
    """
    said = [event for event in ada.events("s1") if event.message is not None]
    live = [event.message for event in said if event.standing is Standing.LIVE and event.message]
    others = [event for event in said if event.standing is not Standing.LIVE]
    assert {event.standing for event in others} <= {Standing.SUPERSEDED}
    assert all(event.branch == "agent" and event.message in live for event in others)
    assert len({message.id for message in live}) == len(live)
    return [message.type for message in live]


@pytest.mark.parametrize("outside", [True, False])
async def test_fallbacks(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
    *,
    outside: bool,
) -> None:
    if outside:
        chat: Any = memory.wrap(model).with_fallbacks([memory.wrap(make_model(stub))])
    else:
        chat = memory.wrap(model.with_fallbacks([make_model(stub)]))
    stub.script(Fail(), "hello", Fail(), call("weather", city="Rome"), "bye")
    await face.invoke(chat, "hi", config)
    assert texts(ada) == ["hi", "hello"]
    reply = await face.invoke(chat.bind_tools([weather]), "weather?", config)
    assert reply.tool_calls
    await face.invoke(chat, "never mind", config)
    assert stub.last.texts == ["hi", "hello", "never mind"]


async def test_models_to_be_configured(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, ada: SessionService
) -> None:
    other = FakeListChatModel(responses=["another"])
    chat = memory.wrap(model.configurable_alternatives(ConfigurableField(id="which"), default_key="this", other=other))
    await face.invoke(chat, "one", config_for("s1"))
    await face.invoke(chat, "two", config_for("s1", which="other"))
    late = memory.wrap(init_chat_model(configurable_fields=("model", "model_provider", "base_url", "api_key")))
    named = {"model": "gpt-4o-mini", "model_provider": "openai", "base_url": stub.base_url, "api_key": "k"}
    await face.invoke(late.bind_tools([weather]), "three", config_for("s1", **named))
    assert texts(ada) == ["one", "reply 1", "two", "another", "three", "reply 2"]
    assert "tools" in stub.last.body


async def test_item_17_7_a_wrapped_model_is_configured_as_the_raw_one_is(
    face: Face, memory: SessionMemoryAdvisor, ada: SessionService
) -> None:
    field = ConfigurableField(id="says")
    chat = memory.wrap(FakeListChatModel(responses=["raw"])).configurable_fields(responses=field)
    await face.invoke(chat, "one", config_for("s1", says=["set"]))
    which: Any = ConfigurableField(id="which")
    others = {
        "b": memory.wrap(FakeListChatModel(responses=["of b"])),
        "c": lambda: FakeListChatModel(responses=["of c"]),
    }
    several = chat.configurable_alternatives(which, default_key="a", **others)
    for name in "abc":
        await face.invoke(several, name, config_for("s1", which=name))
    assert texts(ada) == ["one", "set", "a", "raw", "b", "of b", "c", "of c"]
    assert [spec.id for spec in several.config_specs] == ["says", "which"]
    with pytest.raises(InvalidInputError, match="no chat model"):
        memory.wrap(RunnablePassthrough()).configurable_fields(func=field)


async def test_steps_side_by_side(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, ada: SessionService
) -> None:
    """Each reply stands behind the question that it answers, in whatever order they came."""
    chat = memory.wrap(model)
    first: Any = itemgetter("a")
    second: Any = itemgetter("b")
    both = RunnableParallel(a=first | chat, b=second | chat) | RunnablePassthrough()
    await face.invoke(both, {"a": "ask one", "b": "ask two"}, config_for("s1"))
    if face.name == "sync":
        chat.batch(["ask three", "ask four"], config_for("s1"))
    else:
        await chat.abatch(["ask three", "ask four"], config_for("s1"))
    assert sorted(message.type for message in ada.messages("s1")) == ["ai"] * 4 + ["human"] * 4
    await face.invoke(chat, "and now", config_for("s1"))
    assert stub.last.roles == ["user", "assistant"] * 4 + ["user"]


async def test_names_of_runs(
    stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    chat = memory.wrap(model).with_config(run_name="support chat", tags=["x"])
    events = [event async for event in chat.astream_events("hi", config, version="v2")]
    assert {event["name"] for event in events} == {"support chat", "ChatOpenAI"}
    assert {event["name"] for event in events if "x" in event.get("tags", [])} == {"support chat", "ChatOpenAI"}


@pytest.mark.parametrize("nothing", [[], [("system", "Be brief.")]])
async def test_a_request_must_say_something(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
    nothing: Any,
) -> None:
    with pytest.raises(InvalidInputError, match="input"):
        await face.invoke(memory.wrap(model), nothing, config)
    assert stub.requests == []
    assert len(ada.list_sessions()) == 0


async def test_a_functional_graph(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, thread: RunnableConfig
) -> None:
    chat = memory.wrap(model)
    if face.name == "sync":

        @entrypoint(checkpointer=InMemorySaver())
        def flow(text: str) -> Any:
            return chat.invoke(text)
    else:

        @entrypoint(checkpointer=InMemorySaver())
        async def flow(text: str, config: RunnableConfig) -> Any:
            return await chat.ainvoke(text, config)

    await face.invoke(flow, "one", thread)
    await face.invoke(flow, "two", thread)
    assert stub.last.texts == ["one", "reply 1", "two"]


async def test_a_node_streams_tokens(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, thread: RunnableConfig
) -> None:
    node: Any = itemgetter("messages") | memory.wrap(model) | (lambda reply: {"messages": [reply]})
    graph: Any = StateGraph(MessagesState).add_node("chat", node).add_edge(START, "chat").compile()
    stub.script("one two three")
    chunks = await face.stream(graph, question("count"), thread, stream_mode="messages")
    assert [chunk.content for chunk, _ in chunks if chunk.content] == ["one", " two", " three"]


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("approved", [True, False])
async def test_somebody_has_to_approve(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    *,
    ours: bool,
    approved: bool,
) -> None:
    """A turn that waits for somebody stays open; it goes on, or the thread moves on without it."""
    agent: Any = create_agent(
        model,
        [weather],
        middleware=[SessionMemoryMiddleware(sessions), HumanInTheLoopMiddleware(interrupt_on={"weather": True})],
        checkpointer=SessionCheckpointSaver(sessions) if ours else InMemorySaver(),
    )
    stub.script(call("weather", city="Rome"), *(["sunny"] if approved else []), "bye")
    state = await face.invoke(agent, question("weather?"), thread)
    assert "__interrupt__" in state
    if approved:
        await face.invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), thread)
        assert kinds(ada) == LOOP
    await face.invoke(agent, question("thanks"), thread)
    before = ["weather?", "", "sun in Rome", "sunny"] if approved else []
    assert stub.last.texts == [*before, "thanks"]
    assert texts(ada) == [*before, "thanks", "bye"]
    assert "open" not in {standing for _, _, standing in logged(ada)}


async def test_a_tool_that_updates_the_state(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI
) -> None:
    @tool
    def note(runtime: ToolRuntime) -> Command[Any]:
        """Take a note."""
        return Command(update={"messages": [ToolMessage("noted", tool_call_id=runtime.tool_call_id)]})

    agent: Any = create_agent(model, [note], middleware=[SessionMemoryMiddleware(sessions)])
    stub.script(call("note"), "done")
    await face.invoke(agent, question("note this"), config_for("s1"))
    assert kinds(ada) == LOOP


@pytest.mark.parametrize("outermost", [True, False])
async def test_beside_a_middleware_that_tries_again(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI, *, outermost: bool
) -> None:
    middleware: list[Any] = [SessionMemoryMiddleware(sessions), ModelRetryMiddleware(max_retries=2, initial_delay=0)]
    agent: Any = create_agent(model, [weather], middleware=middleware if outermost else middleware[::-1])
    stub.script(Fail(), call("weather", city="Rome"), Fail(), "sunny")
    await face.invoke(agent, question("weather?"), config_for("s1"))
    assert kinds(ada) == LOOP


@pytest.mark.parametrize("saver", [None, InMemorySaver, SessionCheckpointSaver])
async def test_an_agent_as_a_node(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    saver: Any,
) -> None:
    agent = create_agent(model, [weather], middleware=[SessionMemoryMiddleware(sessions)])
    builder = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")
    given = None if saver is None else saver(sessions) if saver is SessionCheckpointSaver else saver()
    graph: Any = builder.compile(checkpointer=given)
    stub.script(call("weather", city="Rome"), "sunny", "bye")
    await face.invoke(graph, question("weather?"), thread)
    await face.invoke(graph, question("thanks"), thread)
    assert stub.last.texts == ["weather?", "", "sun in Rome", "sunny", "thanks"]
    assert kinds_in_a_graph(ada) == [*LOOP, "human", "ai"]


async def test_an_agent_that_asks_another(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI
) -> None:
    """One session, a branch for each agent: the other's work is not shown to the first."""
    memory = SessionMemoryMiddleware(sessions)
    helper: Any = create_agent(model, middleware=[memory.on_branch("orch.helper")])

    @tool
    def research(topic: str, config: RunnableConfig) -> str:
        """Ask the researcher."""
        return str(helper.invoke(question(topic), config)["messages"][-1].content)

    agent: Any = create_agent(model, [research], middleware=[memory])
    stub.script(call("research", topic="boats"), "boats float", "they float", "bye")
    await face.invoke(agent, question("what of boats?"), config_for("s1"))
    assert stub.requests[1].texts == ["boats"]
    await face.invoke(agent, question("thanks"), config_for("s1"))
    assert stub.last.texts == ["what of boats?", "", "boats float", "they float", "thanks"]
    branches = [event.branch for event in ada.events("s1") if event.message is not None]
    assert branches == [None, None, "orch.helper", "orch.helper", *[None] * 4]
