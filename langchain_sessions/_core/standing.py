"""The view of a log as a session row and its invocations give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.ledger import Ledger, LogView
from langchain_sessions._core.ranges import decode_runs
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.rows import InvocationRow, SessionRow


_STANDINGS = {1: Standing.OPEN, 3: Standing.FAILED, 4: Standing.INTERRUPTED}


def open_invocations(rows: Iterable[InvocationRow], idle_before: int) -> dict[str, Standing]:
    """The standing that each invocation gives its events; one left open for too long has failed."""
    found: dict[str, Standing] = {}
    for row in rows:
        standing = _STANDINGS.get(row.status)
        if standing is Standing.OPEN and row.updated_at < idle_before:
            standing = Standing.FAILED
        if standing is not None:
            found[row.id] = standing
    return found


def view_of(session: SessionRow, unfinished: Iterable[InvocationRow], idle_before: int) -> LogView:
    """Where the events of a session stand, given its invocations that are not done."""
    standings = open_invocations(unfinished, idle_before)
    head = None if session.head_runs is None else tuple(decode_runs(session.head_runs))
    return LogView(Ledger.decode(session.ledger), head, standings, session.last_seq)
