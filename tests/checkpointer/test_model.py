"""Random conversations: after each, the whole history must read as LangGraph's own in-memory saver has it."""

from __future__ import annotations

import operator
import random
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph, add_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import TypedDict

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.events import Standing
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t"}}
VALUES = ("notes", "topic", "grid", "table")


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[Any], operator.add]
    topic: Any


class Script:
    """What the nodes do next, the same for both savers."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Any]] = []

    def __call__(self, state: State) -> dict[str, Any]:
        what, argument = self.steps[0]
        messages = state["messages"]
        if what == "reply":
            return {"messages": [AIMessage(f"re {argument}", id=argument)], "topic": {"last": messages[-1:]}}
        if what == "tools":
            call = AIMessage("", tool_calls=[{"name": "f", "args": {"x": argument}, "id": f"c{argument}"}])
            return {"messages": [call, ToolMessage(str(argument), tool_call_id=f"c{argument}")], "notes": [argument]}
        if what == "in place":
            last = messages[-1]
            last.additional_kwargs["seen"] = argument
            return {"messages": [last]}
        return {"notes": [{"n": argument, "m": AIMessage("note")}]}


def graph_over(saver: BaseCheckpointSaver[Any], script: Script) -> Any:
    builder: Any = StateGraph(State)
    builder.add_node("a", script)
    builder.add_node("b", lambda state: {"notes": ["b"]})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    return builder.compile(checkpointer=saver)


def plain(value: Any, ids: dict[str, int]) -> Any:
    """A value without what differs from run to run: ids that were made up count by their first appearance."""
    if isinstance(value, BaseMessage):
        fields = value.model_dump()
        made_up = fields.pop("id")
        number = made_up if made_up is None or len(made_up) < 20 else ids.setdefault(made_up, len(ids))
        return (type(value).__name__, number, plain(fields, ids))
    if isinstance(value, dict):
        return {key: plain(item, ids) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tolist())
    if type(value).__name__ == "DataFrame":
        # As columns: some of texts, of times, with gaps.
        return ("frame", repr(value.index), repr(value.dtypes), value.to_csv())
    if isinstance(value, (list, tuple)):
        return [plain(item, ids) for item in value]
    return value


def history(graph: Any) -> list[Any]:
    ids: dict[str, int] = {}
    snapshots = list(graph.get_state_history(CONFIG))[::-1]
    return [
        (plain(s.values, ids), s.next, s.metadata["source"], s.metadata["step"], plain(_pending(graph, s), ids))
        for s in snapshots
    ]


def _pending(graph: Any, snapshot: Any) -> list[Any]:
    found = graph.checkpointer.get_tuple(snapshot.config)
    # The input as it was given may lack ids that the graph assigned a moment later.
    return [(channel, value) for _, channel, value in found.pending_writes if channel in VALUES]


class Scenario:
    """One conversation, played on two savers at once."""

    kinds: tuple[str, ...] = ("reply", "tools", "in place", "note")
    script: Any = Script
    over: Callable[..., Any] = staticmethod(graph_over)

    def __init__(self, seed: int, make: Callable[[], BaseCheckpointSaver[Any]]) -> None:
        self.chance = random.Random(seed)
        self.script = type(self).script()
        self.make = make
        self.ours = self.over(make(), self.script)
        # It knows frames by pickling them alone.
        self.theirs = self.over(InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=True)), self.script)
        self.count = 0

    def both(self, act: Callable[[Any], None]) -> None:
        outcomes = []
        for graph in (self.ours, self.theirs):
            try:
                act(graph)
                outcomes.append("")
            except ValueError as error:
                outcomes.append(type(error).__name__)
        assert outcomes[0] == outcomes[1]

    def step(self) -> None:
        self.count += 1
        act = self.chance.choice(
            [
                self.invoke,
                self.invoke,
                self.invoke,
                self.update,
                self.edit,
                self.remove,
                self.clear,
                self.fork,
                self.renew,
            ]
        )
        act()

    def _id(self) -> str | None:
        return self.chance.choice([None, f"m{self.count}", f"m{self.chance.randint(0, self.count)}"])

    def _input(self) -> Any:
        text = self.chance.choice(["yes", f"hello {self.count} " + "x" * 60])
        if self.chance.random() < 0.3:
            return lambda: {"role": "user", "content": text}
        message_id = self._id()
        return lambda: HumanMessage(text, id=message_id)

    def invoke(self, config: Callable[[Any], Any] = lambda graph: CONFIG) -> None:
        kind = self.chance.choice(self.kinds)
        self.script.steps = [(kind, self._id() if kind == "reply" else self.count)]
        durability = self.chance.choice(["sync", "exit"] if "in place" in kind else ["sync", "async", "exit"])
        made = self._input()
        self.both(lambda graph: graph.invoke({"messages": [made()]}, config(graph), durability=durability))

    def update(self) -> None:
        made = self._input()
        self.both(lambda graph: graph.update_state(CONFIG, {"messages": [made()]}, as_node="a"))

    def _message_at(self, graph: Any, place: float) -> Any:
        messages = graph.get_state(CONFIG).values.get("messages", [])
        return messages[int(place * len(messages))] if messages else None

    def edit(self) -> None:
        place, text = self.chance.random(), self.chance.choice(["edited", "yes"])

        def act(graph: Any) -> None:
            if (message := self._message_at(graph, place)) is not None:
                graph.update_state(CONFIG, {"messages": [message.model_copy(update={"content": text})]}, as_node="a")

        self.both(act)

    def remove(self) -> None:
        place = self.chance.random()

        def act(graph: Any) -> None:
            if (message := self._message_at(graph, place)) is not None:
                graph.update_state(CONFIG, {"messages": [RemoveMessage(id=message.id)]}, as_node="b")

        self.both(act)

    def clear(self) -> None:
        if self.chance.random() < 0.5:
            gone = RemoveMessage(id=REMOVE_ALL_MESSAGES)
            self.both(lambda graph: graph.update_state(CONFIG, {"messages": [gone, AIMessage("start")]}, as_node="a"))

    def fork(self) -> None:
        place = self.chance.random()

        def past(graph: Any) -> Any:
            found = list(graph.get_state_history(CONFIG))
            return found[int(place * len(found))].config if found else CONFIG

        self.invoke(past)

    def renew(self) -> None:
        """Go on in another process, as far as a saver can tell."""
        self.ours = self.over(self.make(), self.script)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("seed", [*range(3, 20), 25, 32])
def test_histories_are_alike(open_service: Callable[..., SessionService], seed: int) -> None:
    play(open_service(), seed)


@pytest.mark.parametrize("seed", range(3))
def test_histories_are_alike_on_every_database(open_service: Callable[..., SessionService], seed: int) -> None:
    play(open_service(), seed)


def play(service: SessionService, seed: int, kind: type[Scenario] = Scenario) -> None:
    """Play a scenario and compare after each step."""
    scenario = kind(seed, lambda: SessionCheckpointSaver(service))
    for _ in range(10):
        scenario.step()
        assert history(scenario.ours) == history(scenario.theirs)
    fresh = scenario.over(SessionCheckpointSaver(service), scenario.script)
    assert history(fresh) == history(scenario.theirs)
    messages = fresh.get_state(CONFIG).values.get("messages", [])
    if messages:
        live = service.events("t", EventFilter(standings=frozenset({Standing.LIVE}))).items
        assert sorted(str(event.message.id) for event in live if event.message) == sorted(m.id for m in messages)
        assert service.verify("t") == []
        assert service.count("t").events == len(messages)
