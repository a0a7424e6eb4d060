"""Engines are small, and the base knows none of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.engine_lines import MOST, count, engines, lines_of, rooms
from langchain_sessions.stores import _engines_by_url

STORES = Path(__file__).parents[2] / "langchain_sessions" / "stores"
OWN = {path for engine in engines() for path in rooms()[engine].paths} | {STORES / "_engines_by_url.py"}
BASE = [path for path in sorted(STORES.rglob("*.py")) if path not in OWN]


@pytest.mark.parametrize("engine", engines())
def test_an_engine_is_short(engine: str) -> None:
    assert 0 < count()[engine] <= MOST


def test_what_counts_as_a_line_of_code() -> None:
    lines = [
        '"""Says what."""',
        "",
        "import os  # why",
        "def f():",
        '    """Says.',
        '    """',
        "    # no",
        "    return (",
    ]
    source = "\n".join([*lines, "        1", "    )", ""])
    assert lines_of(source) == 5


@pytest.mark.parametrize("path", BASE, ids=lambda path: path.name)
def test_the_base_names_no_engine(path: Path) -> None:
    names = {*engines(), *_engines_by_url.ENGINES} - {"memory", "apart", "file", "files"}  # words of English, too
    said = set(re.findall(r"[a-z]+", path.read_text().lower()))
    assert said & names == set()
