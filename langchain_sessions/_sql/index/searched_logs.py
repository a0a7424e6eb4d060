"""Which logs a search is about, in SQL: their sessions, and where their events stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, bindparam, exists, select

from langchain_sessions._core.ledger import OF_RUNS, Ledger, LogView
from langchain_sessions._core.matching import may_have_moved_on
from langchain_sessions._core.ranges import decode_ranges
from langchain_sessions._core.rows import EventRow, SessionRow, owner_shape, stored_row
from langchain_sessions._sql.driver.transaction import Later, Prepared, Transaction, binding, param
from langchain_sessions._sql.log.criteria import run_status
from langchain_sessions._sql.log.expiry_in_sql import is_there
from langchain_sessions._sql.log.lookup import event_columns, key_values, owner_criterion, session_columns, session_row
from langchain_sessions._sql.tables.types import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from langchain_sessions._core.ranges import SeqRange
    from langchain_sessions._sql.tables.schema import Tables
    from langchain_sessions.events import Standing
    from langchain_sessions.stores._values import SearchedLogs

_STATUS: Final = quoted("status")
_PLACE: Final = re.compile(r"(?:\?|%s|\$([0-9]+))(?:::[A-Z]+)?")
"""Where a value is given, as the dialects write it."""


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
        found.append(named_keys(tx))
    if some.unshelved:
        found.append(~is_shelved(tx))
    return [*found, *owner_criterion(tx.tables, owner_shape(searched.owner))]


def named_keys(tx: Transaction) -> ColumnElement[bool]:
    """Whether the key of a session is one of those that are named: `prepared_for` has room for the others."""
    return tx.tables.sessions.c.skey.in_(bindparam("k", [None], expanding=True))


def named_values(some: Some) -> dict[str, Any]:
    """The values of `named_keys`."""
    keys = some.keys
    if keys is None:
        return {}
    return {f"k_{at + 1}": keys[min(at, len(keys) - 1)] if keys else 0 for at in range(some.size)}


def prepared_for(tx: Transaction, some: Some, shape: tuple[Hashable, ...], build: Callable[[], Any]) -> Prepared:
    """The statement of this shape over some sessions. It is compiled for one key, and widened for more."""
    known, key = tx.cache.known, (*shape, some.size)
    if not some.size:
        return tx.prepare(key, build)
    if key not in known:
        known[key] = Widened(tx.prepare((*shape, 1), build), "k", some.size)
    return known[key]


class Widened(Prepared):
    """A statement with room for `name_1` to `name_size` where another has one place for `name_1` in a list.

    To compile it again would take milliseconds for each size.
    """

    __slots__ = ()

    def __init__(self, narrow: Prepared, name: str, size: int) -> None:
        """Write the places down."""
        text, names = narrow.text, narrow.names
        at, more = names.index(f"{name}_1"), tuple([f"{name}_{each}" for each in range(2, size + 1)])
        places, known = [*_PLACE.finditer(text)], len(names)
        assert places[0][1] or len(places) == known, "only values may be written as values are"
        if places[0][1]:  # by number: what is new comes last
            place = next(each for each in places if each[1] == str(at + 1))
            listed = [place[0].replace(place[1], str(number), 1) for number in range(known + 1, known + size)]
            self.names = (*names, *more)
        else:
            place = places[at]
            listed = [place[0]] * (size - 1)
            self.names = (*names[: at + 1], *more, *names[at + 1 :])
        self.text = f"{text[: place.start()]}{', '.join([place[0], *listed])}{text[place.end() :]}"
        self.columns, self.fixed = narrow.columns, narrow.fixed
        self.bind = binding(self.names, self.fixed)


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
        some.unshelved,
    )


def searched_values(searched: SearchedLogs, some: Some = ALL) -> dict[str, Any]:
    """The values of `searched_criteria`."""
    return {**key_values(searched.key, searched.now), "q_idle": searched.idle_before, **named_values(some)}


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

    statement = prepared_for(tx, some, ("recall logs", *searched_shape(searched, some)), build)
    return tx.later(statement, searched_values(searched, some))


def event_and_run_columns(tables: Tables) -> list[ColumnElement[Any]]:
    """What `events_in` reads; the statement has a value for `q_idle`."""
    return [*event_columns(tables), run_status(tables).label(_STATUS)]


def events_in(
    rows: Iterable[tuple[Any, ...]], holds: Callable[[EventRow], bool] | None = None
) -> tuple[list[EventRow], dict[str, Standing]]:
    """Events, and where those of them stand whose runs are not done: other runs of their logs were not looked at.

    What does not pass `holds` is let go at once: packed texts may be a thousand times as long as they lie there.
    """
    found: list[EventRow] = []
    runs: dict[str, Standing] = {}
    for row in rows:
        event = stored_row(row[:-1])
        if holds is not None and not holds(event):
            continue
        found.append(event)
        if row[-1] is not None and event.run is not None:
            runs[event.run] = OF_RUNS[row[-1]]
    return found, runs


def sessions_now(
    tx: Transaction, searched: SearchedLogs, read: Iterable[tuple[SessionRow, list[EventRow]]]
) -> dict[int, SessionRow]:
    """The sessions once more where a checkpoint may have come before their events were read: it is in their lists."""
    moved = tuple([session.skey for session, rows in read if may_have_moved_on(rows, _head_of(session))])
    if not moved:
        return {}
    found = ask_progress(tx, searched, Some(moved) if len(moved) <= MOST_NAMED else ALL)
    tx.flush()
    return {place[0].skey: place[0] for place in progress_in(found.rows)}


def view_with(session: SessionRow, runs: Mapping[str, Standing], newer: SessionRow | None = None) -> LogView:
    """Where those events of a session stand that were read, given their runs, and the lists of a newer look at it.

    Of a newer look nothing else: an edit that came in between would hide what was read, and is not among it.
    """
    return LogView(Ledger.decode(session.ledger), _head_of(newer or session), runs, session.last_seq)


def _head_of(session: SessionRow) -> tuple[SeqRange, ...] | None:
    return None if session.head_runs is None else tuple(decode_ranges(session.head_runs))
