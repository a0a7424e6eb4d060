"""What an append over Cassandra costs beside a raw driver that does the same: CPU of this process.

python -m tests.servers.cassandra -- python -m benchmarks.cassandra

The raw driver reads the head and asks for the names as the store does, then sends a batch of the same size, which is
taken: one that is refused takes two thirds of it. It has the same prepared statements, levels and policies, and nothing
of ours between. Rounds alternate; what is told is the median and the spread.
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
import time
from typing import TYPE_CHECKING, Any

from cassandra.query import BatchStatement, BatchType
from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionService
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from tests.servers import cassandra

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cassandra.cluster import ResultSet
    from typing_extensions import Self

    from langchain_sessions.stores._cassandra.link import Link
    from langchain_sessions.stores._wide.work import Do

ROUNDS, APPENDS = 9, 60
TEXT = "word " * 180


class Recording:
    """What a link was asked for, so that it can be asked again without anything above it."""

    def __init__(self, link: Link) -> None:
        self.calls: list[tuple[str, list[Do], bool]] = []
        self._link: Any = link
        self._send, self._batch = link.send, link.batch

    def __enter__(self) -> Self:
        self._link.send, self._link.batch = self.send, self.batch
        return self

    def __exit__(self, *_: object) -> None:
        del self._link.send, self._link.batch

    def send(self, work: Sequence[Do], *, serial: bool = False) -> list[list[Any]]:
        """Note and pass on."""
        self.calls.append(("send", [*work], serial))
        return list(self._send(work, serial=serial))

    def batch(self, work: Sequence[Do]) -> list[Any]:
        """Note and pass on."""
        self.calls.append(("batch", [*work], False))
        return list(self._batch(work))


def cpu(call: Callable[[], None]) -> float:
    """Microseconds of CPU."""
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1e6


class Raw:
    """A driver that appends as a store does, by what a store was seen to ask for."""

    def __init__(self, link: Link, calls: list[tuple[str, list[Do], bool]]) -> None:
        self._driver, self._prepared = link.session(), link._prepared  # noqa: SLF001 - below it there is only the driver
        self._read, self._once = link._profiles[False], link._profiles[None]  # noqa: SLF001
        self._head, self._names = (work[0] for how, work, _ in calls if how == "send")
        (self._set_head, *self._rows) = next(work for how, work, _ in calls if how == "batch")
        self._seq = 1 << 20

    def append(self) -> None:
        """Read the head, look for the name, and write both beside the next head."""
        head: Any = self._ask(self._head).one()
        version, body, *_, stamp, _, _, _ = head
        list(self._ask(self._names))
        self._seq += 1
        life, _, _, owner, place, due, _, weight, *partition, _ = self._set_head.values
        # As many names as a head has that is written this fast.
        after = (secrets.token_bytes(8) + stamp)[:4096]
        values = (life, version + 1, body, owner, place, due, after, weight, *partition, stamp)
        batch = BatchStatement(BatchType.UNLOGGED)
        batch.add(self._prepared[self._set_head.name], values)
        for row in self._rows:
            *others, key = row.values
            batch.add(self._prepared[row.name], (*others, f"{key[:-8]}{self._seq:08x}"))
        taken = self._driver.execute(batch, execution_profile=self._once).one()[0]
        assert taken  # noqa: S101 - a refused one is no floor

    def _ask(self, do: Do) -> ResultSet:
        return self._driver.execute(self._prepared[do.name].bind(do.values), execution_profile=self._read)


def main() -> None:
    """Measure and print."""
    engine = CassandraEngine(os.environ[cassandra.URL], create_schema=True)
    sessions = SessionService(PartitionedStore(engine), app=f"b-{secrets.token_hex(4)}", search=False).as_user("ada")
    sessions.open("s1")
    sessions.append("s1", HumanMessage(TEXT))
    link: Any = engine._link  # noqa: SLF001 - below it there is only the driver
    sessions.open("raw")
    sessions.append("raw", HumanMessage(TEXT))
    with Recording(link) as seen:
        sessions.append("raw", HumanMessage(TEXT))
    calls, driver = seen.calls, Raw(link, seen.calls)
    print("an append:", json.dumps([[how, [do.name for do in work]] for how, work, _ in calls]))

    def ours() -> None:
        for _ in range(APPENDS):
            sessions.append("s1", HumanMessage(TEXT))

    def raw() -> None:
        for _ in range(APPENDS):
            driver.append()

    ours()
    raw()
    costs = [(cpu(ours) / APPENDS, cpu(raw) / APPENDS) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(found) for found in zip(*costs, strict=True))
    ratios = [one / other for one, other in costs]
    times = f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f} in {ROUNDS} rounds)"
    print(f"CPU of an append of 900 bytes: {mine:.0f} us; of the driver alone: {theirs:.0f} us; {times}")
    engine.close()


if __name__ == "__main__":
    main()
