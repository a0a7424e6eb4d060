"""Ranking over any number of logs, wherever their inverted events lie: in memory, in packed chunks, in both.

A log is a sequence of parts, usually chunks of an index and the tail behind it. Parts of one log adjoin, so that
neighbours reach across; logs are laid far enough apart that none is the neighbour of another's event.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.parts import QUESTION, TIME, Group, Part
from langchain_sessions._recall.rank.ranking import (
    COMPARED,
    Candidate,
    CorpusStatistics,
    rank,
    rank_by_meaning,
)
from langchain_sessions._recall.rank.shortlisting import Choice, Layout, Lookup, Postings, shortlist
from langchain_sessions._recall.text.dates import asks_when, date_range
from langchain_sessions._recall.text.speakers import names_in, speakers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from langchain_sessions._recall.rank.ranking import RankedEvent, RankingWeights
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions._recall.text.terms import TermMaker

CANDIDATES: Final = 300
"""How many events are ranked in full. `make bench-recall` shows what that costs in recall among 100 000 events."""

_SHORTEST_BEGINNING: Final = 5
_LONGEST_ENDING: Final = 4
_MOST_COUNTED: Final = 255


@dataclass(slots=True)
class Found:
    """One event found.

    Attributes:
        segment: Which of the searched parts it is in, counted through all logs.
        index: Which event of that part it is.
        ranked: Its score and the reasons for it.
    """

    segment: int
    index: int
    ranked: RankedEvent


class Shortlist:
    """The events worth ranking in full: what a search chose by words alone.

    Attributes:
        places: Part and index in it of each, by position.
        is_cut: Whether there may be more that fit less.
    """

    def __init__(
        self,
        scope: _Corpus,
        query: Query,
        weights: RankingWeights,
        statistics: CorpusStatistics,
        choice: Choice,
    ) -> None:
        self.places = {position: place for position in choice.events if (place := scope.locate(position))}
        self.is_cut = choice.is_cut
        self._scope = scope
        self._query = query
        self._weights = weights
        self._statistics = statistics
        self._chosen: dict[int, Sequence[tuple[int, float]]] = {**choice.events}

    def ranked(self) -> list[Found]:
        """Rank them by their words, the best first."""

        def describe(position: int) -> Candidate:
            return self._scope.describe(position, *self.places[position])

        asks = asks_when(self._query.text)
        return self._found(rank(self._chosen, self._statistics, describe, self._weights, asks_when=asks))

    def _found(self, ranked: Iterable[RankedEvent]) -> list[Found]:
        return [Found(*self.places[event.position], event) for event in ranked]

    def others(self, limit: int, admits: Callable[[int, int], bool] | None = None) -> list[tuple[int, int]]:
        """Part and index of the newest events that their words did not bring here, at most so many."""
        chosen = frozenset(self.places.values())
        left = (
            place
            for place in self._scope.newest()
            if place not in chosen and not self._scope.is_hidden(*place) and (admits is None or admits(*place))
        )
        return list(islice(left, limit))

    def add(self, places: Iterable[tuple[int, int]]) -> None:
        """Rank these too, though none of their words was asked for."""
        for place in places:
            position = self._scope.position(*place)
            self.places[position] = place
            self._chosen[position] = ()

    def compared(self, found: Sequence[Found]) -> set[tuple[int, int]]:
        """What has to be known in meaning: part and index of the best by their words, and of their neighbours."""
        return {
            place
            for each in found[:COMPARED]
            for place, _ in self._scope.around(each.ranked.position, each.segment, each.index)
        }

    def by_meaning(self, found: Sequence[Found], cosine: Callable[[int, int], float | None]) -> list[Found]:
        """Rank anew by words and meaning.

        Args:
            found: What `ranked` returned.
            cosine: Similarity of an event (part, index) to the query, where known.
        """
        known = {place: value for place in self.compared(found) if (value := cosine(*place)) is not None}
        mean = sum(known.values()) / max(1, len(known))
        nearness: dict[int, float] = {}
        for each in found[:COMPARED]:
            around = self._scope.around(each.ranked.position, each.segment, each.index)
            near = [share * (known[place] - mean) for place, share in around if place in known]
            if near:
                nearness[each.ranked.position] = sum(near)
        return self._found(rank_by_meaning([each.ranked for each in found], nearness, self._weights))


def shortlist_logs(
    logs: Sequence[Sequence[Part]],
    query: Query,
    maker: TermMaker,
    *,
    weights: RankingWeights,
    admits: Callable[[int, int], bool] | None = None,
    candidates: int = CANDIDATES,
) -> Shortlist:
    """Choose the events of logs that are worth ranking for a ranked query.

    Args:
        logs: The parts of each log.
        query: A ranked query; its operators are the caller's to check, on the text of the events.
        maker: The maker that made the terms of both.
        weights: What counts how much.
        admits: Whether an event (part, index) may be returned; it still counts as a neighbour.
        candidates: How many events to choose.
    """
    named, groups = names_in(speakers_in(logs), query.groups, maker)
    scope = _Corpus(logs, weights, named if len(named) == 1 else frozenset(), date_range(query.text))
    postings = [scope.postings(group) for group in groups]
    if named and not any(unit.frequency for unit in postings):
        # Nothing but the name was ever said: then it is a word as any other.
        groups = list(query.groups)
        postings = [scope.postings(group) for group in groups]
    if any(unit.frequency for unit in postings):
        pairs = zip(groups, postings, strict=True)
        postings = [unit if unit.frequency else scope.postings(scope.related(group)) for group, unit in pairs]
    statistics = scope.statistics([unit.frequency for unit in postings])
    choice = shortlist(postings, scope.layout(admits), statistics, weights, limit=candidates)
    return Shortlist(scope, query, weights, statistics, choice)


def search_logs(
    logs: Sequence[Sequence[Part]],
    query: Query,
    maker: TermMaker,
    *,
    weights: RankingWeights,
    admits: Callable[[int, int], bool] | None = None,
    cosine: Callable[[int, int], float | None] | None = None,
    candidates: int = CANDIDATES,
) -> list[Found]:
    """Choose the events of logs and rank them, the best first; see `shortlist_logs` and `Shortlist.ranked`."""
    chosen = shortlist_logs(logs, query, maker, weights=weights, admits=admits, candidates=candidates)
    found = chosen.ranked()
    return found if cosine is None else chosen.by_meaning(found, cosine)


class _Corpus:
    """Parts laid end to end."""

    def __init__(
        self,
        logs: Sequence[Sequence[Part]],
        weights: RankingWeights,
        named: frozenset[str],
        period: tuple[datetime, datetime] | None,
    ) -> None:
        self._parts = [part for log in logs for part in log]
        self._kernel = tuple(weights.kernel().items())
        self._reach = weights.reach
        self._named = named
        self._period = (period[0].timestamp(), period[1].timestamp()) if period else None
        self._starts: list[int] = []
        self._hides = any(part.hidden for part in self._parts)
        position = 0
        for log in logs:
            for part in log:
                self._starts.append(position)
                position += part.events
            position += weights.reach
        self._end = position

    def layout(self, admits: Callable[[int, int], bool] | None) -> Layout:
        """How the parts lie, and which of their events may be chosen."""
        parts = self._parts
        named = self._named

        def is_named(number: int, index: int) -> bool:
            return parts[number].author(index) in named

        def may_be(number: int, index: int) -> bool:
            return index not in parts[number].hidden and (admits is None or admits(number, index))

        return Layout(
            starts=self._starts,
            sizes=[part.events for part in parts],
            admits=may_be if admits or self._hides else None,
            is_named=is_named if named else None,
        )

    def postings(self, group: Group) -> Postings:
        """Find where any of a group's terms occurs, and how often."""
        lookups: list[Lookup | None] = []
        total = 0
        for part in self._parts:
            found = [each for term in _expand(group, part) if (each := part.find(term)) is not None]
            if len(found) == 1 and not part.hidden:
                lookups.append(found[0].lookup())
                total += len(found[0])
                continue
            joined: dict[int, int] = {}
            for index, count in chain.from_iterable(each.pairs() for each in found):
                if index not in part.hidden:
                    joined[index] = min(_MOST_COUNTED, joined.get(index, 0) + count)
            lookups.append(joined or None)
            total += len(joined)
        return Postings(lookups, total)

    def related(self, group: Group) -> Group:
        """The terms that begin as one of a group does which occurs nowhere: "adopter" where only "adopt" was said."""
        found: dict[str, None] = {}
        for term in group:
            if len(term) < _SHORTEST_BEGINNING or not term.isascii() or term.endswith("*"):
                continue
            for part in self._parts:
                near = part.expand(term[:_SHORTEST_BEGINNING])
                found.update(dict.fromkeys(other for other in near if _is_form(other, term)))
        return tuple(found)

    def statistics(self, frequencies: Sequence[int]) -> CorpusStatistics:
        """Count what BM25 wants to know."""
        events = sum(part.events for part in self._parts)
        terms = sum(part.size for part in self._parts)
        reached = sum(share for _, share in self._kernel)
        return CorpusStatistics(
            events=events,
            frequencies=tuple(frequencies),
            average_window=max(1.0, reached * terms / max(1, events)),
        )

    def locate(self, position: int) -> tuple[int, int] | None:
        """Tell the part and the index in it of a position; None for a position between logs."""
        number = bisect_right(self._starts, position) - 1
        if number < 0:
            return None
        index = position - self._starts[number]
        return (number, index) if index < self._parts[number].events else None

    def position(self, number: int, index: int) -> int:
        """The position of an event."""
        return self._starts[number] + index

    def newest(self) -> Iterator[tuple[int, int]]:
        """Part and index of every event, the newest of the newest log first."""
        for number in reversed(range(len(self._parts))):
            for index in reversed(range(self._parts[number].events)):
                yield number, index

    def is_hidden(self, number: int, index: int) -> bool:
        """Whether an event does not count."""
        return self._hides and index in self._parts[number].hidden

    def _window(self, position: int, part: Part, index: int) -> float:
        """Length of an event and its neighbours, weighted as their words are."""
        length = part.length
        if self._reach <= index < part.events - self._reach:
            return sum([share * length(index + offset) for offset, share in self._kernel])
        total = 0.0
        for offset, share in self._kernel:
            place = self.locate(position + offset)
            if place is not None:
                total += share * self._parts[place[0]].length(place[1])
        return total

    def around(self, position: int, number: int, index: int) -> list[tuple[tuple[int, int], float]]:
        """An event and the neighbours that are read along, with what each counts."""
        if self._reach <= index < self._parts[number].events - self._reach:
            places = [((number, index + offset), share) for offset, share in self._kernel]
        else:
            near = ((self.locate(position + offset), share) for offset, share in self._kernel)
            places = [(place, share) for place, share in near if place is not None]
        return [each for each in places if not self.is_hidden(*each[0])] if self._hides else places

    def describe(self, position: int, number: int, index: int) -> Candidate:
        """Collect what ranking asks about an event."""
        part = self._parts[number]
        hints = part.hints(index)
        before = (number, index - 1) if index else self.locate(position - 1)
        return Candidate(
            window=self._window(position, part, index),
            is_question=bool(hints & QUESTION),
            is_answer=before is not None and bool(self._parts[before[0]].hints(before[1]) & QUESTION),
            mentions_time=bool(hints & TIME),
            is_named=bool(self._named) and part.author(index) in self._named,
            age=self._age(part.instant(index)) if self._period else None,
        )

    def _age(self, instant: float) -> float | None:
        if self._period is None or instant < self._period[0]:
            return None
        return max(0.0, instant - self._period[1])


def _is_form(one: str, other: str) -> bool:
    """Whether one of two terms is the other with a short ending."""
    return abs(len(one) - len(other)) <= _LONGEST_ENDING and (one.startswith(other) or other.startswith(one))


def _expand(group: Group, part: Part) -> Iterable[str]:
    """Find the terms that a group stands for here; one that ends in `*` stands for all that begin so."""
    if not any(term.endswith("*") for term in group):
        return group
    known = dict.fromkeys(term for term in group if not term.endswith("*"))
    for term in group:
        if term.endswith("*"):
            known.update(dict.fromkeys(part.expand(term[:-1])))
    return known
