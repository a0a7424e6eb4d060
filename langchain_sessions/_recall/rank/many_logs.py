"""Ranking over any number of logs, wherever their inverted events lie: in memory, in packed chunks, in both.

A log is a sequence of parts, usually chunks of an index and the tail behind it. Parts of one log adjoin, so that
neighbours reach across; logs are laid far enough apart that none is the neighbour of another's event.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.index.inverted import HUMAN, Group, InvertedEvents
from langchain_sessions._recall.rank.company import Home, Logs, Present
from langchain_sessions._recall.rank.kernel import longest_neighbour
from langchain_sessions._recall.rank.occurring import Postings
from langchain_sessions._recall.rank.ranking import (
    COMPARED,
    Candidate,
    Passage,
    TermStatistics,
    in_spreads,
    rank,
    rank_by_meaning,
)
from langchain_sessions._recall.rank.shortlisting import Choice, Chosen, shortlist
from langchain_sessions._recall.rank.zone import Layout
from langchain_sessions._recall.text.speakers import means_the_human, names_in, speakers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_sessions._recall.rank.ranking import RankedEvent, RankingWeights
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions._recall.text.speakers import Person
    from langchain_sessions._recall.text.terms import TermMaker

CANDIDATES: Final = 300
"""How many events are ranked in full. `make bench-recall` shows what that costs in recall among 100 000 events."""

# Shorter beginnings join words that have nothing to do with each other.
_SHORTEST_BEGINNING: Final = 5
_LONGEST_ENDING: Final = 4

# Assistants say five to twenty times as much at a time as those who ask them; of two people none says twice as much.
_AT_LENGTH: Final = 2
_BESIDE_ASSISTANTS: Final = 0.5
# Among the few events of somebody who said little, how rare a word is elsewhere counts as much as in so many of theirs.
_SUPPOSED: Final = 20
_tuple = tuple.__new__


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
        joined: _LogsEndToEnd,
        query: Query,
        weights: RankingWeights,
        statistics: TermStatistics,
        choice: Choice,
    ) -> None:
        self.places = choice.places
        self.is_cut = choice.is_cut
        self._joined = joined
        self._query = query
        self._weights = weights
        self._statistics = statistics
        self._chosen = choice.events
        self._near: set[int] = set()

    def ranked(self) -> list[Found]:
        """Rank them by their words, the best first."""
        places, describe = self.places, self._joined.describe
        described = (
            (position, describe(*places[position], chosen)) for position, chosen in sorted(self._chosen.items())
        )
        return self._found(rank(described, self._statistics, self._weights))

    def _found(self, ranked: Iterable[RankedEvent]) -> list[Found]:
        places = self.places
        return [Found(*places[event.position], event) for event in ranked]

    def is_hidden(self, number: int, index: int) -> bool:
        """Whether an event does not count."""
        return self._joined.is_hidden(number, index)

    def add(self, places: Iterable[tuple[int, int]]) -> None:
        """Rank these too, whether or not any of their words was asked for: they are near in meaning."""
        for place in places:
            position = self._joined.position(*place)
            self._near.add(position)
            if position not in self._chosen:
                self.places[position] = place
                self._chosen[position] = Chosen([], 0.0)

    def _compared(self, found: Sequence[Found]) -> list[Found]:
        """The best by their words, and those that are near in meaning."""
        return [*found[:COMPARED], *(each for each in found[COMPARED:] if each.ranked.position in self._near)]

    def compared(self, found: Sequence[Found]) -> set[tuple[int, int]]:
        """What has to be known in meaning: part and index of what is compared, and of the neighbours."""
        return {
            place
            for each in self._compared(found)
            for place, _ in self._joined.around(each.ranked.position, each.segment, each.index)
        }

    def by_meaning(self, found: Sequence[Found], cosine: Callable[[int, int], float | None]) -> list[Found]:
        """Rank anew by words and meaning.

        Args:
            found: What `ranked` returned.
            cosine: Similarity of an event (part, index) to the query, where known.
        """
        known = {place: value for place in self.compared(found) if (value := cosine(*place)) is not None}
        usual = max(0.0, sum(known.values()) / max(1, len(known)))
        # Where no word was found, only what is nearer than most.
        found = [
            each
            for each in found
            if each.ranked.parts["words"] > 0 or known.get((each.segment, each.index), -1.0) >= usual
        ]
        nearness: dict[int, float] = {}
        for each in self._compared(found):
            around = self._joined.around(each.ranked.position, each.segment, each.index)
            told = [(share * self._joined.told(*place), known[place]) for place, share in around if place in known]
            if told:
                # A mean and no sum: at the end of a session there is less around, which says nothing of what is there.
                nearness[each.ranked.position] = sum(share * value for share, value in told) / sum(
                    share for share, _ in told
                )
        nearness = in_spreads(nearness, known.values())
        return self._found(rank_by_meaning([each.ranked for each in found], nearness, self._weights))


def shortlist_logs(
    logs: Sequence[Sequence[InvertedEvents]],
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
    persons, groups = names_in(speakers_in(logs), query.groups, maker)
    asked = _Asked(
        persons,
        not persons and means_the_human(query.text),
    )
    joined = _LogsEndToEnd(logs, weights, asked)
    postings = [joined.postings(group) for group in groups]
    if persons and not any(unit.frequency for unit in postings):
        # Nothing but the name was ever said: then it is a word as any other.
        groups = list(query.groups)
        postings = [joined.postings(group) for group in groups]
    if len(groups) > 1 or any(unit.frequency for unit in postings):
        pairs = zip(groups, postings, strict=True)
        postings = [unit if unit.frequency else joined.postings(joined.related(group)) for group, unit in pairs]
    joined.units = postings
    statistics = joined.statistics(postings)
    choice = shortlist(postings, joined.layout(admits), statistics, weights, limit=candidates)
    return Shortlist(joined, query, weights, statistics, choice)


def search_logs(
    logs: Sequence[Sequence[InvertedEvents]],
    query: Query,
    maker: TermMaker,
    *,
    weights: RankingWeights,
    admits: Callable[[int, int], bool] | None = None,
    cosine: Callable[[int, int], float | None] | None = None,
    near: Iterable[tuple[int, int]] = (),
    candidates: int = CANDIDATES,
) -> list[Found]:
    """Choose the events of logs and rank them, the best first; see `shortlist_logs`, `Shortlist.add` and `ranked`."""
    chosen = shortlist_logs(logs, query, maker, weights=weights, admits=admits, candidates=candidates)
    chosen.add(near)
    found = chosen.ranked()
    return found if cosine is None else chosen.by_meaning(found, cosine)


class _Asked(NamedTuple):
    """What a query asks besides words.

    Attributes:
        persons: Whom it names.
        means_human: Whether it says "I".
    """

    persons: Sequence[Person]
    means_human: bool


class _LogsEndToEnd:
    """Parts laid end to end."""

    def __init__(
        self,
        logs: Sequence[Sequence[InvertedEvents]],
        weights: RankingWeights,
        asked: _Asked,
    ) -> None:
        self._parts = [part for log in logs for part in log]
        self._homes = [home for number, log in enumerate(logs) for home in _homes_of(number, log)]
        self._said = sum([part.said for part in self._parts])
        self._size = sum([part.size for part in self._parts])
        self._kernel = tuple(weights.kernel().items())
        self._reach = weights.reach
        self._weights = weights
        # Of two names nobody knows which one is asked about. One that several bear means any of them.
        self._named = asked.persons[0].bearers if len(asked.persons) == 1 else frozenset[str]()
        # Among the events of one log, in however many parts it is, this tells nothing.
        held = {(home.number, at) for home in self._homes for at in compress(home.firsts, home.whole)}
        self._present = self._presence(asked.persons) if asked.persons and len(held) > 1 else None
        self._human = self._human_share(asked)
        self.units: Sequence[Postings] = ()
        self._passages: dict[tuple[int, int], Mapping[int, int]] = {}
        self._starts: list[int] = []
        self._hides = sum([bool(part.hidden) for part in self._parts]) > 0
        self._has_gaps = [part.taken for part in self._parts].count(None) < len(self._parts)
        position = 0
        for log in logs:
            for part in log:
                self._starts.append(position)
                position += part.events
            # Room between logs, so that no event is the neighbour of another log's.
            position += weights.reach
        self._end = position

    def _logs(self) -> Logs:
        """How many logs hold anything, and how much."""
        found = {home.number: home.filled for home in self._homes}
        return Logs(sum(found.values()), self._said)

    def _human_share(self, asked: _Asked) -> float:
        """By which share what a human said gains: where the query means it, and where others talk at length."""
        if self._named:
            return 0.0
        share = self._weights.author if asked.means_human else 0.0
        humans, spoken = map(sum, zip((0, 0), *[part.human_talk for part in self._parts], strict=True))
        others, talk = self._said - humans, self._size - spoken
        if humans and others and talk * humans > _AT_LENGTH * spoken * others:
            share += _BESIDE_ASSISTANTS * self._weights.author
        return share

    def layout(self, admits: Callable[[int, int], bool] | None) -> Layout:
        """How the parts lie, and which of their events may be chosen."""
        parts = self._parts
        named, weights = self._named, self._weights
        longest = longest_neighbour(weights)

        def is_named(number: int, index: int) -> bool:
            return parts[number].author(index) in named

        def is_human(number: int, index: int) -> bool:
            return bool(parts[number].hints(index) & HUMAN)

        def may_be(number: int, index: int) -> bool:
            return index not in parts[number].hidden and (admits is None or admits(number, index))

        return Layout(
            starts=self._starts,
            sizes=[part.events for part in parts],
            columns_of=lambda number: parts[number].columns(longest),
            average=self._average_window(),
            taken=[part.taken for part in parts],
            admits=may_be if admits or self._hides else None,
            is_favoured=is_named if named else is_human if self._human else None,
            favour=(weights.author, weights.author_bonus) if named else (self._human, 0.0),
            homes=self._homes,
            logs=self._logs() if weights.session else None,
        )

    def postings(self, group: Group) -> Postings:
        """Find where any of a group's terms occurs, and how often."""
        return Postings(self._parts, group)

    def related(self, group: Group) -> Group:
        """The terms that begin as one of a group does which occurs nowhere: "adopter" where only "adopt" was said."""
        found: dict[str, None] = {}
        for term in group:
            if len(term) < _SHORTEST_BEGINNING or not term.isascii() or term.endswith("*") or ":" in term:
                continue
            for part in self._parts:
                near = part.expand(term[:_SHORTEST_BEGINNING])
                found.update(dict.fromkeys(other for other in near if _is_form(other, term)))
        return tuple(found)

    def _presence(self, persons: Sequence[Person]) -> Present:
        named = [[self.postings(unit) for unit in person.units] for person in persons]
        return Present(persons, named, self._parts, self._homes)

    def statistics(self, postings: Sequence[Postings]) -> TermStatistics:
        """Count what BM25 wants to know."""
        events: float = self._said
        frequencies: list[float] = [unit.frequency for unit in postings]
        if self._present is not None and (among := self._present.among()) is not None:
            # A word that all of one's sessions are about is rare among others', and tells nothing of which is meant.
            share = _SUPPOSED / self._said
            frequencies = [among.count(unit) + share * unit.frequency for unit in postings]
            events = among.events + _SUPPOSED
        return TermStatistics(events=events, frequencies=tuple(frequencies), average_window=self._average_window())

    def _average_window(self) -> float:
        """Mean length of a passage with what an event's neighbours add, as if all events were of one length."""
        events, terms = max(1, self._said), self._size
        passages = max(1, sum([part.passages for part in self._parts]))
        reached = sum([share for offset, share in self._kernel if offset])
        return max(1.0, terms / passages + reached * min(self._weights.neighbour, terms / events))

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

    def is_hidden(self, number: int, index: int) -> bool:
        """Whether an event does not count."""
        taken = self._parts[number].taken
        if taken is not None and not taken[index]:
            return True
        return self._hides and index in self._parts[number].hidden

    def around(self, position: int, number: int, index: int) -> list[tuple[tuple[int, int], float]]:
        """An event and the neighbours that are read along, with what each counts."""
        if self._reach <= index < self._parts[number].events - self._reach:
            places = [((number, index + offset), share) for offset, share in self._kernel]
        else:
            near = ((self.locate(position + offset), share) for offset, share in self._kernel)
            places = [(place, share) for place, share in near if place is not None]
        return [each for each in places if not self.is_hidden(*each[0])] if self._hides or self._has_gaps else places

    def told(self, number: int, index: int) -> float:
        """What the meaning of an event counts beside others': a sentence more than a "yes", an essay not more."""
        part = self._parts[number]
        low, high = (index, index + 1) if part.firsts is None else (part.firsts[index], part.firsts[index + 1])
        return math.sqrt(max(1, min(longest_neighbour(self._weights), sum(part.passage_lengths[low:high]))))

    def describe(self, number: int, index: int, chosen: Chosen) -> Candidate:
        """Collect what ranking asks about an event."""
        part = self._parts[number]
        values = (
            self._passages_of(part, number, index, chosen),
            bool(self._named) and part.author(index) in self._named,
            self._human if self._human and part.hints(index) & HUMAN else 0.0,
            chosen.company,
            self._present.gain(number, index) if self._present else 0.0,
        )
        return _tuple(Candidate, values)

    def _passages_of(self, part: InvertedEvents, number: int, index: int, chosen: Chosen) -> list[Passage]:
        """The passages of an event that hold a word; where its neighbours alone do, the first."""
        firsts, lengths = part.firsts, part.passage_lengths
        low, high = (index, index + 1) if firsts is None else (firsts[index], firsts[index + 1])
        shortest = self._weights.shortest
        if high == low + 1:
            frequencies = [(unit, own + near) for unit, own, near in chosen.frequencies]
            told = lengths[low]
            window = (told if told > shortest else shortest) + chosen.around  # noqa: FURB136 - no call
            return [_tuple(Passage, (0, frequencies, window))]
        found = [(unit, self._in_passages(unit, number) if own else {}, near) for unit, own, near in chosen.frequencies]
        held = {at for _, counts, _ in found if counts for at in range(low, high) if at in counts}
        return [
            Passage(
                at - low,
                [(unit, count) for unit, counts, near in found if (count := counts.get(at, 0) + near)],
                max(shortest, lengths[at]) + chosen.around,
            )
            for at in sorted(held) or [low]
        ]

    def _in_passages(self, unit: int, number: int) -> Mapping[int, int]:
        """How often a unit occurs in each passage of a part."""
        known = self._passages.get((unit, number))
        if known is None:
            joined: dict[int, int] = {}
            for occurrences in self.units[unit].occurring.get(number, ()):
                for at, count in occurrences.passages().items():
                    joined[at] = joined.get(at, 0) + count
            known = self._passages[unit, number] = joined
        return known


def _homes_of(number: int, log: Sequence[InvertedEvents]) -> Iterator[Home]:
    """Which logs lie in the parts of one, or on a shelf."""
    whole = (sum([part.events for part in log]),) if len(log) > 1 else None
    for part in log:
        firsts, sizes = part.logs
        yield Home(number, firsts, sizes, whole or sizes, part.filled if whole is None else int(whole[0] > 0))


def _is_form(one: str, other: str) -> bool:
    """Whether one of two terms is the other with a short ending."""
    return abs(len(one) - len(other)) <= _LONGEST_ENDING and (one.startswith(other) or other.startswith(one))
