"""Which pieces stay when checkpoints go, and what is stored anew since it was told by what goes.

What was removed must not live on as that by which something else is told: a part is stored whole then, and a list of
names with all its names. Both keep their names, which are those of their content. A write that says which part of a
value it is tells itself what it holds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core.checkpoints import CUT, SLICED, PackedWrites, digests_in, pack_writes, unpack_writes
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.piece_rows import (
    NAME,
    NAMING,
    NODE,
    SPLICE,
    PieceReader,
    is_delta,
    kids_of,
    leaf_name,
    leaf_row,
    load_splice,
    node_name,
    sliced,
    spliced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

_MOST_NAMES = 64

Change = tuple[int, int, list[bytes]]


class Staying(NamedTuple):
    """What becomes of the pieces of a session.

    Attributes:
        needed: The names that stay.
        rows: Rows of names to store, some in the place of others.
        whole: PieceReader to store whole.
    """

    needed: set[bytes]
    rows: dict[bytes, bytes]
    whole: list[bytes]


def staying(roots: Iterable[bytes], heads: Mapping[bytes, bytes]) -> Staying:
    """What stays for some values.

    Args:
        roots: Their names.
        heads: The rows that name others: of a part that is told by others, its names are enough.
    """
    lists = _Lists(heads)
    needed: set[bytes] = set()
    left = [*roots]
    while left:
        told: list[bytes] = []
        while left:
            name = left.pop()
            if name in needed:
                continue
            needed.add(name)
            row = lists.row(name)
            if row[:1] == NODE:
                left += kids_of(row)
            elif row[:1] == SPLICE:
                told.append(name)
                with suppress(*UNREADABLE):  # whoever reads it says what is wrong
                    left += lists.leaves(name)
        # Only once it is known what else is needed.
        for name in told:
            with suppress(*UNREADABLE):
                if load_splice(lists.row(name)).base not in needed:
                    left += lists.make_whole(name)
    whole = [name for name in needed if is_delta(row := heads.get(name, b"")) and not needed.issuperset(kids_of(row))]
    return Staying(needed, {name: row for name, row in lists.made.items() if name in needed}, whole)


def staying_values(rows: Mapping[bytes, bytes], roots: Iterable[bytes]) -> dict[bytes, bytes]:
    """The rows that stay for some values, in the form in which they stay."""
    stays = staying(roots, {name: row for name, row in rows.items() if row[:1] in NAMING})
    kept = {name: row for name, row in rows.items() if name in stays.needed}
    return kept | stays.rows | made_whole(stays.whole, rows.get)


def made_whole(names: Iterable[bytes], find: Callable[[bytes], bytes | None]) -> dict[bytes, bytes]:
    """The rows of some parts as they are, whatever tells them now. What cannot be read stays as it is."""
    read, made = PieceReader(find, None), dict[bytes, bytes]()
    for name in names:
        with suppress(*UNREADABLE):
            part = read.part(name)
            if leaf_name(part, b"") == name:
                made[name] = leaf_row(part, None)
    return made


def tellers(writes: PackedWrites) -> set[bytes]:
    """The names of the values that tell some writes."""
    return {*digests_in([row for row in unpack_writes(writes.body) if row.kind & SLICED])}


def told_anew(writes: PackedWrites, gone: Collection[bytes], find: Callable[[bytes], bytes | None]) -> PackedWrites:
    """Some writes as they are stored once values are gone that told them. What cannot be read stays as it is.

    Args:
        writes: These.
        gone: The names of the values.
        find: Finds the pieces that these consist of.
    """
    from langchain_sessions._core.pieces import assemble  # noqa: PLC0415 - else each cold start would load it

    values: dict[bytes, bytes] = {}
    rows = [*unpack_writes(writes.body)]
    for at, row in enumerate(rows):
        if not row.kind & SLICED or row.data is None or (name := row.data[:NAME]) not in gone:
            continue
        with suppress(*UNREADABLE):  # whoever reads it says what is wrong
            if name not in values:
                values[name] = assemble(name, find, None).data
            said = sliced(values[name], row.data[NAME:])
            rows[at] = row._replace(kind=row.kind & ~(CUT | SLICED), data=said)
    return writes._replace(body=pack_writes(rows))


class _Lists:
    """Lists of names, and the rows that are made for some."""

    def __init__(self, heads: Mapping[bytes, bytes]) -> None:
        self.made: dict[bytes, bytes] = {}
        self._heads = heads
        self._leaves: dict[bytes, list[bytes]] = {}

    def row(self, name: bytes) -> bytes:
        """The row of a name, where it has names behind."""
        return self.made.get(name) or self._heads.get(name, b"")

    def leaves(self, name: bytes) -> list[bytes]:
        """The names of the parts behind a name."""
        found = self._leaves.get(name)
        if found is None:
            row = self.row(name)
            if row[:1] == SPLICE:
                splice = load_splice(row)
                found = spliced(self.leaves(splice.base), splice.changes)
            else:
                found = [leaf for kid in kids_of(row) for leaf in self.leaves(kid)] if row[:1] == NODE else [name]
            self._leaves[name] = found
        return found

    def make_whole(self, name: bytes) -> list[bytes]:
        """Make the row of names in the place of one that is told by another one; the names in it."""
        made = self._in_groups(self._told(name))
        self.made[name] = NODE + b"".join(made)
        return made

    def _told(self, name: bytes) -> list[bytes]:
        splice = load_splice(self.row(name))
        base = self.row(splice.base)
        kids = self._told(splice.base) if base[:1] == SPLICE else kids_of(base)
        return self._changed(kids, 0, splice.changes)

    def _changed(self, names: list[bytes], start: int, changes: list[Change]) -> list[bytes]:
        """Names, some of the parts behind them replaced; what none of it concerns stays under its own name."""
        made: list[bytes] = []
        for number, name in enumerate(names):
            end, is_last = start + len(self.leaves(name)), number == len(names) - 1
            mine = [each for each in changes if _concerns(each, start, end, is_last=is_last)]
            if not mine:
                made.append(name)
            elif self.row(name)[:1] == NODE:
                below = self._in_groups(self._changed(kids_of(self.row(name)), start, mine))
                if below:
                    row = NODE + b"".join(below)
                    made.append(node_name(row, b""))
                    self.made[made[-1]] = row
            else:
                of_one = [(max(at - start, 0), *_of_one(at, count, new, start)) for at, count, new in mine]
                made += spliced([name], of_one)
            start = end
        return made

    def _in_groups(self, names: list[bytes]) -> list[bytes]:
        """As many names as a row takes."""
        while len(names) > _MOST_NAMES:
            groups = [NODE + b"".join(names[at : at + _MOST_NAMES]) for at in range(0, len(names), _MOST_NAMES)]
            names = [node_name(group, b"") for group in groups]
            self.made.update(zip(names, groups, strict=True))
        return names


def _concerns(change: Change, start: int, end: int, *, is_last: bool) -> bool:
    at, count, _ = change
    if count:
        return at < end and at + count > start
    return start <= at < end or (is_last and at == end)


def _of_one(at: int, count: int, new: list[bytes], start: int) -> tuple[int, list[bytes]]:
    """What a change does to one part: whether it goes, and what comes in its place, at the first that goes."""
    return (1 if count else 0), (new if at >= start else [])
