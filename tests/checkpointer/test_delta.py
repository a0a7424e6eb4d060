"""Delta channels: the writes since the nearest stored value, in the order in which a run applies them."""

from __future__ import annotations

import asyncio
import importlib
import random
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from langchain_sessions._threads import pending, save
from langchain_sessions.checkpointer import SessionCheckpointSaver

delta: Any = importlib.import_module("langgraph.channels.delta") if find_spec("langgraph.channels.delta") else None
messages: Any = importlib.import_module("langgraph.graph.message")

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb", "cassandra")
THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def saver(service: SessionService) -> SessionCheckpointSaver:
    return SessionCheckpointSaver(service)


def put(saver: SessionCheckpointSaver, parent: RunnableConfig, cid: str, **values: Any) -> RunnableConfig:
    """A checkpoint made by hand; what it holds has no version where the name says so."""
    versions = {name: 1 for name in values if not name.startswith("bare")}
    checkpoint: Any = {**empty_checkpoint(), "id": cid, "channel_values": values, "channel_versions": versions}
    return saver.put(parent, checkpoint, {"source": "loop", "step": 1, "parents": {}}, dict(versions))


def history(saver: SessionCheckpointSaver, config: RunnableConfig, *channels: str) -> dict[str, Any]:
    """The history of channels by our own walk, which must be what LangGraph's own finds."""
    found = saver.get_delta_channel_history(config=config, channels=channels)
    assert found == BaseCheckpointSaver.get_delta_channel_history(saver, config=config, channels=channels)
    return {
        name: ([value for _, _, value in given["writes"]], given.get("seed", "none")) for name, given in found.items()
    }


def test_each_channel_is_walked_back_to_its_own_seed(saver: SessionCheckpointSaver) -> None:
    at = THREAD
    seeds: dict[int, dict[str, Any]] = {1: {"a": _DeltaSnapshot([1])}, 3: {"b": ["plain"]}}
    for step in range(5):
        at = put(saver, at, f"c{step}", **seeds.get(step, {}))
        saver.put_writes(at, [("a", step), ("b", step)], f"task{step}")
    found = history(saver, at, "a", "b", "nothing")
    # The seed's own writes came after it; those of the target are not part of its past.
    assert found == {
        "a": ([1, 2, 3], _DeltaSnapshot([1])),
        "b": ([3], ["plain"]),
        "nothing": ([], "none"),
    }
    assert saver.get_delta_channel_history(config=at, channels=[]) == {}


def test_writes_of_one_step_are_in_the_order_of_their_paths(saver: SessionCheckpointSaver) -> None:
    root = put(saver, THREAD, "c1", a=[])
    saver.put_writes(root, [("a", "second")], "task 1", "~pull, 02")
    saver.put_writes(root, [("a", "first")], "task 9", "~pull, 01")
    saver.put_writes(root, [("a", "input")], "task 5")
    assert history(saver, put(saver, root, "c2"), "a") == {"a": (["input", "first", "second"], [])}


@pytest.mark.parametrize(("older", "newer"), [("z", "a"), ("a", "z")])
def test_parents_are_followed_whatever_their_ids(saver: SessionCheckpointSaver, older: str, newer: str) -> None:
    root = put(saver, THREAD, older, bare="seed")
    saver.put_writes(root, [("bare", "write")], "task")
    child = put(saver, root, newer)
    assert history(saver, child, "bare") == {"bare": (["write"], "seed")}


async def test_both_faces_and_an_empty_id(service: SessionService, saver: SessionCheckpointSaver) -> None:
    root = put(saver, THREAD, "a", ch="seed")
    saver.put_writes(root, [("ch", "write")], "task")
    put(saver, root, "z")
    nameless: RunnableConfig = {"configurable": {**THREAD["configurable"], "checkpoint_id": ""}}
    assert history(saver, nameless, "ch") == {"ch": (["write"], "seed")}
    found = await saver.aget_delta_channel_history(config=nameless, channels=["ch"])
    assert found == saver.get_delta_channel_history(config=nameless, channels=["ch"])
    newest = saver.get_tuple(nameless)
    assert newest is not None
    assert newest.checkpoint["id"] == "z"
    await service.aclose()


def test_a_circle_of_parents_comes_to_an_end(saver: SessionCheckpointSaver) -> None:
    first = put(saver, THREAD, "a")
    second = put(saver, first, "b")
    put(saver, second, "a")
    saver.put_writes(first, [("ch", 1)], "task")
    assert saver.get_delta_channel_history(config=second, channels=["ch"])["ch"]["writes"] == [("task", "ch", 1)]
    assert saver.head_conflicts("t") == []
    saver.prune(["t"])
    assert saver.get_tuple(THREAD) is not None


def test_values_without_a_version_are_kept(saver: SessionCheckpointSaver) -> None:
    root = put(saver, THREAD, "a", bare=[1], other=2)
    found = saver.get_tuple(put(saver, root, "b", bare=[3]))
    assert found is not None
    assert (found.checkpoint["channel_values"], found.checkpoint["channel_versions"]) == ({"bare": [3]}, {})
    before = saver.get_tuple(root)
    assert before is not None
    assert before.checkpoint["channel_values"] == {"bare": [1], "other": 2}
    assert before.checkpoint["channel_versions"] == {"other": 1}


# -- messages ------------------------------------------------------------------------------------------------

needs_delta_channels = pytest.mark.skipif(delta is None, reason="a later LangGraph")


class Crash(Exception):  # noqa: N818 - what a machine does
    """Stands for a process that ends."""


class Talk:
    """A graph whose messages lie in a delta channel, and what it was told to do."""

    def __init__(self, service: SessionService, frequency: int = 5) -> None:
        self.service = service
        self.crashes = False
        self.meanwhile: Any = None
        self.says: list[Any] = []
        channel = delta.DeltaChannel(messages._messages_delta_reducer, snapshot_frequency=frequency)
        State: Any = TypedDict("State", {"messages": Annotated[list[AnyMessage], channel]})  # noqa: N806 - a class
        self.builder: Any = StateGraph(State)
        for name in ("left", "right", "end"):
            self.builder.add_node(name, getattr(self, name))
        self.builder.add_edge(START, "left")
        self.builder.add_edge(START, "right")
        self.builder.add_edge(["left", "right"], "end")
        self.renew()

    def renew(self) -> None:
        """Begin with another saver, which knows nothing."""
        self.graph: Any = self.builder.compile(checkpointer=SessionCheckpointSaver(self.service))

    def left(self, state: Any) -> Any:
        return {"messages": AIMessage(f"left of {len(state['messages'])}")}

    def right(self, state: Any) -> Any:
        if self.crashes:
            raise Crash
        if self.meanwhile:
            self.meanwhile()
        return {"messages": [AIMessage(f"right of {len(state['messages'])}")]}

    def end(self, state: Any) -> Any:
        said, self.says = self.says, []
        return {"messages": said or [AIMessage("the end")]}

    def ask(self, text: str, config: Any = THREAD, **options: Any) -> None:
        self.graph.invoke({"messages": [HumanMessage(text)]}, config, **options)

    def messages(self) -> list[Any]:
        """What stands in the state, once it was asserted that the log holds the same."""
        found = self.graph.get_state(THREAD).values.get("messages", [])
        assert [(each.id, each.text) for each in self.service.messages("t")] == [(m.id, m.text) for m in found]
        assert self.service.verify("t") == []
        return list(found)


@needs_delta_channels
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_the_log_has_the_messages_of_a_delta_channel(service: SessionService, durability: str) -> None:
    talk = Talk(service)
    for number in range(4):
        talk.ask(f"question {number}", durability=durability)
        assert len(talk.messages()) == 4 * (number + 1)
    assert len(service.events("t").items) == 16
    found = [hit.event.message for hit in service.search("question 2", session_id="t")]
    assert found[0] is not None
    assert found[0].text == "question 2"
    talk.renew()
    talk.ask("and now?", durability=durability)
    assert len(talk.messages()) == 20


@needs_delta_channels
def test_what_takes_messages_out_of_a_delta_channel_takes_them_out_of_the_context(service: SessionService) -> None:
    talk = Talk(service, frequency=100)
    talk.ask("first")
    first = talk.messages()
    talk.says = [RemoveMessage(id=first[1].id), HumanMessage("first, said better", id=first[0].id)]
    talk.ask("second")
    now = talk.messages()
    assert [each.text for each in now][:2] == ["first, said better", first[2].text]
    assert first[1].text in [each.message.text for each in service.events("t").items if each.message]
    talk.graph.update_state(THREAD, {"messages": Overwrite([HumanMessage("this one")])}, as_node="end")
    assert [each.text for each in talk.messages()] == ["this one"]


@needs_delta_channels
def test_a_step_of_a_delta_channel_that_another_process_began(service: SessionService) -> None:
    """What a process wrote before it ended is in the log as the step that took it is."""
    talk = Talk(service)
    talk.ask("first")
    talk.crashes = True
    with pytest.raises(Crash):
        talk.ask("second")
    talk.renew()
    talk.crashes = False
    talk.graph.invoke(None, THREAD)
    assert [each.text for each in talk.messages()][4:] == ["second", "left of 5", "right of 5", "the end"]


@needs_delta_channels
def test_a_step_of_a_delta_channel_that_many_other_threads_wrote_beside(service: SessionService) -> None:
    """A saver remembers the steps of some threads only: of those that it forgot the store is asked."""
    talk = Talk(service, frequency=100)
    talk.ask("first")
    talk.meanwhile = lambda: _write_in_others(talk.graph.checkpointer, 300)
    talk.ask("second")
    assert [each.text for each in talk.messages()][4:] == ["second", "left of 5", "right of 5", "the end"]


@needs_delta_channels
async def test_steps_that_are_forgotten_before_their_checkpoint_is_stored(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks may write before the checkpoint that they run on is committed; what is left then is not all."""
    for module in (save, pending):
        monkeypatch.setattr(module, "MOST_STEPS", 16)
    talk = Talk(service, frequency=100)
    others: list[Any] = [{"configurable": {"thread_id": f"t{number}"}} for number in range(24)]
    for number in range(2):
        asked = {"messages": [HumanMessage(f"question {number}")]}
        await asyncio.gather(*(talk.graph.ainvoke(asked, config) for config in others))
    for config in others:
        found = (await talk.graph.aget_state(config)).values["messages"]
        logged = await service.amessages(config["configurable"]["thread_id"])
        assert [each.id for each in logged] == [each.id for each in found]


def _write_in_others(saver: SessionCheckpointSaver, count: int) -> None:
    """Once the task beside this one has written, write in threads whose steps come to no end."""
    while not [name for _, name, _ in saver.get_tuple(THREAD).pending_writes if name == "messages"]:  # type: ignore[union-attr]
        time.sleep(0.001)
    for number in range(count):
        other: Any = {"configurable": {"thread_id": f"o{number % 4}", "checkpoint_id": f"c{number}"}}
        saver.put_writes(other, [("a", 1)], "task")


@needs_delta_channels
def test_a_delta_channel_in_the_past(service: SessionService) -> None:
    talk = Talk(service, frequency=6)
    for number in range(4):
        talk.ask(f"question {number}")
    for at in list(talk.graph.get_state_history(THREAD))[2:12:3]:
        talk.ask("instead", at.config)
        assert "instead" in [each.text for each in talk.messages()][-4:]
        talk.graph.update_state(at.config, None, as_node="__copy__")
        talk.messages()
    service.rewind("t", to_seq=6)
    assert len(talk.messages()) <= 6


@needs_delta_channels
def test_random_histories_of_a_delta_channel(service: SessionService, backend: str) -> None:
    for seed in range(12 if backend in {"memory", "sqlite"} else 2):
        service.delete("t")
        chance = random.Random(seed)
        talk = Talk(service, frequency=chance.choice([2, 7, 1000]))
        for number in range(12):
            _act(talk, chance, number)
            talk.messages()


def _act(talk: Talk, chance: random.Random, number: int) -> None:
    """Something that a graph may do."""
    talk.crashes, talk.says = chance.random() < 0.2, []
    past = list(talk.graph.get_state_history(THREAD)) if number and chance.random() < 0.2 else []
    state = chance.choice(past) if past else talk.graph.get_state(THREAD)
    config, known = state.config if past else THREAD, state.values.get("messages", [])
    if known and chance.random() < 0.5:
        some = chance.choice(known)
        talk.says = [chance.choice([RemoveMessage(id=some.id), HumanMessage(f"edit {number}", id=some.id)])]
    durability = chance.choice(["sync", "async", "exit"])
    try:
        if known and chance.random() < 0.2:
            talk.graph.update_state(config, {"messages": [HumanMessage(f"by hand {number}")]}, as_node="end")
        else:
            talk.ask(f"question {number}", config, durability=durability)
    except Crash:
        talk.crashes = False
        if chance.random() < 0.7:
            talk.renew()
        talk.graph.invoke(None, THREAD)
