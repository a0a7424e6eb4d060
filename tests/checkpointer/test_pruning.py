"""What is left when checkpoints are removed: threads that run on, and other processes that did not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(MessagesState):
    blob: str


def parent_over(saver: SessionCheckpointSaver, **subgraphs: Any) -> Any:
    builder: Any = StateGraph(State)
    before = START
    for name, graph in subgraphs.items():
        builder.add_node(name, graph)
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=saver)


def inner(node: Any, **options: Any) -> Any:
    builder: Any = StateGraph(State)
    builder.add_node("count", node)
    builder.add_edge(START, "count")
    return builder.compile(**options)


def count(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage(f"{len(state['messages'])}")]}


def ask(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage(interrupt("sure?"))]}


def say(graph: Any, text: str, thread: str = "t", **more: Any) -> Any:
    config = {"configurable": {"thread_id": thread}, **more}
    return graph.invoke({"messages": [HumanMessage(text)]}, config)


def contents(graph: Any, config: Any = CONFIG) -> list[Any]:
    return [message.content for message in graph.get_state(config).values.get("messages", [])]


def namespaces(saver: SessionCheckpointSaver) -> list[str]:
    return sorted(found.config.get("configurable", {})["checkpoint_ns"] for found in saver.list(CONFIG))


def test_calls_of_subgraphs_go_with_where_they_started(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = parent_over(saver, memory=inner(count, checkpointer=True), call=inner(count))
    for thread in ("t", "twin"):
        for text in ("one", "two", "three"):
            say(graph, text, thread)
    saver.prune(["t"])
    assert namespaces(saver) == ["", "memory"]
    head = saver.get_tuple(CONFIG)
    assert head is not None
    assert head.parent_config is None
    for thread in ("t", "twin"):
        say(graph, "four", thread)
    assert contents(graph) == contents(graph, {"configurable": {"thread_id": "twin"}})
    assert service.verify("t") == []


def test_a_subgraph_that_waits_is_kept(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = parent_over(saver, sub=inner(ask))
    say(graph, "one")
    graph.invoke(Command(resume="yes"), CONFIG)
    say(graph, "two")
    waits = graph.get_state(CONFIG, subgraphs=True).tasks[0].state.config["configurable"]["checkpoint_ns"]
    saver.prune(["t"])
    assert namespaces(saver) == ["", waits]
    graph.invoke(Command(resume="of course"), CONFIG)
    assert contents(graph) == ["one", "yes", "two", "of course"]


def test_lines_are_mended(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = parent_over(saver, count=count)
    for run in ("r1", "r2", "r3"):
        say(graph, run, metadata={"run_id": run})
    saver.delete_for_runs(["r2"])
    assert saver.head_conflicts("t") == []
    line = list(saver.list(CONFIG))
    assert len(line) == 6
    parents = [(found.parent_config or {}).get("configurable", {}).get("checkpoint_id") for found in line]
    assert parents == [*(found.checkpoint["id"] for found in line[1:]), None]


def test_deleted_runs_leave_what_a_rewind_may_bring_back(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = parent_over(saver, count=count)
    for run in ("r1", "r2"):
        say(graph, run, metadata={"run_id": run})
    whole = contents(graph)
    service.rewind("t", to_seq=2)
    saver.delete_for_runs(["other", "r1"])
    service.undo_rewind("t")
    assert contents(graph) == whole


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
def test_one_id_is_not_taken_for_many(service: SessionService, strategy: str) -> None:
    saver = SessionCheckpointSaver(service)
    graph = parent_over(saver, count=count)
    say(graph, "one", "a")
    with pytest.raises(InvalidInputError, match="thread_ids"):
        saver.prune("a", strategy=strategy)
    with pytest.raises(InvalidInputError, match="run_ids"):
        saver.delete_for_runs("a")
    assert len(list(saver.list(None))) == 3


def test_writes_that_come_before_their_checkpoint_are_kept(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    say(parent_over(saver, count=count), "one")
    head = saver.get_tuple(CONFIG)
    assert head is not None
    following: Any = {**empty_checkpoint(), "id": "z"}
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "z"}}
    saver.put_writes(place, [("a", 4)], "task")
    saver.prune(["t"])
    saver.put(head.config, following, {"source": "loop", "step": 9, "parents": {}}, {})
    found = saver.get_tuple(place)
    assert found is not None
    assert found.pending_writes == [("task", "a", 4)]


def write_for_nothing(saver: SessionCheckpointSaver, ns: str = "") -> Any:
    """Have a task write whose process is killed before the checkpoint is there that it ran on; where that would be."""
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": str(uuid6())}}
    saver.put_writes(place, [("a", 4)], "task")
    return place


def written(saver: SessionCheckpointSaver, place: Any) -> list[Any]:
    """What is still stored there: a checkpoint that comes shows it."""
    above: Any = {"configurable": {**place["configurable"], "checkpoint_id": None}}
    checkpoint: Any = {**empty_checkpoint(), "id": place["configurable"]["checkpoint_id"]}
    saver.put(above, checkpoint, {"source": "loop", "step": 9, "parents": {}}, {})
    found = saver.get_tuple(place)
    assert found is not None
    return [value for _, _, value in found.pending_writes or ()]


REMOVALS: dict[str, Callable[[SessionCheckpointSaver], object]] = {
    "delete": lambda saver: saver.prune(["t"], strategy="delete"),
    "keep_latest": lambda saver: saver.prune(["t"]),
    "trim": lambda saver: saver.trim(["t"], keep=100),
    "the run before": lambda saver: saver.delete_for_runs(["r1"]),
    "the run after": lambda saver: saver.delete_for_runs(["r2"]),
}


@pytest.mark.parametrize("ns", ["", "sub:1"])
@pytest.mark.parametrize("removal", REMOVALS.values(), ids=REMOVALS)
def test_writes_go_whose_checkpoint_never_came(
    service: SessionService, removal: Callable[[SessionCheckpointSaver], object], ns: str
) -> None:
    saver = SessionCheckpointSaver(service)
    graph = parent_over(saver, count=count)
    say(graph, "one", metadata={"run_id": "r1"})
    place = write_for_nothing(saver, ns)
    say(graph, "two", metadata={"run_id": "r2"})
    removal(saver)
    assert written(saver, place) == []
    assert service.verify("t") == []


@pytest.mark.parametrize(
    ("removal", "left"),
    [("delete", []), ("keep_latest", [4]), ("trim", [4]), ("the run before", [4]), ("the run after", [])],
)
def test_writes_stay_whose_checkpoint_may_come(service: SessionService, removal: str, left: list[int]) -> None:
    """They go with what they came from: with everything, and with the last run."""
    saver = SessionCheckpointSaver(service)
    graph = parent_over(saver, count=count)
    for run in ("r1", "r2"):
        say(graph, run, metadata={"run_id": run})
    place = write_for_nothing(saver)
    REMOVALS[removal](saver)
    assert written(saver, place) == left


def test_a_thread_that_never_had_a_checkpoint_is_emptied(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    place = write_for_nothing(saver)
    saver.prune(["t"])
    saver.prune(["t"], strategy="delete")
    assert written(saver, place) == []


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
def test_a_saver_that_did_not_know_goes_on(open_service: Callable[..., SessionService], strategy: str) -> None:
    """Names and large values that it has written are gone, or it believes so."""
    service, other = open_service(), open_service()
    graph = parent_over(SessionCheckpointSaver(service), count=count)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [HumanMessage("one")], "blob": "b" * 500}, config)
    before = graph.get_state(config)
    SessionCheckpointSaver(other).prune(["t"], strategy=strategy)
    say(graph, "two")
    graph.update_state(before.config, {"messages": [HumanMessage("late")]}, as_node="count")
    fresh = parent_over(SessionCheckpointSaver(other), count=count)
    assert contents(fresh) == contents(graph)
    assert len(list(fresh.get_state_history(config))) >= 4
    assert service.verify("t") == []


def test_a_graph_that_runs_while_its_thread_is_pruned(open_service: Callable[..., SessionService]) -> None:
    service, other = open_service(), open_service()

    def prunes(state: State) -> dict[str, Any]:
        SessionCheckpointSaver(other).prune(["t"], strategy="delete")
        return {"messages": [AIMessage("pruned")]}

    graph = parent_over(SessionCheckpointSaver(service), prunes=prunes)
    given = {"messages": [HumanMessage("one")], "blob": "b" * 500}
    graph.invoke(given, CONFIG, durability="sync")
    fresh = parent_over(SessionCheckpointSaver(other), prunes=prunes)
    assert fresh.get_state(CONFIG).values["blob"] == "b" * 500
    assert contents(fresh) == ["one", "pruned"]


def test_the_last_of_several_interrupts_stands(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    root = saver.put(CONFIG, {**empty_checkpoint(), "id": "a"}, {}, {})
    inside: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "sub:1", "checkpoint_id": "b"}}
    saver.put(inside | {}, {**empty_checkpoint(), "id": "b"}, {}, {})
    saver.put_writes(root, [("x", 1)], "first")
    saver.put_writes(inside, [("__interrupt__", "one"), ("y", "one")], "task")
    saver.put(root, {**empty_checkpoint(), "id": "c"}, {}, {})
    saver.put_writes(inside, [("__interrupt__", "two"), ("y", "two")], "task")
    for reader in (saver, SessionCheckpointSaver(service)):
        found = reader.get_tuple(inside)
        assert found is not None
        assert found.pending_writes is not None
        assert [value for _, _, value in found.pending_writes] == ["two", "one"]
