"""Writes that are told by the value which took them in.

What a task gave a list or a dict mostly stands in the channel's next value as it was given, and that value lies in
pieces: the write then says where. It is read with the pieces, which stay as long as a write needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ormsgpack

from langchain_sessions._core.checkpoints import CUT, SLICED
from langchain_sessions._threads.record import PLAIN, TAGGED
from langchain_sessions._threads.turned import TURNED, beginning, turned_back

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.checkpoints import WriteRow
    from langchain_sessions._core.pieces import Tree
    from langchain_sessions._threads.pending import PendingWrite
    from langchain_sessions._threads.record import Slot

_SHORTEST = 64
"""Shorter ones say themselves what they hold: a name and a place take half as much."""


def told_by_values(
    writes: Sequence[WriteRow],
    pending: Sequence[PendingWrite],
    slots: Mapping[str, Slot],
    trees: Sequence[Tree],
) -> tuple[Sequence[WriteRow], frozenset[bytes]]:
    """Writes as they are stored for good, and the names of pieces that were made for some and that none needs.

    Args:
        writes: What tasks wrote.
        pending: What of it this process knows.
        slots: What the channels have now.
        trees: What of that lies in pieces and is new.
    """
    values = {channel: tree for channel, slot in slots.items() if (tree := _value(slot, trees)) is not None}
    made = {write.row: write for write in pending if write.tree is not None}
    ends: dict[str, int] = {}
    found: list[WriteRow] = []
    left: set[bytes] = set()
    kept: list[Tree | None] = []
    for row in writes:
        tree, own = values.get(row.channel), made.get(row)
        data = None if tree is None else _said(row, own)
        told = row if tree is None or data is None else _told(row, data, tree, ends)
        if told is row and data is not None and len(data) > _SHORTEST:
            # A reducer made something else of it, and most likely of the others: they are not looked for.
            values.pop(row.channel, None)
        found.append(told)
        if told.kind & SLICED and own is not None and own.tree is not None:
            left |= own.tree.names
        elif told.kind & CUT and not told.kind & SLICED:
            kept.append(None if own is None else own.tree)
    # Of a write that is not known here nobody knows what it needs.
    is_known = None not in kept
    return found, frozenset(left.difference(*(each.held for each in kept if each is not None)) if is_known else ())


def _value(slot: Slot, trees: Sequence[Tree]) -> Tree | None:
    """What a channel has in pieces, if it is new; what is sealed tells nothing."""
    if not slot.kind & CUT or slot.data is not None:
        return None
    return next((tree for tree in trees if tree.root == slot.digest), None)


def _said(row: WriteRow, own: PendingWrite | None) -> bytes | None:
    """The value of a write that mentions no message and is not sealed, unless its pieces are stored already."""
    if row.kind in (PLAIN, TAGGED):
        return row.data
    tree, given = (None, None) if own is None else (own.tree, own.given)
    if tree is None or given is None or given.is_stored or row.refs is not None or row.data != tree.root:
        return None
    return turned_back(tree.data) if row.kind & TURNED else tree.data


def _told(row: WriteRow, data: bytes, tree: Tree, ends: dict[str, int]) -> WriteRow:
    kind = row.kind & ~(CUT | TURNED)
    start = beginning(data, 0 if kind == PLAIN else data.index(0) + 1)
    said, last = data[start:], ends.get(row.channel, 0)
    if len(said) < _SHORTEST:
        return row
    # What tasks gave a list stands in it one behind the other.
    at = tree.data.find(said, last)
    at = tree.data.find(said, 0, last) if at < 0 and last else at
    if at < 0:
        return row
    ends[row.channel] = at + len(said)
    place = ormsgpack.packb([data[:start], at, len(said)])
    return row._replace(kind=kind | CUT | SLICED, data=tree.root + place)
