"""Writing checkpoints and pending writes: positions, the head and the counters move in the same transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, Table, and_, bindparam, literal_column, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite

from langchain_sessions import rows as r
from langchain_sessions.errors import HeadConflictError, SessionEndedError
from langchain_sessions.ledger import Ledger, LogView
from langchain_sessions.rows import Counters, EventRow, SessionKey, SessionRow
from langchain_sessions.runs import SeqSet, decode_runs
from langchain_sessions.stores import placing
from langchain_sessions.stores.sql.appending import moved
from langchain_sessions.stores.sql.counting import add_counters
from langchain_sessions.stores.sql.lookup import (
    event_columns,
    insert_events,
    light_columns,
    light_row,
    load_view,
    locate,
    set_session,
)
from langchain_sessions.stores.sql.sessions import open_session
from langchain_sessions.stores.threads import (
    ROOT,
    CheckpointRow,
    PutPlan,
    PutResult,
    Settled,
    ValueRow,
    WriteRow,
    WritesPlan,
    seq_set,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions.stores.base import SessionDraft
    from langchain_sessions.stores.sql.transaction import Transaction

_CHUNK = 400


def put_checkpoint(tx: Transaction, plan: PutPlan) -> PutResult:
    """Write a checkpoint, and the messages that no checkpoint of the session had before it.

    Raises:
        SessionNotFoundError: The session is somebody else's, or was deleted lately.
        SessionEndedError: It was ended.
        HeadConflictError: `plan.strict`, and another checkpoint became the head.
    """
    session = _session(tx, plan.key, plan.draft)
    if session.ended_at is not None:
        raise SessionEndedError(session.id)
    stale = session.head_id is not None and session.head_id not in (plan.parent, plan.cid)
    if plan.strict and plan.ns == ROOT and stale and not plan.is_fork:
        raise HeadConflictError(session.id, plan.parent, session.head_id or "")
    settled = plan.settle(session, _relatives(tx, session, plan.idents))
    if settled.fresh:
        insert_events(tx, session.skey, settled.fresh)
    if settled.rooted:
        _root_events(tx, session, settled.rooted)
    insert_checkpoint(tx, session.skey, settled.row)
    if plan.named_in != session.skey:
        name_things(tx, session.skey, (plan.ns, plan.ns_name), (plan.shape, plan.shape_body))
    _insert_values(tx, session.skey, settled.values)
    _adopt(tx, session.skey, settled)
    return PutResult(_move(tx, session, plan, settled), settled)


def _session(tx: Transaction, key: SessionKey, draft: SessionDraft) -> SessionRow:
    """The session, locked, opened where there is none."""
    found = locate(tx, key, draft.now, lock=True)
    return open_session(tx, draft) if found is None else found


def _relatives(tx: Transaction, session: SessionRow, idents: Sequence[str]) -> list[EventRow]:
    """Every stored revision of some messages, oldest first."""
    if not idents or session.last_seq == 0:
        return []
    e = tx.tables.events.c
    found: list[EventRow] = []
    for start in range(0, len(idents), _CHUNK):
        some = idents[start : start + _CHUNK]
        width = 1 << (len(some) - 1).bit_length()
        names = [f"i{at}" for at in range(width)]

        def build(names: Sequence[str] = names) -> Select[Any]:
            named = e.ident.in_([bindparam(name) for name in names])
            # Without a word about the third column of the index SQLite walks the whole log instead.
            indexed = (e.skey == bindparam("skey"), named, e.rev >= literal_column("0"))
            return select(*event_columns(tx.tables)).where(*indexed)

        values = dict(zip(names, (*some, *[some[-1]] * (width - len(some))), strict=True))
        statement = tx.prepare(("revisions", width), build)
        found += [EventRow(*row) for row in tx.rows(statement, {"skey": session.skey, **values})]
    return sorted(found)


def _root_events(tx: Transaction, session: SessionRow, seqs: SeqSet) -> None:
    """Flag events that the root list took over."""
    table = tx.tables.events

    def build() -> Any:
        mine = (table.c.skey == bindparam("k_skey"), table.c.seq.between(bindparam("low"), bindparam("high")))
        return update(table).where(*mine).values(flags=table.c.flags.op("|")(r.ROOTED))

    statement = tx.prepare("root events", build)
    tx.run_many(statement, [{"k_skey": session.skey, "low": low, "high": high} for low, high in seqs.runs])


def put_rows(
    tx: Transaction, table: Table, keys: tuple[str, ...], rows: Iterable[dict[str, Any]], *, over: bool
) -> None:
    """Insert rows; where the key exists, write over it or leave it alone."""
    values = list(rows)
    if not values:
        return
    names = [column.name for column in table.c]

    def build() -> Any:
        named: dict[str, Any] = {name: bindparam(name) for name in names}
        rest = [name for name in names if name not in keys]
        if tx.flavour == "mysql":
            own = mysql.insert(table).values(named)
            # IGNORE would hide other errors too.
            changes = {name: own.inserted[name] for name in rest} if over else {keys[0]: table.c[keys[0]]}
            return own.on_duplicate_key_update(changes)
        other = (sqlite.insert(table) if tx.flavour == "sqlite" else postgresql.insert(table)).values(named)
        if not over:
            return other.on_conflict_do_nothing(index_elements=list(keys))
        return other.on_conflict_do_update(
            index_elements=list(keys), set_={name: other.excluded[name] for name in rest}
        )

    tx.run_many(tx.prepare(("put", table.name, over), build), values)


def insert_checkpoint(tx: Transaction, skey: int, row: CheckpointRow) -> None:
    """Write a checkpoint's row."""
    keys = ("skey", "ns", "cid")
    put_rows(tx, tx.tables.threads.checkpoints, keys, [{"skey": skey, **row._asdict()}], over=True)


def name_things(tx: Transaction, skey: int, namespace: tuple[int, str], shape: tuple[int, bytes] | None = None) -> None:
    """Record the names behind digests, where the session has them not yet."""
    t = tx.tables.threads
    if namespace[0] != ROOT:
        named = {"skey": skey, "ns": namespace[0], "name": namespace[1]}
        put_rows(tx, t.namespaces, ("skey", "ns"), [named], over=False)
    if shape is not None:
        shaped = {"skey": skey, "shape": shape[0], "body": shape[1]}
        put_rows(tx, t.shapes, ("skey", "shape"), [shaped], over=False)


def _insert_values(tx: Transaction, skey: int, values: Sequence[ValueRow]) -> None:
    rows = ({"skey": skey, **value._asdict()} for value in values)
    put_rows(tx, tx.tables.threads.stored_values, ("skey", "digest"), rows, over=False)


def _adopt(tx: Transaction, skey: int, settled: Settled) -> None:
    """Replace bodies by positions, now that the log holds them."""
    t = tx.tables.threads
    if settled.writes:
        w = t.writes.c

        def build_write() -> Any:
            key = [w[name] == bindparam(f"k_{name}") for name in ("skey", "ns", "cid", "task", "idx", "cut")]
            changes: dict[str, Any] = {name: bindparam(f"v_{name}") for name in ("kind", "refs", "data")}
            return update(t.writes).where(and_(*key)).values(changes)

        statement = tx.prepare("adopt write", build_write)
        for row in settled.writes:
            values = {f"k_{name}": value for name, value in zip(WriteRow._fields, row, strict=True)}
            changes = {"v_kind": row.kind, "v_refs": row.refs, "v_data": row.data}
            tx.later(statement, {**values, **changes, "k_skey": skey})
    if settled.parent is not None:
        c = t.checkpoints.c
        above = settled.parent

        def build_parent() -> Any:
            key = [c[name] == bindparam(f"k_{name}") for name in ("skey", "ns", "cid")]
            changes: dict[str, Any] = {name: bindparam(f"v_{name}") for name in ("others", "outside", "body")}
            return update(t.checkpoints).where(and_(*key)).values(changes)

        named = {"v_others": above.others, "v_outside": above.outside, "v_body": above.body}
        tx.later(
            tx.prepare("adopt start", build_parent), {"k_skey": skey, "k_ns": above.ns, "k_cid": above.cid, **named}
        )


def _move(tx: Transaction, session: SessionRow, plan: PutPlan, settled: Settled) -> SessionRow:
    """Bring the session row up to date: positions, ledger, head and counters."""
    ledger = Ledger.decode(session.ledger)
    changes: dict[str, Any] = moved(session, len(settled.fresh), plan.draft.now)
    after = ledger
    for edit in settled.edits:
        after = after.with_edit(edit)
    if settled.edits:
        changes["ledger"] = after.encode()
    row = settled.row
    is_head = plan.ns == ROOT and (session.head_id is None or row.cid >= session.head_id)
    if is_head and not (row.mentioned & ledger.hidden):
        changes["head_id"] = row.cid
        if session.head_runs != (row.runs or b""):
            changes["head_runs"] = row.runs or b""
    moved_session = session._replace(**changes)
    counted = _recounted(tx, session, moved_session, settled)
    root = counted.pop(None, Counters())
    if any(root):
        changes["live_events"] = session.live_events + root.events
        changes["live_turns"] = session.live_turns + root.turns
        changes["live_tokens"] = session.live_tokens + root.tokens
    set_session(tx, session.skey, **changes)
    if counted:
        add_counters(tx, session, counted)
    return session._replace(**changes)


def _recounted(tx: Transaction, before: SessionRow, after: SessionRow, settled: Settled) -> dict[str | None, Counters]:
    """How the counters of each scope change. Only rows whose standing may change are looked at."""
    old, new = seq_set(before.head_runs), seq_set(after.head_runs)
    fresh = SeqSet.of(row.seq for row in settled.fresh)
    touched = ((old - new) | (new - old) | settled.rooted | SeqSet.of(edit.replaces for edit in settled.edits)) - fresh
    if not touched:
        listed = [row for row in settled.fresh if not row.flags & r.ROOTED or row.seq in new]
        return placing.tally(listed)
    view = load_view(tx, before, 0)
    head = tuple(decode_runs(after.head_runs)) if after.head_runs is not None else None
    view_after = LogView(Ledger.decode(after.ledger), head, view.invocations, after.last_seq)
    rows_after = [*_light(tx, before.skey, touched), *settled.fresh]
    rows_before = [
        row._replace(flags=row.flags & ~r.ROOTED) if row.seq in settled.rooted else row
        for row in rows_after
        if row.seq <= before.last_seq
    ]
    return dict(placing.tally_change(rows_before, view, rows_after, view_after))


def _light(tx: Transaction, skey: int, seqs: SeqSet) -> list[EventRow]:
    e = tx.tables.events.c
    found: list[EventRow] = []
    for low, high in seqs.runs:
        statement = select(*light_columns(tx.tables)).where(e.skey == skey, e.seq.between(low, high))
        found += [light_row(row) for row in tx.once(statement)]
    return found


def put_writes(tx: Transaction, plan: WritesPlan) -> SessionRow:
    """Store pending writes; each either replaces an earlier one of its key or leaves it alone.

    Raises:
        SessionNotFoundError: The session is somebody else's, or was deleted lately.
    """
    session = _session(tx, plan.key, replace(plan.draft, anew=False))
    keys = ("skey", "ns", "cid", "task", "idx", "cut")
    given = plan.rows(session.skey)
    for over in (False, True):
        rows = [
            {"skey": session.skey, **row._asdict()}
            for row, replaces in zip(given, plan.replaces, strict=True)
            if replaces is over
        ]
        put_rows(tx, tx.tables.threads.writes, keys, rows, over=over)
    if plan.named_in != session.skey:
        name_things(tx, session.skey, (plan.ns, plan.ns_name))
    return session


Job = PutPlan | WritesPlan


def run_jobs(tx: Transaction, jobs: Sequence[Job]) -> list[PutResult | SessionRow]:
    """Run several calls in one transaction. If one fails, none of them happened."""
    return [_run_job(tx, job) for job in jobs]


def _run_job(tx: Transaction, job: Job) -> PutResult | SessionRow:
    return put_checkpoint(tx, job) if isinstance(job, PutPlan) else put_writes(tx, job)
