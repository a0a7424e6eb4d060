"""How far the invocations of a log got.

Each has a row under its name. The head knows those that are not done, but of many only the newest: a log gathers runs
that failed or were interrupted and keeps them for ever, and each call reads the head. What the head does not know lies
in rows of its own, of which a call reads those that its events belong to.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core import rows as r
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.ledger import open_invocations
from langchain_sessions._core.rows import InvocationRow
from langchain_sessions.errors import CorruptRowError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.heads import dump_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.stores._partitioned.access import Partitions, Rows
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores.engine import Range, Row

FEW = 8
"""Invocations that are not done, in a head."""
_MOST_MOVED = 64
"""Rows that one commit makes of what a head knew before there was a bound."""
_DONE = r.MARKS["done"]


class RunChange(NamedTuple):
    """How far an invocation had got, None where it is new, and how far it got."""

    was: InvocationRow | None
    now: InvocationRow


def _key_of(head: SessionHead, part: str, name: str) -> str:
    return f"{keys.at(head.skey, part)}/{keys.digest(name)}"


def load_run(row: Row) -> InvocationRow:
    """What a row says of an invocation.

    Raises:
        CorruptRowError: It is something else.
    """
    try:
        return InvocationRow(*json.loads(row.value))
    except UNREADABLE as error:
        raise CorruptRowError("How far a run got cannot be read, or was written by a newer release.") from error


def read_run(at: Partitions, head: SessionHead, name: str) -> Flow[InvocationRow | None]:
    """How far an invocation got."""
    found = (yield from at.rows(head, [keys.exactly(_key_of(head, keys.RUN, name))]))[0]
    return load_run(found[0]) if found else None


def with_runs(head: SessionHead, changes: Iterable[RunChange]) -> tuple[SessionHead, Rows]:
    """The head after some invocations got further, and the rows that change with it."""
    known, left = dict(head.unfinished), head.left
    rows: Rows = {}
    for was, now in changes:
        rows[_key_of(head, keys.RUN, now.id)] = dump_json(now)
        if known.pop(now.id, None) is None and was is not None and was.status != _DONE:
            rows[_key_of(head, keys.LEFT, now.id)] = None
            left -= 1
        if now.status != _DONE:
            known[now.id] = now  # behind the others: it is the newest
    for run in [*known.values()][: max(0, min(len(known) - FEW, _MOST_MOVED))]:
        del known[run.id]
        rows[_key_of(head, keys.LEFT, run.id)] = dump_json(run)
        left += 1
    return replace(head, unfinished=known, left=left), rows


# -- what the head does not know -----------------------------------------------------------------------------


def runs_of(rows: Iterable[EventRow]) -> set[str]:
    """The invocations to which some events belong."""
    return {name for row in rows if (name := row.run) is not None}


def left_ranges(head: SessionHead, names: Iterable[str]) -> list[Range]:
    """Where it says how far some invocations got that the head does not know; nowhere, if it knows all."""
    if not head.left:
        return []
    # By the rows that all runs have: what another writer takes up again meanwhile is left no longer, but is not done.
    return [keys.exactly(_key_of(head, keys.RUN, name)) for name in sorted(names) if name not in head.unfinished]


def read_left(at: Partitions, head: SessionHead, names: Iterable[str]) -> Flow[list[InvocationRow]]:
    """How far some invocations got that the head does not know; nothing, if it knows all."""
    ranges = left_ranges(head, names)
    if not ranges:
        return []
    return [load_run(row) for rows in (yield from at.rows(head, ranges)) for row in rows]


def all_left(at: Partitions, head: SessionHead) -> Flow[list[InvocationRow]]:
    """All that are not done and that the head does not know."""
    if not head.left:
        return []
    found = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.LEFT)))
    return [load_run(row) for row in found]


def knowing(
    at: Partitions, head: SessionHead, view: LogView, rows: Iterable[EventRow], idle_before: int
) -> Flow[LogView]:
    """A view of the head that tells where some events stand, whichever invocations they belong to."""
    if not head.left:
        return view
    found = yield from read_left(at, head, runs_of(rows) - view.invocations.keys())
    if not found:
        return view
    return replace(view, invocations={**view.invocations, **open_invocations(found, idle_before)})
