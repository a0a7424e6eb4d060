"""How well engines answer: the same figures for all of them, means over questions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.recall_engines import TOP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.recall_engines import Engine
    from benchmarks.recall_sets import Conversation, Question, QuestionSet

DEPTHS: Final = (1, 5, 10, 20)
JUDGED: Final = 10


@dataclass(frozen=True)
class Outcome:
    """How one question went: which of the places that were answered hold evidence, of how much."""

    conversation: str
    category: str
    hits: tuple[bool, ...]
    evidence: int
    is_span: bool = False

    def share(self, depth: int) -> float:
        """Of the evidence, what the first `depth` hold; of these, what lies in it where evidence is a long span."""
        return sum(self.hits[:depth]) / (depth if self.is_span else self.evidence)

    @property
    def ndcg(self) -> float:
        """nDCG@10."""
        gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(self.hits[:JUDGED]) if hit)
        return gain / sum(1 / math.log2(place + 2) for place in range(min(JUDGED, self.evidence)))


def measure(questions: QuestionSet, build: Callable[[Conversation], Engine]) -> list[Outcome]:
    """Tell every conversation to an engine of its own, and ask each question as of its time."""
    outcomes: list[Outcome] = []
    for conversation in questions.conversations:
        engine = build(conversation)
        told = 0
        for question in sorted(conversation.questions, key=lambda each: each.as_of):
            for said in conversation.said[told : question.as_of]:
                engine.add(said)
            told = max(told, question.as_of)
            outcomes.append(outcome(questions, conversation, question, engine.ask(question.text)))
    return outcomes


def outcome(questions: QuestionSet, conversation: Conversation, question: Question, found: Sequence[int]) -> Outcome:
    """How a question went that was answered with some places, the best first."""
    hits = tuple(number in question.evidence for number in found[:TOP])
    return Outcome(conversation.name, question.category, hits, len(question.evidence), questions.is_span)


def mean(values: Iterable[float]) -> float:
    """Mean in percent; 0 of nothing."""
    found = list(values)
    return 100 * sum(found) / len(found) if found else 0.0


def goodness(outcomes: Sequence[Outcome]) -> float:
    """What settings are chosen by."""
    return (mean(each.share(JUDGED) for each in outcomes) + mean(each.ndcg for each in outcomes)) / 2


def header(questions: QuestionSet) -> str:
    """The head of a table."""
    name = "share of the first … in the evidence" if questions.is_span else "recall"
    depths = "".join(f"{f'@{depth}':>8}" for depth in DEPTHS)
    told = f"{questions.name}: {len(questions.conversations)} conversations, {questions.questions} questions; {name}"
    return f"\n{told}\n{'':44}{depths}{'nDCG@10':>10}"


def line(label: str, outcomes: Sequence[Outcome]) -> str:
    """One line of it."""
    shares = "".join(f"{mean(each.share(depth) for each in outcomes):8.1f}" for depth in DEPTHS)
    return f"{label:44}{shares}{mean(each.ndcg for each in outcomes):10.1f}"
