"""What engines over wide-column stores have in common, over dictionaries: the contract, and answers that get lost."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionService, StoreUnavailableError
from langchain_sessions._core.flow import drive
from langchain_sessions.errors import CommitUnknownError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._wide import names, pieces, shelves
from langchain_sessions.stores._wide.work import Do
from langchain_sessions.stores.engine import Head, Partition, Range, Row
from langchain_sessions.testing import EngineContract, PrivateLoop
from langchain_sessions.testing.machine import machine_for
from tests.contract.wide import Database, DictEngine
from tests.engines.histories import History, Operation, anomalies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores.engine import PartitionEngine
    from langchain_sessions.testing import Face


class TestWidePartitions(EngineContract):
    """Partitions of rows, shelves and lists."""

    @pytest.fixture
    def engine(self) -> PartitionEngine:
        return DictEngine()


@pytest.fixture
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are sealed at 20 rows, so that a short session has many shelves."""
    monkeypatch.setattr(shelves, "MOST", 20 * 512)
    monkeypatch.setattr(shelves, "KEPT", 5 * 512)


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("face", ["sync", "async"])
def test_random_use_of_sessions_that_lie_on_shelves(face: Face) -> None:
    loop = PrivateLoop()
    machine = machine_for(lambda: (PartitionedStore(DictEngine()), face, loop))
    run_state_machine_as_test(machine, settings=settings(max_examples=15, stateful_step_count=30))
    loop.close()


def service_on(engine: PartitionEngine) -> SessionService:
    return SessionService(PartitionedStore(engine), search=False).as_user("ada")


FATES = ("before", "after", "late", "torn", "twice")


@pytest.mark.parametrize("lost", FATES)
def test_an_append_whose_answer_got_lost_is_there_once(lost: str) -> None:
    fate = [""]
    engine = DictEngine(lose=lambda: fate.pop() if fate else "")
    sessions = service_on(engine)
    sessions.create("s")
    for number in range(40):  # more than the names that a head has
        fate.append(lost)
        assert len(sessions.append("s", HumanMessage("x", id=f"m{number}"))) == 1
        assert fate == []
    assert [event.id for event in sessions.events("s")] == [f"m{number}" for number in range(40)]
    for call in (lambda: sessions.rewind("s", to_seq=20), lambda: sessions.delete("s")):
        fate.append(lost)
        call()
    sessions.create("s")
    assert sessions.messages("s") == []


def test_a_batch_that_is_refused_for_what_it_wrote_itself_was_written() -> None:
    engine = DictEngine(lose=lambda: "twice")
    partition = Partition("app", "s", "1" * 32)
    assert engine.commit(partition, 0, Head(1, b""), {"k": b"1"})
    assert engine.commit(partition, 1, Head(2, b""), {"k": b"2"})
    assert not engine.commit(partition, 1, Head(2, b"other"), {"k": b"3"})
    assert engine.read_rows(partition, [Range("", "~")]) == [[Row("k", b"2")]]


def test_what_a_batch_wrote_is_read_only_once_all_of_it_is_there() -> None:
    """A head that another process wrote may be seen before its rows; the first read asks serially."""
    database = Database()
    fate: list[str] = []
    writer = DictEngine(database, lose=lambda: fate.pop() if fate else "")
    partition = Partition("app", "s", "1" * 32)
    assert writer.commit(partition, 0, Head(1, b""), {"k1": b"1"})
    reader = DictEngine(database)
    assert reader.read_heads([partition]) == [Head(1, b"")]
    assert [row.key for row in reader.read_rows(partition, [Range("", "~")])[0]] == ["k1"]
    work = [Do("set_head", (0, 2, b"", None, None, None, b"another!", 1, *partition, stamp_of(database, partition)))]
    fate.append("torn")
    with pytest.raises(StoreUnavailableError):
        drive(writer.together([*work, Do("set_row", (b"2", *partition, "k2"))]))
    assert reader.read_heads([partition]) == [Head(2, b"")]
    assert [row.key for row in reader.read_rows(partition, [Range("", "~")])[0]] == ["k1", "k2"]


def stamp_of(database: Database, partition: Partition) -> bytes:
    return bytes(database.at(*partition).get("", "stamp")[0])


@pytest.mark.usefixtures("small_partitions")
def test_rows_that_move_to_a_shelf_while_they_are_read_are_there_once() -> None:
    """Sealed, changed and removed between a reader's look at the head and at the rows."""
    database = Database()
    steps: list[Callable[[], object]] = []
    partition = Partition("app", "s", "1" * 32)
    names = [f"{7:016x}/e/{(1 << 63) + number:016x}" for number in range(60)]
    writer = DictEngine(database)
    for version in range(6):  # none of these passes the bound
        assert writer.commit(
            partition, version, Head(version + 1, b""), dict.fromkeys(names[version * 3 :][:3], b"old")
        )
    reader = DictEngine(database, behind=lambda: steps.pop()() if steps else None)
    reader.read_heads([partition])
    changed: dict[str, bytes | None] = {names[0]: b"new", names[1]: None, names[18]: b"last", names[19]: b"last"}
    steps.append(lambda: writer.commit(partition, 6, Head(7, b""), {**changed, names[20]: b"last", names[21]: b"last"}))
    seen = [row.key for row in reader.read_rows(partition, [Range("0", "~")])[0]]
    assert seen == [names[0], *names[2:22]]
    assert writer.commit(partition, 7, Head(8, b""), {names[3]: None, names[4]: b"newer"})
    for it in (reader, writer, DictEngine(database)):
        it.read_heads([partition])
        found = it.read_rows(partition, [Range("0", "~")])[0]
        assert [row.key for row in found] == [names[0], names[2], *names[4:22]]
        assert [row.value for row in found[:3]] == [b"new", b"old", b"newer"]
        newest = it.read_rows(partition, [Range("0", names[5], 3, newest=True)])[0]
        assert [row.key for row in newest] == [names[4], names[2], names[0]]
    assert "set_shelf" in database.asked


def commit_that_others_follow(fate: str, others: int, *, earlier: int) -> tuple[bool, bool]:
    """Lose the answer of a commit that many others follow; what its writer is told, and what is true."""
    database = Database()
    other = DictEngine(database)
    partition = Partition("app", "s", "1" * 32)
    fates = [fate]

    def lose() -> str:
        return fates.pop() if fates else ""

    engine = DictEngine(database, lose=lose)
    for version in range(earlier):
        assert other.commit(partition, version, Head(version + 1, b"first"), {})
    engine.read_heads([partition])
    together = engine.together

    def late(work: Sequence[Do]) -> Flow[list[Any]]:
        try:
            return (yield from together(work))
        finally:
            [head] = other.read_heads([partition])
            version = 0 if head is None else head.version
            for each in range(version, version + others):
                assert other.commit(partition, each, Head(each + 1, b"other"), {})

    engine.together = late  # type: ignore[method-assign]
    told = engine.commit(partition, earlier, Head(earlier + 1, b"mine"), {"mine": b"1"})
    return told, bool(other.read_rows(partition, [Range("", "~")])[0])


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("others", [0, 1, 15, 40, 400])
@pytest.mark.parametrize("earlier", [0, 1, 30])
def test_what_became_of_a_commit_is_known_however_many_wrote_meanwhile(fate: str, others: int, earlier: int) -> None:
    told, is_true = commit_that_others_follow(fate, others, earlier=earlier)
    assert told is is_true


@pytest.mark.parametrize("fate", ["before", "after", "late", "torn"])
def test_what_became_of_a_commit_is_not_guessed_when_too_many_followed(fate: str) -> None:
    """Names are not kept for ever; where nobody can say, that is what is said."""
    with pytest.raises(CommitUnknownError):
        commit_that_others_follow(fate, 700, earlier=1)


def test_a_head_has_many_names_only_while_it_is_written_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database()
    engine = DictEngine(database)
    partition = Partition("app", "s", "1" * 32)
    now = [1_000_000]
    monkeypatch.setattr(names, "_now", lambda: int(now[0]) // 4 % 65536)
    for version in range(100):
        assert engine.commit(partition, version, Head(version + 1, b""), {})
    assert len(stamp_of(database, partition)) == 100 * 8
    now[0] += 600
    for version, kept in ((100, 16), (101, 16), (102, 16)):
        assert engine.commit(partition, version, Head(version + 1, b""), {})
        assert len(stamp_of(database, partition)) == kept * 8
    now[0] -= 60  # another process whose clock is behind
    for version in range(103, 140):
        assert engine.commit(partition, version, Head(version + 1, b""), {})
    assert len(stamp_of(database, partition)) == 40 * 8


def test_a_commit_looks_at_no_more_names_however_many_a_head_has(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    is_old = names._is_old

    def look(name: bytes, now: int) -> bool:
        looked.append(name)
        return is_old(name, now)

    monkeypatch.setattr(names, "_is_old", look)
    stamp = b"".join(names.new_name() for _ in range(600))
    for _ in range(10):
        stamp = names.followed_by(names.new_name(), stamp)
    assert (len(stamp), len(looked)) == (512 * 8, 10)


def test_a_name_of_a_clock_that_is_behind_takes_no_younger_ones_with_it() -> None:
    old = int.from_bytes(names.new_name()[:2], "big") - 40
    behind = (old % 65536).to_bytes(2, "big") + b"behind"
    young = [names.new_name() for _ in range(60)]
    stamp = names.followed_by(names.new_name(), b"".join([*young[:30], behind, *young[30:]]))
    assert stamp[8:] == b"".join([*young[:30], behind, *young[30:]])
    assert len(names.followed_by(names.new_name(), behind * 400)) == 16 * 8


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("seed", range(6))
def test_writers_whose_answers_get_lost_lose_and_double_nothing(seed: int) -> None:
    """Some order explains every history of appends and reads, on sessions that move to shelves meanwhile."""
    database, history = Database(), History()
    names = ("s1", "s2")
    for name in names:
        service_on(DictEngine(database)).create(name)

    def work(number: int) -> None:
        draw = random.Random(f"{seed}/{number}")  # noqa: S311 - what is lost
        fates = [*FATES, *[""] * 10]
        sessions = service_on(DictEngine(database, lose=lambda: draw.choice(fates)))
        for count in range(15):
            name, element, began = names[count % 2], f"{number}-{count}", history.now()
            try:
                sessions.append(name, HumanMessage("x", id=element))
            except StoreUnavailableError:
                history.add(Operation(began, None, name, element))
            else:
                history.add(Operation(began, history.now(), name, element))
            began = history.now()
            seen = tuple(str(event.id) for event in sessions.events(name))
            history.add(Operation(began, history.now(), name, seen=seen))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = service_on(DictEngine(database))
    for name in names:
        began = history.now()
        seen = tuple(str(event.id) for event in last.events(name))
        history.add(Operation(began, history.now(), name, seen=seen))
        assert last.verify(name) == []
    assert len(history.operations) == 4 * 30 + 2
    assert anomalies(history.operations) == []


@pytest.mark.usefixtures("small_partitions")
def test_what_was_blanked_stands_on_no_shelf_and_in_no_pieces() -> None:
    """Also where a commit of other pieces is under way, whose row is not there yet."""
    engine = DictEngine()
    sessions = service_on(engine)
    sessions.create("s")
    for number in range(40):
        text = "wombat " * 300_000 if number in (5, 39) else f"quokka{number} " * 3
        sessions.append("s", HumanMessage(text, id=f"m{number}"))
    partition = Partition("default", "s", keys.digest("s"))

    def left(word: bytes) -> int:
        """How many rows have a word, wherever they are."""
        every = [columns for where, columns in engine.database.rows.items() if where[:3] == partition]
        return sum(word in value for each in every for _, value, _ in each.values("\0", "\U0010ffff"))

    assert (left(b"quokka2 "), left(b"quokka38 "), left(b"quokka3 ")) == (1, 1, 1)
    assert left(b"wombat") == 6
    sessions.blank("s", "m2")
    sessions.blank("s", "m38")
    assert (left(b"quokka2 "), left(b"quokka38 "), left(b"quokka3 ")) == (0, 0, 1)
    sessions.blank("s", "m5")
    assert sessions.messages("s", last_n=1)[0].text == "wombat " * 300_000
    before = engine.read_heads([partition])[0]
    assert before is not None
    drive(pieces.cut(engine, partition, {"later": b"numbat " * 300_000}))
    sessions.blank("s", "m39")
    assert left(b"wombat") == 0
    assert sessions.verify("s") == []
    assert [event.id for event in sessions.events("s")][:40] == [f"m{number}" for number in range(40)]


@pytest.mark.usefixtures("small_partitions")
def test_a_session_that_was_removed_leaves_no_row_on_any_shelf() -> None:
    engine = DictEngine()
    sessions = service_on(engine)
    sessions.create("s")
    for number in range(60):
        sessions.append("s", HumanMessage("word " * (300_000 if number == 20 else 1), id=f"m{number}"))
    partition = Partition("default", "s", keys.digest("s"))
    assert len([where for where in engine.database.rows if where[:3] == partition]) > 3
    sessions.delete("s")
    left = {
        where: columns.values("", "\U0010ffff")
        for where, columns in engine.database.rows.items()
        if where[:3] == partition and columns.values("\0", "\U0010ffff")
    }
    assert left == {}
    assert engine.read_rows(partition, [Range("", "~")]) == [[]]
