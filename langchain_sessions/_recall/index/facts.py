"""What ranking asks about the events of a chunk besides their words, packed column by column."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.index.columns import from_bytes, to_bytes
from langchain_sessions._recall.index.parts import LABELLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LONGEST: Final = 65_535
_SECOND: Final = 1_000_000
_OFFSET_LIMIT: Final = 2**32
_IS_LABELLED: Final = bytes(bool(flags & LABELLED) for flags in range(256))


class EventFacts(NamedTuple):
    """What the index keeps of one event besides its terms.

    Attributes:
        seq: Its place in the log.
        at: When it happened, in microseconds.
        kind: What it is, as stored.
        length: Number of its terms.
        flags: Hints for ranking.
        author: Who said it, or the name that its text begins with.
        branch: Where it was said.
    """

    seq: int
    at: int
    kind: int
    length: int
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


@dataclass
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

    @cached_property
    def speakers(self) -> Speakers:
        """Who speaks, as far as it is known."""
        marks = bytes(self.flags).translate(_IS_LABELLED)
        if not any(marks):
            return Speakers(frozenset(name for name in self.authors if name), {})
        counts = Counter(zip(self.author_numbers, marks, strict=True))
        known = frozenset(said for number, mark in counts if not mark and (said := self.authors[number]))
        labels = {label: n for (number, mark), n in counts.items() if mark and (label := self.authors[number])}
        return Speakers(known, labels)

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
            lengths=[min(row.length, LONGEST) for row in rows],
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
            to_bytes(array(codes[0], self.seqs)),
            to_bytes(array(codes[1], self.seconds)),
            bytes(self.kinds),
            to_bytes(array("H", self.lengths)),
            bytes(self.flags),
            to_bytes(array("H", self.author_numbers)),
            to_bytes(array("H", self.branch_numbers)),
        )
        return b"".join((head.encode("ascii"), b"\n", *columns))

    @classmethod
    def unpack(cls, data: bytes) -> ChunkFacts:
        """Read what `pack` wrote; some drivers return it as a view."""
        data = bytes(data)
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
            seqs=from_bytes(seq_code, columns[0]),
            seconds=from_bytes(second_code, columns[1]),
            kinds=columns[2],
            lengths=from_bytes("H", columns[3]),
            flags=columns[4],
            author_numbers=from_bytes("H", columns[5]),
            branch_numbers=from_bytes("H", columns[6]),
            authors=authors,
            branches=branches,
        )
