"""Lists of partitions, newest first, and of what is due: each cut by time, so that no part of it grows for ever.

An entry is written before the commit that it is for and removed after the next one. Who reads it compares it with the
head, so one that is left behind does no harm.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from langchain_sessions._core.rows import Anyone
from langchain_sessions.stores._wide.work import NO_LIMIT, Do
from langchain_sessions.stores.engine import Listed, Partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.rows import Owner
    from langchain_sessions.stores._wide.engine import WidePartitions
    from langchain_sessions.stores.engine import Head

_DAY: Final = 86_400_000_000
_ALL, _DUE, _NOBODY = "*", "due", "-"
_CATALOG: Final = -1
"""The bucket that has the numbers of the others."""
# Buckets that this process knows to be in the catalogue; to note one twice does no harm.
_MOST_NOTED: Final = 50_000
_LONGEST_LIFE: Final = 20 * 365 * 86_400
_SHORTEST_LIFE: Final = 86_400
_END: Final = 2**63 - 1


def _of(owner: str | None) -> str:
    return _NOBODY if owner is None else f"={owner}"


def _span(name: str) -> int:
    """How long the entries of one bucket are: a month of a user's, a day of everybody's."""
    return _DAY if name in (_ALL, _DUE) else 30 * _DAY


def _places(head: Head | None) -> Iterator[tuple[str, int, int]]:
    """The lists that a head is in, each with its place."""
    if head is not None and head.listed is not None:
        yield (_of(head.owner), *head.listed)
        yield (_ALL, *head.listed)
    if head is not None and head.due is not None:
        yield (_DUE, head.due, 0)


def _gained(head: Head | None, other: Head | None) -> list[tuple[str, int, int]]:
    """The places that a head has and another has not; of a head and the next one nearly always none."""
    if head and other and (head.owner, head.listed, head.due) == (other.owner, other.listed, other.due):
        return []
    return sorted({*_places(head)} - {*_places(other)})


def life(head: Head) -> int:
    """Seconds for which a head that is in no list stays, such as a tombstone; 0 for what stays until it is removed."""
    if head.listed is not None or head.due is None:
        return 0
    return min(max(_SHORTEST_LIFE, head.due // 1_000_000 - int(time.time())), _LONGEST_LIFE)


def entering(noted: set[tuple[str, str, int]], partition: Partition, before: Head | None, after: Head) -> list[Do]:
    """The entries of a head that the one before it did not have."""
    work: list[Do] = []
    for name, at, number in _gained(after, before):
        bucket = at // _span(name)
        key = (partition.app, name, bucket)
        work.append(Do("enter", (*key, at, number, partition.kind, partition.id, life(after))))
        if key not in noted:
            work.append(Do("enter", (partition.app, name, _CATALOG, bucket, 0, "", "", 0)))
            if len(noted) >= _MOST_NOTED:
                noted.clear()
            noted.add(key)
    return work


def leaving(partition: Partition, before: Head | None, after: Head | None) -> list[Do]:
    """Take away the entries that a head has no more."""
    return [
        Do("leave", (partition.app, name, at // _span(name), at, number, partition.kind, partition.id))
        for name, at, number in _gained(before, after)
    ]


def list_heads(
    engine: WidePartitions, app: str, owner: Owner, after: tuple[int, int] | None, limit: int
) -> Flow[list[Listed]]:
    """The engine's `list_heads`."""
    name = _ALL if isinstance(owner, Anyone) else _of(owner)
    start = (_END, _END) if after is None else after
    buckets = yield from _buckets(engine, app, name)
    left = [bucket for bucket in buckets if bucket <= start[0] // _span(name)]
    found: list[Listed] = []
    width = 1
    while left and len(found) < limit:
        some, left = left[:width], left[width:]
        width = min(width * 2, 16)
        asked = [Do("list", (app, name, bucket, *start, min(limit, NO_LIMIT))) for bucket in some]
        for rows in (yield from engine.run(asked)):
            found += [Listed(Partition(app, kind, each), (at, number)) for kind, each, at, number in rows]
    return found[:limit]


def list_due(engine: WidePartitions, app: str, before: int, after: Listed | None, limit: int) -> Flow[list[Listed]]:
    """The engine's `list_due`."""
    start = (-1, 0, "", "") if after is None else (*after.place, after.partition.kind, after.partition.id)
    buckets = yield from _buckets(engine, app, _DUE)
    first, last = start[0] // _DAY, before // _DAY
    left = [bucket for bucket in reversed(buckets) if first <= bucket <= last]
    found: list[Listed] = []
    width = 1
    while left and len(found) < limit:
        some, left = left[:width], left[width:]
        width = min(width * 2, 16)
        asked = [Do("due", (app, _DUE, bucket, *start, before, min(limit, NO_LIMIT))) for bucket in some]
        for rows in (yield from engine.run(asked)):
            found += [Listed(Partition(app, kind, each), (at, number)) for kind, each, at, number in rows]
    return found[:limit]


def _buckets(engine: WidePartitions, app: str, name: str) -> Flow[list[int]]:
    """The numbers of the buckets of a list, the newest first."""
    found = yield from engine.run([Do("buckets", (app, name, _CATALOG))])
    return [row[0] for row in found[0]]
