"""The signs of vectors: a bit for each number, by which the nearest of very many are found.

Two texts that mean the like differ in few signs. 384 of them are one whole number: to compare two takes an XOR and a
count of bits, so a hundred thousand events are looked at in the time in which a hundred vectors are multiplied.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from langchain_sessions._recall.index.columns import from_bytes, to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_sessions._recall.meaning.vectors import QueryVector

P = TypeVar("P")

LONGEST_PART: Final = 2048
"""Positions that a part covers, at most, where it takes in others; of 384 dimensions 104 KB."""

MOST_COMPARED: Final = 100_000
"""Events of a scope whose signs a search compares: the newest of its newest sessions."""

_HEAD: Final = Struct("<IIQ")


def signs_of(numbers: bytes) -> int:
    """The signs of whole numbers of one byte each: a bit is set where one is above zero.

    Where none is below zero, as some models have it, one is set where a number is above the mean.
    """
    # Bytes from 128 on are numbers below zero: what has none of them is ASCII.
    middle = sum(numbers) // len(numbers) if numbers.isascii() else 0
    return int(numbers.translate(_above(middle)), 2)


@cache
def _above(middle: int) -> bytes:
    """For each byte whether it is a number above another: a digit."""
    return (middle + 1) * b"0" + (127 - middle) * b"1" + 128 * b"0"


@dataclass(frozen=True, slots=True)
class SignedPart:
    """The signs of some events of a log.

    Attributes:
        dimensions: How many each has; 0 where there is none.
        seqs: Whose they are, ascending.
        signs: What they are.
    """

    dimensions: int
    seqs: Sequence[int]
    signs: Sequence[int]

    @classmethod
    def of(cls, vectors: Mapping[int, bytes]) -> SignedPart:
        """From the numbers of vectors by position; those of another size than most, and of none, are left out."""
        sizes = Counter(len(data) for data in vectors.values() if data)
        dimensions = max(sizes, key=sizes.__getitem__, default=0)
        found = {seq: data for seq, data in sorted(vectors.items()) if data and len(data) == dimensions}
        return cls(dimensions, [*found], [*map(signs_of, found.values())])

    def joined(self, others: Iterable[SignedPart]) -> SignedPart:
        """With what lies before it, in order."""
        parts = [part for part in (*others, self) if part.seqs]
        dimensions = parts[-1].dimensions if parts else 0
        kept = [part for part in parts if part.dimensions == dimensions]
        seqs, signs = ([*chain.from_iterable(each)] for each in ((p.seqs for p in kept), (p.signs for p in kept)))
        return SignedPart(dimensions, seqs, signs)

    def pack(self) -> bytes:
        """As bytes: how many and how large, how far behind the first each is, and the signs of one after the other."""
        first, width = (self.seqs or (0,))[0], -(-self.dimensions // 8)
        behind = array("I", (seq - first for seq in self.seqs))
        head = _HEAD.pack(len(self.seqs), self.dimensions, first)
        return b"".join((head, to_bytes(behind), *(each.to_bytes(width, "little") for each in self.signs)))

    @classmethod
    def unpack(cls, data: bytes) -> SignedPart:
        """Read what `pack` wrote.

        Raises:
            ValueError: They are damaged; or another error of those that `UNREADABLE` names.
        """
        size, dimensions, first = _HEAD.unpack_from(data)
        width, read = -(-dimensions // 8), int.from_bytes
        end = _HEAD.size + 4 * size
        if len(data) != end + size * width:
            problem = "these are not as many signs as they say"
            raise ValueError(problem)
        seqs = [first + behind for behind in from_bytes("I", data[_HEAD.size : end])]
        signs = [read(each, "little") for (each,) in Struct(f"{width}s").iter_unpack(data[end:])] if width else []
        return cls(dimensions, seqs, signs)

    def lies_in(self, low: int, upto: int) -> bool:
        """Whether all are of positions behind one, and not behind another, in order."""
        return [*self.seqs] == sorted({*self.seqs}) and (not self.seqs or low < self.seqs[0] <= self.seqs[-1] <= upto)


def nearest(
    parts: Sequence[tuple[int, SignedPart]], vector: QueryVector, accept: Callable[[int, int], P | None], most: int
) -> list[P]:
    """The events whose signs differ least from those of a query; of equal ones the newest.

    Args:
        parts: Key of the session, and the signs of some of its events; from the oldest to the newest.
        vector: The query's.
        accept: What an event is called, given the key of its session and its position; None where it may not be found.
        most: How many.
    """
    asked, dimensions = vector.signs, len(vector.numbers)
    known = [(skey, part) for skey, part in parts if part.dimensions == dimensions]
    apart = [[(each ^ asked).bit_count() for each in part.signs] for _, part in known]
    counted = sorted(Counter(chain.from_iterable(apart)).items())
    found: list[P] = []
    low, wanted = 0, most
    while low < len(counted):
        high, size = low, 0
        while high < len(counted) and size < wanted:
            size += counted[high][1]
            high += 1
        first, last = counted[low][0], counted[high - 1][0]
        chosen = sorted(
            (-distances[at], number, at)
            for number, distances in enumerate(apart)
            for at in [at for at, distance in enumerate(distances) if distance <= last]
            if distances[at] >= first
        )
        for _, number, at in reversed(chosen):
            skey, part = known[number]
            place = accept(skey, part.seqs[at])
            if place is not None:
                found.append(place)
                if len(found) == most:
                    return found
        # What a filter leaves out may be nearer than all that it admits.
        low, wanted = high, 4 * wanted
    return found
