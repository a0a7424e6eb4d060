"""Graphs as LangGraph's own pages show them, unchanged but for the line that makes the checkpointer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langchain_sessions.checkpointer import SessionCheckpointSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb", "cassandra")
CONFIG: RunnableConfig = {"configurable": {"thread_id": "1"}}


class Model(FakeMessagesListChatModel):
    """Says one thing after the other, whatever the tools."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def asks(city: str, number: int = 1) -> AIMessage:
    return AIMessage(
        "", id=f"ask{city}", tool_calls=[{"name": "weather", "args": {"city": city}, "id": f"{city}{number}"}]
    )


@tool
def weather(city: str) -> str:
    """What the weather is like."""
    return f"It is foggy in {city}."


def both(service: SessionService, play: Any) -> Any:
    """What a scenario shows with our saver, after it was found to show the same with LangGraph's own."""
    ours, theirs = play(SessionCheckpointSaver(service)), play(InMemorySaver())
    assert ours == theirs
    return ours


def said(messages: list[BaseMessage]) -> list[tuple[str, Any]]:
    return [(message.type, message.content) for message in messages]


def test_checkpoints_made_by_hand_are_read_back_as_they_were(service: SessionService) -> None:
    checkpointer = SessionCheckpointSaver(service)
    write_config: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    checkpoint: Any = {
        "v": 4,
        "ts": "2026-07-31T20:14:19.804150+00:00",
        "id": "1ef4f797-8335-6428-8001-8a1503f9b875",
        "channel_values": {"my_key": "meow", "node": "node"},
        "channel_versions": {"__start__": 2, "my_key": 3, "start:node": 3, "node": 3},
        "versions_seen": {"__input__": {}, "__start__": {"__start__": 1}, "node": {"start:node": 2}},
    }
    checkpointer.put(write_config, checkpoint, {}, {})
    assert checkpointer.get(CONFIG) == checkpoint
    assert [found.checkpoint for found in checkpointer.list(CONFIG)] == [checkpoint]
    newer: Any = {**empty_checkpoint(), "pending_sends": [], "more": {"x": [1, None]}}
    checkpointer.put(write_config, newer, {}, {})
    assert checkpointer.get(CONFIG) == newer


def test_a_graph_with_tools(service: SessionService) -> None:
    def play(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        model = Model(responses=[asks("sf"), AIMessage("Foggy.", id="a1"), AIMessage("San Francisco.", id="a2")])

        def call_model(state: MessagesState) -> dict[str, Any]:
            return {"messages": [model.bind_tools([weather]).invoke(state["messages"])]}

        workflow: Any = StateGraph(MessagesState)
        workflow.add_node("agent", call_model)
        workflow.add_node("tools", ToolNode([weather]))
        workflow.add_edge(START, "agent")
        workflow.add_conditional_edges("agent", tools_condition)
        workflow.add_edge("tools", "agent")
        app = workflow.compile(checkpointer=checkpointer)
        first = app.invoke({"messages": [HumanMessage("what is the weather in sf")]}, CONFIG)
        app.invoke({"messages": [{"role": "user", "content": "which city did I ask about?"}]}, CONFIG)
        return said(first["messages"]), said(app.get_state(CONFIG).values["messages"])

    _, state = both(service, play)
    assert said(service.messages("1")) == state
    assert len(state) == 6


def test_an_agent_that_asks_before_it_acts(service: SessionService) -> None:
    def play(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        agent: Any = create_agent(
            Model(responses=[asks("sf"), AIMessage("Foggy there.", id="a1")]),
            tools=[weather],
            middleware=[HumanInTheLoopMiddleware(interrupt_on={"weather": True})],
            checkpointer=checkpointer,
        )
        agent.invoke({"messages": [{"role": "user", "content": "sf?"}]}, CONFIG)
        waits = agent.get_state(CONFIG)
        assert [event["name"] for event in waits.interrupts[0].value["action_requests"]] == ["weather"]
        decision = {"type": "edit", "edited_action": {"name": "weather", "args": {"city": "la"}}}
        done = agent.invoke(Command(resume={"decisions": [decision]}), CONFIG)
        return waits.next, said(done["messages"])

    _, messages = both(service, play)
    assert "It is foggy in la." in str(messages[2])
    assert said(service.messages("1")) == messages
    assert service.verify("1") == []


def test_tool_calls_at_once_are_stored_once(service: SessionService) -> None:
    calls = [{"name": "weather", "args": {"city": city}, "id": city} for city in ("sf", "la")]

    def play(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        turns: list[BaseMessage] = [
            message for n in range(3) for message in (AIMessage("", id=f"c{n}", tool_calls=calls), AIMessage("ok"))
        ]
        agent: Any = create_agent(Model(responses=turns), tools=[weather], checkpointer=checkpointer)
        for turn in range(3):
            agent.invoke({"messages": [{"role": "user", "content": f"both {turn}"}]}, CONFIG)
        return said(agent.get_state(CONFIG).values["messages"])

    messages = both(service, play)
    assert len(service.events("1").items) == len(messages) == 15
    assert said(service.messages("1")) == messages


class Parent(TypedDict):
    foo: str


class Child(TypedDict):
    foo: str
    bar: str


def test_a_subgraph_that_shares_a_key_and_waits(service: SessionService) -> None:
    def play(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        def ask(state: Child) -> dict[str, str]:
            return {"bar": interrupt("provide value")}

        sub: Any = StateGraph(Child)
        sub.add_node("ask", ask)
        sub.add_node("use", lambda state: {"foo": state["foo"] + state["bar"]})
        sub.add_edge(START, "ask")
        sub.add_edge("ask", "use")
        builder: Any = StateGraph(Parent)
        builder.add_node("node_1", lambda state: {"foo": "hi! " + state["foo"]})
        builder.add_node("node_2", sub.compile())
        builder.add_edge(START, "node_1")
        builder.add_edge("node_1", "node_2")
        graph = builder.compile(checkpointer=checkpointer)
        graph.invoke({"foo": "foo"}, CONFIG)
        inside = graph.get_state(CONFIG, subgraphs=True).tasks[0].state
        graph.update_state(inside.config, {"foo": "changed "})
        streamed = [part for _, part in graph.stream(Command(resume="bar"), CONFIG, subgraphs=True)]
        return inside.values, inside.next, streamed, graph.get_state(CONFIG).values

    assert both(service, play)[-1] == {"foo": "changed bar"}


def test_a_subgraph_that_remembers(service: SessionService) -> None:
    def play(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        sub: Any = StateGraph(MessagesState)
        sub.add_node("count", lambda state: {"messages": [AIMessage(f"{len(state['messages'])} here")]})
        sub.add_edge(START, "count")
        agent = sub.compile(checkpointer=True)

        def call(state: MessagesState) -> dict[str, Any]:
            found = agent.invoke({"messages": [state["messages"][-1]]})
            return {"messages": [AIMessage(found["messages"][-1].content)]}

        builder: Any = StateGraph(MessagesState)
        builder.add_node("call", call)
        builder.add_edge(START, "call")
        builder.add_edge("call", END)
        graph = builder.compile(checkpointer=checkpointer)
        for text in ("one", "two"):
            graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)
        return said(graph.get_state(CONFIG).values["messages"])

    assert both(service, play)[-1] == ("ai", "3 here")
    assert service.verify("1") == []


async def test_the_functional_api(service: SessionService) -> None:
    calls: list[str] = []

    def make(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        @task
        async def write(topic: str) -> str:
            calls.append(topic)
            return f"about {topic}"

        @entrypoint(checkpointer=checkpointer)
        async def workflow(topic: str, *, previous: Any = None) -> Any:
            essay = await write(topic)
            seen = [*(previous or []), essay]
            return entrypoint.final(value=[essay, interrupt("good?"), previous], save=seen)

        return workflow

    found = []
    for checkpointer in (SessionCheckpointSaver(service), InMemorySaver()):
        workflow = make(checkpointer)
        for topic in ("cat", "dog"):
            await workflow.ainvoke(topic, CONFIG)
            found.append(await workflow.ainvoke(Command(resume="yes"), CONFIG))
    assert found[:2] == found[2:]
    assert found[1] == ["about dog", "yes", ["about cat"]]
    # What a task did before the interrupt is not done again.
    assert calls == ["cat", "dog"] * 2
    await service.aclose()


@pytest.mark.parametrize("strings", [["Bot response"], [("user", "x")]])
def test_lists_that_are_called_messages_and_hold_none(service: SessionService, strings: list[Any]) -> None:
    def play(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        class State(TypedDict):
            messages: Annotated[list[Any], lambda old, new: old + new]

        builder: Any = StateGraph(State)
        builder.add_node("respond", lambda state: {"messages": strings})
        builder.add_edge(START, "respond")
        graph = builder.compile(checkpointer=checkpointer)
        for text in ("Hello", "How are you?"):
            graph.invoke({"messages": [text]}, CONFIG)
        # LangGraph's own saver hands out lists where tuples were stored.
        return [list(one) if isinstance(one, tuple) else one for one in graph.get_state(CONFIG).values["messages"]]

    assert len(both(service, play)) == 4
    assert service.messages("1") == []
