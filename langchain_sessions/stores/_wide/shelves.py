"""What keeps a partition small: rows that are old move to shelves, partitions of their own that a key tells.

Both steps may be repeated and happen twice at once. A row is copied with the time at which it was written, so a copy
never hides a newer one; then one deletion, with the time of the newest row that was copied, removes all of them.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions.errors import StoreUnavailableError
from langchain_sessions.stores._partitioned.keys import shelf_of
from langchain_sessions.stores._wide import pieces
from langchain_sessions.stores._wide.work import NO_LIMIT, Do, Known
from langchain_sessions.stores.engine import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._wide.engine import WidePartitions
    from langchain_sessions.stores.engine import Partition

MOST: Final = 10_485_760
"""The weight from which on a partition is sealed."""
_LEAST: Final = MOST // 20_480
"""What a row weighs at least, so that there are never more than 10 000 events with a name each."""
KEPT: Final = MOST // 4
_FIRST, LAST = "\x01", "\x7f"
_COPIED_AT_ONCE: Final = 1024
_COPIED_BYTES: Final = 500_000


def weight_of(rows: Mapping[str, bytes | None]) -> int:
    """What rows weigh."""
    return sum(max(len(key) + len(value or b""), _LEAST) for key, value in rows.items())


def late() -> int:
    """A time for deletions of what nobody writes any more: later than any clock's."""
    # Ten minutes: more than clocks of a cluster differ.
    return int((time.time() + 600) * 1_000_000)


def write(partition: Partition, known: Known, key: str, value: bytes | None) -> Do:
    """Set or remove a row. Where it may be on a shelf or under way to one, a mark hides it: a deletion would not."""
    if value is None and (known.shelved or known.weight - known.moved > MOST):
        value = pieces.GONE
    return Do("drop_row", (*partition, key)) if value is None else Do("set_row", (value, *partition, key))


def live(partition: Partition, wanted: Range) -> Do:
    """Read a range of the rows that are in the partition itself."""
    limit = NO_LIMIT if wanted.limit is None else min(wanted.limit, NO_LIMIT)
    name = "rows_newest" if wanted.newest else "rows"
    return Do(name, (*partition, max(wanted.low, _FIRST), wanted.high, limit))


# -- reading -----------------------------------------------------------------------------------------------


def read(engine: WidePartitions, partition: Partition, known: Known, ranges: Sequence[Range]) -> Flow[list[list[Any]]]:
    """Ranges of a partition of which a part may be on shelves, or go there while it is read."""
    found = yield from _read(engine, partition, known.shelved, ranges)
    if known.weight - known.moved > MOST // 2:
        now = Known.of((yield from engine.run([Do("head", (*partition,))]))[0])
        # Rows were moved while they were read: what was gone from here was not yet looked for there.
        if now.moved != known.moved:
            return (yield from _read(engine, partition, now.shelved, ranges))
    return found


def _read(
    engine: WidePartitions, partition: Partition, highest: Mapping[str, str], ranges: Sequence[Range]
) -> Flow[list[list[Any]]]:
    """First the partition's own rows, all at once; then of each range what is on shelves."""
    first = yield from engine.run([live(partition, wanted) for wanted in ranges])
    if not highest:
        return first
    found: list[list[Any]] = []
    for wanted, rows in zip(ranges, first, strict=True):
        found.append((yield from _merged(engine, partition, highest, wanted, rows)))
    return found


def _merged(
    engine: WidePartitions, partition: Partition, highest: Mapping[str, str], wanted: Range, rows: list[Any]
) -> Flow[list[Any]]:
    """Fill a range a window at a time: as far as both the partition and its shelves were read."""
    found: list[Any] = []
    left = wanted
    while True:
        window = _covered(left, rows)
        below: list[Any] = []
        if any(part < window.high and key >= window.low for part, key in highest.items()):
            below = yield from _from_shelves(engine, partition, window)
        window = _covered(window, below)
        both = {**dict(below), **dict(rows)}
        keys = sorted((key for key in both if window.low <= key < window.high), reverse=wanted.newest)
        found += [(key, both[key]) for key in keys if both[key] != pieces.GONE]
        if wanted.limit is not None and len(found) >= wanted.limit:
            return found[: wanted.limit]
        if (window.low, window.high) == (left.low, left.high):
            return found
        left = left._replace(high=window.low) if wanted.newest else left._replace(low=window.high)
        rows = (yield from engine.run([live(partition, left)]))[0]


def _covered(wanted: Range, rows: Sequence[Any]) -> Range:
    """The part of a range that some rows are all of: as far as the last one, where there may be more."""
    if wanted.limit is None or len(rows) < wanted.limit:
        return wanted
    last: str = rows[-1][0]
    return wanted._replace(low=last) if wanted.newest else wanted._replace(high=f"{last}\0")


def _from_shelves(engine: WidePartitions, partition: Partition, wanted: Range) -> Flow[list[Any]]:
    """The rows of a range that are on shelves, as many as it asks for."""
    name = "shelf_newest" if wanted.newest else "shelf"
    limit = NO_LIMIT if wanted.limit is None else min(wanted.limit, NO_LIMIT)
    low, high = max(wanted.low, _FIRST), wanted.high
    near = shelf_of(high if wanted.newest else low)
    found = (yield from engine.run([Do(name, (*partition, near, low, high, limit))]))[0]
    if len(found) >= limit or shelf_of(low) == shelf_of(high):
        return found
    asked = Do("shelf", (*partition, "", shelf_of(low) or _FIRST, high, NO_LIMIT))
    names = [row[0] for row in (yield from engine.run([asked]))[0] if row[0] != near]
    for shelf in reversed(names) if wanted.newest else names:
        found += (yield from engine.run([Do(name, (*partition, shelf, low, high, limit - len(found)))]))[0]
        if len(found) >= limit:
            break
    return found


# -- sealing -----------------------------------------------------------------------------------------------


def seal(engine: WidePartitions, partition: Partition) -> Flow[None]:
    """Move all but the newest rows to shelves. Where that does not work the next commit tries again."""
    try:
        yield from _seal(engine, partition)
    except StoreUnavailableError:
        return


def _seal(engine: WidePartitions, partition: Partition) -> Flow[None]:
    known = yield from engine.read_serially(partition)
    rows = (yield from engine.run([Do("rows_written", (*partition,))]))[0]
    rows.sort(key=lambda row: row[2], reverse=True)
    kept = first = 0
    while first < len(rows) and kept < KEPT:
        kept += weight_of({rows[first][0]: rows[first][1]})
        first += 1
    old = rows[first:]
    while old and first and rows[first - 1][2] == old[0][2]:
        old.pop(0)  # the rows of one commit stay together
    if known.head is None or not old:
        return
    highest, names = dict(known.shelved), set[str]()
    for key, _, _ in old:
        names.add(shelf_of(key))
        highest[_part_of(key)] = max(highest.get(_part_of(key), ""), key)
    # Copied, and then named, before anything is removed: at no moment is a row in neither place.
    yield from _copy(engine, partition, old)
    newest = old[0][2]
    yield from engine.run([Do("set_shelf", (newest, b"", *partition, "", shelf)) for shelf in sorted(names)])
    moved = known.weight - kept
    text = json.dumps(highest, separators=(",", ":"))
    work = [Do("seal", (newest, moved, text, *partition)), Do("drop_rows", (newest, *partition, LAST))]
    yield from engine.together(work)
    engine.forget(partition)


def _copy(engine: WidePartitions, partition: Partition, rows: Iterable[Any]) -> Flow[None]:
    """Copy rows a batch at a time: those of one shelf are one partition, which takes a tenth of single statements."""
    work: list[Do] = []
    last, size = "", 0
    for key, value, written in sorted(rows, key=lambda row: shelf_of(row[0])):
        shelf = shelf_of(key)
        if work and (shelf != last or size > _COPIED_BYTES or len(work) >= _COPIED_AT_ONCE):
            yield from engine.together(work)
            work, size = [], 0
        where = (*partition, shelf, key)
        is_gone = value == pieces.GONE
        work.append(Do("drop_in_shelf", (written, *where)) if is_gone else Do("set_shelf", (written, value, *where)))
        last, size = shelf, size + len(value)
    if work:
        yield from engine.together(work)


def _part_of(key: str) -> str:
    """The beginning of a key up to its part, of which `Known.shelved` has the highest one."""
    return key[: key.find("/", key.find("/") + 1) + 1]


# -- removing ----------------------------------------------------------------------------------------------


def remove(engine: WidePartitions, partition: Partition, below: str) -> Flow[None]:
    """Remove the shelves whose keys are smaller, those of pieces among them."""
    for index in ("", pieces.INDEX):
        found = (yield from engine.run([Do("shelf", (*partition, index, _FIRST, below, NO_LIMIT))]))[0]
        yield from _remove(engine, partition, index, [name for name, _ in found])


def _remove(engine: WidePartitions, partition: Partition, index: str, names: Sequence[str]) -> Flow[None]:
    """Remove some shelves, then their names."""
    now = late()
    yield from engine.run([Do("drop_shelf", (now, *partition, name)) for name in names])
    yield from engine.run([Do("drop_in_shelf", (now, *partition, index, name)) for name in names])


def remove_replaced(engine: WidePartitions, partition: Partition) -> Flow[None]:
    """Remove what still stands of rows that were written over: their copies on shelves, and pieces that none names."""
    known = yield from engine.read_serially(partition)
    if known.head is None:
        return
    is_moving = known.weight - known.moved > MOST
    if known.shelved or is_moving:
        times = (yield from engine.run([Do("rows_times", (*partition,))]))[0]
        # What was copied of a row is older than the row; what will be copied of it is as old.
        yield from engine.run(
            [
                Do("drop_in_shelf", (written - 1, *partition, shelf_of(key), key))
                for key, written in times
                if is_moving or key <= known.shelved.get(_part_of(key), "")
            ]
        )
    named = (yield from engine.run([Do("shelf_times", (*partition, pieces.INDEX))]))[0]
    if not named:
        return
    newest = (yield from engine.run([Do("newest_write", (*partition,))], serial=True))[0][0][0]
    # Pieces are written behind the head that their commit replaces: older ones stand, or belong to what was lost.
    old = [name for name, written in named if written < newest]
    keys = [name.rpartition("~")[0] for name in old]
    rows = yield from read(engine, partition, known, [Range(key, f"{key}!", 1) for key in keys])
    stand = {pieces.name_in(value) for found in rows for _, value in found}
    yield from _remove(engine, partition, pieces.INDEX, [name for name in old if name not in stand])
