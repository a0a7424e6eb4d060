"""What is searched, laid end to end, and the zone: what lies around some positions of it, cut out and joined.

A byte or a number for each place of the zone is cut out part by part, at once: Python looks at no place by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.index.ranking_traits import WHOLE, Columns
from langchain_sessions._recall.rank.company import Home, Logs, Span, company, scattered, spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_sessions._recall.rank.occurring import Postings

_NONE: Final = repeat(0)

Lookup = Mapping[int, int] | bytes
"""How often a term occurs at which index of a part: what occurs, or a byte for every event."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Parts laid end to end. Those of one log adjoin; logs lie further apart than neighbours reach.

    Attributes:
        starts: Where each part begins.
        sizes: How many events each holds.
        columns_of: What is added up of the lengths of the events of a part.
        average: Mean length of a passage read with its neighbours.
        taken: By part, a byte for each event: 0 where nothing may be found; None where everything may.
        admits: Whether an event (part, index) may be chosen; None for all.
        is_favoured: Whether an event (part, index) is by whom the query names or means; None for nobody.
        favour: By which share these gain, and what besides.
        homes: Which logs lie in each part.
        logs: How many these are; None where that is not asked for.
    """

    starts: Sequence[int]
    sizes: Sequence[int]
    columns_of: Callable[[int], Columns]
    average: float
    taken: Sequence[bytes | bytearray | None] = ()
    admits: Callable[[int, int], bool] | None = None
    is_favoured: Callable[[int, int], bool] | None = None
    favour: tuple[float, float] = (0.0, 0.0)
    homes: Sequence[Home] = ()
    logs: Logs | None = None


class Stretch(NamedTuple):
    """Events of one part in the zone: which part, the place of the first, their indexes. Places follow each other."""

    part: int
    at: int
    indexes: range


class Zone:
    """What lies around some positions, laid end to end: wide enough that every candidate has its neighbours.

    Attributes:
        size: How many places it has.
        candidates: A byte for each: 255 for those near enough to a position.
        stretches: What lies where in it.
    """

    def __init__(self, layout: Layout, seeds: Sequence[int], reach: int) -> None:
        spans: list[tuple[int, int, int]] = []  # first position, the one after the last, place of the first
        marks: list[int] = []
        low = high = at = 0
        for seed in seeds:
            if seed - 2 * reach > high or not marks:
                if marks:
                    spans.append((low, high, at))
                    at += high - low
                low = seed - 2 * reach
            high = seed + 2 * reach + 1
            marks.append(at + seed - low)
        if marks:
            spans.append((low, high, at))
        self.size = at + high - low if marks else 0
        self.stretches = _by_part(spans, layout)
        self._pieces = _pieces_of(self.stretches, self.size)
        near = bytearray(self.size)
        for mark in marks:
            near[mark - reach : mark + reach + 1] = b"\xff" * (2 * reach + 1)
        # A place before, after or between logs holds no event, and must not take the room of one.
        found: list[bytes | bytearray] = []
        for piece in self._pieces:
            taken = layout.taken[piece.part] if layout.taken else None
            found += piece.cut(b"\xff" * piece.end if taken is None else taken)
        told = int.from_bytes(near, "little") & int.from_bytes(b"".join(found), "little")
        self.candidates = told.to_bytes(self.size, "little")

    def columns(self, columns_of: Callable[[int], Columns]) -> Columns:
        """What is added up of the lengths of the events at each place; 0 where there is none."""
        near, shares, worth = bytearray(self.size), bytearray(self.size), bytearray(b"%c" % WHOLE * self.size)
        is_long = False
        for part, at, indexes in self.stretches:
            of, end = columns_of(part), at + len(indexes)
            near[at:end] = of.near[indexes.start : indexes.stop]
            shares[at:end] = of.shares[indexes.start : indexes.stop]
            if of.worth is not None:
                is_long = True
                worth[at:end] = of.worth[indexes.start : indexes.stop]
        return Columns(near, worth if is_long else None, shares)

    def company(
        self,
        places: Sequence[int],
        layout: Layout,
        counted: Sequence[bytes],
        postings: Sequence[Postings],
        *,
        all_of_them: bool,
    ) -> Sequence[float]:
        """How well the log of each of some places fits, by the candidates in it; these may be all that hold a word."""
        logs = layout.logs
        if logs is None or logs.total <= 1:
            return [0.0] * len(places)
        spans: list[Span] = []
        for part, at, indexes in self.stretches:
            spans += spans_of(layout.homes[part], at, indexes, self.candidates)
        expected = [0.0 if all_of_them else scattered(unit.frequency, logs) for unit in postings]
        return company(places, spans, self.candidates, counted, expected, logs=logs)

    def counts(self, unit: Postings) -> bytes:
        """How often a unit occurs at each place; empty where nowhere."""
        found: list[bytes | bytearray] = []
        for piece in self._pieces:
            lookup = unit.lookup(piece.part)
            if isinstance(lookup, bytes):
                found += piece.cut(lookup)
            elif lookup and len(lookup) > piece.places:
                found.append(bytes(map(lookup.get, piece.indexes(), _NONE)))
            elif lookup:
                # Few occurrences: each is looked at once, and not each place.
                found += piece.cut(_spread(lookup, piece.end))
            else:
                found.append(bytes(piece.width))
        counts = b"".join(found)
        return b"" if counts.count(0) == self.size else counts


class _Piece:
    """All that a zone has of one part, with the places before it that hold nothing.

    Args:
        stretches: What lies there, ascending.
        start: The first place.
        stop: The place after the last.

    Attributes:
        part: Which part.
        end: The index after the last that it has.
        width: How many places these are.
        places: How many of them hold an event.
    """

    __slots__ = ("_cut", "_empty", "_indexes", "_slices", "end", "part", "places", "width")

    def __init__(self, stretches: Sequence[Stretch], start: int, stop: int) -> None:
        self.part, self.end, self.width = stretches[0].part, stretches[-1].indexes.stop, stop - start
        self.places = sum(len(indexes) for _, _, indexes in stretches)
        slices: list[slice] = []
        at, widest = start, 0
        for _, place, indexes in stretches:
            # What holds nothing is cut out behind the end, where zeros are put.
            slices += (slice(self.end, self.end + place - at), slice(indexes.start, indexes.stop))
            widest = max(widest, place - at)
            at = place + len(indexes)
        slices.append(slice(self.end, self.end + stop - at))
        self._slices = slices
        self._cut = itemgetter(*slices)
        self._empty = bytes(max(widest, stop - at))
        self._indexes: list[int] = []

    def cut(self, told: bytes | bytearray) -> Sequence[bytes | bytearray]:
        """Of a byte for each event of the part those at the places, in their order."""
        found: tuple[bytes | bytearray, ...] = self._cut(told[: self.end] + self._empty)
        return found

    def indexes(self) -> list[int]:
        """Which event is at each place; one that there is not where none is."""
        if not self._indexes:
            self._indexes = [
                at if at < self.end else -1 for each in self._slices for at in range(each.start, each.stop)
            ]
        return self._indexes


def _pieces_of(stretches: Sequence[Stretch], size: int) -> list[_Piece]:
    """The pieces of a zone of so many places, which follow each other."""
    found: list[_Piece] = []
    first = at = 0
    for number, stretch in enumerate(stretches, 1):
        if number == len(stretches) or stretches[number].part != stretch.part:
            stop = size if number == len(stretches) else stretch.at + len(stretch.indexes)
            found.append(_Piece(stretches[first:number], at, stop))
            first, at = number, stop
    return found


def _spread(lookup: Mapping[int, int], size: int) -> bytearray:
    """A byte for each of so many events: how often something occurs there."""
    counts = bytearray(size)
    for index, times in lookup.items():
        if index < size:
            counts[index] = times
    return counts


def _by_part(spans: Iterable[tuple[int, int, int]], layout: Layout) -> list[Stretch]:
    """Spans of positions by part; what lies between logs is in none."""
    found: list[Stretch] = []
    for low, high, at in spans:
        number = max(0, bisect_left(layout.starts, low + 1) - 1)
        while number < len(layout.starts) and layout.starts[number] < high:
            start, size = layout.starts[number], layout.sizes[number]
            first, last = max(low, start), min(high, start + size)
            if first < last:
                place = at + first - low
                found.append(Stretch(number, place, range(first - start, last - start)))
            number += 1
    return found
