"""Removing checkpoints: which, is decided above; what hangs on them goes or is mended in the same transaction."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, delete, null, select, update

from langchain_sessions._core.checkpoints import mended_parents
from langchain_sessions._core.ledger import Ledger
from langchain_sessions._core.rows import ANYONE, Owner, SessionKey, SessionRow
from langchain_sessions._sql.driver.transaction import Prepared, Transaction
from langchain_sessions._sql.log.counting import recount
from langchain_sessions._sql.log.lookup import locate, owner_criterion, owner_shape, set_session
from langchain_sessions._sql.threads.reading import newest_in_sight
from langchain_sessions._sql.threads.staging import store_staged
from langchain_sessions._sql.threads.standing import all_rows, chunks, remove_checkpoints
from langchain_sessions.stores.threads import ThreadRows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_sessions._core.checkpoints import CheckpointRow
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores.threads import CheckpointPlace, Keep


def prune_checkpoints(tx: Transaction, key: SessionKey, now: int, keep: Keep) -> int:
    """Remove the checkpoints of a session that are not kept; how many. Events stay."""
    session = locate(tx, key, now, lock=True)
    if session is None:
        return 0
    store_staged(tx, session.skey, SessionKey(session.app, session.id, ANYONE))
    rows = all_rows(tx, session)
    hidden = Ledger.decode(session.ledger).hidden
    in_sight = [row for row in rows if not row.mentioned & hidden]
    kept = keep(ThreadRows(session.id, rows, in_sight, *_names(tx, session.skey)))
    gone = [row for row in rows if (row.ns, row.cid) not in kept]
    if gone:
        remove_checkpoints(tx, session.skey, [(row.ns, row.cid) for row in gone])
        _mend_lines(tx, session.skey, rows, kept)
        _remove_values(tx, session.skey, rows, kept)
        _rehead(tx, session, hidden)
    return len(gone)


def _names(tx: Transaction, skey: int) -> tuple[dict[int, bytes], dict[int, str]]:
    # Names stay whatever goes: a saver that knows them does not write them again.
    s, n = tx.tables.threads.shapes.c, tx.tables.threads.namespaces.c
    shapes = tx.once(select(s.shape, s.body).where(s.skey == skey))
    namespaces = tx.once(select(n.ns, n.name).where(n.skey == skey))
    return {row[0]: bytes(row[1]) for row in shapes}, {row[0]: row[1] for row in namespaces}


def _mend_lines(tx: Transaction, skey: int, rows: Sequence[CheckpointRow], kept: Collection[CheckpointPlace]) -> None:
    c = tx.tables.threads.checkpoints
    for row, parent in mended_parents(rows, kept).items():
        mine = (c.c.skey == skey, c.c.ns == row.ns, c.c.cid == row.cid)
        tx.change(update(c).where(*mine).values(parent=null() if parent is None else parent))


def _remove_values(
    tx: Transaction, skey: int, rows: Sequence[CheckpointRow], kept: Collection[CheckpointPlace]
) -> None:
    """Remove the values that nothing mentions any more."""
    v = tx.tables.threads.stored_values
    held = {digest for row in rows if (row.ns, row.cid) in kept for digest in row.digests}
    for some in chunks(sorted({digest for row in rows for digest in row.digests} - held)):
        tx.change(delete(v).where(v.c.skey == skey, v.c.digest.in_(some)))


def _rehead(tx: Transaction, session: SessionRow, hidden: SeqSet) -> None:
    """The head is the newest that is left. Where none is, the conversation stays as it was."""
    head = newest_in_sight(tx, session, hidden)
    if head is not None and head.cid == session.head_id:
        return
    changes: dict[str, Any] = {"head_id": None}
    if head is not None:
        changes = {"head_id": head.cid, "head_runs": head.runs or b""}
    set_session(tx, session.skey, **changes)
    recount(tx, session._replace(**changes))


def find_runs(tx: Transaction, app: str, owner: Owner, run_ids: Collection[str]) -> list[SessionKey]:
    """The sessions that have a checkpoint of one of some runs."""
    c, s = tx.tables.threads.checkpoints.c, tx.tables.sessions.c
    found: set[tuple[str, str | None]] = set()
    for some in chunks(sorted(set(run_ids))):
        mine: list[ColumnElement[bool]] = [s.app == app, *owner_criterion(tx.tables, owner_shape(owner))]
        joined = tx.tables.threads.checkpoints.join(tx.tables.sessions, s.skey == c.skey)
        statement = select(s.id, s.user_id).select_from(joined).where(*mine, c.run_id.in_(some)).distinct()
        rows = tx.rows(Prepared(statement, tx.cache.dialect), {"k_owner": owner})
        found.update((row[0], row[1]) for row in rows)
    return [SessionKey(app, session_id, user) for session_id, user in sorted(found, key=itemgetter(0))]
