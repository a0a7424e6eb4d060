"""What else changes with a checkpoint: the counters of its session where it is put, parents of others where it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.ledger import tally_change
from langchain_sessions._core.rows import ROOTED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from langchain_sessions._core.checkpoints import CheckpointRow, Put
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import Counters, EventRow


def counted_after_put(
    view_before: LogView, view_after: LogView, touched: Iterable[EventRow], put: Put
) -> dict[str | None, Counters]:
    """How the counters of each scope change.

    Args:
        view_before: Where events stood.
        view_after: Where they stand.
        touched: The events of `touched_by_put` as they were stored: another saver may have taken over some of them.
        put: What is put.
    """
    were = [*touched]
    rows = [row._replace(flags=row.flags | ROOTED) if row.seq in put.rooted else row for row in were]
    return tally_change(were, view_before, [*rows, *put.fresh], view_after)


def mended_parents(
    rows: Iterable[CheckpointRow], kept: Collection[tuple[int, str]]
) -> Mapping[CheckpointRow, str | None]:
    """The new parent of each checkpoint that came from one which goes: the nearest before that which is left."""
    by_place = {(row.ns, row.cid): row for row in rows}
    mended: dict[CheckpointRow, str | None] = {}
    for row in by_place.values():
        parent, walked = row.parent, {row.cid}
        if (row.ns, row.cid) not in kept or (row.ns, parent) not in by_place:
            continue
        while parent is not None and (row.ns, parent) not in kept:
            walked.add(parent)
            above = by_place.get((row.ns, parent))
            parent = None if above is None or above.parent in walked else above.parent
        if parent != row.parent:
            mended[row] = parent
    return mended
