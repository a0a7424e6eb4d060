"""Values that are too large for a conditional batch: written before it in pieces, of which the row has the name.

The pieces are a shelf that belongs to one commit alone. Those of a commit that was lost are nobody's until the
partition is removed.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions.errors import CorruptRowError
from langchain_sessions.stores._wide.work import Do
from langchain_sessions.stores.engine import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._wide.engine import WidePartitions
    from langchain_sessions.stores.engine import Partition

GONE: Final = b"\0"
"""Stands for a row that was removed while an older one may lie on a shelf."""
INDEX: Final = "~"
"""The shelf with the names of those that pieces are on."""
_ESCAPED, _NAMED = b"\0\0", b"\0~"
_ROOM: Final = 1_000_000
_SMALL: Final = 16_384
_PIECE: Final = 1_000_000
_AT_ONCE: Final = 4
_ALL: Final = ("", "\x7f", 2**31 - 1)


def cut(
    engine: WidePartitions, partition: Partition, rows: Mapping[str, bytes | None]
) -> Flow[dict[str, bytes | None]]:
    """Rows as they are stored. What is large is written now where a batch has no room for all of it."""
    room = _ROOM
    made: dict[str, bytes | None] = {}
    for key, value in rows.items():
        made[key] = _ESCAPED + value[1:] if value is not None and value.startswith(GONE) else value
        if value is None or len(value) <= max(_SMALL, room):
            room -= len(value or b"")
            continue
        # Drawn for each commit, so that one that is lost never writes over what stands.
        name = f"{key}~{secrets.token_hex(8)}"
        parts = [value[start : start + _PIECE] for start in range(0, len(value), _PIECE)]
        # First its name: pieces of a writer that dies are found when the partition is removed.
        yield from engine.run([Do("add_shelf", (b"", *partition, INDEX, name))])
        for start in range(0, len(parts), _AT_ONCE):
            some = enumerate(parts[start : start + _AT_ONCE], start)
            yield from engine.run([Do("add_shelf", (part, *partition, name, f"{n:08}")) for n, part in some])
        made[key] = f"\0~{len(value)}/{name}".encode()
    return made


def joined(engine: WidePartitions, partition: Partition, found: Sequence[Iterable[Any]]) -> Flow[list[list[Row]]]:
    """What `cut` was given."""
    ranges = [[Row(key, value) for key, value in rows] for rows in found]
    for rows in ranges:
        for at, row in enumerate(rows):
            if row.value.startswith(_NAMED):
                rows[at] = Row(row.key, (yield from _whole(engine, partition, row.value)))
            elif row.value.startswith(GONE):
                rows[at] = Row(row.key, row.value[1:])
    return ranges


def name_in(value: bytes) -> str | None:
    """The shelf that a stored row names; None where it holds its value itself."""
    return value.decode().partition("/")[2] if value.startswith(_NAMED) else None


def _whole(engine: WidePartitions, partition: Partition, value: bytes) -> Flow[bytes]:
    size, _, name = value[2:].decode().partition("/")
    parts = (yield from engine.run([Do("shelf", (*partition, name, *_ALL))]))[0]
    whole = b"".join(part for _, part in parts)
    if len(whole) != int(size):
        raise CorruptRowError("Pieces of a large row are missing.")
    return whole
