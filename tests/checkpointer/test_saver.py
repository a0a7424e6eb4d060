"""What the published suite lacks: sealing, filters, bad rows, races, delta channels, pruning, retention."""

from __future__ import annotations

import asyncio
import copy
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from sqlalchemy import delete, update
from typing_extensions import TypedDict

from langchain_sessions._chat.address import branch_of, next_version
from langchain_sessions._core.edge import packed_id
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions.checkpointer import SessionCheckpointSaver, checkpointer_factory
from langchain_sessions.errors import (
    CorruptRowError,
    HeadConflictError,
    InvalidInputError,
    SealedEventError,
    SessionExistsError,
)
from langchain_sessions.events import Standing
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb", "cassandra")
CONFIG: Any = {"configurable": {"thread_id": "t"}}
only_sqlite = pytest.mark.backends("sqlite")


@dataclass
class Own:
    """A class of the application's own."""

    number: int


def echo(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"re: {state['messages'][-1].content}")]}


def graph_over(saver: SessionCheckpointSaver, node: Any = echo) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("model", node)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def talk(graph: Any, *words: str, config: Any = CONFIG) -> None:
    for word in words:
        graph.invoke({"messages": [HumanMessage(word)]}, config)


def contents(graph: Any, config: Any = CONFIG) -> list[Any]:
    return [message.content for message in graph.get_state(config).values.get("messages", [])]


@only_sqlite
def test_an_encrypting_serializer_leaves_no_plaintext(tmp_path: Path) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen byte key")
    url = f"sqlite:///{tmp_path / 'sealed.db'}"
    with SessionService(url, codec=serde) as service:
        graph = graph_over(SessionCheckpointSaver(service))
        talk(graph, "the secret word is xylophone", "again xylophone")
        graph.invoke({"messages": [{"role": "user", "content": "xylophone " * 20}]}, CONFIG)
        assert len(contents(graph)) == 6
        assert [m.content for m in service.messages("t")] == contents(graph)
    with SessionService(url) as keyless:
        with pytest.raises(SealedEventError):
            keyless.messages("t")
        with pytest.raises((SealedEventError, CorruptRowError)):
            SessionCheckpointSaver(keyless).get_tuple(CONFIG)
    for file in tmp_path.iterdir():
        assert b"xylophone" not in file.read_bytes().lower()


def test_a_serializer_may_be_set_later(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    saver.serde = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen byte key")
    graph = graph_over(saver)
    talk(graph, "the secret word is xylophone")
    assert contents(graph) == ["the secret word is xylophone", "re: the secret word is xylophone"]
    with pytest.raises(SealedEventError):
        service.messages("t")


def test_objects_of_unknown_classes_are_not_built(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver, lambda state: {"messages": [AIMessage("x", additional_kwargs={"deep": Own(1)})]})
    talk(graph, "one")
    fresh = graph_over(SessionCheckpointSaver(service))
    assert fresh.get_state(CONFIG).values["messages"][-1].additional_kwargs == {"deep": {"number": 1}}
    allowed = saver.with_allowlist([(Own.__module__, Own.__qualname__)])
    assert graph_over(allowed).get_state(CONFIG).values["messages"][-1].additional_kwargs == {"deep": Own(1)}


def test_filters_compare_as_the_in_memory_saver_does(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    odd = "x'); DROP TABLE checkpoints; --"
    graph.invoke({"messages": [HumanMessage("q")]}, {**CONFIG, "metadata": {odd: 1, "a.b": "dot", "n": True}})
    for wanted, hits in (
        ({odd: 1}, 3),
        ({odd: 2}, 0),
        ({"a.b": "dot", "source": "input"}, 1),
        ({"missing": None}, 3),
        ({"$.step": 0}, 0),
        ({"step": 0, "source": "loop"}, 1),
        ({"parents": {}}, 3),
    ):
        assert len(list(saver.list(CONFIG, filter=wanted))) == hits


def test_ids_of_any_characters(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    for thread in ("ünï'\"%_\\", "T", "t ", "x" * 255):
        config = {"configurable": {"thread_id": thread}}
        talk(graph, thread, config=config)
        assert contents(graph, config)[0] == thread
    assert contents(graph) == []
    with pytest.raises(InvalidInputError):
        talk(graph, "q", config={"configurable": {"thread_id": "x" * 256}})


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_a_row_that_cannot_be_read_leaves_the_others(service: SessionService) -> None:
    graph = graph_over(SessionCheckpointSaver(service))
    talk(graph, "one")
    last = graph.get_state(CONFIG).config
    previous = list(graph.get_state_history(CONFIG))[1].config
    store: Any = log_of(service).store
    table = store.tables.threads.checkpoints
    bad = update(table).where(table.c.cid == packed_id(last["configurable"]["checkpoint_id"]))
    for body in (b"\x98\x07", b"\xff\x00garbage"):
        store.run(TransactionKind.WRITE, lambda tx, body=body: tx.change(bad.values(body=body)))
        for saver in (graph.checkpointer, SessionCheckpointSaver(service)):
            with pytest.raises(CorruptRowError, match="'t'"):
                saver.get_tuple(CONFIG)
            assert saver.get_tuple(previous) is not None


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_a_missing_event_is_named(service: SessionService) -> None:
    talk(graph_over(SessionCheckpointSaver(service)), "one")
    store: Any = log_of(service).store
    store.run(
        TransactionKind.WRITE, lambda tx: tx.change(delete(store.tables.events).where(store.tables.events.c.seq == 1))
    )
    with pytest.raises(CorruptRowError, match="'t'"):
        SessionCheckpointSaver(service).get_tuple(CONFIG)


def test_concurrent_updates_lose_nothing(open_service: Callable[..., SessionService]) -> None:
    services = [open_service() for _ in range(3)]
    talk(graph_over(SessionCheckpointSaver(services[0])), "start")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        graph = graph_over(SessionCheckpointSaver(services[number % 3]))
        try:
            for at in range(4):
                graph.update_state(CONFIG, {"messages": [HumanMessage(f"{number}-{at}")]}, as_node="model")
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    service = services[0]
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    said = {str(event.message.content) for event in service.events("t") if event.message}
    assert said >= {f"{number}-{at}" for number in range(6) for at in range(4)}
    assert service.verify("t") == []
    reachable = set(contents(graph))
    for conflict in saver.head_conflicts("t"):
        config = {"configurable": {"thread_id": "t", "checkpoint_id": conflict.checkpoint_id}}
        reachable |= set(contents(graph, config))
    assert reachable == said


def test_a_lost_sibling_is_named_and_strict_refuses(open_service: Callable[..., SessionService]) -> None:
    service = open_service()
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    talk(graph, "one")
    head = graph.get_state(CONFIG).config
    first = graph.update_state(head, {"messages": [HumanMessage("a")]}, as_node="model")
    assert saver.head_conflicts("t") == []
    graph.update_state(head, {"messages": [HumanMessage("b")]}, as_node="model")
    conflict = saver.head_conflicts("t")
    assert [c.checkpoint_id for c in conflict] == [first["configurable"]["checkpoint_id"]]
    assert contents(graph, first)[-1] == "a"
    strict = graph_over(SessionCheckpointSaver(service, strict_head=True))
    with pytest.raises(HeadConflictError, match="'t'"):
        strict.update_state(head, {"messages": [HumanMessage("c")]}, as_node="model")
    talk(strict, "two")
    assert contents(strict)[-2:] == ["two", "re: two"]


def delta_graph(saver: SessionCheckpointSaver, frequency: int = 1000) -> Any:
    reducer = lambda state, writes: [*state, *(m for w in writes for m in w)]  # noqa: E731

    class State(TypedDict):
        messages: Any
        n: int

    State.__annotations__["messages"] = Annotated[list, DeltaChannel(reducer, snapshot_frequency=frequency)]
    builder: Any = StateGraph(State)
    builder.add_node("model", lambda state: {"messages": [AIMessage(f"re {len(state['messages'])}")], "n": 1})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("frequency", [3, 1000])
def test_delta_channels_survive_pruning_copying_and_runs(service: SessionService, frequency: int) -> None:
    saver = SessionCheckpointSaver(service)
    graph = delta_graph(saver, frequency)
    for turn in range(5):
        config = {"configurable": {"thread_id": "t"}, "metadata": {"run_id": f"r{turn}"}}
        graph.invoke({"messages": [HumanMessage(f"q{turn}", id=f"q{turn}")]}, config)
    whole = contents(graph)
    assert len(whole) == 10
    saver.copy_thread("t", "copy")
    saver.delete_for_runs(["r1"])
    assert contents(graph) == whole
    saver.prune(["t"])
    assert contents(graph) == whole
    assert contents(delta_graph(SessionCheckpointSaver(service), frequency)) == whole
    copied: Any = {"configurable": {"thread_id": "copy"}}
    assert contents(graph, copied) == whole
    fast = saver.get_delta_channel_history(config=copied, channels=["messages", "nothing"])
    slow = _walk(saver, copied, ["messages", "nothing"])
    assert fast == slow


def _walk(saver: SessionCheckpointSaver, config: Any, channels: list[str]) -> Any:
    """LangGraph's own way, one tuple after the other."""
    return BaseCheckpointSaver.get_delta_channel_history(saver, config=config, channels=channels)


def test_keep_latest_keeps_events_and_pending_writes(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver, lambda state: {"messages": [AIMessage(str(interrupt("?")))]})
    talk(graph, "one")
    assert graph.get_state(CONFIG).interrupts
    saver.prune(["t", "missing"])
    assert len(list(saver.list(CONFIG))) == 1
    assert graph.get_state(CONFIG).interrupts
    assert len(service.events("t")) == 1
    with pytest.raises(InvalidInputError):
        saver.prune(["t"], strategy="some")


def test_prune_delete_keeps_the_conversation(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    talk(graph, "one")
    saver.prune(["t"], strategy="delete")
    assert saver.get_tuple(CONFIG) is None
    assert len(service.messages("t")) == 2
    talk(graph, "two")
    assert contents(graph) == ["two", "re: two"]
    assert service.verify("t") == []


def test_delete_for_runs_moves_the_head_back(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    for run in ("r1", "r2"):
        graph.invoke({"messages": [HumanMessage(run)]}, {**CONFIG, "metadata": {"run_id": run}})
    saver.delete_for_runs(["r2", "unknown"])
    assert contents(graph) == ["r1", "re: r1"]
    assert [event.standing for event in service.events("t")] == [Standing.LIVE] * 2 + [Standing.DETACHED] * 2
    assert service.verify("t") == []


def test_trim_by_count_and_age(open_service: Callable[..., SessionService]) -> None:
    service = open_service()
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    talk(graph, "one", "two", "three")
    assert saver.trim(["t"], older_than=timedelta(hours=1)) == 0
    assert saver.trim(["t"], keep=4) == 5
    assert len(list(saver.list(CONFIG))) == 4
    later = open_service(clock=lambda: datetime.now(timezone.utc) + timedelta(days=1))
    assert SessionCheckpointSaver(later).trim(["t"], older_than=timedelta(hours=1)) == 3
    talk(graph, "four")
    assert len(contents(graph)) == 8
    with pytest.raises(InvalidInputError):
        saver.trim(["t"])


def test_copying_onto_a_thread_is_refused(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    talk(graph_over(saver), "one")
    talk(graph_over(saver), "two", config={"configurable": {"thread_id": "u"}})
    with pytest.raises(SessionExistsError):
        saver.copy_thread("t", "u")


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_large_values_are_stored_once(service: SessionService) -> None:
    class State(MessagesState):
        blob: str

    builder: Any = StateGraph(State)
    builder.add_node("model", echo)
    builder.add_edge(START, "model")
    saver = SessionCheckpointSaver(service)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("q")], "blob": "b" * 5000}, CONFIG)
    talk(graph, "two", "three")
    store: Any = log_of(service).store
    values = store.tables.threads.stored_values
    assert store.run(TransactionKind.READ, lambda tx: len(tx.once(values.select()))) == 1
    fresh = builder.compile(checkpointer=SessionCheckpointSaver(service))
    assert fresh.get_state(CONFIG).values["blob"] == "b" * 5000


def test_a_copy_of_the_saver_shares_the_store(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    talk(graph_over(saver), "one")
    clones = (copy.copy(saver), saver.with_allowlist([("somewhere", "Thing")]))
    for clone in clones:
        talk(graph_over(clone), "more")
    assert len(contents(graph_over(saver))) == 6
    assert clones[1].serde is not saver.serde


async def test_many_threads_and_writers_at_once(service: SessionService) -> None:
    graph = graph_over(SessionCheckpointSaver(service))

    async def run(number: int) -> None:
        config: Any = {"configurable": {"thread_id": f"t{number % 4}"}}
        await graph.ainvoke({"messages": [HumanMessage(str(number))]}, config)

    await asyncio.gather(*(run(number) for number in range(16)))
    for number in range(4):
        assert await service.averify(f"t{number}") == []
        assert len(await service.aevents(f"t{number}")) == 8
    await service.aclose()


@pytest.mark.backends("sqlite", "postgres", "mariadb")
async def test_the_factory_for_a_server(database_url: str, table_prefix: str) -> None:
    make = checkpointer_factory(database_url, table_prefix=table_prefix, create_schema=True)
    async with make() as saver:
        await graph_over(saver).ainvoke({"messages": [HumanMessage("q")]}, CONFIG)
    async with make() as saver:
        assert len((await graph_over(saver).aget_state(CONFIG)).values["messages"]) == 2


def test_writes_come_back_in_the_order_of_their_paths(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    graph = graph_over(saver)
    talk(graph, "one")
    config = graph.get_state(CONFIG).config
    for task, path in (("a", "~2"), ("b", "~1"), ("c", "")):
        saver.put_writes(config, [("x", task), ("y", task)], task, path)
    saver.put_writes(config, [("x", "again")], "a", "~2")
    found = saver.get_tuple(config)
    assert found is not None
    assert found.pending_writes == [(t, c, t) for t in ("c", "b", "a") for c in ("x", "y")]


def test_versions_go_on_in_their_kind() -> None:
    first = next_version(None)
    assert first >> 32 == 1
    assert next_version(first) >> 32 == 2
    assert next_version(7) == 8
    assert next_version("00000000000000000000000000000003.0.5").startswith("00000000000000000000000000000004.")
    assert branch_of("a.b:1|c:2") == "a%2Eb.c"
