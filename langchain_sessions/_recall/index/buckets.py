"""The words of a chunk, packed: terms in buckets by their first letters, each with where it occurs.

A word costs one small row per chunk and `prefix*` a few. A search reads a bucket without unpacking it: a term is found
by `bytes.find`, its occurrences are arrays.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.columns import from_bytes, narrowed, to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_COUNTED: Final = 255
WIDE: Final = 3
"""Bytes of an occurrence: two for the number of the passage, the lower one first, and one for the count."""
_SPARSE: Final = 8
_ONE_MORE: Final = bytes((*range(1, MOST_COUNTED + 1), 0))
_WIDEST: Final = 65_535
# Scripts that are written without blanks lie above: there a character or a pair is a term, and buckets are many anyway.
TWO_LETTERS_BELOW: Final = "\u0e00"

Postings = tuple["Sequence[int]", "Sequence[int]"]
"""Numbers of passages in a chunk, ascending, and how often the term occurs in each."""


def bucket_of(term: str) -> str:
    """The bucket that a term lies in: its first two letters, or one where a letter says as much as a word."""
    return term[:2] if term < TWO_LETTERS_BELOW else term[:1]


@lru_cache(maxsize=256)
def sought(term: str) -> tuple[str, bytes]:
    """The bucket that a term lies in, and how it stands there."""
    return bucket_of(term), b"\n%b\n" % term.encode("utf-8", "surrogatepass")


class Bucket:
    """One bucket of one chunk as it was read; nothing is unpacked before it is asked for.

    Args:
        data: As `pack_bucket` made it: the terms, the dense ones last, how long each is packed, and what is packed.
    """

    __slots__ = ("_data", "_start", "_terms")

    def __init__(self, data: bytes) -> None:
        self._start = 4 + int.from_bytes(data[:4], "little")
        self._data = data
        self._terms = -1

    def _packed(self, at: int) -> bytes:
        """The occurrences of a term."""
        if self._terms < 0:
            self._terms = self._data.count(b"\n", 4, self._start) - 1
        data, start = self._data, self._start + 2 * at
        packed = self._start + 2 * self._terms
        before, size = data[self._start : start], data[start] | data[start + 1] << 8
        if len(data) - packed < _WIDEST:
            # Digits to this base add up to what the number leaves: a tenth of what it takes to add them one by one.
            packed += int.from_bytes(before, "little") % _WIDEST
        else:
            packed += sum(from_bytes("H", before))
        return data[packed : packed + size]

    def find(self, term: str) -> bytes | None:
        """The packed occurrences of a term; None where it does not occur."""
        # With the line ends, so that no term is found within another.
        found = self._data.find(sought(term)[1], 4, self._start)
        return None if found < 0 else self._packed(self._data.count(b"\n", 4, found))

    def terms(self) -> list[str]:
        """All terms."""
        return self._data[5 : self._start - 1].decode("utf-8", "surrogatepass").split("\n")

    def read_columns(self, passages: int) -> tuple[list[str], list[int], bytes, list[tuple[str, bytes]]]:
        """The sparse terms, how long the occurrences of each are and all of them; and each dense one with its counts.

        Raises:
            ValueError: It is not as long as it says.
        """
        terms = self.terms()
        start = self._start + 2 * len(terms)
        sizes = from_bytes("H", self._data[self._start : start]).tolist()
        if len(sizes) != len(terms) or sum(sizes) != len(self._data) - start:
            raise ValueError(len(self._data))
        if passages not in sizes:
            return terms, sizes, self._data[start:], []
        first = sizes.index(passages)
        end = start + sum(sizes[:first])
        ends = range(end, len(self._data), passages)
        dense = [(term, self._data[at : at + passages]) for at, term in zip(ends, terms[first:], strict=True)]
        return terms[:first], sizes[:first], self._data[start:end], dense

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All terms with their packed occurrences.

        Raises:
            ValueError: It is not as long as it says, or no search finds its first or its last term.
        """
        terms = self.terms()
        start = self._start + 2 * len(terms)
        sizes = from_bytes("H", self._data[self._start : start])
        ends = self._data[4:5], self._data[self._start - 1 : self._start]
        if ends != (b"\n", b"\n") or sum(sizes) != len(self._data) - start:
            raise ValueError(len(self._data))
        for term, size in zip(terms, sizes, strict=True):
            yield term, self._data[start : start + size]
            start += size


def is_dense(packed: bytes, passages: int) -> bool:
    """Whether packed occurrences hold a byte for every passage of the chunk."""
    return len(packed) == passages


def longest_sparse(passages: int) -> int:
    """How many bytes of occurrences there are at most; a term that is in every eighth passage has a byte for each."""
    return (passages - 1) // _SPARSE * WIDE


def split_occurrences(packed: bytes, passages: int) -> Postings:
    """The occurrences of a term; of a sparse one where there are no passages."""
    if passages and is_dense(packed, passages):
        return list(compress(range(passages), packed)), packed.replace(b"\0", b"")
    numbers = bytearray(2 * (len(packed) // WIDE))
    numbers[::2] = packed[::WIDE]
    numbers[1::2] = packed[1::WIDE]
    return from_bytes("H", bytes(numbers)), packed[2::WIDE]


def join_occurrences(numbers: array[int], counts: bytes | bytearray) -> bytes:
    """Sparse occurrences, packed; the numbers have four bytes each."""
    data = to_bytes(numbers)
    packed = bytearray(WIDE * len(counts))
    packed[::WIDE], packed[1::WIDE], packed[2::WIDE] = data[::4], data[1::4], counts
    return bytes(packed)


def pack_occurrences(noted: array[int]) -> bytes:
    """Sparse occurrences, packed: of each the number of the passage above eight bits that say how often beyond once."""
    data = to_bytes(noted)
    packed = bytearray(WIDE * len(noted))
    packed[::WIDE], packed[1::WIDE], packed[2::WIDE] = data[1::4], data[2::4], data[::4].translate(_ONE_MORE)
    return bytes(packed)


def count_postings(packed: bytes, passages: int) -> int:
    """In how many passages a term occurs."""
    return passages - packed.count(0) if is_dense(packed, passages) else len(packed) // WIDE


def pack_bucket(terms: list[str], sizes: bytes, packed: bytes, dense: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """Pack one bucket: sparse terms in order, how long each is packed, their occurrences; the counts of dense ones."""
    if dense:
        terms = [*terms, *(term for term, _ in dense)]
        sizes += narrowed(array("I", (len(counts) for _, counts in dense)))
    words = "\n{}\n".format("\n".join(terms)).encode("utf-8", "surrogatepass")
    return b"".join((len(words).to_bytes(4, "little"), words, sizes, packed, *(counts for _, counts in dense)))


class Strewn(bytes):
    """A byte for each event of a chunk, of a term that few of them hold.

    Attributes:
        indexes: These, ascending.
    """

    indexes: Sequence[int]


def strewn(indexes: Sequence[int], counts: Iterable[int], events: int) -> Strewn:
    """Occurrences as a byte for each event: a third of the time that a dictionary of them takes."""
    found = bytearray(events)
    for index, count in zip(indexes, counts, strict=True):
        found[index] = count
    told = Strewn(found)
    told.indexes = indexes
    return told


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
        if self._owners is None:
            return count_postings(self._data, self._passages)
        return len({*map(self._owners.__getitem__, split_occurrences(self._data, self._passages)[0])})

    def lookup(self) -> dict[int, int] | bytes:
        """The count at each index: a byte for every event of the chunk; what occurs where some are several passages."""
        if self._owners is None and is_dense(self._data, self._passages):
            return self._data
        indexes, counts = split_occurrences(self._data, self._passages)
        if self._owners is None:
            return strewn(indexes, counts, self._passages)
        found: dict[int, int] = {}
        for index, count in zip(map(self._owners.__getitem__, indexes), counts, strict=True):
            found[index] = min(MOST_COUNTED, found.get(index, 0) + count)
        return found

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Index in the chunk and count, ascending."""
        if self._owners is None:
            return zip(*split_occurrences(self._data, self._passages), strict=True)
        found = self.lookup()
        assert isinstance(found, dict)  # noqa: S101 - by passage it is never as it was packed
        return found.items()

    def passages(self) -> dict[int, int]:
        """The count in each passage; none where each event is one."""
        if self._owners is None:
            return {}
        return dict(zip(*split_occurrences(self._data, self._passages), strict=True))
