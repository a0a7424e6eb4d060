"""Directories of the index of a long log: which words are in which of its chunks, and in how many events of each.

A search of one word among a million events would look for it in hundreds of chunks. A directory lists the words of
some adjoining ones, and is stored as a chunk of its own, without events, under a number that no other chunk has. It
adds nothing but haste: what it says of a chunk that was written anew since does not count, and where there is none all
chunks are looked through.
"""

from __future__ import annotations

import json
import zlib
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.index.buckets import (
    WIDE,
    Bucket,
    bucket_of,
    count_postings,
    pack_bucket,
    split_occurrences,
)
from langchain_sessions._recall.index.columns import from_bytes, narrowed
from langchain_sessions._recall.index.ranking_traits import ChunkTraits
from langchain_sessions.stores._values import StoredChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FIRST: Final = 1 << 30
"""Chunks from this number on are directories: that of the last chunk that one lists comes on top."""

TOGETHER: Final = 8
"""Chunks that a directory is made for: to list them takes 85 ms of CPU, which an append pays."""

_UNSETTLED: Final = 8
"""The newest chunks: they are merged with what comes."""

_LAST_NUMBER: Final = 65_535
_MOST_TERMS: Final = 256
_MOST_ROWS: Final = 4096

ChunkWithWords = tuple[StoredChunk, "Mapping[str, bytes]"]


class DirectoryTraits(NamedTuple):
    """What is known of a directory besides its words.

    Attributes:
        covers: Number of each chunk that it lists, and the generation that wrote it.
        rows: In how many rows the words of a bucket lie, where they are many.
    """

    covers: Mapping[int, int]
    rows: Mapping[str, int]

    def pack(self) -> bytes:
        """As bytes."""
        return json.dumps([[*self.covers.items()], self.rows], separators=(",", ":")).encode("ascii")

    @classmethod
    def unpack(cls, data: bytes) -> DirectoryTraits:
        """Read what `pack` wrote; some drivers return it as a view."""
        covers, rows = json.loads(bytes(data))
        return cls(dict(covers), rows)

    def row_of(self, term: str) -> str:
        """The row that a word is in, if anywhere."""
        bucket = bucket_of(term)
        return _row(bucket, term, self.rows.get(bucket, 1))


def is_directory(number: int, events: int) -> bool:
    """Whether a chunk of this number is one; not where it has events: an older release numbers chunks on from there."""
    return number >= FIRST and not events


def is_mixed(chunks: Iterable[tuple[int, int, int]]) -> bool:
    """Whether an older release put events where directories are numbered, by number, events and terms of all chunks."""
    return any(number >= FIRST and events for number, events, _ in chunks)


def due_directory(numbers: Sequence[int]) -> Sequence[int]:
    """Of an index of chunks of these numbers, ascending: those for which a directory is to be made next, if any."""
    done = numbers[-1] - FIRST if numbers and numbers[-1] >= FIRST else 0
    waiting = [number for number in numbers if done < number < FIRST][:-_UNSETTLED]
    return waiting[:TOGETHER] if len(waiting) >= TOGETHER and waiting[TOGETHER - 1] <= _LAST_NUMBER else ()


def make_directory(chunks: Sequence[ChunkWithWords], written: int) -> ChunkWithWords:
    """A directory of some chunks, oldest first."""
    known: dict[str, dict[str, bytes]] = {}
    for stored, buckets in chunks:
        traits = ChunkTraits.unpack(stored.traits)
        for name, data in buckets.items():
            words = known.setdefault(name, {})
            for term, entry in _entries(stored.number, Bucket(bytes(data)), traits):
                words[term] = words[term] + entry if term in words else entry
    sizes = {name: len(terms) for name, terms in known.items() if len(terms) > _MOST_TERMS}
    split = {name: min(_MOST_ROWS, size // _MOST_TERMS + 1) for name, size in sizes.items()}
    covers = {stored.number: stored.written for stored, _ in chunks}
    last, packed = chunks[-1][0], DirectoryTraits(covers, split).pack()
    return StoredChunk(FIRST + last.number, last.last_seq, 0, 0, written, packed), _rows(known, split)


def _entries(number: int, bucket: Bucket, traits: ChunkTraits) -> Iterable[tuple[str, bytes]]:
    """The words of a bucket of a chunk, and what a directory says of each: the chunk, and in how many events."""
    passages, owners = len(traits.passage_lengths), traits.owners
    ours = number.to_bytes(2, "little")
    if owners is None:
        terms, sizes, _, dense = bucket.read_columns(passages)
        counts = [size // WIDE for size in sizes]
        counts += [count_postings(packed, passages) for _, packed in dense]
        terms += [term for term, _ in dense]
    else:
        found = list(bucket.items())
        terms = [term for term, _ in found]
        # A word in two passages of an event is in one event.
        counts = [len({*map(owners.__getitem__, split_occurrences(packed, passages)[0])}) for _, packed in found]
    return zip(terms, [ours + count.to_bytes(2, "little") for count in counts], strict=True)


def _row(bucket: str, term: str, rows: int) -> str:
    """The name of the row that a word is in, of so many that its bucket has."""
    if rows == 1:
        return bucket
    return f"{bucket}{zlib.crc32(term.encode('utf-8', 'surrogatepass')) % rows:03x}"


def _rows(known: Mapping[str, Mapping[str, bytes]], rows: Mapping[str, int]) -> dict[str, bytes]:
    """What is known of words as rows by name."""
    found: dict[str, dict[str, bytes]] = {}
    for bucket, entries in known.items():
        size = rows.get(bucket, 1)
        if size == 1:
            found[bucket] = dict(entries)
            continue
        for term, entry in entries.items():
            found.setdefault(_row(bucket, term, size), {})[term] = entry
    return {name: _packed(entries) for name, entries in sorted(found.items())}


def _packed(entries: Mapping[str, bytes]) -> bytes:
    terms = sorted(entries)
    pieces = [entries[term] for term in terms]
    return pack_bucket(terms, narrowed(array("I", map(len, pieces))), b"".join(pieces))


def counts_in(row: bytes, term: str) -> dict[int, int]:
    """In how many events of which chunk a word is, by a row of a directory."""
    packed = Bucket(bytes(row)).find(term)
    if packed is None:
        return {}
    told = from_bytes("H", packed)
    return dict(zip(told[::2], told[1::2], strict=True))


def directory_words(directory: ChunkWithWords, numbers: Iterable[int]) -> dict[str, dict[int, int]]:
    """All that a directory says of some chunks: by word in how many events of each."""
    asked = frozenset(numbers)
    found: dict[str, dict[int, int]] = {}
    for data in directory[1].values():
        for term, packed in Bucket(bytes(data)).items():
            told = from_bytes("H", packed)
            counts = {number: count for number, count in zip(told[::2], told[1::2], strict=True) if number in asked}
            if counts:
                found[term] = counts
    return found
