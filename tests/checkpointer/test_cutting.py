"""Values in pieces: the cut depends on the value alone, a change makes few pieces, what is altered is noticed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langchain_sessions._core.piece_removal import staying_values
from langchain_sessions._core.piece_rows import NAMING, NODE, SPLICE, Seal, is_delta, kids_of
from langchain_sessions._core.pieces import Tree, assemble, cut

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


def changed(value: bytes, draw: Random, make: Callable[[int, Random], bytes]) -> bytes:
    data = bytearray(value)
    for _ in range(draw.choice((1, 1, 3))):
        start = draw.randrange(len(data) + 1)
        data[start : start + draw.choice((0, 1, 900))] = make(draw.choice((0, 1, 40, 2_000)), draw)
    return bytes(data)


def same(tree: Tree, other: Tree) -> bool:
    return (tree.root, tree.data, tree.leaves, tree.ends) == (other.root, other.data, other.leaves, other.ends)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("make", [words, zeros, noise])
def test_a_changed_value_is_cut_as_if_nobody_had_seen_it_before(
    make: Callable[[int, Random], bytes], *, sealed: bool
) -> None:
    draw = Random(7)
    cipher = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef").cipher
    seal = Seal.new(cipher) if sealed else None
    for size in (1, 70_000) if sealed else (0, 1, 1_023, 1_024, 9_000, 70_000, 200_000):
        before, rows, _ = cut(make(size, draw), seal=seal)
        stored = {row.digest: row.data for row in rows}
        assert assemble(before.root, stored.get, seal) == before
        for _ in range(5 if sealed else 12):
            after, rows, needs = cut(changed(before.data, draw, make), before, seal=seal)
            assert needs <= stored.keys()
            assert same(after, cut(after.data, seal=seal).tree)
            # What is there is not written over, whatever form it has.
            stored = {row.digest: row.data for row in rows} | stored
            read = assemble(after.root, stored.get, seal)
            assert same(read, after)
            assert read.held <= stored.keys()
            before = draw.choice((after, read))


def test_a_value_with_another_key_is_none_that_is_known() -> None:
    cipher = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef").cipher
    data = words(9_000, Random(7))
    seals = [Seal.new(cipher), Seal.new(cipher)]
    trees = [cut(data, seal=seal).tree for seal in seals]
    for seal, tree, other in zip(seals, trees, trees[::-1], strict=True):
        again = cut(data, None, [other, tree], seal)
        assert (again.tree.root, again.rows, again.needs) == (tree.root, [], {tree.root})
        made = cut(data, None, [other], seal)
        assert made.tree.root == tree.root
        assert assemble(tree.root, {row.digest: row.data for row in made.rows}.get, seal).data == data


def test_a_change_makes_pieces_around_it_alone() -> None:
    draw = Random(7)
    before = cut(words(1_000_000, draw)).tree
    text = before.data[:500_000] + words(20_000, draw) + before.data[520_000:]
    rows = cut(text, before).rows
    assert sum(len(row.data) for row in rows) < 14_000
    assert len(rows) < 16


@pytest.mark.parametrize("make", [words, noise])
def test_small_changes_cost_what_changed_and_little_more(make: Callable[[int, Random], bytes]) -> None:
    draw = Random(7)
    tree, steps, spent, count = cut(make(1_000_000, draw)).tree, 60, 0, 0
    for number in range(steps):
        at = draw.randrange(900_000) if number % 3 else 450_000
        tree, rows, _ = cut(tree.data[:at] + make(200, draw) + tree.data[at + 190 :], tree)
        spent += sum(len(row.data) for row in rows)
        count += len(rows)
    assert spent < steps * (200 + 500)
    assert count < steps * 4


def test_what_another_value_holds_is_told_by_it() -> None:
    draw = Random(7)
    before, written = cut(noise(40_000, draw)).tree, cut(noise(1_500, draw)).tree
    _, rows, needs = cut(before.data + written.data, before, (written,))
    assert sum(len(row.data) for row in rows) < 400
    assert needs == {before.root, written.root}


@pytest.mark.parametrize("make", [words, zeros, noise])
def test_nothing_that_is_left_is_told_by_what_went(make: Callable[[int, Random], bytes]) -> None:
    draw = Random(11)
    for size in (3_000, 70_000, 200_000):
        tree, rows, _ = cut(make(size, draw))
        trees, stored = [tree], {row.digest: row.data for row in rows}
        kinds: set[bytes] = set()
        for _ in range(30):
            data = changed(trees[-1].data, draw, make)
            tree, rows, needs = cut(data, trees[-1])
            if not needs <= stored.keys():
                # As a saver does that learns that what it knew is gone.
                tree, rows, needs = cut(data, assemble(trees[-1].root, stored.get, None))
            assert needs <= stored.keys()
            stored = {row.digest: row.data for row in rows} | stored
            kinds.update(row.data[:1] for row in rows)
            trees.append(tree)
            if draw.random() < 0.2:
                trees = [tree, *draw.sample(trees[:-1], min(len(trees) - 1, 3))][::-1]
                stored = staying_values(stored, {each.root for each in trees})
                wanted = {leaf for each in trees for leaf in each.leaves}
                assert {name for name, row in stored.items() if row[:1] not in (NODE, SPLICE)} == wanted
                assert all(assemble(each.root, stored.get, None).data == each.data for each in trees)
            assert assemble(tree.root, stored.get, None).data == data
        assert size == 3_000 or make is zeros or SPLICE in kinds
        stored = staying_values(stored, {trees[-1].root})
        assert SPLICE not in {row[:1] for row in stored.values()}
        assert {*kids_of(stored[trees[-1].root])} <= stored.keys()
        # It goes on from there.
        tree, rows, needs = cut(changed(trees[-1].data, draw, make), assemble(trees[-1].root, stored.get, None))
        stored |= {row.digest: row.data for row in rows}
        assert needs <= stored.keys()
        assert assemble(tree.root, stored.get, None).data == tree.data


def test_what_is_missing_or_altered_is_noticed() -> None:
    draw = Random(7)
    first = cut(words(30_000, draw))
    text = first.tree.data
    second = cut(text[:9_000] + b"new words" + text[9_000:20_000] + b"and more" + text[20_000:], first.tree)
    stored = {row.digest: row.data for row in (*first.rows, *second.rows)}
    kinds = [row for row in stored.values() if is_delta(row)], [row for row in stored.values() if row[:1] in NAMING]
    assert all(kinds)
    for name in second.tree.held:
        row = stored[name]
        for bad in (b"", row[:9], row[:1] + row[2:], b"\x3f" + row[1:], b"\x09" + row[1:], row[:40] + b"\0" + row[41:]):
            if bad != row:
                _is_noticed(second.tree, {**stored, name: bad})
        _is_noticed(second.tree, {key: row for key, row in stored.items() if key != name})


def _is_noticed(tree: Tree, stored: dict[bytes, bytes]) -> None:
    """That it is an error, or that what was altered is of no use for the value."""
    try:
        read = assemble(tree.root, stored.get, None)
    except Exception:  # noqa: BLE001 - whoever reads it takes any error for damage
        return
    assert read.data == tree.data
