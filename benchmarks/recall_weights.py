"""What each weight brings, and what weights bring that were chosen without the conversation that is measured."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from benchmarks.recall_scores import goodness, line, measure
from langchain_sessions._recall.rank.ranking import RankingWeights

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from benchmarks.recall_engines import Ours
    from benchmarks.recall_scores import Outcome
    from benchmarks.recall_sets import QuestionSet

OFF: Final[dict[str, float]] = {"length": 0.4, "neighbour": 255}
"""What a weight is without its idea, where that is not 0."""

GRID: Final[dict[str, tuple[float, ...]]] = {
    "saturation": (0.6, 0.8, 1.0),
    "length": (0.75, 0.9, 1.0),
    "before": (0.4, 0.6),
    "after": (0.3, 0.4),
    "fading": (0.5, 0.65),
    "author": (0.15, 0.25, 0.35),
    "author_bonus": (0.0, 0.5),
    "neighbour": (15, 30, 60),
    "shortest": (0, 14),
    "session": (0.0, 0.4),
}

TEXTBOOK: Final = RankingWeights(
    saturation=1.2,
    length=0.75,
    before=0.5,
    after=0.5,
    fading=0.5,
    author=0.0,
    author_bonus=0.5,
    shortest=0,
    session=0.0,
)
"""Where choosing begins: the defaults have seen what is left out."""


def report(sets: Sequence[QuestionSet], ours: Ours, options: Namespace) -> None:
    """Print what was asked for."""
    for questions in sets:
        print(f"\n{questions.name}")
        whole = measure(questions, ours)
        print(line("all weights", whole), flush=True)
        if options.ablation:
            ablation(questions, ours, whole)
        if options.leave_one_out:
            print(line("chosen without the conversation measured", leave_one_out(questions, ours)), flush=True)


def ablation(questions: QuestionSet, ours: Ours, whole: Sequence[Outcome]) -> None:
    """Print what the set loses without each weight."""
    for each in fields(RankingWeights):
        if each.name == "meaning":
            continue
        kind = type(getattr(ours.weights, each.name))
        without = replace(ours.weights, **{each.name: kind(OFF.get(each.name, 0))})
        outcomes = measure(questions, replace(ours, weights=without))
        lost = goodness(whole) - goodness(outcomes)
        print(f"{line(f'  without {each.name}', outcomes)}{lost:+8.2f}", flush=True)
    print(line("  without knowing who speaks", measure(questions, replace(ours, with_author=False))), flush=True)


def leave_one_out(questions: QuestionSet, ours: Ours) -> list[Outcome]:
    """Choose weights on all conversations but one, measure on that one, for each in turn; a weight at a time."""
    tried: dict[RankingWeights, list[Outcome]] = {}

    def outcomes_of(weights: RankingWeights) -> list[Outcome]:
        if weights not in tried:
            tried[weights] = measure(questions, replace(ours, weights=weights))
        return tried[weights]

    result: list[Outcome] = []
    for left_out in questions.conversations:
        best, reached = TEXTBOOK, -1.0
        for name, values in GRID.items():
            for value in values:
                weights = replace(best, **{name: value})  # type: ignore[arg-type]
                others = [each for each in outcomes_of(weights) if each.conversation != left_out.name]
                if goodness(others) > reached:
                    best, reached = weights, goodness(others)
        result.extend(each for each in outcomes_of(best) if each.conversation == left_out.name)
    return result
