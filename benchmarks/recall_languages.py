"""Whether a question finds the sentence that answers it, in ten languages: `python -m benchmarks.recall_languages`.

Each language has a log, and no question is worded as its sentence is. What counts is the first place, beside a bare
FTS5 table: five points more, or 95. 1 where a language has less.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from langchain_core.messages import HumanMessage

from benchmarks.recall_engines import Entries, Fts5, Ours
from benchmarks.recall_scores import mean, measure
from benchmarks.recall_sets import Conversation, Question, QuestionSet, Said
from langchain_sessions._recall.rank.ranking import RankingWeights
from langchain_sessions._recall.text.terms import TermMaker

if TYPE_CHECKING:
    from benchmarks.recall_scores import Outcome

TEXT: Final = Path(__file__).with_name("languages.txt")
_AT: Final = datetime(2024, 1, 8, 9, tzinfo=timezone.utc)
_AHEAD: Final = 5.0
_ENOUGH: Final = 95.0


def sentences() -> QuestionSet:
    """A log for each language."""
    logs: list[Conversation] = []
    for each in TEXT.read_text(encoding="utf-8").splitlines():
        if each.startswith("# "):
            logs.append(Conversation(each[2:]))
            continue
        said, _, asked = each.partition(" | ")
        logs[-1].questions.append(Question(asked, frozenset([len(logs[-1].said)]), 0))
        logs[-1].said.append(Said(HumanMessage(said), 0, _AT))
    for log in logs:
        log.questions = [replace(each, as_of=len(log.said)) for each in log.questions]
    return QuestionSet("Ten languages", logs)


def shares(outcomes: list[Outcome]) -> dict[str, float]:
    """How many questions of each language have their sentence in the first place, in percent."""
    languages = dict.fromkeys(each.conversation for each in outcomes)
    return {name: mean(each.share(1) for each in outcomes if each.conversation == name) for name in languages}


def report() -> list[str]:
    """Print the table; the languages in which too little is found."""
    maker = TermMaker()
    asked = sentences()
    ours = shares(measure(asked, Ours(Entries(maker), maker, RankingWeights())))
    floor = shares(measure(asked, lambda _: Fts5()))
    print(f"\n{asked.name}: {asked.questions} questions, the right sentence first\n{'':16}{'FTS5':>8}{'ours':>8}")
    for name, share in ours.items():
        print(f"{name:16}{floor[name]:8.1f}{share:8.1f}")
    return [name for name, share in ours.items() if share < min(_ENOUGH, floor[name] + _AHEAD)]


if __name__ == "__main__":
    low = report()
    print("", *(f"{name}: below FTS5 + {_AHEAD:g} and below {_ENOUGH:g}" for name in low), sep="\n")
    sys.exit(1 if low else 0)
