"""Inverted events in memory: what a small scope, the tail of a session and the memory store are searched in.

It is also the form into which a database index decodes its rows, so that every backend ranks through `search_segments`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.parts import LABELLED, QUESTION, TIME
from langchain_sessions._recall.rank.corpus import CANDIDATES, Found, search_logs
from langchain_sessions._recall.text.dates import TIME_WORDS, date_words
from langchain_sessions._recall.text.speakers import label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_sessions._recall.rank.ranking import RankingWeights
    from langchain_sessions._recall.text.documents import Document
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions._recall.text.terms import TermMaker


@dataclass(frozen=True, slots=True)
class Entry:
    """What an index keeps of one event.

    Attributes:
        counts: How often each term occurs.
        length: Number of terms.
        flags: `QUESTION`, `TIME` and `LABELLED`, added.
        author: Who said it, where known; the name that its text begins with where it is `LABELLED`.
        instant: Seconds since 1970.
    """

    counts: Mapping[str, int]
    length: int
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
        terms = chain.from_iterable(map(maker.terms, TIME_WORDS.split()))
        # One character of "yesterday" says nothing of time.
        self._time_terms = frozenset(term for term in terms if term.isascii() or len(term) > 1)
        self._last_date: tuple[date, list[str]] = (date.min, [])

    def entry(self, document: Document) -> Entry:
        """Invert one document; its date is indexed with it, so that "in May 2023" finds what was said then."""
        terms = self._maker.terms(document.text)
        tells_time = not self._time_terms.isdisjoint(terms)
        terms += self._date_terms(document.timestamp.date())
        label = None if document.author else label_of(document.text)
        return Entry(
            counts=Counter(terms),
            length=len(terms),
            flags=QUESTION * document.is_question + TIME * tells_time + LABELLED * (label is not None),
            author=document.author or label,
            instant=document.timestamp.timestamp(),
        )

    def _date_terms(self, day: date) -> list[str]:
        # Events come in runs of one day; the pair is replaced as one, so threads at worst make it twice.
        last, terms = self._last_date
        if last != day:
            terms = self._maker.terms(date_words(day))
            self._last_date = (day, terms)
        return terms


_MOST_COUNTED: Final = 255


class _Counts(dict[int, int]):
    """Occurrences of a term by index."""

    def lookup(self) -> dict[int, int]:
        """Itself."""
        return self

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Index and count."""
        return self.items()


@dataclass(slots=True)
class Segment:
    """Events of one session in log order, inverted. Events are known by their index in it.

    Attributes:
        lengths: Number of terms of each event.
        flags: `QUESTION`, `TIME` and `LABELLED` of each event, added.
        authors: Author or label of each event.
        instants: Seconds since 1970 of each event.
        postings: By term: in which events it occurs, and how often.
        speakers: All known authors.
        labels: The names that texts of `LABELLED` events begin with, and how often.
        size: Sum of the lengths.
        hidden: Events that do not count.
    """

    lengths: list[int] = field(default_factory=list[int])
    flags: list[int] = field(default_factory=list[int])
    authors: list[str | None] = field(default_factory=list["str | None"])
    instants: list[float] = field(default_factory=list[float])
    postings: dict[str, _Counts] = field(default_factory=dict[str, _Counts])
    speakers: set[str] = field(default_factory=set[str])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    size: int = 0
    hidden: set[int] = field(default_factory=set[int])

    def add(self, entry: Entry) -> int:
        """Add the next event of the session; return its index."""
        index = len(self.lengths)
        for term, count in entry.counts.items():
            self.postings.setdefault(term, _Counts())[index] = min(_MOST_COUNTED, count)
        self.lengths.append(entry.length)
        self.flags.append(entry.flags)
        self.authors.append(entry.author)
        self.instants.append(entry.instant)
        self.size += entry.length
        if entry.author and entry.flags & LABELLED:
            self.labels[entry.author] = self.labels.get(entry.author, 0) + 1
        elif entry.author:
            self.speakers.add(entry.author)
        return index

    @property
    def events(self) -> int:
        """How many events."""
        return len(self.lengths)

    def length(self, index: int) -> int:
        """Number of terms of an event."""
        return self.lengths[index]

    def hints(self, index: int) -> int:
        """`QUESTION`, `TIME` and `LABELLED`, added."""
        return self.flags[index]

    def author(self, index: int) -> str | None:
        """Who said it."""
        return self.authors[index]

    def instant(self, index: int) -> float:
        """When, in seconds since 1970."""
        return self.instants[index]

    def find(self, term: str) -> _Counts | None:
        """Where a term occurs."""
        return self.postings.get(term)

    def expand(self, beginning: str) -> Iterable[str]:
        """The terms that begin so."""
        return [term for term in self.postings if term.startswith(beginning)]


def search_segments(
    segments: Sequence[Segment],
    query: Query,
    maker: TermMaker,
    *,
    weights: RankingWeights,
    admits: Callable[[int, int], bool] | None = None,
    cosine: Callable[[int, int], float | None] | None = None,
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
        candidates=candidates,
    )
