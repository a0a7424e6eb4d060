"""What an append over Cassandra costs beside a raw driver that does the same: CPU of this process.

python -m tests.servers.cassandra -- python -m benchmarks.cassandra

The raw driver reads the head and asks for the names as the store does, then sends the same batch. Rounds alternate, and
the least of each counts, since a busy machine only adds.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionService
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from tests.servers import cassandra

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def main() -> None:
    """Measure and print."""
    engine = CassandraEngine(os.environ[cassandra.URL], create_schema=True)
    sessions = SessionService(PartitionedStore(engine), app=f"b-{secrets.token_hex(4)}", search=False).as_user("ada")
    sessions.open("s1")
    sessions.append("s1", HumanMessage(TEXT))
    link: Any = engine._link  # noqa: SLF001 - below it there is only the driver
    begin_each, begin_batch = link._begin_each, link._begin_batch  # noqa: SLF001
    with Recording(link) as seen:
        sessions.append("s1", HumanMessage(TEXT))
    calls = seen.calls
    print("an append:", json.dumps([[how, [do.name for do in work]] for how, work, _ in calls]))

    def ours() -> None:
        for _ in range(APPENDS):
            sessions.append("s1", HumanMessage(TEXT))

    def raw() -> None:
        for _ in range(APPENDS):
            for how, work, serial in calls:
                for each in [begin_batch(work)] if how == "batch" else begin_each(work, serial=serial):
                    each.result()

    costs = [(cpu(ours) / APPENDS, cpu(raw) / APPENDS) for _ in range(ROUNDS)]
    mine, theirs = min(cost for cost, _ in costs), min(cost for _, cost in costs)
    print(
        f"CPU of an append of 900 bytes: {mine:.0f} us; of the driver alone: {theirs:.0f} us; {mine / theirs:.2f} times"
    )
    engine.close()


if __name__ == "__main__":
    main()
