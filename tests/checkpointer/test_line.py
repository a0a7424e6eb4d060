"""Calls that wait for one thread: what is committed together, and that nobody returns before its own commit."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.stores._threads import PutPlan
from tests.checkpointer.test_cost import TASKS, THREAD, put, staged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("sqlite", "postgres", "mariadb")


class Gate:
    """Holds the next commit of a store until it is opened; what was committed together afterwards."""

    def __init__(self, saver: SessionCheckpointSaver) -> None:
        """Stand in front of the store of a saver."""
        self.batches: list[list[tuple[str, str]]] = []
        self._queue: Any = getattr(saver, "_queue")  # noqa: B009 - a stand-in for its store is none to the type checker
        self._open, self._entered = threading.Event(), threading.Event()
        self._commit = self._queue._store.commit_threads
        self._store: Any = self._queue._store
        self._queue._store = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit_threads(self, plans: Sequence[Any]) -> Any:
        """Commit, once the gate is open."""
        self._entered.set()
        assert self._open.wait(30)
        self.batches.append([("put" if isinstance(plan, PutPlan) else "writes", plan.cid) for plan in plans])
        return self._commit(plans)

    def wait_for(self, count: int) -> None:
        """Until one call is at the gate, and so many stand behind it."""
        assert self._entered.wait(30)
        end = time.monotonic() + 30
        while sum(len(line.waiting) for line in [*self._queue._lines.values()]) < count:
            assert time.monotonic() < end
            time.sleep(0.001)

    def open(self) -> None:
        """Let all pass."""
        self._open.set()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for callers."""
    with ThreadPoolExecutor(32) as callers:
        yield callers


def test_what_tasks_of_a_step_wrote_is_one_row_and_one_statement(
    service: SessionService, table_prefix: str, pool: ThreadPoolExecutor
) -> None:
    saver = SessionCheckpointSaver(service)
    config = put(saver, THREAD, HumanMessage("hi", id="q"))
    gate = Gate(saver)
    wrote = [[("messages", [AIMessage(task, id=task)]), ("large", task * 400)] for task in TASKS[:25]]
    calls = [pool.submit(saver.put_writes, config, wrote[0], TASKS[0])]
    gate.wait_for(0)
    calls += [
        pool.submit(saver.put_writes, config, some, task) for task, some in zip(TASKS[1:25], wrote[1:], strict=True)
    ]
    gate.wait_for(24)
    gate.open()
    for call in calls:
        call.result()
    assert [len(batch) for batch in gate.batches] == [1, 24]
    assert staged(service, table_prefix) == (2, 2)
    seen = SessionCheckpointSaver(service).get_tuple(config)
    assert seen is not None
    found = sorted((task, channel, value) for task, channel, value in seen.pending_writes or [] if channel == "large")
    assert found == [(task, *some[1]) for task, some in zip(TASKS[:25], wrote, strict=True)]
    assert len(seen.pending_writes or []) == 50


def test_writes_wait_for_the_checkpoint_that_takes_them_over(
    service: SessionService, table_prefix: str, pool: ThreadPoolExecutor
) -> None:
    saver = SessionCheckpointSaver(service)
    asked, said = HumanMessage("hi", id="q"), AIMessage("hello", id="a")
    config = put(saver, THREAD, asked)
    gate = Gate(saver)
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"], checkpoint["channel_versions"] = {"messages": [asked]}, {"messages": 1, "turn": 2}
    own: Any = {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
    first = pool.submit(saver.put_writes, config, [("turn", 1)], TASKS[0])
    gate.wait_for(0)
    following = pool.submit(saver.put, config, checkpoint, {"source": "loop", "step": 2}, {"turn": 2})
    gate.wait_for(1)
    wrote = pool.submit(saver.put_writes, own, [("messages", [said])], TASKS[1])
    gate.wait_for(2)
    gate.open()
    for call in (first, following, wrote):
        call.result()
    name = checkpoint["id"]
    assert not any({("put", name), ("writes", name)} <= {*batch} for batch in gate.batches)
    # It returned after its own commit, with the next checkpoint or without.
    assert staged(service, table_prefix)[1] == 1
    seen = SessionCheckpointSaver(service).get_tuple(own)
    assert seen is not None
    assert seen.pending_writes == [(TASKS[1], "messages", [said])]


def test_writes_that_are_ahead_of_their_checkpoint_go_with_the_one_that_takes_them_over(
    service: SessionService, table_prefix: str, pool: ThreadPoolExecutor
) -> None:
    saver = SessionCheckpointSaver(service)
    begun = put(saver, THREAD, HumanMessage("hi", id="q"))

    def follow(config: Any, name: str) -> Any:
        checkpoint: Any = empty_checkpoint() | {
            "id": name,
            "channel_values": {"turn": 1},
            "channel_versions": {"turn": 1},
        }
        return pool.submit(saver.put, config, checkpoint, {"source": "loop", "step": 2}, {"turn": 1})

    def at(name: str) -> Any:
        return {"configurable": {**begun["configurable"], "checkpoint_id": name}}

    gate = Gate(saver)
    held = pool.submit(saver.put_writes, begun, [("turn", 0)], TASKS[0])
    gate.wait_for(0)
    names = [str(uuid6()) for _ in range(3)]
    calls = [held, follow(begun, names[0])]
    gate.wait_for(1)
    calls.append(pool.submit(saver.put_writes, at(names[0]), [("turn", 1)], TASKS[1]))
    gate.wait_for(2)
    # A step comes as late as the one before: its writes stand in the line with the checkpoint that they were made on.
    calls.append(follow(at(names[0]), names[1]))
    gate.wait_for(3)
    gate.open()
    for call in calls:
        call.result()
    together = [batch for batch in gate.batches if ("writes", names[0]) in batch]
    assert together[0][-1] == ("put", names[1])
    seen = SessionCheckpointSaver(service).get_tuple(at(names[0]))
    assert seen is not None
    assert seen.pending_writes == [(TASKS[1], "turn", 1)]


def test_writes_whose_checkpoint_does_not_come_are_stored_all_the_same(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    config = put(saver, THREAD, HumanMessage("hi", id="q"))
    saver.put_writes(config, [("turn", 1)], TASKS[0])
    seen = SessionCheckpointSaver(service).get_tuple(config)
    assert seen is not None
    assert seen.pending_writes == [(TASKS[0], "turn", 1)]
