"""Writes of tasks: staged until a checkpoint takes their messages over, then stored for good, once.

Bodies of messages pass through few rows that are used again and again, so that a database which keeps old versions of
rows has nothing to clean up behind them. What is stored for good lies in the row of its checkpoint, or in rows of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, bindparam, delete, func, insert, literal_column, null, select, update

from langchain_sessions._core.checkpoints import (
    WITHIN,
    PackedWrites,
    WriteRow,
    mentioned_in,
    pack_staged,
    unpack_writes,
)
from langchain_sessions._core.edge import packed_id, unpacked_id
from langchain_sessions._core.rows import owner_shape
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.lookup import ZERO, key_criteria, key_values, upsert
from langchain_sessions._sql.tables.types import as_bytes
from langchain_sessions.stores._threads import WritesPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import CompoundSelect, Table

    from langchain_sessions._core.checkpoints import CheckpointRow
    from langchain_sessions._sql.driver.transaction import Later
    from langchain_sessions.stores._threads import ThreadPlan

_KEY = ("ns", "cid", "cut", "part")


def taken_together(plans: Sequence[ThreadPlan]) -> tuple[list[int], list[ThreadPlan]]:
    """Plans with all that tasks of one step wrote as one plan: hundreds of tasks take one row, and one statement.

    Returns:
        Which of the others each plan became part of, and these.
    """
    order: list[int] = []
    groups: list[list[ThreadPlan]] = []
    places: dict[Any, int] = {}
    for plan in plans:
        at = len(groups)
        if isinstance(plan, WritesPlan):
            at = places.setdefault((plan.key, plan.ns, plan.cid, plan.named_in), at)
        if at == len(groups):
            groups.append([])
        groups[at].append(plan)
        order.append(at)
    return order, [group[0] if len(group) == 1 else _as_one(group) for group in groups]


def _as_one(plans: Sequence[Any]) -> WritesPlan:
    def rows(skey: int) -> Sequence[WriteRow]:
        return [row for plan in plans for row in plan.rows(skey)]

    first: WritesPlan = plans[0]
    values = {value.digest: value for plan in plans for value in plan.values}
    needs = tuple(sorted({*chain.from_iterable(plan.needs for plan in plans)} - values.keys()))
    return first._replace(rows=rows, values=tuple(values.values()), needs=needs)


def stage_writes(tx: Transaction, skey: int, plan: WritesPlan, rows: Sequence[WriteRow]) -> None:
    """Stage the writes of a call in a session that is locked."""
    s = tx.tables.sessions.c
    statement = tx.prepare("stage", lambda: _staging(tx, s.skey == param("k_skey")))
    tx.later(statement, {"k_skey": skey, "s_body": pack_staged(plan.ns, plan.cid, rows)})


@dataclass(slots=True)
class Unseen:
    """What became of writes that were sent without a look at their session, known once the transaction is over."""

    sent_to: int | None = None
    """The session key that they were sent for."""
    session: Later | None = None

    @property
    def is_stored(self) -> bool:
        """Whether they are stored."""
        # Deleted and made again, a session has another key: what was sent for the old one found nothing to write to.
        return self.session is not None and self.session.row is not None and self.session.row[0] == self.sent_to


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
    # Where nothing waits, as is mostly so after a checkpoint, the rows that were emptied are used again from the first.
    place = select(func.coalesce(func.max(t.c.n) + 1, ZERO)).where(*taken).scalar_subquery()
    columns: list[Any] = [tx.tables.sessions.c.skey, place, param("s_body", t.c.body.type)]
    source: Any = select(*columns)
    return upsert(tx, t, source.where(*where), ("skey", "n"), {"body": lambda new: new.body})


# -- taken over -------------------------------------------------------------------------------------------


def replace_start(tx: Transaction, skey: int, parent: CheckpointRow) -> None:
    """Replace the bodies of a graph's input by positions, now that the log holds them."""
    t = tx.tables.threads.checkpoints

    def build() -> Any:
        key = [t.c[name] == bindparam(f"k_{name}") for name in ("skey", "ns", "cid")]
        changes: dict[str, Any] = {name: bindparam(f"v_{name}") for name in ("others", "outside", "body")}
        return update(t).where(and_(*key)).values(changes)

    named = {"v_others": parent.others, "v_outside": parent.outside, "v_body": parent.body}
    place = {"k_skey": skey, "k_ns": parent.ns, "k_cid": packed_id(parent.cid)}
    tx.later(tx.prepare("replace start", build), {**place, **named})


# -- stored for good ---------------------------------------------------------------------------------------


def writes_columns(tx: Transaction) -> list[ColumnElement[Any]]:
    """The columns of a `PackedWrites` of those that lie in rows of their own."""
    return [tx.tables.threads.writes.c[name] for name in PackedWrites._fields]


def packed_writes(values: Sequence[Any]) -> PackedWrites:
    """A `PackedWrites` from its columns; some drivers return bytes as a view."""
    ns, cid, cut, part, refs, body = values
    return PackedWrites(ns, unpacked_id(cid), cut, part, None if refs is None else as_bytes(refs), as_bytes(body))


def selecting_writes(tx: Transaction, where: Callable[[Table], Sequence[ColumnElement[bool]]]) -> CompoundSelect[Any]:
    """Those that lie in either place, of which `where` gives criteria for a table. What lies within has no `refs`."""
    t, w = tx.tables.threads.checkpoints, tx.tables.threads.writes
    place: list[ColumnElement[Any]] = [literal_column("0"), literal_column(str(WITHIN)), null()]
    within = select(t.c.ns, t.c.cid, *place, t.c.writes).where(*where(t), t.c.writes.is_not(None))
    return select(*writes_columns(tx)).where(*where(w)).union_all(within)


def writes_stored(
    tx: Transaction, skey: int, where: Callable[[Table], Sequence[ColumnElement[bool]]] = lambda _: ()
) -> list[PackedWrites]:
    """Those of a session, each with what it mentions."""
    found = map(packed_writes, tx.once(selecting_writes(tx, lambda table: [table.c.skey == skey, *where(table)])))
    return [row._replace(refs=mentioned_in(unpack_writes(row.body))) if row.part == WITHIN else row for row in found]


def replace_writes(tx: Transaction, skey: int, row: PackedWrites, after: PackedWrites | None) -> None:
    """Store other writes in the place of some, or under another key; None removes them."""
    t, w = tx.tables.threads.checkpoints, tx.tables.threads.writes
    if row.part != WITHIN:
        stored = _columns(row)
        same = and_(w.c.skey == skey, *(w.c[name] == stored[name] for name in _KEY))
        tx.change(delete(w).where(same) if after is None else update(w).where(same).values(_columns(after)))
        return
    here = and_(t.c.skey == skey, t.c.ns == row.ns, t.c.cid == packed_id(row.cid))
    stays = after is not None and after.part == WITHIN
    tx.change(update(t).where(here).values(writes=written(after.body if after is not None and stays else None)))
    if after is not None and not stays:
        tx.change(insert(w).values(skey=skey, **_columns(after)))


def written(value: Any) -> Any:
    """A value in a statement that runs once: None as NULL."""
    return null() if value is None else value


def _columns(row: PackedWrites) -> dict[str, Any]:
    return {name: written(value) for name, value in {**row._asdict(), "cid": packed_id(row.cid)}.items()}
