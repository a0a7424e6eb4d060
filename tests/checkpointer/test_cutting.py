"""Values in pieces: the cut depends on the value alone, a change makes few pieces, what is altered is noticed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from langchain_sessions._core.pieces import NODE, assemble, cut, kids_of, reachable

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ["thethe", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "rain", "falls", "hills"]


def words(size: int, draw: Random) -> bytes:
    return " ".join(draw.choice(WORDS) + str(draw.randrange(99)) for _ in range(size // 5 + 1)).encode()[:size]


def zeros(size: int, draw: Random) -> bytes:
    del draw
    return bytes(size)


def noise(size: int, draw: Random) -> bytes:
    return draw.randbytes(size)


@pytest.mark.parametrize("make", [words, zeros, noise])
def test_a_changed_value_is_cut_as_if_nobody_had_seen_it_before(make: Callable[[int, Random], bytes]) -> None:
    draw = Random(7)
    for size in (0, 1, 511, 512, 9_000, 70_000, 300_000):
        before, rows = cut(make(size, draw), None, (), None)
        stored = {row.digest: row.data for row in rows}
        assert assemble(before.root, stored.get, None) == before
        for _ in range(5):
            data = bytearray(before.data)
            for _ in range(draw.choice((1, 1, 3))):
                start = draw.randrange(len(data) + 1)
                data[start : start + draw.choice((0, 1, 900))] = make(draw.choice((0, 1, 40, 2_000)), draw)
            after, rows = cut(bytes(data), before, before.names, None)
            assert after == cut(bytes(data), None, (), None)[0]
            stored.update((row.digest, row.data) for row in rows)
            assert assemble(after.root, stored.get, None) == after
            before = after


def test_a_change_makes_pieces_around_it_alone() -> None:
    draw = Random(7)
    before, _ = cut(words(1_000_000, draw), None, (), None)
    changed = before.data[:500_000] + words(20_000, draw) + before.data[520_000:]
    _, rows = cut(changed, before, before.names, None)
    assert sum(len(row.data) for row in rows) < 26_000
    assert len(rows) < 45


def test_what_is_needed_for_a_value_is_found_by_its_rows() -> None:
    draw = Random(7)
    tree, rows = cut(words(50_000, draw), None, (), None)
    nodes = {row.digest: row.data for row in rows if row.data[:1] == NODE}
    assert len(kids_of(nodes[tree.root])) > 1
    assert reachable((tree.root,), nodes) == tree.names == {row.digest for row in rows}


def test_what_is_missing_or_altered_is_noticed() -> None:
    draw = Random(7)
    tree, rows = cut(words(30_000, draw), None, (), None)
    stored = {row.digest: row.data for row in rows}

    for name, row in stored.items():
        for bad in (b"", row[:9], row[:1] + row[2:], b"\x09" + row[1:], row[:40] + b"\0" + row[41:]):
            with pytest.raises(ValueError, match="piece"):
                assemble(tree.root, {**stored, name: bad}.get, None)
        with pytest.raises(ValueError, match="missing"):
            assemble(tree.root, {**stored, name: None}.get, None)
