"""What the rest of a session says of a query: an event among others that fit is likelier to be meant.

A word that is common in events may be rare in sessions: what was talked about all evening was talked about once. It is
added up over the places that are near enough to words of the query to be ranked: all that hold them, if they are few.
Where a query names somebody, it is about a session in which they speak: among thousands of others' this tells the most.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._recall.index.inverted import InvertedEvents

_SATURATION: Final = 1.2
_LENGTH: Final = 0.75


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
    """Who of those that a query names speaks in the log of an event.

    Args:
        names: For each name the authors who bear it; at least one.
        parts: What is searched.
        homes: Which logs lie in each part.
    """

    def __init__(self, names: Sequence[frozenset[str]], parts: Sequence[InvertedEvents], homes: Sequence[Home]) -> None:
        self._names = names
        self._parts = parts
        self._homes = homes
        self._known: dict[tuple[int, int], float] = {}
        self._of_logs: dict[int, set[str]] = {}
        for part, home in zip(parts, homes, strict=True):
            self._of_logs.setdefault(home.number, set()).update(part.speakers, part.labels)

    def share(self, number: int, index: int) -> float:
        """Of an event (part, index): the share of the names that are borne by somebody who speaks in its log."""
        home = self._homes[number]
        at = max(0, bisect_right(home.firsts, index) - 1)
        place = home.number, at
        known = self._known.get(place)
        if known is None:
            speakers = self._of_logs[home.number]
            if len(home.firsts) > 1:
                # Of a shelf it is known who speaks on it, not in which log.
                part, first = self._parts[number], home.firsts[at]
                speakers = {name for slot in range(first, first + home.sizes[at]) if (name := part.author(slot))}
            found = sum(not bearers.isdisjoint(speakers) for bearers in self._names)
            known = self._known[place] = found / len(self._names)
        return known
