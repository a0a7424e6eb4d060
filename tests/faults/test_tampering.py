"""Issue 17, item 12: every column, overwritten with every bomb, asked by every method: generated, a sample of it here.

`make soak` runs all of it. Only errors of the library, bounded time, other sessions untouched.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from langchain_sessions import Compaction, SessionCheckpointSaver, SessionService, TurnCount, TurnWindow
from langchain_sessions.errors import SessionsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOMBS: list[Any] = [
    *(
        None,
        "",
        "x",
        "\x00",
        "{}",
        "[]",
        "null",
        "[[1,2]]",
        '{"$":["tuple",7]}',
        '{"$":["nope",[]]}',
        '"' * 50,
        "[" * 5000,
    ),
    *('{"h":[[1,99999999999999]],"e":[],"c":[]}', '{"h":[],"e":[[1,1,1,1]],"c":[]}', "1e999", "-1", "é" * 300),
    *(
        0,
        -1,
        1,
        7,
        77,
        2**31,
        2**53,
        10**15,
        2**63 - 1,
        -(2**63),
        0.5,
        1e300,
        b"",
        b"\x00",
        b"\xff" * 40,
        b"\x80\x80\x80\x80",
    ),
    *(b"\xc7\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"x\x9c" + b"\x00" * 20),
]
WHOLE = os.environ.get("LANGCHAIN_SESSIONS_DRAWS") == "soak"
SAMPLE = 40
BOUND, HANGS = 10.0, 120.0
"""Seconds: of the processor, since a machine may have other things to do, and of the clock, for what waits for ever."""
THREAD: Any = {"configurable": {"thread_id": "x"}}
METHODS: dict[str, Callable[[SessionService], Any]] = {
    "append": lambda s: s.append("x", [HumanMessage("more", id="new"), AIMessage("said")]),
    "compact": lambda s: s.compact("x", Compaction(TurnCount(1), TurnWindow(max_turns=1)), force=True),
    "context": lambda s: s.context("x"),
    "count": lambda s: s.count("x"),
    "delete": lambda s: s.delete("x"),
    "edit": lambda s: s.edit("x", HumanMessage("other", id="m0")),
    "events": lambda s: list(s.events("x")),
    "fork": lambda s: s.fork("x"),
    "get": lambda s: s.get("x"),
    "get_tuple": lambda s: SessionCheckpointSaver(s).get_tuple(THREAD),
    "history": lambda s: list(SessionCheckpointSaver(s).list(THREAD)),
    "list_sessions": lambda s: list(s.list_sessions()),
    "messages": lambda s: s.messages("x"),
    "reindex": lambda s: s.reindex("x"),
    "rewind": lambda s: s.rewind("x", to_seq=2),
    "search": lambda s: list(s.search("hello", session_id="x")),
    "state": lambda s: s.state("x"),
    "turns": lambda s: s.turns("x"),
    "verify": lambda s: s.verify("x"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which every table has a row of the session `x`; `other` is its neighbour."""
    path = tmp_path_factory.mktemp("tampering") / "template.db"
    with SessionService(f"sqlite:///{path}") as sessions:
        for name in ("x", "other"):
            sessions.create(session_id=name, state={"a": 1})
            sessions.append(name, [HumanMessage("hello", id="m0"), AIMessage("hi", id="m1")], state_delta={"b": [1]})
            sessions.append(name, HumanMessage("on a branch"), branch="a.b", invocation_id="run")
            sessions.edit(name, HumanMessage("hello you", id="m0"))
            _checkpoint(sessions, name)
            sessions.compact(name, Compaction(TurnCount(1), TurnWindow(max_turns=1)), force=True)
            sessions.append(name, [HumanMessage("and"), AIMessage("so")])
            sessions.rewind(name, to_seq=8)
            sessions.reindex(name)
    return path


def _checkpoint(sessions: SessionService, name: str) -> None:
    saver = SessionCheckpointSaver(sessions)
    config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    said: list[Any] = [HumanMessage("hello you", id="m0"), ToolMessage("r", tool_call_id="c", artifact=(1, 2), id="t")]
    for step in range(2):
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": said[: step + 1], "other": {"k": "long " * 50, "t": (1, 2)}}
        checkpoint["channel_versions"] = {"messages": step + 1, "other": step + 1}
        config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {"messages": step, "other": step})
        saver.put_writes(config, [("messages", [AIMessage("more", id=f"w{step}")]), ("other", {"v": 1})], "task")


def _cases(path: Path) -> list[tuple[str, str, Any, str]]:
    connection = sqlite3.connect(path)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    columns = [
        (table, row[1])
        for table in tables
        if not table.startswith("sqlite_")
        for row in connection.execute(f"SELECT * FROM pragma_table_info('{table}')")
    ]
    connection.close()
    return [(*column, bomb, name) for column in columns for bomb in BOMBS for name in METHODS]


def _is_the_neighbours(table: str) -> str:
    return "id = 'x'" if table == "sessions" else "skey = (SELECT skey FROM sessions WHERE id = 'x')"


def _tamper(path: Path, table: str, column: str, bomb: Any) -> bool:
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            where = _is_the_neighbours(table)
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (bomb,))
    except sqlite3.Error:  # the database itself refuses it, or the table has no session
        return False
    finally:
        connection.close()
    return True


def _problems(path: Path, name: str) -> list[str]:
    """What a method makes of a database that it must not."""
    found: list[str] = []
    begun, used = time.monotonic(), time.process_time()
    with SessionService(f"sqlite:///{path}") as sessions:
        try:
            METHODS[name](sessions)
        except SessionsError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its case
            found.append(f"{type(error).__name__} {str(error)[:80]}")
        if [message.text for message in sessions.messages("other")][-1:] != ["so"] and name != "delete":
            found.append("the neighbour was touched")
    took, worked = time.monotonic() - begun, time.process_time() - used
    if worked > BOUND or took > HANGS:
        found.append(f"{worked:.0f} s of work, {took:.0f} s")
    return found


MEMORY = 100_000_000
MANY, LEAST, MOST = 2**31, -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("place", "bomb", "name"),
    [
        ("events.at", MOST, "verify"),
        ("events.at", LEAST, "verify"),
        ("events.tokens", MOST, "compact"),
        ("events.tokens", LEAST, "compact"),
        ("recall_chunks.last_seq", MOST, "verify"),
        ("recall_logs.indexed_to", MOST, "verify"),
        ("sessions.last_seq", MANY, "fork"),
        ("sessions.head_runs", MANY, "get_tuple"),
        ("sessions.head_runs", "", "history"),
        ("sessions.live_events", MOST, "append"),
        ("sessions.live_events", LEAST, "compact"),
        ("sessions.live_tokens", LEAST, "edit"),
        ("sessions.live_turns", MOST, "append"),
        ("checkpoint_staged.body", MANY, "get_tuple"),
    ],
)
def test_item_12_what_was_found_overflows_nothing_and_takes_no_memory(
    template: Path, tmp_path: Path, place: str, bomb: Any, name: str
) -> None:
    table, _, column = place.partition(".")
    path = tmp_path / "chat.db"
    shutil.copy(template, path)
    assert _tamper(path, table, column, bomb)
    tracemalloc.start()
    try:
        assert _problems(path, name) == []
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def test_item_12_an_index_that_reaches_beyond_its_log_is_told(template: Path, tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    shutil.copy(template, path)
    with SessionService(f"sqlite:///{path}") as sessions:
        assert sessions.verify("x") == sessions.verify("other")
    assert _tamper(path, "recall_logs", "indexed_to", 10**15)
    with SessionService(f"sqlite:///{path}") as sessions:
        assert "the index claims to hold events that the log does not have" in str(sessions.verify("x"))
        assert "the index claims" not in str(sessions.verify("other"))


@pytest.mark.timeout(36_000 if WHOLE else 600)
def test_item_12_no_damage_leads_to_anything_but_an_error_of_ours(template: Path, tmp_path: Path) -> None:
    cases = _cases(template)
    random.Random(17).shuffle(cases)  # noqa: S311 - a seed makes a scenario
    wrong: list[str] = []
    done = 0
    for table, column, bomb, name in cases:
        if not WHOLE and done >= SAMPLE:
            break
        path = tmp_path / "chat.db"
        shutil.copy(template, path)
        if not _tamper(path, table, column, bomb):
            continue
        done += 1
        wrong += [f"{table}.{column} = {bomb!r:.40} -> {name}: {problem}" for problem in _problems(path, name)]
        for leftover in tmp_path.glob("chat.db*"):
            leftover.unlink()
    assert not wrong, "\n".join(wrong)
    assert done
