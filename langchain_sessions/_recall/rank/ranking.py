"""The one ranking: BM25 in which a passage of an event is read together with the event's neighbours.

In a conversation the words of a question stand in one message and the answer in the next, so term frequencies of
neighbours of the same session are added *inside* the saturation, fading with distance; a long one counts no more than a
short turn. An event is worth what its best passage is. Nothing here reads a database: an index, whichever it is,
supplies `TermStatistics` and `Candidate` values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._core.showing import brief

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

COMPARED: Final = 50
"""How many events, the best by their words, are compared with a query in meaning. More of them gain nothing."""

_SPREAD: Final = 0.1
_SUPPOSED: Final = 3
_tuple = tuple.__new__


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingWeights:
    """Everything that can be tuned, with defaults measured on long real conversations (`make bench-recall`).

    Attributes:
        saturation: BM25's k1: how soon more of the same word stops counting.
        length: BM25's b: how much long passages are held back.
        shortest: As how many words a passage counts at least: "What a kettle!" says no more of a kettle than a sentence
            does. 255 or fewer.
        reach: How many neighbours on each side are read along; 0 for none.
        before: What the words of the event just before count.
        after: What the words of the event just after count.
        fading: By what these shrink per further event.
        neighbour: As how many words a neighbour counts at most, 255 or fewer: an answer of a thousand words must not
            drown the question before it.
        author: Share by which an event of whom the query names gains, where that is one name; where the query says "I"
            or "my", what a human said, and by half of it where others talk at length, as assistants do: advice is
            seldom what is asked for later.
        author_bonus: What an event of an author who is named gains besides; among several sessions also what one gains
            in whose session they take part, times how rare such sessions are.
        session: What it is worth, among several sessions, that the rest of its own fits as well.
        meaning: What it is worth, where embeddings are used, to be nearer in meaning by as much as the cosines of what
            is compared are spread; neighbours count along, the longer ones more.
    """

    saturation: float = 1.0
    length: float = 1.0
    shortest: int = 14
    reach: int = 4
    before: float = 0.6
    after: float = 0.4
    fading: float = 0.65
    neighbour: int = 30
    author: float = 0.25
    author_bonus: float = 0.5
    session: float = 0.4
    meaning: float = 1.0

    def __repr__(self) -> str:
        """Short: what was given."""
        return brief(self)

    def kernel(self) -> dict[int, float]:
        """What an event at each offset from a candidate counts: 1 for itself, -1 is the event before."""
        shares = {0: 1.0}
        for distance in range(1, self.reach + 1):
            shares[-distance] = self.before * self.fading ** (distance - 1)
            shares[distance] = self.after * self.fading ** (distance - 1)
        return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """What BM25 needs to know about the searched logs.

    Attributes:
        events: How many events it holds.
        frequencies: In how many of them each group of the query occurs, in the order of the groups; 0 for not found.
            Where they are estimated these are no whole numbers.
        average_window: Mean length of passages read with their neighbours (see `Passage.window`), above 0.
    """

    events: float
    frequencies: Sequence[float]
    average_window: float = 1.0

    def weights(self) -> tuple[float, ...]:
        """Inverse document frequency of each group; 0 for one that is not found."""
        return tuple(
            math.log(1 + (max(self.events, found) - found + 0.5) / (found + 0.5)) if found else 0.0
            for found in self.frequencies
        )


class Passage(NamedTuple):
    """What ranking asks about one passage of an event.

    Attributes:
        number: Which of its event.
        frequencies: How often it holds each group of the query, with what the event's neighbours add: (group, count).
        window: Number of its terms, and of those of the neighbours, as they count.
    """

    number: int
    frequencies: Sequence[tuple[int, float]]
    window: float


class Candidate(NamedTuple):
    """What ranking asks about one event.

    Attributes:
        passages: Those worth ranking, at least one.
        is_named: Whether its author is the one whom the query names.
        human: By which share it gains since a human said it.
        company: How well the rest of its session fits.
        present: How much it tells that those whom the query names take part in its session.
    """

    passages: Sequence[Passage]
    is_named: bool = False
    human: float = 0.0
    company: float = 0.0
    present: float = 0.0


class RankedEvent(NamedTuple):
    """An event with its score and the reasons for it.

    Attributes:
        position: The index's number of the event.
        score: The sum of the parts; comparable within one search only.
        parts: What each reason added: `words`, `author`, `human`, `session`, `meaning`.
        passage: Which of its passages earned it.
    """

    position: int
    score: float
    parts: Mapping[str, float]
    passage: int = 0


def rank(
    chosen: Iterable[tuple[int, Candidate]], statistics: TermStatistics, weights: RankingWeights
) -> list[RankedEvent]:
    """Rank what `shortlist` chose, the best first; equal scores in order of position.

    Args:
        chosen: Position and description of each, in order of position.
        statistics: Of the searched logs.
        weights: What counts how much.
    """
    rarity, average = statistics.weights(), statistics.average_window
    saturation, length, shortest = weights.saturation, weights.length, 1 - weights.length
    # BM25 as a share of what a perfect passage would get, times 4, so that hints weigh the same for every query.
    most, perfect = 4 * (saturation + 1), sum(rarity) or 1.0
    ranked: list[RankedEvent] = []
    for position, (passages, is_named, human, company, present) in chosen:
        best, words = 0, -1.0
        # No call for each of hundreds of passages.
        for number, frequencies, window in passages:
            damping = saturation * (shortest + length * (window / average))
            gained = 0.0
            for group, count in frequencies:
                gained += rarity[group] * count / (count + damping)
            gained = most * gained / perfect
            if gained > words:
                best, words = number, gained
        parts, score = {"words": words}, words
        if is_named:
            parts["author"] = gain = weights.author * words + weights.author_bonus
            score += gain
        elif human:
            parts["human"] = gain = human * words
            score += gain
        if company or present:
            parts["session"] = gain = weights.session * company + weights.author_bonus * present
            score += gain
        ranked.append(_tuple(RankedEvent, (position, score, parts, best)))
    # What is equal stays in order: turned round, too.
    ranked.sort(key=attrgetter("score"), reverse=True)
    return ranked


def in_spreads(nearness: Mapping[int, float], cosines: Collection[float]) -> dict[int, float]:
    """How near events are, in standard deviations: one model's cosines lie between 0 and 1, another's about .8.

    Args:
        nearness: Cosines by position.
        cosines: All that were computed.
    """
    mean = sum(cosines) / max(1, len(cosines))
    # A few cosines do not tell how far they spread: then what is usual counts, too.
    squares = sum((each - mean) ** 2 for each in cosines) + _SUPPOSED * _SPREAD * _SPREAD
    spread = math.sqrt(squares / (len(cosines) + _SUPPOSED))
    return {position: near / spread for position, near in nearness.items()}


def rank_by_meaning(
    ranked: Sequence[RankedEvent], nearness: Mapping[int, float], weights: RankingWeights
) -> list[RankedEvent]:
    """Add what events are worth by their meaning, to the score that they have by their words.

    Args:
        ranked: What `rank` returned.
        nearness: By position: how near events are to the query, in spreads; what is not named gains and loses nothing.
        weights: What counts how much.
    """
    mean = sum(nearness.values()) / max(1, len(nearness))
    again: list[RankedEvent] = []
    for event in ranked:
        near = nearness.get(event.position)
        if near is None:
            again.append(event)
            continue
        gain = weights.meaning * (near - mean)
        again.append(event._replace(score=event.score + gain, parts={**event.parts, "meaning": gain}))
    again.sort(key=lambda event: -event.score)
    return again
