"""The view of a log as a session row and its invocations give it, and what counts as live in it."""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING

from langchain_sessions._core.ledger import Ledger, LogView
from langchain_sessions._core.ranges import decode_runs
from langchain_sessions._core.rows import Counters, tally
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.rows import EventRow, InvocationRow, SessionRow


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


COUNTED = (Standing.LIVE, Standing.INTERRUPTED, Standing.OPEN)


def count_scope(rows: Iterable[EventRow], view: LogView, scope: str | None) -> Counters:
    """The counters of one scope, from its rows. Running invocations count; failed ones do not."""
    live = (row for row in rows if row.scope == scope and view.standing(row) in COUNTED)
    return tally(live).get(scope, Counters())


def tally_change(
    before: Iterable[EventRow], view_before: LogView, after: Iterable[EventRow], view_after: LogView
) -> dict[str | None, Counters]:
    """How the counters change when some rows stood in one way before and stand in another after; only what does."""
    old = tally(row for row in before if view_before.standing(row) in COUNTED)
    new = tally(row for row in after if view_after.standing(row) in COUNTED)
    nothing = Counters()
    changes = {scope: Counters(*map(sub, new.get(scope, nothing), old.get(scope, nothing))) for scope in {**old, **new}}
    return {scope: change for scope, change in changes.items() if change != nothing}
