"""Counters of what is live, kept per scope so that a trigger loads no bodies.

The root scope's counters lie on the session row, which an append writes anyway; a branch has a row of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.ledger import count_scope, moved_between, open_invocations, tally_change
from langchain_sessions._core.rows import ALL_AWAKE, Counters, InvocationRow, SessionKey, SessionRow
from langchain_sessions._sql.driver.transaction import param
from langchain_sessions._sql.log.by_position import load_light, load_light_at
from langchain_sessions._sql.log.lookup import (
    find_rows,
    insert_row,
    locate,
    require_session,
    set_session,
    update_rows,
)
from langchain_sessions._sql.log.side_rows import note_scope, side_source
from langchain_sessions._sql.log.views import load_unfinished_of, load_view
from langchain_sessions.stores._values import ScopeMeasure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy.sql.dml import Insert

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._sql.driver.transaction import Transaction, Values


def add_counters(
    tx: Transaction, session: SessionRow, counted: Mapping[str | None, Counters], changes: Values | None = None
) -> None:
    """Add to the counters of some scopes, without an answer being waited for; `changes` of the session go along."""
    root = counted.get(None)
    live = {} if root is None else {f"live_{name}": was + more for name, was, more in _live(session, root)}
    if values := {**(changes or {}), **live}:
        set_session(tx, session.skey, **values)
    for scope, more in counted.items():
        if scope is not None:
            values = {"skey": session.skey, "scope": scope, **more._asdict()}
            tx.later(tx.prepare("add to scope", lambda: _adding(tx)), values)


def _live(session: SessionRow, more: Counters) -> Iterator[tuple[str, int, int]]:
    return zip(Counters._fields, (session.live_events, session.live_turns, session.live_tokens), more, strict=True)


def _adding(tx: Transaction) -> Insert:
    s = tx.tables.sessions
    return note_scope(tx, side_source(tx.tables.scopes, s.c.skey).where(s.c.skey == param("skey")))


def read_counters(tx: Transaction, session: SessionRow, scope: str | None) -> Counters:
    """The counters of a scope."""
    if scope is None:
        return Counters(session.live_events, session.live_turns, session.live_tokens)
    return _find_counters(tx, session, scope) or Counters()


def _find_counters(tx: Transaction, session: SessionRow, scope: str) -> Counters | None:
    s = tx.tables.scopes.c
    found = find_rows(tx, [s.events, s.turns, s.tokens], skey=session.skey, scope=scope)
    return Counters(*found[0]) if found else None


def count_moved(tx: Transaction, session: SessionRow, stood: LogView, stand: LogView) -> None:
    """Bring the counters up to date with where events stand now: only those are read that stand otherwise.

    Args:
        tx: The transaction.
        session: The session with the counters as they are stored.
        stood: Where its events stood, invocations aside.
        stand: Where they stand, likewise.
    """
    rows = load_light_at(tx, session.skey, moved_between(stood, stand))
    runs = open_invocations(load_unfinished_of(tx, session, rows), ALL_AWAKE)
    before, after = (replace(view, invocations=runs) for view in (stood, stand))
    add_counters(tx, session, tally_change(rows, before, rows, after))


def recount(tx: Transaction, session: SessionRow) -> None:
    """Count every scope anew from the live part of the log: after it was copied."""
    table = tx.tables.scopes
    view = load_view(tx, session, ALL_AWAKE)
    branches = find_rows(tx, [table.c.scope], skey=session.skey)
    for scope in (None, *(row[0] for row in branches)):
        counted = count_scope(load_light(tx, session, scope, view), view, scope)
        if scope is not None:
            _write_scope(tx, session, scope, counted, is_there=True)
            continue
        live = {"live_events": counted.events, "live_turns": counted.turns, "live_tokens": counted.tokens}
        set_session(tx, session.skey, **live)


def _write_scope(tx: Transaction, session: SessionRow, scope: str, counters: Counters, *, is_there: bool) -> None:
    same = {"skey": session.skey, "scope": scope}
    if is_there:
        # Not deleted and inserted: a delete that finds nothing locks the gap in which other sessions insert theirs.
        update_rows(tx, tx.tables.scopes, same, **counters._asdict())
    else:
        insert_row(tx, tx.tables.scopes, **same, **counters._asdict())


def count_live(tx: Transaction, key: SessionKey, scope: str | None, now: int) -> Counters:
    """The contract's `count_live`."""
    return read_counters(tx, require_session(tx, key, now), scope)


def measure_scope(tx: Transaction, key: SessionKey, scope: str | None, now: int) -> ScopeMeasure:
    """The contract's `measure_scope`."""
    session = require_session(tx, key, now)
    return ScopeMeasure(session, read_counters(tx, session, scope))


def lease_scope(tx: Transaction, key: SessionKey, scope: str | None, holder: str, now: int, until: int) -> bool:
    """The contract's `lease_scope`. The lock of the session row makes it one at a time; the root's name is blank."""
    session = require_session(tx, key, now, lock=True)
    table = tx.tables.leases
    same = {"skey": session.skey, "scope": scope or ""}
    held = find_rows(tx, [table.c.holder, table.c.until], **same)
    # Who holds it may take it again: that is how a long run keeps it.
    if held and held[0][0] != holder and held[0][1] > now:
        return False
    if held:
        update_rows(tx, table, same, holder=holder, until=until)
    else:
        insert_row(tx, table, **same, holder=holder, until=until)
    return True


def find_invocation(tx: Transaction, key: SessionKey, invocation_id: str, now: int) -> InvocationRow | None:
    """The contract's `find_invocation`."""
    session = locate(tx, key, now)
    if session is None:
        return None
    return read_invocation(tx, session.skey, invocation_id)


def read_invocation(tx: Transaction, skey: int, invocation_id: str) -> InvocationRow | None:
    """How far an invocation got."""
    i = tx.tables.invocations.c
    rows = find_rows(tx, [i.id, i.first_seq, i.status, i.updated_at], skey=skey, id=invocation_id)
    return InvocationRow(*rows[0]) if rows else None
