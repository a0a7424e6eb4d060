"""What one service does under load, beside the driver alone in the same run: tasks, threads, bulk, lists, starts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.beside_logs import said
from benchmarks.checkpointer_graphs import CONFIG, OURS, graph_over, letters
from benchmarks.measure import interleaved
from langchain_sessions import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_POOL = 16
_WITHOUT = {True: "", False: ", without its index of searches"}
"""The driver alone has no such index: what it takes is told apart."""
_ROUNDS = 3
_numbers = count(1)


class Load(NamedTuple):
    """A figure of ours beside a floor; `goal` as it was promised, None where nothing was."""

    what: str
    ours: float
    floor: float | None
    unit: str
    goal: str


Rate = tuple[float, float]
"""How many in a second, and in a second of this process's CPU: what neighbours on the machine take is in the first."""


def _pair(what: str, rounds: list[tuple[Rate, Rate]], goal: str) -> list[Load]:
    """Both rates of ours and of the floor, the best of some rounds."""
    best = [[round(max(pair[side][at] for pair in rounds), 1) for side in (0, 1)] for at in (0, 1)]
    return [
        Load(what, *best[0], "appends/s", goal),
        Load(what, *best[1], "appends per second of CPU", ""),
    ]


def _middle(rounds: list[float]) -> float:
    return round(sorted(rounds)[len(rounds) // 2], 2)


# -- many tasks on PostgreSQL ----------------------------------------------------------------------------------

RAW_TABLES = (
    "CREATE TABLE IF NOT EXISTS raw_s (id TEXT PRIMARY KEY, last BIGINT, tokens BIGINT)",
    "CREATE TABLE IF NOT EXISTS raw_e (id TEXT, seq BIGINT, ident TEXT, body TEXT, PRIMARY KEY (id, seq))",
)
_RAW_APPEND = (
    "WITH b AS (UPDATE raw_s SET last = last + 1, tokens = tokens + 100 WHERE id = %s RETURNING id, last)"
    " INSERT INTO raw_e SELECT id, last, %s, %s FROM b"
)


def tasks_on_postgres(
    url: str, tasks: int, appends: int, *, sessions: int | None = None, indexed: bool = True
) -> list[Load]:
    """Appends of some tasks, ours with the index of searches or without, and by psycopg alone, rounds in turn."""

    async def both() -> list[tuple[Rate, Rate]]:
        from psycopg_pool import AsyncConnectionPool

        names = [f"task {at % (sessions or tasks)}" for at in range(tasks)]
        plain = url.replace("+psycopg", "")
        async with (
            SessionService(url, create_schema=True, search=indexed) as service,
            AsyncConnectionPool(plain, min_size=_POOL, max_size=_POOL, kwargs={"autocommit": True}) as pool,
        ):
            ada = service.as_user("ada")

            async def ours(name: str) -> None:
                await ada.aappend(name, said(0))

            async def raw(name: str) -> None:
                async with pool.connection() as connection:
                    await connection.execute(_RAW_APPEND, (name, f"i{next(_numbers)}", said(0).content))

            async with pool.connection() as connection:
                for statement in RAW_TABLES:
                    await connection.execute(statement)
                for name in set(names):
                    await ada.aopen(name)
                    await connection.execute(
                        "INSERT INTO raw_s VALUES (%s, 0, 0) ON CONFLICT (id) DO UPDATE SET last = raw_s.last", (name,)
                    )
            await _rate(names, 2 * tasks, ours)
            await _rate(names, 2 * tasks, raw)
            return [(await _rate(names, appends, ours), await _rate(names, appends, raw)) for _ in range(_ROUNDS)]

    rounds = asyncio.run(both())
    if sessions == 1:
        return _pair(f"PostgreSQL, {tasks} tasks in one session{_WITHOUT[indexed]}", rounds, "≥ 0.8 × floor")
    return _pair(f"PostgreSQL, {tasks} tasks", rounds, "≥ 5 000, ≥ 0.5 × floor")


async def _rate(names: list[str], appends: int, call: Callable[[str], Any]) -> Rate:
    each = max(1, appends // len(names))

    async def one(name: str) -> None:
        for _ in range(each):
            await call(name)

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(name) for name in names))
    done = each * len(names)
    return done / (time.perf_counter() - begin), done / (time.process_time() - cpu)


# -- threads ---------------------------------------------------------------------------------------------------


def _threaded(threads: int, appends: int, call: Callable[[int], object]) -> Rate:
    each = appends // threads

    def work(at: int) -> None:
        for _ in range(each):
            call(at)

    running = [threading.Thread(target=work, args=(at,)) for at in range(threads)]
    begin, cpu = time.perf_counter(), time.process_time()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return each * threads / (time.perf_counter() - begin), each * threads / (time.process_time() - cpu)


def _raw_sqlite(path: Path) -> Callable[[str], object]:
    """The same work by the driver alone: a connection per thread, the lock of the file between them."""
    local = threading.local()

    def connection() -> sqlite3.Connection:
        if not hasattr(local, "it"):
            local.it = sqlite3.connect(path, isolation_level=None, timeout=60)
            for pragma in ("journal_mode = WAL", "synchronous = FULL"):
                local.it.execute(f"PRAGMA {pragma}")
        found: sqlite3.Connection = local.it
        return found

    for statement in RAW_TABLES:
        connection().execute(statement)

    def append(name: str) -> None:
        raw = connection()
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("INSERT INTO raw_s VALUES (?, 1, 1) ON CONFLICT (id) DO UPDATE SET last = last + 1", (name,))
        (last,) = raw.execute("SELECT last FROM raw_s WHERE id = ?", (name,)).fetchone()
        raw.execute("INSERT INTO raw_e VALUES (?, ?, ?, ?)", (name, last, f"i{next(_numbers)}", said(0).content))
        raw.execute("COMMIT")

    return append


def threads_on_sqlite(folder: Path, appends: int) -> list[Load]:
    """Threads on a file: each in a session of its own, and eight in one."""
    raw = _raw_sqlite(folder / "raw-threads.db")
    with SessionService(f"sqlite:///{folder / 'threads.db'}") as service:
        ada = service.as_user("ada")
        for name in ("one", *(f"own {at}" for at in range(8))):
            ada.open(name)
        cases: dict[str, tuple[int, Callable[[int], str]]] = {
            "1 thread": (1, lambda at: f"own {at}"),
            "8 threads": (8, lambda at: f"own {at}"),
            "8 threads in one session": (8, lambda _: "one"),
        }
        rates: dict[str, list[tuple[Rate, Rate]]] = {name: [] for name in cases}
        for _ in range(_ROUNDS):
            for name, (threads, named) in cases.items():
                ours = _threaded(threads, appends, lambda at, named=named: ada.append(named(at), said(0)))  # type: ignore[misc]
                theirs = _threaded(threads, appends, lambda at, named=named: raw(named(at)))  # type: ignore[misc]
                rates[name].append((ours, theirs))
    goals = {"8 threads": "≥ 1 × 1 thread", "8 threads in one session": "≥ 0.8 × floor"}
    return [load for name, each in rates.items() for load in _pair(f"SQLite, {name}", each, goals.get(name, ""))]


def writers_on_postgres(url: str, appends: int, *, indexed: bool) -> list[Load]:
    """Eight writers of one session: threads, and tasks."""
    import psycopg

    plain = url.replace("+psycopg", "")
    connections = [psycopg.connect(plain, autocommit=True) for _ in range(8)]
    try:
        for statement in (*RAW_TABLES, "INSERT INTO raw_s VALUES ('one', 0, 0) ON CONFLICT DO NOTHING"):
            connections[0].execute(statement)
        with SessionService(url, create_schema=True, search=indexed) as service:
            ada = service.as_user("ada")
            ada.open("one")
            pairs = []
            for _ in range(_ROUNDS):
                ours = _threaded(8, appends, lambda _: ada.append("one", said(0)))
                theirs = _threaded(
                    8,
                    appends,
                    lambda at: connections[at].execute(
                        _RAW_APPEND, ("one", f"i{next(_numbers)}", str(said(0).content))
                    ),
                )
                pairs.append((ours, theirs))
    finally:
        for connection in connections:
            connection.close()
    found = _pair(f"PostgreSQL, 8 threads in one session{_WITHOUT[indexed]}", pairs, "≥ 0.8 × floor")
    return found + tasks_on_postgres(url, 8, appends, sessions=1, indexed=indexed)


# -- bulk, lists, cold reads, cold starts ----------------------------------------------------------------------


def bulk(url: str, where: str, goal: str) -> list[Load]:
    """Microseconds of this process's CPU per message of appends of a thousand, with the index of searches or not."""
    found = []
    for indexed in (True, False):
        with SessionService(url, create_schema=True, search=indexed) as service:
            ada = service.as_user("ada")
            name = f"bulk {indexed}"
            ada.create(name)
            rounds = []
            for part in range(5):
                messages = [said(part * 1_000 + at) for at in range(1_000)]
                begin = time.process_time()
                ada.append(name, messages)
                rounds.append((time.process_time() - begin) * 1e3)
        what = f"{where}, 1 000 messages at once{_WITHOUT[indexed]}"
        found.append(Load(what, _middle(rounds[1:]), None, "µs CPU per message", goal))
    return found


_SESSION = """
INSERT INTO sessions (app, id, user_id, metadata, initial_state, state, created_at, updated_at, activity, last_seq,
    live_events, live_turns, live_tokens, aliased)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT 'default', 's' || i, 'ada', '{}', '{}', '{}', ? - i * ?, ? - i * ?, ? - i * ?, 2, 2, 1, 200, 0 FROM n
"""
_PAGE = """
SELECT skey, app, id, user_id, title, metadata, created_at, updated_at, expires_at, ended_at, last_seq, live_events,
    live_turns, live_tokens
FROM sessions WHERE app = 'default' AND user_id = 'ada' ORDER BY activity DESC, skey DESC LIMIT 50
"""


def lists(folder: Path, sessions: int) -> list[Load]:
    """The 50 most recent of many sessions, their activity spread and all within one minute; rows that nobody made."""
    return [_listed(folder / f"lists-{spread}.db", sessions, spread=spread) for spread in (True, False)]


def _listed(path: Path, sessions: int, *, spread: bool) -> Load:
    with SessionService(f"sqlite:///{path}") as service, contextlib.closing(sqlite3.connect(path)) as raw:
        service.create_schema()
        raw.execute("PRAGMA synchronous = OFF")
        at = (time.time_ns() // 1_000, 60_000_000 if spread else 1)
        raw.execute(_SESSION, (sessions, *at, *at, *at))
        raw.commit()
        raw.execute("ANALYZE")
        ada = service.as_user("ada")
        calls = {"ours": lambda: ada.list_sessions(limit=50), "floor": lambda: raw.execute(_PAGE).fetchall()}
        found = interleaved(calls, 10)
    path.unlink()
    how = "activity spread" if spread else "all in one minute"
    what = f"SQLite, 50 of {sessions:,} sessions, {how}".replace(",000", " 000")
    return Load(what, round(found["ours"], 1), round(found["floor"], 1), "µs", "≤ 3 × floor")


_STARTS = {
    "langgraph alone": """
from langgraph.graph import START, MessagesState, StateGraph
builder = StateGraph(MessagesState)
builder.add_node("model", lambda state: {"messages": [("ai", "hello")]})
builder.add_edge(START, "model")
builder.compile().invoke({"messages": [("human", "hi")]})
""",
    "SqliteSaver with a graph": """
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
builder = StateGraph(MessagesState)
builder.add_node("model", lambda state: {"messages": [("ai", "hello")]})
builder.add_edge(START, "model")
with SqliteSaver.from_conn_string(PATH) as saver:
    builder.compile(saver).invoke({"messages": [("human", "hi")]}, {"configurable": {"thread_id": "s"}})
""",
    "ours, saver with a graph": """
from langgraph.graph import START, MessagesState, StateGraph
from langchain_sessions import SessionCheckpointSaver, SessionService
builder = StateGraph(MessagesState)
builder.add_node("model", lambda state: {"messages": [("ai", "hello")]})
builder.add_edge(START, "model")
with SessionService("sqlite:///" + PATH) as service:
    graph = builder.compile(SessionCheckpointSaver(service))
    graph.invoke({"messages": [("human", "hi")]}, {"configurable": {"thread_id": "s"}})
""",
    "ours, service": """
from langchain_core.messages import AIMessage, HumanMessage
from langchain_sessions import SessionService
with SessionService("sqlite:///" + PATH) as service:
    service.open("s")
    service.append("s", [HumanMessage("hi"), AIMessage("hello")])
    service.messages("s")
""",
}
_GOALS = {"ours, saver with a graph": "≤ 1.8", "ours, service": "≤ 0.7"}


def cold_starts(folder: Path, rounds: int) -> list[Load]:
    """CPU seconds of a process that imports, opens and makes one turn; the least of some, since more is disturbance."""
    spent: dict[str, list[float]] = {name: [] for name in _STARTS}
    for number in range(rounds + 1):
        for at, (name, program) in enumerate(_STARTS.items()):
            path = folder / f"start-{number}-{at}.db"
            code = f"PATH = {str(path)!r}\n{program}\nimport time\nprint(time.process_time())"
            # Every library's bytecode lies ready, as where they were installed: also that of this tree, and wherever
            # the environment says that none is to be written.
            left_out = ("LD_PRELOAD", "PYTHONDONTWRITEBYTECODE")
            environment = {key: value for key, value in os.environ.items() if key not in left_out}
            environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
            command = [sys.executable, "-W", "ignore", "-c", code]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
            if number:  # the first compiles
                spent[name].append(float(done.stdout.split()[-1]))
    return [
        Load(f"a cold process and a turn: {name}", round(min(each), 2), None, "s CPU", _GOALS.get(name, ""))
        for name, each in spent.items()
    ]


_COLD = """
import gc, json, sys, time
from benchmarks.checkpointer_graphs import CONFIG, OURS
ANOTHER = {"configurable": {"thread_id": "another"}}
url, heap = sys.argv[1], [[number] for number in range(int(sys.argv[2]))]
spent, kept = [], []
for _ in range(9):
    with OURS.open(url) as saver:
        saver.get_tuple(ANOTHER)
        begin = time.process_time()
        found = saver.get_tuple(CONFIG)
        spent.append((time.process_time() - begin) * 1e3)
    kept.append(found)  # freeing the thread before is nothing that a read does
    assert len(found.checkpoint["channel_values"]["messages"]) == 2_000
print(json.dumps(spent))
"""


def cold_reads(folder: Path) -> list[Load]:
    """A thread of 2 000 messages read by a service that knows nothing of it; also beside a million other objects."""
    url = f"sqlite:///{folder / 'cold.db'}"
    with OURS.open(url) as saver:
        given = [("human" if at % 2 else "ai", letters(at)) for at in range(1_999)]
        graph_over(saver).invoke({"messages": given}, CONFIG)
        # Read before each time: a process makes its statements once, not for each thread.
        graph_over(saver).invoke({"messages": given[:2]}, {"configurable": {"thread_id": "another"}})
    found = []
    for heap, what in ((0, ""), (1_000_000, ", in a heap of a million objects")):
        command = [sys.executable, "-c", _COLD, url, str(heap)]
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
        spent = json.loads(done.stdout)
        found.append(Load(f"a cold thread of 2 000 messages, read{what}", _middle(spent), None, "ms CPU", "≤ 6"))
    return found
