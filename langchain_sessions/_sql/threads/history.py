"""What happens to the history of a thread when its session is rewound, forked or pruned.

Which checkpoints are pruned is decided above; what hangs on them goes or is mended in the same transaction.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, delete, insert, literal, select, update
from sqlalchemy import delete as sql_delete

from langchain_sessions._core.checkpoints import (
    ROOT,
    CheckpointRow,
    mentioned_in,
    pack_writes,
    seq_set,
    stored_parent,
    unpack_writes,
)
from langchain_sessions._core.edge import packed_id, unpacked_id
from langchain_sessions._core.ledger import Ledger, view_of
from langchain_sessions._core.rows import ALL_AWAKE, ANYONE, Owner, SessionKey, SessionRow, owner_shape
from langchain_sessions._core.thread_effects import mended_parents
from langchain_sessions._sql.driver.transaction import Prepared, Transaction, call_passed_in
from langchain_sessions._sql.log.counting import count_moved
from langchain_sessions._sql.log.lookup import (
    ask_staged,
    insert_writes,
    locate,
    owner_criterion,
    set_session,
    staged_in,
)
from langchain_sessions._sql.tables.types import as_bytes, quoted
from langchain_sessions._sql.threads.reading import checkpoint_columns, checkpoint_row
from langchain_sessions._sql.threads.staging import replace_writes, writes_stored, written
from langchain_sessions._sql.threads.values import sweep_values
from langchain_sessions.errors import InvalidInputError, SessionNotFoundError
from langchain_sessions.stores._threads import ThreadRows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores._threads import CheckpointKey, Keep

_CHUNK = 200
# Checkpoints that are looked at at once for one that is in sight.
_PAGE = 50


def rewind_thread(
    tx: Transaction, session: SessionRow, ledger: Ledger, record: int, *, is_undo: bool, reset: bool
) -> dict[str, Any]:
    """Move the head to the newest checkpoint that mentions nothing rewound; the columns that change.

    Writes that were anchored at the new head, and those of subgraphs since, go out of sight with the rewind: else
    running the thread on would bring the old reply back.

    Raises:
        InvalidInputError: No checkpoint remains, and `reset` does not say that this is meant.
    """
    if not _has_checkpoints(tx, session):
        return {}
    head = _newest_in_sight(tx, session, ledger.hidden)
    if head is None:
        if not reset and session.head_id is not None:
            raise InvalidInputError(
                "reset_thread", "no checkpoint of the graph is that old; pass True to start it anew"
            )
        # Empty and not NULL: a thread without a head shows nothing of its lists, where a session that is no thread
        # shows its log.
        return {"head_id": None, "head_runs": b""}
    # Undoing a rewind brings back by itself what that one cut: a cut counts only while its record is in sight.
    if head.cid != session.head_id and not is_undo:
        _cut_writes(tx, session, head, ledger.hidden, record)
    return {"head_id": head.cid, "head_runs": head.runs or b""}


def _cut_writes(tx: Transaction, session: SessionRow, head: CheckpointRow, hidden: SeqSet, record: int) -> None:
    """Put writes out of sight with a rewind; also those that came back because an earlier one was undone."""
    store_staged(tx, session.skey, SessionKey(session.app, session.id, ANYONE))

    # Ids of checkpoints grow with time, so what subgraphs wrote since has a greater one.
    def here(table: Any) -> list[ColumnElement[bool]]:
        c = table.c
        cid = packed_id(head.cid)
        return [and_(c.ns == ROOT, c.cid == cid) | and_(c.ns != ROOT, c.cid > cid)]

    # `part` is numbered anew under the new cut, those first that were cut before: rows of several cuts may meet there.
    seen = [row for row in writes_stored(tx, session.skey, here) if not row.cut or row.cut in hidden]
    for number, row in enumerate(sorted(seen, key=lambda row: (row.cut == 0, row.cut, row.part))):
        replace_writes(tx, session.skey, row, row._replace(cut=record, part=number))


def _has_checkpoints(tx: Transaction, session: SessionRow) -> bool:
    c = tx.tables.threads.checkpoints.c
    return bool(tx.once(select(c.cid).where(c.skey == session.skey, c.ns == ROOT).limit(1)))


def copy_thread(tx: Transaction, source: SessionRow, target: SessionRow, upto: int) -> dict[str, Any]:
    """Copy the checkpoints that mention nothing beyond a position; the columns of the target that change."""
    t = tx.tables.threads
    if not tx.once(select(t.checkpoints.c.cid).where(t.checkpoints.c.skey == source.skey).limit(1)):
        return {}
    left_out = [] if upto >= source.last_seq else [row for row in all_rows(tx, source.skey) if _beyond(row, upto)]
    # Copied inside the database: bodies of checkpoints do not pass through this process.
    for table in (t.namespaces, t.shapes, t.stored_values, t.checkpoints, t.writes, t.staged):
        others = [column for column in table.c if column.name != "skey"]
        rows = select(literal(target.skey).label(quoted("skey")), *others).where(table.c.skey == source.skey)
        names = ["skey", *(column.name for column in others)]
        tx.change(insert(table).from_select(names, rows))
    store_staged(tx, target.skey, SessionKey(target.app, target.id, ANYONE))
    remove_checkpoints(tx, target.skey, [(row.ns, row.cid) for row in left_out])
    ledger = Ledger.decode(target.ledger)
    head = _newest_in_sight(tx, target, ledger.hidden)
    if left_out:
        _drop_late_writes(tx, target, head, upto)
        sweep_values(tx, target.skey, all_rows(tx, target.skey))
    if head is None:
        # A fork of a thread stays one, also where it begins before the first checkpoint.
        return {"head_runs": b"" if source.head_runs is not None else None}
    return {"head_id": head.cid, "head_runs": head.runs or b""}


def _beyond(row: CheckpointRow, upto: int) -> bool:
    runs = row.mentioned.ranges
    return bool(runs) and runs[-1][1] > upto


def _drop_late_writes(tx: Transaction, target: SessionRow, head: CheckpointRow | None, upto: int) -> None:
    """Remove writes that mention what was not copied, and those at the head, whose outcome was not copied."""
    for row in writes_stored(tx, target.skey):
        if head is not None and (row.ns, row.cid) == (ROOT, head.cid):
            replace_writes(tx, target.skey, row, None)
        elif _is_beyond(row.refs, upto):
            kept = [write for write in unpack_writes(row.body) if not _is_beyond(write.refs, upto)]
            after = row._replace(refs=mentioned_in(kept), body=pack_writes(kept)) if kept else None
            replace_writes(tx, target.skey, row, after)


def _is_beyond(refs: bytes | None, upto: int) -> bool:
    """Whether something behind a position is mentioned."""
    return any(high > upto for _, high in seq_set(refs).ranges)


def all_rows(tx: Transaction, skey: int) -> list[CheckpointRow]:
    """Every checkpoint of a session, oldest first within its namespace."""
    c = tx.tables.threads.checkpoints.c
    rows = tx.once(select(*checkpoint_columns(tx)).where(c.skey == skey).order_by(c.ns, c.cid))
    return [checkpoint_row(row) for row in rows]


def list_root_checkpoints(tx: Transaction, key: SessionKey, now: int) -> list[CheckpointRow]:
    """The root checkpoints of a session in sight, oldest first."""
    session = locate(tx, key, now)
    if session is None:
        raise SessionNotFoundError(key.id)
    hidden = Ledger.decode(session.ledger).hidden
    rows = (row for row in all_rows(tx, session.skey) if row.ns == ROOT and not row.mentioned & hidden)
    return sorted(rows, key=lambda row: row.cid)


def remove_checkpoints(tx: Transaction, skey: int, places: Sequence[tuple[int, str]]) -> None:
    """Remove checkpoints and their writes."""
    by_namespace: dict[int, list[bytes]] = {}
    for ns, cid in places:
        by_namespace.setdefault(ns, []).append(packed_id(cid))
    for table in (tx.tables.threads.writes, tx.tables.threads.checkpoints):
        for ns, cids in by_namespace.items():
            for some in chunks(cids):
                tx.change(delete(table).where(table.c.skey == skey, table.c.ns == ns, table.c.cid.in_(some)))


def chunks(items: Sequence[Any]) -> list[Sequence[Any]]:
    """As many at a time as one statement takes."""
    return [items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK)]


# -- pruning -----------------------------------------------------------------------------------------------


def prune_checkpoints(tx: Transaction, key: SessionKey, now: int, keep: Keep) -> int:
    """Remove the checkpoints of a session that are not kept; how many. Events stay."""
    session = locate(tx, key, now, lock=True)
    if session is None:
        return 0
    store_staged(tx, session.skey, SessionKey(session.app, session.id, ANYONE))
    rows = all_rows(tx, session.skey)
    hidden = Ledger.decode(session.ledger).hidden
    in_sight = [row for row in rows if not row.mentioned & hidden]
    missing = _missing(tx, session.skey)
    kept = call_passed_in(keep, ThreadRows(session.id, rows, in_sight, *_names(tx, session.skey), missing))
    gone = [place for row in rows if (place := (row.ns, row.cid)) not in kept]
    places = [*gone, *(place for place in missing if place not in kept)]
    if places:
        remove_checkpoints(tx, session.skey, places)
        _mend_lines(tx, session.skey, rows, kept)
        sweep_values(tx, session.skey, (row for row in rows if (row.ns, row.cid) in kept))
    if gone:
        _rehead(tx, session, hidden)
    return len(gone)


def _missing(tx: Transaction, skey: int) -> list[CheckpointKey]:
    """The checkpoints of which there are only writes."""
    c, w = tx.tables.threads.checkpoints.c, tx.tables.threads.writes.c
    there = select(c.cid).where(c.skey == w.skey, c.ns == w.ns, c.cid == w.cid).exists()
    return [
        (row[0], unpacked_id(row[1])) for row in tx.once(select(w.ns, w.cid).where(w.skey == skey, ~there).distinct())
    ]


def _names(tx: Transaction, skey: int) -> tuple[dict[int, bytes], dict[int, str]]:
    # Names stay whatever goes: a saver that knows them does not write them again.
    s, n = tx.tables.threads.shapes.c, tx.tables.threads.namespaces.c
    shapes = tx.once(select(s.shape, s.body).where(s.skey == skey))
    namespaces = tx.once(select(n.ns, n.name).where(n.skey == skey))
    return {row[0]: as_bytes(row[1]) for row in shapes}, {row[0]: row[1] for row in namespaces}


def _mend_lines(tx: Transaction, skey: int, rows: Sequence[CheckpointRow], kept: Collection[CheckpointKey]) -> None:
    c = tx.tables.threads.checkpoints
    for row, parent in mended_parents(rows, kept).items():
        mine = (c.c.skey == skey, c.c.ns == row.ns, c.c.cid == packed_id(row.cid))
        told, origin = stored_parent(row.cid, parent)
        tx.change(update(c).where(*mine).values(parent=written(told), origin=written(origin)))


def _rehead(tx: Transaction, session: SessionRow, hidden: SeqSet) -> None:
    """The head is the newest that is left. Where none is, the conversation stays as it was."""
    head = _newest_in_sight(tx, session, hidden)
    if head is not None and head.cid == session.head_id:
        return
    # `head_runs` stays, so that the context is what the last checkpoint said though none is left to go on from.
    changes: dict[str, Any] = {"head_id": None}
    if head is not None:
        changes = {"head_id": head.cid, "head_runs": head.runs or b""}
    set_session(tx, session.skey, **changes)
    stood, stand = (view_of(each, (), ALL_AWAKE) for each in (session, session._replace(**changes)))
    count_moved(tx, session, stood, stand)


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


def _newest_in_sight(tx: Transaction, session: SessionRow, hidden: SeqSet) -> CheckpointRow | None:
    """The newest root checkpoint that mentions none of some positions."""
    c = tx.tables.threads.checkpoints.c
    before: str | None = None
    while True:
        where = [c.skey == session.skey, c.ns == ROOT]
        if before is not None:
            where.append(c.cid < packed_id(before))
        # Compiled as it comes: rewinds and prunings are rare.
        statement = select(*checkpoint_columns(tx)).where(*where).order_by(c.cid.desc()).limit(_PAGE)
        rows = [checkpoint_row(row) for row in tx.rows(Prepared(statement, tx.cache.dialect), {})]
        for row in rows:
            if not row.mentioned & hidden:
                return row
        if len(rows) < _PAGE:
            return None
        before = rows[-1].cid
