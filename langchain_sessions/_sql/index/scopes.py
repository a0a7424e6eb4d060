"""Which logs a search is about, in SQL: the sessions of a scope and where their events stand."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, or_, select

from langchain_sessions._core.ledger import Ledger, LogView, open_invocations
from langchain_sessions._core.ranges import decode_runs
from langchain_sessions._core.rows import InvocationRow, SessionRow, owner_shape
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.lookup import key_values, owner_criterion, session_columns, session_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions.stores._values import LogScope


def scope_criteria(tx: Transaction, scope: LogScope) -> list[ColumnElement[bool]]:
    """The criteria that every statement over the sessions of a scope carries."""
    s = tx.tables.sessions.c
    found = [s.app == param("k_app"), or_(s.expires_at.is_(None), s.expires_at > param("k_now"))]
    if scope.session_id is not None:
        found.append(s.id == param("k_id"))
    return [*found, *owner_criterion(tx.tables, owner_shape(scope.owner))]


def scope_shape(scope: LogScope) -> tuple[str, bool]:
    """What tells the statements over a scope from those over others."""
    return owner_shape(scope.owner), scope.session_id is not None


def scope_values(scope: LogScope) -> dict[str, Any]:
    """The values of `scope_criteria`."""
    return key_values(scope.key, scope.now)


LogPlace = tuple[SessionRow, int, "str | None", int]
"""A session, how far its index goes, what built it, and its generation."""


def find_logs(tx: Transaction, scope: LogScope) -> list[LogPlace]:
    """The sessions of a scope, with how far the index of each goes and what built it."""
    s, logs = tx.tables.sessions, tx.tables.recall.logs

    def build() -> Select[Any]:
        state = [logs.c.indexed_to, logs.c.fingerprint, logs.c.generation]
        return (
            select(*session_columns(tx.tables), *state)
            .select_from(s.outerjoin(logs, logs.c.skey == s.c.skey))
            .where(*scope_criteria(tx, scope))
            .order_by(s.c.skey)
        )

    rows = tx.rows(tx.prepare(("recall logs", *scope_shape(scope)), build), scope_values(scope))
    return [(session_row(row[:-3]), row[-3] or 0, row[-2], row[-1] or 0) for row in rows]


def load_views(tx: Transaction, scope: LogScope, sessions: Sequence[SessionRow]) -> dict[int, LogView]:
    """Where the events of each session stand."""
    s, table = tx.tables.sessions, tx.tables.invocations

    def build() -> Select[Any]:
        columns = [table.c.skey, table.c.id, table.c.first_seq, table.c.status, table.c.updated_at]
        joined = s.join(table, table.c.skey == s.c.skey)
        return select(*columns).select_from(joined).where(*scope_criteria(tx, scope), table.c.status.in_([1, 3, 4]))

    rows = tx.rows(tx.prepare(("recall unfinished", *scope_shape(scope)), build), scope_values(scope))
    unfinished: dict[int, list[InvocationRow]] = defaultdict(list)
    for skey, *row in rows:
        unfinished[skey].append(InvocationRow(*row))
    return {
        session.skey: LogView(
            Ledger.decode(session.ledger),
            None if session.head_runs is None else tuple(decode_runs(session.head_runs)),
            open_invocations(unfinished.get(session.skey, ()), scope.idle_before),
            session.last_seq,
        )
        for session in sessions
    }
