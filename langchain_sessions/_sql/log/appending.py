"""Appending to a log the fast way, which serves what nearly every append is: new messages of one scope.

It bumps the session row and inserts, without reading anything: on PostgreSQL one statement, on MariaDB three round
trips with the commit, on SQLite one short transaction. What it cannot answer goes the full way, in `locked_appending`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Select, Table, case, exists, func, insert, literal_column, update

from langchain_sessions._core import rows as r
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import last_mark
from langchain_sessions._core.rows import (
    ACTIVITY_GRAIN,
    OWNER_SHAPES,
    Counters,
    EventRow,
    SessionKey,
    bytes_of,
    counted,
    due_times,
)
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.log.expiry import renewed
from langchain_sessions._sql.log.locked_appending import append_locked
from langchain_sessions._sql.log.lookup import (
    check_position,
    insert_events,
    key_criteria,
    skey_named,
    update_rows,
)
from langchain_sessions._sql.log.side_rows import note_invocation, note_scope, side_source
from langchain_sessions.errors import StoreError
from langchain_sessions.stores._values import AppendBatch, Appended

if TYPE_CHECKING:
    from sqlalchemy.sql.dml import Insert, Update

    from langchain_sessions._sql.store import SqlStore


_MOST_BYTES = 32 * 1024 * 1024
"""A batch that says more goes to PostgreSQL row by row."""
_FAILED = r.MARKS["failed"]
# Rows are made by the thousand, and the constructor of a named tuple takes twice as long.
_tuple = tuple.__new__


def append_events(store: SqlStore, key: SessionKey, batch: AppendBatch) -> Flow[Appended]:
    """Append the fast way, or else the full way."""
    in_one = store.flavour == "postgresql"
    if is_plain(batch, in_one=in_one):
        kind = TransactionKind.STATEMENT if in_one else TransactionKind.APPEND
        try:
            appended = yield from ask(store.run, kind, append_plain, key, batch)
        except StoreError as error:
            # Somebody has the id already: whether with the same message, only the full way can tell. And what one
            # statement could not make of a state that is damaged, it tells.
            if not isinstance(error, UniqueViolationError) and (type(error) is not StoreError or not in_one):
                raise
            appended = None
        if appended is not None:
            return appended
    # Whatever the reason (ended, expired, aliased ids, a version), the full way finds it under the lock and says it.
    return (yield from ask(store.run, TransactionKind.APPEND, append_locked, key, batch))


def is_plain(batch: AppendBatch, *, in_one: bool = False) -> bool:
    """Whether the fast way may serve the batch, `in_one` statement if asked."""
    first = batch.rows[0]
    if batch.replaces_only or (in_one and len(batch.rows) > 1 and bytes_of(batch.rows) > _MOST_BYTES):
        return False
    branch, invocation_id = first.branch, first.invocation_id
    for row in batch.rows:
        # Identities that the caller gave and failures change more than this log's newest rows.
        if row.event_id is not None or (row.flags >> r.MARK_SHIFT) & 7 == _FAILED:
            return False
        # So does state; one statement can change that of the session, once.
        if row.delta is not None and (not in_one or row is not first or not _is_of_session(row.delta)):
            return False
        # One statement adds to the counters of one scope and to one invocation.
        if row.branch != branch or row.invocation_id != invocation_id:
            return False
    return True


def _is_of_session(delta: str) -> bool:
    from langchain_sessions._sql.log.one_statement import is_of_session

    return is_of_session(delta)


def append_plain(tx: Transaction, key: SessionKey, batch: AppendBatch) -> Appended | None:
    """The fast way. None, with nothing written, where only the full way can answer.

    Raises:
        UniqueViolationError: An id exists already.
    """
    values = _bump_values(key, batch)
    if tx.flavour == "postgresql":
        return _append_in_one(tx, key, batch, values)
    statement = tx.prepare(("bump", *_shape(key, batch)), lambda: _bump(tx, key, batch))
    if tx.flavour == "mysql":
        if tx.run(statement, values) == 0:
            return None
        # `LAST_INSERT_ID(expression)` hands a value of the changed row back with the UPDATE's answer: no second round
        # trip.
        last = tx.last_id
        rows = _numbered(key, batch, last)
        insert_by_subselect(tx, key, rows)
    else:
        found = tx.row(statement, values)
        if found is None:
            return None
        skey, last, *times = found
        rows = _numbered(key, batch, last)
        insert_events(tx, skey, rows)
        if times:
            _move_times(tx, skey, batch.now, *times)
    if rows[0].invocation_id is not None or rows[0].branch is not None:
        for upserted, upsert_values in _side_rows(tx, key, batch, rows[0].seq):
            tx.run(upserted, upsert_values)
    return Appended(rows, last)


def _numbered(key: SessionKey, batch: AppendBatch, last: int) -> tuple[EventRow, ...]:
    check_position(key.id, last)
    rows = batch.rows
    first = last - len(rows) + 1
    return tuple([_tuple(EventRow, (first + at, *row[1:])) for at, row in enumerate(rows)])


def _shape(key: SessionKey, batch: AppendBatch) -> tuple[Any, ...]:
    named = batch.rows[0].invocation_id is not None
    return (OWNER_SHAPES.get(type(key.owner), "is"), batch.expected_version is not None, named)


def _bump_values(key: SessionKey, batch: AppendBatch) -> dict[str, Any]:
    rows = batch.rows
    first = rows[0]
    events, turns, tokens = counted(rows) if first.branch is None else (0, 0, 0)
    return {
        "k_app": key.app,
        "k_id": key.id,
        "k_owner": key.owner,
        "k_now": batch.now,
        "k_expected": batch.expected_version,
        "k_invocation": first.invocation_id,
        "b_count": len(rows),
        "b_events": events,
        "b_turns": turns,
        "b_tokens": tokens,
    }


def _bump(tx: Transaction, key: SessionKey, batch: AppendBatch) -> Update:
    """Move the session row on by the size of the batch, if the fast way may serve it."""
    s = tx.tables.sessions
    owner, expects, named = _shape(key, batch)
    now = param("k_now", BigInteger())
    next_seq = s.c.last_seq + param("b_count", BigInteger())
    changes: dict[str, Any] = {
        "last_seq": func.last_insert_id(next_seq) if tx.flavour == "mysql" else next_seq,
        "updated_at": now,
        "live_events": s.c.live_events + param("b_events", BigInteger()),
        "live_turns": s.c.live_turns + param("b_turns", BigInteger()),
        "live_tokens": s.c.live_tokens + param("b_tokens", BigInteger()),
    }
    if tx.flavour != "sqlite":
        # SQLite writes the indexes of every column that is named here, changed or not: see `_move_times`.
        changes["activity"] = case((s.c.activity <= now - ACTIVITY_GRAIN, now), else_=s.c.activity)
        changes["expires_at"] = renewed(tx.tables, now)
    statement = (
        update(s)
        # With `aliased` some event bears an id of the caller's, which the unique index on identities does not know.
        .where(*key_criteria(tx.tables, owner), s.c.ended_at.is_(None), s.c.aliased == literal_column("0"))
        .values(**changes)
    )
    if expects:
        statement = statement.where(s.c.last_seq == param("k_expected"))
    if named:
        i = tx.tables.invocations.c
        # A run that failed and writes again comes back into view, with all that it wrote: counters move by its rows.
        failed = exists().where(i.skey == s.c.skey, i.id == param("k_invocation"), i.status == _FAILED)
        statement = statement.where(~failed)
    if tx.flavour == "mysql":
        return statement
    times = (s.c.activity, s.c.expires_at, s.c.renewal, s.c.renewal_grain) if tx.flavour == "sqlite" else ()
    return statement.returning(s.c.skey, s.c.last_seq, *times)


def _move_times(
    tx: Transaction, skey: int, now: int, activity: int, expires_at: int | None, renewal: int | None, grain: int | None
) -> None:
    """SQLite: move on what is indexed, where it is due at all; of a conversation, once a minute."""
    if changes := due_times(now, activity, expires_at, renewal, grain):
        update_rows(tx, tx.tables.sessions, {"skey": skey}, **changes)


def insert_by_subselect(tx: Transaction, key: SessionKey, rows: tuple[EventRow, ...]) -> None:
    """Insert where the session key is not known: MariaDB's UPDATE returns nothing."""

    def build() -> Insert:
        named = {name: param(name) for name in EventRow._fields}
        return insert(tx.tables.events).values(skey=skey_named(tx), **named)

    statement = tx.prepare("insert by subselect", build)
    tx.run_many(statement, [{"k_app": key.app, "k_id": key.id, **row._asdict()} for row in rows])


def _side_rows(tx: Transaction, key: SessionKey, batch: AppendBatch, first_seq: int) -> list[tuple[Any, Any]]:
    """The upserts that accompany a batch: its invocation and the counters of its branch."""
    found: list[tuple[Any, Any]] = []
    row = batch.rows[0]
    place = {"k_app": key.app, "k_id": key.id}
    s = tx.tables.sessions.c

    def located(table: Table) -> Select[Any]:
        return side_source(table, s.skey).where(s.app == param("k_app"), s.id == param("k_id"))

    if row.invocation_id is not None:
        mark = last_mark(batch.rows)
        table = tx.tables.invocations
        statement = tx.prepare(
            ("note invocation", bool(mark)),
            lambda: note_invocation(tx, located(table), marked=bool(mark)),
        )
        found.append((statement, {**place, **_invocation_values(batch, mark, first_seq)}))
    if row.branch is not None:
        scopes = tx.tables.scopes
        statement = tx.prepare("note scope", lambda: note_scope(tx, located(scopes)))
        found.append((statement, {**place, **_scope_values(batch)}))
    return found


def _invocation_values(batch: AppendBatch, mark: int, first_seq: int) -> dict[str, Any]:
    """The row of a batch's invocation."""
    return {
        "id": batch.rows[0].invocation_id,
        "first_seq": first_seq,
        "status": mark or r.MARKS["done"],
        "updated_at": batch.now,
    }


def _scope_values(batch: AppendBatch) -> dict[str, Any]:
    scope = batch.rows[0].branch
    return {"scope": scope, **dict(zip(Counters._fields, counted(batch.rows), strict=True))}


def _append_in_one(tx: Transaction, key: SessionKey, batch: AppendBatch, values: dict[str, Any]) -> Appended | None:
    """PostgreSQL: bump, insert and side rows in one round trip."""
    # Who has another database does not load it: a cold process is felt more than any append.
    from langchain_sessions._sql.log.one_statement import known_again, prepare_one

    first = batch.rows[0]
    if first.invocation_id is not None:
        values.update(_invocation_values(batch, last_mark(batch.rows), 0))
    if first.branch is not None:
        values.update(_scope_values(batch))
    found = tx.row(prepare_one(tx, key, batch, lambda: _bump(tx, key, batch), values), values)
    if found is None:
        return None
    last, *known = found
    return Appended(_numbered(key, batch, last), last) if last is not None else known_again(key, batch, *known)
