"""A page of results and the opaque cursors that lead to its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from langchain_sessions._core.edge import pointing
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.showing import html_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_T = TypeVar("_T")


@pointing
@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[_T]):
    """Some results, oldest or best first as the method says, and the way on.

    Attributes:
        items: The results.
        next_cursor: Leads to what follows; None where nothing does. A page of a log has one unless it is empty, since
            events may be appended behind its last: who waits for them keeps the cursor that gave an empty page.
        previous_cursor: Leads to what came before; None at the beginning.
        total: How many there are in all; None when that was not counted.
    """

    items: tuple[_T, ...]
    next_cursor: str | None = None
    previous_cursor: str | None = None
    total: int | None = None

    def __iter__(self) -> Iterator[_T]:
        """Over the items."""
        return iter(self.items)

    def __len__(self) -> int:
        """The number of items on this page."""
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        """The item or items at an index of this page."""
        return self.items[index]

    def __repr__(self) -> str:
        """Short: how many of how many, what they are, and whether a cursor leads on."""
        shown = "".join(f"\n  {item!r}," for item in self.items)
        of = "" if self.total is None else f" of {self.total}"
        more = "" if self.next_cursor is None else ", goes on at next_cursor"
        return f"<{type(self).__name__} {len(self.items)}{of}{more}{':' if shown else ''}{shown.rstrip(',')}>"

    def _repr_html_(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        return html_of(f"{type(self).__name__}: {len(self.items)}{of}", self.items)


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
