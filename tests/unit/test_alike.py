# ruff: noqa: S311 - no secrets
"""What two values begin and end with alike, beside the plainest way to tell it."""

from __future__ import annotations

from itertools import takewhile
from random import Random
from typing import TYPE_CHECKING

import pytest

from langchain_sessions._core.alike import common_end, common_start, same_first, same_last
from langchain_sessions._core.piece_rows import gaps

if TYPE_CHECKING:
    from collections.abc import Sequence


def alike(one: Sequence[object], other: Sequence[object]) -> int:
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))])


@pytest.mark.parametrize("is_text", [False, True])
def test_beginnings_and_ends(*, is_text: bool) -> None:
    draw = Random(3)
    for size in (0, 1, 2, 63, 255, 256, 257, 511, 512, 513, 1_000, 70_000):
        for _ in range(8):
            one = bytes(draw.choices(b"abc", k=size)) if draw.random() < 0.5 else b"a" * size
            at = draw.randrange(size + 1)
            other = one[:at] + draw.choice((b"", b"d", b"ab")) + one[at + draw.choice((0, 0, 1, 300)) :]
            first, second = (one.decode(), other.decode()) if is_text else (one, other)
            same = alike(first, second)
            assert common_start(first, second) == same  # type: ignore[type-var]
            most = min(len(first), len(second)) - same
            assert common_end(first, second, most) == min(most, alike(first[::-1], second[::-1]))  # type: ignore[type-var]
            start, begin = draw.randrange(len(first) + 1), draw.randrange(len(second) + 1)
            assert common_start(first, second, start, begin) == alike(first[start:], second[begin:])  # type: ignore[type-var]


def test_lists_and_where_they_differ() -> None:
    draw = Random(3)
    for _ in range(400):
        names = [bytes([draw.randrange(9)]) * 16 for _ in range(draw.randrange(40))]
        at, more = draw.randrange(len(names) + 1), [bytes([draw.randrange(9)]) * 16 for _ in range(draw.randrange(4))]
        other = [*names[:at], *more, *names[at + draw.randrange(3) :]]
        first = same_first(names, other)
        assert first == alike(names, other)
        most = min(len(names), len(other)) - first
        assert same_last(names, other, most) == min(most, alike(names[::-1], other[::-1]))
        made, place = list[bytes](), 0
        for gap in gaps(names, other):
            made += names[place : gap.start]
            assert len(made) == gap.new_start
            made += other[gap.new_start : gap.new_end]
            place = gap.end
        assert [*made, *names[place:]] == other
