"""Removing sessions with all that belongs to them: named ones, a user's, those whose time is over; and shelves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import (
    delete,
    select,
)

from langchain_sessions._core.edge import digest_of
from langchain_sessions._core.rows import Owner, SessionKey, owner_shape
from langchain_sessions._sql.driver.transaction import Prepared, Transaction
from langchain_sessions._sql.log.expiry_in_sql import is_over, over_at
from langchain_sessions._sql.log.lookup import delete_rows, find_rows, insert_row, locate, owner_criterion
from langchain_sessions._sql.tables.blanking import blank, blank_rows
from langchain_sessions.stores._erasing import UserRemoved

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def remove_rows(tx: Transaction, skeys: Iterable[int]) -> None:
    """Remove everything that belongs to some sessions, the session rows last."""
    keys = list(skeys)
    remove_shelves(tx, keys)
    for table in tx.tables.of_session:
        if tx.flavour == "sqlite":
            blank_rows(tx, table, keys)
        tx.change(delete(table).where(table.c.skey.in_(keys)))


def remove_shelves(tx: Transaction, skeys: Sequence[int]) -> None:
    """Remove the copies in which the words of these sessions lie beside those of others."""
    held = tx.tables.recall.shelf_logs.c
    if skeys:
        rows = tx.once(select(held.shelf).where(held.skey.in_(skeys)).distinct())
        drop_shelves(tx, [row[0] for row in rows])


def drop_shelves(tx: Transaction, numbers: Sequence[int]) -> None:
    """Remove shelves of the recall index, and what they hold."""
    recall = tx.tables.recall
    for table in (recall.shelf_terms, recall.shelf_logs, recall.shelves) if numbers else ():
        mine = table.c.shelf.in_(numbers)
        if tx.flavour == "sqlite":
            blank(tx, table, mine)
        tx.change(delete(table).where(mine))


def delete_session(tx: Transaction, key: SessionKey, now: int, tombstone_until: int) -> bool:
    """The contract's `delete_session`."""
    session = locate(tx, key, now, lock=True)
    if session is None:
        return False
    remove_rows(tx, [session.skey])
    _bury(tx, key.app, key.id, tombstone_until)
    return True


def _bury(tx: Transaction, app: str, session_id: str, until: int) -> None:
    digest = digest_of(app, session_id)
    delete_rows(tx, tx.tables.tombstones, digest=digest)
    insert_row(tx, tx.tables.tombstones, digest=digest, until=until)


def delete_user_sessions(tx: Transaction, app: str, user_id: str, limit: int, tombstone_until: int) -> UserRemoved:
    """Remove some sessions of a user, and with the last of them the user's state; how much was removed."""
    s, u = tx.tables.sessions.c, tx.tables.user_state
    mine = select(s.skey, s.id, s.last_seq).where(s.app == app, s.user_id == user_id).order_by(s.skey).limit(limit)
    rows = tx.once(mine.with_for_update() if tx.flavour != "sqlite" else mine)
    if rows:
        remove_rows(tx, [row[0] for row in rows])
        for _, session_id, _ in rows:
            _bury(tx, app, session_id, tombstone_until)
    keys = 0
    if len(rows) < limit:
        keys = len(find_rows(tx, [u.c.name], app=app, user_id=user_id))
        delete_rows(tx, u, app=app, user_id=user_id)
    # What a damaged row says of its log may be no number.
    return UserRemoved(len(rows), sum(seq for _, _, seq in rows if type(seq) is int), keys)


def purge_expired(tx: Transaction, app: str, owner: Owner, now: int, limit: int) -> int:
    """The contract's `purge_expired`."""
    s, t = tx.tables.sessions.c, tx.tables.tombstones
    tx.change(delete(t).where(t.c.until <= now))
    shape = owner_shape(owner)
    gone = (
        select(s.skey)
        .where(s.app == app, is_over(tx.tables), *owner_criterion(tx.tables, shape))
        .order_by(over_at(tx.tables), s.skey)
        .limit(limit)
    )
    if tx.flavour != "sqlite":
        # A purge beside another one, or beside an append that renews, leaves that session to it.
        gone = gone.with_for_update(skip_locked=True)
    rows = tx.rows(Prepared(gone, tx.cache.dialect), {"k_owner": owner, "k_now": now})
    remove_rows(tx, [row[0] for row in rows])
    return len(rows)
