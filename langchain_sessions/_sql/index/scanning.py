"""Events of several logs at once, in SQL: at known places, or all that meet a query."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import ScalarSelect, Select, and_, or_, select

from langchain_sessions._core.ledger import LogView
from langchain_sessions._core.matching import EventQuery, asks_for_words, holds_keywords, matches
from langchain_sessions._core.rows import SessionKey, owner_shape
from langchain_sessions._core.stretch import Stretch, next_stretch
from langchain_sessions._sql.driver.transaction import Later, Row, Transaction, param
from langchain_sessions._sql.index.searched_logs import (
    event_and_run_columns,
    events_in,
    find_logs,
    searched_criteria,
    searched_shape,
    searched_values,
    sessions_now,
    view_with,
)
from langchain_sessions._sql.log.criteria import criteria_of
from langchain_sessions._sql.log.lookup import key_criteria, key_values, locating, session_row
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores._values import EventSlice, LogScan, LogSlice, SearchedLogs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._core.ranges import SeqSet

# Ranges in one statement; more of them go into another of the same shape.
_SINGLES = 64


def load_events(tx: Transaction, searched: SearchedLogs, places: Mapping[str, SeqSet]) -> list[LogSlice]:
    """The contract's `load_events`. All of it is asked for before the first answer is needed.

    The sessions last: their lists have what checkpoints took in that came before the events were read.
    """
    waiting: list[tuple[Later, list[Later]]] = []
    shape = owner_shape(searched.owner)
    for session_id, seqs in places.items():
        key = SessionKey(searched.app, session_id, searched.owner)
        values = {**key_values(key, searched.now), "q_idle": searched.idle_before}
        session = tx.later(tx.prepare(("recall session", shape), lambda: locating(tx, shape, lock=False)), values)
        asked = [_asked(tx, shape, seqs, start, values) for start in range(0, len(seqs.ranges), _SINGLES)]
        waiting.append((session, asked))
    tx.flush()
    logs = [
        (session_row(located.row), *events_in(row for each in asked for row in each.rows))
        for located, asked in waiting
        if located.row is not None
    ]
    newer = sessions_now(tx, searched, ((session, rows) for session, rows, _ in logs))
    return [
        LogSlice(session, EventSlice(sorted(rows), view_with(session, runs, newer.get(session.skey))))
        for session, rows, runs in logs
    ]


def _key_of(tx: Transaction, shape: str) -> ScalarSelect[Any]:
    """The session's own key, by the criteria that every statement on it carries."""
    return select(tx.tables.sessions.c.skey).where(*key_criteria(tx.tables, shape)).scalar_subquery()


def _asked(tx: Transaction, shape: str, seqs: SeqSet, start: int, key: Mapping[str, Any]) -> Later:
    """The rows of some of the ranges."""
    e = tx.tables.events.c
    some = seqs.ranges[start : start + _SINGLES]
    size = 1 << max(0, len(some) - 1).bit_length()
    some = (*some, *[(0, -1)] * (size - len(some)))
    values = {**key, **{f"q_{at}_{side}": run[side] for at, run in enumerate(some) for side in (0, 1)}}

    def build() -> Select[Any]:
        wanted = [e.seq.between(param(f"q_{at}_0"), param(f"q_{at}_1")) for at in range(size)]
        # Both bounds of each range beside the session, so that every one of them is looked up in the key.
        either = or_(*(and_(e.skey == _key_of(tx, shape), each) for each in wanted))
        return select(*event_and_run_columns(tx.tables)).where(either)

    return tx.later(tx.prepare(("recall events", shape, size), build), values)


def scan_logs(tx: Transaction, searched: SearchedLogs, query: EventQuery, after: tuple[int, int] = (0, 0)) -> LogScan:
    """The contract's `scan_logs`: one indexed statement over the events of all sessions of a stretch."""
    sessions = [place[0] for place in find_logs(tx, searched)]
    if searched.session_id is not None and not sessions:
        raise SessionNotFoundError(searched.session_id)
    stretch = next_stretch(sessions, after)
    if stretch is None:
        return LogScan([], None)
    # Only where events stand differs from log to log; the rest is the same clause for all of them.
    newest = LogView(last_seq=max(session.last_seq for session in stretch.sessions))
    read: dict[int, list[Row]] = defaultdict(list)
    for skey, *row in _rows(tx, searched, replace(query, standings=frozenset()), newest, stretch):
        read[skey].append(tuple(row))
    holds = partial(holds_keywords, query=query) if asks_for_words(query) else None
    logs = [(session, *events_in(read.pop(session.skey, ()), holds)) for session in stretch.sessions]
    newer = sessions_now(tx, searched, ((session, rows) for session, rows, _ in logs))
    slices: list[LogSlice] = []
    for session, rows, runs in logs:
        view = view_with(session, runs, newer.get(session.skey))
        found = [row for row in rows if row.seq <= session.last_seq and matches(row, query, view)]
        if found or searched.session_id is not None:
            slices.append(LogSlice(session, EventSlice(found, view)))
    return LogScan(slices, stretch.after)


def _rows(
    tx: Transaction, searched: SearchedLogs, query: EventQuery, newest: LogView, stretch: Stretch
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
            select(e.c.skey, *event_and_run_columns(tx.tables))
            .select_from(joined)
            .where(*searched_criteria(tx, searched), *part, *(criterion.build() for criterion in criteria))
        )

    values = searched_values(searched)
    for criterion in criteria:
        values.update(criterion.values)
    first, last = stretch.sessions[0].skey, stretch.sessions[-1].skey
    values.update(s_first=first, s_last=last, s_low=stretch.low, s_high=stretch.high)
    shape = ("recall scan", *searched_shape(searched), *(criterion.shape for criterion in criteria))
    return sorted(tx.rows(tx.prepare(shape, build), values), key=lambda row: row[:2])
