"""Measure the speed and the size of recall: `python -m benchmarks.recall_speed [URL] [--events N]`.

One user's sessions among other tenants', messages of about 120 characters with words as frequent as in a language.
Printed: what indexing costs per event and per append, the longest pause, bytes per event, and a page of hits for rare,
common and absent words. Without a URL: a new SQLite file, removed afterwards.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import create_engine, func, select

from langchain_sessions import NewEvent, SessionService
from langchain_sessions._sql.tables.schema import build_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.messages import BaseMessage

WORDS = 20_000
LENGTH = 120
BATCH = 500
FUNCTION_WORDS = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "you",
    "that",
    "he",
    "was",
    "for",
    "on",
    "are",
    "with",
    "as",
    "his",
    "they",
    "at",
    "be",
    "this",
    "have",
    "from",
]
SYLLABLES = [c + v for c in "bcdfghjklmnprstvwz" for v in ("a", "e", "i", "o", "u", "ai", "on", "er")]


class Language:
    """Makes messages; the nth word is as frequent as the nth word of a language."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible text
        words: dict[str, None] = {}
        while len(words) < WORDS:
            words["".join(self.random.choices(SYLLABLES, k=self.random.choice((2, 2, 3, 3, 4))))] = None
        self.words = list(words)
        self.weights: list[float] = []
        total = 0.0
        for rank in range(1, WORDS + 1):
            total += 1 / (rank + 8)
            self.weights.append(total)

    def message(self) -> str:
        """A message of about `LENGTH` characters."""
        picked = self.random.choices(self.words, cum_weights=self.weights, k=LENGTH // 10)
        picked = [word for each in picked for word in (self.random.choice(FUNCTION_WORDS), each)]
        return " ".join(picked)[:LENGTH].rsplit(" ", 1)[0] + self.random.choice((".", ".", "?"))

    def messages(self, count: int, day: datetime) -> Iterator[BaseMessage | NewEvent]:
        """Questions and answers, a day every 40."""
        for number in range(count):
            kind = AIMessage if number % 2 else HumanMessage
            yield NewEvent(message=kind(self.message()), timestamp=day + timedelta(days=number // 40))


def fill(service: SessionService, language: Language, user: str, sessions: int, events: int) -> None:
    """Append a user's sessions in batches."""
    view = service.as_user(user)
    for number in range(sessions):
        name = f"{user}-{number}"
        view.open(name)
        messages = list(language.messages(events, datetime(2024, 1, 1, tzinfo=timezone.utc)))
        for start in range(0, events, BATCH):
            view.append(name, messages[start : start + BATCH])


def timed(call: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - started)


def percentiles(times: list[float]) -> str:
    """The median and the 95th percentile."""
    ordered = sorted(times)
    return f"p50 {statistics.median(ordered):7.2f} ms   p95 {ordered[int(0.95 * (len(ordered) - 1))]:7.2f} ms"


def queries(language: Language, rounds: int) -> dict[str, list[str]]:
    """Queries by how common their words are."""
    words, pick = language.words, language.random.sample
    return {
        "one rare word": [pick(words[5000:], 1)[0] for _ in range(rounds)],
        "three rare words": [" ".join(pick(words[2000:], 3)) for _ in range(rounds)],
        "a common and two rare": [" ".join((*pick(words[:20], 1), *pick(words[2000:], 2))) for _ in range(rounds)],
        "one common word": [pick(words[:20], 1)[0] for _ in range(rounds)],
        "four common words": [" ".join(pick(words[:50], 4)) for _ in range(rounds)],
        "absent words": [f"qq{number}x yy{number}" for number in range(rounds)],
        "a question of eight words": [
            " ".join((*pick(words[:100], 4), *pick(words[100:5000], 4))) for _ in range(rounds)
        ],
    }


def measure_appends(service: SessionService, count: int) -> list[float]:
    """Milliseconds of single appends."""
    language = Language(5)
    view = service.as_user("grace")
    view.open("appends")
    return [timed(lambda: view.append("appends", HumanMessage(language.message()))) for _ in range(count)]


def index_bytes(url: str) -> int:
    """What the index takes, without the overhead of pages."""
    tables = build_tables().recall
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(
            select(func.sum(func.length(tables.terms.c.data)) + func.count() * 16).select_from(tables.terms)
        ).scalar_one()
    engine.dispose()
    return int(found or 0)


def run(url: str, events: int, rounds: int, sessions: int) -> None:
    """Fill, measure, print."""
    language = Language(1)
    with SessionService(url, create_schema=True, search=False, synchronous="NORMAL") as plain:
        started = time.perf_counter()
        for tenant in range(10):
            fill(plain, language, f"tenant{tenant}", 2, events // 100)
        fill(plain, language, "ada", sessions, events // sessions)
        appended = time.perf_counter() - started
        without = measure_appends(plain, 2000)
    with SessionService(url, synchronous="NORMAL") as service:
        started = time.perf_counter()
        indexed = service.reindex()
        seconds = time.perf_counter() - started
        print(f"appended {1.2 * events:.0f} events in {appended:.1f} s; indexed {indexed} in {seconds:.1f} s: ", end="")
        print(f"{1e6 * seconds / indexed:.0f} µs per event, {index_bytes(url) / indexed:.0f} bytes per event")
        with_index = measure_appends(service, 2000)
        print(f"append without an index  {percentiles(without)}   longest {max(without):.1f} ms")
        print(f"append with an index     {percentiles(with_index)}   longest {max(with_index):.1f} ms")
        ada = service.as_user("ada")
        for label, texts in queries(language, rounds).items():
            ada.search(texts[0])
            times = [timed(lambda text=text: ada.search(text)) for text in texts]  # type: ignore[misc]
            print(f"{label:28} {percentiles(times)}")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=20, help="how many sessions the events of the user lie in")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print(f"{options.events} events of one user in {options.sessions} sessions, and a fifth as many of others")
    if options.url:
        run(options.url, options.events, options.rounds, options.sessions)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(f"sqlite:///{Path(folder) / 'recall.db'}", options.events, options.rounds, options.sessions)


if __name__ == "__main__":
    main()
