"""The token estimate of a long text that is edited: what it was before, by what changed."""

from __future__ import annotations

import copy
import pickle
from random import Random

import pytest

from benchmarks.token_weights import CHECKED, written
from langchain_sessions import EstimatedTokenCounter
from langchain_sessions._tokens import estimate, long_texts

PLAIN = " ".join(text for texts in written(CHECKED).values() for text in texts if text.isascii())
ALL = " ".join(text for texts in written(CHECKED).values() for text in texts)
ODD = [
    "the ",
    " the",
    " the the ",
    "....",
    " . ",
    "\n    ",
    "0000",
    "aB3cD4",
    " ",
    "日本語",
    "ß ",
    "AAAA",
    "12,345.6",
    "😀",
    "é",
]


def edited(text: str, draw: Random, source: str) -> str:
    start, at = draw.randrange(len(text) + 1), draw.randrange(len(source))
    new = draw.choice(("", "".join(draw.choices(ODD, k=4)), source[at : at + draw.choice((30, 900))]))
    if draw.random() < 0.3:
        start = len(text)
    return text[:start] + new + text[start + draw.choice((0, 1, 400)) :]


@pytest.mark.parametrize("source", [PLAIN, ALL, "".join(ODD * 200)])
@pytest.mark.parametrize("vocabulary", ["o200k_base", "claude"])
def test_an_edited_text_counts_as_if_nobody_had_seen_it_before(vocabulary: str, source: str) -> None:
    draw = Random(7)  # noqa: S311 - no secret
    kept = EstimatedTokenCounter(vocabulary)  # type: ignore[arg-type]
    for size in (long_texts.LONG - 200, 9_000, 40_000):
        text = (source * (size // len(source) + 1))[:size]
        for _ in range(25):
            assert kept.count_text(text) == EstimatedTokenCounter(vocabulary).count_text(text)  # type: ignore[arg-type]
            text = edited(text, draw, source)


def test_an_edit_reads_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    count = estimate._measured

    def measured(part: str, *, is_first: bool) -> long_texts.Measure:
        read.append(len(part))
        return count(part, is_first=is_first)

    monkeypatch.setattr(estimate, "_measured", measured)
    counter, text = EstimatedTokenCounter(), (PLAIN * 20)[:200_000]
    for number in range(20):
        counter.count_text(text)
        text = text[: 5_000 * number] + " a few words more" + text[5_000 * number :]
    assert sum(read) < 202_000


def test_no_text_travels_with_a_counter() -> None:
    counter = EstimatedTokenCounter()
    counter.count_text("a secret " * 1_000)
    assert b"secret" not in pickle.dumps(counter)
    assert copy.deepcopy(counter).count_text("a secret " * 1_000) == counter.count_text("a secret " * 1_000)


def test_blanks_are_those_of_the_whole() -> None:
    """Tabs are blanks of the classes, and no blanks where it is asked whether a text is English."""
    text = "und\tder\tdie\tist\tnicht\tein\tauch\t" * 150 + " the ball" * 3 + "\nHund\t"
    counter = EstimatedTokenCounter()
    counter.count_text(text)
    assert counter.count_text(text + "x") == EstimatedTokenCounter().count_text(text + "x")


def test_a_pickle_of_before_texts_were_remembered_counts_them() -> None:
    counter = EstimatedTokenCounter.__new__(EstimatedTokenCounter)
    state = {name: value for name, value in vars(EstimatedTokenCounter()).items() if name != "_long"}
    counter.__setstate__(state)
    assert counter.count_text("a " * 5_000) == EstimatedTokenCounter().count_text("a " * 5_000)
