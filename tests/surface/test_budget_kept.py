"""A budget is kept by the default counter on every kind of text, beside what a model's own vocabulary counts."""

from __future__ import annotations

from functools import lru_cache
from statistics import mean

import pytest

from benchmarks.budgets import BundledCounter, Kept, corpora, modes, run
from tests.unit.test_tokens import COUNTS, TEXTS, VOCABULARIES

MOST_OVER, WORST, LEAST_FILL = 0.01, 0.02, 0.85
KINDS = ("English", "code", "JSON", "Chinese", "mixture")
OTHERS = ("cl100k_base", "mistral_v3", "deepseek_v3")


@lru_cache
def vocabulary(name: str) -> BundledCounter:
    return BundledCounter(name)


@lru_cache
def texts() -> dict[str, list[str]]:
    return corpora()


def assert_kept(*runs: Kept) -> None:
    prompts = [tokens for kept in runs for tokens in kept.prompts]
    over = [part for kept in runs for part in kept.over]
    assert len(over) <= MOST_OVER * len(prompts)
    assert max(over, default=0) <= WORST
    assert mean(fill for kept in runs for fill in kept.fills) >= LEAST_FILL


@pytest.mark.parametrize("mode", ["no reports", "reports", "reports x 1.3", "exact"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_is_kept(kind: str, mode: str) -> None:
    exact = vocabulary("o200k_base")
    factor, counter = modes(exact)[mode]
    assert_kept(*(run(texts()[kind], seed, exact, factor, counter) for seed in (3, 4)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OTHERS)
def test_a_model_of_another_vocabulary_tells_it_by_its_reports(name: str, kind: str) -> None:
    assert_kept(run(texts()[kind], 3, vocabulary(name), 1.0))


def test_the_bundled_vocabulary_counts_as_the_recorded_one_does() -> None:
    """The recorded counts were made with tiktoken."""
    for name in VOCABULARIES:
        for text, counts in COUNTS.items():
            assert vocabulary(name).count_text((TEXTS / f"{text}.txt").read_text(encoding="utf-8")) == counts[name]
