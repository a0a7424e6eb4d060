"""Runs of log positions: how views name many events in a few bytes.

Two shapes share the notation `1-4,7`: a *set* of positions (`SeqSet`: what is hidden, what is covered) and an
ordered *list* of positions (`encode_ranges`, `decode_ranges`: a message list of a checkpoint, in its own order).
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SeqRange = tuple[int, int]

_TEXT_LIMIT = 64
"""Longer texts are packed: zigzag deltas of the run bounds, deflated."""
_PACKED = b"\x01"


@dataclass(frozen=True, slots=True)
class SeqSet:
    """An immutable set of positions, held as sorted disjoint inclusive runs."""

    ranges: tuple[SeqRange, ...] = ()

    @classmethod
    def of(cls, seqs: Iterable[int]) -> SeqSet:
        """The set of the given positions, in any order."""
        ordered = sorted(set(seqs))
        if not ordered:
            return NO_SEQS
        # One range, as it nearly always is: known without folding.
        if ordered[-1] - ordered[0] < len(ordered):
            return cls(((ordered[0], ordered[-1]),))
        return cls(tuple(fold_ranges(ordered)))

    @classmethod
    def of_runs(cls, runs: Iterable[SeqRange]) -> SeqSet:
        """The positions of an ordered list, which may go back, and name some more than once."""
        ordered = tuple(sorted(runs))
        return cls(ordered if len(ordered) < 2 else tuple(_merge(ordered)))

    @classmethod
    def between(cls, first: int, last: int) -> SeqSet:
        """All positions from `first` to `last`, both included; empty when `last` is smaller."""
        return cls(((first, last),)) if first <= last else cls()

    def __contains__(self, seq: object) -> bool:
        """Whether the position is in the set, in logarithmic time."""
        if not isinstance(seq, int) or not self.ranges:
            return False
        at = bisect_right(self.ranges, (seq, _INFINITE)) - 1
        return at >= 0 and seq <= self.ranges[at][1]

    def __iter__(self) -> Iterator[int]:
        """Every position, ascending."""
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        """How many positions there are."""
        return sum(last - first + 1 for first, last in self.ranges)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.ranges)

    def __or__(self, other: SeqSet) -> SeqSet:
        """The union."""
        if not self.ranges or not other.ranges:
            return self if self.ranges else other
        return SeqSet(tuple(_merge(sorted((*self.ranges, *other.ranges)))))

    def __and__(self, other: SeqSet) -> SeqSet:
        """The intersection."""
        if not self.ranges or not other.ranges:
            return NO_SEQS
        found: list[SeqRange] = []
        mine, theirs = list(self.ranges), list(other.ranges)
        i = j = 0
        while i < len(mine) and j < len(theirs):
            first, last = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if first <= last:
                found.append((first, last))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return SeqSet(tuple(found))

    def __sub__(self, other: SeqSet) -> SeqSet:
        """What is here and not there."""
        mine, theirs = self.ranges, other.ranges
        # Nearly always one of them is empty, or what is taken away stands behind or before all there is.
        if not mine or not theirs or theirs[0][0] > mine[-1][1] or theirs[-1][1] < mine[0][0]:
            return self
        return self & SeqSet.complement(other, mine[0][0], mine[-1][1])

    def complement(self, first: int, last: int) -> SeqSet:
        """The positions between `first` and `last` that are not in the set."""
        gaps: list[SeqRange] = []
        at = first
        for low, high in self.ranges:
            if high < first or low > last:
                continue
            if at < low:
                gaps.append((at, low - 1))
            at = high + 1
        if at <= last:
            gaps.append((at, last))
        return SeqSet(tuple(gaps)) if gaps else NO_SEQS


_INFINITE = 1 << 63
NO_SEQS = SeqSet()
"""No position."""


def fold_ranges(seqs: Iterable[int]) -> Iterator[SeqRange]:
    """Fold positions into maximal ascending runs, keeping their order."""
    first = last = None
    for seq in seqs:
        if last is not None and first is not None and seq == last + 1:
            last = seq
            continue
        if first is not None and last is not None:
            yield (first, last)
        first = last = seq
    if first is not None and last is not None:
        yield (first, last)


def _merge(ordered: Iterable[SeqRange]) -> Iterator[SeqRange]:
    current: SeqRange | None = None
    for first, last in ordered:
        if current is not None and first <= current[1] + 1:
            current = (current[0], max(current[1], last))
            continue
        if current is not None:
            yield current
        current = (first, last)
    if current is not None:
        yield current


def encode_ranges(seqs: Iterable[int]) -> bytes:
    """An ordered list of positions as bytes: readable text while short, packed when long."""
    return pack_ranges(list(fold_ranges(seqs)))


def pack_ranges(runs: list[SeqRange]) -> bytes:
    """`encode_ranges` for positions that are folded into runs already."""
    if len(runs) == 1:  # as nearly always
        first, last = runs[0]
        return b"%d-%d" % runs[0] if first != last else b"%d" % first
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs).encode()
    # A database that is looked at by hand shows most of them as they are.
    return text if len(text) <= _TEXT_LIMIT else _PACKED + zlib.compress(_deltas(runs), 6)


def decode_ranges(data: bytes) -> list[SeqRange]:
    """The runs of `encode_ranges`, in order.

    Raises:
        ValueError: The bytes are not such a list.
    """
    if data[:1] == _PACKED:
        try:
            return list(_undelta(zlib.decompress(data[1:])))
        except zlib.error as error:
            raise ValueError(str(error)) from error
    return [*_spelled_out(data)] if data else []


@lru_cache(64)
def _spelled_out(data: bytes) -> tuple[SeqRange, ...]:
    """Runs as text. A step asks half a dozen times for the same few, which are short."""
    runs: list[SeqRange] = []
    for part in data.decode("ascii").split(","):
        first, _, last = part.partition("-")
        runs.append((int(first), int(last or first)))
    return tuple(runs)


def expand_ranges(runs: Iterable[SeqRange]) -> list[int]:
    """Every position of the runs, in their order."""
    return [*chain.from_iterable([range(first, last + 1) for first, last in runs])]


def without_first(runs: Sequence[SeqRange], count: int) -> list[SeqRange]:
    """The runs of an ordered list without its first positions."""
    left = list(runs)
    for at, (first, last) in enumerate(left):
        size = last - first + 1
        if count < size:
            return [(first + count, last), *left[at + 1 :]]
        count -= size
    return []


def are_ascending(runs: Sequence[SeqRange]) -> bool:
    """Whether a list of ordered runs holds its numbers in ascending order."""
    return all(a[1] < b[0] for a, b in pairwise(runs))


def joined_ranges(first: list[SeqRange], second: list[SeqRange]) -> list[SeqRange]:
    """Two lists of runs as one."""
    if first and second and first[-1][1] + 1 == second[0][0]:
        return [*first[:-1], (first[-1][0], second[0][1]), *second[1:]]
    return first + second


def _deltas(runs: list[SeqRange]) -> bytes:
    packed = bytearray()
    at = 0
    for first, last in runs:
        step = first - at
        # Zigzag: a list may go backwards, and small steps of either sign are to take one byte.
        _varint(packed, (step << 1) ^ (step >> 63))
        _varint(packed, last - first)
        at = last
    return bytes(packed)


def _varint(into: bytearray, number: int) -> None:
    while number > 0x7F:
        into.append((number & 0x7F) | 0x80)
        number >>= 7
    into.append(number)


def _undelta(packed: bytes) -> Iterator[SeqRange]:
    numbers: list[int] = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    # Bytes that end in the middle of a number, or of a pair, are no list that was ever written.
    if shift or len(numbers) % 2:
        message = "truncated runs"
        raise ValueError(message)
    at = 0
    for step, length in zip(numbers[::2], numbers[1::2], strict=True):
        first = at + ((step >> 1) ^ -(step & 1))
        at = first + length
        yield (first, at)
