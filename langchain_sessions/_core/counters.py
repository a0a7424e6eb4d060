"""Counters of what is live, kept per scope by difference."""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING

from langchain_sessions._core import rows as r
from langchain_sessions._core.rows import Counters
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow


COUNTED = (Standing.LIVE, Standing.INTERRUPTED, Standing.OPEN)


def tally(rows: Iterable[EventRow]) -> dict[str | None, Counters]:
    """What rows add to the counters of each scope."""
    counted: dict[str | None, Counters] = {}
    for row in rows:
        if row.kind >= r.FIRST_RECORD:
            continue
        scope = row.scope
        turn = 1 if row.flags & r.TURN else 0
        was = counted.get(scope)
        if was is None:
            counted[scope] = Counters(1, turn, row.tokens)
        else:
            counted[scope] = Counters(was.events + 1, was.turns + turn, was.tokens + row.tokens)
    return counted


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
