"""Processes that are killed while pieces of large values are written, told anew by others, and removed."""

from __future__ import annotations

import base64
import random
import zlib
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from sqlalchemy import select

from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.store import SqlStore
from langchain_sessions.checkpointer import SessionCheckpointSaver
from tests.faults.drills import make_service, opened
from tests.faults.processes import killed
from tests.faults.soaking import ROUNDS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from langchain_sessions.service import SessionService
    from tests.conftest import Counted

on_disks = pytest.mark.backends("files", "sqlite", "postgres", "mariadb")
FILES = 6


def _joined(before: dict[str, str] | None, after: dict[str, str]) -> dict[str, str]:
    return {**(before or {}), **after}


class Work(TypedDict, total=False):
    """Files, and which turn wrote each."""

    files: Annotated[dict[str, str], _joined]
    stamps: Annotated[dict[str, str], _joined]
    turn: str


def noise(size: int, seed: str) -> str:
    """Text that cannot be made much smaller."""
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def file_of(stamp: str) -> str:
    """The file that a turn changes."""
    return f"f{zlib.crc32(stamp.encode()) % FILES}"


def text_of(stamp: str) -> str:
    """What it writes there: all but the middle was there before, so that its pieces are told by those of before."""
    name = file_of(stamp)
    return noise(3_000, name) + noise(400, stamp) + noise(3_000, f"{name} ends")


def config_of(stamp: str) -> Any:
    return {"configurable": {"thread_id": "t"}, "metadata": {"run_id": f"run of {stamp}"}}


def working(saver: SessionCheckpointSaver) -> Any:
    """A graph of which each turn changes the middle of one file."""

    def work(state: Work) -> Work:
        stamp = state.get("turn", "")
        name = file_of(stamp)
        return {"files": {name: text_of(stamp)}, "stamps": {name: stamp}}

    builder = StateGraph(Work)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    return builder.compile(checkpointer=saver)


def tidy(saver: SessionCheckpointSaver, number: int, before: str) -> None:
    """Remove checkpoints, in one way or another: what is left may be told by what goes."""
    ways = (
        lambda: saver.delete_for_runs([f"run of {before}"]),
        lambda: saver.trim(["t"], keep=3),
        lambda: saver.prune(["t"]),
        lambda: None,
    )
    ways[number % len(ways)]()


def work_until_killed(url: str, prefix: str, label: str, said: Connection) -> None:
    """Work and tidy up without end; says each turn once both are over."""
    service = make_service(url, table_prefix=prefix, synchronous="FULL")
    saver = SessionCheckpointSaver(service)
    graph = working(saver)
    number = 0
    while True:
        stamp = f"{label}-{number}"
        graph.invoke({"turn": stamp}, config_of(stamp))
        tidy(saver, number, f"{label}-{number - 1}")
        said.send(stamp)
        number += 1


@on_disks
def test_pieces_are_whole_wherever_their_process_was_killed(database_url: str, table_prefix: str) -> None:
    _kill(database_url, table_prefix, rounds=3)


@pytest.mark.soak
@on_disks
def test_pieces_of_many_killed_processes(database_url: str, table_prefix: str, counted: Counted) -> None:
    """A thread for twenty-five, since all of it is looked at."""
    for number in range(ROUNDS // 8 // 25 + 1):
        acknowledged = _kill(database_url, f"{table_prefix}{number}_", rounds=25)
        counted("processes with pieces killed", 25)
        counted("acknowledged", acknowledged)


def _kill(url: str, prefix: str, rounds: int) -> int:
    """How many turns were acknowledged."""
    chance = random.Random()
    acknowledged: list[str] = []
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        service.create_schema()
        for number in range(rounds):
            acknowledged += killed(chance.uniform(0, 0.2), work_until_killed, url, prefix, f"w{number}")
            _assert_whole(service, acknowledged)
            # What was in the middle of it goes on, and so does tidying up.
            saver = SessionCheckpointSaver(service)
            graph = working(saver)
            graph.invoke(None, config_of("none"))
            tidy(saver, number, (["nothing", *acknowledged])[-2])  # one before the last, which has to stay
            _assert_whole(service, acknowledged)
            stamp = f"after-{number}"
            graph.invoke({"turn": stamp}, config_of(stamp))
            acknowledged.append(stamp)
            _assert_whole(service, acknowledged)
        SessionCheckpointSaver(service).prune(["t"], strategy="delete")
        assert _pieces(service) == []
    return len(acknowledged)


def _assert_whole(service: SessionService, acknowledged: list[str]) -> None:
    """Every checkpoint holds what its turns wrote, and the newest what was acknowledged, or what came after that."""
    saver = SessionCheckpointSaver(service)
    found = list(saver.list({"configurable": {"thread_id": "t"}}))
    assert found
    for each in found:
        values = each.checkpoint["channel_values"]
        stamps = values.get("stamps", {})
        assert values.get("files", {}) == {name: text_of(stamp) for name, stamp in stamps.items()}
        for _, channel, written in each.pending_writes or ():
            if channel == "files":
                assert written == {name: text for name, text in written.items() if len(text) > 1_000}
    newest = found[0].checkpoint["channel_values"].get("stamps", {})
    last: dict[str, int] = {file_of(stamp): at for at, stamp in enumerate(acknowledged)}
    for name, at in last.items():
        assert newest[name] == acknowledged[at] or newest[name] not in acknowledged[:at]
    assert service.verify("t") == []
    assert saver.head_conflicts("t") == []


def _pieces(service: SessionService) -> list[bytes]:
    """The names of all values that lie beside checkpoints; of files they are not counted."""
    store = log_of(service).store
    if not isinstance(store, SqlStore):
        return []
    v = store.tables.threads.stored_values.c
    return [bytes(row[0]) for row in store.run(TransactionKind.READ, lambda tx: tx.once(select(v.digest)))]
