"""Delta channels: the writes since the nearest stored value, in the order in which a run applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langchain_sessions.checkpointer import SessionCheckpointSaver

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
