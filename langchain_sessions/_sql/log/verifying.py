"""Checking a session: everything that is derived is built again from its log and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import exists, func, select

from langchain_sessions._core.ledger import Ledger, count_scope, marks_of
from langchain_sessions._core.rows import Mark, SessionKey, SessionRow, stored_row
from langchain_sessions._core.state import is_same_state
from langchain_sessions._sql.log.by_position import load_light, load_marks
from langchain_sessions._sql.log.counting import read_counters
from langchain_sessions._sql.log.lookup import event_columns, require_session
from langchain_sessions._sql.log.rewinding import replay
from langchain_sessions._sql.log.views import load_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._sql.driver.transaction import Transaction


def verify_session(tx: Transaction, key: SessionKey, now: int) -> list[str]:
    """The contract's `verify_session`."""
    # Locked, so that no append comes between what is compared.
    session = require_session(tx, key, now, lock=True)
    e = tx.tables.events.c
    found: list[str] = []
    first, last, total = tx.once(select(func.min(e.seq), func.max(e.seq), func.count()).where(e.skey == session.skey))[
        0
    ]
    if (first or 1, last or 0, total) != (1, session.last_seq, session.last_seq):
        found.append("positions are not gap-free")
    marks = _marks_in_log(tx, session)
    if marks != load_marks(tx, session):
        found.append("marks differ from the log")
    ledger = Ledger.of(marks, session.last_seq)
    if ledger.encode() != session.ledger:
        found.append("ledger differs from the log")
    if not is_same_state(replay(tx, session, ledger), session.state):
        found.append("state differs from the log")
    return [*found, *_lost_texts(tx, session), *_wrong_counters(tx, session), *_stray_vectors(tx, session)]


def _lost_texts(tx: Transaction, session: SessionRow) -> list[str]:
    """Events that are told by one that is not there, or is not whole itself."""
    e = tx.tables.events
    base = e.alias("base")
    whole = (base.c.skey == e.c.skey) & (base.c.seq == e.c.base) & base.c.base.is_(None)
    lost = select(e.c.seq).where(e.c.skey == session.skey, e.c.base.is_not(None), ~exists().where(whole))
    found = [f"event {seq} is told by one that is not there" for (seq,) in tx.once(lost.order_by(e.c.seq))]
    return [*found, *_wrongly_packed(tx, session)]


def _wrongly_packed(tx: Transaction, session: SessionRow) -> Iterator[str]:
    """Packed texts beside which there is another one."""
    e = tx.tables.events.c
    both = (e.skey == session.skey, e.packed.is_not(None), e.text.is_not(None))
    for (seq,) in tx.once(select(e.seq).where(*both).order_by(e.seq)):
        yield f"event {seq} has a text beside its packed one"


def _stray_vectors(tx: Transaction, session: SessionRow) -> list[str]:
    """Vectors that no search of this log reads: of no event, of an older set, or ahead of what is embedded."""
    v, logs, e = tx.tables.recall.vectors, tx.tables.recall.embeddings, tx.tables.events
    counted = (
        select(func.count())
        .select_from(
            v.outerjoin(logs, (logs.c.skey == v.c.skey) & (logs.c.generation == v.c.generation)).outerjoin(
                e, (e.c.skey == v.c.skey) & (e.c.seq == v.c.seq)
            )
        )
        .where(
            v.c.skey == session.skey,
            logs.c.skey.is_(None) | e.c.skey.is_(None) | (v.c.seq > logs.c.embedded_to),
        )
    )
    stray = int(tx.once(counted)[0][0])
    return [f"{stray} vectors belong to nothing that is embedded"] if stray else []


def _marks_in_log(tx: Transaction, session: SessionRow) -> list[Mark]:
    e = tx.tables.events.c
    rows = tx.once(
        select(*event_columns(tx.tables)).where(e.skey == session.skey, e.extra.is_not(None)).order_by(e.seq)
    )
    return marks_of(map(stored_row, rows))


def _wrong_counters(tx: Transaction, session: SessionRow) -> list[str]:
    table = tx.tables.scopes
    view = load_view(tx, session, 0)
    branches = [row[0] for row in tx.once(select(table.c.scope).where(table.c.skey == session.skey))]
    return [
        f"counters of {'the root' if scope is None else repr(scope)} differ from the log"
        for scope in (None, *branches)
        if count_scope(load_light(tx, session, scope, view), view, scope) != read_counters(tx, session, scope)
    ]
