"""An engine that counts what it asks of Cassandra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions.stores._cassandra.engine import CassandraEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._wide.work import Do


class Counting(CassandraEngine):
    """Keeps what was asked of Cassandra."""

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self.asked: list[tuple[str, int]] = []

    def reset(self) -> list[tuple[str, int]]:
        """What was asked since the last time: statements and how many rows each read."""
        found, self.asked = self.asked, []
        return found

    def run(self, work: Sequence[Do], *, serial: bool = False) -> Flow[list[list[Any]]]:
        found = yield from super().run(work, serial=serial)
        self.asked += [(do.name, len(rows)) for do, rows in zip(work, found, strict=True)]
        return found

    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        found = yield from super().together(work)
        self.asked.append(("batch", len(work)))
        return found
