"""What events and their neighbours say, added up for thousands of places at once.

Sixteen bits for each place, all of them one number, which is shifted and multiplied as a whole. To choose among the
places, counts and lengths need not be exact: a byte holds the level of the one and the class of the other, and a table
says what such a place is worth.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from operator import mul
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.columns import from_bytes
from langchain_sessions._recall.index.ranking_traits import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._recall.index.ranking_traits import Columns
    from langchain_sessions._recall.rank.ranking import RankingWeights

FULL: Final = 255
MOST_OWN: Final = 15
"""More of the same word in one event counts no more; beside it, a neighbour's counts up to half as often."""

_MOST_NEAR: Final = 7
_WIDEST: Final = 65_535
_CLASSES: Final = 8
_SHORTEST_CLASS: Final = -3
_LEVELS: Final = 32
_OWN: Final = bytes(min(count, MOST_OWN) for count in range(FULL + 1))
_NEAR: Final = bytes(min(count, _MOST_NEAR) for count in range(FULL + 1))
_WHOLE: Final = bytes(min(count, _MOST_NEAR) * WHOLE for count in range(FULL + 1))
_COUNTS: Final = (0.0, *(0.06 * 1.22**level for level in range(_LEVELS - 1)))
"""The counts that are told apart, from a distant neighbour's word to many of one's own."""


def longest_neighbour(weights: RankingWeights) -> int:
    """As how many terms a neighbour counts at most, as a byte."""
    return max(1, min(FULL, weights.neighbour))


class Kernel:
    """The neighbours of some places.

    Args:
        weights: What counts how much.
        columns: What is added up of the lengths of the event at each place; 0 where there is none.
        average: Mean length of a passage read with its neighbours.

    Attributes:
        scale: What one word counts.
        around: Number of terms of the neighbours of each place, as they count, times `unit`.
        unit: What one term counts there.
    """

    def __init__(self, weights: RankingWeights, columns: Columns, average: float) -> None:
        near = {offset: share for offset, share in weights.kernel().items() if offset}
        longest = longest_neighbour(weights)
        widest = max(WHOLE * (MOST_OWN + _MOST_NEAR * sum(near.values())), longest * sum(near.values()) + FULL)
        # As fine as sixteen bits allow without one place running over into the next.
        unit = max(1, min(64, int(_WIDEST / widest)))
        self.scale = unit * WHOLE
        self._shares = {offset: round(unit * share) for offset, share in near.items()}
        self._size = len(columns.near)
        self._worth = columns.worth
        around = self._spread(columns.near)
        self.around = self._lanes(around)
        self.unit = unit
        told = around + unit * _as_lanes(columns.shares.translate(_at_least(weights.shortest)))
        steps = told.to_bytes(2 * self._size, "little")[1::2]
        classes = steps.translate(_classes((_WIDEST + 1) / (FULL + 1) / unit / average))
        self._classes = int.from_bytes(classes, "little")
        self._saturated = _saturated(weights.saturation, weights.length)

    def windows(self, counts: bytes) -> bytes:
        """How often a term occurs at each place and around it, times `scale`: two bytes each; empty where nowhere."""
        if not counts:
            return b""
        near = (
            counts.translate(_WHOLE) if self._worth is None else bytes(map(mul, counts.translate(_NEAR), self._worth))
        )
        total = self.scale * _as_lanes(counts.translate(_OWN)) + self._spread(near)
        return total.to_bytes(2 * self._size, "little")

    def rough(self, windows: Sequence[bytes], rarity: Sequence[float]) -> bytes:
        """What every place is worth by its words, as a share of 255."""
        found = [(counts, gain) for counts, gain in zip(windows, rarity, strict=True) if counts]
        # However little a word is worth beside the others, it is a reason to be found.
        least = 1 if len(found) < FULL // 2 else 0
        factor = (FULL - least * len(found)) / (sum(rarity) or 1.0)
        levels = _levels(self.scale)
        total = 0
        for counts, gain in found:
            worth = bytes([int(factor * gain * share) + least if share else 0 for share in self._saturated])
            told = int.from_bytes(counts[1::2].translate(levels), "little") | self._classes
            total += int.from_bytes(told.to_bytes(self._size, "little").translate(worth), "little")
        return total.to_bytes(self._size, "little")

    def _spread(self, counts: bytes | bytearray) -> int:
        """What the neighbours of each place hold."""
        whole = _as_lanes(counts)
        total = 0
        for offset, share in self._shares.items():
            total += share * (whole >> 16 * offset if offset > 0 else whole << -16 * offset)
        return total & ((1 << 16 * self._size) - 1)

    def _lanes(self, total: int) -> Sequence[int]:
        return from_bytes("H", total.to_bytes(2 * self._size, "little"))


def _as_lanes(counts: bytes | bytearray) -> int:
    """A byte for each place as two."""
    wide = bytearray(2 * len(counts))
    wide[::2] = counts
    return int.from_bytes(wide, "little")


def _classes(step: float) -> bytes:
    """The class of each length that a byte tells, in its upper three bits; a step is a share of the average."""
    lengths = (step * (told + 0.5) for told in range(FULL + 1))
    numbers = (round(math.log2(length)) - _SHORTEST_CLASS for length in lengths)
    return bytes(max(0, min(_CLASSES - 1, number)) << 5 for number in numbers)


@lru_cache(maxsize=8)
def _at_least(shortest: int) -> bytes:
    """Each number up to 255, or the shortest where that is more."""
    return bytes(max(number, min(shortest, FULL)) for number in range(FULL + 1))


@lru_cache(maxsize=8)
def _levels(scale: int) -> bytes:
    """The level of each upper byte of a count."""
    counts = [told * (FULL + 1) / scale for told in range(FULL + 1)]
    between = [(low + high) / 2 for low, high in pairwise(_COUNTS)]
    return bytes([0, *(max(1, bisect_left(between, count)) for count in counts[1:])])


@lru_cache(maxsize=8)
def _saturated(saturation: float, length: float) -> tuple[float, ...]:
    """What a count of each level counts in a passage of each class."""
    norms = [1 - length + length * 2.0 ** (number + _SHORTEST_CLASS) for number in range(_CLASSES)]
    return tuple(count / (count + saturation * norm) if count else 0.0 for norm in norms for count in _COUNTS)
