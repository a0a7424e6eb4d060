"""The words of a chunk, packed: terms in buckets by their first letters, each with where it occurs.

A word costs one small row per chunk and `prefix*` a few. A search reads a bucket without unpacking it: a term is found
by `bytes.find`, its occurrences are arrays.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.columns import from_bytes, to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST_COUNTED: Final = 255
_SPARSE: Final = 8
# Scripts that are written without blanks lie above: there a character or a pair is a term, and buckets are many anyway.
_TWO_LETTERS_BELOW: Final = "\u0e00"

Postings = tuple["Sequence[int]", "Sequence[int]"]
"""Numbers of passages in a chunk, ascending, and how often the term occurs in each."""


def bucket_of(term: str) -> str:
    """The bucket that a term lies in: its first two letters, or one where a letter says as much as a word."""
    return term[:2] if term < _TWO_LETTERS_BELOW else term[:1]


class Bucket:
    """One bucket of one chunk as it was read; nothing is unpacked before it is asked for.

    Args:
        data: As `pack_bucket` made it.
    """

    __slots__ = ("_data", "_start", "_words")

    def __init__(self, data: bytes) -> None:
        size = int.from_bytes(data[:4], "little")
        self._words = data[4 : 4 + size]
        self._start = 4 + size
        self._data = data

    def _packed(self, at: int) -> bytes:
        sizes = from_bytes("H", self._data[self._start : self._start + 2 * at + 2])
        start = self._start + 2 * (self._words.count(b"\n") - 1) + sum(sizes[:at])
        return self._data[start : start + sizes[at]]

    def find(self, term: str) -> bytes | None:
        """The packed occurrences of a term; None where it does not occur."""
        # With the line ends, so that no term is found within another.
        found = self._words.find(b"\n%b\n" % term.encode("utf-8", "surrogatepass"))
        return None if found < 0 else self._packed(self._words.count(b"\n", 0, found))

    def terms(self) -> list[str]:
        """All terms, in order."""
        return self._words[1:-1].decode("utf-8", "surrogatepass").split("\n")

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All terms with their packed occurrences."""
        terms = self.terms()
        start = self._start + 2 * len(terms)
        sizes = from_bytes("H", self._data[self._start : start])
        for term, size in zip(terms, sizes, strict=True):
            yield term, self._data[start : start + size]
            start += size


def is_dense(packed: bytes, passages: int) -> bool:
    """Whether packed occurrences hold a byte for every passage of the chunk."""
    return len(packed) == passages


def unpack_postings(packed: bytes, passages: int) -> Postings:
    """The occurrences of a term."""
    if is_dense(packed, passages):
        indexes = [index for index, count in enumerate(packed) if count]
        return indexes, packed.replace(b"\0", b"")
    size = len(packed) // 3
    return from_bytes("H", packed[: 2 * size]), packed[2 * size :]


def count_postings(packed: bytes, passages: int) -> int:
    """In how many passages a term occurs."""
    return passages - packed.count(0) if is_dense(packed, passages) else len(packed) // 3


def pack_buckets(postings: Mapping[str, Sequence[int]], passages: int) -> dict[str, bytes]:
    """Pack the occurrences of all terms of a chunk, by bucket.

    Args:
        postings: By term: for each of its passages, ascending, the number of the passage times 256, and the count.
        passages: How many there are in all.
    """
    terms = sorted(postings)
    packed = pack_occurrences([postings[term] for term in terms], passages)
    sizes = list(map(len, packed))
    buckets: dict[str, bytes] = {}
    start = 0
    # In order the terms of a bucket lie side by side.
    for bucket, count in Counter(map(bucket_of, terms)).items():
        end = start + count
        buckets[bucket] = _pack_bucket(terms[start:end], sizes[start:end], packed[start:end])
        start = end
    return buckets


def pack_occurrences(postings: Sequence[Sequence[int]], passages: int) -> list[bytes]:
    """Pack the occurrences of terms: a byte per passage for one that is in every eighth, else an entry per occurrence.

    All are cut from the same columns: most terms occur once or twice, and an array for each would cost more than they.
    """
    columns = to_bytes(array("I", chain.from_iterable(postings)))
    counts = columns[::4]
    numbers = bytearray(2 * len(counts))
    numbers[::2] = columns[1::4]
    numbers[1::2] = columns[2::4]
    packed: list[bytes] = []
    start = 0
    sparse = (passages - 1) // _SPARSE
    for values in postings:
        end = start + len(values)
        if end - start <= sparse:
            packed.append(bytes(numbers[2 * start : 2 * end]) + counts[start:end])
        else:
            dense = bytearray(passages)
            for value in values:
                dense[value >> 8] = value & MOST_COUNTED
            packed.append(bytes(dense))
        start = end
    return packed


def _pack_bucket(terms: Sequence[str], sizes: Sequence[int], packed: Sequence[bytes]) -> bytes:
    words = "\n{}\n".format("\n".join(terms)).encode("utf-8", "surrogatepass")
    return b"".join((len(words).to_bytes(4, "little"), words, to_bytes(array("H", sizes)), *packed))


class PackedOccurrences:
    """Where a term occurs in a stored chunk.

    Args:
        data: As packed, by passage.
        passages: How many passages the chunk holds.
        owners: The event of each passage; None where each event is one.
    """

    __slots__ = ("_data", "_owners", "_passages")

    def __init__(self, data: bytes, passages: int, owners: Sequence[int] | None = None) -> None:
        self._data = data
        self._passages = passages
        self._owners = owners

    def __len__(self) -> int:
        return count_postings(self._data, self._passages) if self._owners is None else len(self.lookup())

    def lookup(self) -> dict[int, int] | bytes:
        """The count at each index: of what occurs, or a byte for every event of the chunk."""
        if self._owners is None and is_dense(self._data, self._passages):
            return self._data
        indexes, counts = unpack_postings(self._data, self._passages)
        if self._owners is None:
            return dict(zip(indexes, counts, strict=True))
        found: dict[int, int] = {}
        for index, count in zip(map(self._owners.__getitem__, indexes), counts, strict=True):
            found[index] = min(MOST_COUNTED, found.get(index, 0) + count)
        return found

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Index in the chunk and count, ascending."""
        if self._owners is None:
            return zip(*unpack_postings(self._data, self._passages), strict=True)
        found = self.lookup()
        assert isinstance(found, dict)  # noqa: S101 - by passage it is never as it was packed
        return found.items()

    def passages(self) -> dict[int, int]:
        """The count in each passage; none where each event is one."""
        if self._owners is None:
            return {}
        return dict(zip(*unpack_postings(self._data, self._passages), strict=True))
