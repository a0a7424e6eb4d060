"""Choosing the events worth ranking, by their own words and their neighbours', among any number.

Rare words choose first, commoner ones only decide among what those found; pairs of events are compared, with the pairs
beside them, since the words of a question are spread over messages. Around the best, what neighbours say is added up
for all events at once: two bytes per event, a number of as many bytes per word, shifted and added as a whole. That
costs a few milliseconds among 100 000 events, where ranking each of them would cost a second.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import compress, count, islice, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.index.buckets import Strewn
from langchain_sessions._recall.index.columns import from_bytes
from langchain_sessions._recall.rank.kernel import FULL, MOST_OWN, Kernel
from langchain_sessions._recall.rank.occurring import indexes_of
from langchain_sessions._recall.rank.zone import Layout, Lookup, Zone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_sessions._recall.rank.occurring import Postings
    from langchain_sessions._recall.rank.ranking import RankingWeights, TermStatistics

_CROWDED: Final = 3
_tuple = tuple.__new__


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
        places: Part and index in it of each, by position.
        is_cut: Whether there may be more that fit less.
    """

    events: dict[int, Chosen]
    places: dict[int, tuple[int, int]]
    is_cut: bool


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
    zone = Zone(layout, seeds, weights.reach)
    if not zone.size:
        return Choice({}, {}, is_cut)
    kernel = Kernel(weights, zone.columns(layout.columns_of), layout.average)
    counted = [zone.counts(unit) for unit in postings]
    windows = [kernel.windows(counts) for counts in counted]
    best = _best(zone, kernel.rough(windows, rarity), layout, weights, limit)
    places = [at for at, *_ in best]
    beside = zone.company(places, layout, counted, postings, all_of_them=not is_cut)
    held = _held(places, counted, windows, kernel.scale)
    starts, around, unit = layout.starts, kernel.around, kernel.unit
    events = {
        starts[part] + index: _tuple(Chosen, (units, around[at] / unit, fits))
        for (at, part, index), units, fits in zip(best, held, beside, strict=True)
    }
    found = {starts[part] + index: (part, index) for _, part, index in best}
    return Choice(events, found, is_cut or len(best) >= limit)


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
            layout.starts[number] + index
            for unit in postings
            for number in unit.occurring
            for index in indexes_of(unit.lookup(number) or b"")
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
    for number in reversed(unit.occurring):
        cells = own[number]
        # Where nothing was taken up, there is nothing to decide among: it is not looked up.
        if left <= 0 and not cells:
            continue
        if not (lookup := unit.lookup(number)):
            continue
        if left > 0:
            for cell in {index >> 1 for index in indexes_of(lookup)}:
                cells[cell] = cells.get(cell, 0.0) + gain
            left -= _size(lookup)
        else:
            for cell in _held_in(lookup, cells):
                cells[cell] += gain


def _held_in(lookup: Lookup, cells: _Cells) -> Iterable[int]:
    """Those of some pairs that hold anything."""
    if _size(lookup) < len(cells):
        return {index >> 1 for index in indexes_of(lookup)}.intersection(cells)
    if not isinstance(lookup, bytes):
        return [cell for cell in cells if 2 * cell in lookup or 2 * cell + 1 in lookup]
    # A byte for each event: a pair is two that adjoin.
    evens, odds = lookup[::2], lookup[1::2] + b"\0"
    return [cell for cell in cells if evens[cell] or odds[cell]]


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
            for gain, number, at in _largest(3 * most, found)
        ]
    if layout.admits is None:
        best = _largest(most, found)
    else:
        # An answer stands next to the words of its question, so a refused event may still point at one.
        fitting = (cell for cell in sorted(found, reverse=True) if _any(layout, layout.admits, *cell[1:], 1))
        best = list(islice(fitting, most))
    return sorted(layout.starts[number] + 2 * at + side for _, number, at in best for side in (0, 1))


def _largest(most: int, found: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """So many of the best, the best first."""
    if len(found) > most:
        # The gains alone are put in order in a fraction of the time that it takes with places.
        least = sorted([gain for gain, _, _ in found])[-most]
        found = [each for each in found if each[0] >= least]
    return sorted(found, reverse=True)[:most]


def _with_neighbours(cells: _Cells, number: int) -> list[tuple[float, int, int]]:
    """What each pair of a part gains by itself and by the pairs beside it."""
    of = cells.get
    low, high = min(cells, default=0), max(cells, default=-1)
    if high - low > _CROWDED * len(cells):
        return [
            (gain + (of(at - 1, 0.0) + of(at + 1, 0.0)) / 2 + (of(at - 2, 0.0) + of(at + 2, 0.0)) / 4, number, at)
            for at, gain in cells.items()
        ]
    # Side by side it takes a third of the time.
    row = list(map(of, range(low - 2, high + 3), repeat(0.0)))
    side_by_side = zip(range(low, high + 1), row, row[1:], row[2:], row[3:], row[4:], strict=False)
    return [
        (gain + (before + after) / 2 + (fore + behind) / 4, number, at)
        for at, fore, before, gain, after, behind in side_by_side
        if gain
    ]


def _any(layout: Layout, test: Callable[[int, int], bool], number: int, cell: int, reach: int) -> bool:
    """Whether a test holds for an event of a pair, or of one so near to it."""
    near = range(max(0, 2 * cell - reach), min(layout.sizes[number], 2 * cell + 2 + reach))
    return any(test(number, index) for index in near)


def _size(lookup: Lookup) -> int:
    """As how many occurrences it counts: a word of every eighth event as one that is in all of them."""
    return len(lookup.indexes if isinstance(lookup, Strewn) else lookup)


def _best(zone: Zone, rough: bytes, layout: Layout, weights: RankingWeights, limit: int) -> list[tuple[int, int, int]]:
    """Place in the zone, part and index in it of the best candidates."""
    masked = int.from_bytes(rough, "little") & int.from_bytes(zone.candidates, "little")
    scores: Sequence[float] = masked.to_bytes(zone.size, "little")
    if layout.admits is not None or layout.is_favoured is not None:
        scores = _judged(zone, scores, layout, weights)
    places = highest(limit, scores)
    found: list[tuple[int, int, int]] = []
    begin = 0
    for part, at, indexes in zone.stretches:
        # Both ascend: those of a stretch are those up to its end.
        begin, end = bisect_left(places, at, begin), bisect_left(places, at + len(indexes), begin)
        shift = indexes.start - at
        found += [(place, part, place + shift) for place in places[begin:end]]
    return found


def highest(most: int, scores: Sequence[float]) -> list[int]:
    """The places of so many of the best scores above 0, ascending; of equal ones the first."""
    places = list(compress(range(len(scores)), scores))
    if len(places) <= most:
        return places
    told = [*filter(None, scores)]
    least = sorted(told)[-most]
    found = [place for place, score in zip(places, told, strict=True) if score >= least]
    if len(found) > most:
        last = [place for place in found if scores[place] == least][most - len(found) :]
        found = sorted({*found}.difference(last))
    return found


def _judged(zone: Zone, scores: Sequence[float], layout: Layout, weights: RankingWeights) -> list[float]:
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
