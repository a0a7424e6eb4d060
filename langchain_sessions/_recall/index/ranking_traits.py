"""What ranking asks about the events of a chunk besides their words, packed column by column."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress, pairwise, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._core.message_types import FUNCTION, OF_TOOLS, TOOL
from langchain_sessions._core.once import kept
from langchain_sessions._recall.index.columns import from_bytes, to_bytes
from langchain_sessions._recall.index.inverted import HUMAN, LABELLED, LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Two bytes a passage: what is longer is held back by its length all the same.
LONGEST: Final = 65_535
_SECOND: Final = 1_000_000
_OFFSET_LIMIT: Final = 2**32
_IS_LABELLED: Final = bytes(bool(flags & LABELLED) for flags in range(256))
_IS_LEFT_OUT: Final = bytes(bool(flags & LEFT_OUT) for flags in range(256))
_IS_HUMAN: Final = bytes(bool(flags & HUMAN) for flags in range(256))


class EventTraits(NamedTuple):
    """What the index keeps of one event besides its terms.

    Attributes:
        seq: Its place in the log.
        at: When it happened, in microseconds.
        kind: What it is, as stored.
        lengths: Number of terms of each of its passages.
        flags: Hints for ranking.
        author: Who said it, or the name that its text begins with.
        branch: Where it was said.
    """

    seq: int
    at: int
    kind: int
    lengths: tuple[int, ...]
    flags: int
    author: str | None
    branch: str | None


class Speakers(NamedTuple):
    """Who speaks in a chunk.

    Attributes:
        known: All authors that are known.
        labels: The names that texts of `LABELLED` events begin with, and how often.
    """

    known: frozenset[str]
    labels: Mapping[str, int]


class Columns(NamedTuple):
    """What of the lengths of events is added up for thousands of them at once: a byte for each event.

    Attributes:
        near: Number of terms, as far as they count in a neighbour.
        worth: What a word of it counts in a neighbour, in parts of `WHOLE`; None where all count as much.
        shares: Number of terms of one of its passages, up to 255.
    """

    near: bytes | bytearray
    worth: bytes | bytearray | None
    shares: bytes | bytearray

    @classmethod
    def of(cls, lengths: Sequence[int], shares: Sequence[int], longest: int) -> Columns:
        """The columns of some events; as neighbours they count no more than `longest` terms."""
        worth = None
        if max(lengths, default=0) > longest:
            # Each word of a long neighbour counts as much less as the neighbour is longer than it may be.
            worth = bytes([WHOLE * longest // max(longest, each) for each in lengths])
        near = bytes(map(min, lengths, repeat(longest)))
        return cls(near, worth, near if shares is lengths and worth is None else bytes(map(min, shares, repeat(255))))


WHOLE: Final = 32
"""What a word of a neighbour counts in `Columns.worth`."""


def event_lengths(passages: Sequence[int], firsts: Sequence[int] | None) -> Sequence[int]:
    """Number of terms of each event, by the lengths of passages and the first of each event."""
    if firsts is None:
        return passages
    return [min(LONGEST, sum(passages[start:end])) for start, end in pairwise(firsts)]


def passage_shares(passages: Sequence[int], firsts: Sequence[int] | None) -> Sequence[int]:
    """Mean number of terms of the passages of each event."""
    if firsts is None:
        return passages
    return [sum(passages[start:end]) // max(1, end - start) for start, end in pairwise(firsts)]


def human_talk(lengths: Sequence[int], flags: Sequence[int]) -> tuple[int, int]:
    """How many events a human said, and how many terms these have, by the lengths and the hints of events."""
    marks = bytes(flags).translate(_IS_HUMAN)
    return sum(marks), sum(compress(lengths, marks))


@dataclass
class ChunkTraits:
    """What the index keeps of the events of a chunk, column by column; nothing is added up before it is asked for.

    Attributes:
        first_seq: Where it begins in the log.
        first_second: The earliest instant, in seconds since 1970.
        seqs: Places in the log after the first, ascending.
        seconds: Instants after the first.
        kinds: What each is.
        counts: How many passages each is.
        passage_lengths: Number of terms of each passage.
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
    counts: Sequence[int]
    passage_lengths: Sequence[int]
    flags: Sequence[int]
    author_numbers: Sequence[int]
    branch_numbers: Sequence[int]
    authors: list[str | None] = field(default_factory=list["str | None"])
    branches: list[str | None] = field(default_factory=list["str | None"])
    _columns: dict[int, Columns] = field(default_factory=dict[int, Columns], repr=False, compare=False)

    @kept
    def voices(self) -> Sequence[int]:
        """Author of each, as ranking knows them: a tool is nobody, whatever name its result bears."""
        kinds = bytes(self.kinds)
        if TOOL not in kinds and FUNCTION not in kinds:
            return self.author_numbers
        return [0 if kind in OF_TOOLS else number for kind, number in zip(kinds, self.author_numbers, strict=True)]

    @kept
    def speakers(self) -> Speakers:
        """Who speaks, as far as it is known."""
        marks = bytes(self.flags).translate(_IS_LABELLED)
        if not any(marks):
            return Speakers(frozenset(name for number in {*self.voices} if (name := self.authors[number])), {})
        counts = Counter(zip(self.voices, marks, strict=True))
        known = frozenset(said for number, mark in counts if not mark and (said := self.authors[number]))
        labels = {label: n for (number, mark), n in counts.items() if mark and (label := self.authors[number])}
        return Speakers(known, labels)

    @kept
    def times(self) -> Counter[int]:
        """How often each of `authors` speaks."""
        return Counter(self.voices)

    def heard_beside(self, hidden: Collection[int]) -> set[str]:
        """All authors and labels of the events but some."""
        left = self.times - Counter(map(self.voices.__getitem__, hidden))
        return {name for number in left if (name := self.authors[number])}

    @kept
    def left_out(self) -> Sequence[int]:
        """The indexes of events of which the index has no words."""
        marks = bytes(self.flags).translate(_IS_LEFT_OUT)
        return [*compress(range(len(marks)), marks)] if any(marks) else ()

    @kept
    def firsts(self) -> Sequence[int] | None:
        """The number of the first passage of each event, and one past the last; None where each event is one."""
        if len(self.passage_lengths) == len(self.seqs):
            return None
        return list(accumulate(self.counts, initial=0))

    @kept
    def owners(self) -> Sequence[int] | None:
        """The event of each passage; None where each event is one."""
        if self.firsts is None:
            return None
        return list(chain.from_iterable([at] * count for at, count in enumerate(self.counts)))

    @kept
    def lengths(self) -> Sequence[int]:
        """Number of terms of each event."""
        return event_lengths(self.passage_lengths, self.firsts)

    @kept
    def shares(self) -> Sequence[int]:
        """Mean number of terms of the passages of each event."""
        return passage_shares(self.passage_lengths, self.firsts)

    @kept
    def human_talk(self) -> tuple[int, int]:
        """How many events a human said, and how many terms these have."""
        return human_talk(self.lengths, self.flags)

    def columns(self, longest: int) -> Columns:
        """What is added up of the lengths of its events."""
        known = self._columns.get(longest)
        if known is None:
            known = self._columns[longest] = Columns.of(self.lengths, self.shares, longest)
        return known

    @classmethod
    def of(cls, events: Iterable[EventTraits], first_seq: int | None = None) -> ChunkTraits:
        """The columns of some events in log order; places count from the first, or as given where there is none."""
        rows = list(events)
        seqs, ats, kinds, lengths, flags, whose, where = zip(*rows, strict=True) if rows else ((),) * 7
        authors: dict[str | None, int] = {None: 0}
        branches: dict[str | None, int] = {None: 0}
        first_seq = rows[0].seq if first_seq is None else first_seq
        first_second = min(ats, default=0) // _SECOND
        return cls(
            first_seq=first_seq,
            first_second=first_second,
            seqs=[seq - first_seq for seq in seqs],
            seconds=[at // _SECOND - first_second for at in ats],
            kinds=bytes(kinds),
            counts=bytes(map(len, lengths)),
            passage_lengths=list(map(min, chain.from_iterable(lengths), repeat(LONGEST))),
            flags=bytes(flags),
            author_numbers=[authors.setdefault(author, len(authors)) for author in whose],
            branch_numbers=[branches.setdefault(branch, len(branches)) for branch in where],
            authors=list(authors),
            branches=list(branches),
        )

    def events(self) -> Iterator[EventTraits]:
        """The events again, row by row; instants without their fractions."""
        lengths: Iterable[tuple[int, ...]] = zip(self.passage_lengths, strict=True)
        if self.firsts is not None:
            lengths = (tuple(self.passage_lengths[start:end]) for start, end in pairwise(self.firsts))
        columns = (
            [self.first_seq + seq for seq in self.seqs],
            [(self.first_second + second) * _SECOND for second in self.seconds],
            self.kinds,
            lengths,
            self.flags,
            map(self.authors.__getitem__, self.author_numbers),
            map(self.branches.__getitem__, self.branch_numbers),
        )
        return map(EventTraits._make, zip(*columns, strict=True))

    def pack(self) -> bytes:
        """As bytes: a line of JSON, then the columns."""
        # Four bytes each serve until a chunk spans 136 years, which a clock that was set wrong can do.
        codes = ["I" if max(values, default=0) < _OFFSET_LIMIT else "Q" for values in (self.seqs, self.seconds)]
        head = json.dumps(
            [
                len(self.seqs),
                len(self.passage_lengths),
                self.first_seq,
                codes[0],
                self.first_second,
                codes[1],
                self.authors,
                self.branches,
            ],
            separators=(",", ":"),
        )
        columns = (
            to_bytes(array(codes[0], self.seqs)),
            to_bytes(array(codes[1], self.seconds)),
            bytes(self.kinds),
            bytes(self.counts),
            to_bytes(array("H", self.passage_lengths)),
            bytes(self.flags),
            to_bytes(array("H", self.author_numbers)),
            to_bytes(array("H", self.branch_numbers)),
        )
        return b"".join((head.encode("ascii"), b"\n", *columns))

    @classmethod
    def unpack(cls, data: bytes) -> ChunkTraits:
        """Read what `pack` wrote; some drivers return it as a view."""
        data = bytes(data)
        end = data.index(b"\n")
        size, passages, first_seq, seq_code, first_second, second_code, authors, branches = json.loads(data[:end])
        wide = [8 if code == "Q" else 4 for code in (seq_code, second_code)]
        columns: list[bytes] = []
        start = end + 1
        for length in (wide[0] * size, wide[1] * size, size, size, 2 * passages, size, 2 * size, 2 * size):
            columns.append(data[start : start + length])
            start += length
        return cls(
            first_seq=first_seq,
            first_second=first_second,
            seqs=from_bytes(seq_code, columns[0]),
            seconds=from_bytes(second_code, columns[1]),
            kinds=columns[2],
            counts=columns[3],
            passage_lengths=from_bytes("H", columns[4]),
            flags=columns[5],
            author_numbers=from_bytes("H", columns[6]),
            branch_numbers=from_bytes("H", columns[7]),
            authors=authors,
            branches=branches,
        )
