"""Rows of plain messages that nobody may ask for: who wants the messages alone reads their columns."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, overload

from langchain_sessions._core.rows import PLAIN, EventRow, plain_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_plain_of = itemgetter(*map(EventRow._fields.index, PLAIN))
_RUN: Final = PLAIN.index("invocation_id")


class PlainRows(Sequence[EventRow]):
    """`plain_rows` that are made when somebody asks for them.

    Attributes:
        values: The `PLAIN` columns of each.
    """

    __slots__ = ("values",)

    def __init__(self, values: list[tuple[Any, ...]]) -> None:
        """Hold what was read."""
        self.values = values

    @property
    def runs(self) -> list[str | None]:
        """The run of each."""
        return [values[_RUN] for values in self.values]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.values)

    def __iter__(self) -> Iterator[EventRow]:
        """Make them all."""
        return iter(plain_rows(self.values))

    @overload
    def __getitem__(self, at: int) -> EventRow: ...

    @overload
    def __getitem__(self, at: slice) -> PlainRows: ...

    def __getitem__(self, at: int | slice) -> EventRow | PlainRows:
        """Make one."""
        if isinstance(at, slice):
            return PlainRows(self.values[at])
        (row,) = plain_rows((self.values[at],))
        return row


def plain_values(rows: Sequence[EventRow]) -> Iterable[tuple[Any, ...]]:
    """The `PLAIN` columns of some rows."""
    return rows.values if type(rows) is PlainRows else map(_plain_of, rows)
