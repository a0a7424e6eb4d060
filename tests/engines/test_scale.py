"""What calls ask of Cassandra where there is much: a session of 100 000 events, and a million sessions."""

from __future__ import annotations

import json
import os
import secrets
import time
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_sessions import EventFilter, PartitionedStore, SessionCheckpointSaver, SessionService
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._wide import lists
from langchain_sessions.stores.engine import Head, Partition
from tests.engines.past import rows_past

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from langchain_sessions.stores._cassandra.engine import CassandraEngine
    from tests.engines.counting import Counting

EVENTS: Final = int(os.environ.get("LANGCHAIN_SESSIONS_EVENTS", "12000"))
"""Past the bound of a partition, so that it is sealed; `make soak PARTS=cassandra` appends 100 000."""
HEADS: Final = int(os.environ.get("LANGCHAIN_SESSIONS_HEADS", "8000"))
"""`make soak PARTS=cassandra` fills a million."""
FEW: Final = 100
USERS: Final = 20
MONTH: Final = 30 * 86_400_000_000
_PAGE_READ: Final = 70
"""Of a list, for a page of twenty: what moved meanwhile is left out."""
_INSERT = (
    'INSERT INTO "sessions_rows" ("app", "kind", "id", "key", "version", "value", "owner", "place", "stamp", "weight") '
    "VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, ?)"
)


@pytest.fixture
def app() -> str:
    return f"app-{secrets.token_hex(6)}"


def service_on(engine: CassandraEngine, app: str) -> SessionService:
    return SessionService(PartitionedStore(engine), app=app, search=False)


Cost = dict[str, tuple[int, int]]
"""Of each statement how often it was asked for, and how many rows it found."""


def cost_of(counting: Counting, call: Callable[[], object]) -> Cost:
    """What a call asks for at the second time: once a minute an append moves a session in its lists.

    The least of two, since of an answer that a busy node did not give in time it is asked what became of it.
    """
    call()
    return min((_cost(counting, call) for _ in range(2)), key=total)


def _cost(counting: Counting, call: Callable[[], object]) -> Cost:
    counting.reset()
    call()
    found: Cost = {}
    for name, rows in counting.reset():
        if name not in {"enter", "leave"}:
            times, before = found.get(name, (0, 0))
            found[name] = (times + 1, before + rows)
    return found


def total(cost: Cost) -> tuple[int, int]:
    return sum(times for times, _ in cost.values()), sum(rows for _, rows in cost.values())


@pytest.mark.timeout(7200)
def test_calls_cost_the_same_at_100_events_and_past_the_bound_of_a_partition(
    counting: Counting, app: str, record_property: Callable[[str, object], None]
) -> None:
    sessions = service_on(counting, app).as_user("ada")
    sessions.create("s1")
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: sessions.append("s1", HumanMessage("one more")),
        "messages": lambda: sessions.messages("s1", last_n=20),
        "a page behind a position": lambda: sessions.events("s1", EventFilter(after_seq=20, page_size=20)),
        "get": lambda: sessions.get("s1"),
    }
    costs: list[dict[str, Cost]] = []
    began, done = time.monotonic(), 0
    for size in (100, EVENTS):
        while done < size:
            some = range(done, min(size, done + 1000))
            sessions.append("s1", [HumanMessage(f"word{number}", id=f"m{number}") for number in some])
            done = some.stop
        costs.append({name: cost_of(counting, call) for name, call in calls.items()})
    short, long = costs
    for name in calls:
        said = " and ".join("{} statements, {} rows".format(*total(each[name])) for each in costs)
        record_property("figure", f"{name} at 100 and at {EVENTS} events: {said}")
        # Ids are looked for on a shelf too, and a large session is looked at for having moved meanwhile.
        assert total(long[name])[0] <= total(short[name])[0] + 2, (short, long)
        # A page of what lies on a shelf reads as much of the session's own partition.
        most = 20 if name == "a page behind a position" else 2
        assert total(long[name])[1] <= total(short[name])[1] + most, (short, long)
    # The last twenty are read from the session's own partition alone.
    assert "shelf" not in long["messages"]
    assert "shelf_newest" not in long["messages"]
    assert long["messages"]["rows_newest"][0] == 1
    record_property("figure", f"{EVENTS} events, 1000 in each append: {time.monotonic() - began:.0f} s")
    partition = (app, "s", keys.digest("s1"))
    kept = rows_past(
        counting, 'SELECT "key" FROM "sessions_rows" WHERE "app" = %s AND "kind" = %s AND "id" = %s', partition
    )
    assert len(kept) < 21_000
    assert sessions.messages("s1", last_n=1)[0].content == "one more"
    page = sessions.events("s1", EventFilter(after_seq=5_000, page_size=2))
    assert [event.id for event in page] == ["m4997", "m4998"]


def test_a_checkpoint_is_one_commit_and_so_are_its_writes(counting: Counting, app: str) -> None:
    saver = SessionCheckpointSaver(service_on(counting, app).as_user("ada"))
    config: Any = {"configurable": {"thread_id": "s1", "checkpoint_ns": ""}}
    for step in range(4):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": [HumanMessage(f"word{step}", id=f"m{step}")], "n": step}
        checkpoint["channel_versions"] = {"messages": f"{step + 1:032}.1", "n": f"{step + 1:032}.1"}
        counting.reset()
        versions = checkpoint["channel_versions"]
        config = saver.put(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, versions)
        assert [name for name, _ in counting.reset()].count("batch") == 1
        saver.put_writes(config, [("n", step + 1), ("messages", [])], task_id=f"t{step}")
        assert [name for name, _ in counting.reset()].count("batch") == 1
    found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"]["n"] == 3


# -- many sessions -----------------------------------------------------------------------------------------


def heads_like(body: bytes, app: str, name: str, count: int, users: int) -> Iterator[tuple[Partition, Head]]:
    """Sessions like one that the library made, of some users, in the days of one month."""
    document = json.loads(body)
    row = document["session"]
    newest = row["activity"]
    for number in range(count):
        row["id"], row["user_id"] = f"{name}-{number}", f"user{number % users}"
        row["skey"] = count * 1_000_000 + number
        row["activity"] = newest - number * MONTH // count
        text = json.dumps(document, separators=(",", ":")).encode()
        head = Head(1, text, row["user_id"], (row["activity"], row["skey"]))
        yield Partition(app, "s", keys.digest(row["id"])), head


def fill(engine: CassandraEngine, made: Iterable[tuple[Partition, Head]]) -> None:
    """Write heads and their entries in lists past the engine, a batch for some of them."""
    from cassandra import InvalidRequest  # noqa: PLC0415 - an extra
    from cassandra.concurrent import execute_concurrent  # noqa: PLC0415
    from cassandra.query import BatchStatement, BatchType  # noqa: PLC0415

    session, profile = engine._link.session(), engine._link._profiles[False]
    insert, enter = session.prepare(_INSERT), engine._link._prepared["enter"]
    noted: set[tuple[str, str, int]] = set()
    source = iter(made)
    while some := [*islice(source, 4000)]:
        rows = [(*it, head.version, head.body, head.owner, head.listed, b"raw head", 0) for it, head in some]
        entries = sorted(do.values for it in some for do in lists.entering(noted, it[0], None, it[1]))
        groups = [(insert, rows, 30), *((enter, [*each], 100) for _, each in groupby(entries, itemgetter(0, 1, 2)))]
        work: list[tuple[Any, Any]] = []
        for statement, each, at_once in groups:
            left = iter(each)
            while values := [*islice(left, at_once)]:
                batch = BatchStatement(BatchType.UNLOGGED)
                batch.add_all([statement] * len(values), values)
                work.append((batch, None))
        while work:  # what a busy node did not answer in time is written once more
            done = execute_concurrent(
                session, work, concurrency=16, raise_on_first_error=False, execution_profile=profile
            )
            failed = [(each, error) for each, (is_done, error) in zip(work, done, strict=True) if not is_done]
            if any(isinstance(error, InvalidRequest) for _, error in failed):
                raise failed[0][1]
            work = [each for each, _ in failed]


def calls_on(engine: CassandraEngine, app: str) -> dict[str, Callable[[], object]]:
    """What is done among the sessions of one user, and in those of another who has twenty."""
    everybody = SessionService(PartitionedStore(engine), app=app)
    sessions, grace = everybody.as_user("user0"), everybody.as_user("grace")
    said = [HumanMessage(f"word{number} of a conversation") for number in range(30)]
    sessions.open("mine")
    sessions.append("mine", said, state_delta={"k": 1, "user:k": 2, "app:k": 3})
    for each in range(20):
        grace.open(f"hers-{each}")
        grace.append(f"hers-{each}", said)
    return {
        "create": lambda: sessions.create(f"new-{secrets.token_hex(4)}"),
        "open": lambda: sessions.open("few-99"),
        "append": lambda: sessions.append("few-99", HumanMessage("x")),
        "the last twenty": lambda: sessions.messages("mine", last_n=20),
        "get": lambda: sessions.get("mine"),
        "state": lambda: sessions.state("mine"),
        "a page of a user's list": lambda: sessions.list_sessions(limit=20),
        "a page of everybody's list": lambda: everybody.list_sessions(limit=20),
        "a page of a search in a session": lambda: sessions.search("word17", session_id="mine"),
        "a page of a search over a user's twenty sessions": lambda: grace.search("word17"),
    }


@pytest.mark.timeout(7200)
def test_calls_cost_the_same_among_few_sessions_and_among_very_many(
    counting: Counting, app: str, record_property: Callable[[str, object], None]
) -> None:
    sessions = SessionService(PartitionedStore(counting), app=app).as_user("user0")
    sessions.create("first")
    [head] = counting.read_heads([Partition(app, "s", keys.digest("first"))])
    assert head is not None
    calls = calls_on(counting, app)
    costs: list[dict[str, Cost]] = []
    began = time.monotonic()
    # At first all are one user's, so that a page of their list is as long then as later.
    for name, count, users in (("few", FEW, 1), ("many", HEADS, USERS)):
        fill(counting, heads_like(head.body, app, name, count, users))
        costs.append({name: cost_of(counting, call) for name, call in calls.items()})
    record_property("figure", f"{HEADS} heads filled raw: {time.monotonic() - began:.0f} s")
    for name in calls:
        few, many = (total(each[name]) for each in costs)
        said = " and ".join("{} statements, {} rows".format(*each) for each in (few, many))
        record_property("figure", f"{name} among {FEW} and among {HEADS} sessions: {said}")
    short, long = costs
    for name in calls:
        assert total(long[name])[0] <= total(short[name])[0] + 2, (short, long)
        # Everybody's list is cut by days: soon after midnight the newest holds few, and a page is read of each of the
        # two before it, however many sessions there are.
        most = 2 * _PAGE_READ if name == "a page of everybody's list" else 2
        assert total(long[name])[1] <= total(short[name])[1] + most, (short, long)
    assert sessions.get(f"many-{HEADS - USERS}").user_id == "user0"
    assert len(sessions.list_sessions(limit=20).items) == 20
