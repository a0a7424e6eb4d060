"""A wide-column store in this process: every statement that `WidePartitions` asks for, over dictionaries.

Cells and deletions have times, and the later one stands, as in the databases that this is the model of. What is asked
can go wrong as it does there: an answer gets lost before a batch happened, after it, or before it happens at last.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_sessions.errors import StoreUnavailableError
from langchain_sessions.stores._wide.engine import WidePartitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._wide.work import Do

_HEAD = ("version", "value", "owner", "place", "due", "stamp", "weight", "moved", "shelved")
_NEVER = 0


@dataclass
class Columns:
    """One partition of the store: cells by key and column, each with its time, and what was deleted until when."""

    cells: dict[tuple[str, str], tuple[Any, int]] = field(default_factory=dict[tuple[str, str], tuple[Any, int]])
    gone: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])

    def put(self, key: str, column: str, value: object, at: int) -> None:
        """Set a cell, if its time is later than what stands."""
        if at >= self.cells.get((key, column), (None, _NEVER))[1]:
            self.cells[key, column] = (value, at)

    def drop(self, low: str, high: str, at: int) -> None:
        """Delete what was written until then: keys from `low` on, below `high`."""
        self.gone.append((low, high, at))

    def get(self, key: str, column: str) -> tuple[Any, int]:
        """A cell and its time; None where there is none."""
        value, at = self.cells.get((key, column), (None, _NEVER))
        is_gone = any(low <= key < high and at <= until for low, high, until in self.gone)
        return (None, _NEVER) if is_gone else (value, at)

    def values(self, low: str, high: str) -> list[tuple[str, bytes, int]]:
        """The values of a range that stand, in the order of their keys."""
        names = sorted(key for key, column in self.cells if column == "value" and low <= key < high)
        found = [(key, *self.get(key, "value")) for key in names]
        return [each for each in found if each[1] is not None]


@dataclass
class Database:
    """What several engines share."""

    rows: dict[tuple[str, ...], Columns] = field(default_factory=dict[tuple[str, ...], Columns])
    lists: dict[tuple[str, str, int], dict[tuple[int, int, str, str], float]] = field(
        default_factory=dict[tuple[str, str, int], dict[tuple[int, int, str, str], float]]
    )
    late: list[Sequence[Do]] = field(default_factory=list["Sequence[Do]"])
    guard: threading.RLock = field(default_factory=threading.RLock)
    clock: int = 0
    asked: list[str] = field(default_factory=list[str])

    def now(self) -> int:
        """A time later than any before."""
        self.clock = max(self.clock + 1, int(time.time() * 1_000_000))
        return self.clock

    def at(self, *partition: str) -> Columns:
        """A partition; made where it is not there."""
        return self.rows.setdefault(partition, Columns())

    def do(self, work: Sequence[Do]) -> list[list[Any]]:
        """Run statements with one time; all of them, or none where a condition fails."""
        with self.guard:
            at = self.now()
            self.asked += [do.name for do in work]
            for do in work:
                if do.name in {"set_head", "drop_head"}:
                    stands = self.at(*do.values[-4:-1]).get("", "stamp")[0]
                    if stands != do.values[-1]:
                        return [[(False, stands)]]
            found = [getattr(self, f"_{do.name}")(at, *do.values) for do in work]
            return [list(rows) if rows is not None else [(True,)] for rows in found]

    # -- heads and rows ------------------------------------------------------------------------------------

    def _head(self, _: int, *partition: str) -> list[Any]:
        columns = self.at(*partition)
        return [tuple(columns.get("", name)[0] for name in _HEAD)]

    def _newest_write(self, _: int, *partition: str) -> list[Any]:
        return [(self.at(*partition).get("", "stamp")[1] or None,)]

    def _set_head(self, at: int, _: int, *values: Any) -> None:
        version, body, owner, place, due, stamp, weight, *partition, _ = values
        for name, value in zip(_HEAD, (version, body, owner, place, due, stamp, weight), strict=False):
            self.at(*partition).put("", name, value, at)

    def _drop_head(self, at: int, *values: Any) -> None:
        self.at(*values[:3]).drop("", "\0", at)

    def _set_row(self, at: int, value: bytes, *where: str) -> None:
        self.at(*where[:3]).put(where[3], "value", value, at)

    def _drop_row(self, at: int, *where: str) -> None:
        self.at(*where[:3]).drop(where[3], f"{where[3]}\0", at)

    def _drop_rows(self, _: int, at: int, *where: str) -> None:
        self.at(*where[:3]).drop("\0", where[3], at)

    def _rows(self, _: int, *where: Any) -> list[Any]:
        *partition, low, high, limit = where
        return [row[:2] for row in self.at(*partition).values(max(low, "\0"), high)][:limit]

    def _rows_newest(self, _: int, *where: Any) -> list[Any]:
        *partition, low, high, limit = where
        return [row[:2] for row in reversed(self.at(*partition).values(max(low, "\0"), high))][:limit]

    def _rows_written(self, _: int, *partition: str) -> list[Any]:
        return list(self.at(*partition).values("\0", "\U0010ffff"))

    def _rows_times(self, _: int, *partition: str) -> list[Any]:
        return [(key, written) for key, _, written in self.at(*partition).values("\0", "\U0010ffff")]

    def _seal(self, _: int, at: int, moved: int, shelved: str, *partition: str) -> None:
        self.at(*partition).put("", "moved", moved, at)
        self.at(*partition).put("", "shelved", shelved, at)

    # -- shelves: partitions of their own ------------------------------------------------------------------

    _shelf = _rows
    _shelf_newest = _rows_newest

    _shelf_times = _rows_times

    def _add_shelf(self, at: int, value: bytes, *where: str) -> None:
        self.at(*where[:4]).put(where[4], "value", value, at)

    def _set_shelf(self, _: int, at: int, value: bytes, *where: str) -> None:
        self._add_shelf(at, value, *where)

    def _drop_in_shelf(self, _: int, at: int, *where: str) -> None:
        self.at(*where[:4]).drop(where[4], f"{where[4]}\0", at)

    def _drop_shelf(self, _: int, at: int, *where: str) -> None:
        self.at(*where[:4]).drop("", "\U0010ffff", at)

    # -- lists ---------------------------------------------------------------------------------------------

    def _enter(self, _: int, app: str, name: str, bucket: int, *rest: Any) -> None:
        at, number, kind, each, life = rest
        until = time.time() + life if life else float("inf")
        self.lists.setdefault((app, name, bucket), {})[at, number, kind, each] = until

    def _leave(self, _: int, app: str, name: str, bucket: int, *key: Any) -> None:
        self.lists.get((app, name, bucket), {}).pop(key, None)

    def _entries(self, app: str, name: str, bucket: int) -> Iterator[tuple[int, int, str, str]]:
        entries = self.lists.get((app, name, bucket), {})
        return (key for key in sorted(entries) if entries[key] > time.time())

    def _list(self, _: int, *where: Any) -> list[Any]:
        app, name, bucket, at, number, limit = where
        found = [key for key in self._entries(app, name, bucket) if key[:2] < (at, number)]
        return [(kind, each, at, number) for at, number, kind, each in reversed(found)][:limit]

    def _buckets(self, _: int, *where: Any) -> list[Any]:
        return [(key[0],) for key in reversed([*self._entries(*where)])]

    def _due(self, _: int, *where: Any) -> list[Any]:
        app, name, bucket, *after, before, limit = where
        found = [key for key in self._entries(app, name, bucket) if key > tuple(after) and key[0] <= before]
        return [(kind, each, at, number) for at, number, kind, each in found][:limit]


class DictEngine(WidePartitions):
    """Partitions over a `Database`.

    Args:
        database: May be shared with other engines, as processes share one.
        lose: Asked before each batch: `before` and its answer is lost and it never happens, `after` and it did,
            `late` and it happens when something is asked for serially next, `torn` and its head is seen until then
            without the rest, `twice` and it is refused for what it has written itself; nothing for a usual answer.
        behind: Called between the reading of a head and what is asked for next.
    """

    def __init__(
        self, database: Database | None = None, lose: Callable[[], str] = str, behind: Callable[[], object] = str
    ) -> None:
        super().__init__()
        self.database = database or Database()
        self._lose, self._behind = lose, behind

    def create_schema(self) -> None:
        """Nothing to create."""

    def close(self) -> None:
        """Nothing to release."""

    def run(self, work: Sequence[Do], *, serial: bool = False) -> Flow[list[list[Any]]]:
        if any(do.name in {"rows", "rows_newest"} for do in work):
            self._behind()
        with self.database.guard:
            while serial and self.database.late:
                self.database.do(self.database.late.pop(0))
            return [self.database.do([do])[0] for do in work]
        yield  # a flow that waits for nothing

    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        lost = self._lose() if work[0].name in {"set_head", "drop_head"} else ""
        with self.database.guard:
            if lost == "before":
                pass
            elif lost == "late":
                self.database.late.append(work)
            elif lost == "torn" and self.database.do(work[:1])[0][0][0]:
                self.database.late.append(work[1:])
            else:
                found = self.database.do(work)[0]
                if lost == "twice":
                    found = self.database.do(work)[0]
                if lost in {"", "twice"}:
                    return found
        raise StoreUnavailableError("An answer got lost.")
        yield
