"""Reading checkpoints: found newest first, then completed with all that is needed to rebuild them.

A checkpoint that mentions a rewound position is out of sight. That is not stored but computed from the session's
ledger, so an undone rewind brings it back by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, bindparam, or_, select

from langchain_sessions._core.checkpoints import (
    NAMES_WITHIN,
    WITHIN,
    CheckpointRow,
    PackedWrites,
    StagedWrites,
    digests_in,
    is_in_sight,
    seq_set,
    unpack_origin,
    writes_in_sight,
)
from langchain_sessions._core.edge import packed_id, unpacked_id
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ANYONE, SessionKey, SessionRow, owner_shape
from langchain_sessions._sql.driver.transaction import Later, Transaction, call_passed_in
from langchain_sessions._sql.log.expiry_in_sql import is_there
from langchain_sessions._sql.log.lookup import (
    ask_staged,
    key_values,
    locate,
    locating,
    owner_criterion,
    session_columns,
    session_row,
    skey_named,
    staged_in,
)
from langchain_sessions._sql.tables.types import as_bytes
from langchain_sessions._sql.threads.staging import packed_writes, selecting_writes, writes_columns
from langchain_sessions._sql.threads.values import read_events, read_values, rows_of_values, values_below
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores._threads import (
    CheckpointDetails,
    CheckpointPage,
    CheckpointQuery,
    CheckpointReader,
    FoundCheckpoint,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_sessions.stores._threads import PageEnd, StoredIn

# Candidates that are read at once; what is out of sight or not accepted among them is read in vain.
_PAGE = 50


def find_checkpoints(
    tx: Transaction, query: CheckpointQuery, after: PageEnd | None, reader: CheckpointReader
) -> CheckpointPage:
    """Checkpoints that meet a query, newest first, complete.

    Raises:
        SessionNotFoundError: The named session is somebody else's.
    """
    if query.session_id is None:
        found, after = _find(tx, query, None, after)
        return CheckpointPage(found, _complete(tx, found, reader), after)
    # What a graph asks for at each turn: one checkpoint and all that hangs on it, in one round trip.
    glance = _glance(tx, query, reader) if _is_exact(query) and after is None else None
    session = find_thread(tx, query) if glance is None else _checked(query, glance.session)
    if session is None:
        return CheckpointPage([], CheckpointDetails(), None)
    found = [] if glance is None else [FoundCheckpoint(session, query.ns_name, row) for row in glance.candidates]
    if found and is_in_sight(session, found[0].row):
        after = (found[0].row.cid, session.skey, found[0].row.ns)
        return CheckpointPage(found, _complete(tx, found, reader, glance), after)
    found, after = _find(tx, query, session, after)
    return CheckpointPage(found, _complete(tx, found, reader), after)


def find_thread(tx: Transaction, query: CheckpointQuery) -> SessionRow | None:
    """The session of a query; None where there is none.

    Raises:
        SessionNotFoundError: It is somebody else's.
    """
    # Looked up whoever owns it: a thread of somebody else's is an error, and one that is not there is none.
    return _checked(query, locate(tx, _anyones(query), query.now))


def _anyones(query: CheckpointQuery) -> SessionKey:
    return SessionKey(query.app, query.session_id or "", ANYONE)


def _checked(query: CheckpointQuery, session: SessionRow | None) -> SessionRow | None:
    """A session that may be read."""
    if session is not None and not _anyones(query)._replace(owner=query.owner).admits(session.user_id):
        raise SessionNotFoundError(session.id)
    return session


class _Glance(NamedTuple):
    """What one round trip tells of a session, of its newest checkpoint or the one asked for, and of its writes."""

    session: SessionRow | None
    candidates: list[CheckpointRow]
    parts: list[PackedWrites]
    staged: list[StagedWrites]
    values: dict[bytes, bytes]


def _is_exact(query: CheckpointQuery) -> bool:
    """Whether the answer is one checkpoint that can be named before anything is read."""
    return query.ns is not None and query.before is None and query.limit == 1 and query.accept is None


def _glance(tx: Transaction, query: CheckpointQuery, reader: CheckpointReader) -> _Glance:
    c, w = tx.tables.threads.checkpoints.c, tx.tables.threads.writes.c
    key, named = _anyones(query), query.cid is not None

    def place(table: Any) -> list[ColumnElement[bool]]:
        cid: Any = bindparam("q_cid")
        if not named:
            newest = (c.skey == skey_named(tx), c.ns == bindparam("q_ns"))
            cid = select(c.cid).where(*newest).order_by(c.cid.desc()).limit(1).scalar_subquery()
        return [table.skey == skey_named(tx), table.ns == bindparam("q_ns"), table.cid == cid]

    values = {"k_app": key.app, "k_id": key.id, "q_ns": query.ns, "q_cid": _packed(query.cid)}
    shape = owner_shape(ANYONE)
    located = tx.later(
        tx.prepare(("locate", shape, False), lambda: locating(tx, shape, lock=False)), key_values(key, query.now)
    )
    if located.row is None and not tx.pipelines:
        # Where an answer is there at once, what cannot be there is not asked for.
        return _Glance(None, [], [], [], {})
    # Before what is stored for good: what is moved there meanwhile is read twice, and not missed.
    staged = ask_staged(tx, key)
    columns = [*checkpoint_columns(tx), c.writes]
    row = tx.later(tx.prepare(("glance", named), lambda: select(*columns).where(*place(c))), values)
    parts = tx.later(tx.prepare(("glance parts", named), lambda: select(*writes_columns(tx)).where(*place(w))), values)
    told = None
    # MySQL and MariaDB give a recursive column the width that it has in its first row.
    may_lie_below = tx.pipelines or _lies_below(query, located, row, reader)
    if may_lie_below and tx.flavour in ("sqlite", "postgresql"):
        told = tx.later(
            tx.prepare(("glance values", named), lambda: values_below(tx, skey_named(tx), c.outside, place(c))), values
        )
    tx.flush()
    return _Glance(
        None if located.row is None else session_row(located.row),
        [checkpoint_row(found) for found in row.rows],
        [packed_writes((*found[:2], 0, WITHIN, None, found[-1])) for found in row.rows if found[-1] is not None]
        + [packed_writes(found) for found in parts.rows],
        staged_in(staged),
        rows_of_values(told.rows) if told is not None else {},
    )


def _packed(cid: str | None) -> bytes | None:
    return None if cid is None else packed_id(cid)


def _lies_below(query: CheckpointQuery, located: Later, row: Later, reader: CheckpointReader) -> bool:
    """Whether a checkpoint names values of which the reader does not know what they consist of."""
    digests = {digest for found in row.rows for digest in checkpoint_row(found).digests}
    session = _checked(query, session_row(located.row)) if digests and located.row is not None else None
    if session is None:
        return False
    known = reader.pieces(session, digests)
    return any(digest not in known for digest in digests)


def _find(
    tx: Transaction, query: CheckpointQuery, session: SessionRow | None, after: PageEnd | None
) -> tuple[list[FoundCheckpoint], PageEnd | None]:
    """A page of candidates that are in sight and accepted."""
    wanted = _PAGE if query.limit is None else min(query.limit, _PAGE)
    # An id names one checkpoint of a namespace, and hardly ever one of another.
    size = 2 if query.cid is not None else _PAGE
    found: list[FoundCheckpoint] = []
    while len(found) < wanted:
        page = _candidates(tx, query, session, after, size)
        for item in page:
            after = (item.row.cid, item.session.skey, item.row.ns)
            if is_in_sight(item.session, item.row) and (query.accept is None or call_passed_in(query.accept, item)):
                found.append(item)
                if len(found) == wanted:
                    return found, after
        if len(page) < size:
            return found, None
        size = _PAGE
    return found, after


def checkpoint_columns(tx: Transaction) -> list[ColumnElement[Any]]:
    """The columns that `checkpoint_row` reads."""
    return [tx.tables.threads.checkpoints.c[name] for name in (*CheckpointRow._fields, "origin")]


def checkpoint_row(values: Sequence[Any]) -> CheckpointRow:
    """A `CheckpointRow` from its columns, whatever follows them; some drivers return bytes as a view."""
    ns, cid, *told = values[:5]
    row = CheckpointRow(
        ns, unpacked_id(cid), *told, *[None if value is None else as_bytes(value) for value in values[5:9]]
    )
    origin = values[9]
    return row if origin is None else row._replace(parent=unpack_origin(row.cid, as_bytes(origin)))


def _candidates(
    tx: Transaction, query: CheckpointQuery, session: SessionRow | None, after: PageEnd | None, size: int
) -> list[FoundCheckpoint]:
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
                is_there(tx.tables, "q_now"),
                *owner_criterion(tx.tables, shape),
            ]
        if query.cid is not None:
            where.append(c.cid == bindparam("q_cid"))
        if query.before is not None:
            where.append(c.cid < bindparam("q_before"))
        if after is not None:
            where.append(_beyond(c))
        # Across threads and namespaces ids may be equal; without the others a page could end between two of them.
        order = (c.cid.desc(), c.skey.desc(), c.ns.desc())
        return select(*columns).select_from(source).where(*where).order_by(*order).limit(bindparam("q_limit"))

    values: dict[str, Any] = {
        "q_ns": query.ns,
        "q_skey": session.skey if session else None,
        "q_app": query.app,
        "q_now": query.now,
        "k_owner": query.owner,
        "q_cid": _packed(query.cid),
        "q_before": _packed(query.before),
        "q_limit": size,
    }
    if after is not None:
        values.update(zip(("a_cid", "a_skey", "a_ns"), (packed_id(after[0]), *after[1:]), strict=True))
    width = len(checkpoint_columns(tx))
    found: list[FoundCheckpoint] = []
    for values_ in tx.rows(tx.prepare(asked, build), values):
        row = checkpoint_row(values_[:width])
        rest = values_[width:]
        name = (rest[0] or "") if named else query.ns_name
        owner = session if session is not None else session_row(tuple(rest[1:] if named else rest))
        found.append(FoundCheckpoint(owner, name, row))
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


def _complete(
    tx: Transaction, found: Sequence[FoundCheckpoint], reader: CheckpointReader, glance: _Glance | None = None
) -> CheckpointDetails:
    """What is needed to rebuild some checkpoints. With `glance`, its writes are known."""
    details = CheckpointDetails()
    sessions = {item.session.skey: item.session for item in found}
    asked = sessions.items() if glance is None else ()  # before what is stored for good, as in `_glance`
    staged = {skey: ask_staged(tx, SessionKey(session.app, session.id, ANYONE)) for skey, session in asked}
    waiting = _ask_details(tx, found, reader, details, glance)
    tx.flush()
    if glance is None:
        told = {skey: staged_in(answer) for skey, answer in staged.items()}
    else:
        told = dict.fromkeys(sessions, glance.staged)
    missing: dict[int, SeqSet] = {}
    digests: dict[int, set[bytes]] = {}
    for item in found:
        skey, row = item.session.skey, item.row
        parts = [packed_writes(part) for part in waiting.parts[skey, row.ns, row.cid].rows] if glance is None else []
        parts = parts if glance is None else glance.parts
        waiting_here = [each for each in told[skey] if (each.ns, each.cid) == (row.ns, row.cid)]
        writes = writes_in_sight(item.session, row.cid, parts, waiting_here)
        details.writes[skey, row.ns, row.cid] = writes
        mentioned = row.mentioned
        for write in writes:
            mentioned = mentioned | seq_set(write.refs)
        missing[skey] = missing.get(skey, SeqSet()) | reader.lacks(item.session, mentioned)
        digests.setdefault(skey, set()).update(row.digests, digests_in(writes))
    details.shapes.update(
        (place, as_bytes(answer.rows[0][0])) for place, answer in waiting.shapes.items() if answer.rows
    )
    for skey, seqs in missing.items():
        # Asked for by name, which takes a fourth of what it does to follow the names from row to row.
        wanted = digests[skey].union(reader.pieces(sessions[skey], digests[skey]))
        told_here = glance.values if glance is not None else {}
        rows = {**told_here, **read_values(tx, skey, wanted, told_here)}
        details.values.update({(skey, digest): row for digest, row in rows.items()})
        details.events[skey] = read_events(tx, skey, seqs)
    return details


@dataclass(slots=True)
class _Waiting:
    """What was asked for and is not told yet."""

    shapes: dict[tuple[int, int], Later] = field(default_factory=dict[tuple[int, int], Later])
    parts: dict[tuple[int, int, str], Later] = field(default_factory=dict[tuple[int, int, str], Later])


def _ask_details(
    tx: Transaction,
    found: Sequence[FoundCheckpoint],
    reader: CheckpointReader,
    details: CheckpointDetails,
    glance: _Glance | None,
) -> _Waiting:
    """Ask for what the reader does not have."""
    waiting = _Waiting()
    for item in found:
        skey, row = item.session.skey, item.row
        if (skey, row.shape) not in details.shapes and (skey, row.shape) not in waiting.shapes:
            known = reader.shape(item.session, row.shape)
            if known is None:
                waiting.shapes[skey, row.shape] = _ask_shape(tx, skey, row.shape)
            # Empty where it is gone; the rebuilder says that the checkpoint cannot be read.
            details.shapes[skey, row.shape] = known or b""
        if glance is None:
            waiting.parts[skey, row.ns, row.cid] = _ask_parts(tx, skey, row)
    return waiting


def _ask_shape(tx: Transaction, skey: int, shape: int) -> Later:
    """Ask for the names behind a shape's digest."""
    t = tx.tables.threads.shapes

    def build() -> Select[Any]:
        return select(t.c.body).where(t.c.skey == bindparam("skey"), t.c.shape == bindparam("shape"))

    return tx.later(tx.prepare("shape", build), {"skey": skey, "shape": shape})


def _ask_parts(tx: Transaction, skey: int, row: CheckpointRow) -> Later:
    """Ask for the writes of a checkpoint that are stored for good."""

    def build() -> Any:
        return selecting_writes(tx, lambda t: [t.c[name] == bindparam(name) for name in ("skey", "ns", "cid")])

    return tx.later(tx.prepare("parts", build), {"skey": skey, "ns": row.ns, "cid": packed_id(row.cid)})


def load_lineage(
    tx: Transaction, query: CheckpointQuery, channels: Collection[str], stored_in: StoredIn, reader: CheckpointReader
) -> CheckpointPage:
    """A checkpoint's ancestors from its parent on, newest first, until each channel was stored whole in one.

    Raises:
        SessionNotFoundError: The session is somebody else's.
    """
    session = find_thread(tx, query)
    if session is None:
        return CheckpointPage([], CheckpointDetails(), None)
    target, _ = _find(tx, query, session, None)
    found: list[FoundCheckpoint] = []
    missing = set(channels)
    parent = target[0].row.parent if target else None
    # Ids made by hand may go round in a circle.
    walked: set[str] = set()
    while missing and parent is not None and parent not in walked:
        walked.add(parent)
        row = read_checkpoint(tx, session.skey, target[0].row.ns, parent)
        if row is None:
            break
        found.append(FoundCheckpoint(session, target[0].ns_name, row))
        # One ancestor at a time: which one is the last to be needed is known only from what it stored.
        names = _ask_shape(tx, session.skey, row.shape)
        tx.flush()
        if not names.rows and row.shape != NAMES_WITHIN:
            break  # removed meanwhile, or damaged: who rebuilds it finds out which
        shape = as_bytes(names.rows[0][0]) if names.rows else b""
        missing.difference_update(call_passed_in(stored_in, found[-1], shape))
        parent = row.parent
    return CheckpointPage(found, _complete(tx, found, reader), None)


def read_checkpoint(tx: Transaction, skey: int, ns: int, cid: str) -> CheckpointRow | None:
    """One checkpoint's row."""
    c = tx.tables.threads.checkpoints.c

    def build() -> Select[Any]:
        same = (c.skey == bindparam("skey"), c.ns == bindparam("ns"), c.cid == bindparam("cid"))
        return select(*checkpoint_columns(tx)).where(*same)

    row = tx.row(tx.prepare("checkpoint", build), {"skey": skey, "ns": ns, "cid": packed_id(cid)})
    return None if row is None else checkpoint_row(row)
