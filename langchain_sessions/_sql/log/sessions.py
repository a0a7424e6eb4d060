"""The life of sessions: created, opened, listed, changed, ended and forked."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Select, insert, or_, select
from sqlalchemy import and_ as both

from langchain_sessions._core.edge import digest_of
from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.ledger import Ledger
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import (
    ACTIVITY_GRAIN,
    EventRow,
    SessionHeading,
    SessionKey,
    SessionRow,
    merged_changes,
    moved,
    new_session_row,
    owner_shape,
)
from langchain_sessions._core.state import require_owner
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.by_position import load_marks, read_rows
from langchain_sessions._sql.log.counting import recount
from langchain_sessions._sql.log.expiry_in_sql import is_there
from langchain_sessions._sql.log.lookup import (
    delete_rows,
    find_rows,
    insert_events,
    insert_row,
    key_values,
    locate,
    owner_criterion,
    require_session,
    session_columns,
    session_row,
    set_session,
)
from langchain_sessions._sql.log.removing import remove_rows
from langchain_sessions._sql.log.revisions import Telling, insert_copies
from langchain_sessions._sql.log.rewinding import replay
from langchain_sessions._sql.log.shared_state import change_shared_state
from langchain_sessions._sql.tables.types import quoted
from langchain_sessions._sql.threads.history import copy_thread
from langchain_sessions.errors import CorruptRowError, EventNotFoundError, SessionExistsError, SessionNotFoundError
from langchain_sessions.stores._values import SessionDraft, SessionQuery, SessionSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.sql.base import ReadOnlyColumnCollection
    from sqlalchemy.sql.dml import Insert

    Columns = ReadOnlyColumnCollection[str, Column[Any]]

_LOOK_AHEAD = 10
"""How many more than a page are read at once: most often the sessions of the last minute are among them."""
# Rows with their bodies that are in memory at a time.
_FORK_CHUNK = 500


def _taken(tx: Transaction, draft: SessionDraft) -> SessionRow | None:
    """Whatever session has the id, of any owner, expired or not, locked."""
    s = tx.tables.sessions.c

    def build() -> Select[Any]:
        statement = select(*session_columns(tx.tables)).where(s.app == param("app"), s.id == param("id"))
        return statement.with_for_update() if tx.flavour != "sqlite" else statement

    found = tx.row(tx.prepare("taken", build), {"app": draft.app, "id": draft.id})
    return None if found is None else session_row(found)


def create_session(tx: Transaction, draft: SessionDraft) -> SessionRow:
    """The contract's `create_session`. A racing creation of the same id is a unique violation."""
    taken = _taken(tx, draft)
    if taken is not None:
        # An id has one owner for as long as its row is there, expired or not.
        if not is_expired(taken, draft.now) or taken.user_id != draft.user_id:
            raise SessionExistsError(draft.id)
        remove_rows(tx, [taken.skey])
    return _add(tx, draft)


def open_session(tx: Transaction, draft: SessionDraft) -> SessionRow:
    """The contract's `open_session`. A racing creation of the same id is a unique violation."""
    taken = _taken(tx, draft)
    if taken is not None:
        if taken.user_id != draft.user_id:
            raise SessionNotFoundError(draft.id)
        if not is_expired(taken, draft.now):
            return taken
        remove_rows(tx, [taken.skey])
    # A run that was under way when its session was deleted must not bring it back.
    elif not draft.anew and _is_buried(tx, draft):
        raise SessionNotFoundError(draft.id)
    return _add(tx, draft)


def find_open_session(tx: Transaction, draft: SessionDraft) -> SessionRow | None:
    """The session of a draft if it is there to be used: the cheap first half of opening one."""
    return locate(tx, SessionKey(draft.app, draft.id, draft.user_id), draft.now)


def _add(tx: Transaction, draft: SessionDraft) -> SessionRow:
    require_owner(draft.user_id, [draft.shared_delta])
    table = tx.tables.sessions
    # The key is the database's to give: one that was used is never used again, whatever is deleted.
    row = new_session_row(0, draft)
    values = {name: value for name, value in row._asdict().items() if value is not None and name != "skey"}

    def build() -> Insert:
        statement = insert(table).values({name: param(name) for name in values})
        return statement if tx.flavour == "mysql" else statement.returning(table.c.skey)

    statement = tx.prepare(("insert session", *values), build)
    if tx.flavour == "mysql":
        tx.run(statement, values)
        skey = tx.last_id
    else:
        found = tx.row(statement, values)
        assert found is not None
        skey = found[0]
    row = row._replace(skey=skey)
    if draft.shared_delta is not None:
        change_shared_state(tx, row.app, row.user_id, [draft.shared_delta])
    delete_rows(tx, tx.tables.tombstones, digest=digest_of(draft.app, draft.id))
    return row


def _is_buried(tx: Transaction, draft: SessionDraft) -> bool:
    """Whether a session of this name was deleted lately."""
    found = find_rows(tx, [tx.tables.tombstones.c.until], digest=digest_of(draft.app, draft.id))
    return any(until > draft.now for (until,) in found)


def list_sessions(tx: Transaction, query: SessionQuery) -> SessionSlice:
    """The contract's `list_sessions`.

    The index is on `activity`, which `updated_at` follows within a minute: whatever is not read yet was touched less
    than a minute after the activity that was read last; on the way back, no earlier than that. Most often that cannot
    reach the page any more. Where it can, more sessions were active in that minute than are read ahead, and the
    database is asked for those of the others that come before the end of the page.
    """
    is_back = query.before is not None
    found = _headings(tx, query, query.limit + _LOOK_AHEAD)
    is_cut = len(found) == query.limit + _LOOK_AHEAD
    read_last = found[-1] if found else None
    found.sort(key=_PLACE, reverse=not is_back)
    if is_cut and read_last is not None:
        last = found[query.limit - 1]
        reach = last.updated_at if is_back else last.updated_at - ACTIVITY_GRAIN
        if reach >= read_last.activity if is_back else reach < read_last.activity:
            more = _headings(tx, query, query.limit, (read_last, last, reach))
            if query.after is None and not is_back:
                # What was touched in between has left the range for the beginning of the list.
                more += _headings(tx, query, query.limit)
            # Once, also where it was touched in between.
            found = [*{row.skey: row for row in (*found, *more)}.values()]
            found.sort(key=_PLACE, reverse=not is_back)
    page = found[: query.limit][:: -1 if is_back else 1]
    return SessionSlice(page, *query.neighbours(list(map(_PLACE, page)), has_more=len(found) > query.limit))


_PLACE: Callable[[SessionHeading], tuple[int, int]] = operator.attrgetter("updated_at", "skey")
_as_heading: Callable[[tuple[Any, ...]], SessionHeading] = partial(tuple.__new__, SessionHeading)


def _headings(
    tx: Transaction,
    query: SessionQuery,
    limit: int,
    between: tuple[SessionHeading, SessionHeading, int] | None = None,
) -> list[SessionHeading]:
    """Sessions behind the place of the query, or before it.

    Args:
        tx: The transaction.
        query: Whose sessions, and behind or before which.
        limit: How many at most.
        between: Without it, they are the first in the order of the index. With it, they are those that come after the
            first of two sessions in the index and before the second in the list, whose activity is at most so far
            away; the first of them in the list, in no order.
    """
    shape = owner_shape(query.owner)
    place = query.before or query.after
    values = {**key_values(SessionKey(query.app, "", query.owner), query.now), "k_limit": limit}
    if place is not None:
        values |= {"c_at": place[0], "c_skey": place[1], "c_least": place[0] - ACTIVITY_GRAIN}
    if between is not None:
        read_last, last, reach = between
        values |= {"r_at": read_last.activity, "r_skey": read_last.skey, "r_reach": reach}
        values |= {"l_at": last.updated_at, "l_skey": last.skey}
    kind = _Kind(shape, place is not None, query.before is not None, between is not None)
    return list(map(_as_heading, tx.rows(tx.prepare(("list", kind), _listing, tx, kind), values)))


class _Kind(NamedTuple):
    """What the statement of a list depends on."""

    shape: str
    has_place: bool
    is_back: bool
    is_between: bool


def _listing(tx: Transaction, kind: _Kind) -> Select[Any]:
    shape, has_place, is_back, is_between = kind
    s = tx.tables.sessions.c
    where = [s.app == param("k_app"), *owner_criterion(tx.tables, shape), is_there(tx.tables)]
    if has_place:
        where.append(_beyond(s.updated_at, s.skey, "c", upwards=is_back))
        where.append(s.activity > param("c_least") if is_back else s.activity <= param("c_at"))
    whole = [s[name] for name in SessionHeading._fields]
    columns, first = whole, s.activity
    if is_between:
        # The index goes by these two; what is exact comes after them.
        where.append(s.activity >= param("r_at") if is_back else s.activity <= param("r_at"))
        where.append(s.activity <= param("r_reach") if is_back else s.activity > param("r_reach"))
        where.append(_beyond(s.activity, s.skey, "r", upwards=is_back))
        where.append(_beyond(s.updated_at, s.skey, "l", upwards=not is_back))
        # Many may be ordered: by their keys, and the rest is fetched of those that are left.
        columns, first = [s.skey], s.updated_at
    order = (first.asc(), s.skey.asc()) if is_back else (first.desc(), s.skey.desc())
    found = select(*columns).where(*where).order_by(*order).limit(param("k_limit"))
    if not is_between:
        return found
    nearest = found.subquery(quoted("nearest"))
    return select(*whole).join(nearest, s.skey == nearest.c.skey)


def _beyond(column: ColumnElement[Any], skey: ColumnElement[Any], name: str, *, upwards: bool) -> ColumnElement[bool]:
    """Whether a row comes after the place of a name, in the order of a column and of the key."""
    after = operator.gt if upwards else operator.lt
    at = param(f"{name}_at")
    return or_(after(column, at), both(column == at, after(skey, param(f"{name}_skey"))))


def update_session(tx: Transaction, key: SessionKey, changes: Mapping[str, Any], now: int) -> SessionRow:
    """The contract's `update_session`."""
    session = require_session(tx, key, now, lock=True)
    values = {**moved(session, 0, now), **merged_changes(session, changes)}
    set_session(tx, session.skey, **values)
    return session._replace(**values)


def end_session(tx: Transaction, key: SessionKey, record: EventRow, ended_at: int | None, now: int) -> SessionRow:
    """The contract's `end_session`."""
    session = require_session(tx, key, now, lock=True)
    # Ending what has ended changes nothing, and writes no second record.
    if (session.ended_at is None) == (ended_at is None):
        return session
    insert_events(tx, session.skey, [record._replace(seq=session.last_seq + 1)])
    values = {**moved(session, 1, now), "ended_at": ended_at}
    set_session(tx, session.skey, **values)
    return session._replace(**values)


def append_record(tx: Transaction, key: SessionKey, record: EventRow, now: int) -> EventRow:
    """The contract's `append_record`."""
    session = require_session(tx, key, now, lock=True)
    row = record._replace(seq=session.last_seq + 1)
    insert_events(tx, session.skey, [row])
    set_session(tx, session.skey, **moved(session, 1, now))
    return row


def fork_session(tx: Transaction, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> SessionRow:
    """The contract's `fork_session`."""
    source = require_session(tx, key, draft.now, lock=True)
    upto = source.last_seq if at_seq is None else at_seq
    if not 0 <= upto <= source.last_seq:
        raise EventNotFoundError(key.id, f"position {upto}")
    if _taken(tx, draft) is not None:
        raise SessionExistsError(draft.id)
    target = _add(tx, draft)
    for start in range(1, upto + 1, _FORK_CHUNK):
        some = SeqSet.between(start, min(start + _FORK_CHUNK - 1, upto))
        rows = read_rows(tx, source, some)
        # A log has no gap. Where its row names positions that are not there, going on to the last takes for ever.
        if not rows:
            problem = f"The row of session {key.id!r} cannot be read: it names a position that the log does not have."
            raise CorruptRowError(problem)
        insert_copies(tx, target.skey, rows, Telling())
    _copy_invocations(tx, source, target, upto)
    # Of the marks that were copied: what came after the position of the fork must not hide what came before.
    ledger = Ledger.of(load_marks(tx, target), upto)
    changes: dict[str, Any] = {
        "last_seq": upto,
        "ledger": ledger.encode(),
        "initial_state": source.initial_state,
        "aliased": source.aliased,
    }
    target = target._replace(**changes)
    changes["state"] = replay(tx, target, ledger)
    changes |= copy_thread(tx, source, target, upto)
    set_session(tx, target.skey, **changes)
    _seed_scopes(tx, source, target)
    recount(tx, target._replace(**changes))
    return require_session(tx, SessionKey(draft.app, draft.id, draft.user_id), draft.now)


def _copy_invocations(tx: Transaction, source: SessionRow, target: SessionRow, upto: int) -> None:
    table = tx.tables.invocations
    columns = [column for column in table.c if column.name != "skey"]
    rows = tx.once(select(*columns).where(table.c.skey == source.skey, table.c.first_seq <= upto))
    for row in rows:
        named = dict(zip((column.name for column in columns), row, strict=True))
        insert_row(tx, table, skey=target.skey, **named)


def _seed_scopes(tx: Transaction, source: SessionRow, target: SessionRow) -> None:
    """A row for each branch, so that counting finds them."""
    table = tx.tables.scopes
    for row in find_rows(tx, [table.c.scope], skey=source.skey):
        insert_row(tx, table, skey=target.skey, scope=row[0], events=0, turns=0, tokens=0)
