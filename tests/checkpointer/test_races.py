"""Many writers on one thread: nothing that was acknowledged is lost, and a strict saver refuses what came late."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import interrupt

from langchain_sessions._sql.driver.transaction import Transaction
from langchain_sessions._sql.index import reading as sql_index
from langchain_sessions._sql.index import scanning
from langchain_sessions._sql.log import contexts
from langchain_sessions._sql.log import reading as sql
from langchain_sessions._sql.threads import reading as thread_reading
from langchain_sessions._sql.threads.values import read_values
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import HeadConflictError
from langchain_sessions.events import Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.stores._partitioned import log as partitioned
from langchain_sessions.stores._partitioned import thread_reads
from langchain_sessions.stores._partitioned.access import Partitions
from tests.checkpointer.talking import CONFIG, ask, talking, update_some
from tests.faults.drills import in_threads
from tests.faults.processes import run_at_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.search import SearchPage
    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")


def update(name: str) -> dict[str, Any]:
    return {"messages": [HumanMessage("x", id=name)]}


def assert_reachable(service: SessionService, names: set[str]) -> None:
    """The head and the siblings that are named hold all of them, and the log each once."""
    saver = SessionCheckpointSaver(service)
    graph = talking(saver)
    ids = [None, *(conflict.checkpoint_id for conflict in saver.head_conflicts("t"))]
    heads: list[Any] = [{"configurable": {**CONFIG["configurable"], "checkpoint_id": cid}} for cid in ids]
    held = {message.id for head in heads for message in graph.get_state(head).values["messages"]}
    assert names <= held
    stored = [event.message.id for event in service.events("t").items if event.message]
    assert sorted(map(str, stored)) == sorted(map(str, held))
    assert service.verify("t") == []
    ask(graph, "next")
    assert [message.id for message in service.messages("t")][-3:] == ["next", "next-think", "next-say"]


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_processes_update_one_thread(service: SessionService, database_url: str, table_prefix: str) -> None:
    ask(talking(SessionCheckpointSaver(service)), "first")
    run_at_once(update_some, *((database_url, table_prefix, f"p{number}", 5) for number in range(4)))
    assert_reachable(service, {f"p{number}-{at}" for number in range(4) for at in range(5)})


async def test_coroutines_update_one_thread(service: SessionService) -> None:
    graph = talking(SessionCheckpointSaver(service))
    ask(graph, "first")

    async def some(number: int) -> None:
        for at in range(4):
            await graph.aupdate_state(CONFIG, update(f"c{number}-{at}"), as_node="say")

    await asyncio.gather(*(some(number) for number in range(5)))
    assert_reachable(service, {f"c{number}-{at}" for number in range(5) for at in range(4)})
    await service.aclose()


def test_strict_writers_that_try_again_share_one_line(open_service: Callable[..., SessionService]) -> None:
    services = [open_service() for _ in range(2)]
    ask(talking(SessionCheckpointSaver(services[0])), "first")
    refused: list[str] = []

    def some(number: int) -> None:
        graph = talking(SessionCheckpointSaver(services[number % 2], strict_head=True))
        for at in range(3):
            while True:
                try:
                    graph.update_state(CONFIG, update(f"s{number}-{at}"), as_node="say")
                except HeadConflictError as error:
                    refused.append(str(error))
                else:
                    break

    in_threads([partial(some, number) for number in range(4)])
    saver = SessionCheckpointSaver(services[0])
    assert saver.head_conflicts("t") == []
    assert all("'t'" in text for text in refused)
    held = [message.id for message in talking(saver).get_state(CONFIG).values["messages"]]
    assert sorted(held[3:]) == sorted(f"s{number}-{at}" for number in range(4) for at in range(3))
    assert_reachable(services[0], set())


async def test_a_strict_saver_refuses_a_late_write_async(service: SessionService) -> None:
    graph = talking(SessionCheckpointSaver(service, strict_head=True))
    await graph.ainvoke({"messages": [HumanMessage("q", id="q")]}, CONFIG)
    old = (await graph.aget_state(CONFIG)).config
    await graph.aupdate_state(CONFIG, update("one"), as_node="say")
    with pytest.raises(HeadConflictError, match="'t'"):
        await graph.aupdate_state(old, update("two"), as_node="say")
    assert [message.id for message in await service.amessages("t")] == ["q", "q-think", "q-say", "one"]
    await service.aclose()


def test_two_writers_take_one_message_over(service: SessionService) -> None:
    """Neither knows what the other did; it was on a branch of its own, and is counted in the root once."""

    class State(MessagesState):
        draft: Annotated[list[AnyMessage], add_messages]

    builder: Any = StateGraph(State)
    builder.add_node("write", lambda _: {"draft": [AIMessage("hello", id="mine")]})
    builder.add_edge(START, "write")
    graphs: list[Any] = [builder.compile(checkpointer=SessionCheckpointSaver(service)) for _ in range(3)]
    graphs[0].invoke({"messages": [HumanMessage("hi", id="q")]}, CONFIG)
    states = [graph.get_state(CONFIG) for graph in graphs]
    for graph, state in zip(graphs, states, strict=True):
        graph.update_state(state.config, {"messages": state.values["draft"]}, as_node="write")
        assert service.verify("t") == []
    assert [message.id for message in service.messages("t")] == ["q", "mine"]
    assert service.get("t").message_count == 2


@pytest.mark.parametrize("last_n", [None, 2])
def test_a_message_is_not_missed_while_a_checkpoint_takes_it_in(
    service: SessionService, monkeypatch: pytest.MonkeyPatch, last_n: int | None
) -> None:
    """It was logged before the thread had it, by a middleware or an advisor, and is the thread's from then on."""
    graph = talking(SessionCheckpointSaver(service))
    ask(graph, "first")
    service.append("t", HumanMessage("x", id="mine"))
    before = [message.id for message in service.messages("t", last_n=last_n)]
    assert before[-1] == "mine"

    came = 0

    def reading(read: Any, *given: Any) -> Any:
        nonlocal came
        came += 1
        if came == 1:  # the session was read, its events are about to be
            graph.update_state(CONFIG, update("mine"), as_node="say")
        return read(*given)

    for module in (partitioned, contexts):
        monkeypatch.setattr(module, "_standing", partial(reading, module._standing))
    assert [message.id for message in service.messages("t", last_n=last_n)] == before
    assert came == 2
    assert [message.id for message in service.messages("t", last_n=last_n)] == before
    assert came == 3


READS: Any = {
    "events": lambda ada, where: ada.events("t", where).items,
    "the newest events": lambda ada, where: ada.events("t", replace(where, last_n=2)).items,
    "a search": lambda ada, where: events_in(ada.search("harbour", session_id="t", where=where)),
    "a search of all": lambda ada, where: events_in(ada.search("harbour", where=where)),
    "a literal search": lambda ada, where: events_in(ada.search("the harbour", mode="literal", where=where)),
}


def events_in(page: SearchPage) -> list[SessionEvent]:
    return [hit.event for hit in page]


@pytest.mark.parametrize("asked", [None, Standing.LIVE])
@pytest.mark.parametrize("read", READS)
def test_a_message_is_not_called_detached_while_a_checkpoint_takes_it_in(
    service: SessionService, monkeypatch: pytest.MonkeyPatch, read: str, asked: Standing | None
) -> None:
    """Whatever lies between the read of a session and that of its events."""
    graph = talking(SessionCheckpointSaver(service))
    ask(graph, "first")
    service.append("t", HumanMessage("the harbour", id="mine"))
    where = EventFilter(standings=frozenset({asked} if asked else ()))
    came = 0

    def found() -> list[Standing]:
        return [event.standing for event in READS[read](service.as_user("ada"), where) if event.message.id == "mine"]

    def before_events(read: Any, *given: Any, **more: Any) -> Any:
        nonlocal came
        came += 1
        if came == 1:
            graph.update_state(CONFIG, {"messages": [HumanMessage("the harbour", id="mine")]}, as_node="say")
        return read(*given, **more)

    for owner, name in (
        (sql, "select_events"),
        (scanning, "_rows"),
        (scanning, "_asked"),
        (sql_index, "_tails"),
        (Partitions, "some_events"),
        (Partitions, "events"),
    ):
        was = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, was=was, **more: before_events(was, *given, **more))
    assert found() == [Standing.LIVE]
    assert came
    monkeypatch.undo()
    assert found() == [Standing.LIVE]
    graph.update_state(CONFIG, {"messages": [RemoveMessage(id="mine")]}, as_node="say")
    assert found() == ([Standing.DETACHED] if asked is None else [])


@pytest.mark.backends("sqlite", "postgres", "mariadb")
@pytest.mark.parametrize("then", ["is gone", "begins anew", "is pruned"])
def test_a_thread_is_read_whole_while_somebody_removes_it(
    open_service: Callable[..., SessionService], monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Or it is not there: that messages or values are missing for a moment is no corruption."""

    class State(MessagesState):
        words: list[str]

    def graph_over(service: SessionService) -> Any:
        builder: Any = StateGraph(State)
        builder.add_node(
            "say", lambda _: {"messages": [AIMessage("hello")], "words": [f"{n} words" for n in range(999)]}
        )
        builder.add_edge(START, "say")
        return builder.compile(checkpointer=SessionCheckpointSaver(service))

    one, other = (graph_over(open_service()) for _ in range(2))
    one.invoke({"messages": [HumanMessage("hi", id="q")]}, CONFIG)
    first = one.get_state(CONFIG)
    came = 0

    def removing(read: Any, *given: Any) -> Any:
        nonlocal came
        came += 1
        if came == 1:  # the checkpoint was read, what it names is about to be
            if then == "is pruned":
                one.update_state(CONFIG, {"words": ["few"]}, as_node="say")
                one.checkpointer.prune(["t"])
            else:
                one.checkpointer.delete_thread("t")
                if then == "begins anew":
                    one.invoke({"messages": [HumanMessage("hi", id="q2")]}, CONFIG)
        return read(*given)

    monkeypatch.setattr(thread_reading, "read_values", partial(removing, read_values))
    values = other.get_state(CONFIG).values
    assert came
    assert values in (first.values, one.get_state(CONFIG).values)


@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
def test_the_past_of_a_thread_is_read_while_somebody_deletes_it(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the row of a checkpoint was read, and before the names that it shares with others."""
    saver, names = SessionCheckpointSaver(service), ["a", *(f"a_channel_with_a_name_{n}" for n in range(40))]
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for step in range(4):
        versions: Any = dict.fromkeys(names, step + 1)
        made: Any = {**empty_checkpoint(), "id": f"c{step}", "channel_values": {}, "channel_versions": versions}
        at = saver.put(at, made, {"source": "loop", "step": step, "parents": {}}, versions)
        saver.put_writes(at, [("a", step)], "task")
    assert saver.get_delta_channel_history(config=at, channels=["a"])["a"]["writes"]
    came = 0

    def deleting(read: Any, *given: Any) -> Any:
        nonlocal came
        came += 1
        if came == 2:
            saver.delete_thread("t")
        return read(*given)

    for module, name in ((thread_reading, "_ask_shape"), (thread_reads, "read_checkpoint")):
        monkeypatch.setattr(module, name, partial(deleting, getattr(module, name)))
    found = SessionCheckpointSaver(service).get_delta_channel_history(config=at, channels=["a"])
    assert came > 1
    assert found["a"]["writes"] == []


@pytest.mark.backends("memory", "files")
def test_no_interrupt_is_missed_in_a_list_of_all_threads(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a list of all threads nobody asks again whether one of them went on meanwhile."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("ask", lambda _: {"messages": [AIMessage(interrupt("sure?"))]})
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
    acts, came = 0, 0

    def counting(partitions: Any, read: Any, *given: Any) -> Any:
        nonlocal came, acts
        came += 1
        if came == at:
            acts += 1
            graph.checkpointer.prune([thread])
        return read(partitions, *given)

    for at in range(1, 20):
        thread = f"t{at}"
        graph.invoke({"messages": [HumanMessage("hi")]}, {"configurable": {"thread_id": thread}})
        with monkeypatch.context() as patched:
            came = 0
            for name in ("rows", "all_rows"):
                patched.setattr(Partitions, name, partialmethod(counting, getattr(Partitions, name)))
            found = next(iter(SessionCheckpointSaver(service).list(None, limit=1)))
        assert [value[0].value for _, name, value in found.pending_writes or () if name == "__interrupt__"] == ["sure?"]
        graph.checkpointer.delete_thread(thread)
    assert acts > 2


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("read", ["a state", "a history"])
def test_no_interrupt_is_missed_while_it_is_stored_for_good(
    open_service: Callable[..., SessionService], monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """A pruning moves what waits for the next checkpoint; after any statement of who reads it meanwhile."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("ask", lambda _: {"messages": [AIMessage(interrupt("sure?"))]})
    builder.add_edge(START, "ask")
    graphs: list[Any] = [builder.compile(checkpointer=SessionCheckpointSaver(open_service())) for _ in range(2)]
    one, other = graphs
    later, acts, at, came = Transaction.later, 0, 0, 0

    def counting(*given: Any) -> Any:
        nonlocal came, acts
        answer = later(*given)
        came += 1
        if came == at:
            acts += 1
            one.checkpointer.prune([f"t{at}"])
        return answer

    while acts == at:
        at += 1
        config: Any = {"configurable": {"thread_id": f"t{at}"}}
        one.invoke({"messages": [HumanMessage("hi")]}, config)
        with monkeypatch.context() as patched:
            came = 0
            patched.setattr(Transaction, "later", counting)
            state = other.get_state(config) if read == "a state" else next(iter(other.get_state_history(config)))
        assert [each.value for each in state.interrupts] == ["sure?"], at
    assert acts > 2
