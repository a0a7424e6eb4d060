"""The semantic part of recall on the same questions: `python -m benchmarks.recall --embed minilm`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from benchmarks import minilm
from benchmarks.recall_engines import Meaning
from benchmarks.recall_scores import goodness, line, measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.recall_engines import Ours
    from benchmarks.recall_scores import Outcome
    from benchmarks.recall_sets import QuestionSet

WORTHS: Final = (0.0, 0.5, 1.0, 1.5)


def report(sets: Sequence[QuestionSet], ours: Ours) -> None:
    """Print what meaning adds, for several weights, and with the weight chosen on the other conversations."""
    if minilm.find_model() is None:
        print(f"\n--embed minilm: skipped, {minilm.MISSING}")
        return
    meaning = Meaning(minilm.MiniLM())
    for questions in sets:
        print(f"\n{questions.name} with all-MiniLM-L6-v2")
        outcomes: dict[float, list[Outcome]] = {}
        for worth in WORTHS:
            told = replace(ours, weights=replace(ours.weights, meaning=worth), meaning=meaning if worth else None)
            outcomes[worth] = measure(questions, told)
            mark = ", the default" if worth == ours.weights.meaning else ""
            print(line(f"words + {worth:g} · meaning{mark}", outcomes[worth]), flush=True)
        print(line("this weight chosen on the other conversations", _leave_one_out(questions, outcomes)), flush=True)


def _leave_one_out(questions: QuestionSet, outcomes: dict[float, list[Outcome]]) -> list[Outcome]:
    result: list[Outcome] = []
    for left_out in questions.conversations:

        def worth_of(worth: float, name: str = left_out.name) -> float:
            return goodness([each for each in outcomes[worth] if each.conversation != name])

        best = max(outcomes, key=worth_of)
        result.extend(each for each in outcomes[best] if each.conversation == left_out.name)
    return result
