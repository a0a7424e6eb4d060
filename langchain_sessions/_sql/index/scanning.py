"""Events of several logs at once, in SQL: at known places, or all that meet a query."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, and_, or_, select

from langchain_sessions._core.ledger import LogView
from langchain_sessions._core.matching import matches
from langchain_sessions._core.rows import EventRow, SessionKey
from langchain_sessions._core.stretch import Stretch, next_stretch
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.index.scopes import (
    find_logs,
    load_views,
    scope_criteria,
    scope_shape,
    scope_values,
)
from langchain_sessions._sql.log.criteria import criteria_of
from langchain_sessions._sql.log.lookup import event_columns, load_view, locate
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores._values import EventQuery, EventSlice, LogScan, LogScope, LogSlice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._core.ranges import SeqSet

_SINGLES = 64


def load_events(tx: Transaction, scope: LogScope, places: Mapping[str, SeqSet]) -> list[LogSlice]:
    """The contract's `load_events`."""
    e = tx.tables.events.c
    found: list[LogSlice] = []
    for session_id, seqs in places.items():
        key = SessionKey(scope.app, session_id, scope.owner)
        session = locate(tx, key, scope.now)
        if session is None:
            continue
        rows: list[EventRow] = []
        view = load_view(tx, session, scope.idle_before)
        for start in range(0, len(seqs.runs), _SINGLES):
            some = seqs.runs[start : start + _SINGLES]
            size = 1
            while size < len(some):
                size *= 2
            some = (*some, *[(0, -1)] * (size - len(some)))
            values: dict[str, Any] = {"skey": session.skey}
            values.update((f"q_{at}_{side}", run[side]) for at, run in enumerate(some) for side in (0, 1))

            def build(size: int = size) -> Select[Any]:
                wanted = [e.seq.between(param(f"q_{at}_0"), param(f"q_{at}_1")) for at in range(size)]
                # Both bounds of each range beside the session, so that every one of them is looked up in the key.
                either = or_(*(and_(e.skey == param("skey"), each) for each in wanted))
                return select(*event_columns(tx.tables)).where(either)

            rows += [EventRow(*row) for row in tx.rows(tx.prepare(("recall events", size), build), values)]
        found.append(LogSlice(session, EventSlice(sorted(rows), view)))
    return found


def scan_logs(tx: Transaction, scope: LogScope, query: EventQuery, after: tuple[int, int] = (0, 0)) -> LogScan:
    """The contract's `scan_logs`: one indexed statement over the events of all sessions of a stretch."""
    sessions = [place[0] for place in find_logs(tx, scope)]
    if scope.session_id is not None and not sessions:
        raise SessionNotFoundError(scope.session_id)
    stretch = next_stretch(sessions, after)
    if stretch is None:
        return LogScan([], None)
    views = load_views(tx, scope, stretch.sessions)
    # Only where events stand differs from log to log; the rest is the same clause for all of them.
    newest = LogView(last_seq=max(session.last_seq for session in stretch.sessions))
    found: dict[int, list[EventRow]] = defaultdict(list)
    for skey, *row in _rows(tx, scope, replace(query, standings=frozenset()), newest, stretch):
        event = EventRow(*row)
        if skey in views and event.seq <= views[skey].last_seq and matches(event, query, views[skey]):
            found[skey].append(event)
    slices = [
        LogSlice(session, EventSlice(found.get(session.skey, []), views[session.skey]))
        for session in stretch.sessions
        if session.skey in found or scope.session_id is not None
    ]
    return LogScan(slices, stretch.after)


def _rows(
    tx: Transaction, scope: LogScope, query: EventQuery, newest: LogView, stretch: Stretch
) -> list[tuple[Any, ...]]:
    s, e = tx.tables.sessions, tx.tables.events
    criteria = criteria_of(query, newest, tx.tables, tx.flavour)

    def build() -> Select[Any]:
        joined = s.join(e, e.c.skey == s.c.skey)
        part = [
            s.c.skey.between(param("s_first"), param("s_last")),
            e.c.seq > param("s_low"),
            e.c.seq <= param("s_high"),
        ]
        return (
            select(e.c.skey, *event_columns(tx.tables))
            .select_from(joined)
            .where(*scope_criteria(tx, scope), *part, *(criterion.build() for criterion in criteria))
        )

    values = scope_values(scope)
    for criterion in criteria:
        values.update(criterion.values)
    first, last = stretch.sessions[0].skey, stretch.sessions[-1].skey
    values.update(s_first=first, s_last=last, s_low=stretch.low, s_high=stretch.high)
    shape = ("recall scan", *scope_shape(scope), *(criterion.shape for criterion in criteria))
    return sorted(tx.rows(tx.prepare(shape, build), values), key=lambda row: row[:2])
