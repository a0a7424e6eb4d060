"""Writing checkpoints and pending writes: positions, the head and the counters move in the same transaction.

Several calls for one thread share one; where that fails, each is written by itself.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from sqlalchemy import Select, Table, Update, bindparam, null, select, update

from langchain_sessions._core import rows as r
from langchain_sessions._core.checkpoints import (
    NAMES_WITHIN,
    ROOT,
    CheckpointRow,
    StagedWrites,
    head_after,
    seq_set,
    stored_parent,
    touched_by_put,
)
from langchain_sessions._core.edge import packed_id
from langchain_sessions._core.flow import LARGE, Flow, ask
from langchain_sessions._core.ledger import Ledger, LogView, view_of
from langchain_sessions._core.packed_texts import packed_ahead
from langchain_sessions._core.ranges import decode_ranges, fold_ranges
from langchain_sessions._core.rows import Counters, EventRow, SessionRow, moved, owner_shape, stored_row, tally
from langchain_sessions._core.thread_effects import counted_after_put
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.transaction import call_passed_in, param
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.log.by_position import load_light_at
from langchain_sessions._sql.log.counting import add_counters
from langchain_sessions._sql.log.lookup import (
    add_rows,
    ask_staged,
    insert_events,
    insert_writes,
    key_criteria,
    key_values,
    locating,
    putting,
    root_events,
    session_row,
    set_session,
    staged_in,
)
from langchain_sessions._sql.log.revisions import ask_revisions, insert_revisions
from langchain_sessions._sql.log.sessions import open_session
from langchain_sessions._sql.log.views import load_unfinished_of
from langchain_sessions._sql.threads.staging import Unseen, replace_start, stage_unseen, stage_writes, taken_together
from langchain_sessions._sql.threads.values import insert_values, require_values
from langchain_sessions.errors import HeadConflictError, SessionEndedError, StoreUnavailableError
from langchain_sessions.stores._threads import PlanOutcome, PutDecision, PutPlan, PutResult, ThreadPlan, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement

    from langchain_sessions._core.checkpoints import ValueRow
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._sql.driver.transaction import Later, Transaction
    from langchain_sessions._sql.store import SqlStore


_MAX_RACES = 20
# The constructor of a named tuple takes twice as long.
_tuple = tuple.__new__
# To find a member of an enumeration takes longer than a call.
_RELAXED, _APPEND = TransactionKind.RELAXED, TransactionKind.APPEND
_MAX_STAGED = 16
"""What waits for a checkpoint that does not come is stored for good before there is much of it."""


def put_checkpoint(
    tx: Transaction, plan: PutPlan, session: SessionRow | None = None, arrived: Sequence[WritesPlan] = ()
) -> PutResult:
    """Write a checkpoint, and the messages that no checkpoint of the session had before it.

    Args:
        tx: The transaction.
        plan: What to write.
        session: The session as this transaction left it, if it has locked it already.
        arrived: Writes of its parent that are stored in the same transaction, and so need not be staged.

    Raises:
        SessionNotFoundError: The session is somebody else's, or was deleted lately.
        SessionEndedError: It was ended.
        HeadConflictError: `plan.strict`, and another checkpoint became the head.
        StalePlanError: It inherits values of a checkpoint that was removed meanwhile.
    """
    session, relatives, staged = _look_up(tx, plan, session)
    if session.ended_at is not None:
        raise SessionEndedError(session.id)
    # A checkpoint that is put again, as LangGraph does after a failure, is its own head already.
    if plan.strict and plan.ns == ROOT and session.head_id not in (None, plan.parent, plan.cid) and not plan.is_fork:
        raise HeadConflictError(session.id, plan.parent, session.head_id or "")
    mine = [item for item in staged if _is_of_parent(plan, item)] if staged else []
    writes = [write for item in mine for write in item.writes] if mine else []
    for item in arrived:
        writes += call_passed_in(item.rows, session.skey)
    # Decided under the lock, from what is stored now: asked again with the transaction, it may answer otherwise.
    decision = call_passed_in(plan.decide, session, relatives, writes)
    skey = session.skey
    _bring_values(tx, skey, decision, arrived)
    if decision.parent is not None:
        replace_start(tx, skey, decision.parent)
    # Before anything is inserted, so that what they took is used again at once.
    if staged:
        _clear_taken(tx, skey, mine, staged)
    if decision.writes and plan.parent is not None:
        insert_writes(tx, skey, plan.ns, plan.parent, decision.writes)
    if decision.edits:
        insert_revisions(tx, skey, decision.fresh, decision.edits)
    elif decision.fresh:
        insert_events(tx, skey, decision.fresh, plan.packed)
    insert_checkpoint(tx, skey, decision.row)
    if plan.named_in != skey:
        name_things(tx, skey, (plan.ns, plan.ns_name), (plan.shape, plan.shape_body))
    _store_values(tx, skey, decision.values)
    return _tuple(PutResult, (_move(tx, session, plan, decision), decision))


def _bring_values(tx: Transaction, skey: int, decision: PutDecision, arrived: Sequence[WritesPlan]) -> None:
    """Store the pieces that writes bring, and assert that what is taken over is there."""
    row, needs = decision.row, decision.needs
    needed = [*row.digests, *needs] if row.outside or needs else []
    for item in arrived:
        if item.values or item.needs:
            _store_values(tx, skey, [value for value in item.values if value.digest not in decision.unneeded])
            needed += item.needs
    # What another step stored may have been pruned since this saver saw it; a reference to nothing must not be written.
    if needed and (wanted := {*needed}.difference([value.digest for value in decision.values])):
        require_values(tx, skey, wanted)


def _is_of_parent(plan: PutPlan, item: StagedWrites | WritesPlan) -> bool:
    """Whether writes are those of the checkpoint that another one comes from."""
    return item.ns == plan.ns and item.cid == plan.parent


def _goes_with(item: ThreadPlan, plan: PutPlan) -> TypeGuard[WritesPlan]:
    """Whether a plan is of writes that a checkpoint takes over."""
    return isinstance(item, WritesPlan) and _is_of_parent(plan, item) and item.key == plan.key


def _look_up(
    tx: Transaction, plan: PutPlan, session: SessionRow | None
) -> tuple[SessionRow, list[EventRow], list[StagedWrites]]:
    """The session, locked, opened where there is none; revisions of the new messages; and what is staged."""
    located, waits = None, True
    if session is None and tx.pipelines:
        located = _ask_session(tx, plan.key, plan.draft.now)
    elif session is None:
        # Where an answer is there at once, what cannot be there is not asked for.
        session, waits = _locate(tx, plan)
        if session is None:
            return open_session(tx, plan.draft), [], []
    # Most often nobody wrote since the caller looked.
    last_seq = plan.known_to or 1 if session is None else session.last_seq
    related = _ask_relatives(tx, plan, last_seq) if plan.idents else []
    staged = ask_staged(tx, plan.key) if waits else None
    tx.flush()
    if located is not None:
        if located.row is None:
            return open_session(tx, plan.draft), [], []
        session = session_row(located.row)
        if plan.idents and last_seq <= plan.known_to < session.last_seq:
            related = _ask_relatives(tx, plan, session.last_seq)
            tx.flush()
    assert session is not None
    found = sorted([stored_row(row) for answer in related for row in answer.rows]) if related else []
    return session, found, staged_in(staged) if staged is not None else []


def _clear_taken(tx: Transaction, skey: int, mine: Sequence[StagedWrites], staged: Sequence[StagedWrites]) -> None:
    """Empty the rows of the parent's writes (`mine`), and where many wait, those of others, which are then stored."""
    others = [item for item in staged if item not in mine] if len(staged) - len(mine) > _MAX_STAGED else []
    # They stand behind each other: hundreds of tasks of a step are one statement.
    stretches = fold_ranges(sorted(item.n for item in (*mine, *others)))
    gone = [{"k_skey": skey, "low": low, "high": high} for low, high in stretches]
    tx.run_many(tx.prepare("clear staged", _clearing, tx.tables.threads.staged), gone)
    for item in others:
        insert_writes(tx, skey, item.ns, item.cid, item.writes)


def _clearing(t: Table) -> Update:
    here = (t.c.skey == bindparam("k_skey"), t.c.n.between(bindparam("low"), bindparam("high")))
    return update(t).where(*here).values(body=null())


def _ask_session(tx: Transaction, key: SessionKey, now: int) -> Later:
    """Ask for the session of a key, and lock it."""
    shape = owner_shape(key.owner)
    return tx.later(tx.prepare(("locate", shape, True), partial(locating, tx, shape, lock=True)), key_values(key, now))


_PUT_READS = ("skey", "user_id", *SessionRow._fields[9:19], *SessionRow._fields[20:])
_UNREAD = (None, "{}", "{}", "{}", 0)
"""The title, the metadata, the states and the time of its making: as those of a session that nobody said any of."""


def _locate(tx: Transaction, plan: PutPlan) -> tuple[SessionRow | None, bool]:
    """The session of a plan, in a file that is locked, and whether anything is staged in it.

    What a checkpoint has nothing to do with is not read, such as its state: that may be long.
    """
    key, shape = plan.key, owner_shape(plan.key.owner)
    values, found = key_values(key, plan.draft.now), None
    if plan.seen_as is not None:
        # By its key, which takes a third of what it does by its name.
        values["k_skey"] = plan.seen_as
        found = tx.row(tx.prepare(("locate again", shape), _locating_again, tx, shape), values)
    if found is None:
        found = tx.row(tx.prepare(("locate with staged", shape), _locating_with_staged, tx, shape), values)
    if found is None:
        return None, False
    return session_row((found[0], key.app, key.id, found[1], *_UNREAD, *found[2:12], 0, *found[12:15])), bool(found[15])


def _locating_again(tx: Transaction, shape: str) -> Select[Any]:
    return _locating_with_staged(tx, shape).where(tx.tables.sessions.c.skey == param("k_skey"))


def _locating_with_staged(tx: Transaction, shape: str) -> Select[Any]:
    t, s = tx.tables.threads.staged.c, tx.tables.sessions
    waits = select(t.n).where(t.skey == s.c.skey, t.body.is_not(None)).correlate(s).exists()
    columns: list[ColumnElement[Any]] = [s.c[name] for name in _PUT_READS]
    return select(*columns, waits).where(*key_criteria(tx.tables, shape))


def _ask_relatives(tx: Transaction, plan: PutPlan, last_seq: int) -> list[Later]:
    """Ask for the stored revisions of some messages, of which there may be some in a log that ends at a position."""
    asked: list[Later] = []
    # Of these the caller knows all revisions up to a position, so that only newer ones are read.
    if plan.since and (known := [ident for ident in plan.idents if ident in plan.since]):
        asked += ask_revisions(tx, plan.key, known, min(plan.since[ident] for ident in known))
    if last_seq > plan.known_to and (unknown := [ident for ident in plan.idents if ident not in plan.since]):
        asked += ask_revisions(tx, plan.key, unknown, 0)
    return asked


def insert_checkpoint(tx: Transaction, skey: int, row: CheckpointRow) -> None:
    """Write a checkpoint's row. The writes of one that is put again stay."""
    ns, cid, parent, run_id, shape, runs, others, outside, body = row
    whole, origin = stored_parent(cid, parent)
    values = (skey, ns, tx.blob(packed_id(cid)), whole, origin, run_id, shape, runs, others, outside, tx.blob(body))
    held = ("checkpoint", whole is None, origin is None, run_id is None, runs is None, others is None, outside is None)
    statement = tx.prepare_for(_PLACES, held, _putting_checkpoint, tx, values)
    tx.insert_tuples(statement, [statement.bind(values)])


_PLACES = ("skey", "ns", "cid", "parent", "origin", *CheckpointRow._fields[3:])


def _putting_checkpoint(tx: Transaction, values: Sequence[Any]) -> Any:
    held = [name for name, value in zip(_PLACES, values, strict=True) if value is not None]
    # Of one that is put again, what its tasks wrote stays.
    return putting(tx, tx.tables.threads.checkpoints, _PLACES[:3], held, _PLACES[3:])


def name_things(tx: Transaction, skey: int, namespace: tuple[int, str], shape: tuple[int, bytes] | None = None) -> None:
    """Record the names behind digests, where the session has them not yet."""
    t = tx.tables.threads
    if namespace[0] != ROOT:
        named = {"skey": skey, "ns": namespace[0], "name": namespace[1]}
        add_rows(tx, t.namespaces, ("skey", "ns"), [named])
    if shape is not None and shape[0] != NAMES_WITHIN:
        shaped = {"skey": skey, "shape": shape[0], "body": shape[1]}
        add_rows(tx, t.shapes, ("skey", "shape"), [shaped])


def _move(tx: Transaction, session: SessionRow, plan: PutPlan, decision: PutDecision) -> SessionRow:
    """Bring the session row up to date: positions, ledger, head and counters."""
    changes: dict[str, Any] = moved(session, len(decision.fresh), plan.draft.now)
    if decision.edits:
        ledger = Ledger.decode(session.ledger)
        for edit in decision.edits:
            ledger = ledger.with_edit(edit)
        changes["ledger"] = ledger.encode()
    changes.update(head_after(session, decision.row))
    moved_session = _changed(session, changes)
    if decision.fresh or decision.rooted.ranges or decision.edits or "head_runs" in changes:
        counted = _recounted(tx, session, moved_session, decision)
        root = counted.pop(None, None)
        if root is not None and any(root):
            changes["live_events"] = session.live_events + root.events
            changes["live_turns"] = session.live_turns + root.turns
            changes["live_tokens"] = session.live_tokens + root.tokens
            moved_session = _changed(session, changes)
        if counted:
            add_counters(tx, session, counted)
    set_session(tx, session.skey, **changes)
    return moved_session


def _changed(session: SessionRow, changes: Mapping[str, Any]) -> SessionRow:
    """`_replace`, which asks for each of two dozen fields whether it is one of three."""
    fields = [*session]
    for name, value in changes.items():
        fields[_PLACE[name]] = value
    return _tuple(SessionRow, fields)


_PLACE = {name: at for at, name in enumerate(SessionRow._fields)}


def _recounted(
    tx: Transaction, before: SessionRow, after: SessionRow, decision: PutDecision
) -> dict[str | None, Counters]:
    """How the counters of each scope change, and take events over. Only what may stand otherwise is looked at."""
    touched = touched_by_put(before, after, decision)
    # Of what is new one may take the place of another: a list may hold two messages of one id.
    if not touched and not decision.edits:
        new = seq_set(after.head_runs)
        return tally(row for row in decision.fresh if not row.flags & r.ROOTED or row.seq in new)
    # As in `ALL_AWAKE`: no run counts as idle while counters are moved.
    rows = load_light_at(tx, before.skey, touched)
    if decision.rooted.ranges:
        root_events(tx, before, decision.rooted)
    view = view_of(before, load_unfinished_of(tx, before, [*rows, *decision.fresh]), r.ALL_AWAKE)
    head = tuple(decode_ranges(after.head_runs)) if after.head_runs is not None else None
    view_after = LogView(Ledger.decode(after.ledger), head, view.invocations, after.last_seq)
    return counted_after_put(view, view_after, rows, decision)


def put_writes(tx: Transaction, plan: WritesPlan, session: SessionRow | None = None) -> SessionRow:
    """Store pending writes.

    Raises:
        SessionNotFoundError: The session is somebody else's, or was deleted lately.
    """
    if session is None:
        located = _ask_session(tx, plan.key, plan.draft.now)
        tx.flush()
        draft = plan.draft._replace(anew=False)
        session = session_row(located.row) if located.row is not None else open_session(tx, draft)
    rows = call_passed_in(plan.rows, session.skey)
    if plan.needs:
        require_values(tx, session.skey, plan.needs)
    _store_values(tx, session.skey, plan.values)
    stage_writes(tx, session.skey, plan, rows)
    if plan.named_in != session.skey:
        name_things(tx, session.skey, (plan.ns, plan.ns_name))
    return session


# -- sharing a transaction -----------------------------------------------------------------------------------


def commit_threads(store: SqlStore, plans: Sequence[ThreadPlan]) -> Flow[list[PlanOutcome]]:
    """Commit plans together; those that this did not write, each alone."""
    said = [row for plan in plans if isinstance(plan, PutPlan) for row in plan.said]
    if said and r.bytes_of(said) >= LARGE:
        packed = yield from packed_ahead(said)
        plans = [plan._replace(packed=packed) if isinstance(plan, PutPlan) else plan for plan in plans]
    outcomes: list[Any] = [_UNWRITTEN] * len(plans)
    if len(plans) > 1:
        with suppress(Exception):  # told below to whom it concerns
            # As `ask` does, whose two functions each step would enter.
            outcomes = yield store.run, (_kind(plans), run_plans, plans), {}
    for at, outcome in enumerate(outcomes):
        if type(outcome) is Unseen:
            # Alone, so that each call gets its own error and not that of the plan beside which it was sent.
            is_stored = outcome is not _UNWRITTEN and outcome.is_stored
            outcomes[at] = None if is_stored else (yield from _commit_alone(store, plans[at]))
    return outcomes


def _commit_alone(store: SqlStore, plan: ThreadPlan) -> Flow[PlanOutcome]:
    """Commit one plan, again where it lost a race."""
    for races in range(_MAX_RACES):
        try:
            (outcome,) = yield from ask(store.run, _kind([plan]), run_plans, [plan], wary=races > 0)
        except UniqueViolationError:
            continue
        except Exception as error:
            return error
        if not isinstance(outcome, Unseen):
            return outcome
        if outcome.is_stored:
            return None
    return StoreUnavailableError(f"Thread {plan.key.id!r} could not be written: other writers keep winning.")


def _kind(plans: Sequence[ThreadPlan]) -> TransactionKind:
    """How to run them: without waiting for the disk only where none of them has to."""
    # Checkpoints come last, and none of them may.
    if isinstance(plans[-1], WritesPlan) and all(isinstance(plan, WritesPlan) and plan.may_lag for plan in plans):
        return _RELAXED
    return _APPEND


_UNWRITTEN = Unseen()


def run_plans(
    tx: Transaction, plans: Sequence[ThreadPlan], *, wary: bool = False
) -> Sequence[PutResult | Unseen | None]:
    """Run several plans for one thread in one transaction; their outcomes. If one fails, none of them happened.

    Args:
        tx: The transaction.
        plans: The plans, writes before checkpoints.
        wary: Look at the session before anything is sent. Else writes are sent for the session as it was last seen,
            without waiting for it, and their outcome says whether it was.
    """
    last = plans[-1]
    if isinstance(last, PutPlan):
        # As nearly always: a checkpoint, alone or with what one task wrote on its parent.
        if len(plans) == 1:
            return [put_checkpoint(tx, last)]
        if len(plans) == 2 and _goes_with(first := plans[0], last):  # noqa: PLR2004
            return [None, put_checkpoint(tx, last, None, [first])]
    outcomes: list[PutResult | Unseen | None] = []
    session: SessionRow | None = None
    asked: dict[SessionKey, Later] = {}
    puts = [plan for plan in plans if isinstance(plan, PutPlan)]
    arrived: list[WritesPlan] = []
    order, different = taken_together(plans) if len(plans) > 1 else ([0], plans)
    for plan in different:
        known = session if session is not None and plan.key.admits(session.user_id) else None
        if isinstance(plan, PutPlan):
            done = put_checkpoint(tx, plan, known, [item for item in arrived if _is_of_parent(plan, item)])
            arrived = [item for item in arrived if not _is_of_parent(plan, item)]
            session = done.session
            outcomes.append(done)
        # The checkpoint that takes them over is in this very transaction, so that they are never staged.
        elif any(_goes_with(plan, put) for put in puts):
            arrived.append(plan)
            outcomes.append(None)
        elif known is None and plan.named_in is not None and not wary and not plan.values and not plan.needs:
            if plan.key not in asked:
                asked[plan.key] = _ask_session(tx, plan.key, plan.draft.now)
            stage_unseen(tx, plan.named_in, plan, call_passed_in(plan.rows, plan.named_in))
            outcomes.append(Unseen(plan.named_in, asked[plan.key]))
        else:
            session = put_writes(tx, plan, known)
            outcomes.append(None)
    return [outcomes[at] for at in order]


def _store_values(tx: Transaction, skey: int, values: Sequence[ValueRow]) -> None:
    if values:
        insert_values(tx, skey, values)
