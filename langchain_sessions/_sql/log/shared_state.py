"""State that reaches beyond one session: a row for each key of a user or an app, last writer wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Table, literal, select

from langchain_sessions._core.state import require_owner, split_delta
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.lookup import delete_rows, find_rows, require_session, upsert
from langchain_sessions.stores._values import StateRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.sql.dml import Insert

    from langchain_sessions._core.rows import SessionKey


def change_shared_state(tx: Transaction, app_name: str, user_id: str | None, deltas: Iterable[str | None]) -> None:
    """Apply the `user:` and `app:` keys of some deltas, in key order so that two writers cannot dead-lock."""
    user: dict[str, str | None] = {}
    app: dict[str, str | None] = {}
    for delta in deltas:
        split = split_delta(delta)
        user.update(split.user)
        app.update(split.app)
    if user:
        require_owner(user_id, deltas)
        _change(tx, tx.tables.user_state, {"app": app_name, "user_id": str(user_id)}, user)
    if app:
        _change(tx, tx.tables.app_state, {"app": app_name}, app)


def _change(tx: Transaction, table: Table, owner: Mapping[str, str], changes: Mapping[str, str | None]) -> None:
    keys = (*owner, "name")

    def build() -> Insert:
        # SQLite's grammar needs a WHERE clause between SELECT and ON CONFLICT.
        source = select(*(param(column.name) for column in table.c)).where(literal(1) == literal(1))
        return upsert(tx, table, source, keys, {"value": lambda new: new.value})

    # Every writer locks these rows in the same order.
    for name in sorted(changes):
        value = changes[name]
        if value is None:
            delete_rows(tx, table, **owner, name=name)
            continue
        tx.later(tx.prepare(("shared", table.name), build), {**owner, "name": name, "value": value})


def load_state(tx: Transaction, key: SessionKey, now: int) -> StateRows:
    """The contract's `load_state`."""
    session = require_session(tx, key, now)
    return load_shared(tx, session.app, session.user_id)._replace(session=session.state)


def load_shared(tx: Transaction, app: str, user_id: str | None) -> StateRows:
    """The contract's `load_shared`."""
    user_state, app_state = tx.tables.user_state, tx.tables.app_state
    user = {} if user_id is None else _read(tx, user_state, app=app, user_id=user_id)
    return StateRows("{}", user, _read(tx, app_state, app=app))


def change_shared(tx: Transaction, app: str, user_id: str | None, delta: str, now: int) -> StateRows:
    """The contract's `change_shared`."""
    del now  # the lock of a row says who was last
    require_owner(user_id, [delta])
    change_shared_state(tx, app, user_id, [delta])
    tx.flush()
    return load_shared(tx, app, user_id)


def _read(tx: Transaction, table: Table, **owner: str) -> dict[str, str]:
    return dict(find_rows(tx, [table.c.name, table.c.value], **owner))
