"""Rows of a log: finding a session's, and what decides where its events stand; adding, changing and removing rows.

Like every statement that runs more than now and then they are compiled once; compiling takes ten times as long as
running one on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Table,
    bindparam,
    delete,
    insert,
    literal_column,
    select,
    update,
)

from langchain_sessions._core import rows as r
from langchain_sessions._core.checkpoints import StagedWrites, WriteRow, in_bodies, mentioned_in, unpack_staged
from langchain_sessions._core.edge import packed_id
from langchain_sessions._core.ledger import LogView, marks_of, open_invocations, view_of
from langchain_sessions._core.message_types import FIRST_RECORD
from langchain_sessions._core.packed_texts import NOTHING_PACKED, PACKED_FROM, Packed, packed_form
from langchain_sessions._core.rows import (
    STORED,
    EventRow,
    InvocationRow,
    SessionKey,
    SessionLog,
    SessionRow,
    held_by,
    owner_shape,
)
from langchain_sessions._sql.driver.transaction import Prepared, Transaction, Values, param
from langchain_sessions._sql.log.expiry_in_sql import is_there
from langchain_sessions._sql.tables.threads import inserting_writes, room_within, writes_within
from langchain_sessions.errors import CorruptRowError, SessionNotFoundError

if TYPE_CHECKING:
    from sqlalchemy import Column
    from sqlalchemy.sql.dml import Insert

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._sql.driver.transaction import Later
    from langchain_sessions._sql.tables.schema import Tables

_TEXT, _EXTRA = map(EventRow._fields.index, ("text", "extra"))
ZERO: ColumnElement[int] = literal_column("0")
# The constructor of a named tuple takes twice as long.
_tuple = tuple.__new__
_MOST_RUNS = 64
"""One statement per power of two is compiled and kept; whoever reads rows of more invocations reads all of them."""


Changes = Mapping[str, Callable[[Any], Any]]


def owner_criterion(tables: Tables, shape: str) -> list[ColumnElement[bool]]:
    """The criterion that binds a statement to its owner."""
    column = tables.sessions.c.user_id
    if shape == "any":
        return []
    return [column.is_(None) if shape == "none" else column == param("k_owner")]


MOST_EVENTS = 10**12
"""No log has more; what says so was not written by us."""


def key_criteria(tables: Tables, shape: str) -> list[ColumnElement[bool]]:
    """The criteria that every statement on a session row carries: app, id, owner, not expired."""
    s = tables.sessions.c
    return [
        s.app == param("k_app"),
        s.id == param("k_id"),
        is_there(tables),
        *owner_criterion(tables, shape),
    ]


def key_values(key: SessionKey, now: int) -> dict[str, Any]:
    """The values of `key_criteria`."""
    return {"k_app": key.app, "k_id": key.id, "k_owner": key.owner, "k_now": now}


def session_columns(tables: Tables) -> list[ColumnElement[Any]]:
    """The columns of a `SessionRow`, in its order."""
    return [tables.sessions.c[name] for name in SessionRow._fields]


def session_row(values: tuple[Any, ...]) -> SessionRow:
    """A `SessionRow` from its columns; some drivers return bytes as a view."""
    row = _tuple(SessionRow, values)
    # Where it is no bytes, it is a view or was altered: of a number in their place `bytes` would make as many zeroes.
    if row.head_runs is None or type(row.head_runs) is bytes:
        return row
    return row._replace(head_runs=bytes(memoryview(row.head_runs)))


def locate(tx: Transaction, key: SessionKey, now: int, *, lock: bool = False) -> SessionRow | None:
    """The session of a key, locked for this transaction if asked."""
    shape = owner_shape(key.owner)
    found = tx.row(tx.prepare(("locate", shape, lock), lambda: locating(tx, shape, lock=lock)), key_values(key, now))
    return None if found is None else session_row(found)


def locating(tx: Transaction, shape: str, *, lock: bool) -> Select[Any]:
    """The statement of `locate`."""
    statement = select(*session_columns(tx.tables)).where(*key_criteria(tx.tables, shape))
    # SQLite knows no FOR UPDATE and needs none: BEGIN IMMEDIATE has locked the file.
    return statement.with_for_update() if lock and tx.flavour != "sqlite" else statement


def require_session(tx: Transaction, key: SessionKey, now: int, *, lock: bool = False) -> SessionRow:
    """`locate`, or raise.

    Raises:
        SessionNotFoundError: There is none for this key.
    """
    row = locate(tx, key, now, lock=lock)
    if row is None:
        raise SessionNotFoundError(key.id)
    check_position(key.id, row.last_seq)
    return row


def check_position(session_id: str, last_seq: int) -> None:
    """Refuse a newest position that no log can have: what counts up to it would not end.

    Raises:
        CorruptRowError: It is one.
    """
    if type(last_seq) is not int or not 0 <= last_seq <= MOST_EVENTS:
        problem = f"The row of session {session_id!r} cannot be read: it names a position that no log has."
        raise CorruptRowError(problem)


def require_view(tx: Transaction, key: SessionKey, now: int, idle_before: int) -> tuple[SessionLog, LogView]:
    """The log of a session and where its events stand, but for their invocations: see `with_runs`.

    Raises:
        SessionNotFoundError: There is none for this key.
    """
    return view_told(key, tx.row(_locating_log(tx, key), key_values(key, now)), idle_before)


def ask_view(tx: Transaction, key: SessionKey, now: int) -> Later:
    """Ask for what `view_told` is to be told."""
    return tx.later(_locating_log(tx, key), key_values(key, now))


def _locating_log(tx: Transaction, key: SessionKey) -> Prepared:
    shape = owner_shape(key.owner)

    def build() -> Select[Any]:
        s = tx.tables.sessions
        columns: list[ColumnElement[Any]] = [s.c[name] for name in SessionLog._fields]
        return select(*columns, has_unfinished(tx)).where(*key_criteria(tx.tables, shape))

    return tx.prepare(("locate with runs", shape), build)


def has_unfinished(tx: Transaction) -> ColumnElement[bool]:
    """Whether a session has invocations that are not done, within a statement on its row."""
    return unfinished_of(tx, tx.tables.sessions.c.skey).correlate(tx.tables.sessions).exists()


def view_told(key: SessionKey, found: tuple[Any, ...] | None, idle_before: int) -> tuple[SessionLog, LogView]:
    """`require_view` of what was found."""
    if found is None:
        raise SessionNotFoundError(key.id)
    skey, last_seq, ledger, head_runs, runs = found
    head = None if head_runs is None else bytes(memoryview(head_runs))
    session = _tuple(SessionLog, (skey, last_seq, ledger, head))
    view = view_of(session, (), idle_before)
    return session, replace(view, has_unfinished=True) if runs else view


def with_runs(
    tx: Transaction, session: SessionLog, view: LogView, rows: Iterable[EventRow], idle_before: int
) -> LogView:
    """A view that `require_view` gave, with the invocations of some rows: where those stand, it tells."""
    if not view.has_unfinished:
        return view
    return replace(view, invocations=open_invocations(named_unfinished(tx, session, rows), idle_before))


def load_unfinished(tx: Transaction, session: SessionRow | SessionLog) -> list[InvocationRow]:
    """The invocations that are not done."""
    statement = tx.prepare("unfinished", lambda: unfinished_of(tx, param("skey")))
    return [InvocationRow(*row) for row in tx.rows(statement, {"skey": session.skey})]


def named_unfinished(
    tx: Transaction, session: SessionRow | SessionLog, rows: Iterable[EventRow]
) -> list[InvocationRow]:
    """Those of the invocations that are not done to which some rows belong."""
    return unfinished_called(tx, session, {name for row in rows if (name := row.run) is not None})


def unfinished_called(tx: Transaction, session: SessionRow | SessionLog, runs: Collection[str]) -> list[InvocationRow]:
    """Those of some invocations that are not done."""
    names = sorted(runs)
    if not names:
        return []
    if len(names) > _MOST_RUNS:
        return load_unfinished(tx, session)
    # The last name is repeated, so that a statement serves every number up to a power of two.
    size = 1 << (len(names) - 1).bit_length()
    named = {f"n{at}": names[min(at, len(names) - 1)] for at in range(size)}

    def build() -> Select[Any]:
        return unfinished_of(tx, param("skey")).where(tx.tables.invocations.c.id.in_([param(name) for name in named]))

    found = tx.rows(tx.prepare(("unfinished of", size), build), {"skey": session.skey, **named})
    return [InvocationRow(*row) for row in found]


def unfinished_of(tx: Transaction, skey: Any) -> Select[Any]:
    """The statement of `load_unfinished`."""
    table = tx.tables.invocations
    columns: list[ColumnElement[Any]] = [table.c.id, table.c.first_seq, table.c.status, table.c.updated_at]
    return select(*columns).where(table.c.skey == skey, table.c.status.in_([1, 3, 4]))


def skey_named(tx: Transaction) -> ScalarSelect[int]:
    """The key of the session of an app and an id, as a part of a statement that is sent before it is known."""
    s = tx.tables.sessions.c
    return select(s.skey).where(s.app == param("k_app"), s.id == param("k_id")).scalar_subquery()


def event_columns(tables: Tables) -> list[ColumnElement[Any]]:
    """The columns of an `EventRow`, in its order, and what `stored_row` reads behind them."""
    return [*tables.of_event.values()]


def set_session(tx: Transaction, skey: int, **values: Any) -> None:
    """Set columns of a session row that is locked already."""
    shape = ("set session", *values)
    statement = tx.prepare(shape, _setting, tx.tables.sessions, shape)
    values["k_skey"] = skey
    tx.later(statement, values)


def _setting(sessions: Table, shape: tuple[str, ...]) -> Any:
    return update(sessions).where(sessions.c.skey == param("k_skey")).values(_params(shape[1:]))


def _inserts(tx: Transaction) -> Any:
    """The INSERT of the database in use, with what it adds to SQL: a dialect is loaded when it is spoken."""
    return import_module(f"sqlalchemy.dialects.{tx.flavour}").insert


def upsert(tx: Transaction, table: Table, source: Select[Any], keys: tuple[str, ...], changes: Changes) -> Insert:
    """An INSERT of what `source` selects that changes the row where the key exists.

    Args:
        tx: For the dialect.
        table: The table.
        source: Selects every column of the table in order; with a WHERE clause, which SQLite's grammar needs.
        keys: The columns of its key.
        changes: Column to a function of the row that was to be inserted.
    """
    names = [column.name for column in table.c]
    if tx.flavour == "mysql":
        own = _inserts(tx)(table).from_select(names, source)
        over = own.on_duplicate_key_update({name: change(own.inserted) for name, change in changes.items()})
        return cast("Insert", over)
    other = _inserts(tx)(table).from_select(names, source)
    over = other.on_conflict_do_update(
        index_elements=[table.c[name] for name in keys],
        set_={name: change(other.excluded) for name, change in changes.items()},
    )
    return cast("Insert", over)


Row = tuple[Any, ...]


def find_rows(tx: Transaction, columns: Sequence[Column[Any]], **same: Any) -> list[Row]:
    """Some columns of the rows in which others have these values."""
    table = columns[0].table
    shape = ("find rows", table, *(column.name for column in columns), None, *same)
    return tx.rows(tx.prepare(shape, lambda: select(*columns).where(*_matching(table, same))), same)


def insert_row(tx: Transaction, table: Table, **values: Any) -> None:
    """Insert a row; no answer is waited for."""
    statement = tx.prepare(("insert row", table, *values), lambda: insert(table).values(_params(values)))
    tx.later(statement, values)


def update_rows(tx: Transaction, table: Table, same: Values, **values: Any) -> None:
    """Set columns of the rows in which others have some values; no answer is waited for."""
    shape = ("update rows", table, *same, None, *values)
    given = {f"v_{name}": value for name, value in values.items()}
    tx.later(tx.prepare(shape, _updating, table, same, values), {**same, **given})


def _updating(table: Table, same: Iterable[str], names: Iterable[str]) -> Any:
    return update(table).where(*_matching(table, same)).values({name: param(f"v_{name}") for name in names})


def delete_rows(tx: Transaction, table: Table, **same: Any) -> None:
    """Delete the rows in which columns have these values; no answer is waited for."""
    statement = tx.prepare(("delete rows", table, *same), lambda: delete(table).where(*_matching(table, same)))
    tx.later(statement, same)


def _matching(table: Any, names: Iterable[str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == param(name) for name in names]


def _params(names: Iterable[str]) -> dict[str, Any]:
    return {name: param(name) for name in names}


_IN_ORDER = ("skey", *EventRow._fields)


def insert_events(tx: Transaction, skey: int, rows: Sequence[EventRow], ahead: Packed = NOTHING_PACKED) -> None:
    """Insert rows that have their positions, and their marks; `ahead` is what was packed of them already.

    What none of them has is not named: SQLite's driver looks for an adapter of each None that it is given, which
    takes as long as all the rest of a row.
    """
    if len(rows) == 1 and ((text := rows[0].text) is None or len(text) < PACKED_FROM):
        (row,) = rows
        statement = tx.prepare_for(_IN_ORDER, held_by(row), _insert_held, tx.tables.events, row)
        tx.insert_tuples(statement, [statement.bind((skey,) + row)])  # noqa: RUF005 - which makes a list first
    else:
        columns = list(zip(*rows, strict=True))
        if max(map(len, filter(None, columns[_TEXT])), default=0) >= PACKED_FROM:
            columns = list(zip(*[packed_form(row, ahead) for row in rows], strict=True))
        held = tuple([column.count(None) < len(rows) for column in columns])
        values = list(zip(repeat(skey, len(rows)), *compress(columns, held), strict=True))
        tx.insert_tuples(tx.prepare(held, _insert_some, tx.tables.events, held), values)
    for row in rows:
        # A message that is no revision has what else is said of it there, and no mark.
        if row[_EXTRA] is not None and (row.kind >= FIRST_RECORD or row.flags & r.EDIT):
            insert_marks(tx, skey, rows)
            break


def insert_marks(tx: Transaction, skey: int, rows: Sequence[EventRow]) -> None:
    """Insert the marks of rows."""
    if marks := [{"skey": skey, **mark._asdict()} for mark in marks_of(rows)]:
        tx.run_many(tx.prepare("insert marks", lambda: insert(tx.tables.marks)), marks)


def _insert_held(events: Table, row: EventRow) -> Any:
    return _insert_some(events, [value is not None for value in row])


def _insert_some(events: Table, held: Iterable[bool]) -> Any:
    names = ("skey", *compress(STORED, held))
    return insert(events).values({name: param(name) for name in names})


def root_events(tx: Transaction, session: SessionRow, seqs: SeqSet) -> None:
    """Flag events that the root list took over."""
    table = tx.tables.events

    def build() -> Any:
        mine = (table.c.skey == bindparam("k_skey"), table.c.seq.between(bindparam("low"), bindparam("high")))
        return update(table).where(*mine).values(flags=table.c.flags.op("|")(r.ROOTED))

    statement = tx.prepare("root events", build)
    tx.run_many(statement, [{"k_skey": session.skey, "low": low, "high": high} for low, high in seqs.ranges])


def add_rows(tx: Transaction, table: Table, keys: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> None:
    """Insert rows; where the key exists, leave it alone."""
    values = list(rows)
    if not values:
        return
    # As in `insert_events`. What is left out is NULL in the row that was to be inserted, too.
    held = tuple([name for name in values[0] if any(row[name] is not None for row in values)])
    tx.run_many(tx.prepare(("put", table.name, *held), putting, tx, table, keys, held), values)


def putting(
    tx: Transaction, table: Table, keys: Sequence[str], held: Iterable[str], over: Collection[str] = ()
) -> Insert:
    """Inserts a row that holds some columns. Where its key exists, others are written over, or nothing is done."""
    given = _inserts(tx)(table).values(_params(held))
    if tx.flavour == "mysql":
        # IGNORE would hide other errors too.
        changes = {name: given.inserted[name] for name in over} or {keys[0]: table.c[keys[0]]}
        return cast("Insert", given.on_duplicate_key_update(changes))
    places = [table.c[key] for key in keys]
    if not over:
        return cast("Insert", given.on_conflict_do_nothing(index_elements=places))
    changes = {name: given.excluded[name] for name in over}
    return cast("Insert", given.on_conflict_do_update(index_elements=places, set_=changes))


def ask_staged(tx: Transaction, key: SessionKey) -> Later:
    """Ask for what is staged in a session."""
    t = tx.tables.threads.staged

    def build() -> Any:
        return select(t.c.n, t.c.body).where(t.c.skey == skey_named(tx), t.c.body.is_not(None)).order_by(t.c.n)

    return tx.later(tx.prepare("staged", build), {"k_app": key.app, "k_id": key.id})


def staged_in(answer: Later) -> list[StagedWrites]:
    """What `ask_staged` was told."""
    return [unpack_staged(n, body) for n, body in answer.rows] if answer.rows else []


def insert_writes(tx: Transaction, skey: int, ns: int, cid: str, writes: Sequence[WriteRow]) -> None:
    """Store writes of a checkpoint for good: in its row where both are small, else behind those that it has."""
    place = {"k_skey": skey, "w_ns": ns, "w_cid": tx.blob(packed_id(cid))}
    for some, body in in_bodies(writes):
        _insert_body(tx, place, some, body)


def _insert_body(tx: Transaction, place: Values, writes: Sequence[WriteRow], body: bytes) -> None:
    t, s = tx.tables.threads, tx.tables.sessions
    room = _ROOM[tx.flavour] - len(body)
    values = {**place, "w_body": tx.blob(body), "w_room": room}
    is_told = not tx.pipelines and tx.flavour != "postgresql"  # whether the first sufficed
    if room > 0 and is_told and tx.run(tx.prepare("writes within", writes_within, t), values):
        return
    values["w_refs"] = mentioned_in(writes)
    if room > 0 and tx.flavour == "postgresql":
        # Both in one statement.
        tx.later(tx.prepare("writes", lambda: inserting_writes(t, s, before=writes_within(t))), values)
    elif room > 0 and tx.pipelines:
        # Nothing is waited for: the first finds out by itself whether the second will do it.
        tx.later(tx.prepare("writes behind", lambda: inserting_writes(t, s, unless=room_within(t))), values)
        tx.later(tx.prepare("writes within", writes_within, t), values)
    else:
        tx.later(tx.prepare("insert writes", lambda: inserting_writes(t, s)), values)


_ROOM = {"sqlite": 300, "postgresql": 1_000, "mysql": 1_000}
"""Bytes of a checkpoint and its writes that lie in one row. SQLite gives what exceeds a quarter of a page another."""
