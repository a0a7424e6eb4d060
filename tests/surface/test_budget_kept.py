"""A budget is kept by the default counter on every kind of text, beside what a model's own vocabulary counts."""

from __future__ import annotations

from functools import lru_cache
from statistics import mean

import pytest

from benchmarks.budgets import BUDGET, NAMES, BundledCounter, Kept, corpora, languages, modes, run
from langchain_sessions import ContextUsage
from tests.unit.test_tokens import COUNTS, TEXTS, VOCABULARIES

MOST_OVER, WORST, LEAST_FILL = 0.01, 0.02, 0.85
MOST_DOUBTED = 0.55
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
    assert_kept(run(texts()[kind], 3, exact, factor, counter, name="gpt-4o"))


@pytest.mark.parametrize("factor", [None, 1.0])
def test_a_fraction_of_a_window_is_kept_too(factor: float | None) -> None:
    when = ContextUsage(0.6, context_window=round(BUDGET / 0.6))
    assert_kept(run(texts()["mixture"], 4, vocabulary("o200k_base"), factor, name="gpt-4o", when=when))


@pytest.mark.parametrize("kind", ["Chinese", "JSON"])
@pytest.mark.parametrize("name", OTHERS)
def test_a_model_of_another_vocabulary_tells_it_by_its_reports(name: str, kind: str) -> None:
    assert_kept(run(texts()[kind], 3, vocabulary(name), 1.0))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "o200k_base"])
def test_a_model_is_known_by_its_name_where_it_reports_nothing(name: str) -> None:
    assert_kept(run(texts()["mixture"], 4, vocabulary(name), name=NAMES[name]))


@pytest.mark.parametrize("kind", ["English", "code", "JSON", "Chinese"])
@pytest.mark.parametrize("name", ["cl100k_base", "gemma3"])
def test_and_so_are_its_kinds_of_text(name: str, kind: str) -> None:
    assert_kept(run(texts()[kind], 4, vocabulary(name), name=NAMES[name]))


@pytest.mark.parametrize("factor", [None, 1.0])
@pytest.mark.parametrize("name", [NAMES["llama3"], None])
def test_what_is_kept_is_counted_as_the_prompt_is(name: str | None, factor: float | None) -> None:
    """Bengali takes three and a half times the tokens on Llama 3 that the counter of the service knows of."""
    assert_kept(run(languages()["Bengali"], 3, vocabulary("llama3"), factor, name=name))


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_of_a_model_that_nobody_knows_rather_too_much_is_expected(name: str) -> None:
    """Of Chinese far too much: what the one takes two tokens for, the other takes three or four."""
    kept = run(texts()["Chinese"], 4, vocabulary(name))
    assert not kept.over
    assert mean(kept.fills) >= MOST_DOUBTED


def test_the_bundled_vocabulary_counts_as_the_recorded_one_does() -> None:
    """The recorded counts were made with tiktoken."""
    for name in VOCABULARIES:
        for text, counts in COUNTS.items():
            assert vocabulary(name).count_text((TEXTS / f"{text}.txt").read_text(encoding="utf-8")) == counts[name]
