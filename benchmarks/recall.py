"""Measure recall on the LoCoMo development conversations: `make bench-recall`.

Questions of categories 1 to 4 are asked as they stand, over all sessions of the pair. No model, no tuning per run.
The data (CC BY-NC) is read from `../shared/data` beside the project and is no part of it.

URLs of databases as arguments are measured too, through the service: `python -m benchmarks.recall sqlite:///r.db`.
`--large` adds what choosing candidates loses among 100 000 events.

Papers differ in what they call recall@10, so three means are printed, each as recall and nDCG where it has one:

- over questions: the share of a question's evidence among its ten, meaned over all questions. The ladder of the design
  (60, 63, 67, 75, 78, 80) is this mean: its first step, BM25 over stems, is 60 here too.
- over categories: the same share, meaned over the questions of each of the four categories, then over the categories.
- any evidence: whether any of a question's evidence is among its ten, meaned over categories like the second.
"""

from __future__ import annotations

import json
import math
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import NewEvent, SearchSettings, SessionService
from langchain_sessions._recall.index.postings import EntryMaker, Segment, search_segments
from langchain_sessions._recall.rank.ranking import RankingWeights
from langchain_sessions._recall.text.documents import Document, make_document
from langchain_sessions._recall.text.grammar import literal_key, parse_query
from langchain_sessions._recall.text.terms import TermMaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.embeddings import Embeddings

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo-dev.json"
CATEGORIES = (1, 2, 3, 4)
TOP = 10
TARGETS = {"recall@10": 81.0, "nDCG@10": 66.0, "leave-one-out": 79.0}


@dataclass
class Question:
    """One question and the events that answer it."""

    text: str
    category: int
    evidence: frozenset[int]


@dataclass
class Conversation:
    """One pair's sessions, as documents by session, and the questions about them."""

    name: str
    sessions: list[list[Document]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


Similarities = Callable[[Conversation], Callable[[str], Callable[[int], "float | None"]]]
"""For a conversation and a query: how near the event of each number is."""


@dataclass(frozen=True)
class Outcome:
    """How one question went."""

    conversation: str
    category: int
    recall: float
    ndcg: float
    any_found: float


def load(path: Path) -> list[Conversation]:
    """Read the data file: one speaker becomes the human, the other the assistant, both with their names."""
    return [_conversation(raw) for raw in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(raw: dict[str, Any]) -> Conversation:
    talk = raw["conversation"]
    conversation = Conversation(name=raw["sample_id"])
    numbers: dict[str, int] = {}
    for key in sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:])):
        when = datetime.strptime(talk[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc)
        documents = []
        for turn in talk[key]:
            kind = HumanMessage if turn["speaker"] == talk["speaker_a"] else AIMessage
            numbers[turn["dia_id"]] = len(numbers)
            documents.append(make_document(kind(_content(turn), name=turn["speaker"]), author=None, timestamp=when))
        conversation.sessions.append(documents)
    for item in raw["qa"]:
        named = re.findall(r"D(\d+):(\d+)", " ".join(item["evidence"]))
        evidence = frozenset(numbers[key] for key in (f"D{int(a)}:{int(b)}" for a, b in named) if key in numbers)
        if item["category"] in CATEGORIES and evidence:
            conversation.questions.append(Question(item["question"], item["category"], evidence))
    return conversation


def _content(turn: dict[str, Any]) -> str:
    return str(turn["text"])


def measure(conversations: Iterable[Conversation], build: Callable[[Conversation], Any]) -> list[Outcome]:
    """Ask every question of every conversation."""
    outcomes = []
    for conversation in conversations:
        answer = build(conversation)
        for question in conversation.questions:
            hits = [place in question.evidence for place in answer(question.text)[:TOP]]
            gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(hits) if hit)
            ideal = sum(1 / math.log2(place + 2) for place in range(min(TOP, len(question.evidence))))
            outcomes.append(
                Outcome(
                    conversation.name,
                    question.category,
                    sum(hits) / len(question.evidence),
                    gain / ideal,
                    float(any(hits)),
                )
            )
    return outcomes


def substring_search(conversation: Conversation) -> Callable[[str], list[int]]:
    """Find by the whole query as a substring, oldest first: what the seeds do."""
    texts = [literal_key(document.text) for session in conversation.sessions for document in session]
    return lambda query: [place for place, text in enumerate(texts) if literal_key(query) in text]


def ranked_search(
    weights: RankingWeights,
    maker: TermMaker,
    *,
    with_date: bool = True,
    with_author: bool = True,
    cosines: Similarities | None = None,
) -> Callable[[Conversation], Callable[[str], list[int]]]:
    """Find by the library's ranking, with or without its parts."""
    entries = EntryMaker(maker)

    def build(conversation: Conversation) -> Callable[[str], list[int]]:
        segments, starts, end = [], [], 0
        for session in conversation.sessions:
            segment = Segment()
            for document in session:
                known = document if with_author else replace(document, author=None)
                entry = entries.entry(known)
                segment.add(entry if with_date else replace(entry, counts=Counter(maker.terms(document.text))))
            segments.append(segment)
            starts.append(end)
            end += len(session)
        near = None if cosines is None else cosines(conversation)

        def answer(query: str) -> list[int]:
            of = None if near is None else near(query)
            cosine = None if of is None else lambda segment, index: of(starts[segment] + index)
            found = search_segments(segments, parse_query(query, maker), maker, weights=weights, cosine=cosine)
            return [starts[each.segment] + each.index for each in found[:TOP]]

        return answer

    return build


def mean(values: Iterable[float]) -> float:
    """Mean in percent; 0 of nothing."""
    found = list(values)
    return 100 * sum(found) / len(found) if found else 0.0


def by_category(outcomes: Sequence[Outcome], value: Callable[[Outcome], float]) -> float:
    """Mean over categories of the mean over questions."""
    groups: dict[int, list[float]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.category].append(value(outcome))
    return sum(map(mean, groups.values())) / max(1, len(groups))


def service_search(url: str, embed: Embeddings | None = None) -> Callable[[Conversation], Callable[[str], list[int]]]:
    """Find through a service on a database, every conversation a user's: what an application gets."""

    def build(conversation: Conversation) -> Callable[[str], list[int]]:
        settings = SearchSettings(embed=embed, embed_timeout=60)
        service = SessionService(url, create_schema=True, table_prefix="bench_recall_", search=settings)
        service.delete_user(conversation.name)
        ada = service.as_user(conversation.name)
        numbers: dict[tuple[str, int], int] = {}
        for number, session in enumerate(conversation.sessions):
            name = f"{conversation.name}-{number}"
            ada.open(name)
            events = [
                NewEvent(message=HumanMessage(said.text), author=said.author, timestamp=said.timestamp)
                for said in session
            ]
            for event in ada.append(name, events):
                numbers[name, event.seq] = len(numbers)
        if embed is not None:
            ada.embed_pending()
        return lambda query: [
            numbers[hit.event.session_id, hit.event.seq] for hit in ada.search(query, limit=TOP, neighbours=0)
        ]

    return build


def _told(targets: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in targets.items())


HEADER = f"{'':44}{'over questions':>18}{'over categories':>20}{'any evidence':>14}{'by category 1 2 3 4':>28}"


def row(label: str, outcomes: Sequence[Outcome]) -> str:
    """Format one line of the table: recall@10 and nDCG@10, meaned in each way."""
    per_category = "  ".join(f"{mean(o.recall for o in outcomes if o.category == c):5.1f}" for c in CATEGORIES)
    return (
        f"{label:44}{mean(o.recall for o in outcomes):9.1f}{mean(o.ndcg for o in outcomes):9.1f}"
        f"{by_category(outcomes, lambda o: o.recall):11.1f}{by_category(outcomes, lambda o: o.ndcg):9.1f}"
        f"{by_category(outcomes, lambda o: o.any_found):14.1f}  {per_category:>26}"
    )


PLAIN = RankingWeights(
    length=0.4, reach=0, author=0.0, author_bonus=0.0, question=0.0, answer=0.0, time=0.0, period=0.0
)  # fmt: skip


def ablation(conversations: Sequence[Conversation], maker: TermMaker) -> list[Outcome]:
    """Print the table, part by part, and return the outcomes of the whole."""
    full = RankingWeights()
    named = replace(PLAIN, author=full.author, author_bonus=full.author_bonus)
    near = replace(named, reach=full.reach, length=full.length)
    steps: list[tuple[str, Callable[[Conversation], Any]]] = [
        ("whole query as a substring", substring_search),
        ("BM25 over stems", ranked_search(PLAIN, maker, with_date=False, with_author=False)),
        ("+ date in the indexed text", ranked_search(PLAIN, maker, with_author=False)),
        ("+ author as a field", ranked_search(named, maker)),
        ("+ neighbours inside the saturation", ranked_search(near, maker)),
        ("+ questions and answers", ranked_search(replace(near, question=full.question, answer=full.answer), maker)),
        ("+ time words, period named (all defaults)", ranked_search(full, maker)),
    ]
    outcomes: list[Outcome] = []
    print(HEADER)
    for label, build in steps:
        outcomes = measure(conversations, build)
        print(row(label, outcomes), flush=True)
    return outcomes


GRID: dict[str, tuple[float, ...]] = {
    "saturation": (0.6, 0.8, 1.0),
    "length": (0.3, 0.45, 0.6),
    "before": (0.4, 0.6),
    "after": (0.3, 0.4),
    "fading": (0.6, 0.7),
    "author": (0.15, 0.25, 0.35),
    "question": (0.1, 0.2),
    "time": (0.5, 0.8),
}


TEXTBOOK = RankingWeights(
    saturation=1.2,
    length=0.75,
    before=0.5,
    after=0.5,
    fading=0.5,
    author=0.0,
    author_bonus=0.5,
    question=0.3,
    answer=0.3,
    time=0.3,
)


def leave_one_out(
    conversations: Sequence[Conversation],
    maker: TermMaker,
    grid: dict[str, tuple[float, ...]] = GRID,
    cosines: Similarities | None = None,
) -> list[Outcome]:
    """Choose weights on all conversations but one, measure on that one, for each in turn.

    One pass over the grid, a weight at a time: what the defaults would have been without having seen the conversation.
    """
    tried: dict[RankingWeights, list[Outcome]] = {}

    def outcomes_of(weights: RankingWeights) -> list[Outcome]:
        if weights not in tried:
            tried[weights] = measure(conversations, ranked_search(weights, maker, cosines=cosines))
        return tried[weights]

    result: list[Outcome] = []
    for left_out in conversations:
        # Textbook weights to begin with: the defaults have seen the conversation that is left out.
        best, reached = TEXTBOOK, -1.0
        for name, values in grid.items():
            for value in values:
                weights = replace(best, **{name: value})  # type: ignore[arg-type]
                others = [o for o in outcomes_of(weights) if o.conversation != left_out.name]
                goodness = mean(o.recall for o in others) + mean(o.ndcg for o in others)
                if goodness > reached:
                    best, reached = weights, goodness
        result.extend(o for o in outcomes_of(best) if o.conversation == left_out.name)
    return result


def _noise(conversations: Sequence[Conversation], maker: TermMaker, events: int) -> list[Segment]:
    """Other conversations of the same user: the same words as often, in any order, said by others."""
    chance = random.Random(5)  # noqa: S311 - reproducible
    said = [
        document.text.split() for conversation in conversations for talk in conversation.sessions for document in talk
    ]
    words = [word for text in said for word in text]
    entries = EntryMaker(maker)
    noise: list[Segment] = []
    for _ in range(events // 500):
        segment = Segment()
        when = datetime(2023, 1, 1, tzinfo=timezone.utc) + timedelta(days=chance.randrange(400))
        for author in ("Ursula", "Viktor") * 250:
            text = " ".join(chance.choices(words, k=len(chance.choice(said))))
            segment.add(
                entries.entry(Document(text=text, author=author, timestamp=when, is_question=text.endswith("?")))
            )
        noise.append(segment)
    return noise


def candidate_loss(conversations: Sequence[Conversation], maker: TermMaker, events: int = 100_000) -> None:
    """Print what ranking only some candidates in full loses among many events, for a sample of the questions."""
    noise = _noise(conversations, maker, events)
    half = len(noise) // 2
    chance = random.Random(5)  # noqa: S311 - reproducible
    sample = [replace(each, questions=chance.sample(each.questions, 30)) for each in conversations]
    entries = EntryMaker(maker)

    def among(candidates: int) -> Callable[[Conversation], Callable[[str], list[int]]]:
        def build(conversation: Conversation) -> Callable[[str], list[int]]:
            segments, starts, end = [], [], 0
            for session in conversation.sessions:
                segment = Segment()
                for document in session:
                    segment.add(entries.entry(document))
                segments.append(segment)
                starts.append(end)
                end += len(session)
            scope = [*noise[:half], *segments, *noise[half:]]

            def search(query: str) -> list[int]:
                options: dict[str, Any] = {"weights": RankingWeights(), "candidates": candidates}
                found = search_segments(scope, parse_query(query, maker), maker, **options)[:TOP]
                own = [(each.segment - half, each.index) for each in found]
                return [starts[number] + index if 0 <= number < len(starts) else -1 for number, index in own]

            return search

        return build

    for candidates in (SearchSettings().candidates, 8000):
        label = f"among {events} events, {candidates} ranked in full"
        print(row(label, measure(sample, among(candidates))), flush=True)


def main() -> int:
    """Print the ablation table and the leave-one-out result."""
    if not DATA.exists():
        print("bench-recall: skipped, ../shared/data/locomo-dev.json is not there")
        return 0
    started = time.perf_counter()
    conversations = load(DATA)
    maker = TermMaker()
    print(
        f"{len(conversations)} conversations, {sum(len(s) for c in conversations for s in c.sessions)} events, "
        f"{sum(len(c.questions) for c in conversations)} questions; recall@10 and nDCG@10\n"
    )
    full = ablation(conversations, maker)
    print()
    for conversation in conversations:
        print(row(f"  {conversation.name}", [o for o in full if o.conversation == conversation.name]))
    if "--quick" not in sys.argv:
        print(row("leave one conversation out", leave_one_out(conversations, maker)))
    if "--large" in sys.argv:
        candidate_loss(conversations, maker)
    urls = [argument for argument in sys.argv[1:] if "://" in argument]
    for url in urls:
        print(row(f"through the service on {url.partition(':')[0]}", measure(conversations, service_search(url))))
    if "--embed" in sys.argv:
        from benchmarks.recall_meaning import report  # noqa: PLC0415 - needs numpy

        report(conversations, maker, quick="--quick" in sys.argv, urls=urls)
    print(f"\ngoals (the means over questions reach them, those over categories do not): {_told(TARGETS)}")
    print(f"{time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
