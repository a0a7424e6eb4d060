"""An empty database for each test, without tables of its own: another name before every app.

A table takes Cassandra a second to make, so all tests share some, on one session of the driver.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, ClassVar

from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from langchain_sessions.stores.engine import Head, Listed, Partition, PartitionEngine, Range, Row
from tests.servers import cassandra

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.rows import Owner

SCHEME = "apart"
_GUARD = threading.Lock()
_SHARED: list[CassandraEngine] = []


def _shared() -> CassandraEngine:
    with _GUARD:
        if not _SHARED:
            _SHARED.append(CassandraEngine(os.environ[cassandra.URL], create_schema=True))
        return _SHARED[0]


class ApartEngine(PartitionEngine):
    """The engine of the run, with an app's name as one database and prefix have it."""

    is_async: ClassVar[bool] = True

    def __init__(self, url: str, *, table_prefix: str = "", create_schema: bool | None = None) -> None:
        del create_schema
        self._inner = _shared()
        self._before = f"{url.partition(':')[2]}{table_prefix}/"

    def create_schema(self) -> None:
        self._inner.create_schema()

    def close(self) -> None:
        """The engine goes on for the next test."""

    def _inside(self, partition: Partition) -> Partition:
        return partition._replace(app=self._before + partition.app)

    def _listed(self, found: list[Listed]) -> list[Listed]:
        cut = len(self._before)
        return [each._replace(partition=each.partition._replace(app=each.partition.app[cut:])) for each in found]

    def _read_heads(self, partitions: Sequence[Partition]) -> Flow[list[Head | None]]:
        return (yield from ask(self._inner.read_heads, [self._inside(each) for each in partitions]))

    def _read_rows(self, partition: Partition, ranges: Sequence[Range]) -> Flow[list[list[Row]]]:
        return (yield from ask(self._inner.read_rows, self._inside(partition), ranges))

    def _commit(
        self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
    ) -> Flow[bool]:
        return (yield from ask(self._inner.commit, self._inside(partition), expected, head, rows))

    def _remove_rows(self, partition: Partition, below: str) -> Flow[None]:
        yield from ask(self._inner.remove_rows, self._inside(partition), below)

    def _list_heads(self, app: str, owner: Owner, after: tuple[int, int] | None, limit: int) -> Flow[list[Listed]]:
        return self._listed((yield from ask(self._inner.list_heads, self._before + app, owner, after, limit)))

    def _list_due(self, app: str, before: int, after: Listed | None, limit: int) -> Flow[list[Listed]]:
        start = None if after is None else after._replace(partition=self._inside(after.partition))
        return self._listed((yield from ask(self._inner.list_due, self._before + app, before, start, limit)))

    read_heads, aread_heads = faces(_read_heads)
    read_rows, aread_rows = faces(_read_rows)
    commit, acommit = faces(_commit)
    remove_rows, aremove_rows = faces(_remove_rows)
    list_heads, alist_heads = faces(_list_heads)
    list_due, alist_due = faces(_list_due)
