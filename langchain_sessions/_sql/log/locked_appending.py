"""Appending to a log the full way: where an id may exist already, a state changes or a message is replaced.

It reads what shares an identity with the batch and decides under the lock of the session row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, literal_column, select

from langchain_sessions._core import rows as r
from langchain_sessions._core.identity import identify_batch, require_question, require_version
from langchain_sessions._core.ledger import last_mark, tally_change, view_of
from langchain_sessions._core.rows import (
    EventRow,
    InvocationRow,
    SessionKey,
    SessionRow,
    light_row,
    moved,
    owner_shape,
    stored_row,
)
from langchain_sessions._core.state import require_owner, with_replaced
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.by_position import light_columns
from langchain_sessions._sql.log.counting import add_counters, read_invocation
from langchain_sessions._sql.log.lookup import (
    event_columns,
    insert_events,
    insert_row,
    key_values,
    locating,
    named_unfinished,
    require_session,
    session_row,
    set_session,
    skey_named,
    update_rows,
)
from langchain_sessions._sql.log.shared_state import change_shared_state
from langchain_sessions._sql.log.views import few_unfinished, unfinished_among
from langchain_sessions.errors import SessionEndedError, SessionNotFoundError
from langchain_sessions.stores._values import AppendBatch, Appended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._sql.driver.transaction import Later

_FAILED = r.MARKS["failed"]
_MOST_NAMES = 64
"""One statement per power of two is compiled and kept."""


def append_locked(tx: Transaction, key: SessionKey, batch: AppendBatch) -> Appended:
    """The full way: identities, state and standings are decided under the lock of the session row."""
    session, relatives, few = _ask_at_once(tx, key, batch) if tx.pipelines else _ask_in_turn(tx, key, batch)
    unfinished = unfinished_among(tx, session, few, [*relatives, *batch.rows])
    view = view_of(session, unfinished, batch.idle_before)
    require_question(key.id, batch, view.ledger)
    require_version(key.id, batch, relatives, view, session.last_seq)
    placed = identify_batch(key.id, batch, relatives, view, session.last_seq)
    deltas = [row.delta for row in placed.fresh if row.delta is not None]
    require_owner(session.user_id, deltas)
    ledger = view.ledger
    for edit in placed.edits:
        ledger = ledger.with_edit(edit)
    if placed.fresh:
        state, noted = with_replaced(session.state, placed.fresh) if deltas else (None, placed.fresh)
        insert_events(tx, session.skey, noted, batch.packed)
        _move_session(tx, session, batch, placed.fresh, state, ledger.encode())
        change_shared_state(tx, session.app, session.user_id, deltas)
    # What is there already was found again, and takes no position.
    last = session.last_seq + len(placed.fresh)
    after = session._replace(last_seq=last, ledger=ledger.encode())
    stood = view_of(session, unfinished, r.ALL_AWAKE)
    turned = _note_marks(tx, session, batch, placed.fresh)
    if any(row.invocation_id is not None for row in batch.rows):
        unfinished = named_unfinished(tx, after, [*relatives, *batch.rows])
    stand = view_of(after, unfinished, r.ALL_AWAKE)
    known = {row.seq: row for row in (*(row for run in turned for row in _rows_of_run(tx, session, run)), *relatives)}
    add_counters(tx, session, tally_change(known.values(), stood, [*known.values(), *placed.fresh], stand))
    return Appended(placed.rows, last, view_of(after, unfinished, batch.idle_before))


_Asked = tuple[SessionRow, list[EventRow], list[InvocationRow]]
"""The session, locked; the stored rows that share an identity with a batch; a few invocations that are not done."""


def _ask_in_turn(tx: Transaction, key: SessionKey, batch: AppendBatch) -> _Asked:
    session = require_session(tx, key, batch.now, lock=True)
    if session.ended_at is not None:
        raise SessionEndedError(key.id)
    here = {"skey": session.skey}
    idents, ids = {row.ident for row in batch.rows}, {row.id for row in batch.rows}
    # Without ids of callers in the log an event's id is its identity, and one index answers.
    if not session.aliased and all(row.event_id is None for row in batch.rows):
        asked = _ask_named(tx, here, "ident", idents)
    else:
        asked = _ask_named(tx, here, "ident", idents | ids) + _ask_named(tx, here, "event_id", ids)
    few = tx.rows(tx.prepare("few unfinished", lambda: few_unfinished(tx, param("skey"))), here)
    return session, _rows_of(asked), [InvocationRow(*row) for row in few]


def _ask_at_once(tx: Transaction, key: SessionKey, batch: AppendBatch) -> _Asked:
    """The same in one round trip: the lock is taken by the first statement, what follows sees what it waited for."""
    shape, here = owner_shape(key.owner), {"k_app": key.app, "k_id": key.id}
    statement = tx.prepare(("locate", shape, True), lambda: locating(tx, shape, lock=True))
    located = tx.later(statement, key_values(key, batch.now))
    idents, ids = {row.ident for row in batch.rows}, {row.id for row in batch.rows}
    asked = _ask_named(tx, here, "ident", idents | ids) + _ask_named(tx, here, "event_id", ids)
    open_runs = tx.later(tx.prepare("few unfinished, named", lambda: few_unfinished(tx, skey_named(tx))), here)
    tx.flush()
    if located.row is None:
        raise SessionNotFoundError(key.id)
    session = session_row(located.row)
    if session.ended_at is not None:
        raise SessionEndedError(key.id)
    return session, _rows_of(asked), [InvocationRow(*row) for row in open_runs.rows]


def _rows_of(asked: list[Later]) -> list[EventRow]:
    return sorted({stored_row(row) for answer in asked for row in answer.rows})


def _ask_named(tx: Transaction, here: Mapping[str, Any], column: str, names: set[str]) -> list[Later]:
    """Ask for the rows of a session that have one of some names in a column."""
    e = tx.tables.events.c
    asked: list[Later] = []
    left = sorted(names)
    while left:
        some, left = left[:_MOST_NAMES], left[_MOST_NAMES:]
        size = 1
        while size < len(some):
            size *= 2
        # The last name is repeated, so that a statement serves every number up to a power of two.
        named = {f"n{at}": some[min(at, len(some) - 1)] for at in range(size)}

        def build(named: Mapping[str, str] = named) -> Select[Any]:
            wanted = e[column].in_([param(name) for name in named])
            # Without a word about the third column of the index SQLite walks the whole log instead.
            indexed = wanted & (e.rev >= literal_column("0")) if column == "ident" else wanted
            skey = param("skey") if "skey" in here else skey_named(tx)
            return select(*event_columns(tx.tables)).where(e.skey == skey, indexed)

        asked.append(tx.later(tx.prepare(("named", column, size, *here), build), {**here, **named}))
    return asked


def _move_session(
    tx: Transaction,
    session: SessionRow,
    batch: AppendBatch,
    fresh: tuple[EventRow, ...],
    state: str | None,
    ledger: str | None,
) -> None:
    """Bring the session row up to date with what was inserted."""
    changes = moved(session, len(fresh), batch.now)
    if state is not None:
        changes["state"] = state
    if any(row.event_id is not None for row in fresh):
        changes["aliased"] = 1
    if ledger != session.ledger:
        changes["ledger"] = ledger
    set_session(tx, session.skey, **changes)


def _note_marks(
    tx: Transaction, session: SessionRow, batch: AppendBatch, fresh: tuple[EventRow, ...]
) -> list[tuple[str, int]]:
    """Bring the invocations up to date; those that failed or came back from failing, which moves counters."""
    table = tx.tables.invocations
    positions = {row.invocation_id: row.seq for row in reversed(fresh)}
    turned: list[tuple[str, int]] = []
    for name in sorted({row.invocation_id for row in batch.rows if row.invocation_id is not None}):
        was = read_invocation(tx, session.skey, name)
        mark = last_mark([row for row in batch.rows if row.invocation_id == name])
        status = mark or (was.status if was else r.MARKS["done"])
        first = was.first_seq if was else positions.get(name)
        if first is None:
            continue
        before = was.status if was else 0
        # Open and done events count alike; only failing takes a run's events out of sight, and its end brings them
        # back.
        if status != before and _FAILED in (status, before):
            turned.append((name, first))
        same = {"skey": session.skey, "id": name}
        if was is None:
            insert_row(tx, table, **same, first_seq=first, status=status, updated_at=batch.now)
        else:
            update_rows(tx, table, same, status=status, updated_at=batch.now)
    return turned


def _rows_of_run(tx: Transaction, session: SessionRow, run: tuple[str, int]) -> list[EventRow]:
    """The stored events that stand as a run does; a question that gave it its name came before its first event."""
    e = tx.tables.events.c
    name, first = run
    statement = select(*light_columns(tx.tables)).where(e.skey == session.skey)
    found = tx.once(statement.where(e.seq.between(first, session.last_seq), e.invocation_id == name))
    if name.startswith(r.TURN_OF):
        found = [*found, *tx.once(statement.where(e.ident == name[len(r.TURN_OF) :], e.rev >= literal_column("0")))]
    return [row for row in map(light_row, found) if row.run == name and row.seq <= session.last_seq]
