"""What the rest of a session says of a query: an event among others that fit is likelier to be meant.

A word that is common in events may be rare in sessions: what was talked about all evening was talked about once. It is
added up over the places that are near enough to words of the query to be ranked: all that hold them, if they are few.
Where a query names somebody, it is about a session in which they speak, or are spoken of: among thousands of others'
this tells the most, and how rare its words are is told by such sessions alone.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.rank.occurring import indexes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._recall.index.inverted import InvertedEvents
    from langchain_sessions._recall.rank.occurring import Postings
    from langchain_sessions._recall.text.speakers import Person

_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
_IS_HELD: Final = bytes([0, *[1] * 255])


class Logs(NamedTuple):
    """The logs that are searched.

    Attributes:
        total: How many hold anything.
        events: How many events they hold.
    """

    total: int
    events: int


class Home(NamedTuple):
    """The logs that lie in a part.

    Attributes:
        number: The log that the part is of; another for each shelf.
        firsts: Where each begins in it.
        sizes: How many events each has there.
        whole: How many events each has in all.
        filled: How many of them hold anything.
    """

    number: int
    firsts: Sequence[int]
    sizes: Sequence[int]
    whole: Sequence[int]
    filled: int = 0


class Span(NamedTuple):
    """Places that follow each other and are of one log.

    Attributes:
        log: Which one.
        size: How many events it has.
        start: The first place.
        end: The one after the last.
    """

    log: tuple[int, int]
    size: int
    start: int
    end: int


def spans_of(home: Home, at: int, indexes: range, ranked: bytes | bytearray) -> Iterable[Span]:
    """The logs of some events of a part, of which the first is at a place, as far as something of them counts there."""
    number, firsts, sizes, whole, _ = home
    shift, stop = at - indexes.start, indexes.stop
    which = bisect_right(firsts, indexes.start) - 1 if len(firsts) > 1 else 0
    for each in range(max(0, which), len(firsts)):
        first = firsts[each]
        if first >= stop:
            break
        start = max(at, first + shift)
        end = min(first + sizes[each], stop) + shift
        # Around a short log lie others, of which nothing is near enough to a word.
        if start < end and ranked.find(255, start, end) >= 0:
            yield Span((number, first), whole[each], start, end)


def company(
    places: Iterable[int],
    spans: Sequence[Span],
    ranked: bytes | bytearray,
    counted: Sequence[bytes],
    expected: Sequence[float],
    *,
    logs: Logs,
) -> list[float]:
    """How well the log of each of some places fits a query, from 0 to 4, as passages do.

    Args:
        places: These, each in one of the spans.
        spans: Where the logs lie.
        ranked: A byte for each place: 255 where it counts.
        counted: How often each unit of the query occurs at each place; empty where nowhere.
        expected: In how many logs each unit occurs, at least.
        logs: All that are searched.
    """
    mean = logs.events / logs.total
    numbers: dict[tuple[int, int], int] = {}
    damping: list[float] = []
    # What counts anywhere lies in one of the spans.
    log_at = [0] * len(ranked)
    for log, size, start, end in spans:
        number = numbers.get(log)
        if number is None:
            number = numbers[log] = len(damping)
            damping.append(_SATURATION * (1 - _LENGTH + _LENGTH * size / mean))
        log_at[start:end] = [number] * (end - start)
    gained = [0.0] * len(damping)
    mask, perfect = int.from_bytes(ranked, "little"), 0.0
    for counts, least in zip(counted, expected, strict=True):
        if not counts:
            continue
        here = (int.from_bytes(counts, "little") & mask).to_bytes(len(counts), "little")
        held = Counter(compress(log_at, here))
        occurring = max(float(len(held)), least)
        rarity = math.log(1 + (max(logs.total, occurring) - occurring + 0.5) / (occurring + 0.5))
        perfect += rarity
        for number, found in held.items():
            gained[number] += rarity * found / (found + damping[number])
    if not perfect:
        return [0.0 for _ in places]
    fits = [4 * gain / perfect for gain in gained]
    return [fits[log_at[place]] for place in places]


def scattered(frequency: int, logs: Logs) -> float:
    """In how many logs a unit occurs that occurs in so many events, were they strewn over the logs by chance."""
    missing = 1.0 - min(frequency, logs.events) / max(1, logs.events)
    return logs.total * (1.0 - math.pow(missing, logs.events / logs.total))


class Present:
    """In which logs those take part whom a query names: who speaks there, or is spoken of.

    Args:
        persons: Whom it names; at least one.
        named: Where the words of each name occur.
        parts: What is searched.
        homes: Which logs lie in each part.
    """

    def __init__(
        self,
        persons: Sequence[Person],
        named: Sequence[Sequence[Postings]],
        parts: Sequence[InvertedEvents],
        homes: Sequence[Home],
    ) -> None:
        self._homes = homes
        self._events = [part.events for part in parts]
        sizes = {
            (home.number, first): size for home in homes for first, size in zip(home.firsts, home.whole, strict=True)
        }
        self._sizes = {place: size for place, size in sizes.items() if size}
        total, gains = len(self._sizes), dict[tuple[int, int], float]()
        for person, units in zip(persons, named, strict=True):
            spoken = {
                (home.number, first)
                for part, home in zip(parts, homes, strict=True)
                for first in part.spoken(person.bearers)
            }
            # Who is only talked about is not to be lost among those who speak elsewhere.
            spoken.update(set.intersection(*[_logs_with(unit, homes) for unit in units]))
            held = len(spoken)
            rarity = math.log(1 + (max(total, held) - held + 0.5) / (held + 0.5))
            for place in spoken:
                gains[place] = gains.get(place, 0.0) + rarity / len(persons)
        self._gains = gains

    def gain(self, number: int, index: int) -> float:
        """How much it tells who takes part in the log of an event (part, index): as much as a word that is as rare."""
        home = self._homes[number]
        return self._gains.get((home.number, home.firsts[max(0, bisect_right(home.firsts, index) - 1)]), 0.0)

    def among(self) -> Among | None:
        """The logs in which the most of them take part, where others hold more than these."""
        most = max(self._gains.values(), default=0.0)
        sizes = self._sizes
        chosen = {place for place, gain in self._gains.items() if gain == most and place in sizes}
        events = sum([sizes[place] for place in chosen])
        if not most or 2 * events > sum(sizes.values()):
            return None
        masks: dict[int, bytearray] = {}
        for number, home in enumerate(self._homes):
            for first, size in zip(home.firsts, home.sizes, strict=True):
                if (home.number, first) in chosen:
                    # As long as the part: behind the last log that is searched here others may lie that are not.
                    mask = masks.setdefault(number, bytearray(self._events[number]))
                    mask[first : first + size] = b"\1" * size
        return Among(events, masks)


class Among(NamedTuple):
    """Some of the events that are searched.

    Attributes:
        events: How many.
        masks: By part, a byte for each event: 1 for these.
    """

    events: int
    masks: Mapping[int, bytearray]

    def count(self, unit: Postings) -> int:
        """In how many of them a unit occurs."""
        found = 0
        for number, mask in self.masks.items():
            lookup = unit.lookup(number)
            if isinstance(lookup, bytes):
                found += (
                    int.from_bytes(lookup.translate(_IS_HELD), "little") & int.from_bytes(mask, "little")
                ).bit_count()
            elif lookup:
                found += sum(map(mask.__getitem__, lookup))
        return found


def _logs_with(unit: Postings, homes: Sequence[Home]) -> set[tuple[int, int]]:
    """The logs in which a unit occurs."""
    found: set[tuple[int, int]] = set()
    for number in unit.occurring:
        home, lookup = homes[number], unit.lookup(number)
        for index in indexes_of(lookup or b""):
            at = bisect_right(home.firsts, index) - 1
            if at >= 0 and index < home.firsts[at] + home.sizes[at]:
                found.add((home.number, home.firsts[at]))
    return found
