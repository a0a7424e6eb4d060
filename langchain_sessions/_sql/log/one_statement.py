"""PostgreSQL: an append in one statement, which bumps the session, changes its state and inserts; one round trip.

Where messages bear ids of their own it looks for them first. What it finds it tells instead of writing anything.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from typing import cast as cast_type

from sqlalchemy import (
    JSON,
    BigInteger,
    Integer,
    Select,
    Table,
    Text,
    case,
    cast,
    column,
    exists,
    func,
    insert,
    literal_column,
    null,
    or_,
    select,
)

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.values import dump_as_it_is, read_json
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.identity import identify_batch, require_version
from langchain_sessions._core.ledger import last_mark, view_of
from langchain_sessions._core.packed_texts import PACKED_FROM, is_long, packed_form
from langchain_sessions._core.rows import STORED, EventRow, InvocationRow, SessionKey, SessionRow, held_by, owner_shape
from langchain_sessions._core.state import MOST_REPLACED, REPLACED
from langchain_sessions._sql.driver.transaction import Prepared, Row, Transaction, param
from langchain_sessions._sql.log.lookup import key_criteria
from langchain_sessions._sql.log.side_rows import note_invocation, note_scope, side_source
from langchain_sessions._sql.log.views import FEW, few_unfinished
from langchain_sessions._sql.tables.types import quoted
from langchain_sessions.errors import SessionsError
from langchain_sessions.stores._values import AppendBatch, Appended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.sql.dml import Update
    from sqlalchemy.sql.selectable import CTE

_NAMED = tuple(f"e_{name}" for name in STORED)
_UNPACKED = _NAMED[:-1]
_SAME = {"at": "k_now", "tokens": "b_tokens"}
"""What a message that is appended alone has in common with what is counted of it."""
_BARE = ("seq", "ident", "rev", "kind", "flags", "at", "tokens", "text", "folded", "body")
_bare: Callable[[EventRow], Row] = itemgetter(*map(EventRow._fields.index, _BARE[1:]))
_UNSAFE = r"\\u(0000|[dD][89abAB])"
"""What PostgreSQL cannot read of JSON: characters that its text does not hold."""


def changes_state(batch: AppendBatch) -> bool:
    """Whether the first event of a batch changes the session's state."""
    return batch.rows[0].delta is not None


def is_readable(delta: str) -> bool:
    """Whether PostgreSQL can read the characters of a change of state."""
    return re.search(_UNSAFE, delta) is None


def may_be_known(batch: AppendBatch) -> bool:
    """Whether a message of a batch has an id of its own, so that it may be there already."""
    # What belongs to a run moves the run's time too, found or not.
    if batch.rows[0].invocation_id is not None:
        return False
    for row in batch.rows:  # noqa: SIM110 - every append asks, and a generator takes several times as long for one row
        if row.kind < k.FIRST_RECORD and not row.flags & r.NO_MESSAGE_ID:
            return True
    return False


Bump = tuple[Callable[[Transaction, SessionKey, AppendBatch], "Update"], tuple[str, ...]]
"""What builds the statement on the session row, and the names of its values."""


def prepare_one(
    tx: Transaction, key: SessionKey, batch: AppendBatch, bump: Bump, values: Row, others: dict[str, Any]
) -> tuple[Prepared, Row]:
    """The statement of a batch, and its values: those of its `bump` first, and `others` of its run and its branch."""
    first = batch.rows[0]
    order = bump[1]
    held: tuple[object, ...] = ()
    # Spelled out: a call for each append.
    if len(batch.rows) == 1 and (text := first.text) is not None and len(text) >= PACKED_FROM:
        stored = packed_form(first, batch.packed)
        held = tuple([value is None for value in stored])
        values, order = values + stored, order + _NAMED
    elif len(batch.rows) == 1:
        held = held_by(first)
        values, order = values + first, order + _UNPACKED
    else:
        values, order = (*values, _as_json(batch)), (*order, "e_rows")
    known = may_be_known(batch)
    if batch.is_bare:
        parts: tuple[bool, ...] = (known, batch.expected_version is None, batch.answers > 0, first.at == batch.now)
        shape: tuple[Any, ...] = ("append bare", held, owner_shape(key.owner), parts)
        return tx.prepare_for(order, shape, _built, tx, key, batch, bump, False), values  # noqa: FBT003 - no mark
    named, branched, changes = first.invocation_id is not None, first.branch is not None, changes_state(batch)
    mark = last_mark(batch.rows) if named else 0
    if changes:
        # The document goes on with what is replaced: its last brace is written behind that.
        others["s_delta"], others["s_noted"] = (
            first.delta,
            f'{first.extra[:-1] + "," if first.extra else "{"}"{REPLACED}":',
        )
        others["s_extra"] = first.extra
    parts = (named, bool(mark), branched, changes, known, batch.expected_version is not None, batch.answers > 0)
    shape = ("append", held, owner_shape(key.owner), *parts)
    statement = tx.prepare_for((*order, *others), shape, _built, tx, key, batch, bump, bool(mark))
    return statement, (*values, *others.values())


def _built(tx: Transaction, key: SessionKey, batch: AppendBatch, bump: Bump, marked: bool) -> Any:  # noqa: FBT001 - given in order
    return _OneStatement(tx, key, batch).build(bump[0](tx, key, batch), marked=marked)


def _as_json(batch: AppendBatch) -> str:
    """The rows of a batch as one value: a statement serves batches of every size, and the driver binds one text."""
    if batch.is_bare and not any(is_long(row.text) for row in batch.rows):
        return dump_as_it_is([dict(zip(_BARE, (at, *_bare(row)), strict=True)) for at, row in enumerate(batch.rows)])
    rows: list[dict[str, Any]] = []
    for at, row in enumerate(batch.rows):
        told: tuple[Any, ...] = row
        if is_long(row.text):
            *plain, packed = packed_form(row, batch.packed)
            told = (*plain, None if packed is None else b2a_base64(packed, newline=False).decode())
        given = {name: value for name, value in zip(STORED, told) if value is not None}  # noqa: B905 - a row is shorter
        rows.append({**given, "seq": at})
    return dump_as_it_is(rows)


class _OneStatement:
    """Builds the statement of batches of one shape.

    Of one event it names the columns that hold something, of several it is given JSON.
    """

    def __init__(self, tx: Transaction, key: SessionKey, batch: AppendBatch) -> None:
        self._tx = tx
        self._tables = tx.tables
        self._batch = batch
        # One bare message: of what is said of it and of its session the same value is sent once.
        self._is_alone = batch.is_bare and batch.rows[0].at == batch.now
        self._mine = key_criteria(tx.tables, owner_shape(key.owner))
        self._given: CTE | None = None
        self._names: Sequence[str] = STORED[1:]
        if len(batch.rows) == 1:
            held = zip(STORED[1:], packed_form(batch.rows[0], batch.packed)[1:], strict=True)
            self._names = [name for name, value in held if value is not None]
        else:
            self._given = _given_rows(tx.tables.events)

    def build(self, bump: Update, *, marked: bool) -> Any:
        """The statement over that of the session row."""
        known = self._known() if may_be_known(self._batch) else None
        if known is not None:
            bump = bump.where(~exists(select(known.c.found)))
        if changes_state(self._batch):
            bump = self._with_state(bump)
        moved = bump.cte(quoted("bump"))
        first = moved.c.last_seq - param("b_count", BigInteger()) + literal_column("1")
        statement: Any = select(moved.c.last_seq)
        if self._batch.rows[0].invocation_id is not None:
            side = side_source(self._tables.invocations, moved.c.skey, first_seq=first).select_from(moved)
            noted = note_invocation(self._tx, side, marked=marked).cte(quoted("note_invocation"))
            statement = statement.add_cte(noted) if marked else select(moved.c.last_seq, noted.c.status)
        if known is not None:
            statement = select(moved.c.last_seq, cast(null(), Text()).label(quoted("found")))
            statement = statement.union_all(select(cast(null(), BigInteger()), known.c.found))
        statement = statement.add_cte(self._insert(moved).cte(quoted("inserted")))
        if self._batch.rows[0].branch is not None:
            scope = cast(param("scope"), self._tables.scopes.c.scope.type)
            side = side_source(self._tables.scopes, moved.c.skey, scope=scope).select_from(moved)
            statement = statement.add_cte(note_scope(self._tx, side).cte(quoted("note_scope")))
        return statement

    def _insert(self, moved: CTE) -> Any:
        table = self._tables.events
        columns: list[Any]
        places: list[CTE]
        if self._given is None:
            columns, places = [moved.c.last_seq, *(self._one(name) for name in self._names)], [moved]
        else:
            first = moved.c.last_seq - param("b_count", BigInteger()) + literal_column("1")
            columns = [first + self._given.c.seq, *(self._given.c[name] for name in self._names[:-1])]
            columns.append(func.decode(self._given.c[self._names[-1]], literal_column("'base64'")))
            places = [moved, self._given]
        names = ["skey", "seq", *self._names]
        if changes_state(self._batch):
            # What is replaced is known only in there: `extra` is not what was given.
            noted = self._noted(moved)
            if "extra" in names:
                columns[names.index("extra") - 1] = noted
            else:
                names.append("extra")
                columns.append(noted)
        return insert(table).from_select(names, select(moved.c.skey, *columns).select_from(*places))

    def _one(self, name: str) -> ColumnElement[Any]:
        kind = self._tables.events.c[name].type
        if self._is_alone and name in _SAME:
            return cast(param(_SAME[name], BigInteger()), kind)
        return literal_column("0") if name == "rev" else cast(param(f"e_{name}"), kind)

    def _noted(self, moved: CTE) -> ColumnElement[Any]:
        """The `extra` of the event that changes the state: with what it replaces, unless that is large."""
        kind = self._tables.events.c.extra.type
        noted = cast(param("s_noted"), Text()) + moved.c.was + literal_column("'}'")
        is_small = func.length(moved.c.was) <= literal_column(str(MOST_REPLACED))
        told = case((is_small, noted), else_=cast(param("s_extra"), Text()))
        if self._given is not None:
            told = case((self._given.c.delta.is_not(None), told), else_=self._given.c.extra)
        return cast(told, kind)

    def _with_state(self, bump: Update) -> Update:
        """With the first event's change of state, and what it replaces. The texts of values stay as they are."""
        from sqlalchemy.dialects.postgresql import aggregate_order_by

        s = self._tables.sessions
        whole = [s.c.ended_at.is_(None), s.c.aliased == literal_column("0"), _is_readable(s.c.state)]
        # Locked before it is read: what another writer has put there meanwhile is seen.
        here = select(s.c.skey, s.c.state).where(*self._mine, *whole).with_for_update().cte(quoted("here"))
        held = _entries(here.c.state)
        given = _entries(cast(param("s_delta"), Text()))
        name = func.to_json(func.coalesce(held.c.key, given.c.key))
        entry = cast(name, Text()) + literal_column("':'") + cast(func.coalesce(given.c.value, held.c.value), Text())
        stays = or_(given.c.key.is_(None), func.json_typeof(given.c.value) != literal_column("'null'"))
        ordered: Any = aggregate_order_by(literal_column("','"), held.c.n.asc().nulls_last(), given.c.n)
        merged = func.string_agg(entry, ordered).filter(stays)
        after = select(merged).select_from(held.join(given, held.c.key == given.c.key, full=True))
        before = func.coalesce(cast(held.c.value, Text()), literal_column("''"))
        entry = cast(func.to_json(given.c.key), Text()) + literal_column("':['") + before + literal_column("']'")
        was = select(func.string_agg(entry, aggregate_order_by(literal_column("','"), given.c.n)))
        was = was.select_from(given.join(held, held.c.key == given.c.key, isouter=True))
        changed = select(here.c.skey, _braced(after).label(quoted("state")), _braced(was).label(quoted("was")))
        merge = changed.cte(quoted("changed"))
        moving = bump.values(state=merge.c.state).where(s.c.skey == merge.c.skey)
        return cast_type("Update", moving.returning(merge.c.was))

    def _known(self) -> CTE:
        """What is there of the messages, with all that decides where they stand."""
        e, s = self._tables.events, self._tables.sessions
        mine = e.c.skey == s.c.skey
        mine &= e.c.ident == (self._one("ident") if self._given is None else self._given.c.ident)
        # By their places: names would be most of what is sent, and of what is read here.
        elsewhere = or_(e.c.base.is_not(None), e.c.packed.is_not(None))
        event = func.json_build_array(*(e.c[name] for name in EventRow._fields), elsewhere)
        events = select(func.json_agg(event)).where(mine).correlate(s)
        runs = few_unfinished(self._tx, s.c.skey).correlate(s).subquery(quoted("runs"))
        open_runs = select(func.json_agg(func.json_build_array(*runs.c))).select_from(runs)
        session = func.json_build_array(*(s.c[name] for name in SessionRow._fields))
        parts = (session, events.scalar_subquery(), open_runs.scalar_subquery())
        found = cast(func.json_build_array(*parts), Text()).label(quoted("found"))
        there = select(literal_column("1")).where(mine).correlate(s).exists()
        whole = (s.c.ended_at.is_(None), s.c.aliased == literal_column("0"), there)
        return select(found).where(*self._mine, *whole).cte(quoted("known"))


def _braced(text: Select[Any]) -> ColumnElement[str]:
    return func.concat(literal_column("'{'"), text.scalar_subquery(), literal_column("'}'"), type_=Text())


def _entries(text: ColumnElement[Any]) -> Any:
    """The entries of a JSON document as rows, in their order."""
    made = func.json_each(cast(text, JSON())).table_valued("key", "value", with_ordinality="n")
    return made.render_derived()


def _is_readable(text: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether PostgreSQL can take a document apart, and its encoding holds the characters of every key."""
    escapes = ~text.regexp_match(literal_column(r"'\\u'"))
    is_safe = ~text.regexp_match(literal_column(f"'{_UNSAFE}'"))
    return or_(escapes, is_safe & (func.getdatabaseencoding() == literal_column("'UTF8'")))


def _given_rows(table: Table) -> CTE:
    """The rows that a statement is given as JSON, as a table."""
    kinds = (BigInteger() if isinstance(table.c[name].type, Integer) else Text() for name in STORED)
    columns = [column(quoted(name), kind) for name, kind in zip(STORED, kinds, strict=True)]
    made = func.json_to_recordset(cast(param("e_rows"), JSON()))
    # Named once, however often it is asked: the text is sent each time that it stands in a statement.
    return select(made.table_valued(*columns, name=quoted("given")).render_derived(with_types=True)).cte(quoted("rows"))


def known_again(key: SessionKey, batch: AppendBatch, found: str) -> Appended | None:
    """The answer where all of a batch was there already; None where only the full way can tell."""
    try:
        session, events, runs = read_json(found)
        whole = SessionRow._make(session)
        if whole.head_id is not None or whole.head_runs is not None or len(runs or ()) > FEW:
            return None
        view = view_of(whole, [InvocationRow._make(run) for run in runs or ()], batch.idle_before)
        relatives: list[EventRow] = []
        for *event, is_elsewhere in events:
            if is_elsewhere:
                return None  # what it says is not in the columns that were read
            relatives.append(EventRow._make(event))
        relatives.sort()
        require_version(key.id, batch, relatives, view, whole.last_seq)
        placed = identify_batch(key.id, batch, relatives, view, whole.last_seq)
    except SessionsError:
        raise
    except UNREADABLE:
        return None  # the full way says what is damaged
    return None if placed.fresh else Appended(placed.rows, whole.last_seq, view)
