"""A compaction: what it covers, and whether its range was touched since it was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core import rows as r
from langchain_sessions._core.ledger import Cover, LogView, encode_cover
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import with_extra
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.stores._values import ArchivePlan


class Archived(NamedTuple):
    """A compaction ready to be written."""

    cover: Cover
    rows: tuple[EventRow, ...]


def settle_archive(
    plan: ArchivePlan, near: Sequence[EventRow], view: LogView, old_covers: Sequence[list[int]]
) -> Archived | None:
    """Turn a plan into rows, or None when its range was touched since it was made.

    Args:
        plan: The plan.
        near: At least every row of the scope that is not archived already, up to the last covered position.
        view: Where they stand now.
        old_covers: Runs that the compaction in force covers.
    """
    old = view.ledger.covers.get(plan.scope)
    covered = [row for row in near if row.seq in plan.covered]
    if (old.record if old else 0) != plan.base_record or len(covered) != len(plan.covered) or not covered:
        return None
    valid = (Standing.LIVE, Standing.INTERRUPTED)
    if any(row.scope != plan.scope or view.standing(row) not in valid for row in covered):
        return None
    first = min(row.place for row in covered)
    upto, top = max(row.place for row in covered), max(row.seq for row in covered)
    carried: tuple[int, ...] = ()
    if old is not None:
        first, upto, top = min(first, old.first), max(upto, old.upto), max(top, old.top)
        carried = old.summaries
    at = view.last_seq + 1
    new = tuple(range(at + 1, at + 1 + len(plan.summaries)))
    holes = _left_out(plan, near, view, upto)
    cover = Cover(plan.scope, at, first, upto, top, holes, new or carried, plan.record.at)
    total = plan.covered | SeqSet(tuple((low, high) for low, high in old_covers))
    extra = with_extra(with_extra(plan.record.extra, "covers", total.runs), "mark", encode_cover(cover))
    rows = [plan.record._replace(seq=at, branch=plan.scope, extra=extra)]
    for seq, summary in zip(new, plan.summaries, strict=True):
        named = with_extra(summary.extra, "covers", total.runs)
        flags = summary.flags | r.SUMMARY | r.SYNTHETIC
        rows.append(summary._replace(seq=seq, position=first, flags=flags, branch=plan.scope, extra=named))
    return Archived(cover, tuple(rows))


def _left_out(plan: ArchivePlan, near: Sequence[EventRow], view: LogView, upto: int) -> SeqSet:
    """What of the range is not covered: its events, and those that their edits superseded.

    The latter come back when the edit is rewound, and must not be taken for archived then.
    """
    old = view.ledger.covers.get(plan.scope)
    covered = {row.place for row in near if row.seq in plan.covered}
    found: list[int] = []
    for row in near:
        mine = row.scope == plan.scope and row.kind < r.FIRST_RECORD and not row.flags & r.SUMMARY
        if not mine or row.place > upto or row.place in covered or (old is not None and old.covers(row)):
            continue
        if view.standing(row) not in (Standing.REWOUND, Standing.ARCHIVED):
            found.append(row.seq)
    return SeqSet.of(found)
