"""Inverted events in memory: what a few logs, the tail of a session and the memory store are searched in.

It is also the form into which a database index decodes its rows, so that every backend ranks through `search_segments`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._core.edge import from_micros, to_micros
from langchain_sessions._recall.index.inverted import HUMAN, LABELLED
from langchain_sessions._recall.index.ranking_traits import Columns, event_lengths, human_talk, passage_shares
from langchain_sessions._recall.rank.many_logs import CANDIDATES, Found, search_logs
from langchain_sessions._recall.text.dates import date_terms
from langchain_sessions._recall.text.passages import UNCUT, split_passages
from langchain_sessions._recall.text.speakers import label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from langchain_sessions._recall.rank.ranking import RankingWeights
    from langchain_sessions._recall.text.documents import Document
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions._recall.text.terms import TermMaker


_SECOND: Final = 1_000_000
_DAY: Final = 24 * 60 * 60 * _SECOND
_tuple = tuple.__new__


class Entry(NamedTuple):
    """What an index keeps of one event.

    Attributes:
        passages: The terms of each passage, each as often as it occurs; of the first also when it was said and what it
            uses.
        lengths: Number of terms of each passage without these.
        flags: `HUMAN` and `LABELLED`, added.
        author: Who said it, where known; the name that its text begins with where it is `LABELLED`.
        instant: Seconds since 1970.
    """

    passages: tuple[Sequence[str], ...]
    lengths: tuple[int, ...]
    flags: int
    author: str | None
    instant: float


class EntryMaker:
    """Makes index entries of documents.

    Args:
        maker: Makes the terms, of entries and later of queries.
    """

    def __init__(self, maker: TermMaker) -> None:
        self._maker = maker

    def entry(self, document: Document) -> Entry:
        """The terms of a document passage by passage."""
        return self.entry_of(document.text, document.author, to_micros(document.timestamp), is_human=document.is_human)

    def entry_of(self, text: str, author: str | None, at: int, *, is_human: bool) -> Entry:
        """The terms of a text passage by passage; its date lies beside its words, where only dates look for it."""
        make = self._maker.terms
        if len(text) <= UNCUT:
            passages: tuple[list[str], ...] = (make(text),)
        else:
            passages = tuple([make(text[start:end]) for start, end in split_passages(text)])
        lengths = tuple(map(len, passages))
        # Once per event: a date in every passage would count as often as the event is long.
        passages[0].extend(_day_terms(at // _DAY))
        flags = HUMAN if is_human else 0
        if not author:
            author = label_of(text)
            flags |= LABELLED if author is not None else 0
        return _tuple(Entry, (passages, lengths, flags, author, at / _SECOND))


@lru_cache(maxsize=64)
def _day_terms(day: int) -> tuple[str, ...]:
    """What is kept of a date, by the days since 1970."""
    return date_terms(from_micros(day * _DAY).date())


_MOST_COUNTED: Final = 255


class _Counts(dict[int, int]):
    """Occurrences of a term by index, and by passage where an event is several.

    Attributes:
        by_passage: None where no such event holds it, as it is with most terms of which there is one for each word.
    """

    by_passage: dict[int, int] | None = None

    def lookup(self) -> dict[int, int]:
        """Itself."""
        return self

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Index and count."""
        return self.items()

    def passages(self) -> dict[int, int]:
        """Number of a passage and count."""
        return self.by_passage or {}


@dataclass(slots=True)
class Segment:
    """Events of one session in log order, inverted. Events are known by their index in it.

    Attributes:
        passage_lengths: Number of terms of each passage.
        flags: `HUMAN` and `LABELLED` of each event, added.
        authors: Author or label of each event.
        instants: Seconds since 1970 of each event.
        postings: By term: in which events it occurs, and how often.
        speakers: All known authors.
        labels: The names that texts of `LABELLED` events begin with, and how often.
        size: Sum of the lengths.
        hidden: Events that do not count.
    """

    passage_lengths: list[int] = field(default_factory=list[int])
    flags: list[int] = field(default_factory=list[int])
    authors: list[str | None] = field(default_factory=list["str | None"])
    instants: list[float] = field(default_factory=list[float])
    postings: dict[str, _Counts] = field(default_factory=dict[str, _Counts])
    speakers: set[str] = field(default_factory=set[str])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    size: int = 0
    hidden: set[int] = field(default_factory=set[int])
    _firsts: list[int] = field(default_factory=lambda: [0])

    def add(self, entry: Entry) -> int:
        """Add the next event of the session; return its index."""
        index = len(self.flags)
        several = len(entry.lengths) > 1
        postings = self.postings
        for number, terms in enumerate(entry.passages, self._firsts[-1]):
            for term, count in Counter(terms).items():
                known = postings.get(term)
                if known is None:
                    known = postings[term] = _Counts()
                if several:
                    known[index] = min(_MOST_COUNTED, known.get(index, 0) + count)
                    if known.by_passage is None:
                        known.by_passage = {}
                    known.by_passage[number] = min(_MOST_COUNTED, count)
                else:
                    # No call for each word: of hardly any that much is counted.
                    known[index] = count
                    if count > _MOST_COUNTED:
                        known[index] = _MOST_COUNTED
        self.passage_lengths += entry.lengths
        self._firsts.append(len(self.passage_lengths))
        self.flags.append(entry.flags)
        self.authors.append(entry.author)
        self.instants.append(entry.instant)
        self.size += sum(entry.lengths)
        if entry.author and entry.flags & LABELLED:
            self.labels[entry.author] = self.labels.get(entry.author, 0) + 1
        elif entry.author:
            self.speakers.add(entry.author)
        return index

    @property
    def events(self) -> int:
        """How many events."""
        return len(self.flags)

    @property
    def said(self) -> int:
        """All of them are there."""
        return len(self.flags)

    @property
    def passages(self) -> int:
        """How many passages."""
        return len(self.passage_lengths)

    @property
    def logs(self) -> tuple[Sequence[int], Sequence[int]]:
        """Its own."""
        return (0,), (len(self.flags),)

    @property
    def filled(self) -> int:
        """Whether it holds anything."""
        return int(bool(self.flags))

    @property
    def human_talk(self) -> tuple[int, int]:
        """How many events a human said, and how many terms these have."""
        return human_talk(event_lengths(self.passage_lengths, self.firsts), self.flags)

    @property
    def taken(self) -> None:
        """Something may be found in each."""
        return

    @property
    def firsts(self) -> Sequence[int] | None:
        """The number of the first passage of each event, and one past the last; None where each event is one."""
        return None if len(self.passage_lengths) == len(self.flags) else self._firsts

    def columns(self, longest: int) -> Columns:
        """What is added up of the lengths of its events."""
        lengths = event_lengths(self.passage_lengths, self.firsts)
        return Columns.of(lengths, passage_shares(self.passage_lengths, self.firsts), longest)

    def hints(self, index: int) -> int:
        """`HUMAN` and `LABELLED`, added."""
        return self.flags[index]

    def author(self, index: int) -> str | None:
        """Who said it."""
        return self.authors[index]

    def spoken(self, authors: frozenset[str]) -> Sequence[int]:
        """Where its log begins, if any of some authors speaks."""
        if authors.isdisjoint(self.speakers) and authors.isdisjoint(self.labels):
            return ()
        return () if self.hidden and authors.isdisjoint(self.heard) else (0,)

    @property
    def heard(self) -> Collection[str]:
        """All authors and labels of the events that count."""
        return {name for index, name in enumerate(self.authors) if name and index not in self.hidden}

    def instant(self, index: int) -> float:
        """When, in seconds since 1970."""
        return self.instants[index]

    def find(self, term: str) -> _Counts | None:
        """Where a term occurs."""
        return self.postings.get(term)

    def expand(self, beginning: str) -> Iterable[str]:
        """The terms that begin so."""
        return [term for term in self.postings if term.startswith(beginning)]

    @property
    def left_out(self) -> Sequence[range]:
        """None."""
        return ()


def search_segments(
    segments: Sequence[Segment],
    query: Query,
    maker: TermMaker,
    *,
    weights: RankingWeights,
    admits: Callable[[int, int], bool] | None = None,
    cosine: Callable[[int, int], float | None] | None = None,
    near: Iterable[tuple[int, int]] = (),
    candidates: int = CANDIDATES,
) -> list[Found]:
    """`search_logs` over logs that are one segment each."""
    return search_logs(
        [[segment] for segment in segments],
        query,
        maker,
        weights=weights,
        admits=admits,
        cosine=cosine,
        near=near,
        candidates=candidates,
    )
