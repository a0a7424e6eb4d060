"""The part of a log that is live: what counters are made from, and what a compaction may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core import message_types as k
from langchain_sessions._core.ledger import COUNTED, moved_between, tally_change
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions.stores._partitioned.access import ROWS_AT_ONCE, Partitions
from langchain_sessions.stores._partitioned.runs import knowing, read_left, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import Counters, EventRow
    from langchain_sessions.stores._partitioned.heads import SessionHead


def scope_rows(at: Partitions, head: SessionHead, view: LogView, scope: str | None) -> Flow[list[EventRow]]:
    """Every message of a scope that is not archived, in log order."""
    cover = view.ledger.covers.get(scope)
    upto = 0 if cover is None else cover.upto
    beside = SeqSet() if cover is None else cover.holes | SeqSet.of(cover.summaries)
    rows = yield from at.events(head, (beside & SeqSet.between(1, upto)).ranges)
    rows += yield from _between(at, head, upto, head.session.last_seq)
    return [row for row in rows if row.scope == scope and row.kind < k.FIRST_RECORD]


def _between(at: Partitions, head: SessionHead, after: int, upto: int) -> Flow[list[EventRow]]:
    """What was logged after a position, up to another one."""
    found: list[EventRow] = []
    while after < upto:
        some = yield from at.some_events(head, after + 1, upto, ROWS_AT_ONCE)
        found += some
        after = some[-1].seq
    return found


def counted_between(at: Partitions, before: SessionHead, after: SessionHead) -> Flow[dict[str | None, Counters]]:
    """How the counters change from one head to another: only events are read that stand otherwise."""
    rows = yield from at.events(before, moved_between(before.view(0), after.view(0)).ranges)
    stood, stand = yield from views_between(at, before, after, rows)
    return tally_change(rows, stood, rows, stand)


def views_between(
    at: Partitions, before: SessionHead, after: SessionHead, rows: Iterable[EventRow]
) -> Flow[tuple[LogView, LogView]]:
    """Where some events stood and stand for counters, if no invocation got further between two heads."""
    left = yield from read_left(at, before, runs_of(rows))
    return before.view(0, left), after.view(0, left)


def live_rows(at: Partitions, head: SessionHead, upto: int) -> Flow[list[EventRow]]:
    """Every event up to a position that counts, of all scopes; what of all of them is archived is not read."""
    view = head.view(0)
    scopes = (None, *head.scopes)
    covers = view.ledger.covers
    floor = min(covers[scope].upto if scope in covers else 0 for scope in scopes)
    beside = SeqSet()
    for cover in covers.values():
        beside = beside | cover.holes | SeqSet.of(cover.summaries)
    rows = yield from at.events(head, (beside & SeqSet.between(1, floor)).ranges)
    rows += yield from _between(at, head, floor, upto)
    view = yield from knowing(at, head, view, rows, 0)
    return [row for row in rows if row.kind < k.FIRST_RECORD and view.standing(row) in COUNTED]
