"""Checking a session: everything that is derived is built again from its log and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.ledger import Ledger, count_scope, marks_of
from langchain_sessions._core.state import (
    apply_deltas,
    is_same_state,
)
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Partitions, event_rows
from langchain_sessions.stores._partitioned.heads import load_event
from langchain_sessions.stores._partitioned.rewinding import read_marks
from langchain_sessions.stores._partitioned.runs import all_left, knowing

if TYPE_CHECKING:
    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores.engine import Row


def verify_session(at: Partitions, key: SessionKey, now: int) -> Flow[list[str]]:
    """The contract's `verify_session`."""
    while True:
        head = yield from at.require(key, now)
        found = yield from _problems(at, head)
        again = yield from at.require(key, now)
        # Without a transaction a check is one of a version that stood still; beside writers it begins again.
        if again.version == head.version:
            return found


def _problems(at: Partitions, head: SessionHead) -> Flow[list[str]]:
    events = [load_event(row.value) for row in (yield from _part(at, head, keys.EVENT))]
    session = head.session
    found: list[str] = []
    if [row.seq for row in events] != list(range(1, session.last_seq + 1)):
        found.append("positions are not gap-free")
    stored: set[tuple[str, bytes]] = set()
    for part in (keys.NAME, keys.DELTA):
        stored |= {*(yield from _part(at, head, part))}
    derived = event_rows(head.skey, events)
    parts = tuple(f"{keys.at(head.skey, part)}/" for part in (keys.NAME, keys.DELTA))
    if stored != {(name, value) for name, value in derived.items() if name.startswith(parts)}:
        found.append("names or deltas differ from the log")
    marks = marks_of(events)
    if marks != (yield from read_marks(at, head)):
        found.append("marks differ from the log")
    ledger = Ledger.of(marks, session.last_seq)
    if ledger.encode() != session.ledger:
        found.append("ledger differs from the log")
    deltas = (row.delta for row in events if row.seq not in ledger.hidden)
    if not is_same_state(apply_deltas(session.initial_state, deltas), session.state):
        found.append("state differs from the log")
    view = yield from knowing(at, head, head.view(0), events, 0)
    if len((yield from all_left(at, head))) != head.left:
        found.append("runs that are not done differ from the head")
    wrong = (scope for scope in (None, *head.scopes) if count_scope(events, view, scope) != head.counters(scope))
    names = ("the root" if scope is None else repr(scope) for scope in wrong)
    return [*found, *(f"counters of {name} differ from the log" for name in names)]


def _part(at: Partitions, head: SessionHead, part: str) -> Flow[list[Row]]:
    return (yield from at.all_rows(head, keys.under(keys.at(head.skey, part))))
