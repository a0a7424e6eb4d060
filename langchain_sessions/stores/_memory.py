"""The store in this process: partitions in a dictionary. It forgets when the process ends."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langchain_sessions._core.locks import new_lock
from langchain_sessions._core.rows import Anyone
from langchain_sessions.stores._base import SessionStore
from langchain_sessions.stores._partitioned.store import PartitionMethods
from langchain_sessions.stores.engine import Head, Listed, Partition, PartitionEngine, Range, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.rows import Owner


@dataclass(slots=True)
class _Kept:
    """A partition: its head, its rows, and their keys in order."""

    head: Head
    rows: dict[str, bytes] = field(default_factory=dict[str, bytes])
    keys: list[str] = field(default_factory=list[str])

    def remove(self, key: str) -> None:
        self.rows.pop(key, None)
        at = bisect_left(self.keys, key)
        if self.keys[at : at + 1] == [key]:
            del self.keys[at]

    def set(self, key: str, value: bytes) -> None:
        at = bisect_left(self.keys, key)
        if self.keys[at : at + 1] != [key]:
            self.keys.insert(at, key)
        self.rows[key] = value

    def change(self, rows: Mapping[str, bytes | None]) -> None:
        for key, value in rows.items():
            if value is None:
                self.remove(key)
            else:
                self.set(key, value)

    def read(self, wanted: Range) -> list[Row]:
        first, last = bisect_left(self.keys, wanted.low), bisect_left(self.keys, wanted.high)
        if wanted.limit is not None:
            first, last = (
                (max(first, last - wanted.limit), last) if wanted.newest else (first, min(last, first + wanted.limit))
            )
        found = self.keys[first:last]
        return [Row(key, self.rows[key]) for key in (reversed(found) if wanted.newest else found)]


class MemoryEngine(PartitionEngine):
    """Keeps partitions in this process."""

    waits = False

    def __init__(self) -> None:
        self._lock = new_lock()
        self._kept: dict[Partition, _Kept] = {}

    def create_schema(self) -> None:
        """Nothing to create."""

    def close(self) -> None:
        """Nothing to release."""

    def read_heads(self, partitions: Sequence[Partition]) -> list[Head | None]:
        with self._lock:
            found = [self._kept.get(partition) for partition in partitions]
            return [None if kept is None else kept.head for kept in found]

    def read_rows(self, partition: Partition, ranges: Sequence[Range]) -> list[list[Row]]:
        with self._lock:
            kept = self._kept.get(partition)
            return [[] if kept is None else kept.read(wanted) for wanted in ranges]

    def commit(self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]) -> bool:
        with self._lock:
            kept = self._kept.get(partition)
            if expected != (0 if kept is None else kept.head.version):
                return False
            if head is None:
                self._kept.pop(partition, None)
                return True
            if kept is None:
                kept = _Kept(head)
            was = {key: kept.rows.get(key) for key in rows}
            try:
                kept.change(rows)
            except BaseException:  # Ctrl-C falls between any two lines of Python
                kept.change(was)
                raise
            kept.head, self._kept[partition] = head, kept
            return True

    def remove_rows(self, partition: Partition, below: str) -> None:
        with self._lock:
            kept = self._kept.get(partition)
            for key in [] if kept is None else kept.keys[: bisect_left(kept.keys, below)]:
                kept.remove(key)  # type: ignore[union-attr]

    def list_heads(self, app: str, owner: Owner, after: tuple[int, int] | None, limit: int) -> list[Listed]:
        with self._lock:
            found = [
                Listed(partition, kept.head.listed)
                for partition, kept in self._kept.items()
                if partition.app == app
                and kept.head.listed is not None
                and (isinstance(owner, Anyone) or owner == kept.head.owner)
                and (after is None or kept.head.listed < after)
            ]
        return sorted(found, key=lambda entry: entry.place, reverse=True)[:limit]

    def list_due(self, app: str, before: int, after: Listed | None, limit: int) -> list[Listed]:
        with self._lock:
            found = [
                Listed(partition, (kept.head.due, 0))
                for partition, kept in self._kept.items()
                if partition.app == app and kept.head.due is not None and kept.head.due <= before
            ]
        ordered = sorted((entry.place, entry.partition.id, entry) for entry in found)
        start = None if after is None else (after.place, after.partition.id)
        return [entry for place, name, entry in ordered if start is None or (place, name) > start][:limit]


class InMemoryStore(PartitionMethods, SessionStore):
    """Keeps sessions in this process, with all that any other store keeps: for tests and trials."""

    def __init__(self) -> None:
        """An empty store."""
        super().__init__(MemoryEngine())
