"""What `PartitionedStore` asks of an engine: compare-and-set, order, ranges, lists, removal.

from langchain_sessions.testing import EngineContract

class TestMyEngine(EngineContract):
@pytest.fixture
def engine(self):
engine = MyEngine()
yield engine
engine.close()
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

import pytest

from langchain_sessions._core.rows import ANYONE
from langchain_sessions.errors import CommitUnknownError
from langchain_sessions.stores.engine import Head, Partition, Range, Row
from langchain_sessions.testing.faces import FACES, Face, PrivateLoop, faced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions.stores.engine import PartitionEngine

_ALL = Range("", "~")


class EngineContract:
    """All that an engine must do. A subclass supplies `engine`; each test works in an app of its own.

    Attributes:
        faces: The faces to test; an engine that has only one says so.
    """

    faces: ClassVar[tuple[Face, ...]] = FACES

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test once on each face."""
        if "face" in metafunc.fixturenames:
            metafunc.parametrize("face", self.faces)

    @pytest.fixture
    def engine(self) -> PartitionEngine:
        """The engine under test, its schema created."""
        pytest.fail("A subclass of EngineContract supplies an `engine` fixture that returns a PartitionEngine.")

    @pytest.fixture
    def loop(self) -> Iterator[PrivateLoop]:
        """Where the async face runs. An engine that is bound to one loop overrides this with that loop."""
        loop = PrivateLoop()
        yield loop
        loop.close()

    @pytest.fixture
    def it(self, engine: PartitionEngine, face: Face, loop: PrivateLoop) -> PartitionEngine:
        """The engine by one of its faces."""
        return faced(engine, face, loop)

    @pytest.fixture
    def app(self) -> str:
        """An app that no other test uses."""
        return f"app-{secrets.token_hex(6)}"

    @pytest.fixture
    def one(self, app: str) -> Partition:
        """A partition that is not there yet."""
        return Partition(app, "s", "1" * 32)

    @staticmethod
    def names(it: PartitionEngine, partition: Partition, wanted: Range = _ALL) -> list[str]:
        """The keys of a range."""
        return [row.key for row in it.read_rows(partition, [wanted])[0]]

    # -- compare and set -----------------------------------------------------------------------------------

    def test_nothing_is_there_at_first(self, it: PartitionEngine, one: Partition) -> None:
        assert it.read_heads([one]) == [None]
        assert it.read_rows(one, [_ALL]) == [[]]
        assert it.read_heads([]) == []
        assert it.read_rows(one, []) == []

    def test_a_commit_sets_head_and_rows(self, it: PartitionEngine, one: Partition) -> None:
        head = Head(1, b'{"a":1}', "ada", (5, 7), 99)
        assert it.commit(one, 0, head, {"b": b"2", "a": b"1"}) is True
        assert it.read_heads([one]) == [head]
        assert it.read_rows(one, [_ALL]) == [[Row("a", b"1"), Row("b", b"2")]]
        assert it.commit(one, 1, Head(2, b"{}"), {"a": None, "b": b"3", "c": b""}) is True
        assert it.read_heads([one]) == [Head(2, b"{}")]
        assert it.read_rows(one, [_ALL]) == [[Row("b", b"3"), Row("c", b"")]]

    def test_a_stale_commit_changes_nothing(self, it: PartitionEngine, one: Partition) -> None:
        assert it.commit(one, 1, Head(2, b""), {"a": b"1"}) is False
        assert it.read_heads([one]) == [None]
        assert it.commit(one, 0, Head(1, b"x"), {"a": b"1"}) is True
        for expected in (0, 2):
            assert it.commit(one, expected, Head(expected + 1, b"y"), {"a": b"2", "b": b"2"}) is False
        assert it.commit(one, 0, None, {}) is False
        assert it.read_heads([one]) == [Head(1, b"x")]
        assert it.read_rows(one, [_ALL]) == [[Row("a", b"1")]]

    def test_a_head_that_is_removed(self, it: PartitionEngine, one: Partition) -> None:
        assert it.commit(one, 0, Head(1, b"x", None, (1, 1), 1), {})
        assert it.commit(one, 1, None, {}) is True
        assert it.read_heads([one]) == [None]
        assert it.list_heads(one.app, ANYONE, None, 9) == it.list_due(one.app, 9, None, 9) == []
        assert it.commit(one, 0, Head(1, b"y"), {"n": b""}) is True
        assert "n" in self.names(it, one)

    def test_partitions_are_apart(self, it: PartitionEngine, one: Partition) -> None:
        others = [one._replace(id="2" * 32), one._replace(kind="u"), one._replace(app=f"{one.app}A")]
        assert it.commit(one, 0, Head(1, b"1"), {"a": b"1"})
        assert it.read_heads([*others, one]) == [None, None, None, Head(1, b"1")]
        assert all(it.commit(other, 0, Head(1, b"2"), {"a": b"2"}) for other in others)
        assert it.read_rows(one, [_ALL]) == [[Row("a", b"1")]]

    def test_any_bytes_come_back(self, it: PartitionEngine, one: Partition) -> None:
        value = bytes(range(256)) * 4096
        owner = "Zoë \N{PILE OF POO}'\"%_"
        head = Head(1, bytes(range(256)), owner, (2**52, 2**62), 2**52)
        assert it.commit(one, 0, head, {"v": value})
        assert it.read_heads([one]) == [head]
        assert it.read_rows(one, [_ALL])[0][0].value == value
        assert [entry.partition for entry in it.list_heads(one.app, owner, None, 9)] == [one]

    def test_of_many_committers_each_gets_its_turn(self, engine: PartitionEngine, one: Partition) -> None:
        """No commit is lost and none is applied over a newer one."""

        def is_written(version: int, value: bytes) -> bool:
            try:
                return engine.commit(one, version, Head(version + 1, b""), {f"{version:04}": value})
            except CommitUnknownError:
                # The head remembers some of its commits, and the others were quick: the row that it set says it.
                return Row(f"{version:04}", value) in engine.read_rows(one, [_ALL])[0]

        def write(writer: int) -> None:
            for number in range(20):
                while True:
                    head = engine.read_heads([one])[0]
                    if is_written(0 if head is None else head.version, b"%d/%d" % (writer, number)):
                        break

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        rows = engine.read_rows(one, [_ALL])[0]
        assert [row.key for row in rows] == [f"{version:04}" for version in range(80)]
        assert {row.value for row in rows} == {
            b"%d/%d" % (writer, number) for writer in range(4) for number in range(20)
        }

    # -- rows ----------------------------------------------------------------------------------------------

    def test_ranges_are_in_order(self, it: PartitionEngine, one: Partition) -> None:
        keys = ["0/a", "0/b", "0/b!", "0/b/1", "00", "0a", "1/9", "1/a", "1f/0"]
        assert it.commit(one, 0, Head(1, b""), dict.fromkeys(reversed(keys), b""))
        assert self.names(it, one) == keys
        found = it.read_rows(
            one,
            [
                Range("0/b", "0/b!"),
                Range("0/", "00"),
                Range("0/", "2", 2),
                Range("0/", "2", 2, newest=True),
                Range("0/b", "1/a", newest=True),
                Range("2", "3"),
                Range("1/a", "1/a"),
            ],
        )
        assert [[row.key for row in rows] for rows in found] == [
            ["0/b"],
            ["0/a", "0/b", "0/b!", "0/b/1"],
            ["0/a", "0/b"],
            ["1f/0", "1/a"],
            ["1/9", "0a", "00", "0/b/1", "0/b!", "0/b"],
            [],
            [],
        ]

    def test_many_rows(self, it: PartitionEngine, one: Partition) -> None:
        keys = [f"e/{number:05}" for number in range(1200)]
        assert it.commit(one, 0, Head(1, b""), dict.fromkeys(keys, b"x" * 100))
        assert self.names(it, one) == keys
        assert self.names(it, one, Range("e/", "e0", 3, newest=True)) == keys[:-4:-1]
        assert it.read_rows(one, [Range(key, f"{key}!") for key in keys[:300]]) == [
            [Row(key, b"x" * 100)] for key in keys[:300]
        ]

    def test_rows_are_removed_below_a_key(self, it: PartitionEngine, one: Partition) -> None:
        other = one._replace(id="2" * 32)
        for partition in (one, other):
            assert it.commit(partition, 0, Head(1, b""), dict.fromkeys(["1/a", "1/b", "2/a"], b""))
        for _ in range(2):
            it.remove_rows(one, "2/")
            assert self.names(it, one) == ["2/a"]
        assert it.read_heads([one]) == [Head(1, b"")]
        assert self.names(it, other) == ["1/a", "1/b", "2/a"]
        it.remove_rows(one._replace(id="3" * 32), "9")

    # -- lists ---------------------------------------------------------------------------------------------

    def test_lists_are_by_owner_and_newest_first(self, it: PartitionEngine, app: str) -> None:
        owners = ["ada", "Ada", None, "ada", "", "ada"]
        for number, owner in enumerate(owners):
            head = Head(1, b"", owner, (number // 2, number))
            assert it.commit(Partition(app, "s", f"{number:032}"), 0, head, {})
        assert it.commit(Partition(app, "u", "f" * 32), 0, Head(1, b"", "ada"), {})

        def listed(owner: object, after: tuple[int, int] | None = None, limit: int = 9) -> list[tuple[int, int]]:
            return [entry.place for entry in it.list_heads(app, owner, after, limit)]  # type: ignore[arg-type]

        assert listed("ada") == [(2, 5), (1, 3), (0, 0)]
        assert listed("Ada") == [(0, 1)]
        assert listed(None) == [(1, 2)]
        assert listed("") == [(2, 4)]
        assert listed(ANYONE, limit=2) == [(2, 5), (2, 4)]
        assert listed(ANYONE, (2, 4)) == [(1, 3), (1, 2), (0, 1), (0, 0)]
        assert listed("ada", (1, 3)) == [(0, 0)]
        assert listed("nobody") == []

    def test_what_moves_is_in_its_new_place(self, it: PartitionEngine, one: Partition) -> None:
        """An entry for the old place may stay; whoever reads the list compares it with the head."""
        assert it.commit(one, 0, Head(1, b"", "ada", (1, 1)), {})
        assert it.commit(one, 1, Head(2, b"", "ada", (7, 1)), {})
        entries = it.list_heads(one.app, "ada", None, 9)
        assert entries[0] == (one, (7, 1))
        assert it.commit(one, 2, Head(3, b"", "ada"), {})
        heads = it.read_heads([entry.partition for entry in it.list_heads(one.app, "ada", None, 9)])
        assert all(head is not None and head.listed is None for head in heads)

    def test_what_is_due(self, it: PartitionEngine, app: str) -> None:
        dues = [30, None, 10, 20, 20]
        for number, due in enumerate(dues):
            assert it.commit(Partition(app, "s", f"{number:032}"), 0, Head(1, b"", due=due), {})
        found = it.list_due(app, 20, None, 9)
        assert [(entry.place, int(entry.partition.id)) for entry in found] == [((10, 0), 2), ((20, 0), 3), ((20, 0), 4)]
        assert it.list_due(app, 20, None, 1) == found[:1]
        assert it.list_due(app, 20, found[1], 9) == found[2:]
        assert it.list_due(app, 9, None, 9) == []
