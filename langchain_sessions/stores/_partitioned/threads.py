"""Writing checkpoints and pending writes: positions, the head and the counters move in the same commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import ormsgpack

from langchain_sessions._core import rows as r
from langchain_sessions._core.checkpoints import (
    NAMES_WITHIN,
    ROOT,
    CheckpointRow,
    PackedWrites,
    StagedWrites,
    head_after,
    in_bodies,
    mentioned_in,
    pack_staged,
    touched_by_put,
    unpack_staged,
)
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import Ledger
from langchain_sessions._core.piece_rows import TOLD, kids_of
from langchain_sessions._core.rows import moved
from langchain_sessions._core.thread_effects import counted_after_put
from langchain_sessions.errors import (
    CorruptRowError,
    HeadConflictError,
    SessionEndedError,
    SessionNotFoundError,
    StalePlanError,
)
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Partitions, Rows, event_rows, name_of, named, positions
from langchain_sessions.stores._partitioned.heads import SessionHead, dump_event
from langchain_sessions.stores._partitioned.live import views_between
from langchain_sessions.stores._partitioned.sessions import is_free, new_head
from langchain_sessions.stores._threads import PutPlan, PutResult, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._core.checkpoints import WriteRow
    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions.stores._threads import CheckpointKey, PlanOutcome, PutDecision, ThreadPlan
    from langchain_sessions.stores._values import SessionDraft
    from langchain_sessions.stores.engine import Row

_MAX_STAGED = 16
"""What waits for a checkpoint that does not come is stored for good before there is much of it."""


# -- forms -------------------------------------------------------------------------------------------------


def checkpoint_key(skey: int, ns: int, cid: str) -> str:
    """The key of a checkpoint."""
    return keys.at(skey, keys.CHECKPOINT, ns, cid)


def checkpoint_rows(skey: int, row: CheckpointRow) -> Rows:
    """The rows of a checkpoint: itself, by its id among all namespaces, and what its run is found by."""
    rows: Rows = {
        checkpoint_key(skey, row.ns, row.cid): ormsgpack.packb([*row]),
        keys.at(skey, keys.CHECKPOINT_ID, row.cid, row.ns): b"",
    }
    if row.run_id is not None:
        rows[f"{keys.at(skey, keys.OF_RUN)}/{keys.digest(row.run_id)}"] = b""
    return rows


def load_checkpoint(value: bytes) -> CheckpointRow:
    """A checkpoint of its row.

    Raises:
        CorruptRowError: It is something else.
    """
    try:
        return CheckpointRow(*ormsgpack.unpackb(value))
    except UNREADABLE as error:
        raise CorruptRowError("A checkpoint cannot be read, or was written by a newer release.") from error


def writes_key(skey: int, ns: int, cid: str, *rest: int) -> str:
    """The key of writes of a checkpoint: first by its id, since a rewind puts those of all later ones out of sight."""
    return keys.at(skey, keys.WRITES, cid, ns, *rest)


def dump_writes(skey: int, row: PackedWrites) -> Rows:
    """The row of some writes."""
    key = writes_key(skey, row.ns, row.cid, row.cut, row.part)
    return {key: ormsgpack.packb([row.refs, row.body])}


def load_writes(row: Row) -> PackedWrites:
    """What `dump_writes` wrote."""
    try:
        refs, body = ormsgpack.unpackb(row.value)
    except UNREADABLE as error:
        raise CorruptRowError("Writes of a checkpoint cannot be read.") from error
    cut, part = (keys.number_in(row.key, place) for place in (-2, -1))
    return PackedWrites(*place_of_writes(row.key), cut, part, refs, body)


def place_of_writes(key: str) -> CheckpointKey:
    """The checkpoint of some writes, by their key."""
    return keys.number_in(key, -3), keys.text_in(key, -4)


def load_staged(at: Partitions, head: SessionHead) -> Flow[list[StagedWrites]]:
    """All writes that wait for a checkpoint, in the order in which they came."""
    found = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.STAGED)))
    return [unpack_staged(keys.number_in(row.key), row.value) for row in found]


def value_key(skey: int, digest: bytes) -> str:
    """The key of a value that lies beside its checkpoints."""
    return f"{keys.at(skey, keys.OUTSIDE)}/{digest.hex()}"


def read_values(at: Partitions, head: SessionHead, wanted: Iterable[bytes]) -> Flow[dict[bytes, bytes]]:
    """Values by their digests, with all that they consist of."""
    found: dict[bytes, bytes] = {}
    asked: set[bytes] = set()
    left = {*wanted}
    while left:
        asked |= left
        ordered = sorted(left)
        rows = yield from at.rows(head, [keys.exactly(value_key(head.skey, digest)) for digest in ordered])
        new = {digest: some[0].value for digest, some in zip(ordered, rows, strict=True) if some}
        found.update(new)
        left = {digest for row in new.values() for digest in kids_of(row)} - asked
    return found


# -- plans -------------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Plans that are committed together: writes that wait, and a checkpoint with the writes that waited for it."""

    writes: list[int]
    put: int | None
    arrived: list[int]


def commit_threads(at: Partitions, plans: Sequence[ThreadPlan]) -> Flow[list[PlanOutcome]]:
    """The contract's `commit_threads`."""
    outcomes: dict[int, PlanOutcome] = {}
    for group in _groups(plans):
        members = [*group.writes, *group.arrived, *([] if group.put is None else [group.put])]
        try:
            outcomes.update((yield from _commit(at, plans, group)))
        except Exception as error:
            # Whatever failed of several is tried again one by one, so that each call gets its own error.
            if len(members) == 1:
                outcomes[members[0]] = error
                continue
            for number in members:
                alone = isinstance(plans[number], PutPlan)
                try:
                    lonely = _Group([], number, []) if alone else _Group([number], None, [])
                    outcomes.update((yield from _commit(at, plans, lonely)))
                except Exception as own:
                    outcomes[number] = own
    return [outcomes[number] for number in range(len(plans))]


def _groups(plans: Sequence[ThreadPlan]) -> list[_Group]:
    """What can be committed together: one checkpoint at a time, since each is decided from what was stored before."""
    waiting = [number for number, plan in enumerate(plans) if isinstance(plan, WritesPlan)]
    groups: list[_Group] = []
    for number, plan in enumerate(plans):
        if isinstance(plan, PutPlan):
            mine = [each for each in waiting if _is_of_parent(plan, plans[each]) and plans[each].key == plan.key]
            waiting = [each for each in waiting if each not in mine]
            groups.append(_Group([], number, mine))
    if waiting:
        # With the first checkpoint, which costs them no commit of their own.
        groups = [groups[0]._replace(writes=waiting), *groups[1:]] if groups else [_Group(waiting, None, [])]
    return groups


def _is_of_parent(plan: PutPlan, item: Any) -> bool:
    """Whether writes are those of the checkpoint that another one comes from."""
    return bool(item.ns == plan.ns and item.cid == plan.parent)


def _commit(at: Partitions, plans: Sequence[ThreadPlan], group: _Group) -> Flow[dict[int, PlanOutcome]]:
    """Commit a group as a whole."""
    first = plans[group.writes[0] if group.put is None else group.put]
    return (yield from at.in_turn(name_of(first.key), _commit_now(at, plans, group)))


def _commit_now(at: Partitions, plans: Sequence[ThreadPlan], group: _Group) -> Flow[dict[int, PlanOutcome]]:
    put = None if group.put is None else plans[group.put]
    writes = [plan for plan in (plans[number] for number in group.writes) if isinstance(plan, WritesPlan)]
    arrived = [plan for plan in (plans[number] for number in group.arrived) if isinstance(plan, WritesPlan)]
    first = put if put is not None else writes[0]
    draft = first.draft if put is not None else first.draft._replace(anew=False)
    lost = 0
    while True:
        outcomes: dict[int, PlanOutcome] = dict.fromkeys([*group.writes, *group.arrived])
        head, is_new = yield from _session_for(at, first.key, draft)
        if any(not plan.key.admits(head.session.user_id) for plan in (*writes, *arrived)):
            raise SessionNotFoundError(first.key.id)
        staged = yield from load_staged(at, head)
        rows: Rows = {}
        for plan in writes:
            rows |= yield from _stage(at, head, plan, staged)
        if isinstance(put, PutPlan) and group.put is not None:
            head, result, more = yield from _put(at, head, put, staged, arrived)
            rows |= more
            outcomes[group.put] = result
        if (yield from at.commit(name_of(first.key), head, rows)):
            if is_new:
                # Rows of an earlier session under this id: its number was another, so nobody could read them meanwhile.
                yield from ask(at.engine.remove_rows, name_of(first.key), keys.prefix(head.skey))
            return outcomes
        lost += 1
        yield from at.race(lost, f"Thread {first.key.id!r}")


def _session_for(at: Partitions, key: SessionKey, draft: SessionDraft) -> Flow[tuple[SessionHead, bool]]:
    """The session of a key; and whether it is about to be created, since there is none.

    Raises:
        SessionNotFoundError: It is somebody else's, or was deleted lately.
    """
    lost = 0
    while True:
        found = yield from at.find(name_of(key))
        if found is not None and found.stage == "live":
            is_over = is_expired(found.session, draft.now)
            is_mine = found.session.user_id == draft.user_id if is_over else key.admits(found.session.user_id)
            if not is_mine:
                raise SessionNotFoundError(key.id)
            return (new_head(at, draft, found), True) if is_over else (found, False)
        if found is not None and found.is_deleted and not draft.anew and found.until > draft.now:
            raise SessionNotFoundError(key.id)
        if found is None or is_free(found, draft):
            return new_head(at, draft, found), True
        lost += 1
        yield from at.race(lost, f"Thread {key.id!r}")


def _stage(at: Partitions, head: SessionHead, plan: WritesPlan, staged: list[StagedWrites]) -> Flow[Rows]:
    """Put writes behind all that wait."""
    made = tuple(plan.rows(head.skey))
    values = yield from _checked_values(at, head, plan.needs, {value.digest: value.data for value in plan.values})
    number = staged[-1].n + 1 if staged else 0
    body = pack_staged(plan.ns, plan.cid, made)
    staged.append(unpack_staged(number, body))
    return {
        keys.at(head.skey, keys.STAGED, number): body,
        **values,
        **_names(head, plan),
    }


def _names(head: SessionHead, plan: ThreadPlan) -> Rows:
    """The names behind digests, where the session may not have them yet."""
    rows: Rows = {}
    if plan.named_in != head.skey and plan.ns != ROOT:
        rows[keys.at(head.skey, keys.NAMESPACE, plan.ns)] = plan.ns_name.encode(errors="surrogatepass")
    if plan.named_in != head.skey and isinstance(plan, PutPlan) and plan.shape != NAMES_WITHIN:
        rows[keys.at(head.skey, keys.SHAPE, plan.shape)] = plan.shape_body
    return rows


def _put(
    at: Partitions, head: SessionHead, plan: PutPlan, staged: Sequence[StagedWrites], arrived: Sequence[WritesPlan]
) -> Flow[tuple[SessionHead, PutResult, Rows]]:
    """Write a checkpoint, and the messages that no checkpoint of the session had before it."""
    session = head.session
    if session.ended_at is not None:
        raise SessionEndedError(session.id)
    is_stale = session.head_id is not None and session.head_id not in (plan.parent, plan.cid)
    if plan.strict and plan.ns == ROOT and is_stale and not plan.is_fork:
        raise HeadConflictError(session.id, plan.parent, session.head_id or "")
    seqs = positions((yield from at.rows(head, named(head.skey, set(plan.idents), plan.since))))
    related = [row for row in (yield from at.events(head, seqs.ranges)) if row.ident in plan.idents]
    writes = [write for item in staged if _is_of_parent(plan, item) for write in item.writes]
    writes += [write for item in arrived for write in item.rows(head.skey)]
    decision = plan.decide(session, related, writes)
    made = {value.digest: value.data for item in arrived for value in item.values}
    pieces = {digest: data for digest, data in made.items() if digest not in decision.unneeded}
    pieces.update((value.digest, value.data) for value in decision.values)
    needed = {*decision.row.digests, *decision.needs}.union(*(item.needs for item in arrived))
    values = yield from _checked_values(at, head, needed - pieces.keys(), pieces)
    rows = checkpoint_rows(head.skey, decision.row) | event_rows(head.skey, decision.fresh) | _names(head, plan)
    rows |= values
    rows |= yield from _parent_row(at, head, decision.parent)
    rows |= yield from _kept_writes(at, head, plan, decision, staged)
    after, more = yield from _moved(at, head, plan, decision)
    return after, PutResult(after.session, decision), rows | more


def _checked_values(
    at: Partitions, head: SessionHead, wanted: Iterable[bytes], values: Mapping[bytes, bytes]
) -> Flow[Rows]:
    """Assert that some values are still there, and write others. What they consist of goes no sooner than they do."""
    asked = sorted(wanted)
    # What is there is never told by something else in its place: that may be told by it.
    told = [digest for digest, data in values.items() if data[:1] in TOLD]
    found = yield from at.rows(head, [keys.exactly(value_key(head.skey, digest)) for digest in [*asked, *told]])
    if not all(found[: len(asked)]):
        raise StalePlanError
    there = {digest for digest, rows in zip(told, found[len(asked) :], strict=True) if rows}
    return {value_key(head.skey, digest): data for digest, data in values.items() if digest not in there}


def _parent_row(at: Partitions, head: SessionHead, parent: CheckpointRow | None) -> Flow[Rows]:
    """The parent's row with positions in the place of a graph's input, now that the log holds it."""
    if parent is None:
        return {}
    key = checkpoint_key(head.skey, parent.ns, parent.cid)
    found = (yield from at.rows(head, [keys.exactly(key)]))[0]
    if not found:
        return {}
    stored = load_checkpoint(found[0].value)
    return {key: ormsgpack.packb([*stored._replace(others=parent.others, outside=parent.outside, body=parent.body)])}


def _kept_writes(
    at: Partitions, head: SessionHead, plan: PutPlan, decision: PutDecision, staged: Sequence[StagedWrites]
) -> Flow[Rows]:
    """Store the parent's writes for good; also those of other checkpoints, where many wait."""
    mine = [item for item in staged if _is_of_parent(plan, item)]
    others = [item for item in staged if item not in mine]
    kept: list[tuple[int, str, Sequence[WriteRow]]] = []
    if decision.writes and plan.parent is not None:
        kept.append((plan.ns, plan.parent, decision.writes))
    if len(others) > _MAX_STAGED:
        kept += [(item.ns, item.cid, item.writes) for item in others]
        mine += others
    rows: Rows = {keys.at(head.skey, keys.STAGED, item.n): None for item in mine}
    return rows | (yield from stored_writes(at, head, kept))


def stored_writes(at: Partitions, head: SessionHead, kept: Iterable[tuple[int, str, Sequence[WriteRow]]]) -> Flow[Rows]:
    """The rows of writes behind those that their checkpoints have."""
    rows: Rows = {}
    parts: dict[tuple[int, str], int] = {}
    for ns, cid, writes in kept:
        if (ns, cid) not in parts:
            last = keys.under(writes_key(head.skey, ns, cid, 0), 1, newest=True)
            found = (yield from at.rows(head, [last]))[0]
            parts[ns, cid] = keys.number_in(found[0].key) + 1 if found else 0
        for some, body in in_bodies(writes):
            row = PackedWrites(ns, cid, 0, parts[ns, cid], mentioned_in(some), body)
            parts[ns, cid] += 1
            rows |= dump_writes(head.skey, row)
    return rows


def _moved(at: Partitions, head: SessionHead, plan: PutPlan, decision: PutDecision) -> Flow[tuple[SessionHead, Rows]]:
    """Bring the head up to date: positions, ledger, the thread's head and counters; and flag what was taken over."""
    session = head.session
    changes: dict[str, Any] = moved(session, len(decision.fresh), plan.draft.now)
    if decision.edits:
        ledger = Ledger.decode(session.ledger)
        for edit in decision.edits:
            ledger = ledger.with_edit(edit)
        changes["ledger"] = ledger.encode()
    changes.update(head_after(session, decision.row))
    after = replace(head.with_session(**changes), has_thread=True)
    touched = touched_by_put(session, after.session, decision)
    stored = yield from at.events(head, (touched | decision.rooted).ranges)
    rooted: list[EventRow] = [
        row._replace(flags=row.flags | r.ROOTED) if row.seq in decision.rooted else row for row in stored
    ]
    rows: Rows = {
        keys.at(head.skey, keys.EVENT, row.seq): dump_event(row) for row in rooted if row.seq in decision.rooted
    }
    stood, stand = yield from views_between(at, head, after, [*rooted, *decision.fresh])
    counted = counted_after_put(stood, stand, stored, decision)
    return after.adding(counted), rows
