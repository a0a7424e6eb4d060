"""A file of JSON read an element at a time is what it is when it is read at once."""

from __future__ import annotations

import io
import json
import random

import pytest

from langchain_sessions._importing import elements
from langchain_sessions._importing.elements import JsonElements
from langchain_sessions._importing.values import SourceError


def some(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind >= 6:
        size = rng.randrange(4)
        inner = [some(rng, depth + 1) for _ in range(size)]
        return inner if kind == 6 else {f'k{at} "\\': each for at, each in enumerate(inner)}
    scalars = (
        None,
        True,
        rng.randrange(-(10**12), 10**12),
        rng.random() * 1e-7,
        'tea 🍵 \u0041"\\\n' * rng.randrange(5),
        5e30,
    )
    return scalars[kind]


@pytest.mark.parametrize("indent", [None, 2])
def test_wherever_a_chunk_ends(indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)  # noqa: S311 - no secret
    for chunk in (1, 2, 3, 7, 50, 4096):
        monkeypatch.setattr(elements, "_CHUNK", chunk)
        for _ in range(15):
            values = [some(rng) for _ in range(rng.randrange(6))]
            ascii_only = rng.random() < 0.5
            listed = json.dumps(values, ensure_ascii=ascii_only, indent=indent).encode()
            assert list(JsonElements(io.BytesIO(listed)).items()) == list(enumerate(values, 1))
            named = {f"n{at}": value for at, value in enumerate(values)}
            whole = json.dumps(named, ensure_ascii=ascii_only, indent=indent).encode()
            assert list(JsonElements(io.BytesIO(whole)).members()) == list(named.items())


def test_what_breaks_off_gives_what_stands_before() -> None:
    good = json.dumps([{"a": 1}, {"b": [2]}]).encode()
    for at in range(1, len(good)):
        found = list(JsonElements(io.BytesIO(good[:at])).items())
        assert isinstance(found[-1][1], SourceError)
        assert [value for _, value in found[:-1]] == [{"a": 1}, {"b": [2]}][: len(found) - 1]


def test_a_broken_element_is_not_sought_in_the_rest_of_the_file() -> None:
    file = io.BytesIO(b'[{"a": 1}, {oops}, ' + b'"x",' * 1_000_000)
    found = list(JsonElements(file).items())
    assert [nth for nth, _ in found] == [1, 2]
    assert file.tell() < 1_000_000
