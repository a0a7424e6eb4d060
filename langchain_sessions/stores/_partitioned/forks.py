"""Copying a session: into a partition that nobody sees until all of it is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import Ledger, marks_of
from langchain_sessions._core.rows import MARKS, Mark, SessionKey, SessionRow
from langchain_sessions._core.state import apply_deltas
from langchain_sessions.errors import EventNotFoundError, SessionExistsError, SessionsError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import (
    ROWS_AT_ONCE,
    Partitions,
    Rows,
    event_rows,
    session_partition,
)
from langchain_sessions.stores._partitioned.live import live_rows
from langchain_sessions.stores._partitioned.runs import FEW, load_run, with_runs
from langchain_sessions.stores._partitioned.sessions import is_free, new_head
from langchain_sessions.stores._partitioned.shared_state import write_owed
from langchain_sessions.stores._partitioned.thread_upkeep import copy_thread

if TYPE_CHECKING:
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores._values import SessionDraft

_LONGEST = 3_600_000_000
"""Microseconds after which a copy that is not finished was abandoned."""


def fork_session(at: Partitions, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> Flow[SessionRow]:
    """The contract's `fork_session`."""
    source = yield from at.require(key, draft.now)
    upto = source.session.last_seq if at_seq is None else at_seq
    if not 0 <= upto <= source.session.last_seq:
        raise EventNotFoundError(key.id, f"position {upto}")
    found = yield from at.find(session_partition(draft.app, draft.id))
    if found is not None and (found.stage == "live" or not is_free(found, draft)):
        raise SessionExistsError(draft.id)
    # Nobody sees it, but the id is taken: a crash leaves it so until its time is over.
    target = replace(new_head(at, draft, found), stage="making", until=draft.now + _LONGEST)
    target = yield from _write(at, target, draft, {})
    try:
        made = yield from _copy(at, source, target, draft, upto)
    except SessionsError:
        yield from at.repeat(session_partition(draft.app, draft.id), target.version, None, {})
        raise
    partition = session_partition(draft.app, draft.id)
    yield from ask(at.engine.remove_rows, partition, keys.prefix(made.skey))
    if made.owed:
        yield from write_owed(at, SessionKey(draft.app, draft.id, draft.user_id), draft.now)
    return made.session


def _write(at: Partitions, target: SessionHead, draft: SessionDraft, rows: Rows) -> Flow[SessionHead]:
    """Write a part of the copy; the head after it.

    Raises:
        SessionExistsError: Somebody else took the id.
    """
    if not (yield from at.commit(session_partition(draft.app, draft.id), target, rows)):
        raise SessionExistsError(draft.id)
    return replace(target, version=target.version + 1)


def _copy(
    at: Partitions, source: SessionHead, target: SessionHead, draft: SessionDraft, upto: int
) -> Flow[SessionHead]:
    marks: list[Mark] = []
    deltas: list[tuple[int, str | None]] = []
    done = 0
    while done < upto:
        events = yield from at.some_events(source, done + 1, upto, ROWS_AT_ONCE)
        marks += marks_of(events)
        deltas += [(event.seq, event.delta) for event in events if event.delta is not None]
        target = yield from _write(at, target, draft, event_rows(target.skey, events))
        done = events[-1].seq
    ledger = Ledger.of(marks, upto)
    initial = source.session.initial_state
    target = replace(
        target.with_session(
            last_seq=upto,
            ledger=ledger.encode(),
            initial_state=initial,
            aliased=source.session.aliased,
            state=apply_deltas(initial, (delta for seq, delta in deltas if seq not in ledger.hidden)),
        ),
        scopes=dict(source.scopes),
    )
    target = yield from _copy_runs(at, source, target, draft, upto)
    target, threads = yield from copy_thread(at, source, target, upto)
    target = yield from _write(at, target, draft, threads)
    target = target.recounted((yield from live_rows(at, target, upto)))
    target = replace(target, stage="live", until=0)
    return (yield from _write(at, target, draft, {}))


def _copy_runs(
    at: Partitions, source: SessionHead, target: SessionHead, draft: SessionDraft, upto: int
) -> Flow[SessionHead]:
    """Copy how far the invocations got that began in what is copied."""
    stored = yield from at.all_rows(source, keys.under(keys.at(source.skey, keys.RUN)))
    copied = [(row, run) for row in stored if (run := load_run(row)).first_seq <= upto]
    rows: Rows = {keys.prefix(target.skey) + row.key[len(keys.prefix(source.skey)) :]: row.value for row, _ in copied}
    unfinished = sorted((run for _, run in copied if run.status != MARKS["done"]), key=lambda run: run.updated_at)
    target = replace(target, unfinished={run.id: run for run in unfinished})
    while True:
        target, moved = with_runs(target, ())
        target = yield from _write(at, target, draft, rows | moved)
        if len(target.unfinished) <= FEW:
            return target
        rows = {}
