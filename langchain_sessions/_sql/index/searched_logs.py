"""Which logs a search is about, in SQL: their sessions, and where their events stand."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, exists, select

from langchain_sessions._core.ledger import Ledger, LogView, open_invocations
from langchain_sessions._core.ranges import decode_ranges
from langchain_sessions._core.rows import InvocationRow, SessionRow, owner_shape
from langchain_sessions._sql.driver.transaction import Later, Transaction, param
from langchain_sessions._sql.log.expiry_in_sql import is_there
from langchain_sessions._sql.log.lookup import key_values, owner_criterion, session_columns, session_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions.stores._values import SearchedLogs


MOST_NAMED: Final = 512
"""Sessions that a statement names by their keys."""


class Some(NamedTuple):
    """Which of the searched sessions: those of some keys, all that no shelf holds as they are now, or simply all.

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


def searched_criteria(tx: Transaction, searched: SearchedLogs, some: Some = ALL) -> list[ColumnElement[bool]]:
    """The criteria that every statement over searched sessions carries."""
    s = tx.tables.sessions.c
    found = [s.app == param("k_app"), is_there(tx.tables)]
    if searched.session_id is not None:
        found.append(s.id == param("k_id"))
    if some.keys is not None:
        found.append(s.skey.in_([param(f"k_{at}") for at in range(some.size)]))
    if some.unshelved:
        found.append(~is_shelved(tx))
    return [*found, *owner_criterion(tx.tables, owner_shape(searched.owner))]


def is_shelved(tx: Transaction) -> ColumnElement[bool]:
    """Whether a shelf holds the session as it is now."""
    s, logs = tx.tables.sessions.c, tx.tables.recall.shelf_logs.c
    # An event more and the copy is out of date: the log is read by itself until it is shelved anew.
    return exists().where(logs.skey == s.skey, logs.last_seq == s.last_seq)


def searched_shape(searched: SearchedLogs, some: Some = ALL) -> tuple[Any, ...]:
    """What tells the statements over the searched logs from those over others."""
    return (
        owner_shape(searched.owner),
        searched.session_id is not None,
        some.keys is not None,
        some.size,
        some.unshelved,
    )


def searched_values(searched: SearchedLogs, some: Some = ALL) -> dict[str, Any]:
    """The values of `searched_criteria`."""
    values = key_values(searched.key, searched.now)
    if some.keys is not None:
        values.update(
            (f"k_{at}", some.keys[min(at, len(some.keys) - 1)] if some.keys else 0) for at in range(some.size)
        )
    return values


LogProgress = tuple[SessionRow, int, "str | None", int]
"""A session, how far its index goes, what built it, and its generation."""


def find_logs(tx: Transaction, searched: SearchedLogs) -> list[LogProgress]:
    """The searched sessions, with how far the index of each goes and what built it."""
    found = ask_progress(tx, searched)
    tx.flush()
    return progress_in(found.rows)


def progress_in(rows: Sequence[tuple[Any, ...]]) -> list[LogProgress]:
    """What `ask_progress` found."""
    return [(session_row(row[:-3]), row[-3] or 0, row[-2], row[-1] or 0) for row in rows]


def ask_progress(tx: Transaction, searched: SearchedLogs, some: Some = ALL) -> Later:
    """The searched sessions, with how far the index of each goes and what built it."""
    s, logs = tx.tables.sessions, tx.tables.recall.logs

    def build() -> Select[Any]:
        state = [logs.c.indexed_to, logs.c.fingerprint, logs.c.generation]
        return (
            select(*session_columns(tx.tables), *state)
            .select_from(s.outerjoin(logs, logs.c.skey == s.c.skey))
            .where(*searched_criteria(tx, searched, some))
            .order_by(s.c.skey)
        )

    return tx.later(
        tx.prepare(("recall logs", *searched_shape(searched, some)), build), searched_values(searched, some)
    )


def load_views(tx: Transaction, searched: SearchedLogs, sessions: Sequence[SessionRow]) -> dict[int, LogView]:
    """Where the events of each session stand."""
    found = find_unfinished(tx, searched)
    tx.flush()
    return views_of(searched, sessions, found.rows)


def find_unfinished(tx: Transaction, searched: SearchedLogs, some: Some = ALL) -> Later:
    """The invocations of some sessions that are not done."""
    s, table = tx.tables.sessions, tx.tables.invocations

    def build() -> Select[Any]:
        columns = [table.c.skey, table.c.id, table.c.first_seq, table.c.status, table.c.updated_at]
        joined = s.join(table, table.c.skey == s.c.skey)
        unfinished = table.c.status.in_([1, 3, 4])
        return select(*columns).select_from(joined).where(*searched_criteria(tx, searched, some), unfinished)

    statement = tx.prepare(("recall unfinished", *searched_shape(searched, some)), build)
    return tx.later(statement, searched_values(searched, some))


def views_of(
    searched: SearchedLogs, sessions: Sequence[SessionRow], rows: Sequence[tuple[Any, ...]]
) -> dict[int, LogView]:
    """Where the events of each session stand, by the outcome of `find_unfinished`."""
    unfinished: dict[int, list[InvocationRow]] = defaultdict(list)
    for skey, *row in rows:
        unfinished[skey].append(InvocationRow(*row))
    return {
        session.skey: LogView(
            Ledger.decode(session.ledger),
            None if session.head_runs is None else tuple(decode_ranges(session.head_runs)),
            open_invocations(unfinished.get(session.skey, ()), searched.idle_before),
            session.last_seq,
        )
        for session in sessions
    }
