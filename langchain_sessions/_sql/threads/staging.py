"""Writes of tasks: staged until a checkpoint takes their messages over, then stored for good, once.

Bodies of messages pass through few rows that are used again and again, so that a database which keeps old versions of
rows has nothing to clean up behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    bindparam,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy import delete as sql_delete

from langchain_sessions._core.checkpoints import (
    StagedWrites,
    WriteRow,
    mentioned_in,
    pack_staged,
    pack_writes,
    unpack_staged,
)
from langchain_sessions._core.rows import owner_shape
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.lookup import key_criteria, key_values, upsert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._sql.driver.transaction import Later
    from langchain_sessions.stores._threads import WritesPlan


_ZERO: ColumnElement[int] = literal_column("0")


def skey_of(tx: Transaction) -> ScalarSelect[int]:
    """The session key of an app and an id, as a part of another statement."""
    s = tx.tables.sessions.c
    return select(s.skey).where(s.app == param("k_app"), s.id == param("k_id")).scalar_subquery()


def stage_writes(tx: Transaction, skey: int, plan: WritesPlan, rows: Sequence[WriteRow]) -> None:
    """Stage the writes of a call in a session that is locked."""
    s = tx.tables.sessions.c
    statement = tx.prepare("stage", lambda: _staging(tx, s.skey == param("k_skey")))
    tx.later(statement, {"k_skey": skey, "s_body": pack_staged(plan.ns, plan.cid, rows)})


def stage_unseen(tx: Transaction, skey: int, plan: WritesPlan, rows: Sequence[WriteRow]) -> None:
    """Stage them if the session of the plan's key has a certain session key, which is locked meanwhile."""
    s, shape = tx.tables.sessions.c, owner_shape(plan.key.owner)

    def build() -> Any:
        return _staging(tx, s.skey == param("k_skey"), *key_criteria(tx.tables, shape))

    values = {**key_values(plan.key, plan.draft.now), "k_skey": skey}
    tx.later(tx.prepare(("stage unseen", shape), build), {**values, "s_body": pack_staged(plan.ns, plan.cid, rows)})


def _staging(tx: Transaction, *where: ColumnElement[bool]) -> Any:
    """Puts a body behind all that wait, never in a gap before one of them: their order is that in which they came."""
    t = tx.tables.threads.staged
    taken = (t.c.skey == param("k_skey"), t.c.body.is_not(None))
    place = select(func.coalesce(func.max(t.c.n) + 1, _ZERO)).where(*taken).scalar_subquery()
    columns: list[Any] = [tx.tables.sessions.c.skey, place, param("s_body", t.c.body.type)]
    source: Any = select(*columns)
    return upsert(tx, t, source.where(*where), ("skey", "n"), {"body": lambda new: new.body})


def ask_staged(tx: Transaction, key: SessionKey) -> Later:
    """Ask for what is staged in a session."""
    t = tx.tables.threads.staged

    def build() -> Select[Any]:
        found: Any = select(t.c.n, t.c.body).where(t.c.skey == skey_of(tx), t.c.body.is_not(None))
        return cast("Select[Any]", found.order_by(t.c.n))

    return tx.later(tx.prepare("staged", build), {"k_app": key.app, "k_id": key.id})


def staged_in(answer: Later) -> list[StagedWrites]:
    """What `ask_staged` was told."""
    return [unpack_staged(n, bytes(body)) for n, body in answer.rows]


def clear_staged(tx: Transaction, skey: int, gone: Sequence[StagedWrites]) -> None:
    """Empty the rows of writes that are stored for good."""
    t = tx.tables.threads.staged

    def build() -> Any:
        here = (t.c.skey == bindparam("k_skey"), t.c.n == bindparam("k_n"))
        return update(t).where(*here).values(body=null())

    tx.run_many(tx.prepare("clear staged", build), [{"k_skey": skey, "k_n": item.n} for item in gone])


def insert_writes(tx: Transaction, skey: int, ns: int, cid: str, writes: Sequence[WriteRow]) -> None:
    """Store writes of a checkpoint for good, behind those that it has."""
    t, s = tx.tables.threads.writes, tx.tables.sessions.c

    def build() -> Any:
        same = (t.c.skey == param("k_skey"), t.c.ns == param("w_ns"), t.c.cid == param("w_cid"), t.c.cut == _ZERO)
        part = select(func.coalesce(func.max(t.c.part) + 1, _ZERO)).where(*same).scalar_subquery()
        columns = [param(f"w_{name}", t.c[name].type).label(name) for name in ("ns", "cid", "refs", "body")]
        source = select(s.skey, *columns[:2], _ZERO.label("cut"), part.label("part"), *columns[2:])
        names = [column.name for column in t.c]
        return insert(t).from_select(names, source.where(s.skey == param("k_skey")))

    values = {"w_ns": ns, "w_cid": cid, "w_refs": mentioned_in(writes), "w_body": pack_writes(writes)}
    tx.later(tx.prepare("insert writes", build), {"k_skey": skey, **values})


def store_staged(tx: Transaction, skey: int, key: SessionKey) -> None:
    """Store all that is staged for good, as it is."""
    answer = ask_staged(tx, key)
    tx.flush()
    found = staged_in(answer)
    for item in found:
        insert_writes(tx, skey, item.ns, item.cid, item.writes)
    if found:
        t = tx.tables.threads.staged
        tx.change(sql_delete(t).where(t.c.skey == skey))
