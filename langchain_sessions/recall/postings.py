"""Inverted events in memory: what a small scope, the tail of a session and the memory store are searched in.

It is also the form into which a database index decodes its rows, so that every backend ranks through `search_segments`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

from langchain_sessions.recall.dates import TIME_WORDS, asks_when, date_range, date_words
from langchain_sessions.recall.ranking import Candidate, CorpusStatistics, rank, shortlist
from langchain_sessions.recall.terms import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from langchain_sessions.recall.documents import Document
    from langchain_sessions.recall.grammar import Query
    from langchain_sessions.recall.ranking import RankedEvent, RankingWeights
    from langchain_sessions.recall.terms import TermMaker

QUESTION: Final = 1
TIME: Final = 2
CANDIDATES: Final = 300
"""How many events are ranked in full; measured among 100 000: 300 lose nothing of recall, 200 lose two points."""

Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What an index keeps of one event.

    Attributes:
        counts: How often each term occurs.
        length: Number of terms.
        flags: `QUESTION` and `TIME`, added.
        author: Who said it, where known.
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
        self._time_terms = frozenset(chain.from_iterable(map(maker.terms, TIME_WORDS.split())))
        self._last_date: tuple[date, list[str]] = (date.min, [])

    def entry(self, document: Document) -> Entry:
        """Invert one document; its date is indexed with it, so that "in May 2023" finds what was said then."""
        terms = self._maker.terms(document.text)
        tells_time = not self._time_terms.isdisjoint(terms)
        terms += self._date_terms(document.timestamp.date())
        return Entry(
            counts=Counter(terms),
            length=len(terms),
            flags=QUESTION * document.is_question + TIME * tells_time,
            author=document.author,
            instant=document.timestamp.timestamp(),
        )

    def _date_terms(self, day: date) -> list[str]:
        # Events come in runs of one day; the pair is replaced as one, so threads at worst make it twice.
        last, terms = self._last_date
        if last != day:
            terms = self._maker.terms(date_words(day))
            self._last_date = (day, terms)
        return terms


@dataclass(slots=True)
class Segment:
    """Events of one session in log order, inverted. Events are known by their index in it.

    Attributes:
        lengths: Number of terms of each event.
        flags: `QUESTION` and `TIME` of each event, added.
        authors: Author of each event.
        instants: Seconds since 1970 of each event.
        postings: By term: in which events it occurs, and how often.
        speakers: All authors.
        size: Sum of the lengths.
    """

    lengths: list[int] = field(default_factory=list[int])
    flags: list[int] = field(default_factory=list[int])
    authors: list[str | None] = field(default_factory=list["str | None"])
    instants: list[float] = field(default_factory=list[float])
    postings: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    speakers: set[str] = field(default_factory=set[str])
    size: int = 0

    def add(self, entry: Entry) -> int:
        """Add the next event of the session; return its index."""
        index = len(self.lengths)
        for term, count in entry.counts.items():
            self.postings.setdefault(term, {})[index] = count
        self.lengths.append(entry.length)
        self.flags.append(entry.flags)
        self.authors.append(entry.author)
        self.instants.append(entry.instant)
        self.size += entry.length
        if entry.author:
            self.speakers.add(entry.author)
        return index

    def window(self, index: int, kernel: Iterable[tuple[int, float]]) -> float:
        """Length of an event and its neighbours, weighted as their words are."""
        last = len(self.lengths)
        return sum([share * self.lengths[index + offset] for offset, share in kernel if 0 <= index + offset < last])


@dataclass(frozen=True, slots=True)
class Found:
    """One event found.

    Attributes:
        segment: Which of the searched segments it is in.
        index: Which event of that segment it is.
        ranked: Its score and the reasons for it.
    """

    segment: int
    index: int
    ranked: RankedEvent


def names_in(authors: Collection[str], groups: Sequence[Group], maker: TermMaker) -> tuple[frozenset[str], list[Group]]:
    """Tell the authors whom a query names from the words it looks for.

    An author's name is a field: almost every message of a conversation could carry it, so it says who, not what.

    Returns:
        The named authors, and the groups that are left to look for (all of them, when nothing else would be left).
    """
    asked = frozenset(chain.from_iterable(groups))
    named: set[str] = set()
    spent: set[str] = set()
    for author in authors:
        for name in TOKEN.findall(author):
            units = maker.query_terms(name)
            if units and not any(asked.isdisjoint(unit) for unit in units):
                named.add(author)
                spent.update(chain.from_iterable(units))
    left = [group for group in groups if spent.isdisjoint(group)]
    return frozenset(named), left or list(groups)


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
    """Rank the events of segments for a ranked query, the best first.

    Args:
        segments: One per session (or stretch of one) in the scope; neighbours do not reach across.
        query: A ranked query; its operators are the caller's to check, on the text of the events.
        maker: The maker that made the terms of both.
        weights: What counts how much.
        admits: Whether an event (segment, index) may be returned; it still counts as a neighbour.
        cosine: Similarity in meaning of an event (segment, index) to the query, where known.
        candidates: How many events to rank in full.
    """
    authors = {author for segment in segments for author in segment.speakers}
    named, groups = names_in(authors, query.groups, maker)
    scope = _Scope(segments, weights, named if len(named) == 1 else frozenset(), date_range(query.text))
    postings = [scope.postings(group) for group in groups]
    statistics = scope.statistics(postings)

    def is_admitted(position: int) -> bool:
        place = scope.locate(position)
        return place is not None and (admits is None or admits(*place))

    chosen = shortlist(postings, statistics, weights, limit=candidates, admits=is_admitted if admits else None)
    places = {position: place for position in chosen if (place := scope.locate(position))}

    def describe(position: int) -> Candidate:
        place = places[position]
        return scope.describe(*place, cosine(*place) if cosine else None)

    chosen = {position: chosen[position] for position in places}
    ranked = rank(chosen, statistics, describe, weights, asks_when=asks_when(query.text))
    return [Found(*places[event.position], event) for event in ranked]


class _Scope:
    """Segments laid end to end, far enough apart that no event is the neighbour of another session's."""

    def __init__(
        self,
        segments: Sequence[Segment],
        weights: RankingWeights,
        named: frozenset[str],
        period: tuple[datetime, datetime] | None,
    ) -> None:
        self._segments = segments
        self._kernel = tuple(weights.kernel().items())
        self._named = named
        self._period = (period[0].timestamp(), period[1].timestamp()) if period else None
        sizes = [len(segment.lengths) + weights.reach for segment in segments]
        self._starts = [0, *accumulate(sizes)][:-1]

    def postings(self, group: Group) -> dict[int, int]:
        """Find where any of a group's terms occurs, and how often."""
        found: dict[int, int] = {}
        for start, segment in zip(self._starts, self._segments, strict=True):
            first, *others = _expand(group, segment.postings) or ("",)
            occurrences = segment.postings.get(first, {})
            # Almost always the only one, and common words occur everywhere: no loop of our own.
            found.update(zip(map(start.__add__, occurrences), occurrences.values(), strict=True))
            for term in others:
                for index, count in segment.postings[term].items():
                    found[start + index] = found.get(start + index, 0) + count
        return found

    def statistics(self, postings: Sequence[Mapping[int, int]]) -> CorpusStatistics:
        """Count what BM25 wants to know."""
        events = sum(len(segment.lengths) for segment in self._segments)
        terms = sum(segment.size for segment in self._segments)
        reached = sum(share for _, share in self._kernel)
        return CorpusStatistics(
            events=events,
            frequencies=tuple(map(len, postings)),
            average_window=max(1.0, reached * terms / max(1, events)),
        )

    def locate(self, position: int) -> tuple[int, int] | None:
        """Tell the segment and the index in it of a position; None for a position between segments."""
        number = bisect_right(self._starts, position) - 1
        if number < 0:
            return None
        index = position - self._starts[number]
        return (number, index) if index < len(self._segments[number].lengths) else None

    def describe(self, number: int, index: int, cosine: float | None) -> Candidate:
        """Collect what ranking asks about an event."""
        segment = self._segments[number]
        flags = segment.flags[index]
        return Candidate(
            window=segment.window(index, self._kernel),
            is_question=bool(flags & QUESTION),
            is_answer=index > 0 and bool(segment.flags[index - 1] & QUESTION),
            mentions_time=bool(flags & TIME),
            is_named=segment.authors[index] in self._named,
            age=self._age(segment.instants[index]),
            cosine=cosine,
        )

    def _age(self, instant: float) -> float | None:
        if self._period is None or instant < self._period[0]:
            return None
        return max(0.0, instant - self._period[1])


def _expand(group: Group, vocabulary: Collection[str]) -> list[str]:
    """Find the terms that a group stands for here; one that ends in `*` stands for all that begin so."""
    known = [term for term in group if term in vocabulary]
    for beginning in (term[:-1] for term in group if term.endswith("*")):
        known.extend(term for term in vocabulary if term.startswith(beginning) and term not in group)
    return known
