"""The words of a chunk while it is built, as they are stored: what chunks hold that it takes up is never unpacked.

An event of 400 characters has dozens of words, and is rewritten several times while the chunks of its log grow. So
nothing is done for each occurrence but once, when it is new.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from itertools import compress
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.buckets import (
    MOST_COUNTED,
    TWO_LETTERS_BELOW,
    WIDE,
    Bucket,
    bucket_of,
    join_occurrences,
    longest_sparse,
    pack_bucket,
    split_occurrences,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_COUNTS: Final = tuple(bytes((count,)) for count in range(MOST_COUNTED + 1))


class OpenPostings:
    """Where each term occurs in a chunk that is being built.

    Attributes:
        passages: How many passages there are by now.
    """

    __slots__ = ("_packed", "passages")

    def __init__(self) -> None:
        self.passages = 0
        # By term: the occurrences as they are packed sparsely.
        self._packed: dict[str, bytes] = {}

    def add(self, passages: Sequence[Mapping[str, int]]) -> None:
        """Add the terms of the passages of the next event."""
        known = self._packed
        find = known.get
        for number, terms in enumerate(passages, self.passages):
            place = number.to_bytes(WIDE - 1, "little")
            once = place + _COUNTS[1]
            for term, count in terms.items():
                each = once if count == 1 else place + _COUNTS[min(count, MOST_COUNTED)]
                known[term] = find(term, b"") + each
        self.passages += len(passages)

    def extend(self, buckets: Iterable[bytes], passages: int) -> None:
        """Add the terms of a stored chunk of so many passages."""
        known = self._packed
        base = self.passages
        for bucket in map(Bucket, buckets):
            terms, sizes, column, dense = bucket.read_columns(passages)
            if base:
                # All numbers at once: no sum reaches the byte beside it.
                shift = int.from_bytes(base.to_bytes(WIDE, "little") * (len(column) // WIDE), "little")
                column = (int.from_bytes(column, "little") + shift).to_bytes(len(column), "little")
            start = 0
            for term, size in zip(terms, sizes, strict=True):
                end = start + size
                known[term] = known[term] + column[start:end] if term in known else column[start:end]
                start = end
            for term, counted in dense:
                numbers = array("H", compress(range(base, base + passages), counted))
                known[term] = known.get(term, b"") + join_occurrences(numbers, counted.replace(b"\0", b""))
        self.passages += passages

    def take(self, buckets: Iterable[bytes], passages: int, target: Sequence[int]) -> None:
        """Add the terms of a stored chunk to passages that have been added without them.

        Args:
            buckets: Of the chunk.
            passages: How many passages it holds.
            target: The new number of each of them; less than 0 for those that are left out.
        """
        known = self._packed
        for bucket in map(Bucket, buckets):
            for term, packed in bucket.items():
                indexes, counts = split_occurrences(packed, passages)
                numbers = array("l", map(target.__getitem__, indexes))
                is_kept = bytes(number >= 0 for number in numbers)
                if any(is_kept):
                    places = array("H", compress(numbers, is_kept))
                    found = join_occurrences(places, bytes(compress(counts, is_kept)))
                    known[term] = known.get(term, b"") + found

    def pack(self) -> dict[str, bytes]:
        """The buckets of all terms, by name and in order."""
        terms = sorted(self._packed)
        packed = list(map(self._packed.__getitem__, terms))
        sizes = array("H", map(len, packed))
        limit = longest_sparse(self.passages)
        found: dict[str, bytes] = {}
        start = 0
        # In order the terms of a bucket lie side by side.
        while start < len(terms):
            name = bucket_of(terms[start])
            end = bisect_left(terms, _after(name), start)
            place = slice(start, end)
            start = end
            if max(sizes[place]) <= limit:
                found[name] = pack_bucket(terms[place], packed[place], sizes[place])
                continue
            is_sparse = [size <= limit for size in sizes[place]]
            sparse = list(compress(terms[place], is_sparse)), list(compress(packed[place], is_sparse))
            dense = [
                (term, self._dense(each))
                for term, each, kept in zip(terms[place], packed[place], is_sparse, strict=True)
                if not kept
            ]
            found[name] = pack_bucket(*sparse, array("H", compress(sizes[place], is_sparse)), dense)
        return found

    def _dense(self, packed: bytes) -> bytes:
        counted = bytearray(self.passages)
        deque(map(counted.__setitem__, *split_occurrences(packed, 0)), maxlen=0)
        return bytes(counted)


def _after(bucket: str) -> str:
    """What is above all terms of a bucket, and not above any of another that follows."""
    if bucket < TWO_LETTERS_BELOW and len(bucket) == 1:
        return f"{bucket}\0"
    return f"{bucket[:-1]}{chr(ord(bucket[-1]) + 1)}"
