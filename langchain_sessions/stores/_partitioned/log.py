"""Appending to a log and reading it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.identity import identify_batch, require_question, require_version
from langchain_sessions._core.ledger import last_mark, tally_change, visible_scopes
from langchain_sessions._core.matching import cut_window, matches, may_have_moved_on, sees
from langchain_sessions._core.ranges import NO_SEQS, SeqSet
from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, SessionKey, moved
from langchain_sessions._core.state import require_owner, with_replaced
from langchain_sessions._core.view import MOST_READS, context_rows, elsewhere, is_reordered, listed_back
from langchain_sessions.errors import SessionEndedError
from langchain_sessions.events import Standing
from langchain_sessions.stores._partitioned.access import (
    ROWS_AT_ONCE,
    Change,
    Partitions,
    Rows,
    event_rows,
    named,
    positions,
)
from langchain_sessions.stores._partitioned.runs import (
    RunChange,
    knowing,
    left_ranges,
    load_run,
    read_left,
    read_run,
    runs_of,
    with_runs,
)
from langchain_sessions.stores._partitioned.shared_state import is_shared, write_owed
from langchain_sessions.stores._values import Appended, ContextSlice, EventSlice, ScopeMeasure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.matching import EventQuery
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores._values import AppendBatch

_FAILED = r.MARKS["failed"]
_DONE = r.MARKS["done"]
# Small, for a window that is full at once; after it four times as much each time.
_FIRST_READ = 16


def append_events(at: Partitions, key: SessionKey, batch: AppendBatch) -> Flow[Appended]:
    """The contract's `append_events`."""
    appended, owes = yield from at.change(key, batch.now, partial(_append, at, batch), is_repeatable=True)
    # After the commit: it reaches other partitions, and the head remembers it until it is done.
    if owes:
        yield from write_owed(at, key, batch.now, [row.delta for row in batch.rows])
    answer: Appended = appended
    return answer


def _append(at: Partitions, batch: AppendBatch, head: SessionHead) -> Flow[Change]:
    """Settle identities, state and standings of a batch."""
    session = head.session
    if session.ended_at is not None:
        raise SessionEndedError(session.id)
    relatives, left = yield from _relatives(at, head, batch)
    view = head.view(batch.idle_before, left)
    require_question(session.id, batch, view.ledger)
    require_version(session.id, batch, relatives, view, session.last_seq)
    placed = identify_batch(session.id, batch, relatives, view, session.last_seq)
    deltas = [row.delta for row in placed.fresh if row.delta is not None]
    require_owner(session.user_id, deltas)
    runs, touched = yield from _run_changes(at, head, batch, placed.fresh)
    if not placed.fresh and not runs:
        return Change((Appended(placed.rows, session.last_seq, view), bool(head.owed)))
    after, rows = with_runs(head, runs) if runs else (head, Rows())
    if placed.fresh:
        state, noted = with_replaced(session.state, placed.fresh) if deltas else (None, placed.fresh)
        rows |= event_rows(head.skey, noted)
        ledger = view.ledger
        for edit in placed.edits:
            ledger = ledger.with_edit(edit)
        changes = {**moved(session, len(placed.fresh), batch.now), "ledger": ledger.encode()}
        if state is not None:
            changes["state"] = state
        after = after.with_session(**changes)
        if owed := [(delta, batch.now) for delta in deltas if is_shared(delta)]:
            after = replace(after, owed=(*head.owed, *owed))
    before = {*relatives, *touched}
    got = [run.now for run in runs]
    then = [*(run for run in left if all(run.id != other.id for other in got)), *got]
    stood, stand = head.view(r.ALL_AWAKE, left), after.view(r.ALL_AWAKE, then)
    counted = tally_change(before, stood, {*before, *placed.fresh}, stand)
    after = after.adding(counted)
    # Of what is all new nobody has to ask where it stands: nothing is decoded that was encoded a moment ago.
    is_new = not (relatives or runs or placed.edits)
    appended = Appended(placed.rows, after.session.last_seq, None if is_new else after.view(batch.idle_before, then))
    return Change((appended, bool(after.owed)), after, rows)


def _relatives(
    at: Partitions, head: SessionHead, batch: AppendBatch
) -> Flow[tuple[list[EventRow], list[InvocationRow]]]:
    """Every stored row that shares an identity with one of a batch; and of their runs what the head does not know."""
    idents, ids, runs = {row.ident for row in batch.rows}, {row.id for row in batch.rows}, runs_of(batch.rows)
    wanted = named(head.skey, idents | ids)
    found = yield from at.rows(head, [*wanted, *left_ranges(head, runs)])
    left = [load_run(row) for rows in found[len(wanted) :] for row in rows]
    rows = yield from at.events(head, positions(found[: len(wanted)]).ranges)
    # Names are found by their digests: what has another's by chance goes here.
    relatives = [row for row in rows if row.ident in idents or row.id in ids]
    return relatives, left + (yield from read_left(at, head, runs_of(relatives) - runs))


def _run_changes(
    at: Partitions, head: SessionHead, batch: AppendBatch, fresh: Sequence[EventRow]
) -> Flow[tuple[list[RunChange], list[EventRow]]]:
    """How far the invocations of a batch got, and the events of those that failed or came back from failing."""
    names = sorted({row.invocation_id for row in batch.rows if row.invocation_id is not None})
    changed: list[RunChange] = []
    touched: list[EventRow] = []
    firsts = {row.invocation_id: row.seq for row in reversed(fresh)}
    for name in names:
        was = yield from read_run(at, head, name)
        status = last_mark([row for row in batch.rows if row.invocation_id == name]) or (was.status if was else _DONE)
        first = was.first_seq if was else firsts.get(name)
        if first is None:
            continue
        now = InvocationRow(name, first, status, batch.now)
        changed.append(RunChange(was, now))
        before = was.status if was else 0
        if status != before and _FAILED in (status, before):
            touched += yield from _events_of_run(at, head, now)
    return changed, touched


def _events_of_run(at: Partitions, head: SessionHead, run: InvocationRow) -> Flow[list[EventRow]]:
    """The events that stand as their invocation does; the question that gave it its name came before it."""
    found: list[EventRow] = []
    if run.id.startswith(r.TURN_OF):
        seqs = positions((yield from at.rows(head, named(head.skey, [run.id[len(r.TURN_OF) :]]))))
        found += yield from at.events(head, seqs.ranges)
    low = run.first_seq
    while low <= head.session.last_seq:
        some = yield from at.some_events(head, low, head.session.last_seq, ROWS_AT_ONCE)
        found += some
        low = some[-1].seq + 1
    return [row for row in found if row.run == run.id]


def append_record(at: Partitions, key: SessionKey, record: EventRow, now: int) -> Flow[EventRow]:
    """The contract's `append_record`."""

    def decide(head: SessionHead) -> Flow[Change]:
        yield from ()
        row = record._replace(seq=head.session.last_seq + 1)
        return Change(row, head.with_session(**moved(head.session, 1, now)), event_rows(head.skey, [row]))

    answer: EventRow = yield from at.change(key, now, decide)
    return answer


# -- reading -----------------------------------------------------------------------------------------------


def find_events(at: Partitions, key: SessionKey, query: EventQuery, now: int) -> Flow[EventSlice]:
    """The contract's `find_events`."""
    head = yield from at.require(key, now)
    return (yield from read_matching_now(at, head, query, now))


def read_matching_now(at: Partitions, head: SessionHead, query: EventQuery, now: int) -> Flow[EventSlice]:
    """`read_matching`, again where a checkpoint came in between the head and the rows."""
    session = head.session
    reads = 0
    while True:
        found = yield from read_matching(at, head, query)
        reads += 1
        if reads == MOST_READS or not may_have_moved_on(found.rows, found.view.head, query.standings):
            return found
        newer = yield from at.require(SessionKey(session.app, session.id, session.user_id), now)
        if newer.skey != head.skey or newer.session.head_runs == head.session.head_runs:
            return found
        head = newer


def read_matching(at: Partitions, head: SessionHead, query: EventQuery) -> Flow[EventSlice]:
    """The rows of a log that meet a query, read from the end where the window lies until it is full."""
    view = head.view(query.idle_before)
    low, high = max((query.after_seq or 0) + 1, 1), head.session.last_seq
    if query.before_seq is not None:
        high = min(high, query.before_seq - 1)
    wanted = None if query.limit is None or query.with_total else query.offset + query.limit
    size = ROWS_AT_ONCE if wanted is None else min(max(wanted, _FIRST_READ), ROWS_AT_ONCE)
    found: list[EventRow] = []
    if query.idents:
        seqs = positions((yield from at.rows(head, named(head.skey, query.idents))))
        named_rows = yield from at.events(head, (seqs & SeqSet.between(low, high)).ranges)
        view = yield from knowing(at, head, view, named_rows, query.idle_before)
        return cut_window([row for row in named_rows if matches(row, query, view)], query, view)
    while low <= high and (wanted is None or len(found) < wanted):
        if query.newest:
            some = yield from at.some_events(head, low, high, size, newest=True)
            high = some[-1].seq - 1
        else:
            some = yield from at.some_events(head, low, high, size)
            low = some[-1].seq + 1
        view = yield from knowing(at, head, view, some, query.idle_before)
        found += [row for row in some if matches(row, query, view)]
        size = min(4 * size, ROWS_AT_ONCE)
    if query.newest:
        found.reverse()
    return cut_window(found, query, view)


def load_context(
    at: Partitions,
    key: SessionKey,
    viewer: str | None,
    invocation_id: str | None,
    last_n: int | None,
    now: int,
    idle_before: int,
    said_only: bool = False,  # noqa: FBT001, FBT002 - as in the contract
) -> Flow[ContextSlice]:
    """The contract's `load_context`: the live tail from its end, and beside it what stands in archived places."""
    del said_only  # rows are kept whole
    head = yield from at.require(key, now)
    reads = 0
    while True:
        found, is_detached = yield from _standing(at, head, viewer, invocation_id, last_n, idle_before)
        reads += 1
        if reads == MOST_READS or not is_detached:
            return found
        # Or taken into its thread by a checkpoint that came meanwhile, whose list the head that was read has not.
        newer = yield from at.require(key, now)
        if newer.session.head_runs == head.session.head_runs:
            return found
        head = newer


def _standing(
    at: Partitions,
    head: SessionHead,
    viewer: str | None,
    invocation_id: str | None,
    last_n: int | None,
    idle_before: int,
) -> Flow[tuple[ContextSlice, bool]]:
    """What stands in a context, and whether something was met that its thread does not hold."""
    view = head.view(idle_before)
    covers = view.ledger.covers
    floors = {scope: covers[scope].upto if scope in covers else 0 for scope in visible_scopes(viewer)}
    apart = elsewhere(view)
    by_list = last_n is not None and is_reordered(view)
    listed = SeqSet.of_runs(view.head or ()) if by_list else NO_SEQS
    is_detached = False

    def is_shown(row: EventRow) -> bool:
        nonlocal is_detached
        # What stands elsewhere is read by its positions below, however far back they are.
        if row.seq in apart or row.seq in listed or row.seq <= floors.get(row.scope, 0) or row.kind >= k.FIRST_RECORD:
            return False
        is_detached = is_detached or (row.flags & r.ROOTED > 0 and view.standing(row) is Standing.DETACHED)
        return sees(viewer, row) and view.in_context(row, invocation_id)

    rows: list[EventRow] = []
    low, high = min(floors.values()) + 1, head.session.last_seq
    # Twice as many as are wanted: records and other branches lie between them.
    size = ROWS_AT_ONCE if last_n is None else min(max(2 * last_n, _FIRST_READ), ROWS_AT_ONCE)
    while low <= high and (last_n is None or len(rows) < last_n):
        some = yield from at.some_events(head, low, high, size, newest=True)
        high = some[-1].seq - 1
        view = yield from knowing(at, head, view, some, idle_before)
        rows += [row for row in some if is_shown(row)]
    if last_n is not None and len(rows) >= last_n and not view.head:
        # What stands before the window is cut from it.
        apart = elsewhere(view, min(row.place for row in rows))
    if last_n is not None and by_list:
        some = yield from _listed(at, head, view, viewer, invocation_id, last_n, idle_before)
        rows += some
        apart = apart - SeqSet.of(row.seq for row in some)
    beside = yield from at.events(head, apart.ranges)
    rows += beside
    view = yield from knowing(at, head, view, beside, idle_before)
    found = ContextSlice(head.session.log, context_rows(rows, view, viewer, invocation_id, last_n), view)
    return found, is_detached


def _listed(
    at: Partitions,
    head: SessionHead,
    view: LogView,
    viewer: str | None,
    invocation_id: str | None,
    last_n: int,
    idle_before: int,
) -> Flow[list[EventRow]]:
    """The last of a thread's list: as many as stand in a window, or more."""
    rows: list[EventRow] = []
    standing = 0
    for seqs in listed_back(view, last_n):
        some = yield from at.events(head, seqs.ranges)
        told = yield from knowing(at, head, view, some, idle_before)
        standing += sum(sees(viewer, row) and told.in_context(row, invocation_id) for row in some)
        rows += some
        if standing >= last_n:
            break
    return rows


def count_live(at: Partitions, key: SessionKey, scope: str | None, now: int) -> Flow[Counters]:
    """The contract's `count_live`."""
    return (yield from at.require(key, now)).counters(scope)


def measure_scope(at: Partitions, key: SessionKey, scope: str | None, now: int) -> Flow[ScopeMeasure]:
    """The contract's `measure_scope`."""
    head = yield from at.require(key, now)
    return ScopeMeasure(head.session, head.counters(scope))


def find_invocation(at: Partitions, key: SessionKey, invocation_id: str, now: int) -> Flow[InvocationRow | None]:
    """The contract's `find_invocation`."""
    head = yield from at.find_session(key, now)
    return None if head is None else (yield from read_run(at, head, invocation_id))


def lease_scope(at: Partitions, key: SessionKey, scope: str | None, holder: str, now: int, until: int) -> Flow[bool]:
    """The contract's `lease_scope`. The root's name is blank."""

    def decide(head: SessionHead) -> Flow[Change]:
        yield from ()
        held = head.leases.get(scope or "")
        if held is not None and held[0] != holder and held[1] > now:
            return Change(answer=False)
        # Leases that ran out go with the next one, so that a head does not grow by branches that are over.
        kept = {name: lease for name, lease in head.leases.items() if lease[1] > now}
        return Change(answer=True, head=replace(head, leases={**kept, scope or "": (holder, until)}))

    granted: bool = yield from at.change(key, now, decide, is_repeatable=True)
    return granted
