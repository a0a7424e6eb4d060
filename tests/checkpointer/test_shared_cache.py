"""What threads know of a conversation they share: one may look while another takes messages in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions._log.log import log_of
from langchain_sessions._threads import cache as module
from langchain_sessions._threads import pending
from langchain_sessions._threads.cache import ThreadCache
from langchain_sessions.checkpointer import SessionCheckpointSaver

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from langchain_sessions.service import SessionService


def between_all_lines(look: Callable[[], object], act: Callable[[], object]) -> int:
    """Do something, and look before each line of the module; how often that was."""
    looked = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal looked
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            looked += 1
            look()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return looked


@pytest.mark.backends("memory")
def test_another_thread_finds_a_message_whole_or_not_at_all(service: SessionService) -> None:
    said: list[BaseMessage] = [HumanMessage("hello", id="a"), AIMessage("hello yourself", id="b")]
    said += [HumanMessage("hello again", id="a2"), AIMessage("and again", id="b2", response_metadata={"n": 1})]
    service.create("s")
    service.append("s", said)
    log = log_of(service)
    rows = list(log.store.load_context(log.key("s"), None, None, None, log.now(), 0).rows)
    thread = ThreadCache(1, "s", log.codec, 0, {})
    ours = [message.model_copy() for message in said]

    def look() -> None:
        for message in ours:
            thread.position(message)
            if message.id is not None:
                thread.known_since(message.id)
        thread.recognise(list(ours), [])
        known = [(low, min(high, len(rows))) for low, high in thread._known.ranges]
        assert len(thread.serve(known)) == sum(high - low + 1 for low, high in known)

    def take_in() -> None:
        thread.add(rows[:2])
        thread.add(rows[2:], ["a"])

    assert between_all_lines(look, take_in) > 20
    assert [thread.position(message) for message in ours] == [1, 2, 3, 4]


@pytest.mark.parametrize("event", ["pruned", "crowded out"])
@pytest.mark.backends("memory", "sqlite")
def test_a_graph_goes_on_where_its_thread_is_forgotten_as_a_checkpoint_is_stored(
    service: SessionService, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    saver = SessionCheckpointSaver(service, cache_bytes=1)
    builder: Any = StateGraph(MessagesState)
    for name in "ab":
        builder.add_node(name, lambda _: {"messages": [AIMessage("hello yourself")]})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)
    other: Any = {"configurable": {"thread_id": "other"}}
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [HumanMessage("hello")]}, other)
    store = log_of(service).store
    commit = store.commit_threads

    def commit_while_others_act(plans: Any) -> Any:
        done = commit(plans)
        saver.prune(["t"]) if event == "pruned" else saver.get_tuple(other)
        return done

    monkeypatch.setattr(store, "commit_threads", commit_while_others_act)
    said: list[BaseMessage] = []
    for count in (3, 6):
        said = graph.invoke({"messages": [HumanMessage("hello")]}, config, durability="sync")["messages"]
        assert len(said) == count
    assert graph.get_state(config).values["messages"] == said
    assert len(service.events("t")) == 6
    assert service.verify("t") == []


@pytest.mark.backends("memory", "sqlite")
def test_writes_that_no_checkpoint_follows_take_no_memory_without_end(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "_MOST_BYTES", 1_000_000)
    saver = SessionCheckpointSaver(service)
    told = [bytes([at]) * 300_000 for at in range(12)]
    cut_off: list[Any] = []
    for at, value in enumerate(told):
        config: Any = {"configurable": {"thread_id": f"t{at}", "checkpoint_ns": ""}}
        cut_off.append(saver.put(config, empty_checkpoint(), {"source": "loop", "step": 0, "parents": {}}, {}))
        saver.put_writes(cut_off[-1], [("value", value)], "task")
        saver.put_writes(cut_off[-1], [("value", value)], "other task")
    held = [weight for _, _, weight in saver._writer._steps.values()]
    assert 0 < sum(held) <= 1_000_000
    # One that was left out goes on all the same.
    for at in (0, 11):
        done = {**empty_checkpoint(), "channel_values": {"value": told[at]}, "channel_versions": {"value": 1}}
        config = saver.put(cut_off[at], done, {"source": "loop", "step": 1, "parents": {}}, {"value": 1})  # type: ignore[arg-type]
        found = saver.get_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"value": told[at]}
        before = saver.get_tuple(cut_off[at])
        assert before is not None
        assert [value for *_, value in before.pending_writes or ()] == [told[at], told[at]]
        assert service.verify(f"t{at}") == []
