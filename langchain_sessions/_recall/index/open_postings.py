"""The words of a chunk while it is built, as they are stored: what chunks hold that it takes up is never unpacked.

An event of 400 characters has dozens of words, and is rewritten several times while the chunks of its log grow. So of
an occurrence no more is noted than in which passage it is: what is counted and packed, is so for all at once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate, chain, compress, repeat
from operator import gt, mul
from typing import TYPE_CHECKING

from langchain_sessions._recall.index.buckets import (
    MOST_COUNTED,
    TWO_LETTERS_BELOW,
    WIDE,
    Bucket,
    bucket_of,
    join_occurrences,
    longest_sparse,
    pack_bucket,
    pack_occurrences,
    split_occurrences,
)
from langchain_sessions._recall.index.columns import narrowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Sized


class OpenPostings:
    """Where each term occurs in a chunk that is being built.

    Attributes:
        passages: How many passages there are by now.
    """

    __slots__ = ("_counted", "_noted", "_packed", "passages")

    def __init__(self) -> None:
        self.passages = 0
        # By term: what was added last. The number of each passage, and in eight bits below it how often it is there
        # beyond once.
        self._noted: dict[str, list[int]] = {}
        # By term: the occurrences before, as they are packed sparsely.
        self._packed: dict[str, bytes] = {}
        # By term that is packed densely: how often it is in each of the first passages.
        self._counted: dict[str, bytearray] = {}

    def add(self, passages: Sequence[Iterable[str]]) -> None:
        """Add the terms of the passages of the next event, each as often as it occurs."""
        known = self._noted
        find = known.get
        for number, terms in enumerate(passages, self.passages):
            once = number << 8
            for term in terms:
                noted = find(term)
                if noted is None:
                    known[term] = [once]
                elif noted[-1] < once:
                    noted.append(once)
                elif noted[-1] < once + MOST_COUNTED - 1:
                    noted[-1] += 1
        self.passages += len(passages)

    def extend(self, buckets: Iterable[bytes], passages: int) -> None:
        """Add the terms of a stored chunk of so many passages."""
        self._settle()
        base = self.passages
        for bucket in map(Bucket, buckets):
            terms, sizes, column, dense = bucket.read_columns(passages)
            if base:
                # All numbers at once: no sum reaches the byte beside it.
                shift = int.from_bytes(base.to_bytes(WIDE, "little") * (len(column) // WIDE), "little")
                column = (int.from_bytes(column, "little") + shift).to_bytes(len(column), "little")
            self._keep(terms, sizes, column)
            for term, counted in dense:
                known = self._counted.setdefault(term, bytearray())
                known += bytes(base - len(known)) + counted
        self.passages += passages

    def take(self, buckets: Iterable[bytes], passages: int, target: Sequence[int]) -> None:
        """Add the terms of a stored chunk to passages that have been added without them.

        Args:
            buckets: Of the chunk.
            passages: How many passages it holds.
            target: The new number of each of them; less than 0 for those that are left out.
        """
        self._settle()
        known = self._packed
        for bucket in map(Bucket, buckets):
            for term, packed in bucket.items():
                indexes, counts = split_occurrences(packed, passages)
                numbers = array("l", map(target.__getitem__, indexes))
                is_kept = bytes(number >= 0 for number in numbers)
                if any(is_kept):
                    places = array("I", compress(numbers, is_kept))
                    found = join_occurrences(places, bytes(compress(counts, is_kept)))
                    known[term] = known.get(term, b"") + found

    def pack(self) -> dict[str, bytes]:
        """The buckets of all terms, by name and in order."""
        limit = longest_sparse(self.passages)
        if self._packed or self._counted:
            self._settle()
            self._count(list(_longer(self._packed, limit)), limit)
            terms = sorted(self._packed)
            pieces = list(map(self._packed.__getitem__, terms))
            sizes, column = list(map(len, pieces)), b"".join(pieces)
        else:
            for term in list(_longer(self._noted, limit // WIDE)):
                self._packed[term] = pack_occurrences(array("I", self._noted.pop(term)))
            self._count(list(self._packed), limit)
            terms = sorted(self._noted)
            sizes, column = _pack(list(map(self._noted.__getitem__, terms)))
        return self._buckets(terms, sizes, column)

    def _settle(self) -> None:
        """Pack what was added last."""
        if self._noted:
            self._keep(list(self._noted), *_pack(list(self._noted.values())))
            self._noted.clear()

    def _keep(self, terms: Iterable[str], sizes: Iterable[int], column: bytes) -> None:
        """Put packed occurrences behind those that are known."""
        known, start = self._packed, 0
        for term, end in zip(terms, accumulate(sizes), strict=True):
            known[term] = known[term] + column[start:end] if term in known else column[start:end]
            start = end

    def _count(self, frequent: Iterable[str], limit: int) -> None:
        """Have densely what is to be packed so, and nothing else."""
        for term in dict.fromkeys(chain(self._counted, frequent)):
            counted = self._counted.setdefault(term, bytearray())
            counted += bytes(self.passages - len(counted))
            for number, count in zip(*split_occurrences(self._packed.pop(term, b""), 0), strict=True):
                counted[number] = count
            if WIDE * (self.passages - counted.count(0)) <= limit:
                numbers = array("I", compress(range(self.passages), counted))
                self._packed[term] = join_occurrences(numbers, self._counted.pop(term).replace(b"\0", b""))

    def _buckets(self, terms: list[str], sizes: Sequence[int], column: bytes) -> dict[str, bytes]:
        """The buckets of sparse terms in order, by how many bytes each takes of a column, and of the dense ones."""
        dense: dict[str, list[tuple[str, bytes]]] = {}
        for term in sorted(self._counted):
            dense.setdefault(bucket_of(term), []).append((term, bytes(self._counted[term])))
        ends = list(accumulate(sizes, initial=0))
        written = narrowed(array("I", sizes))
        found: dict[str, bytes] = {}
        first = 0
        # In order the terms of a bucket lie side by side.
        while first < len(terms):
            name = bucket_of(terms[first])
            last = bisect_left(terms, _after(name), first)
            part = column[ends[first] : ends[last]]
            found[name] = pack_bucket(terms[first:last], written[2 * first : 2 * last], part, dense.pop(name, ()))
            first = last
        found.update((name, pack_bucket([], b"", b"", some)) for name, some in dense.items())
        return dict(sorted(found.items())) if dense else found


def _longer(known: Mapping[str, Sized], limit: int) -> Iterable[str]:
    """The terms of which more is known."""
    return compress(known, map(gt, map(len, known.values()), repeat(limit)))


def _pack(noted: Sequence[Sequence[int]]) -> tuple[list[int], bytes]:
    """What is noted of terms as it is stored: how many bytes each takes, and these."""
    column = pack_occurrences(array("I", list(chain.from_iterable(noted))))
    return list(map(mul, map(len, noted), repeat(WIDE))), column


def _after(bucket: str) -> str:
    """What is above all terms of a bucket, and not above any of another that follows."""
    if bucket < TWO_LETTERS_BELOW and len(bucket) == 1:
        return f"{bucket}\0"
    return f"{bucket[:-1]}{chr(ord(bucket[-1]) + 1)}"
