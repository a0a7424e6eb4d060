"""A compaction: what it covers, and whether its range was touched since it was planned.

All that takes longer the more is archived is prepared before anybody has to wait. Under the lock of a session it is
only looked at whether the grounds of it still stand, and a few rows are written, as for an append.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.ledger import Cover, LogView, encode_cover, tally_change
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import with_extra
from langchain_sessions.errors import CorruptRowError
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.ranges import SeqRange
    from langchain_sessions._core.rows import Counters, EventRow, SessionRow
    from langchain_sessions.stores._values import ArchivePlan

_MOST_TOKENS: Final = 1 << 62
"""More overflow a counter."""


class Archived(NamedTuple):
    """A compaction ready to be written, and how the counters of each scope change with it."""

    cover: Cover
    rows: tuple[EventRow, ...]
    counted: Mapping[str | None, Counters]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compaction that may be written wherever the log ends, as long as its grounds stand.

    Attributes:
        plan: What was planned.
        range: The events of its range, and which runs they belong to.
        grounds: What decided where those stand.
        cover: The cover, but for the positions of its record and its summaries.
        covers: All that is archived in the scope then.
        counted: How the counters change.
    """

    plan: ArchivePlan
    range: tuple[SeqSet, frozenset[str], int, bool]
    grounds: tuple[Any, ...]
    cover: Cover
    covers: tuple[SeqRange, ...]
    counted: Mapping[str | None, Counters]

    def stands(self, session: SessionRow, view: LogView) -> bool:
        """Whether nothing that decides about its range has changed."""
        return _grounds(self.plan, self.range, session, view) == self.grounds

    def at(self, last_seq: int) -> Archived:
        """It, as what follows on a position."""
        return _numbered(self.plan, self.cover, self.covers, self.counted, last_seq)


def prepare_archive(
    plan: ArchivePlan,
    near: Sequence[EventRow],
    session: SessionRow,
    views: tuple[LogView, LogView],
    old_covers: Sequence[list[int]],
) -> Prepared | None:
    """Turn a plan into what can be written, or None when its range was touched since it was made.

    Args:
        plan: The plan.
        near: At least every row of the scope that is not archived already, up to the last covered position.
        session: The session.
        views: Where the rows stand now, and where they stand for counters.
        old_covers: Runs that the compaction in force covers.

    Raises:
        CorruptRowError: A row counts more tokens than can be.
    """
    view, counting = views
    old = view.ledger.covers.get(plan.scope)
    covered = [row for row in near if row.seq in plan.covered]
    if (old.record if old else 0) != plan.base_record or len(covered) != len(plan.covered) or not covered:
        return None
    # A run that is open or failed may still come back into a context, and then has to be there.
    valid = (Standing.LIVE, Standing.INTERRUPTED)
    if any(row.scope != plan.scope or view.standing(row) not in valid for row in covered):
        return None
    first = min(row.place for row in covered)
    upto, top = max(row.place for row in covered), max(row.seq for row in covered)
    carried: tuple[int, ...] = ()
    if old is not None:
        first, upto, top = min(first, old.first), max(upto, old.upto), max(top, old.top)
        # Without a summary of its own a wider compaction keeps the one that stands.
        carried = old.summaries
    cover = Cover(plan.scope, 0, first, upto, top, _left_out(plan, near, view, upto), carried, plan.record.at)
    covers = (plan.covered | SeqSet(tuple((low, high) for low, high in old_covers))).ranges
    # What counts does not depend on where the rows are put.
    trial = _numbered(plan, cover, covers, {}, view.last_seq)
    after = LogView(counting.ledger.with_cover(trial.cover), counting.head, counting.invocations, view.last_seq)
    counted = tally_change(near, counting, [*near, *trial.rows], after)
    # Where the counters are written none of these rows is read again, and what overflows them would be taken for a
    # mistake.
    if any(abs(each.tokens) >= _MOST_TOKENS for each in counted.values()):
        problem = f"An event of session {session.id!r} cannot be read: no message has so many tokens; others can."
        raise CorruptRowError(problem)
    beside = [row for row in near if row.place <= upto]
    is_rooted = all(row.flags & r.ROOTED for row in beside)
    runs = frozenset(row.run for row in beside if row.run is not None)
    extent = (SeqSet.of(row.seq for row in beside), runs, upto, is_rooted)
    return Prepared(plan, extent, _grounds(plan, extent, session, view), cover, covers, counted)


def _grounds(
    plan: ArchivePlan, extent: tuple[SeqSet, frozenset[str], int, bool], session: SessionRow, view: LogView
) -> tuple[Any, ...]:
    """What decides where the events of a range stand: the same again means that each stands as it did."""
    seqs, runs, upto, is_rooted = extent
    ledger = view.ledger
    return (
        ledger.covers.get(plan.scope),
        ledger.hidden & seqs,
        tuple(edit for edit in ledger.edits if edit.position <= upto or edit.replaces in seqs),
        SeqSet.of_runs(view.head or ()) & seqs,
        # What a graph takes into its messages for the first time belongs to the root from then on.
        None if is_rooted else session.head_id,
        {run: view.invocations[run] for run in runs & view.invocations.keys()},
    )


def _numbered(
    plan: ArchivePlan, cover: Cover, covers: Sequence[SeqRange], counted: Mapping[str | None, Counters], last_seq: int
) -> Archived:
    at = last_seq + 1
    new = tuple(range(at + 1, at + 1 + len(plan.summaries)))
    cover = replace(cover, record=at, summaries=new or cover.summaries)
    extra = with_extra(with_extra(plan.record.extra, "covers", covers), "mark", encode_cover(cover))
    rows = [plan.record._replace(seq=at, branch=plan.scope, extra=extra)]
    for seq, summary in zip(new, plan.summaries, strict=True):
        named = with_extra(summary.extra, "covers", covers)
        flags = summary.flags | r.SUMMARY | r.SYNTHETIC
        rows.append(summary._replace(seq=seq, position=cover.first, flags=flags, branch=plan.scope, extra=named))
    return Archived(cover, tuple(rows), counted)


def _left_out(plan: ArchivePlan, near: Sequence[EventRow], view: LogView, upto: int) -> SeqSet:
    """What of the range is not covered: its events, and those that their edits superseded.

    The latter come back when the edit is rewound, and must not be taken for archived then.
    """
    old = view.ledger.covers.get(plan.scope)
    covered = {row.place for row in near if row.seq in plan.covered}
    found: list[int] = []
    for row in near:
        mine = row.scope == plan.scope and row.kind < k.FIRST_RECORD and not row.flags & r.SUMMARY
        if not mine or row.place > upto or row.place in covered or (old is not None and old.covers(row)):
            continue
        if view.standing(row) not in (Standing.REWOUND, Standing.ARCHIVED):
            found.append(row.seq)
    return SeqSet.of(found)
