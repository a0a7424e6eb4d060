"""The index as it is stored: chunks of a log's entries, their terms inverted and packed into bytes.

A chunk holds up to `LARGEST_CHUNK` events of one session. Its terms lie in buckets by their first letters, so that a
word costs one small row per chunk and `prefix*` a few; what ranking asks about single events lies in one row beside.
Everything is laid out so that a search reads it without unpacking: a term is found by `bytes.find`, its occurrences
are arrays. About 100 bytes per message of 120 characters.
"""

from __future__ import annotations

import json
import sys
from array import array
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LARGEST_CHUNK: Final = 4096
"""Events per chunk: few rows to read at 100 000 events, and a merge that takes tens of milliseconds."""

LAYOUT_VERSION: Final = 1
_MOST_COUNTED: Final = 255
_LONGEST: Final = 65_535
_SECOND: Final = 1_000_000
_TWO_LETTERS_BELOW: Final = "\u0e00"
_OFFSET_LIMIT: Final = 2**32


class EventFacts(NamedTuple):
    """What the index keeps of one event besides its terms.

    Attributes:
        seq: Its place in the log.
        at: When it happened, in microseconds.
        kind: What it is, as stored.
        length: Number of its terms.
        flags: Hints for ranking.
        author: Who said it.
        branch: Where it was said.
    """

    seq: int
    at: int
    kind: int
    length: int
    flags: int
    author: str | None
    branch: str | None


class ChunkSize(NamedTuple):
    """A stored chunk without its contents: its number, how many events and terms it holds."""

    number: int
    events: int


Postings = tuple["Sequence[int]", "Sequence[int]"]
"""Indexes of events in a chunk, ascending, and how often the term occurs in each."""


def bucket_of(term: str) -> str:
    """The bucket that a term lies in: its first two letters, or one where a letter says as much as a word."""
    return term[:2] if term < _TWO_LETTERS_BELOW else term[:1]


def _put(values: array[Any]) -> bytes:
    if sys.byteorder == "big":  # pragma: no cover - stored little-endian
        values.byteswap()
    return values.tobytes()


def _get(code: str, data: bytes) -> array[Any]:
    values = array(code)
    values.frombytes(data)
    if sys.byteorder == "big":  # pragma: no cover - stored little-endian
        values.byteswap()
    return values


# -- terms -------------------------------------------------------------------------------------------------


class Bucket:
    """One bucket of one chunk as it was read; nothing is unpacked before it is asked for.

    Args:
        data: As `pack_bucket` made it.
        events: How many events the chunk holds.
    """

    __slots__ = ("_data", "_events", "_lengths", "_start", "_words")

    def __init__(self, data: bytes, events: int) -> None:
        size = int.from_bytes(data[:4], "little")
        self._words = data[4 : 4 + size]
        self._start = 4 + size
        self._data = data
        self._events = events
        self._lengths: array[int] | None = None

    def _sizes(self) -> array[int]:
        if self._lengths is None:
            count = self._words.count(b"\n") - 1
            self._lengths = _get("H", self._data[self._start : self._start + 2 * count])
        return self._lengths

    def _packed(self, at: int) -> bytes:
        sizes = self._sizes()
        start = self._start + 2 * len(sizes) + sum(sizes[:at])
        return self._data[start : start + sizes[at]]

    def find(self, term: str) -> bytes | None:
        """The packed occurrences of a term; None where it does not occur."""
        found = self._words.find(b"\n%b\n" % term.encode("utf-8", "surrogatepass"))
        return None if found < 0 else self._packed(self._words.count(b"\n", 0, found))

    @property
    def first(self) -> str:
        """The first term: it tells which bucket this is."""
        return self._words[1 : self._words.index(b"\n", 1)].decode("utf-8", "surrogatepass")

    def terms(self) -> list[str]:
        """All terms, in order."""
        return self._words[1:-1].decode("utf-8", "surrogatepass").split("\n")

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All terms with their packed occurrences."""
        sizes = self._sizes()
        start = self._start + 2 * len(sizes)
        for term, size in zip(self.terms(), sizes, strict=True):
            yield term, self._data[start : start + size]
            start += size


def pack_postings(indexes: Sequence[int], counts: Sequence[int], events: int) -> bytes:
    """Pack the occurrences of a term: a byte per event where it is in every third, else an entry per occurrence."""
    try:
        capped = bytes(counts)
    except ValueError:
        capped = bytes(map(min, counts, repeat(_MOST_COUNTED)))
    if 3 * len(indexes) < events:
        return _put(array("H", indexes)) + capped
    dense = bytearray(events)
    for index, count in zip(indexes, capped, strict=True):
        dense[index] = count
    return bytes(dense)


def is_dense(packed: bytes, events: int) -> bool:
    """Whether packed occurrences hold a byte for every event of the chunk."""
    return len(packed) == events


def unpack_postings(packed: bytes, events: int) -> Postings:
    """The occurrences of a term."""
    if is_dense(packed, events):
        indexes = [index for index, count in enumerate(packed) if count]
        return indexes, packed.replace(b"\0", b"")
    size = len(packed) // 3
    return _get("H", packed[: 2 * size]), packed[2 * size :]


def count_postings(packed: bytes, events: int) -> int:
    """In how many events a term occurs."""
    return events - packed.count(0) if is_dense(packed, events) else len(packed) // 3


def pack_buckets(postings: Mapping[str, tuple[Sequence[int], Sequence[int]]], events: int) -> dict[str, bytes]:
    """Pack the occurrences of all terms of a chunk, by bucket."""
    buckets: dict[str, list[str]] = {}
    for term in sorted(postings):
        buckets.setdefault(bucket_of(term), []).append(term)
    return {bucket: _pack_bucket(terms, postings, events) for bucket, terms in buckets.items()}


def _pack_bucket(terms: list[str], postings: Mapping[str, tuple[Sequence[int], Sequence[int]]], events: int) -> bytes:
    packed = [pack_postings(*postings[term], events) for term in terms]
    words = "\n{}\n".format("\n".join(terms)).encode("utf-8", "surrogatepass")
    sizes = _put(array("H", map(len, packed)))
    return b"".join((len(words).to_bytes(4, "little"), words, sizes, *packed))


# -- events ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ChunkFacts:
    """What the index keeps of the events of a chunk, column by column; nothing is added up before it is asked for.

    Attributes:
        first_seq: Where it begins in the log.
        first_second: The earliest instant, in seconds since 1970.
        seqs: Places in the log after the first, ascending.
        seconds: Instants after the first.
        kinds: What each is.
        lengths: Number of terms of each.
        flags: Hints of each.
        author_numbers: Author of each, as an index into `authors`.
        branch_numbers: Branch of each, as an index into `branches`.
        authors: Everybody who speaks; the first is None.
        branches: All branches; the first is None.
    """

    first_seq: int
    first_second: int
    seqs: Sequence[int]
    seconds: Sequence[int]
    kinds: Sequence[int]
    lengths: Sequence[int]
    flags: Sequence[int]
    author_numbers: Sequence[int]
    branch_numbers: Sequence[int]
    authors: list[str | None] = field(default_factory=list["str | None"])
    branches: list[str | None] = field(default_factory=list["str | None"])

    @classmethod
    def of(cls, events: Iterable[EventFacts]) -> ChunkFacts:
        """The columns of some events in log order, at least one."""
        rows = list(events)
        authors: dict[str | None, int] = {None: 0}
        branches: dict[str | None, int] = {None: 0}
        first_seq, first_second = rows[0].seq, min(row.at for row in rows) // _SECOND
        return cls(
            first_seq=first_seq,
            first_second=first_second,
            seqs=[row.seq - first_seq for row in rows],
            seconds=[row.at // _SECOND - first_second for row in rows],
            kinds=bytes(row.kind for row in rows),
            lengths=[min(row.length, _LONGEST) for row in rows],
            flags=bytes(row.flags for row in rows),
            author_numbers=[authors.setdefault(row.author, len(authors)) for row in rows],
            branch_numbers=[branches.setdefault(row.branch, len(branches)) for row in rows],
            authors=list(authors),
            branches=list(branches),
        )

    def events(self) -> Iterator[EventFacts]:
        """The events again, row by row; instants without their fractions."""
        for at, seq in enumerate(self.seqs):
            yield EventFacts(
                self.first_seq + seq,
                (self.first_second + self.seconds[at]) * _SECOND,
                self.kinds[at],
                self.lengths[at],
                self.flags[at],
                self.authors[self.author_numbers[at]],
                self.branches[self.branch_numbers[at]],
            )

    def pack(self) -> bytes:
        """As bytes: a line of JSON, then the columns."""
        codes = ["I" if max(values) < _OFFSET_LIMIT else "Q" for values in (self.seqs, self.seconds)]
        head = json.dumps(
            [len(self.seqs), self.first_seq, codes[0], self.first_second, codes[1], self.authors, self.branches],
            separators=(",", ":"),
        )
        columns = (
            _put(array(codes[0], self.seqs)),
            _put(array(codes[1], self.seconds)),
            bytes(self.kinds),
            _put(array("H", self.lengths)),
            bytes(self.flags),
            _put(array("H", self.author_numbers)),
            _put(array("H", self.branch_numbers)),
        )
        return b"".join((head.encode("ascii"), b"\n", *columns))

    @classmethod
    def unpack(cls, data: bytes) -> ChunkFacts:
        """Read what `pack` wrote."""
        end = data.index(b"\n")
        size, first_seq, seq_code, first_second, second_code, authors, branches = json.loads(data[:end])
        widths = (8 if seq_code == "Q" else 4, 8 if second_code == "Q" else 4, 1, 2, 1, 2, 2)
        columns: list[bytes] = []
        start = end + 1
        for width in widths:
            columns.append(data[start : start + width * size])
            start += width * size
        return cls(
            first_seq=first_seq,
            first_second=first_second,
            seqs=_get(seq_code, columns[0]),
            seconds=_get(second_code, columns[1]),
            kinds=columns[2],
            lengths=_get("H", columns[3]),
            flags=columns[4],
            author_numbers=_get("H", columns[5]),
            branch_numbers=_get("H", columns[6]),
            authors=authors,
            branches=branches,
        )


# -- chunks ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OpenChunk:
    """A chunk that is being built: facts and terms of events in log order."""

    facts: list[EventFacts] = field(default_factory=list[EventFacts])
    postings: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict[str, tuple[list[int], list[int]]])

    def add(self, facts: EventFacts, counts: Mapping[str, int]) -> None:
        """Add the next event and its terms."""
        index = len(self.facts)
        self.facts.append(facts)
        for term, count in counts.items():
            known = self.postings.get(term)
            if known is None:
                self.postings[term] = ([index], [count])
            else:
                known[0].append(index)
                known[1].append(count)

    def extend(self, facts: ChunkFacts, buckets: Iterable[bytes]) -> None:
        """Add the events of a stored chunk."""
        base, events = len(self.facts), len(facts.seqs)
        self.facts.extend(facts.events())
        for term, packed in chain.from_iterable(Bucket(data, events).items() for data in buckets):
            indexes, counts = unpack_postings(packed, events)
            known = self.postings.setdefault(term, ([], []))
            known[0].extend(map(base.__add__, indexes))
            known[1].extend(counts)

    @property
    def terms(self) -> int:
        """Number of terms of all events."""
        return sum(min(facts.length, _LONGEST) for facts in self.facts)


def chunks_to_merge(stored: Sequence[ChunkSize], added: int) -> list[ChunkSize]:
    """Which of the newest chunks the next events are merged with, oldest first.

    A chunk is taken along by one of at least half its size, so an event is rewritten a few times in its life while the
    number of chunks stays near events / `LARGEST_CHUNK`.
    """
    taken: list[ChunkSize] = []
    size = added
    for chunk in reversed(stored):
        if chunk.events > 2 * size or chunk.events + size > LARGEST_CHUNK:
            break
        taken.insert(0, chunk)
        size += chunk.events
    return taken


class PackedOccurrences:
    """Where a term occurs in a stored chunk."""

    __slots__ = ("_data", "_events")

    def __init__(self, data: bytes, events: int) -> None:
        self._data = data
        self._events = events

    def __len__(self) -> int:
        return count_postings(self._data, self._events)

    def put_into(self, counts: bytearray, start: int) -> None:
        """Add to a byte per event, beginning at `start`."""
        end = start + self._events
        if is_dense(self._data, self._events) and not any(counts[start:end]):
            counts[start:end] = self._data
            return
        for index, count in self.pairs():
            counts[start + index] = min(_MOST_COUNTED, counts[start + index] + count)

    def columns(self) -> Postings:
        """Indexes in the chunk, ascending, and the count at each."""
        return unpack_postings(self._data, self._events)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Index in the chunk and count, ascending."""
        return zip(*self.columns(), strict=True)


class PackedPart:
    """A stored chunk as ranking reads it: any terms whose buckets were read, and the facts of its events.

    Args:
        facts: As `ChunkFacts.pack` made them.
        size: Number of terms of all events.
        buckets: Buckets of the terms that are asked for.
    """

    __slots__ = ("_buckets", "events", "facts", "hidden", "size", "speakers")

    def __init__(self, facts: bytes, size: int, buckets: Iterable[bytes]) -> None:
        self.facts = ChunkFacts.unpack(bytes(facts))
        self.events = len(self.facts.seqs)
        self.size = size
        self.hidden: set[int] = set()
        self.speakers = {author for author in self.facts.authors if author}
        self._buckets: dict[str, Bucket] = {}
        for data in buckets:
            bucket = Bucket(bytes(data), self.events)
            self._buckets[bucket_of(bucket.first)] = bucket

    def length(self, index: int) -> int:
        """Number of terms of an event."""
        return self.facts.lengths[index]

    def hints(self, index: int) -> int:
        """Hints of an event."""
        return self.facts.flags[index]

    def author(self, index: int) -> str | None:
        """Who said it."""
        return self.facts.authors[self.facts.author_numbers[index]]

    def instant(self, index: int) -> float:
        """When, in seconds since 1970."""
        return self.facts.first_second + self.facts.seconds[index]

    def find(self, term: str) -> PackedOccurrences | None:
        """Where a term occurs."""
        bucket = self._buckets.get(bucket_of(term))
        data = None if bucket is None else bucket.find(term)
        return None if data is None else PackedOccurrences(data, self.events)

    def expand(self, beginning: str) -> Iterable[str]:
        """The terms that begin so."""
        return [
            term
            for bucket in self._buckets.values()
            for term in bucket.terms()
            if term.startswith(beginning) and ":" not in term
        ]

    def vocabulary(self) -> Iterable[str]:
        """All terms that were read."""
        return chain.from_iterable(bucket.terms() for bucket in self._buckets.values())
