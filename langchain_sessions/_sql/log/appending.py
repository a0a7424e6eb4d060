"""Appending to a log the fast way, which serves what nearly every append is: new messages of one scope.

It bumps the session row and inserts, without reading anything: on PostgreSQL one statement, on MariaDB three round
trips with the commit, on SQLite one short transaction. What it cannot answer goes the full way, in `locked_appending`.
"""

from __future__ import annotations

from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Table,
    case,
    exists,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)

from langchain_sessions._core import rows as r
from langchain_sessions._core.edge import UNREADABLE, built
from langchain_sessions._core.flow import LARGE, Flow, ask
from langchain_sessions._core.ledger import OF_RUNS, LogView, last_mark
from langchain_sessions._core.packed_texts import NOTHING_PACKED, packed_ahead, packed_form
from langchain_sessions._core.rows import (
    ACTIVITY_GRAIN,
    OWNER_SHAPES,
    STORED,
    Counters,
    EventRow,
    SessionKey,
    bytes_of,
    counted,
    due_times,
)
from langchain_sessions._core.state import reaches_further, with_replaced
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.transaction import Row, Transaction, param
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.log.expiry_in_sql import renewed
from langchain_sessions._sql.log.locked_appending import append_locked
from langchain_sessions._sql.log.lookup import check_position, insert_events, key_criteria, skey_named
from langchain_sessions._sql.log.side_rows import note_invocation, note_scope, side_source
from langchain_sessions.errors import StoreError
from langchain_sessions.stores._values import AppendBatch, Appended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.sql.dml import Insert, Update

    from langchain_sessions._core.packed_texts import Packed
    from langchain_sessions._sql.store import SqlStore


_MOST_BYTES = 32 * 1024 * 1024
"""A batch that says more goes to PostgreSQL row by row."""
_PLAIN = (TransactionKind.APPEND, TransactionKind.STATEMENT)
"""The transaction of the fast way: of several statements, or of one."""
_GIVEN = (
    *("k_app", "k_id", "k_owner", "k_now", "k_expected"),
    *("k_invocation", "b_count", "b_events", "b_turns", "b_tokens"),
)
"""The values of a statement on the session row, in their order."""
_KNOWN = ("skey", "b_before", "b_last", *_GIVEN)
Heads = dict[SessionKey, tuple[int, int, int]]
"""Of sessions where this process left them: the key, the newest position and the activity. What they are now the
database says: it moves none on that is elsewhere."""
_MOST_HEADS = 1_000
_FAILED = r.MARKS["failed"]
_MARK, _MARKED_FAILED = 7 << r.MARK_SHIFT, _FAILED << r.MARK_SHIFT
# Rows are made by the thousand, and the constructor of a named tuple takes twice as long.
_tuple = tuple.__new__
_ONE: ColumnElement[int] = literal_column("1", BigInteger())
_counting: Callable[[EventRow], tuple[int, int]] = itemgetter(*map(EventRow._fields.index, ("flags", "tokens")))


def append_events(store: SqlStore, key: SessionKey, batch: AppendBatch) -> Flow[Appended]:
    """Append the fast way, with others where some wait for the same session, or else the full way."""
    rows = batch.rows
    if (len(rows[0].text or "") if len(rows) == 1 else bytes_of(rows)) >= LARGE and batch.packed is NOTHING_PACKED:
        return _append_packed(store, key, batch)
    plain = is_plain(batch, store.flavour)
    # SQLite's writers take turns anyway, one of them at a time.
    if store.flavour == "sqlite" or not plain or not _may_travel(batch):
        return _append_alone(store, key, batch, plain=plain)
    alone = partial(_append_alone, store, plain=True)
    return store.travelling.append(key, batch, alone, partial(_append_plainly, store))


def _append_packed(store: SqlStore, key: SessionKey, batch: AppendBatch) -> Flow[Appended]:
    packed = yield from packed_ahead(batch.rows)
    return (yield from append_events(store, key, batch._replace(packed=packed)))


def _append_alone(store: SqlStore, key: SessionKey, batch: AppendBatch, *, plain: bool) -> Flow[Appended]:
    if plain:
        in_one = store.flavour == "postgresql"
        try:
            # Without `ask`, as nearly every append passes here.
            appended: Appended | None = yield store.run, (_PLAIN[in_one], append_plain, key, batch, store.heads), {}
        except StoreError as error:
            # Somebody has the id already: whether with the same message, only the full way can tell. And what one
            # statement could not make of a state that is damaged, it tells.
            if not isinstance(error, UniqueViolationError) and (type(error) is not StoreError or not in_one):
                raise
            appended = None
        if appended is not None:
            return appended
    # The full way moves the session on: where it was is no longer known.
    store.heads.pop(key, None)
    # Whatever the reason (ended, expired, aliased ids, a version), it finds that under the lock and says it.
    return (yield from ask(store.run, _PLAIN[False], append_locked, key, batch))


def _append_plainly(store: SqlStore, key: SessionKey, batch: AppendBatch) -> Flow[Appended | None]:
    return ask(store.run, _PLAIN[store.flavour == "postgresql"], append_plain, key, batch, store.heads)


def _may_travel(batch: AppendBatch) -> bool:
    """Whether what is told of a plain batch does not depend on those before it."""
    if batch.expected_version is not None or batch.answers or batch.is_bare:
        return batch.expected_version is None and not batch.answers
    first = batch.rows[0]
    return first.branch is None and first.invocation_id is None and first.delta is None


def is_plain(batch: AppendBatch, flavour: str) -> bool:
    """Whether the fast way of a database may serve the batch."""
    rows, in_one = batch.rows, flavour == "postgresql"
    if batch.replaces_only or (in_one and len(rows) > 1 and bytes_of(rows) > _MOST_BYTES):
        return False
    if batch.is_bare:
        return True
    first = batch.rows[0]
    branch, invocation_id = first.branch, first.invocation_id
    for row in rows:
        # Identities that the caller gave and failures change more than this log's newest rows.
        if row.event_id is not None or row.flags & _MARK == _MARKED_FAILED:
            return False
        # So does state that others share. That of the session SQLite changes, and one statement does so once.
        if row.delta is not None and (flavour == "mysql" or reaches_further(row.delta)):
            return False
        if row.delta is not None and in_one and (row is not first or not _one_statement().is_readable(row.delta)):
            return False
        # One statement adds to the counters of one scope and to one invocation.
        if row.branch != branch or row.invocation_id != invocation_id:
            return False
    return True


@cache
def _one_statement() -> Any:
    # Who has another database does not load it: a cold process is felt more than any append.
    from langchain_sessions._sql.log import one_statement

    return one_statement


def append_plain(tx: Transaction, key: SessionKey, batch: AppendBatch, heads: Heads) -> Appended | None:
    """The fast way. None, with nothing written, where only the full way can answer.

    Raises:
        UniqueViolationError: An id exists already.
    """
    values = _bump_values(key, batch)
    if tx.flavour == "postgresql":
        return _append_in_one(tx, key, batch, values)
    if tx.flavour == "mysql":
        if tx.run(tx.prepare_for(_GIVEN, ("bump", _shape(key, batch)), _bump, tx, key, batch), values) == 0:
            return None
        # `LAST_INSERT_ID(expression)` hands a value of the changed row back with the UPDATE's answer: no second round
        # trip.
        last = tx.last_id
        check_position(key.id, last)
        rows = _numbered(batch.rows, last)
        insert_by_subselect(tx, key, rows, batch.packed)
    else:
        moved = _move_here(tx, key, batch, values, heads)
        if moved is None:
            return None
        skey, last, noted = moved
        rows = _numbered(batch.rows, last)
        insert_events(tx, skey, rows if noted is batch.rows else _numbered(noted, last), batch.packed)
    status = 0
    if not batch.is_bare and (rows[0].invocation_id is not None or rows[0].branch is not None):
        status = _note_side_rows(tx, key, batch, rows[0].seq)
    return _tuple(Appended, (rows, last, _view_in_run(rows[0].invocation_id, status, last) if status else None))


def _move_here(
    tx: Transaction, key: SessionKey, batch: AppendBatch, values: Row, heads: Heads
) -> tuple[int, int, tuple[EventRow, ...]] | None:
    """SQLite: the key of the session that was moved on, where to, and the rows with what they replace of its state.

    None where only the full way can answer.
    """
    known, rows = heads.pop(key, None), batch.rows
    changes = not batch.is_bare and (rows[0].delta is not None or any(row.delta is not None for row in rows))
    of_batch = _shape(key, batch)
    is_stale = False
    found: tuple[Any, ...] | None = None
    if known is not None and known[2] > batch.now - ACTIVITY_GRAIN:
        skey, before, activity = known
        last = before + len(rows)
        given = (skey, before, last) + values  # noqa: RUF005 - which would make a list of it first
        if changes:
            statement = tx.prepare_for(_KNOWN, ("state of known", of_batch), _state_of_known, tx, key, batch)
            told = tx.row(statement, given)
            is_stale = told is None
            found = None if told is None else (skey, before, activity, None, None, None, told[0])
        else:
            statement = tx.prepare_for(_KNOWN, ("bump known", of_batch), _bump_known, tx, key, batch)
            if tx.run(statement, given):
                heads[key] = (skey, last, activity)
                return skey, last, rows
            is_stale = True
    if found is None:
        # The file is locked already. An UPDATE that returns what it changed takes longer than this and one that does
        # not: SQLite makes a table for the answer.
        shape: tuple[Any, ...] = ("to bump", of_batch, changes)
        found = tx.row(tx.prepare_for(_GIVEN, shape, _to_bump, tx, key, batch, changes), values)
        if found is None:
            return None
    skey, before, activity, expires_at, renewal, grain, state = found
    check_position(key.id, before)
    last = before + len(rows)
    # SQLite writes the indexes of every column that is named, changed or not: of a conversation, once a minute.
    due: dict[str, Any] = due_times(batch.now, activity, expires_at, renewal, grain)
    if changes:
        try:
            due["state"], rows = with_replaced(state, rows)
        except UNREADABLE:
            return None  # the full way says what is damaged
    shape = ("bump here", of_batch, *due)
    statement = tx.prepare_for((*_KNOWN, *due), shape, _bump_here, tx, key, batch, *due)
    tx.run(statement, (skey, before, last, *values, *due.values()))
    # Where another process writes as well, or a time slides, there is no sense in guessing.
    if not is_stale and renewal is None:
        if len(heads) >= _MOST_HEADS:
            heads.clear()
        heads[key] = (skey, last, max(activity, due.get("activity", 0)))
    return skey, last, rows


def _numbered(rows: Sequence[EventRow], last: int) -> tuple[EventRow, ...]:
    """The rows of a batch in their places, of which this is the last."""
    if len(rows) == 1:
        return (_tuple(EventRow, (last,) + rows[0][1:]),)  # noqa: RUF005 - which would make a list of it first
    seq = last - len(rows)
    found: list[EventRow] = []
    for row in rows:
        seq += 1
        found.append(_tuple(EventRow, (seq,) + row[1:]))  # noqa: RUF005 - likewise
    return tuple(found)


def _shape(key: SessionKey, batch: AppendBatch) -> tuple[str, bool, bool, bool, bool]:
    """What a statement on the session row of a batch depends on: owners, a version, a run, a question, how many."""
    owner = OWNER_SHAPES.get(type(key.owner), "is")
    expects, answers = batch.expected_version is not None, batch.answers > 0
    if batch.is_bare:
        return owner, expects, False, answers, len(batch.rows) == 1
    return owner, expects, batch.rows[0].invocation_id is not None, answers, False


def _bump_values(key: SessionKey, batch: AppendBatch) -> Row:
    """What the statement on the session row of a batch is given, in the order of `_GIVEN`."""
    app, session_id, owner = key
    rows, now, _, expected, _, _, _, is_bare, _, _ = batch
    if is_bare and len(rows) == 1:
        flags, tokens = _counting(rows[0])
        return app, session_id, owner, now, expected, None, 1, 1, 1 if flags & r.TURN else 0, tokens
    first = rows[0]
    events, turns, tokens = counted(rows) if first.branch is None else (0, 0, 0)
    return app, session_id, owner, now, expected, first.invocation_id, len(rows), events, turns, tokens


def _bump(tx: Transaction, key: SessionKey, batch: AppendBatch) -> Update:
    """Move the session row on by the size of the batch, if the fast way may serve it."""
    s = tx.tables.sessions
    now = param("k_now", BigInteger())
    next_seq = s.c.last_seq + (_ONE if _shape(key, batch)[-1] else param("b_count", BigInteger()))
    times = {
        "activity": case((s.c.activity <= now - ACTIVITY_GRAIN, now), else_=s.c.activity),
        "expires_at": renewed(tx.tables, now),
    }
    last = func.last_insert_id(next_seq) if tx.flavour == "mysql" else next_seq
    statement = update(s).where(*_served(tx, key, batch)).values(last_seq=last, **_counters(tx, key, batch), **times)
    return statement if tx.flavour == "mysql" else statement.returning(s.c.skey, s.c.last_seq)


def _to_bump(tx: Transaction, key: SessionKey, batch: AppendBatch, changes: bool) -> Select[Any]:  # noqa: FBT001 - given in order
    """SQLite: the session that is to be moved on, if the fast way may serve it: what may be due of it."""
    s = tx.tables.sessions.c
    columns: list[ColumnElement[Any]] = [s.skey, s.last_seq, s.activity, s.expires_at, s.renewal, s.renewal_grain]
    columns.append(s.state if changes else null())
    return select(*columns).where(*_served(tx, key, batch))


def _bump_here(tx: Transaction, key: SessionKey, batch: AppendBatch, *due: str) -> Update:
    """SQLite: `_bump` of the session that was found, which names of times and state only what is due."""
    s = tx.tables.sessions
    times = {name: param(name) for name in due}
    moved = {"last_seq": param("b_last"), **_counters(tx, key, batch), **times}
    return update(s).where(s.c.skey == param("skey")).values(**moved)


def _bump_known(tx: Transaction, key: SessionKey, batch: AppendBatch) -> Update:
    """SQLite: `_bump` of a session that is where this process left it, if the fast way may serve it."""
    moved = {"last_seq": param("b_last"), **_counters(tx, key, batch)}
    return update(tx.tables.sessions).where(*_left_here(tx, key, batch)).values(**moved)


def _state_of_known(tx: Transaction, key: SessionKey, batch: AppendBatch) -> Select[Any]:
    """SQLite: the state of such a session."""
    return select(tx.tables.sessions.c.state).where(*_left_here(tx, key, batch))


def _left_here(tx: Transaction, key: SessionKey, batch: AppendBatch) -> list[ColumnElement[bool]]:
    s = tx.tables.sessions.c
    here = (s.skey == param("skey"), s.last_seq == param("b_before"), s.renewal.is_(None))
    return [*here, *_served(tx, key, batch)]


def _served(tx: Transaction, key: SessionKey, batch: AppendBatch) -> list[ColumnElement[bool]]:
    """The criteria of a session that the fast way may serve."""
    s = tx.tables.sessions
    owner, expects, named, answers, _ = _shape(key, batch)
    # With `aliased` some event bears an id of the caller's, which the unique index on identities does not know.
    found = [*key_criteria(tx.tables, owner), s.c.ended_at.is_(None), s.c.aliased == literal_column("0")]
    if expects:
        found.append(s.c.last_seq == param("k_expected"))
    if answers:
        # As in `rewound`: where nothing was taken back, its question was not.
        nothing_hidden = func.substr(s.c.ledger, literal_column("1"), literal_column("7")) == literal_column(
            "'{\"h\":[]'"
        )
        found.append(s.c.ledger.is_(None) | nothing_hidden)
    if named:
        i = tx.tables.invocations.c
        # A run that failed and writes again comes back into view, with all that it wrote: counters move by its rows.
        found.append(~exists().where(i.skey == s.c.skey, i.id == param("k_invocation"), i.status == _FAILED))
    return found


def _counters(tx: Transaction, key: SessionKey, batch: AppendBatch) -> dict[str, Any]:
    """What every append moves of a session row."""
    s = tx.tables.sessions.c
    now = param("k_now", BigInteger())
    events = _ONE if _shape(key, batch)[-1] else param("b_events", BigInteger())
    return {
        # As in `moved`: never back.
        "updated_at": case((s.updated_at > now, s.updated_at), else_=now),
        "live_events": s.live_events + events,
        "live_turns": s.live_turns + param("b_turns", BigInteger()),
        "live_tokens": s.live_tokens + param("b_tokens", BigInteger()),
    }


def insert_by_subselect(tx: Transaction, key: SessionKey, rows: tuple[EventRow, ...], ahead: Packed) -> None:
    """Insert where the session key is not known: MariaDB's UPDATE returns nothing."""

    def build() -> Insert:
        named = {name: param(name) for name in STORED}
        return insert(tx.tables.events).values(skey=skey_named(tx), **named)

    statement = tx.prepare("insert by subselect", build)
    place = {"k_app": key.app, "k_id": key.id}
    tx.run_many(statement, [{**place, **dict(zip(STORED, packed_form(row, ahead), strict=True))} for row in rows])


def _note_side_rows(tx: Transaction, key: SessionKey, batch: AppendBatch, first_seq: int) -> int:
    """Write what accompanies a batch, its invocation and the counters of its branch; how far that invocation is."""
    row, status = batch.rows[0], 0
    place = {"k_app": key.app, "k_id": key.id}
    s = tx.tables.sessions.c

    def located(table: Table) -> Select[Any]:
        return side_source(table, s.skey).where(s.app == param("k_app"), s.id == param("k_id"))

    if row.branch is not None:
        scopes = tx.tables.scopes
        statement = tx.prepare("note scope", lambda: note_scope(tx, located(scopes)))
        tx.later(statement, {**place, **_scope_values(batch)})
    if row.invocation_id is not None:
        status = last_mark(batch.rows)
        marked, table = bool(status), tx.tables.invocations
        statement = tx.prepare(("note invocation", marked), lambda: note_invocation(tx, located(table), marked=marked))
        values = {**place, **_invocation_values(batch, status, first_seq)}
        if marked:
            tx.later(statement, values)
        elif tx.flavour == "mysql":
            tx.run(statement, values)
            status = tx.last_id
        else:
            ((status,),) = tx.rows(statement, values)
    return status


def _view_in_run(invocation_id: str | None, status: int, last_seq: int) -> LogView | None:
    """Where the newest events of a run stand that got so far; None where they are live, or belong to none."""
    standing = OF_RUNS.get(status)
    if invocation_id is None or standing is None:
        return None
    return built(LogView, {"invocations": {invocation_id: standing}, "last_seq": last_seq})


def _invocation_values(batch: AppendBatch, mark: int, first_seq: int) -> dict[str, Any]:
    """The row of a batch's invocation."""
    return {
        "id": batch.rows[0].invocation_id,
        "first_seq": first_seq,
        "status": mark or r.MARKS["done"],
        "updated_at": batch.now,
    }


def _scope_values(batch: AppendBatch) -> dict[str, Any]:
    return {"scope": batch.rows[0].branch, **dict(zip(Counters._fields, counted(batch.rows), strict=True))}


def _append_in_one(tx: Transaction, key: SessionKey, batch: AppendBatch, values: Row) -> Appended | None:
    """PostgreSQL: bump, insert and side rows in one round trip."""
    in_one = _one_statement()
    others: dict[str, Any] = {}
    if not batch.is_bare:
        first = batch.rows[0]
        if first.invocation_id is not None:
            others = _invocation_values(batch, last_mark(batch.rows), 0)
        if first.branch is not None:
            others.update(_scope_values(batch))
    found = tx.row(*in_one.prepare_one(tx, key, batch, (_bump, _GIVEN), values, others))
    if found is None:
        return None
    last, *told = found
    if last is None:
        return cast("Appended | None", in_one.known_again(key, batch, *told))
    check_position(key.id, last)
    run = batch.rows[0].invocation_id
    view = None if run is None else _view_in_run(run, last_mark(batch.rows) or told[0], last)
    return _tuple(Appended, (_numbered(batch.rows, last), last, view))
