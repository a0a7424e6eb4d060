"""Writes that say which part of a value they are: read from that value, and told by themselves once it goes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import ormsgpack

from langchain_sessions._core.checkpoints import CUT, PackedWrites, digests_in, pack_writes, unpack_writes
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.piece_rows import NAME
from langchain_sessions._core.pieces import assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

SLICED = 64
"""Added to the kind of a write in pieces: it is part of a value, and its data says which."""
_ALTERED = "a write is altered"


def sliced(value: bytes, place: bytes) -> bytes:
    """What a write holds.

    Args:
        value: The value that it is told by.
        place: Where it stands there.

    Raises:
        ValueError: It does not.
    """
    before, at, count = ormsgpack.unpackb(place)
    said: bytes = value[at : at + count]
    if len(said) != count:
        raise ValueError(_ALTERED)
    return bytes(before) + said


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
