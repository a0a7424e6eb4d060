"""Large values in pieces that are named by their content, so that a step stores what changed.

A value is cut where its own bytes say so: behind a change the old cuts are found again, and what lies between them
has the name that it had. The names are grouped in the same way, level by level, up to one: the value's.

A changed part is stored as what is different from the part before it, and a changed list of names as what is different
from the list before it, so that a small change costs little whatever the size of the value. Names are those of the
content all the same: a removal stores such rows whole again, where what they are told by goes (`piece_removal`).

With an encrypting serializer each piece is sealed, and its name is a digest under a key that is sealed too: nobody
without the cipher can tell what a name stands for, nor whether two sessions hold the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, count
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core.alike import common_end, common_start
from langchain_sessions._core.checkpoints import ValueRow
from langchain_sessions._core.once import kept
from langchain_sessions._core.piece_cuts import IN_CLEAR, SEALED, end_of_part
from langchain_sessions._core.piece_rows import (
    NAME,
    NODE,
    SPLICE,
    Gap,
    PieceReader,
    Seal,
    Told,
    between,
    delta_row,
    depth_of,
    gaps,
    kids_of,
    leaf_name,
    leaf_row,
    load_splice,
    node_name,
    splice_row,
    spliced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

LIMIT = 1024
"""Longer values are cut."""
_MOST_NAMES = 64
_LAST_OF_GROUP = bytes([16])
"""A name that is less ends its group: one in 16."""
_ROW = 60
"""Bytes that a row takes beside what it holds."""
_FEWEST_TOLD = 4
_MOST_STEPS = 8
_PROBE = 32
_ENOUGH = 64


class Below(NamedTuple):
    """What a part is told by.

    Attributes:
        depth: How many rows one after the other.
        names: The names of all.
        whole: The last of them, which is told by none.
    """

    depth: int
    names: frozenset[bytes]
    whole: Told


class Spine(NamedTuple):
    """A list of names that is stored, by which the next one may be told.

    Attributes:
        root: Its name.
        leaves: The names in it.
        held: The names of all rows that are read for it.
        spent: What has been stored of differences from it since.
        steps: How many lists are told one by the other from there.
        passed: The names of all rows that are read for these.
    """

    root: bytes
    leaves: list[bytes]
    held: frozenset[bytes]
    spent: int = 0
    steps: int = 0
    passed: frozenset[bytes] = frozenset()


class _Tree(NamedTuple):
    """What a tree holds.

    Attributes:
        root: The name that stands for all of it.
        names: Every name in it that has a row.
        data: The value.
        leaves: The names of its parts in their order.
        ends: Where each part ends.
        spine: How its names are stored.
        below: What its parts are told by, those that are.
    """

    root: bytes
    names: frozenset[bytes]
    data: bytes
    leaves: list[bytes]
    ends: list[int]
    spine: Spine
    below: Mapping[bytes, Below]


class Tree(_Tree):
    """A value in pieces."""

    @kept
    def held(self) -> frozenset[bytes]:
        """The names of all rows that are read for it."""
        spine = self.spine
        return self.names.union(spine.held, spine.passed, *(below.names for below in self.below.values()))

    def told(self, at: int) -> Told:
        """A part by its place."""
        name = self.leaves[at]
        part = self.data[self.ends[at - 1] if at else 0 : self.ends[at]]
        return Told(name, part, self.below[name].depth if name in self.below else 0)


class Cut(NamedTuple):
    """What becomes of a value.

    Attributes:
        tree: Its pieces.
        rows: Those that are not stored yet.
        needs: Names of rows that have to be there, with all that belongs to them.
    """

    tree: Tree
    rows: list[ValueRow]
    needs: set[bytes]


def cut(data: bytes, base: Tree | None = None, others: Sequence[Tree] = (), seal: Seal | None = None) -> Cut:
    """A value in pieces, and the rows of those that are not stored.

    Args:
        data: The value.
        base: What it was before: what both begin and end with need not be looked at again.
        others: Values besides that it may share pieces with.
        seal: How to keep it secret; None for a value in clear.
    """
    key = b"" if seal is None else seal.key
    stored = [*others] if base is None else [base, *others]
    for tree in stored:
        # One with another key has other names.
        if tree.data == data and leaf_name(data[: tree.ends[0]], key) == tree.leaves[0]:
            return Cut(tree, [], {tree.root})
    leaves, ends, fresh = _leaves(data, base, seal)
    parts = frozenset(leaves)
    fresh = {name: at for name, at in fresh.items() if not _is_in(name, stored)}
    changed = gaps(base.leaves, leaves) if base is not None else []
    below: dict[bytes, Below] = {}
    for tree in stored:
        below.update(tree.below)
    needs = {tree.root for tree in stored if not tree.names.isdisjoint(leaves)}
    rows: dict[bytes, bytes] = {}
    near: dict[int, list[tuple[Tree, Told]]] = {}
    if seal is None and fresh:
        places = {*fresh.values()}
        near = {} if base is None else _in_their_place(base, changed, places)
        for tree in others:
            _add_those_within(near, tree, data, ends, places, parts)
    for name, at in fresh.items():
        part, candidates = data[ends[at - 1] if at else 0 : ends[at]], near.get(at, [])
        row = _shortest(part, [told for _, told in candidates], below) if candidates else None
        if row is not None:
            below[name] = found = _below_of(row, [told for _, told in candidates], below)
            needs.update(tree.root for tree, told in candidates if told.name in found.names)
            # Of what tells the part before it nobody knows who needs it.
            needs.update({*kids_of(row)}.difference(told.name for _, told in candidates))
        rows[name] = leaf_row(part, seal) if row is None else row
    below = {name: below[name] for name in below.keys() & parts}
    root, nodes = _nodes(leaves, key)
    new = {name: row for name, row in nodes.items() if not _is_in(name, stored)}
    names = parts.union(nodes.keys() - new.keys())
    if root not in new:
        new = {}
    told = _told_names(leaves, base, changed, new) if new and base is not None else None
    if told is not None:
        row, spine = told
        new = {root: row}
        needs.update(kids_of(row)[:1])
    else:
        # Another process may tell the names of a value in another way, and these go before it does.
        needs.update(kid for row in new.values() for kid in kids_of(row) if kid in nodes and kid not in new)
        held = names.union(nodes, *(told.names for told in below.values()))
        spine = next((tree.spine for tree in stored if tree.root == root), Spine(root, leaves, held))
        needs.update({root} - rows.keys() - new.keys())
    rows.update(new)
    tree = Tree(root, names.union(new), data, leaves, ends, spine, below)
    return Cut(tree, [ValueRow(name, row) for name, row in rows.items()], needs)


def _is_in(name: bytes, trees: Iterable[Tree]) -> bool:
    """Whether some value has a piece."""
    return any(name in tree.names for tree in trees)


def _told_names(
    leaves: list[bytes], base: Tree, changed: list[Gap], new: Mapping[bytes, bytes]
) -> tuple[bytes, Spine] | None:
    """The row of a value's names as what is different from those of another value, where that is shorter for long."""
    spine = base.spine
    if 2 * len(leaves) < len(spine.leaves) or len(spine.leaves) < _FEWEST_TOLD:
        return None
    # Mostly by the list before it; now and then by the one that is stored, so that few are read one after the other.
    is_next = spine.steps < _MOST_STEPS
    where = changed if is_next else gaps(spine.leaves, leaves)
    count = sum(gap.new_end - gap.new_start for gap in where)
    if count > len(leaves) // 2 or count + len(where) >= _MOST_NAMES:
        return None
    named = base.root if is_next else spine.root
    spent = spine.spent + _ROW + len(splice_row(named, spine.spent, leaves, where))
    # Once they have cost as much, the names are stored anew.
    if spent > sum(len(each) + _ROW for each in new.values()):
        return None
    passed = base.held if is_next and spine.steps else frozenset[bytes]()
    spine = spine._replace(spent=spent, steps=spine.steps + 1 if is_next else 1, passed=passed)
    return splice_row(named, spent, leaves, where), spine


def _shortest(part: bytes, candidates: list[Told], below: Mapping[bytes, Below]) -> bytes | None:
    """The row that tells a part by others: by that which stood in its place, or by what this one was made of."""
    row = delta_row(part, candidates)
    wholes = [below[told.name].whole if told.name in below else told for told in candidates]
    if wholes == candidates:
        return row
    # What differs more takes more, and is not even tried.
    other = delta_row(part, wholes) if row is None else delta_row(part, wholes, _ENOUGH + between(part, row) * 3 // 2)
    # The sooner one is at the whole, the better.
    is_better = other is not None and (row is None or len(other) <= len(row) + NAME)
    return other if is_better else row


def _below_of(row: bytes, candidates: list[Told], below: Mapping[bytes, Below]) -> Below:
    """What tells the part of a row that was made of some candidates, or of what these are told by."""
    names = kids_of(row)
    wholes = {told.name: told for told in candidates}
    wholes |= {below[name].whole.name: below[name].whole for name in wholes if name in below}
    whole = below[names[0]].whole if names[0] in below else wholes[names[0]]
    return Below(depth_of(row), frozenset(names).union(*(below[name].names for name in names if name in below)), whole)


def _in_their_place(base: Tree, changed: Iterable[Gap], places: set[int]) -> dict[int, list[tuple[Tree, Told]]]:
    """The parts that stood where new ones stand."""
    found: dict[int, list[tuple[Tree, Told]]] = {}
    for gap in changed:
        for at in places.intersection(range(gap.new_start, gap.new_end)):
            first = gap.start + at - gap.new_start
            wanted = {first} if at + 1 < gap.new_end else {first, gap.end - 1}
            found[at] = [(base, base.told(place)) for place in sorted(wanted) if gap.start <= place < gap.end]
    return found


def _add_those_within(  # noqa: PLR0917 - what is known while a value is cut
    near: dict[int, list[tuple[Tree, Told]]],
    tree: Tree,
    data: bytes,
    ends: list[int],
    places: set[int],
    leaves: frozenset[bytes],
) -> None:
    """Add the parts of another value that new ones hold some bytes of."""
    begin = ends[min(places) - 1] if min(places) else 0
    for place, name in enumerate(tree.leaves):
        if name not in leaves:
            told = tree.told(place)
            for at in {_place_of(told.part, third, data, begin, ends) for third in (1, 2)} & places:
                near.setdefault(at, []).append((tree, told))


def _place_of(part: bytes, third: int, data: bytes, begin: int, ends: list[int]) -> int:
    """In which part of a value some bytes of another one stand; -1 where they are not found."""
    start = len(part) * third // 3
    some = part[start : start + _PROBE]
    at = data.find(some, begin) if len(some) == _PROBE else -1
    return -1 if at < 0 else bisect_right(ends, at)


def _leaves(data: bytes, base: Tree | None, seal: Seal | None) -> tuple[list[bytes], list[int], dict[bytes, int]]:
    """The names of a value's parts, where these end, and the places of those that were looked at."""
    key, rule = (b"", IN_CLEAR) if seal is None else (seal.key, SEALED)
    fresh: dict[bytes, int] = {}
    known: dict[bytes, int] | None = None
    leaves, ends, tail = _same_beginning(data, base)
    start, size = ends[-1] if ends else 0, len(data)
    while start < size or not leaves:
        if base is not None and (at := _place_at(base.ends, start + len(base.data) - size, tail)) is not None:
            leaves += base.leaves[at:]
            ends += _moved(base.ends[at:], size - len(base.data))
            break
        end = end_of_part(data, start, rule)
        name = leaf_name(data[start:end], key)
        fresh.setdefault(name, len(leaves))
        leaves.append(name)
        ends.append(end)
        start = end
        if base is not None and name in base.names:
            known = known or dict(zip(base.leaves, count()))
            same = _same_from(base, known[name], data, start)
            if same is not None:
                # Behind a part that both have they mostly go on alike: compared, which takes less than to cut again.
                leaves += base.leaves[same.first : same.last]
                ends += _moved(base.ends[same.first : same.last], start - same.start)
                start = ends[-1]
    return leaves, ends, fresh


def _place_at(ends: list[int], start: int, first: int) -> int | None:
    """Which part begins at a place, where it is behind the first of those that two values end with."""
    at = bisect_left(ends, start, first, len(ends) - 1)
    return at + 1 if at < len(ends) - 1 and ends[at] == start else None


def _moved(ends: list[int], shift: int) -> list[int]:
    return [end + shift for end in ends] if shift else ends


class _Same(NamedTuple):
    """Parts that another value has too: from which to before which, and where they start."""

    first: int
    last: int
    start: int


def _same_from(base: Tree, at: int, data: bytes, start: int) -> _Same | None:
    """The parts behind one of another value that stand at a place of this one; None where it goes on otherwise."""
    there, first = base.ends[at], at + 1
    # As below, the last one ends where it does because its value does.
    most = len(base.ends) - 1
    if first >= most or base.data[there : base.ends[first]] != data[start : start + base.ends[first] - there]:
        return None
    last = bisect_right(base.ends, there + common_start(base.data, data, there, start), first, most)
    return _Same(first, last, there)


def _same_beginning(data: bytes, base: Tree | None) -> tuple[list[bytes], list[int], int]:
    """The parts that a value begins with as another one did; and the first of the parts that both end with."""
    if base is None:
        return [], [], 0
    before = base.data
    same = common_start(before, data)
    # The last part ends where it does because the value does.
    most = min(bisect_right(base.ends, same), len(base.ends) - 1)
    end = common_end(before, data, min(len(data), len(before)) - (base.ends[most - 1] if most else 0))
    return base.leaves[:most], base.ends[:most], bisect_left(base.ends, len(before) - end, most)


def _nodes(leaves: list[bytes], key: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """The name of a value by those of its parts, and the rows of names between."""
    nodes: dict[bytes, bytes] = {}
    level = leaves
    while len(level) > 1:
        rows = [NODE + b"".join(group) for group in _groups(level)]
        level = [node_name(row, key) for row in rows]
        nodes.update(zip(level, rows, strict=True))
    return level[0], nodes


def _groups(names: list[bytes]) -> Iterable[list[bytes]]:
    """Names in groups of at least two, but for the last, cut where the names say so."""
    start, size = 0, len(names)
    for end in [*[at for at, name in enumerate(names, 1) if name < _LAST_OF_GROUP], size]:
        while end - start > _MOST_NAMES:
            yield names[start : start + _MOST_NAMES]
            start += _MOST_NAMES
        if end - start > 1 or start < end == size:
            yield names[start:end]
            start = end


# -- reading -----------------------------------------------------------------------------------------------


def assemble(root: bytes, find: Callable[[bytes], bytes | None], seal: Seal | None) -> Tree:
    """The value behind a name.

    Raises:
        ValueError: A piece is missing, or is not what its name says.
    """
    key = b"" if seal is None else seal.key
    read = PieceReader(find, seal)
    leaves = _leaves_below(root, read)
    nodes_read = {*read.rows}
    spine = _spine(root, read)
    parts = [read.part(name) for name in leaves]
    made, nodes = _nodes(leaves, key)
    if made != root or [*map(_namer(key), parts)] != leaves:
        problem = "a piece is altered"
        raise ValueError(problem)
    below = {name: _below(name, read) for name in {*leaves} if depth_of(read.rows[name])}
    names = nodes_read.intersection(nodes).union(leaves, (root,))
    return Tree(root, frozenset(names), b"".join(parts), leaves, [*accumulate(map(len, parts))], spine, below)


def _namer(key: bytes) -> Callable[[bytes], bytes]:
    return lambda part: leaf_name(part, key)


def _leaves_below(root: bytes, read: PieceReader) -> list[bytes]:
    """The names of the parts behind a name."""
    row = read.row(root)
    if row[:1] == SPLICE:
        splice = load_splice(row)
        return spliced(_leaves_below(splice.base, read), splice.changes)
    if row[:1] == NODE:
        return [leaf for kid in kids_of(row) for leaf in _leaves_below(kid, read)]
    return [root]


def _spine(root: bytes, read: PieceReader) -> Spine:
    """How the names of a value are stored."""
    row, spent, steps, name = read.row(root), 0, 0, root
    while row[:1] == SPLICE:
        splice = load_splice(row)
        spent, steps, name = spent or splice.spent, steps + 1, splice.base
        row = read.row(name)
    listed = PieceReader(read.row, None)
    leaves = _leaves_below(name, listed)
    passed = frozenset(read.rows) if steps > 1 else frozenset[bytes]()
    return Spine(name, leaves, frozenset(listed.rows), spent, steps, passed)


def _below(name: bytes, read: PieceReader) -> Below:
    """What a part is told by."""
    found: set[bytes] = set()
    first, left = name, kids_of(read.rows[name])
    while left:
        other = left.pop()
        if other not in found:
            found.add(other)
            left += kids_of(read.rows[other])
    while told_by := kids_of(read.rows[first]):
        first = told_by[0]
    return Below(depth_of(read.rows[name]), frozenset(found), Told(first, read.part(first), 0))
