"""Which logs a search is about, in SQL: the sessions of a scope and where their events stand."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, exists, or_, select

from langchain_sessions._core.ledger import Ledger, LogView, open_invocations
from langchain_sessions._core.ranges import decode_runs
from langchain_sessions._core.rows import InvocationRow, SessionRow, owner_shape
from langchain_sessions._sql.driver.transaction import Later, Transaction, param
from langchain_sessions._sql.log.lookup import key_values, owner_criterion, session_columns, session_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions.stores._values import LogScope


MOST_NAMED: Final = 512
"""Sessions that a statement names by their keys."""


class Some(NamedTuple):
    """Which sessions of a scope: those of some keys, all that no shelf holds as they are now, or simply all.

    Attributes:
        keys: These.
        unshelved: Those that no shelf holds.
    """

    keys: tuple[int, ...] | None = None
    unshelved: bool = False

    @property
    def size(self) -> int:
        """How many keys a statement has room for: few shapes for all numbers of them."""
        return 0 if self.keys is None else 1 << max(0, len(self.keys) - 1).bit_length()


ALL: Final = Some()


def scope_criteria(tx: Transaction, scope: LogScope, some: Some = ALL) -> list[ColumnElement[bool]]:
    """The criteria that every statement over the sessions of a scope carries."""
    s = tx.tables.sessions.c
    found = [s.app == param("k_app"), or_(s.expires_at.is_(None), s.expires_at > param("k_now"))]
    if scope.session_id is not None:
        found.append(s.id == param("k_id"))
    if some.keys is not None:
        found.append(s.skey.in_([param(f"k_{at}") for at in range(some.size)]))
    if some.unshelved:
        found.append(~is_shelved(tx))
    return [*found, *owner_criterion(tx.tables, owner_shape(scope.owner))]


def is_shelved(tx: Transaction) -> ColumnElement[bool]:
    """Whether a shelf holds the session as it is now."""
    s, logs = tx.tables.sessions.c, tx.tables.recall.shelf_logs.c
    return exists().where(logs.skey == s.skey, logs.last_seq == s.last_seq)


def scope_shape(scope: LogScope, some: Some = ALL) -> tuple[Any, ...]:
    """What tells the statements over a scope from those over others."""
    return owner_shape(scope.owner), scope.session_id is not None, some.keys is not None, some.size, some.unshelved


def scope_values(scope: LogScope, some: Some = ALL) -> dict[str, Any]:
    """The values of `scope_criteria`."""
    values = key_values(scope.key, scope.now)
    if some.keys is not None:
        values.update(
            (f"k_{at}", some.keys[min(at, len(some.keys) - 1)] if some.keys else 0) for at in range(some.size)
        )
    return values


LogPlace = tuple[SessionRow, int, "str | None", int]
"""A session, how far its index goes, what built it, and its generation."""


def find_logs(tx: Transaction, scope: LogScope) -> list[LogPlace]:
    """The sessions of a scope, with how far the index of each goes and what built it."""
    found = find_places(tx, scope)
    tx.flush()
    return places_of(found.rows)


def places_of(rows: Sequence[tuple[Any, ...]]) -> list[LogPlace]:
    """What `find_places` found."""
    return [(session_row(row[:-3]), row[-3] or 0, row[-2], row[-1] or 0) for row in rows]


def find_places(tx: Transaction, scope: LogScope, some: Some = ALL) -> Later:
    """The sessions of a scope, with how far the index of each goes and what built it."""
    s, logs = tx.tables.sessions, tx.tables.recall.logs

    def build() -> Select[Any]:
        state = [logs.c.indexed_to, logs.c.fingerprint, logs.c.generation]
        return (
            select(*session_columns(tx.tables), *state)
            .select_from(s.outerjoin(logs, logs.c.skey == s.c.skey))
            .where(*scope_criteria(tx, scope, some))
            .order_by(s.c.skey)
        )

    return tx.later(tx.prepare(("recall logs", *scope_shape(scope, some)), build), scope_values(scope, some))


def load_views(tx: Transaction, scope: LogScope, sessions: Sequence[SessionRow]) -> dict[int, LogView]:
    """Where the events of each session stand."""
    found = find_unfinished(tx, scope)
    tx.flush()
    return views_of(scope, sessions, found.rows)


def find_unfinished(tx: Transaction, scope: LogScope, some: Some = ALL) -> Later:
    """The invocations of some sessions that are not done."""
    s, table = tx.tables.sessions, tx.tables.invocations

    def build() -> Select[Any]:
        columns = [table.c.skey, table.c.id, table.c.first_seq, table.c.status, table.c.updated_at]
        joined = s.join(table, table.c.skey == s.c.skey)
        unfinished = table.c.status.in_([1, 3, 4])
        return select(*columns).select_from(joined).where(*scope_criteria(tx, scope, some), unfinished)

    statement = tx.prepare(("recall unfinished", *scope_shape(scope, some)), build)
    return tx.later(statement, scope_values(scope, some))


def views_of(scope: LogScope, sessions: Sequence[SessionRow], rows: Sequence[tuple[Any, ...]]) -> dict[int, LogView]:
    """Where the events of each session stand, by the outcome of `find_unfinished`."""
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
