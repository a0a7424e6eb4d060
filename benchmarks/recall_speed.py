"""Measure the speed and the size of recall: `python -m benchmarks.recall_speed [URL] [--events N]`.

One user's sessions among other tenants', messages of about 120 characters with words as frequent as in a language.
Printed: what indexing costs per event and per append, the longest pause, bytes per event, and a page of hits for rare,
common and absent words: CPU of this process, and the clock. Beside it what the database's own full text search takes
for ten ids over the same texts: an FTS5 table (porter), or a stored tsvector with a GIN index. Without a URL: a new
SQLite file, removed afterwards.
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
from sqlalchemy import create_engine, func, select, text

from langchain_sessions import NewEvent, SessionService
from langchain_sessions._sql.tables.schema import build_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        self.said: list[tuple[str, str]] = []
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
    """Append a user's sessions in batches, and note whose texts they are."""
    view = service.as_user(user)
    for number in range(sessions):
        name = f"{user}-{number}"
        view.open(name)
        messages = list(language.messages(events, datetime(2024, 1, 1, tzinfo=timezone.utc)))
        language.said += [
            (user, str(each.message.content)) for each in messages if isinstance(each, NewEvent) and each.message
        ]
        for start in range(0, events, BATCH):
            view.append(name, messages[start : start + BATCH])


def timed(call: Callable[[], object]) -> float:
    """Milliseconds by the clock."""
    started = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - started)


def worked(call: Callable[[], object]) -> float:
    """Milliseconds of CPU of this process: the least of three, since whatever else runs only adds to it."""
    found: list[float] = []
    for _ in range(3):
        started = time.process_time()
        call()
        found.append(1000 * (time.process_time() - started))
    return min(found)


class TheDatabasesOwn:
    """Full text search as the database has it: ten ids of a user, best first, any of the words will do.

    Args:
        url: Which database; for SQLite a table in memory.
        texts: Whose texts, and the texts.
    """

    def __init__(self, url: str, texts: Sequence[tuple[str, str]]) -> None:
        self.is_sqlite = url.startswith("sqlite")
        self._engine = create_engine("sqlite://" if self.is_sqlite else url)
        self._connection = self._engine.connect()
        if self.is_sqlite:
            self._run("CREATE VIRTUAL TABLE said USING fts5(owner UNINDEXED, body, tokenize='porter unicode61')")
        else:
            made = "tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED"
            self._run(f"CREATE TEMPORARY TABLE said (id serial, owner text, body text, words {made})")
        insert = text("INSERT INTO said (owner, body) VALUES (:owner, :body)")
        self._connection.execute(insert, [{"owner": owner, "body": body} for owner, body in texts])
        if not self.is_sqlite:
            self._run("CREATE INDEX said_words ON said USING gin (words)")
            self._run("ANALYZE said")

    def _run(self, statement: str) -> None:
        self._connection.execute(text(statement))

    def page(self, query: str) -> list[int]:
        """The ids of the first page."""
        if self.is_sqlite:
            asked = "SELECT rowid FROM said WHERE said MATCH :query AND owner = 'ada' ORDER BY rank LIMIT 10"
            words = " OR ".join(f'"{word}"' for word in query.split())
        else:
            asked = (
                "SELECT id FROM said, to_tsquery('english', :query) q WHERE words @@ q AND owner = 'ada' "
                "ORDER BY ts_rank(words, q) DESC LIMIT 10"
            )
            words = " | ".join(query.split())
        return [row[0] for row in self._connection.execute(text(asked), {"query": words})]

    def close(self) -> None:
        """Forget it."""
        self._connection.close()
        self._engine.dispose()


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
        own = TheDatabasesOwn(url, language.said)
        for label, asked in queries(language, rounds).items():
            ada.search(asked[0])
            times = [timed(lambda query=query: ada.search(query)) for query in asked]  # type: ignore[misc]
            cpu = [worked(lambda query=query: ada.search(query)) for query in asked[:8]]  # type: ignore[misc]
            beside = [timed(lambda query=query: own.page(query)) for query in asked]  # type: ignore[misc]
            print(f"{label:28} CPU {statistics.median(cpu):6.2f} ms   {percentiles(times)}", end="")
            print(f"   the database's own {percentiles(beside)}", flush=True)
        own.close()


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
