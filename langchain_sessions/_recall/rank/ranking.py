"""The one ranking: BM25 in which an event is read together with its neighbours.

In a conversation the words of a question stand in one message and the answer in the next, so term frequencies of
neighbours of the same session are added *inside* the saturation, fading with distance. Nothing here reads a database:
an index, whichever it is, supplies `CorpusStatistics` and `Candidate` values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COMPARED: Final = 50
"""How many events, the best by their words, are compared with a query in meaning. More of them gain nothing."""

_MONTH: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingWeights:
    """Everything that can be tuned, with defaults measured on long real conversations (`make bench-recall`).

    Attributes:
        saturation: BM25's k1: how soon more of the same word stops counting.
        length: BM25's b: how much long windows are held back.
        reach: How many neighbours on each side are read along; 0 for none.
        before: What the words of the event just before count.
        after: What the words of the event just after count.
        fading: By what these shrink per further event.
        author: Share by which an event of the one author named in the query gains.
        author_bonus: What it gains besides.
        question: What an event that ends in a question mark loses: it asks, it does not tell.
        answer: What an event after such a one gains.
        time: What an event that speaks of time gains when the query asks when.
        period: What an event inside the period that the query names gains; soon after it, a fading share.
        meaning: What a difference of 1 in cosine is worth, where embeddings are used; neighbours count along as their
            words do.
    """

    saturation: float = 0.8
    length: float = 0.45
    reach: int = 4
    before: float = 0.6
    after: float = 0.4
    fading: float = 0.6
    author: float = 0.25
    author_bonus: float = 0.5
    question: float = 0.2
    answer: float = 0.3
    time: float = 0.8
    period: float = 0.5
    meaning: float = 2.0

    def kernel(self) -> dict[int, float]:
        """What an event at each offset from a candidate counts: 1 for itself, -1 is the event before."""
        shares = {0: 1.0}
        for distance in range(1, self.reach + 1):
            shares[-distance] = self.before * self.fading ** (distance - 1)
            shares[distance] = self.after * self.fading ** (distance - 1)
        return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """What BM25 needs to know about the searched scope.

    Attributes:
        events: How many events it holds.
        frequencies: In how many of them each group of the query occurs, in the order of the groups; 0 for not found.
        average_window: Mean windowed length of its events (see `Candidate.window`), above 0.
    """

    events: int
    frequencies: Sequence[int]
    average_window: float = 1.0

    def weights(self) -> tuple[float, ...]:
        """Inverse document frequency of each group; 0 for one that is not found."""
        return tuple(
            math.log(1 + (max(self.events, found) - found + 0.5) / (found + 0.5)) if found else 0.0
            for found in self.frequencies
        )


class Candidate(NamedTuple):
    """What ranking asks about one event besides its words.

    Attributes:
        window: Number of terms of the event and its neighbours, each weighted by `RankingWeights.kernel`.
        is_question: Whether it ends in a question mark.
        is_answer: Whether the event just before it does.
        mentions_time: Whether it says when.
        is_named: Whether its author is the one whom the query names.
        age: Seconds after the period that the query names; 0 inside, None before or where none is named.
    """

    window: float
    is_question: bool = False
    is_answer: bool = False
    mentions_time: bool = False
    is_named: bool = False
    age: float | None = None


class RankedEvent(NamedTuple):
    """An event with its score and the reasons for it.

    Attributes:
        position: The index's number of the event.
        score: The sum of the parts; comparable within one search only.
        parts: What each reason added: `words`, `author`, `question`, `answer`, `time`, `period`, `meaning`.
    """

    position: int
    score: float
    parts: Mapping[str, float]


def rank(
    chosen: Mapping[int, Sequence[tuple[int, float]]],
    statistics: CorpusStatistics,
    describe: Callable[[int], Candidate],
    weights: RankingWeights,
    *,
    asks_when: bool = False,
) -> list[RankedEvent]:
    """Rank what `shortlist` chose, the best first; equal scores in order of position.

    Args:
        chosen: By position, the windowed frequency of each group.
        statistics: The scope.
        describe: Tells the rest about a position.
        weights: What counts how much.
        asks_when: Whether the query wants a time as its answer.
    """
    rarity = statistics.weights()
    found = [(position, describe(position)) for position in sorted(chosen)]
    ranked: list[RankedEvent] = []
    for position, candidate in found:
        words = _word_score(chosen[position], candidate.window, rarity, statistics, weights)
        parts = {"words": words, **_hints(candidate, weights, asks_when=asks_when)}
        if candidate.is_named:
            parts["author"] = weights.author * words + weights.author_bonus
        ranked.append(RankedEvent(position, sum(parts.values()), parts))
    ranked.sort(key=lambda event: -event.score)
    return ranked


def rank_by_meaning(
    ranked: Sequence[RankedEvent], nearness: Mapping[int, float], weights: RankingWeights
) -> list[RankedEvent]:
    """Add what events are worth by their meaning, to the score that they have by their words.

    Args:
        ranked: What `rank` returned.
        nearness: By position: how near events are to the query; what is not named gains and loses nothing.
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
        again.append(RankedEvent(event.position, event.score + gain, {**event.parts, "meaning": gain}))
    again.sort(key=lambda event: -event.score)
    return again


def _word_score(
    frequencies: Sequence[tuple[int, float]],
    window: float,
    rarity: Sequence[float],
    statistics: CorpusStatistics,
    weights: RankingWeights,
) -> float:
    """BM25 as a share of what a perfect event would get, times 4, so that hints weigh the same for every query."""
    damping = weights.saturation * (1 - weights.length + weights.length * window / statistics.average_window)
    gained = sum(rarity[group] * count / (count + damping) for group, count in frequencies)
    return 4 * (weights.saturation + 1) * gained / (sum(rarity) or 1.0)


def _hints(candidate: Candidate, weights: RankingWeights, *, asks_when: bool) -> dict[str, float]:
    parts: dict[str, float] = {}
    if candidate.is_question:
        parts["question"] = -weights.question
    if candidate.is_answer:
        parts["answer"] = weights.answer
    if asks_when and candidate.mentions_time:
        parts["time"] = weights.time
    if candidate.age is not None:
        # What happened in May is often told in June: half the gain is left a month later.
        parts["period"] = weights.period * 0.5 ** (candidate.age / _MONTH)
    return parts
