"""What an engine over a wide-column store offers to the parts that it shares with others: statements by their names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from langchain_sessions.stores.engine import Head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores.engine import Partition


class Do(NamedTuple):
    """A statement by its name, with its values. `docs/writing-a-store.md` says what each statement does."""

    name: str
    values: tuple[Any, ...]


class Known(NamedTuple):
    """A head as it was last seen.

    Attributes:
        head: What was committed.
        stamp: The names of the newest commits, `NAME` bytes each, the last one first.
        weight: Of all rows that were ever written.
        moved: That of those that are on shelves.
        shelved: The highest key on a shelf, by part.
        is_certain: Whether all that the commit wrote can be read.
    """

    head: Head | None = None
    stamp: bytes | None = None
    weight: int = 0
    moved: int = 0
    shelved: Mapping[str, str] = {}
    is_certain: bool = False

    @classmethod
    def of(cls, rows: Sequence[Any]) -> Known:
        """What the statement that reads a head found."""
        if not rows or rows[0][0] is None:
            return cls()
        version, body, owner, place, due, stamp, weight, moved, shelved = rows[0]
        head = Head(version, body, owner, None if place is None else (place[0], place[1]), due)
        # Both outlive a head that was forgotten, and then belong to rows that nobody reads any more.
        moved = moved if moved is not None and moved <= weight else 0
        return cls(head, stamp, weight, moved, json.loads(shelved) if shelved else {})

    @property
    def version(self) -> int:
        """The version of the head, 0 for none."""
        return 0 if self.head is None else self.head.version

    @property
    def names(self) -> list[bytes]:
        """The names of the newest commits."""
        stamp = self.stamp or b""
        return [stamp[at : at + NAME] for at in range(0, len(stamp), NAME)]


NAME = 8
NAMES = 16
"""So many commits, this one included, may follow one whose answer got lost before nobody can say what became of it."""


class WideEngine(Protocol):
    """An engine that runs statements by their names."""

    def run(self, work: Sequence[Do], *, serial: bool = False) -> Flow[list[list[Any]]]:
        """Run statements beside each other; the rows of each."""
        ...

    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        """Run statements on one partition as one."""
        ...

    def read_serially(self, partition: Partition) -> Flow[Known]:
        """The head of a partition when nothing is under way any more."""
        ...

    def forget(self, partition: Partition) -> None:
        """Look at a head anew when it is asked for."""
        ...
