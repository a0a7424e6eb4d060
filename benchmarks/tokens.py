"""How far the token estimate is from exact counts, and what a count costs.

The texts of `tests/unit/token_texts` were written for this project and took no part in fitting the
weights; their exact counts are recorded beside them, so the first table needs no vocabulary. The
second adds the standard library's sources and generated JSON, and needs one: run it with
`--cache-dir` where tiktoken keeps its files, or after any program downloaded one.
"""

from __future__ import annotations

import argparse
import asyncio.base_events
import email.message
import http.client
import inspect
import json
import logging.handlers
import random
import sys
import timeit
import unittest.mock
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage

from langchain_sessions import EstimatedTokenCounter, TiktokenCounter
from langchain_sessions.errors import VocabularyMissingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from langchain_sessions._tokens.weights import Vocabulary

VOCABULARIES: tuple[Vocabulary, ...] = ("o200k_base", "cl100k_base")
TEXTS = Path(__file__).parents[1] / "tests" / "unit" / "token_texts"
SECONDS_TO_MICROSECONDS = 1e6


def main(argv: Sequence[str] = ()) -> None:
    """Print the error tables and the cost of a count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache-dir", type=Path, help="where tiktoken keeps its downloads")
    cache_dir: Path | None = parser.parse_args(argv).cache_dir
    _print_recorded()
    for vocabulary in VOCABULARIES:
        _print_measured(vocabulary, cache_dir)
    _print_cost()


def _print_recorded() -> None:
    counts: dict[str, dict[str, int]] = json.loads((TEXTS / "counts.json").read_text(encoding="utf-8"))
    for vocabulary in VOCABULARIES:
        texts = {name: (TEXTS / f"{name}.txt").read_text(encoding="utf-8") for name in counts}
        rows = [(name, [text], [counts[name][vocabulary]]) for name, text in texts.items()]
        _print_table(f"own texts, recorded counts of {vocabulary}", vocabulary, rows)


def _print_measured(vocabulary: Vocabulary, cache_dir: Path | None) -> None:
    try:
        exact = TiktokenCounter(vocabulary, cache_dir=cache_dir)
    except VocabularyMissingError:
        print(f"\nskipped: no vocabulary {vocabulary} on this machine (see --cache-dir)")
        return
    generated = {"stdlib sources": _sources(), "generated JSON": [_random_json(seed) for seed in range(300)]}
    rows = [(name, texts, [exact.count_text(text) for text in texts]) for name, texts in generated.items()]
    _print_table(f"larger texts, counted with {vocabulary}", vocabulary, rows)


def _print_table(title: str, vocabulary: Vocabulary, rows: Iterable[tuple[str, list[str], list[int]]]) -> None:
    counter = EstimatedTokenCounter(vocabulary)
    print(f"\n{title}")
    print(f"{'text':16}{'exact':>10}{'estimate':>10}{'error':>9}{'chars/4':>9}{'worst 1':>9}")
    for name, texts, exact in rows:
        total = sum(exact)
        estimates = [counter.count_text(text) for text in texts]
        quarter = sum(map(len, texts)) / 4
        worst = max((guess / true - 1 for guess, true in zip(estimates, exact, strict=True)), key=abs)
        print(
            f"{name:16}{total:10}{sum(estimates):10}{sum(estimates) / total - 1:+9.1%}"
            f"{quarter / total - 1:+9.1%}{worst:+9.1%}"
        )


def _print_cost() -> None:
    text = (TEXTS / "chat.txt").read_text(encoding="utf-8")[:400]
    chinese = (TEXTS / "chinese.txt").read_text(encoding="utf-8")[:400]
    message = HumanMessage(text)
    counter = EstimatedTokenCounter()
    print("\ncost of one estimate (best of 7)")
    for name, call in (
        ("English text, 400 characters", lambda: counter.count_text(text)),
        ("the same as a message", lambda: counter.count_message(message)),
        ("Chinese text, 400 characters", lambda: counter.count_text(chinese)),
    ):
        best = min(timeit.repeat(call, number=5000, repeat=7)) / 5000
        print(f"{name:32}{best * SECONDS_TO_MICROSECONDS:8.1f} µs")


def _sources() -> list[str]:
    # Modules inside packages: some of the top-level ones took part in the fit.
    modules: list[ModuleType] = [asyncio.base_events, email.message, http.client, logging.handlers, unittest.mock]
    return [inspect.getsource(module) for module in modules]


def _random_json(seed: int) -> str:
    rng = random.Random(seed)  # noqa: S311 - reproducible texts, no secrets
    words = ["account", "amount", "archived", "balance", "color", "customer", "draft", "invoice", "label"]

    def value(depth: int) -> object:
        kind = rng.randrange(7 if depth < 3 else 5)
        if kind == 0:
            return rng.randrange(10 ** rng.randint(1, 7))
        if kind == 1:
            return round(rng.random() * 500, 2)
        if kind == 2:
            return rng.choice([True, False, None])
        if kind < 5:
            return " ".join(rng.choices(words, k=rng.randint(1, 6)))
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randint(1, 4))]
        return {f"{rng.choice(words)}_{n}": value(depth + 1) for n in range(rng.randint(1, 5))}

    document = {word: value(0) for word in rng.sample(words, 5)}
    return json.dumps(document, indent=rng.choice([None, 2]))


if __name__ == "__main__":
    main(sys.argv[1:])
