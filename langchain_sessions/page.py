"""A page of results and the opaque cursors that lead to its neighbours."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from langchain_sessions._core.showing import html_of
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")
_MAX_INT = 2**62


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[T]):
    """Some results, oldest or best first as the method says, and the way on.

    Attributes:
        items: The results.
        next_cursor: Leads to what follows; None where nothing does. A page of a log has one unless it is empty, since
            events may be appended behind its last: who waits for them keeps the cursor that gave an empty page.
        previous_cursor: Leads to what came before; None at the beginning.
        total: How many there are in all; None when that was not counted.
    """

    items: tuple[T, ...]
    next_cursor: str | None = None
    previous_cursor: str | None = None
    total: int | None = None

    def __iter__(self) -> Iterator[T]:
        """Over the items."""
        return iter(self.items)

    def __len__(self) -> int:
        """The number of items on this page."""
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """The item or items at an index of this page."""
        return self.items[index]

    def __repr__(self) -> str:
        """Short: how many of how many, what they are, and whether there are more."""
        shown = "".join(f"\n  {item!r}," for item in self.items)
        of = "" if self.total is None else f" of {self.total}"
        more = "" if self.next_cursor is None else ", more behind next_cursor"
        return f"<{type(self).__name__} {len(self.items)}{of}{more}{':' if shown else ''}{shown.rstrip(',')}>"

    def _repr_html_(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        return html_of(f"{type(self).__name__}: {len(self.items)}{of}", self.items)


def encode_cursor(kind: str, *place: object) -> str:
    """An opaque cursor of a kind that points to a place."""
    text = json.dumps([kind, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: str) -> tuple[str, list[Any]]:
    """The kind and the place of a cursor.

    Raises:
        InvalidInputError: It is not a cursor of one of these kinds.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        kind, *place = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (AttributeError, TypeError, ValueError, binascii.Error) as error:
        raise InvalidInputError(
            "cursor", "not a cursor that this library made; give page.next_cursor as it is"
        ) from error
    if kind not in kinds:
        raise InvalidInputError("cursor", "it belongs to another kind of page")
    return kind, place


def decode_positions(cursor: str, least: int, *kinds: str) -> tuple[str, list[int]]:
    """The kind and the place of a cursor whose place is at least so many whole numbers, None as 0.

    Raises:
        InvalidInputError: It is not such a cursor.
    """
    kind, place = decode_cursor(cursor, *kinds)
    numbers = [0 if part is None else part for part in place]
    if len(numbers) < least or not all(type(part) is int and 0 <= part < _MAX_INT for part in numbers):
        raise InvalidInputError("cursor", "not a cursor that this library made; give page.next_cursor as it is")
    return kind, numbers
