"""What grows: a session past the bound of a partition, writers on one session, values beyond what a batch may hold."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import InvalidInputError, PartitionedStore, SessionService
from langchain_sessions._log.log import log_of
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._wide import shelves
from langchain_sessions.stores.engine import Head, Partition, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_sessions._core.flow import Flow
    from tests.engines.counting import Counting

from tests.engines.conftest import URL
from tests.engines.past import rows_past


@pytest.fixture
def app() -> str:
    return f"app-{secrets.token_hex(6)}"


def service_on(engine: CassandraEngine, app: str, **options: Any) -> SessionService:
    return SessionService(PartitionedStore(engine), app=app, **options).as_user("ada")


def rows_of(engine: CassandraEngine, partition: Partition, table: str) -> int:
    """How many rows of a partition a table has, asked past the engine."""
    where = '"app" = %s AND "kind" = %s AND "id" = %s'
    what = '"shelf"' if table == "shelves" else '"key"'
    more = " ALLOW FILTERING" if table == "shelves" else ""
    return len(rows_past(engine, f'SELECT {what} FROM "sessions_{table}" WHERE {where}{more}', (*partition,)))


@pytest.fixture
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are sealed at 200 rows, so that a test sees many seals."""
    monkeypatch.setattr(shelves, "MOST", 200 * 512)
    monkeypatch.setattr(shelves, "KEPT", 50 * 512)


@pytest.mark.usefixtures("small_partitions")
def test_a_long_session_is_kept_on_shelves_and_reads_as_one(counting: Counting, app: str) -> None:
    sessions = service_on(counting, app)
    sessions.create("s1")
    for start in range(0, 900, 30):
        sessions.append("s1", [HumanMessage(f"word{number}", id=f"m{number}") for number in range(start, start + 30)])
    partition = Partition(app, "s", keys.digest("s1"))
    assert rows_of(counting, partition, "rows") < 400
    # A second process knows nothing of what the first one has seen.
    other = service_on(CassandraEngine(URL), app)
    for each in (sessions, other):
        assert [event.id for event in each.events("s1")] == [f"m{number}" for number in range(900)]
        assert [message.id for message in each.messages("s1", last_n=3)] == ["m897", "m898", "m899"]
        assert each.search("word17", session_id="s1").items[0].event.id == "m17"
        assert each.verify("s1") == []
    assert len(other.append("s1", HumanMessage("word3", id="m3"))) == 1
    assert sessions.get("s1").version == 900
    other.rewind("s1", to_seq=450)
    assert [message.id for message in sessions.messages("s1", last_n=2)] == ["m448", "m449"]
    fork = sessions.fork("s1", at_seq=120, new_id="s2")
    assert fork.version == 120
    assert sessions.verify("s2") == other.verify("s1") == []
    assert sessions.delete("s1")
    assert rows_of(counting, partition, "rows") == 1
    assert rows_of(counting, partition, "shelves") == 0
    log_of(other).store.close()


@pytest.mark.usefixtures("small_partitions")
def test_both_steps_of_a_seal_may_be_repeated_and_happen_at_once(counting: Counting, app: str) -> None:
    """Copied but not removed, sealed by two processes, and written to meanwhile: every row is there once."""
    partition = Partition(app, "s", "1" * 32)
    names = [f"{7:016x}/e/{(1 << 63) + number:016x}" for number in range(600)]
    for version in range(6):
        rows: dict[str, bytes | None] = dict.fromkeys(names[version * 100 :][:100], b"old")
        rows[names[0]] = b"%d" % version
        assert counting.commit(partition, version, Head(version + 1, b""), rows)
    others = [CassandraEngine(URL) for _ in range(3)]
    threads = [threading.Thread(target=lambda it=it: list(_drive(shelves.seal(it, partition)))) for it in others]
    for thread in threads:
        thread.start()
    counting.read_heads([partition])
    assert counting.commit(partition, 6, Head(7, b""), {names[1]: b"new", names[2]: None})
    for thread in threads:
        thread.join()
    for it in (*others, counting):
        it.read_heads([partition])
        found = it.read_rows(partition, [Range("0", "~")])[0]
        assert [row.key for row in found] == [*names[:2], *names[3:]]
        assert [row.value for row in found[:2]] == [b"5", b"new"]
        assert [row.key for row in it.read_rows(partition, [Range("0", "~", 5, newest=True)])[0]] == names[:-6:-1]
        assert [row.key for row in it.read_rows(partition, [Range("0", "~", 3)])[0]] == [*names[:2], names[3]]
        it.close()


def _drive(flow: Flow[None]) -> Iterator[None]:
    from langchain_sessions._core.flow import drive  # noqa: PLC0415

    drive(flow)
    yield


@pytest.mark.usefixtures("small_partitions")
def test_calls_cost_the_same_however_long_the_session_is(counting: Counting, app: str) -> None:
    """Statements and rows of each call, at 100 events and at 3000; the last twenty touch one partition."""
    sessions = service_on(counting, app, search=False)
    sessions.create("s1")

    calls: dict[str, Callable[[], object]] = {
        "append": lambda: sessions.append("s1", HumanMessage("one more")),
        "messages": lambda: sessions.messages("s1", last_n=20),
        "get": lambda: sessions.get("s1"),
    }

    def costs() -> dict[str, list[tuple[str, int]]]:
        found: dict[str, list[tuple[str, int]]] = {}
        for name, call in calls.items():
            counting.reset()
            call()
            found[name] = [each for each in counting.reset() if each[0] not in {"enter", "leave"}]
        return found

    sessions.append("s1", [HumanMessage(f"word{number}") for number in range(100)])
    short = costs()
    for start in range(0, 3000, 50):
        sessions.append("s1", [HumanMessage(f"word{number}") for number in range(start, start + 50)])
    long = costs()
    assert {name for name, _ in long["messages"]} == {"head", "rows_newest"}
    assert [name for name, _ in long["get"]] == [name for name, _ in short["get"]] == ["head"]
    for name in short:
        assert sum(rows for _, rows in long[name]) <= sum(rows for _, rows in short[name]) + 2
        # Names are looked for on one shelf too, and whether more went there meanwhile.
        assert len(long[name]) <= len(short[name]) + 2


@pytest.mark.timeout(240)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_of_eight_writers_of_one_session_each_gets_through(engine: CassandraEngine, app: str, face: str) -> None:
    """480 appends within two minutes: none lost, none twice, each writer's in its order."""
    began = time.monotonic()
    sessions = service_on(engine, app, search=False)
    sessions.create("s1")

    def write(writer: int) -> None:
        for number in range(60):
            sessions.append("s1", HumanMessage("x", id=f"{writer}-{number}"))

    async def awrite(writer: int) -> None:
        for number in range(60):
            await sessions.aappend("s1", HumanMessage("x", id=f"{writer}-{number}"))

    async def all_of_them() -> None:
        await asyncio.gather(*(awrite(writer) for writer in range(8)))

    if face == "async":
        asyncio.run(all_of_them())
    else:
        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [str(event.id) for event in sessions.events("s1")]
    assert len(found) == len({*found}) == 480
    for writer in range(8):
        mine = [name for name in found if name.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{number}" for number in range(60)]
    assert time.monotonic() - began < 120


def test_a_large_value_is_stored_in_pieces_and_one_too_large_for_a_batch_is_refused(
    engine: CassandraEngine, app: str
) -> None:
    sessions = service_on(engine, app)
    sessions.create("s1")
    text = "語" * 7_000_000
    sessions.append("s1", HumanMessage(text, id="big"))
    assert sessions.messages("s1")[0].content == text
    partition = Partition(app, "s", keys.digest("s1"))
    assert rows_of(engine, partition, "shelves") > 20
    head = engine.read_heads([partition])[0]
    assert head is not None
    with pytest.raises(InvalidInputError, match="8000000 at once"):
        engine.commit(partition, head.version, head._replace(version=head.version + 1, body=b"x" * 9_000_000), {})
    assert engine.read_heads([partition]) == [head]
    sessions.delete("s1")
    assert rows_of(engine, partition, "shelves") == 0
