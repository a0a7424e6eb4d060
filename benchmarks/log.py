"""The log's numbers: appends and reads beside a raw driver that does the same work, and exact counts.

Goals: append of one ≤ 2x the equal-work floor and ≤ 5x a naked INSERT, a batch of four ≤ 2x one append, PostgreSQL
one round trip and ≤ 2x its floor, 100 000 events ≤ 1.1x 100, the last 20 ≤ 4x the floor and ≤ 100 KiB, 50 of
20 000 sessions ≤ 4x, async on SQLite ≤ 2.5x sync. What was not measured in this run stays blank.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
import tracemalloc
from itertools import count
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage
from sqlalchemy import make_url

from benchmarks.measure import CountingProxy, count_fsyncs, interleaved, memory_directory, show
from langchain_sessions import SessionService
from langchain_sessions._log.log import log_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = "How do I renew a passport that expired last year? " * 8
_numbers = count(1)
Row = tuple[str, ...]


def fresh() -> HumanMessage:
    """A message of 400 characters that was never stored."""
    return HumanMessage(TEXT, id=f"message-{next(_numbers)}")


def times(value: float, floor: float) -> str:
    """A ratio to print."""
    return f"{value / floor:.2f}x"


INSERT = "INSERT INTO events VALUES (?,?,?,0,NULL,NULL,1,16,1,100,NULL,NULL,NULL,NULL,?,NULL,NULL,NULL)"
BUMP = """UPDATE sessions SET last_seq = last_seq + 1, updated_at = ?, activity = CASE WHEN activity <= ? THEN ? ELSE
activity END, expires_at = CASE WHEN ? + renewal - expires_at >= renewal_grain THEN ? + renewal ELSE expires_at END,
live_events = live_events + 1, live_turns = live_turns + 1, live_tokens = live_tokens + 100
WHERE app = 'default' AND id = 'floor' AND (expires_at IS NULL OR expires_at > ?) AND user_id = 'ada'
AND ended_at IS NULL AND aliased = 0 RETURNING skey, last_seq"""


def sqlite_floor(path: Path) -> tuple[Callable[[], object], Callable[[], object]]:
    """The same work by the driver alone, and one INSERT by itself, on the same tables and pragmas."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("PRAGMA secure_delete = ON")

    def equal_work() -> None:
        cursor = raw.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        skey, seq = cursor.execute(BUMP, (5, 0, 5, 5, 5, 5)).fetchone()
        cursor.execute(INSERT, (skey, seq, f"floor-{next(_numbers)}", TEXT))
        cursor.execute("COMMIT")

    def naked() -> None:
        raw.execute(INSERT, (10**9, next(_numbers), f"naked-{next(_numbers)}", TEXT))

    return equal_work, naked


def sqlite_appends(directory: Path) -> list[Row]:
    """Appends on SQLite, sync and async. The index of search is measured apart: one append in 512 pays for all."""
    path = directory / "append.db"
    with SessionService(f"sqlite:///{path}") as service:
        indexed = service.as_user("ada")
        ada = SessionService(log_of(service).store, search=False).as_user("ada")
        for name in ("one", "floor", "four", "state", "indexed"):
            ada.create(name)
        equal_work, naked = sqlite_floor(path)
        found = interleaved(
            {
                "one": lambda: ada.append("one", fresh()),
                "four": lambda: ada.append("four", [fresh(), fresh(), fresh(), fresh()]),
                "state": lambda: ada.append("state", fresh(), state_delta={"at": next(_numbers)}),
                "indexed": lambda: indexed.append("indexed", fresh()),
                "floor": equal_work,
                "naked": naked,
            },
            512,
        )
        asynchronous = asyncio.run(_async_appends(ada, 1000))
    one, floor, more = found["one"], found["floor"], found["indexed"]
    return [
        ("append of one, SQLite", f"{one:.0f} µs", f"{floor:.0f} µs", times(one, floor), "2x"),
        ("… to a naked INSERT", "", f"{found['naked']:.0f} µs", times(one, found["naked"]), "5x"),
        ("… with its share of the search index", f"{more:.0f} µs", f"{floor:.0f} µs", times(more, floor), ""),
        ("… with a change of state", f"{found['state']:.0f} µs", f"{one:.0f} µs", times(found["state"], one), ""),
        ("batch of four", f"{found['four']:.0f} µs", f"{one:.0f} µs", times(found["four"], one), "2x"),
        ("async append, SQLite", f"{asynchronous:.0f} µs", f"{one:.0f} µs", times(asynchronous, one), "2.5x"),
        ("fsyncs of 20 appends, FULL", _fsyncs(directory), "20", "", "1 each"),
    ]


async def _async_appends(ada: SessionService, rounds: int) -> float:
    """Microseconds of one append among many in a running loop."""
    await ada.aappend("one", fresh())
    start = time.perf_counter()
    for _ in range(rounds):
        await ada.aappend("one", fresh())
    return (time.perf_counter() - start) / rounds * 1e6


def _fsyncs(directory: Path) -> str:
    code = f"""
import os
from langchain_core.messages import HumanMessage
from langchain_sessions import SessionService
service = SessionService("sqlite:///{directory / "fsync.db"}")
service.create("s1")
service.append("s1", HumanMessage("first"))
os.write(1, b"BEGIN\\n")
for _ in range(20):
    service.append("s1", HumanMessage("hi"))
os.write(1, b"END\\n")
"""
    found = count_fsyncs(code)
    return "" if found is None else str(found)


def sqlite_reads(directory: Path) -> list[Row]:
    """Long logs on SQLite: appends into them and reads of their end."""
    path = directory / "long.db"
    rows: list[Row] = []
    with SessionService(f"sqlite:///{path}") as service:
        ada = service.as_user("ada")
        for name, size in (("short", 100), ("middle", 1_000), ("long", 100_000)):
            ada.create(name)
            for start in range(0, size, 500):
                ada.append(name, [fresh() for _ in range(min(500, size - start))])
        appends = interleaved({name: _appender(ada, name) for name in ("short", "long")}, 300)
        floor = _read_floor(path)
        reads = interleaved(
            {
                "long": lambda: ada.messages("long", last_n=20),
                "middle": lambda: ada.messages("middle", last_n=20),
                "floor": floor,
            },
            200,
        )
        tracemalloc.start()
        ada.messages("long", last_n=20)
        peak = tracemalloc.get_traced_memory()[1] / 1024
        tracemalloc.stop()
    short, long = appends["short"], appends["long"]
    rows.append(("append into 100 000", f"{long:.0f} µs", f"{short:.0f} µs", times(long, short), "1.1x"))
    last, same = reads["long"], reads["middle"]
    rows.append(("last 20 of 100 000", f"{last:.0f} µs", f"{reads['floor']:.0f} µs", times(last, reads["floor"]), "4x"))
    rows.append(("… to the same of 1 000", "", f"{same:.0f} µs", times(last, same), "1.2x"))
    rows.append(("… memory", f"{peak:.0f} KiB", "", "", "100 KiB"))
    return rows


def _appender(service: SessionService, name: str) -> Callable[[], object]:
    return lambda: service.append(name, fresh())


def _read_floor(path: Path) -> Callable[[], object]:
    """The same rows by the driver alone, and message objects of them."""
    raw = sqlite3.connect(path, isolation_level=None)
    skey = raw.execute("SELECT skey FROM sessions WHERE id = 'long'").fetchone()[0]
    query = "SELECT * FROM events WHERE skey = ? ORDER BY skey DESC, seq DESC LIMIT 20"

    def read() -> list[HumanMessage]:
        return [HumanMessage(row[14], id=row[2]) for row in reversed(raw.execute(query, (skey,)).fetchall())]

    return read


def sqlite_lists(directory: Path) -> list[Row]:
    """The 50 most recent of 20 000 sessions."""
    path = directory / "list.db"
    with SessionService(f"sqlite:///{path}", synchronous="NORMAL") as service:
        ada = service.as_user("ada")
        for at in range(20_000):
            ada.create(f"s{at}")
        raw = sqlite3.connect(path, isolation_level=None)
        query = "SELECT * FROM sessions WHERE app = 'default' AND user_id = 'ada' ORDER BY activity DESC LIMIT 50"
        found = interleaved(
            {"ours": lambda: ada.list_sessions(limit=50), "floor": lambda: raw.execute(query).fetchall()}, 50
        )
    ours, floor = found["ours"], found["floor"]
    return [("50 of 20 000 sessions", f"{ours:.0f} µs", f"{floor:.0f} µs", times(ours, floor), "4x")]


def server_appends(name: str, url: str) -> list[Row]:
    """One append on a server: time beside the driver alone, and round trips counted on the wire."""
    target = make_url(url)
    with SessionService(url, table_prefix="bench_") as service:
        service.create_schema()
        ada = service.as_user("ada")
        for session in ("one", "floor"):
            ada.delete(session)
            ada.create(session)
        floor = _server_floor(name, url)
        found = interleaved({"one": lambda: ada.append("one", fresh()), "floor": floor}, 100)
    proxy = CountingProxy(str(target.host), int(target.port or 0))
    with SessionService(target.set(host="127.0.0.1", port=proxy.port), table_prefix="bench_") as service:
        ada = service.as_user("ada")
        ada.append("one", fresh())
        before = proxy.round_trips
        for _ in range(10):
            ada.append("one", fresh())
        trips = (proxy.round_trips - before) / 10
    proxy.close()
    one = found["one"]
    goal = "1" if name == "postgres" else "fewest"
    return [
        (f"append of one, {name}", f"{one:.0f} µs", f"{found['floor']:.0f} µs", times(one, found["floor"]), "2x"),
        ("… round trips", f"{trips:g}", "", "", goal),
    ]


def _server_floor(name: str, url: str) -> Callable[[], object]:
    """The same work in two statements and a commit, by the driver alone."""
    bump = BUMP.replace("sessions", "bench_sessions").replace("?", "%s")
    insert = INSERT.replace("events", "bench_events", 1).replace("?", "%s")
    target = make_url(url)
    if name == "postgres":
        import psycopg  # noqa: PLC0415 - only where the server is there

        raw: Any = psycopg.connect(target.set(drivername="postgresql").render_as_string(hide_password=False))
        raw.autocommit = True
        values = "skey, last_seq, %s::varchar, 0, NULL, NULL, 1, 16, 1, 100, NULL, NULL, NULL, NULL, %s::text"
        one = f"WITH bump AS ({bump}) INSERT INTO bench_events SELECT {values}, NULL, NULL, NULL FROM bump"  # noqa: S608
        return lambda: raw.execute(one, (5, 0, 5, 5, 5, 5, f"floor-{next(_numbers)}", TEXT))
    import pymysql  # noqa: PLC0415 - only where the server is there

    raw = pymysql.connect(
        host=target.host,
        port=target.port or 3306,
        user=target.username,
        password=str(target.password),
        db=target.database,
    )
    bump = bump.replace("last_seq = last_seq + 1", "last_seq = LAST_INSERT_ID(last_seq + 1)").split(" RETURNING")[0]
    with raw.cursor() as cursor:
        cursor.execute("SELECT skey FROM bench_sessions WHERE id = 'floor'")
        skey = cursor.fetchone()[0]

    def equal_work() -> None:
        cursor = raw.cursor()
        cursor.execute(bump, (5, 0, 5, 5, 5, 5))
        cursor.execute(insert, (skey, cursor.lastrowid, f"floor-{next(_numbers)}", TEXT))
        raw.commit()

    return equal_work


def main() -> None:
    """Print the table."""
    rows: list[Row] = [("what", "here", "floor", "ratio", "goal ≤")]
    with memory_directory() as directory:
        rows += sqlite_appends(directory)
        rows += sqlite_reads(directory)
        rows += sqlite_lists(directory)
    for name in ("postgres", "mariadb"):
        url = os.environ.get(f"LANGCHAIN_SESSIONS_TEST_{name.upper()}")
        rows += server_appends(name, url) if url else [(f"append of one, {name}", "", "", "", "2x")]
    show(rows)


if __name__ == "__main__":
    main()
