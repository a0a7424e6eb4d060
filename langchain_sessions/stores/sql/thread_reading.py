"""Reading checkpoints: found newest first, then completed with all that is needed to rebuild them.

A checkpoint that mentions a rewound position is out of sight. That is not stored but computed from the session's
ledger, so an undone rewind brings it back by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, or_, select

from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.ledger import Ledger
from langchain_sessions.rows import ANYONE, EventRow, SessionKey, SessionRow
from langchain_sessions.runs import SeqSet
from langchain_sessions.stores.sql.lookup import (
    event_columns,
    locate,
    owner_criterion,
    owner_shape,
    session_columns,
    session_row,
)
from langchain_sessions.stores.sql.transaction import Prepared, Transaction
from langchain_sessions.stores.threads import (
    ROOT,
    CheckpointQuery,
    CheckpointRow,
    Details,
    Found,
    Lacks,
    WriteRow,
    seq_set,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE = 50
Place = tuple[str, int, int]


def read_checkpoints(
    tx: Transaction, query: CheckpointQuery, after: Place | None, lacks: Lacks
) -> tuple[list[Found], Details, Place | None]:
    """Checkpoints that meet a query, newest first, complete; and the place to go on from, None at the end.

    Raises:
        SessionNotFoundError: The named session is somebody else's.
    """
    session = None
    if query.session_id is not None:
        session = find_thread(tx, query)
        if session is None:
            return [], Details(), None
    found, after = _find(tx, query, session, after)
    return found, complete(tx, found, lacks, with_writes=query.with_writes), after


def find_thread(tx: Transaction, query: CheckpointQuery) -> SessionRow | None:
    """The session of a query; None where there is none.

    Raises:
        SessionNotFoundError: It is somebody else's.
    """
    key = SessionKey(query.app, query.session_id or "", ANYONE)
    session = locate(tx, key, query.now)
    if session is not None and not key._replace(owner=query.owner).admits(session.user_id):
        raise SessionNotFoundError(key.id)
    return session


def _find(
    tx: Transaction, query: CheckpointQuery, session: SessionRow | None, after: Place | None
) -> tuple[list[Found], Place | None]:
    """A page of candidates that are in sight and accepted."""
    wanted = _PAGE if query.limit is None else min(query.limit, _PAGE)
    exact = query.cid is not None or (query.limit == 1 and query.accept is None)
    size = 2 if exact else _PAGE
    found: list[Found] = []
    while len(found) < wanted:
        page = _candidates(tx, query, session, after, size)
        for item in page:
            after = (item.row.cid, item.session.skey, item.row.ns)
            if in_sight(item) and (query.accept is None or query.accept(item)):
                found.append(item)
                if len(found) == wanted:
                    return found, after
        if len(page) < size:
            return found, None
        size = _PAGE
    return found, after


def in_sight(item: Found) -> bool:
    """Whether no rewind put the checkpoint out of sight."""
    ledger = item.session.ledger
    return ledger is None or not item.row.mentioned & Ledger.decode(ledger).hidden


def checkpoint_columns(tx: Transaction) -> list[ColumnElement[Any]]:
    """The columns of a `CheckpointRow`, in its order."""
    return [tx.tables.threads.checkpoints.c[name] for name in CheckpointRow._fields]


def checkpoint_row(values: Sequence[Any]) -> CheckpointRow:
    """A `CheckpointRow` from its columns; some drivers return bytes as a view."""
    return CheckpointRow(*values[:5], *(None if value is None else bytes(value) for value in values[5:]))


def _candidates(
    tx: Transaction, query: CheckpointQuery, session: SessionRow | None, after: Place | None, size: int
) -> list[Found]:
    t, s = tx.tables.threads, tx.tables.sessions.c
    c, n = t.checkpoints.c, t.namespaces.c
    shape = owner_shape(query.owner)
    named = query.ns is None
    asked = ("candidates", session is not None, shape, named, query.cid is None, query.before is None, after is None)

    def build() -> Select[Any]:
        columns = [*checkpoint_columns(tx)]
        source: Any = t.checkpoints
        where: list[ColumnElement[bool]] = []
        if named:
            columns.append(n.name)
            source = source.outerjoin(t.namespaces, and_(n.skey == c.skey, n.ns == c.ns))
        else:
            where.append(c.ns == bindparam("q_ns"))
        if session is not None:
            where.append(c.skey == bindparam("q_skey"))
        else:
            columns += session_columns(tx.tables)
            source = source.join(tx.tables.sessions, s.skey == c.skey)
            where += [
                s.app == bindparam("q_app"),
                or_(s.expires_at.is_(None), s.expires_at > bindparam("q_now")),
                *owner_criterion(tx.tables, shape),
            ]
        if query.cid is not None:
            where.append(c.cid == bindparam("q_cid"))
        if query.before is not None:
            where.append(c.cid < bindparam("q_before"))
        if after is not None:
            where.append(_beyond(c))
        order = (c.cid.desc(), c.skey.desc(), c.ns.desc())
        return select(*columns).select_from(source).where(*where).order_by(*order).limit(bindparam("q_limit"))

    values: dict[str, Any] = {
        "q_ns": query.ns,
        "q_skey": session.skey if session else None,
        "q_app": query.app,
        "q_now": query.now,
        "k_owner": query.owner,
        "q_cid": query.cid,
        "q_before": query.before,
        "q_limit": size,
    }
    if after is not None:
        values.update(zip(("a_cid", "a_skey", "a_ns"), after, strict=True))
    width = len(CheckpointRow._fields)
    found: list[Found] = []
    for values_ in tx.rows(tx.prepare(asked, build), values):
        row = checkpoint_row(values_[:width])
        rest = values_[width:]
        name = (rest[0] or "") if named else query.ns_name
        owner = session if session is not None else session_row(tuple(rest[1:] if named else rest))
        found.append(Found(owner, name, row))
    return found


def _beyond(c: Any) -> ColumnElement[bool]:
    """Rows after a place, in the order of the list."""
    cid: Any = bindparam("a_cid")
    skey: Any = bindparam("a_skey")
    ns: Any = bindparam("a_ns")
    return or_(
        c.cid < cid,
        and_(c.cid == cid, c.skey < skey),
        and_(c.cid == cid, c.skey == skey, c.ns < ns),
    )


def complete(tx: Transaction, found: Sequence[Found], lacks: Lacks, *, with_writes: bool = True) -> Details:
    """What is needed to rebuild some checkpoints."""
    details = Details()
    for item in found:
        skey, row = item.session.skey, item.row
        if (skey, row.shape) not in details.shapes:
            details.shapes[skey, row.shape] = read_shape(tx, skey, row.shape)
        values = read_values(tx, skey, row.digests)
        details.values.update(((skey, digest), data) for digest, data in values.items())
        writes = read_writes(tx, item.session, row.ns, row.cid) if with_writes else []
        details.writes[skey, row.ns, row.cid] = writes
        known = details.events.setdefault(skey, [])
        mentioned = row.mentioned
        for write in writes:
            mentioned = mentioned | seq_set(write.refs)
        missing = lacks(item.session, mentioned) - SeqSet.of(event.seq for event in known)
        known += read_events(tx, skey, missing)
    return details


def read_shape(tx: Transaction, skey: int, shape: int) -> bytes:
    """The names behind a shape's digest; empty where they are gone."""
    t = tx.tables.threads.shapes

    def build() -> Select[Any]:
        return select(t.c.body).where(t.c.skey == bindparam("skey"), t.c.shape == bindparam("shape"))

    row = tx.row(tx.prepare("shape", build), {"skey": skey, "shape": shape})
    return bytes(row[0]) if row else b""


def read_values(tx: Transaction, skey: int, digests: Sequence[bytes]) -> dict[bytes, bytes]:
    """The values behind some digests."""
    t = tx.tables.threads.stored_values

    def build() -> Select[Any]:
        return select(t.c.data).where(t.c.skey == bindparam("skey"), t.c.digest == bindparam("digest"))

    found: dict[bytes, bytes] = {}
    for digest in dict.fromkeys(digests):
        row = tx.row(tx.prepare("value", build), {"skey": skey, "digest": digest})
        if row is not None:
            found[digest] = bytes(row[0])
    return found


def read_writes(tx: Transaction, session: SessionRow, ns: int, cid: str) -> list[WriteRow]:
    """The writes of a checkpoint that are in sight."""
    t = tx.tables.threads.writes

    def build() -> Select[Any]:
        same = (t.c.skey == bindparam("skey"), t.c.ns == bindparam("ns"), t.c.cid == bindparam("cid"))
        return select(*(t.c[name] for name in WriteRow._fields)).where(*same)

    values = {"skey": session.skey, "ns": ns, "cid": cid}
    return standing_writes(session, [write_row(row) for row in tx.rows(tx.prepare("writes", build), values)])


def write_row(values: Sequence[Any]) -> WriteRow:
    """A `WriteRow` from its columns."""
    return WriteRow(*values[:8], *(None if value is None else bytes(value) for value in values[8:]))


def standing_writes(session: SessionRow, rows: Sequence[WriteRow]) -> list[WriteRow]:
    """Writes without those that a rewind put out of sight; where it was undone, those that it hid come first."""
    if not any(row.cut for row in rows):
        return list(rows)
    hidden = Ledger.decode(session.ledger).hidden
    found: dict[tuple[str, int], WriteRow] = {}
    for row in sorted(rows, key=lambda row: (row.cut == 0, row.cut)):
        if row.cut == 0 or row.cut in hidden:
            found.setdefault((row.task, row.idx), row)
    return list(found.values())


def read_events(tx: Transaction, skey: int, seqs: SeqSet) -> list[EventRow]:
    """The events at some positions."""
    e = tx.tables.events.c

    def build() -> Select[Any]:
        mine = (e.skey == bindparam("skey"), e.seq.between(bindparam("low"), bindparam("high")))
        return select(*event_columns(tx.tables)).where(*mine)

    statement = tx.prepare("events between", build)
    found: list[EventRow] = []
    for low, high in seqs.runs:
        found += map(EventRow._make, tx.rows(statement, {"skey": skey, "low": low, "high": high}))
    return found


def read_lineage(tx: Transaction, query: CheckpointQuery, lacks: Lacks, is_enough: Any) -> tuple[list[Found], Details]:
    """A checkpoint's ancestors from its parent on, newest first, until `is_enough` of one says so.

    Raises:
        SessionNotFoundError: The session is somebody else's.
    """
    session = find_thread(tx, query)
    if session is None:
        return [], Details()
    target, _ = _find(tx, query, session, None)
    found: list[Found] = []
    parent = target[0].row.parent if target else None
    # Ids made by hand may go round in a circle.
    walked: set[str] = set()
    while parent is not None and parent not in walked:
        walked.add(parent)
        row = read_checkpoint(tx, session.skey, target[0].row.ns, parent)
        if row is None:
            break
        found.append(Found(session, target[0].ns_name, row))
        if is_enough(found[-1], read_shape(tx, session.skey, row.shape)):
            break
        parent = row.parent
    return found, complete(tx, found, lacks)


def read_checkpoint(tx: Transaction, skey: int, ns: int, cid: str) -> CheckpointRow | None:
    """One checkpoint's row."""
    c = tx.tables.threads.checkpoints.c

    def build() -> Select[Any]:
        same = (c.skey == bindparam("skey"), c.ns == bindparam("ns"), c.cid == bindparam("cid"))
        return select(*checkpoint_columns(tx)).where(*same)

    row = tx.row(tx.prepare("checkpoint", build), {"skey": skey, "ns": ns, "cid": cid})
    return None if row is None else checkpoint_row(row)


def newest_in_sight(tx: Transaction, session: SessionRow, hidden: SeqSet) -> CheckpointRow | None:
    """The newest root checkpoint that mentions none of some positions."""
    c = tx.tables.threads.checkpoints.c
    before: str | None = None
    while True:
        where = [c.skey == session.skey, c.ns == ROOT]
        if before is not None:
            where.append(c.cid < before)
        statement = select(*checkpoint_columns(tx)).where(*where).order_by(c.cid.desc()).limit(_PAGE)
        rows = [checkpoint_row(row) for row in tx.rows(Prepared(statement, tx.cache.dialect), {})]
        for row in rows:
            if not row.mentioned & hidden:
                return row
        if len(rows) < _PAGE:
            return None
        before = rows[-1].cid
