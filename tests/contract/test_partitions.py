"""The small engine interface: two engines, and what the store makes of an engine that loses races and answers."""

from __future__ import annotations

import asyncio
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions.errors import CommitUnknownError, StoreUnavailableError
from langchain_sessions.service import SessionService
from langchain_sessions.stores._memory import MemoryEngine
from langchain_sessions.stores._partitioned.store import PartitionedStore
from langchain_sessions.testing import EngineContract
from langchain_sessions.testing.suites.appending import EditSuite, IdentitySuite, OrderSuite, VersionSuite
from langchain_sessions.testing.suites.blanking import BlankSuite
from langchain_sessions.testing.suites.invocations import InvocationSuite
from langchain_sessions.testing.suites.owning import OwnerSuite
from langchain_sessions.testing.suites.rewinding import ForkSuite, RewindSuite
from langchain_sessions.testing.suites.sessions import DeletionSuite, ExpirySuite, SessionSuite
from langchain_sessions.testing.suites.state import StateSuite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores.engine import Head, Partition, PartitionEngine

GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-store.md"


class TestMemoryEngine(EngineContract):
    """Partitions in a dictionary."""

    @pytest.fixture
    def engine(self) -> PartitionEngine:
        return MemoryEngine()


@pytest.fixture(scope="module")
def documented() -> type[PartitionEngine]:
    """The engine that the guide shows, as it is written there."""
    names: dict[str, Any] = {"__name__": "guide"}
    found = re.search(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    exec(compile(found.group(1), GUIDE.name, "exec"), names)  # noqa: S102 - our own documentation
    engine: type[PartitionEngine] = names["DictEngine"]
    return engine


class TestDocumentedEngine(EngineContract):
    """The guide's engine does all that an engine must."""

    @pytest.fixture
    def engine(self, documented: type[PartitionEngine]) -> PartitionEngine:
        return documented()


class TestDocumentedStore(
    OrderSuite,
    IdentitySuite,
    EditSuite,
    VersionSuite,
    RewindSuite,
    ForkSuite,
    InvocationSuite,
    BlankSuite,
    OwnerSuite,
    StateSuite,
    SessionSuite,
    ExpirySuite,
    DeletionSuite,
):
    """So a store over it keeps the contract."""

    @pytest.fixture
    def store(self, documented: type[PartitionEngine]) -> SessionStore:
        return PartitionedStore(documented())


class Unreliable(MemoryEngine):
    """Says no to a commit now and then as if somebody else had been faster, or loses its answer before or after it."""

    waits = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._draws = random.Random(seed)  # noqa: S311 - a seed makes a history

    def commit(self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]) -> bool:
        what = self._draws.randrange(6)
        if what == 0:
            return False
        if what == 1:
            raise CommitUnknownError
        done = super().commit(partition, expected, head, rows)
        if what == 2 and done:
            raise CommitUnknownError
        return done


class Awaiting(Unreliable):
    """The same on the loop: its async half is its own."""

    is_async = True

    async def aread_heads(self, partitions: Sequence[Partition]) -> list[Head | None]:
        await asyncio.sleep(0)
        return super().read_heads(partitions)

    async def acommit(
        self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
    ) -> bool:
        await asyncio.sleep(0)
        return super().commit(partition, expected, head, rows)


@pytest.mark.parametrize("seed", range(5))
def test_lost_answers_neither_lose_nor_double(seed: int) -> None:
    service = SessionService(PartitionedStore(Unreliable(seed))).as_user("ada")
    service.create("s")

    def write(writer: int) -> None:
        for number in range(10):
            service.append("s", HumanMessage(f"{writer}/{number}"), state_delta={f"k{writer}": number, "app:n": number})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    said = [str(message.content) for message in service.messages("s")]
    assert sorted(said) == sorted(f"{writer}/{number}" for writer in range(4) for number in range(10))
    assert service.state("s") == {**{f"k{writer}": 9 for writer in range(4)}, "app:n": 9}
    assert service.count("s").events == 40
    assert service.verify("s") == []


async def test_an_engine_of_its_own_loop() -> None:
    service = SessionService(PartitionedStore(Awaiting(1))).as_user("ada")
    await service.acreate("s")
    await asyncio.gather(*(service.aappend("s", HumanMessage(f"{number}")) for number in range(20)))
    assert sorted(int(str(m.content)) for m in await service.amessages("s")) == list(range(20))
    assert await service.averify("s") == []


def test_who_always_loses_gives_up() -> None:
    class Losing(MemoryEngine):
        def pause(self, seconds: float) -> None:
            assert seconds < 1

        def commit(
            self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
        ) -> bool:
            return False

    with pytest.raises(StoreUnavailableError, match="other writers keep winning"):
        SessionService(PartitionedStore(Losing())).create("s")


def test_what_was_not_written_to_shared_state_is_written_later() -> None:
    """A crash between a session's commit and the app's state: whoever opens the session next writes it."""

    class Crashing(MemoryEngine):
        crashes = False

        def commit(
            self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
        ) -> bool:
            if self.crashes and partition.kind != "s":
                raise StoreUnavailableError("gone")
            return super().commit(partition, expected, head, rows)

    engine = Crashing()
    service = SessionService(PartitionedStore(engine)).as_user("ada")
    service.create("s")
    engine.crashes = True
    with pytest.raises(StoreUnavailableError):
        service.append("s", HumanMessage("hi", id="m"), state_delta={"user:tone": "dry", "k": 1})
    assert service.state("s") == {"k": 1}
    engine.crashes = False
    service.open("s")
    assert service.state("s") == {"k": 1, "user:tone": "dry"}
    assert len(service.events("s").items) == 1
