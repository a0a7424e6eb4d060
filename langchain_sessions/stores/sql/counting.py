"""Counters of what is live, kept per scope so that a trigger loads no bodies.

The root scope's counters lie on the session row, which an append writes anyway; a branch has a row of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from langchain_sessions.rows import Counters, InvocationRow, SessionKey, SessionRow
from langchain_sessions.stores import placing
from langchain_sessions.stores.base import ScopeMeasure
from langchain_sessions.stores.sql.lookup import load_light, load_view, locate, require_session, set_session
from langchain_sessions.stores.sql.transaction import Transaction, param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions.ledger import LogView


def add_counters(tx: Transaction, session: SessionRow, counted: Mapping[str | None, Counters]) -> None:
    """Add to the counters of some scopes."""
    for scope, more in counted.items():
        if scope is None:
            set_session(
                tx,
                session.skey,
                live_events=session.live_events + more.events,
                live_turns=session.live_turns + more.turns,
                live_tokens=session.live_tokens + more.tokens,
            )
            continue
        was = read_counters(tx, session, scope)
        _write_scope(tx, session, scope, Counters(*(a + b for a, b in zip(was, more, strict=True))))


def read_counters(tx: Transaction, session: SessionRow, scope: str | None) -> Counters:
    """The counters of a scope."""
    if scope is None:
        return Counters(session.live_events, session.live_turns, session.live_tokens)
    table = tx.tables.scopes

    def build() -> Any:
        columns = (table.c.events, table.c.turns, table.c.tokens)
        return select(*columns).where(table.c.skey == param("skey"), table.c.scope == param("scope"))

    found = tx.row(tx.prepare("scope", build), {"skey": session.skey, "scope": scope})
    return Counters() if found is None else Counters(*found)


def recount(tx: Transaction, session: SessionRow, idle_before: int) -> None:
    """Count every scope anew from the live part of the log: after a rewind or a failure."""
    table = tx.tables.scopes
    view = load_view(tx, session, idle_before)
    branches = [row[0] for row in tx.once(select(table.c.scope).where(table.c.skey == session.skey))]
    for scope in (None, *branches):
        recount_scope(tx, session, view, scope)


def recount_scope(tx: Transaction, session: SessionRow, view: LogView, scope: str | None) -> None:
    """Count one scope anew from what of it is not archived: after a compaction."""
    counted = placing.count_scope(load_light(tx, session, scope, view), view, scope)
    if scope is None:
        set_session(tx, session.skey, live_events=counted.events, live_turns=counted.turns, live_tokens=counted.tokens)
    else:
        _write_scope(tx, session, scope, counted)


def _write_scope(tx: Transaction, session: SessionRow, scope: str, counters: Counters) -> None:
    table = tx.tables.scopes
    same = (table.c.skey == session.skey, table.c.scope == scope)
    tx.change(delete(table).where(*same))
    tx.change(insert(table).values(skey=session.skey, scope=scope, **counters._asdict()))


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
    same = (table.c.skey == session.skey, table.c.scope == (scope or ""))
    held = tx.once(select(table.c.holder, table.c.until).where(*same))
    if held and held[0][0] != holder and held[0][1] > now:
        return False
    tx.change(delete(table).where(*same))
    tx.change(insert(table).values(skey=session.skey, scope=scope or "", holder=holder, until=until))
    return True


def find_invocation(tx: Transaction, key: SessionKey, invocation_id: str, now: int) -> InvocationRow | None:
    """The contract's `find_invocation`."""
    session = locate(tx, key, now)
    if session is None:
        return None
    table = tx.tables.invocations
    columns = (table.c.id, table.c.first_seq, table.c.status, table.c.updated_at)
    rows = tx.once(select(*columns).where(table.c.skey == session.skey, table.c.id == invocation_id))
    return InvocationRow(*rows[0]) if rows else None
