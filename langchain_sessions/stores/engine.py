"""What an engine has to do so that `PartitionedStore` keeps the whole contract over it.

A *partition* is one session, or what the sessions of a user or an app share. It has a *head*, a few kilobytes that
say what it is, and *rows* in the order of their keys. Everything that a session needs is in its partition, so an
engine may keep each on a machine of its own; the one thing it must do atomically is `commit`.

Heads and rows are opaque bytes; events are JSON, the rest is packed. Keys are ASCII texts of at most 700 characters,
compared by code point. Rows of a partition that is not there any more may stay for a while: no key is used twice.

The asynchronous half is supplied, as it is for stores; an engine that awaits its server itself overrides it and sets
`is_async`. An engine raises `StoreUnavailableError` where it cannot be reached, and translates its driver's errors in
one place.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from langchain_sessions._core.rows import ANYONE
from langchain_sessions._core.twins import threaded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.rows import Owner
    from langchain_sessions.stores._erasing import Remainder


__all__ = ["ANYONE", "Head", "Listed", "Partition", "PartitionEngine", "Range", "Row"]


class Partition(NamedTuple):
    """The name of a partition.

    Attributes:
        app: The app: a text of up to 255 characters without NUL, compared exactly.
        kind: `s` for a session, `u` for what is shared by the sessions of a user, `a` by those of an app, `o` for an
            owner's copy of many small indexes.
        id: Which of them: a digest of its name, 32 hexadecimal digits; nothing for an app, and for the copy of what
            belongs to nobody.
    """

    app: str
    kind: str
    id: str


class Head(NamedTuple):
    """The head of a partition.

    Attributes:
        version: 1 at first; every commit writes the next one.
        body: Opaque.
        owner: The user in whose list it is, None in that of nobody.
        listed: Its place in the list, the newest first: a time at a coarse grain, then a number that no other
            partition has. None keeps it out of the list.
        due: From when on it is among `list_due`, in microseconds; None for never. A head that is due and in no list
            is as good as none from then on: an engine may forget it by itself.
    """

    version: int
    body: bytes
    owner: str | None = None
    listed: tuple[int, int] | None = None
    due: int | None = None


class Range(NamedTuple):
    """Rows to read: those with `low` <= key < `high`, at most `limit` of them, from the end if `newest`."""

    low: str
    high: str
    limit: int | None = None
    newest: bool = False


class Row(NamedTuple):
    """One row."""

    key: str
    value: bytes


class Listed(NamedTuple):
    """An entry of a list: a partition, and its place there when the entry was written."""

    partition: Partition
    place: tuple[int, int]


class PartitionEngine(ABC):
    """Keeps partitions. See the module for what they are."""

    waits: ClassVar[bool] = True
    """Whether a method may wait for a disk or a server. Where none does, the async half runs on the loop."""
    is_async: ClassVar[bool] = False
    """Whether the async half is the engine's own. Where it is not, a worker thread runs a whole call of the store."""
    remains: ClassVar[tuple[Remainder, ...]] = ()
    """What the engine goes on keeping of what was removed, and what clears it; see `delete_user`."""

    @abstractmethod
    def create_schema(self, /) -> None:
        """Create or upgrade what partitions are kept in. Idempotent, safe when many processes do it at once."""

    @threaded(create_schema)
    def acreate_schema(self) -> None:
        """Async `create_schema`."""

    @abstractmethod
    def close(self, /) -> None:
        """Release what the engine opened itself."""

    @threaded(close)
    def aclose(self) -> None:
        """Async `close`."""

    @abstractmethod
    def read_heads(self, /, partitions: Sequence[Partition]) -> list[Head | None]:
        """The heads of some partitions in the order asked for, as the newest commit left them; None for no head."""

    @threaded(read_heads)
    def aread_heads(self) -> None:
        """Async `read_heads`."""

    @abstractmethod
    def read_rows(self, /, partition: Partition, ranges: Sequence[Range]) -> list[list[Row]]:
        """The rows of each range, in the order of their keys, or against it where the range is `newest`.

        Whatever a commit wrote that returned before this call began is there. Ranges need not be of one moment.
        """

    @threaded(read_rows)
    def aread_rows(self) -> None:
        """Async `read_rows`."""

    @abstractmethod
    def commit(
        self, /, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
    ) -> bool:
        """Set a head and some rows, all or nothing, if the head's version is `expected`; 0 expects that there is none.

        A row of None is removed. A head of None is removed; its rows are, at once or later. The head's places in lists
        are there when this returns; an entry for where it was before may stay for a while, since who reads a list
        compares it with the head.

        Returns:
            Whether it was written. False, and nothing is changed, where the version is another one.

        Raises:
            CommitUnknownError: Nobody can say whether it was written.
        """

    @threaded(commit)
    def acommit(self) -> None:
        """Async `commit`."""

    @abstractmethod
    def remove_rows(self, /, partition: Partition, below: str) -> None:
        """Remove the rows whose keys are smaller. Nobody reads them any more; it may be repeated.

        With a blank key it removes none, and gives up what the engine still keeps of rows that were replaced, where it
        can do so at once: nobody may read any more what stood there.
        """

    @threaded(remove_rows)
    def aremove_rows(self) -> None:
        """Async `remove_rows`."""

    @property
    def remainders(self) -> tuple[Remainder, ...]:
        """What the engine goes on keeping of what was removed, and what clears it, as far as it must be asked."""
        return self.remains

    @abstractmethod
    def list_heads(self, /, app: str, owner: Owner, after: tuple[int, int] | None, limit: int) -> list[Listed]:
        """The next entries of a list behind a place, by descending `Head.listed`; of all owners for `ANYONE`."""

    @threaded(list_heads)
    def alist_heads(self) -> None:
        """Async `list_heads`."""

    @abstractmethod
    def list_due(self, /, app: str, before: int, after: Listed | None, limit: int) -> list[Listed]:
        """The next partitions of an app with `Head.due` <= `before`, by due time and id; the places are (due, 0)."""

    @threaded(list_due)
    def alist_due(self) -> None:
        """Async `list_due`."""

    def pause(self, /, seconds: float) -> None:
        """Wait after a lost race."""
        time.sleep(seconds)

    async def apause(self, /, seconds: float) -> None:
        """Wait after a lost race."""
        await asyncio.sleep(seconds)
