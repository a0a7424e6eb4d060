"""Choosing the events worth ranking, by their own words and their neighbours', among any number.

Rare words choose first, commoner ones only decide among what those found; pairs of events are compared, with the pairs
beside them, since the words of a question are spread over messages. Around the best, what neighbours say is added up
for all events at once: two bytes per event, a number of as many bytes per word, shifted and added as a whole. That
costs a few milliseconds among 100 000 events, where ranking each of them would cost a second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest
from itertools import compress, count, islice, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.index.columns import from_bytes
from langchain_sessions._recall.index.ranking_traits import WHOLE, Columns
from langchain_sessions._recall.rank.company import Home, Logs, Span, company, scattered, spans_of
from langchain_sessions._recall.rank.kernel import FULL, MOST_OWN, Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_sessions._recall.index.inverted import Occurrences
    from langchain_sessions._recall.rank.ranking import RankingWeights, TermStatistics

_NONE: Final = repeat(0)
_CROWDED: Final = 3

Lookup = Mapping[int, int] | bytes
"""How often a term occurs at which index of a part: what occurs, or a byte for every event."""


class Postings(NamedTuple):
    """Where any term of one unit of a query occurs: by part, in how many events in all, and as it was found."""

    lookups: Sequence[Lookup | None]
    frequency: int
    occurring: Sequence[Sequence[Occurrences]] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Parts laid end to end. Those of one log adjoin; logs lie further apart than neighbours reach.

    Attributes:
        starts: Where each part begins.
        sizes: How many events each holds.
        columns: What is added up of the lengths of the events of each part.
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
    columns: Sequence[Columns]
    average: float
    taken: Sequence[bytes | bytearray | None] = ()
    admits: Callable[[int, int], bool] | None = None
    is_favoured: Callable[[int, int], bool] | None = None
    favour: tuple[float, float] = (0.0, 0.0)
    homes: Sequence[Home] = ()
    logs: Logs | None = None


class Chosen(NamedTuple):
    """An event worth ranking.

    Attributes:
        frequencies: The units that it or its neighbours hold: (unit, its own count, what neighbours add).
        around: Number of terms of the neighbours, as they count.
        company: How well the rest of its log fits.
    """

    frequencies: list[tuple[int, int, float]]
    around: float
    company: float = 0.0


class Choice(NamedTuple):
    """What was chosen.

    Attributes:
        events: By position, what is known of each.
        is_cut: Whether there may be more that fit less.
    """

    events: dict[int, Chosen]
    is_cut: bool


class _Stretch(NamedTuple):
    """Events of one part in the zone: which part, the place of the first, their indexes. Places follow each other."""

    part: int
    at: int
    indexes: range


def shortlist(
    postings: Sequence[Postings], layout: Layout, statistics: TermStatistics, weights: RankingWeights, *, limit: int
) -> Choice:
    """Choose the events worth ranking, and add up what they and their neighbours say.

    Args:
        postings: Where each unit of the query occurs.
        layout: How the parts lie.
        statistics: Of the searched logs.
        weights: What counts how much.
        limit: How many events to choose.
    """
    rarity = statistics.weights()
    seeds, is_cut = _seeds(postings, layout, rarity, limit)
    zone = _Zone(layout, seeds, weights.reach)
    if not zone.size:
        return Choice({}, is_cut)
    kernel = Kernel(weights, zone.columns(layout.columns), layout.average)
    counted = [zone.counts(unit.lookups) for unit in postings]
    windows = [kernel.windows(counts) for counts in counted]
    best = _best(zone, kernel.rough(windows, rarity), layout, weights, limit)
    places = [at for at, _ in best]
    beside = zone.company(places, layout, counted, postings, all_of_them=not is_cut)
    held = _held(places, counted, windows, kernel.scale)
    events = {
        position: Chosen(units, kernel.around[at] / kernel.unit, fits)
        for (at, position), units, fits in zip(best, held, beside, strict=True)
    }
    return Choice(events, is_cut or len(best) >= limit)


def _held(
    places: Sequence[int], counted: Sequence[bytes], windows: Sequence[bytes], scale: float
) -> list[list[tuple[int, int, float]]]:
    """The units that some places and their neighbours hold: (unit, its own count, what neighbours add)."""
    held: list[list[tuple[int, int, float]]] = [[] for _ in places]
    for unit, around in enumerate(windows):
        if not around:
            continue
        sums = list(map(from_bytes("H", around).__getitem__, places))
        # Most places lack most units: only the others are looked at one by one.
        for at, total, own in compress(zip(count(), sums, map(counted[unit].__getitem__, places)), sums):
            held[at].append((unit, own, total / scale - (own if own < MOST_OWN else MOST_OWN)))  # noqa: FURB136 - no call
    return held


# -- by their own words ------------------------------------------------------------------------------------

_Cells = dict[int, float]
"""What pairs of adjoining events of a part gain by the units that they hold."""


def _seeds(postings: Sequence[Postings], layout: Layout, rarity: Sequence[float], limit: int) -> tuple[list[int], bool]:
    """The positions around which to look, ascending: all that hold a word where they are few; and if some lack."""
    # So few that all of them are ranked: nothing is chosen, and nothing is missed.
    if sum(unit.frequency for unit in postings) <= 4 * limit:
        places = {
            start + index
            for unit in postings
            for start, lookup in zip(layout.starts, unit.lookups, strict=True)
            if lookup
            for index in _indexes(lookup)
        }
        return sorted(places), False
    own: list[_Cells] = [{} for _ in layout.starts]
    is_cut = False
    for unit in sorted(range(len(postings)), key=lambda unit: postings[unit].frequency):
        enough = 0 if sum(map(len, own)) >= 4 * limit else 4 * limit
        is_cut = is_cut or postings[unit].frequency > 4 * enough
        _add(own, postings[unit], rarity[unit], enough)
    return _around_best(own, layout, rarity, limit), is_cut or sum(map(len, own)) > limit // 2


def _add(own: list[_Cells], unit: Postings, gain: float, enough: int) -> None:
    """Let a unit count for the pairs that hold it.

    Args:
        own: The pairs by part.
        unit: Where it occurs.
        gain: What it is worth.
        enough: Above 0, pairs are taken up by it, from a very common one about so many of the newest. At 0 it only
            decides among those that are there.
    """
    left = enough if unit.frequency > 4 * enough else unit.frequency
    # From the newest part back: of a very common word the newest are taken.
    for cells, lookup in zip(reversed(own), reversed(unit.lookups), strict=True):
        if not lookup:
            continue
        if left > 0:
            found: Iterable[int] = {index >> 1 for index in _indexes(lookup)}
            left -= len(lookup)
        elif isinstance(lookup, bytes):
            # Slots of a byte for each event: a pair is two that adjoin.
            evens, odds = lookup[::2], lookup[1::2] + b"\0"
            found = [cell for cell in cells if evens[cell] or odds[cell]]
        elif len(lookup) < len(cells):
            found = {index >> 1 for index in lookup}.intersection(cells)
        else:
            found = [cell for cell in cells if 2 * cell in lookup or 2 * cell + 1 in lookup]
        for cell in found:
            cells[cell] = cells.get(cell, 0.0) + gain


def _around_best(own: list[_Cells], layout: Layout, rarity: Sequence[float], limit: int) -> list[int]:
    """The positions of the best pairs, by what they and the pairs beside them hold, and by who speaks."""
    found: list[tuple[float, int, int]] = []
    for number, cells in enumerate(own):
        found += _with_neighbours(cells, number)
    most = limit // 2
    if layout.is_favoured is not None:
        share, bonus = layout.favour[0], layout.favour[1] * sum(rarity) / 4
        found = [
            (gain * (1 + share) + bonus if _any(layout, layout.is_favoured, number, at, 0) else gain, number, at)
            for gain, number, at in nlargest(3 * most, found)
        ]
    if layout.admits is None:
        best = nlargest(most, found)
    else:
        # An answer stands next to the words of its question, so a refused event may still point at one.
        fitting = (cell for cell in sorted(found, reverse=True) if _any(layout, layout.admits, *cell[1:], 1))
        best = list(islice(fitting, most))
    return sorted(layout.starts[number] + 2 * at + side for _, number, at in best for side in (0, 1))


def _with_neighbours(cells: _Cells, number: int) -> Iterable[tuple[float, int, int]]:
    """What each pair of a part gains by itself and by the pairs beside it."""
    of = cells.get
    low, high = min(cells, default=0), max(cells, default=-1)
    if high - low > _CROWDED * len(cells):
        for at, gain in cells.items():
            yield gain + (of(at - 1, 0.0) + of(at + 1, 0.0)) / 2 + (of(at - 2, 0.0) + of(at + 2, 0.0)) / 4, number, at
        return
    # Side by side it takes a third of the time.
    row = [of(at, 0.0) for at in range(low - 2, high + 3)]
    for at, fore, before, gain, after, behind in zip(
        range(low, high + 1), row, row[1:], row[2:], row[3:], row[4:], strict=False
    ):
        if at in cells:
            yield gain + (before + after) / 2 + (fore + behind) / 4, number, at


def _any(layout: Layout, test: Callable[[int, int], bool], number: int, cell: int, reach: int) -> bool:
    """Whether a test holds for an event of a pair, or of one so near to it."""
    near = range(max(0, 2 * cell - reach), min(layout.sizes[number], 2 * cell + 2 + reach))
    return any(test(number, index) for index in near)


def _indexes(lookup: Lookup) -> Iterable[int]:
    """Where anything occurs."""
    return [index for index, count in enumerate(lookup) if count] if isinstance(lookup, bytes) else lookup


# -- with their neighbours ---------------------------------------------------------------------------------


class _Zone:
    """What lies around some positions, laid end to end: wide enough that every candidate has its neighbours.

    Attributes:
        size: How many places it has.
        candidates: A byte for each: 255 for those near enough to a position.
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
        self._ends = {part: indexes.stop for part, _, indexes in self.stretches}
        self._places: Counter[int] = Counter()
        for part, _, indexes in self.stretches:
            self._places[part] += len(indexes)
        near = bytearray(self.size)
        for mark in marks:
            near[mark - reach : mark + reach + 1] = b"\xff" * (2 * reach + 1)
        # A place before, after or between logs holds no event, and must not take the room of one.
        self.candidates = bytearray(self.size)
        for part, at, indexes in self.stretches:
            self.candidates[at : at + len(indexes)] = near[at : at + len(indexes)]
            if layout.taken and (taken := layout.taken[part]) is not None:
                told = int.from_bytes(near[at : at + len(indexes)], "little")
                told &= int.from_bytes(taken[indexes.start : indexes.stop], "little")
                self.candidates[at : at + len(indexes)] = told.to_bytes(len(indexes), "little")

    def columns(self, columns: Sequence[Columns]) -> Columns:
        """What is added up of the lengths of the events at each place; 0 where there is none."""
        near, shares, worth = bytearray(self.size), bytearray(self.size), bytearray(b"%c" % WHOLE * self.size)
        is_long = False
        for part, at, indexes in self.stretches:
            of, end = columns[part], at + len(indexes)
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
        found = company(spans, self.candidates, counted, expected, logs)
        starts = [span.start for span in spans]
        return [found.get(spans[bisect_right(starts, place) - 1].log, 0.0) for place in places]

    def counts(self, lookups: Sequence[Lookup | None]) -> bytes:
        """How often a unit occurs at each place; empty where nowhere."""
        counts = bytearray(self.size)
        spread: dict[int, bytes | bytearray] = {}
        for part, at, indexes in self.stretches:
            lookup = lookups[part]
            if isinstance(lookup, bytes):
                counts[at : at + len(indexes)] = lookup[indexes.start : indexes.stop]
            elif lookup and len(lookup) > self._places[part]:
                counts[at : at + len(indexes)] = bytes(map(lookup.get, indexes, _NONE))
            elif lookup:
                # Few occurrences: each is looked at once, and not each place.
                if part not in spread:
                    spread[part] = _spread(lookup, self._ends[part])
                counts[at : at + len(indexes)] = spread[part][indexes.start : indexes.stop]
        return b"" if counts.count(0) == self.size else bytes(counts)


def _spread(lookup: Mapping[int, int], size: int) -> bytearray:
    """A byte for each of so many events: how often something occurs there."""
    counts = bytearray(size)
    for index, times in lookup.items():
        if index < size:
            counts[index] = times
    return counts


def _by_part(spans: Iterable[tuple[int, int, int]], layout: Layout) -> list[_Stretch]:
    """Spans of positions by part; what lies between logs is in none."""
    found: list[_Stretch] = []
    for low, high, at in spans:
        number = max(0, bisect_left(layout.starts, low + 1) - 1)
        while number < len(layout.starts) and layout.starts[number] < high:
            start, size = layout.starts[number], layout.sizes[number]
            first, last = max(low, start), min(high, start + size)
            if first < last:
                place = at + first - low
                found.append(_Stretch(number, place, range(first - start, last - start)))
            number += 1
    return found


def _best(zone: _Zone, rough: bytes, layout: Layout, weights: RankingWeights, limit: int) -> list[tuple[int, int]]:
    """Place in the zone and position of the best candidates."""
    masked = int.from_bytes(rough, "little") & int.from_bytes(zone.candidates, "little")
    scores: Sequence[float] = masked.to_bytes(zone.size, "little")
    if layout.admits is not None or layout.is_favoured is not None:
        scores = _judged(zone, scores, layout, weights)
    places = list(compress(range(len(scores)), scores))
    if len(places) > limit:
        places = sorted(nlargest(limit, places, key=scores.__getitem__))
    starts = [stretch.at for stretch in zone.stretches]
    found: list[tuple[int, int]] = []
    for place in places:
        part, at, indexes = zone.stretches[bisect_right(starts, place) - 1]
        if 0 <= place - at < len(indexes):
            found.append((place, layout.starts[part] + indexes[place - at]))
    return found


def _judged(zone: _Zone, scores: Sequence[float], layout: Layout, weights: RankingWeights) -> list[float]:
    """The scores of those that may be chosen. An author who is named counts as much here as in the ranking."""
    share, bonus = layout.favour[0], FULL * layout.favour[1] / (4 * (weights.saturation + 1))
    judged = [0.0] * len(scores)
    for part, at, indexes in zone.stretches:
        for place, index in enumerate(indexes, at):
            score = scores[place]
            if score and (layout.admits is None or layout.admits(part, index)):
                named = layout.is_favoured is not None and layout.is_favoured(part, index)
                judged[place] = score * (1 + share) + bonus if named else score
    return judged
