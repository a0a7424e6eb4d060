"""What is asked of a wide-column store: statements by their names; and a head as they find it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langchain_sessions.stores.engine import Head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_LIMIT: Final = 2**31 - 1
"""More rows than any table has, and the most that a driver takes as a number of rows."""


class Do(NamedTuple):
    """A statement by its name, with its values. An engine's own table of statements says what each does."""

    name: str
    values: tuple[Any, ...]


class Known(NamedTuple):
    """A head as it was last seen.

    Attributes:
        head: What was committed.
        stamp: The names of the newest commits, eight bytes each, the last one first.
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
        return [stamp[at : at + 8] for at in range(0, len(stamp), 8)]
