"""Writes that a value took in are told by it, and a value's beginning lies behind the rest: both are read as ever."""

from __future__ import annotations

import operator
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from langchain_sessions._core.checkpoints import CUT, SLICED, WriteRow, pack_writes, unpack_writes
from langchain_sessions._core.piece_rows import sliced
from langchain_sessions._core.pieces import cut
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.store import SqlStore
from langchain_sessions._sql.threads.staging import replace_writes, writes_stored
from langchain_sessions._threads.pending import PendingWrite
from langchain_sessions._threads.record import PLAIN, Slot
from langchain_sessions._threads.told import told_by_values
from langchain_sessions._threads.turned import turned, turned_back
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import CorruptRowError
from langchain_sessions.stores._threads import PutResult
from tests.checkpointer.test_pieces import CONFIG, noise, put, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.service import SessionService

everywhere = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
databases = pytest.mark.backends("sqlite", "postgres", "mariadb")


@pytest.mark.parametrize("count", [0, 1, 15, 16, 300, 70_000])
@pytest.mark.parametrize("tag", [b"", b"marked:msgpack\0"])
def test_the_beginning_of_what_holds_many_lies_behind_the_rest(count: int, tag: bytes) -> None:
    values: list[Any] = [["item"] * count, {str(number): number for number in range(count)}]
    for value in values:
        data = tag + ormsgpack.packb(value)
        around = turned(data, len(tag))
        assert around is not None
        assert turned_back(around) == data
        more = turned(tag + ormsgpack.packb([*value, "more"] if type(value) is list else value | {"more": 1}), len(tag))
        assert more is not None
        assert more.startswith(around[: max(0, len(ormsgpack.packb(value)) - 5)])


def test_what_says_not_how_much_it_holds_stays_and_what_was_altered_is_refused() -> None:
    for value in (b"bytes", "text", 7, None, 1.5):
        assert turned(ormsgpack.packb(value), 0) is None
    assert turned(b"", 0) is None
    assert turned(b"x" * 300 + b"\x91", 300) is None
    for bad in (b"", b"\x05ab\x04"):
        with pytest.raises(ValueError, match="altered"):
            turned_back(bad)
    with pytest.raises(ValueError, match="altered"):
        sliced(b"short", ormsgpack.packb([b"", 3, 9]))


def test_only_what_a_value_holds_is_told_by_it() -> None:
    said = [{"n": number, "answer": "word " * 20 + str(number)} for number in range(40)]
    data = turned(ormsgpack.packb(said), 0)
    assert data is not None
    tree = cut(data).tree
    writes = [
        WriteRow(f"t{at}", 0, "results", "", PLAIN, None, ormsgpack.packb([each])) for at, each in enumerate(said)
    ]
    slots = {"results": Slot(PLAIN | CUT, None, None, tree.root), "sealed": Slot(PLAIN | CUT, None, b"key", tree.root)}
    # Tasks end in any order.
    for some in (writes, writes[::-1]):
        told, unneeded = told_by_values(some, (), slots, [tree])
        assert unneeded == frozenset()
        for write, row in zip(some, told, strict=True):
            assert row.kind == PLAIN | CUT | SLICED
            assert row.data is not None
            assert row.data[:16] == tree.root
            assert sliced(tree.data, row.data[16:]) == write.data
    others = [
        writes[0]._replace(channel="sealed"),
        writes[0]._replace(channel="elsewhere"),
        writes[0]._replace(refs=b"1", kind=PLAIN | 8),
        writes[0]._replace(data=b"\x91\xa5short"),
        writes[0]._replace(data=ormsgpack.packb(["something else that is long enough to be looked for " * 3])),
    ]
    assert told_by_values(others, (), slots, [tree]) == (others, frozenset())


def test_pieces_of_writes_that_are_told_need_not_be_stored() -> None:
    draw = Random(1)
    lists = [[noise(3_000, draw) for _ in range(4)] for _ in range(3)]
    kept = cut(ormsgpack.packb(lists[2])).tree
    tree = cut(ormsgpack.packb([*lists[0], *lists[1]])).tree

    class Given:
        is_stored = False

    pending: list[Any] = []
    for each in lists:
        own = cut(ormsgpack.packb(each)).tree
        row = WriteRow(f"t{len(pending)}", 0, "results", "", PLAIN | CUT, None, own.root)
        pending.append(PendingWrite(row, each, own, Given()))  # type: ignore[arg-type]
    slots = {"results": Slot(PLAIN | CUT, None, None, tree.root)}
    told, unneeded = told_by_values([each.row for each in pending], pending, slots, [tree])
    assert [bool(row.kind & SLICED) for row in told] == [True, True, False]
    assert unneeded == pending[0].tree.names | pending[1].tree.names
    assert not unneeded & kept.names
    # Of one that another process wrote nobody knows what it needs.
    assert told_by_values([each.row for each in pending], pending[:2], slots, [tree])[1] == frozenset()
    # Those of one that is stored stay, and may be what the value itself is told by.
    pending[0].given.is_stored = True
    told, unneeded = told_by_values([each.row for each in pending], pending, slots, [tree])
    assert [bool(row.kind & SLICED) for row in told] == [False, True, False]
    assert unneeded == pending[1].tree.names


@everywhere
def test_a_list_that_grows_takes_a_piece_and_its_name(service: SessionService) -> None:
    draw, parent = Random(2), CONFIG
    saver, value = SessionCheckpointSaver(service), [noise(500, draw) for _ in range(60)]
    made: list[int] = []
    original = saver._queue._store.commit_threads

    def counted(plans: Any) -> Any:
        outcomes = original(plans)
        made.extend(len(outcome.decision.values) for outcome in outcomes if isinstance(outcome, PutResult))
        return outcomes

    saver._queue._store.commit_threads = counted  # type: ignore[method-assign]
    try:
        for number in range(30):
            value = [*value, noise(500, draw)]
            parent = put(saver, number, parent, large=value)
    finally:
        del saver._queue._store.commit_threads
    # Now and then a piece ends, or the names are told anew.
    assert sorted(made)[len(made) // 2] <= 2
    found = SessionCheckpointSaver(service).get_tuple(CONFIG)
    assert found is not None
    assert found.checkpoint["channel_values"]["large"] == value


class State(TypedDict):
    """What is given more, in each form in which a graph may give it."""

    turn: int
    history: Annotated[list[Any], operator.add]
    results: Annotated[list[Any], operator.add]
    files: Annotated[dict[str, str], operator.or_]
    draft: str


def graph_over(saver: Any) -> Any:
    def work(state: State) -> Any:
        draw = Random(state["turn"])
        return {
            "history": [{"role": "assistant", "content": noise(700, draw)}, Document(noise(3_000, draw))],
            "files": {f"f{draw.randrange(5)}": noise(2_500, draw)},
            "draft": noise(1_500, draw),
        }

    def task(given: Any) -> Any:
        return {"results": [given | {"answer": noise(900, Random(given["n"]))}]}

    builder: Any = StateGraph(State)
    builder.add_node("work", work)
    builder.add_node("task", task)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda _: [Send("task", {"n": n, "body": "b" * 2_000}) for n in range(8)])
    return builder.compile(checkpointer=saver)


def play(graph: Any, turns: int = 4) -> None:
    for turn in range(turns):
        graph.invoke({"turn": turn, "history": [{"role": "user", "content": noise(600, Random(-turn))}]}, CONFIG)


def history(saver: Any) -> list[Any]:
    """What each checkpoint holds and what its tasks wrote, without what is drawn anew in each run."""
    return [
        (
            {name: value for name, value in item.checkpoint["channel_values"].items() if name != "__pregel_tasks"},
            sorted(repr(write[1:]) for write in item.pending_writes or ()),
        )
        for item in saver.list(CONFIG)
    ]


@everywhere
def test_a_graph_reads_what_its_tasks_wrote(service: SessionService) -> None:
    saver, reference = SessionCheckpointSaver(service), InMemorySaver()
    play(graph_over(saver))
    play(graph_over(reference))
    assert history(saver) == history(SessionCheckpointSaver(service)) == history(reference)
    assert service.verify("t") == []
    # Those that remain are read as before, although what told some of their writes went with other checkpoints.
    expected = history(saver)
    SessionCheckpointSaver(service).trim(["t"], keep=3)
    left = history(SessionCheckpointSaver(service))
    assert 0 < len(left) < len(expected)
    assert left == expected[: len(left)]


def writes_of(service: SessionService) -> list[WriteRow]:
    store: Any = log_of(service).store
    found = store.run(TransactionKind.READ, lambda tx: writes_stored(tx, 1))
    return [row for part in found for row in unpack_writes(part.body)]


@databases
def test_what_a_graph_gave_a_list_is_told_by_it(service: SessionService) -> None:
    play(graph_over(SessionCheckpointSaver(service)), 1)
    assert any(row.kind & SLICED for row in writes_of(service))


@databases
def test_what_an_encrypting_serializer_wrote_is_told_by_nothing(open_service: Callable[..., SessionService]) -> None:
    service = open_service()
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    saver, reference = SessionCheckpointSaver(service, serde=serde), InMemorySaver()
    play(graph_over(saver), 2)
    play(graph_over(reference), 2)
    assert not any(row.kind & SLICED for row in writes_of(service))
    assert history(SessionCheckpointSaver(service, serde=serde)) == history(reference)


@databases
def test_a_write_that_is_altered_is_told_by_its_channel(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    play(graph_over(saver), 2)
    store: Any = log_of(service).store

    def alter(tx: Any) -> None:
        for part in writes_stored(tx, 1):
            rows = [
                row._replace(data=(row.data or b"")[:16] + ormsgpack.packb([b"", 1 << 30, 70]))
                if row.kind & SLICED
                else row
                for row in unpack_writes(part.body)
            ]
            if rows != unpack_writes(part.body):
                replace_writes(tx, 1, part, part._replace(body=pack_writes(rows)))

    store.run(TransactionKind.WRITE, alter)
    fresh = SessionCheckpointSaver(service)
    head = fresh.get_tuple(CONFIG)
    assert head is not None
    assert head.checkpoint["channel_values"]["turn"] == 1
    with pytest.raises(CorruptRowError, match=r"'(history|results|files|draft|__pregel_tasks)'.*'t'"):
        list(fresh.list(CONFIG))


@databases
def test_what_told_writes_goes_with_them(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    play(graph_over(saver), 3)
    held = len(stored(service))
    expected = history(saver)[0]
    saver.prune(["t"])
    assert history(SessionCheckpointSaver(service)) == [expected]
    assert len(stored(service)) < held
    saver.delete_thread("t")
    assert stored(service) == {}


@everywhere
def test_a_value_that_goes_leaves_nothing_but_the_write_that_it_told(service: SessionService) -> None:
    """A run is deleted, and what the run before it wrote stays: not what took that in."""
    saver = SessionCheckpointSaver(service)
    first = put(saver, 1, CONFIG, results=["a"])
    said = "word " * 40
    saver.put_writes(first, [("results", [said])], "task")
    checkpoint: Any = {
        **empty_checkpoint(),
        "id": "00000002",
        "channel_values": {"results": [noise(50_000, Random(1)), said]},
        "channel_versions": {"results": 2},
    }
    saver.put(first, checkpoint, {"source": "loop", "step": 2, "run_id": "r2"}, {"results": 2})
    saver.delete_for_runs(["r2"])
    fresh = SessionCheckpointSaver(service)
    (left,) = fresh.list(CONFIG)
    assert left.checkpoint["channel_values"] == {"results": ["a"]}
    assert left.pending_writes == [("task", "results", [said])]
    assert service.verify("t") == []
    if isinstance(log_of(service).store, SqlStore):
        assert stored(service) == {}


@everywhere
def test_a_task_that_wrote_very_much_is_stored_in_parts(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    first = put(saver, 1, CONFIG, count=0)
    draw = Random(2)
    said = [noise(7_000, draw) for _ in range(200)]
    saver.put_writes(first, [("count", [each]) for each in said], "task")
    second = put(saver, 2, first, count=len(said))
    assert second["configurable"]["checkpoint_id"]
    found = {item.checkpoint["id"]: item for item in SessionCheckpointSaver(service).list(CONFIG)}
    writes = found[first["configurable"]["checkpoint_id"]].pending_writes
    assert [value for _, _, value in writes or ()] == [[each] for each in said]


@everywhere
def test_a_message_that_a_list_holds_twice_hides_no_other(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    said = [HumanMessage(f"m{n}", id=f"m{n}") for n in range(10)]
    first = put(saver, 1, CONFIG, messages=said[:5])
    put(saver, 2, first, messages=[*said, said[1]])
    assert sorted(message.text for message in service.messages("t")) == [message.text for message in said]
    assert service.verify("t") == []
    (head,) = saver.list(CONFIG, limit=1)
    assert head.checkpoint["channel_values"]["messages"] == [*said, said[1]]
