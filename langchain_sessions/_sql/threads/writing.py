"""Writing checkpoints and pending writes: positions, the head and the counters move in the same transaction.

Several calls for one thread share one; where that fails, each is written by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from sqlalchemy import Select, and_, bindparam, null, select, update

from langchain_sessions._core import rows as r
from langchain_sessions._core.checkpoints import (
    NAMES_WITHIN,
    ROOT,
    CheckpointRow,
    StagedWrites,
    body_by_body,
    head_after,
    seq_set,
    stored_parent,
    touched_by_put,
)
from langchain_sessions._core.edge import packed_id
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import Ledger, LogView, view_of
from langchain_sessions._core.ranges import decode_ranges, fold_ranges
from langchain_sessions._core.rows import Counters, EventRow, SessionRow, moved, owner_shape, stored_row, tally
from langchain_sessions._core.thread_effects import counted_after_put
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.transaction import call_passed_in
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.log.by_position import load_light_at
from langchain_sessions._sql.log.counting import add_counters
from langchain_sessions._sql.log.lookup import (
    add_rows,
    ask_staged,
    insert_events,
    insert_writes,
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
from langchain_sessions._sql.threads.staging import stage_unseen, stage_writes, taken_together
from langchain_sessions._sql.threads.values import insert_values, require_values
from langchain_sessions.errors import HeadConflictError, SessionEndedError, StoreUnavailableError
from langchain_sessions.stores._threads import PlanOutcome, PutDecision, PutPlan, PutResult, ThreadPlan, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_sessions._core.checkpoints import ValueRow
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._sql.driver.transaction import Later, Transaction
    from langchain_sessions._sql.store import SqlStore


_MAX_RACES = 20
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
    stale = session.head_id is not None and session.head_id not in (plan.parent, plan.cid)
    if plan.strict and plan.ns == ROOT and stale and not plan.is_fork:
        raise HeadConflictError(session.id, plan.parent, session.head_id or "")
    mine = [item for item in staged if _is_of_parent(plan, item)] if staged else []
    writes = [write for item in mine for write in item.writes] if mine else []
    for item in arrived:
        writes += call_passed_in(item.rows, session.skey)
    # Decided under the lock, from what is stored now: asked again with the transaction, it may answer otherwise.
    decision = call_passed_in(plan.decide, session, relatives, writes)
    needed = {*decision.row.digests, *decision.needs} if decision.row.outside or decision.needs else set[bytes]()
    for item in arrived:
        _store_values(tx, session, [value for value in item.values if value.digest not in decision.unneeded])
        needed.update(item.needs)
    # What another step stored may have been pruned since this saver saw it; a reference to nothing must not be written.
    _need_values(tx, session, needed and needed - {value.digest for value in decision.values})
    if decision.parent is not None:
        _replace_start(tx, session.skey, decision.parent)
    # Before anything is inserted, so that what they took is used again at once.
    _store_writes(tx, session.skey, plan, decision, mine, staged)
    if decision.edits:
        insert_revisions(tx, session.skey, decision.fresh, decision.edits)
    elif decision.fresh:
        insert_events(tx, session.skey, decision.fresh)
    insert_checkpoint(tx, session.skey, decision.row)
    if plan.named_in != session.skey:
        name_things(tx, session.skey, (plan.ns, plan.ns_name), (plan.shape, plan.shape_body))
    _store_values(tx, session, decision.values)
    return PutResult(_move(tx, session, plan, decision), decision)


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
        session, waits = _locate(tx, plan.key, plan.draft.now)
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


def _store_writes(
    tx: Transaction,
    skey: int,
    plan: PutPlan,
    decision: PutDecision,
    mine: Sequence[StagedWrites],
    staged: Sequence[StagedWrites],
) -> None:
    """Store the parent's writes (`mine`) for good; also those of other checkpoints, where many wait."""
    are_many = len(staged) - len(mine) > _MAX_STAGED
    others = [item for item in staged if not _is_of_parent(plan, item)] if are_many else []
    if mine or others:
        clear_staged(tx, skey, [*mine, *others])
    if decision.writes and plan.parent is not None:
        for some in body_by_body(decision.writes):
            insert_writes(tx, skey, plan.ns, packed_id(plan.parent), some)
    for item in others:
        insert_writes(tx, skey, item.ns, packed_id(item.cid), item.writes)


def _ask_session(tx: Transaction, key: SessionKey, now: int) -> Later:
    """Ask for the session of a key, and lock it."""
    shape = owner_shape(key.owner)
    return tx.later(tx.prepare(("locate", shape, True), partial(locating, tx, shape, lock=True)), key_values(key, now))


def _locate(tx: Transaction, key: SessionKey, now: int) -> tuple[SessionRow | None, bool]:
    """The session of a key, in a file that is locked, and whether anything is staged in it."""
    shape = owner_shape(key.owner)
    found = tx.row(tx.prepare(("locate with staged", shape), _locating_with_staged, tx, shape), key_values(key, now))
    return (None, False) if found is None else (session_row(found[:-1]), bool(found[-1]))


def _locating_with_staged(tx: Transaction, shape: str) -> Select[Any]:
    t, s = tx.tables.threads.staged.c, tx.tables.sessions
    waits = select(t.n).where(t.skey == s.c.skey, t.body.is_not(None)).correlate(s).exists()
    return locating(tx, shape, lock=False).add_columns(waits)


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


def _replace_start(tx: Transaction, skey: int, parent: CheckpointRow) -> None:
    """Replace the bodies of a graph's input by positions, now that the log holds them."""
    t = tx.tables.threads.checkpoints

    def build() -> Any:
        key = [t.c[name] == bindparam(f"k_{name}") for name in ("skey", "ns", "cid")]
        changes: dict[str, Any] = {name: bindparam(f"v_{name}") for name in ("others", "outside", "body")}
        return update(t).where(and_(*key)).values(changes)

    named = {"v_others": parent.others, "v_outside": parent.outside, "v_body": parent.body}
    place = {"k_skey": skey, "k_ns": parent.ns, "k_cid": packed_id(parent.cid)}
    tx.later(tx.prepare("replace start", build), {**place, **named})


def _move(tx: Transaction, session: SessionRow, plan: PutPlan, decision: PutDecision) -> SessionRow:
    """Bring the session row up to date: positions, ledger, head and counters."""
    changes: dict[str, Any] = moved(session, len(decision.fresh), plan.draft.now)
    if decision.edits:
        ledger = Ledger.decode(session.ledger)
        for edit in decision.edits:
            ledger = ledger.with_edit(edit)
        changes["ledger"] = ledger.encode()
    changes.update(head_after(session, decision.row))
    moved_session = session._replace(**changes)
    counted = _recounted(tx, session, moved_session, decision)
    root = counted.pop(None, None)
    if root is not None and any(root):
        more: dict[str, Any] = {
            "live_events": session.live_events + root.events,
            "live_turns": session.live_turns + root.turns,
            "live_tokens": session.live_tokens + root.tokens,
        }
        changes.update(more)
        moved_session = moved_session._replace(**more)
    set_session(tx, session.skey, **changes)
    if counted:
        add_counters(tx, session, counted)
    return moved_session


def _recounted(
    tx: Transaction, before: SessionRow, after: SessionRow, decision: PutDecision
) -> dict[str | None, Counters]:
    """How the counters of each scope change, and take events over. Only what may stand otherwise is looked at."""
    if not (decision.fresh or decision.rooted.ranges or decision.edits or before.head_runs != after.head_runs):
        return {}
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
    _need_values(tx, session, plan.needs)
    _store_values(tx, session, plan.values)
    stage_writes(tx, session.skey, plan, rows)
    if plan.named_in != session.skey:
        name_things(tx, session.skey, (plan.ns, plan.ns_name))
    return session


# -- sharing a transaction -----------------------------------------------------------------------------------


def commit_threads(store: SqlStore, plans: Sequence[ThreadPlan]) -> Flow[list[PlanOutcome]]:
    """Commit plans together; those that this did not write, each alone."""
    written: Sequence[_Attempt | None] = ()
    if len(plans) > 1:
        try:
            written = yield from ask(store.run, _kind(plans), run_plans, plans)
        except Exception:
            written = ()
    outcomes: list[PlanOutcome] = []
    for plan, attempt in zip(plans, written or [None] * len(plans), strict=True):
        if attempt is not None and attempt.is_stored:
            outcomes.append(attempt.result)
        else:
            # Alone, so that each call gets its own error and not that of the plan beside which it was sent.
            outcomes.append((yield from _commit_alone(store, plan)))
    return outcomes


def _commit_alone(store: SqlStore, plan: ThreadPlan) -> Flow[PlanOutcome]:
    """Commit one plan, again where it lost a race."""
    for races in range(_MAX_RACES):
        try:
            (attempt,) = yield from ask(store.run, _kind([plan]), run_plans, [plan], wary=races > 0)
        except UniqueViolationError:
            continue
        except Exception as error:
            return error
        if attempt.is_stored:
            result: PlanOutcome = attempt.result
            return result
    return StoreUnavailableError(f"Thread {plan.key.id!r} could not be written: other writers keep winning.")


def _kind(plans: Sequence[ThreadPlan]) -> TransactionKind:
    """How to run them: without waiting for the disk only where none of them has to."""
    # Checkpoints come last, and none of them may.
    if isinstance(plans[-1], WritesPlan) and all(isinstance(plan, WritesPlan) and plan.may_lag for plan in plans):
        return _RELAXED
    return _APPEND


@dataclass(slots=True)
class _Attempt:
    """What a transaction did about a plan, known once it is over."""

    result: PutResult | None = None
    sent_to: int | None = None
    """The session key that writes were sent for unseen; None where the session was looked at first."""
    session: Later | None = None

    @property
    def is_stored(self) -> bool:
        """Whether it is stored."""
        if self.sent_to is None or self.session is None:
            return True
        # Deleted and made again, a session has another key: what was sent for the old one found nothing to write to.
        return self.session.row is not None and self.session.row[0] == self.sent_to


def run_plans(tx: Transaction, plans: Sequence[ThreadPlan], *, wary: bool = False) -> list[_Attempt]:
    """Run several plans for one thread in one transaction. If one fails, none of them happened.

    Args:
        tx: The transaction.
        plans: The plans, writes before checkpoints.
        wary: Look at the session before anything is sent. Else writes are sent for the session as it was last seen,
            without waiting for it, and their outcome says whether it was.
    """
    last = plans[-1]
    if isinstance(last, PutPlan) and len(plans) <= 2:  # noqa: PLR2004
        # As nearly always: a checkpoint, alone or with what one task wrote on its parent.
        before = [plan for plan in plans[:-1] if _goes_with(plan, last)]
        if len(before) == len(plans) - 1:
            return [*map(_Attempt, [None] * len(before)), _Attempt(put_checkpoint(tx, last, None, before))]
    attempts: list[_Attempt] = []
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
            attempts.append(_Attempt(done))
        # The checkpoint that takes them over is in this very transaction, so that they are never staged.
        elif any(_goes_with(plan, put) for put in puts):
            arrived.append(plan)
            attempts.append(_Attempt())
        elif known is None and plan.named_in is not None and not wary and not plan.values and not plan.needs:
            if plan.key not in asked:
                asked[plan.key] = _ask_session(tx, plan.key, plan.draft.now)
            stage_unseen(tx, plan.named_in, plan, call_passed_in(plan.rows, plan.named_in))
            attempts.append(_Attempt(None, plan.named_in, asked[plan.key]))
        else:
            session = put_writes(tx, plan, known)
            attempts.append(_Attempt())
    return [attempts[at] for at in order]


def clear_staged(tx: Transaction, skey: int, gone: Sequence[StagedWrites]) -> None:
    """Empty the rows of writes that are stored for good."""
    t = tx.tables.threads.staged

    def build() -> Any:
        here = (t.c.skey == bindparam("k_skey"), t.c.n.between(bindparam("low"), bindparam("high")))
        return update(t).where(*here).values(body=null())

    # They stand behind each other: hundreds of tasks of a step are one statement.
    stretches = fold_ranges(sorted(item.n for item in gone))
    tx.run_many(tx.prepare("clear staged", build), [{"k_skey": skey, "low": low, "high": up} for low, up in stretches])


def _store_values(tx: Transaction, session: SessionRow, values: Sequence[ValueRow]) -> None:
    if values:
        insert_values(tx, session.skey, values)


def _need_values(tx: Transaction, session: SessionRow, wanted: Collection[bytes]) -> None:
    if wanted:
        require_values(tx, session.skey, wanted)
