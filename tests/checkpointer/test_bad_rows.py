"""Rows that cannot be read, and ids that nobody expects: a clear error names the thread, the rest stays readable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import update

from langchain_sessions._core.checkpoints import ROOT, CheckpointRow
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._threads.rebuild import decode_record
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import CorruptRowError, InvalidInputError

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t"}}
ODD = ("ünï'\"%_\\ \t", "'; DROP TABLE sessions; --", "x" * 255, "A", "a", "a ", "🦜", "../../etc/passwd", "{}", "null")


def graph_over(service: SessionService) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("re")]})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=SessionCheckpointSaver(service))


def say(graph: Any, text: str, config: Any = CONFIG) -> None:
    graph.invoke({"messages": [HumanMessage(text)]}, config)


def spoil(service: SessionService, name: str, **values: Any) -> None:
    """Overwrite a column of all rows of a table of threads."""
    store: Any = log_of(service).store
    table = getattr(store.tables.threads, name)
    store.run(TransactionKind.WRITE, lambda tx: tx.change(update(table).values(**values)))


@pytest.mark.parametrize(("table", "column"), [("shapes", "body"), ("checkpoints", "writes"), ("checkpoints", "runs")])
def test_whatever_is_corrupt_the_thread_is_named(service: SessionService, table: str, column: str) -> None:
    graph = graph_over(service)
    for text in ("one", "two", "three"):  # names are stored beside the checkpoints when they come again
        say(graph, text)
    spoil(service, table, **{column: b"\xff\xfe garbage"})
    fresh = SessionCheckpointSaver(service)
    with pytest.raises(CorruptRowError, match="'t'"):
        list(fresh.list(CONFIG))
    # The conversation itself is not in these rows.
    assert len(service.events("t").items) == 6


def test_what_is_corrupt_is_told_while_others_write(service: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list over all threads is another one each time: it is not read for as long as somebody writes."""
    graph, good = graph_over(service), {"configurable": {"thread_id": "good"}}
    say(graph, "one")
    spoil(service, "checkpoints", body=b"\xff\xfe garbage")
    reader, came = SessionCheckpointSaver(service), 0
    store = type(log_of(service).store)
    find: Any = store.find_checkpoints

    def writing(*given: Any) -> Any:
        nonlocal came
        came += 1
        with monkeypatch.context() as others:
            others.setattr(store, "find_checkpoints", find)
            for _ in range(came < 50):
                say(graph, "more", good)
        return find(*given)

    monkeypatch.setattr(store, "find_checkpoints", writing)
    with pytest.raises(CorruptRowError, match="'t'"):
        list(reader.list(None))
    assert came < 20


def test_upkeep_names_the_thread(service: SessionService) -> None:
    graph = graph_over(service)
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, {**CONFIG, "metadata": {"run_id": text}})
    spoil(service, "checkpoints", body=b"\x98\x07")
    saver = SessionCheckpointSaver(service)
    for act in (
        lambda: saver.prune(["t"]),
        lambda: saver.trim(["t"], keep=1),
        lambda: saver.delete_for_runs(["one"]),
        lambda: saver.get_delta_channel_history(config=CONFIG, channels=["messages"]),
        lambda: list(saver.list(CONFIG, filter={"step": 1})),
    ):
        with pytest.raises(CorruptRowError, match="'t'"):
            act()
    # A thread that cannot be read can be removed and begun anew.
    saver.prune(["t"], strategy="delete")
    assert len(service.messages("t")) == 4
    say(graph, "three")
    assert [message.content for message in graph.get_state(CONFIG).values["messages"]] == ["three", "re"]
    assert service.verify("t") == []


def test_other_threads_are_readable_beside_a_corrupt_one(service: SessionService) -> None:
    graph = graph_over(service)
    say(graph, "one")
    spoil(service, "checkpoints", body=b"")
    other: Any = {"configurable": {"thread_id": "u"}}
    say(graph, "two", other)
    assert len(list(SessionCheckpointSaver(service).list(other))) == 3
    with pytest.raises(CorruptRowError, match="'t'"):
        SessionCheckpointSaver(service).get_tuple(CONFIG)


@pytest.mark.parametrize("time", [1 << 62, -(1 << 62), 1.5, None, True, [2026]])
def test_a_time_that_is_none_is_corruption(time: object) -> None:
    def row(time: object) -> CheckpointRow:
        body = ormsgpack.packb([2, 1, time, [], [], [], b"\x80", None])
        return CheckpointRow(ROOT, "c", None, None, 7, None, None, None, body)

    shape = ormsgpack.packb([[], [], None])
    assert decode_record("t", row(1_000_000), shape).ts == "1970-01-01T00:00:01+00:00"
    with pytest.raises(CorruptRowError, match="'t'"):
        decode_record("t", row(time), shape)


def test_ids_of_any_characters_are_told_apart(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    for at, name in enumerate(ODD):
        place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "" if at % 2 else name}}
        checkpoint: Any = {
            **empty_checkpoint(),
            "id": name,
            "channel_values": {name: at, "messages": [HumanMessage(name, id=name)]},
            "channel_versions": {name: 1, "messages": 1},
        }
        metadata: Any = {"source": "loop", name: at}
        stored = saver.put(place, checkpoint, metadata, {name: 1, "messages": 1})
        saver.put_writes(stored, [(name, at)], name, name)
    fresh = SessionCheckpointSaver(service)
    for at, name in enumerate(ODD):
        place = {"configurable": {"thread_id": "t", "checkpoint_ns": "" if at % 2 else name, "checkpoint_id": name}}
        found = fresh.get_tuple(place)
        assert found is not None
        assert found.checkpoint["channel_values"] == {name: at, "messages": [HumanMessage(name, id=name)]}
        assert found.pending_writes == [(name, name, at)]
        hits = list(fresh.list({"configurable": {"thread_id": "t"}}, filter={name: at}))
        assert [hit.checkpoint["id"] for hit in hits] == [name]
    assert len(list(fresh.list(None))) == len(ODD)
    assert service.verify("t") == []


@pytest.mark.parametrize("bad", ["x" * 256, "nul\0"])
def test_ids_that_cannot_be_kept_are_refused_by_name(service: SessionService, bad: str) -> None:
    saver = SessionCheckpointSaver(service)
    checkpoint: Any = {**empty_checkpoint(), "id": bad}
    with pytest.raises(InvalidInputError, match="checkpoint_id"):
        saver.put(CONFIG, checkpoint, {}, {})
    with pytest.raises(InvalidInputError, match="task_id"):
        saver.put_writes({"configurable": {"thread_id": "t", "checkpoint_id": "c"}}, [("x", 1)], bad)
    with pytest.raises(InvalidInputError):
        saver.get_tuple({"configurable": {"thread_id": bad}})
    assert list(saver.list(None)) == []
