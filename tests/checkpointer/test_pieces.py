"""Large values lie in pieces: a step stores what changed, and pieces go with the last checkpoint that needs them."""

from __future__ import annotations

import base64
import operator
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from sqlalchemy import delete, select, update

from langchain_sessions._core.piece_rows import NODE, SPLICE
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from langchain_sessions.service import SessionService

everywhere = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
databases = pytest.mark.backends("sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
Change = tuple[Any, int]


def noise(size: int, draw: Random) -> str:
    """Text that cannot be made much smaller."""
    return base64.b64encode(draw.randbytes(size)).decode()[:size]


def put(saver: BaseCheckpointSaver[Any], number: int, parent: Any, **values: Any) -> Any:
    checkpoint: Any = {
        **empty_checkpoint(),
        "id": f"{number:08}",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, number),
    }
    return saver.put(parent, checkpoint, {"source": "loop", "step": number}, dict.fromkeys(values, number))


def values_of(saver: BaseCheckpointSaver[Any], config: Any = CONFIG) -> dict[str, Any]:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


def stored(service: SessionService) -> dict[bytes, bytes]:
    """The rows of all values, whatever the session."""
    store: Any = log_of(service).store
    v = store.tables.threads.stored_values.c
    rows = store.run(TransactionKind.READ, lambda tx: tx.once(select(v.digest, v.data)))
    return {bytes(digest): bytes(data) for digest, data in rows}


def one_file(files: dict[str, str], draw: Random) -> Change:
    changed = {**files, f"f{draw.randrange(len(files))}": noise(20_000, draw)}
    return changed, 20_000


def more_documents(documents: list[Document], draw: Random) -> Change:
    new = [Document(noise(2_000, draw), metadata={"n": len(documents)}) for _ in range(10)]
    return [*documents, *new], 20_000


def one_record(records: dict[str, Any], draw: Random) -> Change:
    name = f"r{draw.randrange(len(records))}"
    return {**records, name: {**records[name], "note": noise(8_000, draw)}}, 8_000


def in_the_middle(text: str, draw: Random) -> Change:
    at = len(text) // 2
    return text[:at] + noise(9_000, draw) + text[at + 5_000 :], 9_000


def more_rows(frame: bytes, draw: Random) -> Change:
    """Rows behind each of two columns, one behind the other."""
    half = len(frame) // 2
    return frame[:half] + draw.randbytes(8_000) + frame[half:] + draw.randbytes(8_000), 16_000


def made(kind: str, draw: Random) -> Any:
    """A large value of some kind."""
    if kind == "files":
        return {f"f{number}": noise(20_000, draw) for number in range(20)}
    if kind == "documents":
        return [Document(noise(2_000, draw)) for _ in range(50)]
    if kind == "records":
        return {f"r{number}": {"n": number, "note": noise(8_000, draw)} for number in range(40)}
    return noise(200_000, draw) if kind == "text" else draw.randbytes(200_000)


CHANGES: Mapping[str, Callable[[Any, Random], Change]] = {
    "files": one_file,
    "documents": more_documents,
    "records": one_record,
    "text": in_the_middle,
    "frame": more_rows,
}


@databases
@pytest.mark.parametrize("kind", CHANGES)
def test_a_step_stores_what_changed(service: SessionService, kind: str) -> None:
    draw = Random(3)
    saver, value, parent = SessionCheckpointSaver(service), made(kind, draw), CONFIG
    seen = [value]
    parent = put(saver, 0, parent, large=value)
    before, changed = sum(map(len, stored(service).values())), 0
    for number in range(1, 6):
        value, size = CHANGES[kind](value, draw)
        seen.append(value)
        # A saver of another process knows what it has read, and no more.
        parent = put(saver if number % 2 else SessionCheckpointSaver(service), number, parent, large=value)
        changed += size
    assert sum(map(len, stored(service).values())) - before <= 1.3 * changed
    fresh = SessionCheckpointSaver(service)
    assert [item.checkpoint["channel_values"]["large"] for item in fresh.list(CONFIG)] == seen[::-1]
    assert values_of(fresh)["large"] == seen[-1]


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    files: Annotated[dict[str, Any], operator.or_]
    documents: Annotated[list[Document], operator.add]
    table: bytes


def work(state: State) -> State:
    draw = Random(len(state.get("messages", ())))
    files = {f"f{draw.randrange(6)}": {"body": noise(6_000, draw), "said": state.get("messages", [])[-1:]}}
    return {
        "messages": [AIMessage(noise(1_500, draw))],
        "files": files,
        "documents": [Document(noise(1_200, draw))],
        "table": state.get("table", b"") + draw.randbytes(3_000),
    }


def graph_over(saver: BaseCheckpointSaver[Any]) -> Any:
    builder: Any = StateGraph(State)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    return builder.compile(checkpointer=saver)


def history(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    states = [state.values for state in graph_over(saver).get_state_history(CONFIG)]
    return [{**state, "messages": [each.content for each in state.get("messages", ())]} for state in states]


@everywhere
@pytest.mark.parametrize("sealed", [False, True])
def test_a_graph_runs_as_on_the_reference(open_service: Callable[..., SessionService], *, sealed: bool) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef") if sealed else None
    service = open_service()
    reference = InMemorySaver()
    saver = SessionCheckpointSaver(service, serde=serde)
    for number in range(5):
        say = {"messages": [HumanMessage(f"{number}", id=f"h{number}")]}
        if number == 3:
            saver = SessionCheckpointSaver(service, serde=serde)
        for each in (saver, reference):
            given: Any = say if number else {**say, "files": {"f0": {"body": "b" * 5_000}}}
            graph_over(each).invoke(given, CONFIG)
    assert history(saver) == history(SessionCheckpointSaver(service, serde=serde)) == history(reference)
    saver.copy_thread("t", "u")
    copied: Any = {"configurable": {"thread_id": "u"}}
    service.delete("t")
    assert (
        graph_over(SessionCheckpointSaver(service, serde=serde)).get_state(copied).values["table"]
        == (history(reference)[0]["table"])
    )


@everywhere
def test_a_value_that_comes_back_is_not_told_by_what_is_told_by_it(service: SessionService) -> None:
    draw = Random(5)
    first = noise(60_000, draw)
    second = first[:30_000] + "changed" + first[30_000:]
    parent, seen = CONFIG, list[str]()
    for number, value in enumerate((first, second, first, second + "!", first + "!")):
        # A saver of another process knows the value before, and no other.
        parent = put(SessionCheckpointSaver(service), number, parent, large=value)
        seen.append(value)
    fresh = SessionCheckpointSaver(service)
    assert [item.checkpoint["channel_values"]["large"] for item in fresh.list(CONFIG)] == seen[::-1]


@databases
def test_pieces_go_with_the_last_checkpoint_that_needs_them(service: SessionService) -> None:
    draw = Random(5)
    saver, parent = SessionCheckpointSaver(service), CONFIG
    kept = value = made("files", draw)
    for number in range(4):
        parent = put(saver, number, parent, large=value)
        kept, (value, _) = value, one_file(value, draw)
    saver.put_writes(parent, [("large", noise(20_000, draw))], "task")
    waiting = saver.get_tuple(CONFIG)
    saver.prune(["t"])
    alone = stored(service)
    fresh = SessionCheckpointSaver(service)
    assert values_of(fresh)["large"] == kept
    left = fresh.get_tuple(CONFIG)
    assert left is not None
    assert waiting is not None
    assert left.pending_writes == waiting.pending_writes
    again = SessionCheckpointSaver(service)
    put(again, 0, {"configurable": {"thread_id": "u", "checkpoint_ns": ""}}, large=kept)
    # Another session shares nothing with it, so that the same names are there once more.
    again.delete_thread("u")
    assert stored(service) == alone
    # One that is written anew goes on from what is left.
    put(saver, 9, parent, large=value)
    assert values_of(SessionCheckpointSaver(service))["large"] == value
    saver.delete_thread("t")
    assert stored(service) == {}


@everywhere
def test_what_another_saver_stored_otherwise_is_read(service: SessionService) -> None:
    draw = Random(5)
    saver, parent, value = SessionCheckpointSaver(service), CONFIG, made("files", draw)
    for number in range(5):
        if number % 2:
            assert values_of(saver)["large"] == value
        value, _ = one_file(value, draw)
        parent = put(saver, number, parent, large=value)
        if number == 3:
            # What was told by the values before is stored whole from now on: some of it was read, and some was not.
            SessionCheckpointSaver(service).prune(["t"])
    assert values_of(saver)["large"] == value
    assert values_of(SessionCheckpointSaver(service))["large"] == value
    # One that knows an earlier value, and not this one.
    other = SessionCheckpointSaver(service)
    assert values_of(other)["large"] == value
    value, _ = one_file(value, draw)
    put(saver, 5, parent, large=value)
    assert values_of(other)["large"] == value


@databases
@pytest.mark.parametrize("how", ["missing", "altered", "node"])
def test_a_bad_piece_is_told_where_it_is_needed(service: SessionService, how: str) -> None:
    draw = Random(5)
    saver = SessionCheckpointSaver(service)
    first = put(saver, 0, CONFIG, large=noise(40_000, draw), small="s")
    before = stored(service)
    second = put(saver, 1, first, large=noise(40_000, draw), small="s")
    seen = SessionCheckpointSaver(service)
    assert values_of(seen, second)["small"] == "s"
    table = log_of(service).store.tables.threads.stored_values  # type: ignore[attr-defined]
    bad = next(
        digest
        for digest, row in stored(service).items()
        if digest not in before and (row[:1] in {NODE, SPLICE}) is (how == "node")
    )
    statement: Any = update(table).values(data=b"\2" if how == "node" else b"\0nothing")
    statement = (delete(table) if how == "missing" else statement).where(table.c.digest == bad)
    log_of(service).store.run(TransactionKind.WRITE, lambda tx: tx.change(statement))  # type: ignore[attr-defined]
    # Who wrote it, who has read it before, and who has not.
    for each in (saver, seen, SessionCheckpointSaver(service)):
        assert values_of(each, first)["small"] == "s"
        with pytest.raises(CorruptRowError, match=r"'large'.*'t'"):
            each.get_tuple(second)


@databases
def test_names_and_rows_of_sealed_values_tell_nothing(open_service: Callable[..., SessionService]) -> None:
    service, text = open_service(), "".join(f"a secret sentence of number {number} " for number in range(2_000))

    def saver() -> SessionCheckpointSaver:
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        return SessionCheckpointSaver(service, serde=serde)

    first = put(saver(), 0, CONFIG, large=text)
    mine = stored(service)
    other: Any = {"configurable": {"thread_id": "u", "checkpoint_ns": ""}}
    put(saver(), 0, other, large=text)
    theirs = {name: row for name, row in stored(service).items() if name not in mine}
    assert len(theirs) > 14
    assert not any(b"secret" in row for row in stored(service).values())
    # A further checkpoint shares them, whichever process writes it.
    put(saver(), 1, first, large=text + "!")
    assert len(mine) > 14
    assert len(stored(service)) < len(mine) * 2 + 10
    assert values_of(saver())["large"] == text + "!"
    for wrong in (EncryptedSerializer.from_pycryptodome_aes(key=b"f" * 16), None):
        with pytest.raises(CorruptRowError):
            SessionCheckpointSaver(service, serde=wrong).get_tuple(CONFIG)
