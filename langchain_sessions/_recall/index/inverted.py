"""What ranking asks of inverted events, wherever they lie: the one shape of segments in memory and of packed chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from langchain_sessions._recall.index.ranking_traits import Columns
    from langchain_sessions._recall.rank.zone import Lookup

HUMAN: Final = 32
"""A human said it: the one whom a query means by "I"."""
LEFT_OUT: Final = 64
"""Its words are not in the index: when that was written, another revision had taken its place."""
LABELLED: Final = 16
"""Nobody is known to have said it but the one whom its text begins with: perhaps a speaker, see `speakers`."""

Group = tuple[str, ...]
"""Terms of which any will do."""


class Occurrences(Protocol):
    """Where a term occurs in a part, and how often."""

    def __len__(self) -> int:
        """In how many events."""
        ...

    def lookup(self) -> Lookup:
        """The count at each index, at most 255."""
        ...

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Index in the part and count, ascending."""
        ...

    def passages(self) -> Mapping[int, int]:
        """The count in each passage; those of events that are one passage may be left out."""
        ...


class InvertedEvents(Protocol):
    """Some events of one log in order, inverted. Events are known by their index in it, passages by their number."""

    @property
    def events(self) -> int:
        """How many events."""
        ...

    @property
    def said(self) -> int:
        """How many of them there are: a shelf has empty slots."""
        ...

    @property
    def passages(self) -> int:
        """How many passages these are."""
        ...

    @property
    def size(self) -> int:
        """How many terms they have in all."""
        ...

    @property
    def logs(self) -> tuple[Sequence[int], Sequence[int]]:
        """Where each log that lies in it begins, and how many events it has there."""
        ...

    @property
    def filled(self) -> int:
        """How many of these logs hold anything."""
        ...

    @property
    def human_talk(self) -> tuple[int, int]:
        """How many events a human said, and how many terms these have."""
        ...

    @property
    def taken(self) -> bytes | bytearray | None:
        """A byte for each event: 0 where nothing may be found; None where everything may."""
        ...

    def columns(self, longest: int) -> Columns:
        """What is added up of the lengths of its events; as neighbours they count no more than so many terms."""
        ...

    @property
    def passage_lengths(self) -> Sequence[int]:
        """Number of terms of each passage."""
        ...

    @property
    def firsts(self) -> Sequence[int] | None:
        """The number of the first passage of each event, and one past the last; None where each event is one."""
        ...

    @property
    def speakers(self) -> Collection[str]:
        """All known authors."""
        ...

    @property
    def labels(self) -> Mapping[str, int]:
        """The names that texts of `LABELLED` events begin with, and how often."""
        ...

    @property
    def heard(self) -> Collection[str]:
        """All authors and labels of the events that count."""
        ...

    @property
    def hidden(self) -> Collection[int]:
        """Events that do not count at all."""
        ...

    def hints(self, index: int) -> int:
        """`LABELLED` and `HUMAN`, added."""
        ...

    def author(self, index: int) -> str | None:
        """Who said it, or the name that its text begins with."""
        ...

    def spoken(self, authors: frozenset[str]) -> Collection[int]:
        """Where the logs begin in which any of some authors speaks."""
        ...

    def instant(self, index: int) -> float:
        """When, in seconds since 1970."""
        ...

    def find(self, term: str) -> Occurrences | None:
        """Where a term occurs."""
        ...

    def expand(self, beginning: str) -> Iterable[str]:
        """The terms that begin so."""
        ...

    @property
    def left_out(self) -> Sequence[range]:
        """Events that have words and are not to be searched here."""
        ...
