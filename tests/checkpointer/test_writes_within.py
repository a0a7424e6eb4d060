"""What a task wrote lies in the row of its checkpoint where it fits, and parents are stored short: read as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from sqlalchemy import func, null, select, update

from langchain_sessions._core.checkpoints import WriteRow, pack_writes, stored_parent, unpack_origin, unpack_writes
from langchain_sessions._core.edge import packed_id
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.threads.history import all_rows
from langchain_sessions._sql.threads.staging import replace_writes, writes_stored, written
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import CorruptRowError
from tests.checkpointer.test_bad_rows import CONFIG, graph_over, say, spoil

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService

on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")
PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
IDS = [
    "1f1e46e8-6940-6cdb-8254-1866e477c822",
    "1f1e46e8-6943-6e08-8255-fe199ef52761",
    "1f1e46e8-6943-6e08-8255-fe199ef52762",
    "00000000-0000-0000-0000-000000000000",
    "00000000-0000-0000-0000-000000000001",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "1F1E46E8-6943-6E08-8255-FE199EF52761",
    "{1f1e46e8-6943-6e08-8255-fe199ef52761}",
    "1f1e46e869436e088255fe199ef52761",
    "",
    "a",
    "A",
    "x" * 36,
    "1f1e46e8-6945-67fe-8256-514f881ac4f ",
]


@pytest.mark.parametrize("cid", IDS)
@pytest.mark.parametrize("parent", IDS)
def test_a_parent_comes_back_as_it_was(cid: str, parent: str) -> None:
    text, origin = stored_parent(cid, parent)
    assert (text is None) is (origin is not None)
    assert parent == (text if origin is None else unpack_origin(cid, origin))
    assert origin is None or 1 <= len(origin) <= 16


def test_no_parent_is_none_and_an_altered_one_is_corrupt() -> None:
    assert stored_parent(IDS[0], None) == (None, None)
    for cid, origin in ((IDS[0], b"x" * 17), ("a", b"x")):
        with pytest.raises(CorruptRowError, match=repr(cid)):
            unpack_origin(cid, origin)


def checkpoint_of(step: int) -> Any:
    """An empty one with an id of its own."""
    return {**empty_checkpoint(), "id": str(uuid6(clock_seq=step))}


def counted(service: SessionService) -> tuple[int, int]:
    """How many checkpoints hold their writes, and how many rows of writes lie beside them."""
    store: Any = log_of(service).store
    c, w = store.tables.threads.checkpoints.c, store.tables.threads.writes
    within, beside = select(func.count(c.writes)), select(func.count()).select_from(w)
    found = store.run(TransactionKind.READ, lambda tx: (tx.once(within), tx.once(beside)))
    return found[0][0][0], found[1][0][0]


def told(service: SessionService) -> list[Any]:
    """The history of the thread."""
    found = SessionCheckpointSaver(service).list(CONFIG)
    return [(each.config, each.parent_config, each.pending_writes) for each in found]


@on_databases
def test_writes_of_a_chat_take_no_rows_of_their_own(service: SessionService) -> None:
    graph = graph_over(service)
    for text in ("one", "two" * 200, "three"):
        say(graph, text)
    assert counted(service) == (6, 0)
    found = told(service)
    assert [len(writes) for *_, writes in found] == [0, 1, 2] * 3
    service.rewind("t", to_seq=4)
    service.undo_rewind("t")
    assert told(service) == found
    service.fork("t", new_id="copy", at_seq=4)
    copied = SessionCheckpointSaver(service).list({"configurable": {"thread_id": "copy"}})
    assert [len(each.pending_writes or ()) for each in copied] == [0, 1, 2] * 2


@on_databases
def test_what_lies_in_the_old_form_is_read_and_goes_on(service: SessionService) -> None:
    graph = graph_over(service)
    say(graph, "one")
    found = told(service)
    store: Any = log_of(service).store
    table = store.tables.threads.checkpoints

    def put_back(tx: Any) -> None:
        (skey,) = tx.once(select(table.c.skey).limit(1))[0]
        for row in all_rows(tx, skey):
            old = {"parent": written(row.parent), "origin": null()}
            tx.change(update(table).where(table.c.cid == packed_id(row.cid)).values(old))
        for part in writes_stored(tx, skey):
            replace_writes(tx, skey, part, part._replace(part=0))

    store.run(TransactionKind.WRITE, put_back)
    assert counted(service) == (0, 2)
    assert told(service) == found
    say(graph_over(service), "two")
    assert counted(service) == (2, 2)
    assert told(service)[3:] == found


@on_databases
def test_a_checkpoint_that_is_put_again_keeps_its_writes(service: SessionService) -> None:
    saver = SessionCheckpointSaver(service)
    first, second = checkpoint_of(0), checkpoint_of(1)
    place = saver.put(PLACE, first, {}, {})
    saver.put_writes(place, [("done", "small")], "task")
    saver.put(place, second, {}, {})
    assert counted(service) == (1, 0)
    saver.put(PLACE, first, {}, {})
    assert counted(service) == (1, 0)
    for large in (400, 5):  # neither fits: one is large, and one came later
        saver.put_writes(place, [("more", "".join(map(str, range(large))))], f"task {large}")
        saver.put(place, checkpoint_of(large), {}, {})
    assert counted(service) == (1, 2)
    kept = SessionCheckpointSaver(service).get_tuple(place)
    assert kept is not None
    assert [(task, channel) for task, channel, _ in kept.pending_writes or ()] == [
        ("task", "done"),
        ("task 400", "more"),
        ("task 5", "more"),
    ]
    spoil(service, "writes", body=b"\xff\xfe garbage")
    with pytest.raises(CorruptRowError, match="'t'"):
        SessionCheckpointSaver(service).get_tuple(place)


@pytest.mark.parametrize(
    "path", ["", "~__pregel_pull, model", "~__pregel_pull, ", "~__pregel_pull, ünï", "~__pregel_push, 0"]
)
def test_a_path_comes_back_as_it_was(path: str) -> None:
    writes = [WriteRow("task", idx, "channel", path, 2, None, None) for idx in range(2)]
    assert unpack_writes(pack_writes(writes)) == writes
    before = ormsgpack.packb([["task", path, [[idx, "channel", 2, None, None] for idx in range(2)]]])
    assert unpack_writes(before) == writes
