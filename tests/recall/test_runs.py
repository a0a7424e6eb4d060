"""Runs of words in texts in ASCII are looked up without splitting the text: found alike, at a tenth of the cost."""

from __future__ import annotations

import random

import pytest

from langchain_sessions._recall.text.runs import Runs
from langchain_sessions._recall.text.terms import split_words

ATOMS = [
    *("a", "ab", "b", "it's", "l'homme", "don't", "o'clock'x", "1", "7", "07", "1st", "2nd", "1,000", "12,345,678"),
    *(
        "1,2,3",
        "12345,678",
        "x",
        "A-b",
        "foo_bar",
        "\u2019s",
        "“q”",
        "…",
        "—",
        "\n",
        "'",
        " '",
        "3.14",
        "0",
        "00",
        "007",
    ),
    *("01st's", "07th's", "3rd", "0s", "00th", "1,000th"),
    *("th", "rock'n'roll", "x" * 70, "9" * 66, "é", "漢字", "1'000", "\u00a0", ","),
]


@pytest.mark.parametrize("seed", range(4))
def test_runs_are_found_as_in_the_words_of_a_text(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - draws texts
    for _ in range(2_000):
        text = "".join(chance.choice(ATOMS) + chance.choice(["", " ", " "]) for _ in range(chance.randint(0, 8)))
        words = split_words(text)
        start = chance.randrange(len(words)) if words and chance.random() < 0.6 else 0
        other = split_words(" ".join(chance.choices(ATOMS, k=2)))
        run = tuple(words[start : start + chance.randint(1, 3)] if start else other)
        if not run:
            continue
        begun = (*run[:-1], run[-1][: chance.randint(1, len(run[-1]))])
        spread = f" {' '.join(words)} "
        assert Runs(text).hold(run, is_prefix=False) == (f" {' '.join(run)} " in spread), (text, run)
        assert Runs(text).hold(begun, is_prefix=True) == (f" {' '.join(begun)}" in spread), (text, begun)
