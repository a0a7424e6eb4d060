"""Overwriting what was said: events, what recall made of them, and copies in the thread's own rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from langchain_sessions._core.blanking import (
    Overwriting,
    ThreadBytes,
    blank_record,
    choose,
    overwrite_thread,
    replaced_seqs,
    summaries_of,
)
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import tally_change
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ALL_AWAKE, moved
from langchain_sessions.stores._erasing import Blanked, BlankPlan
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import (
    Change,
    Partitions,
    Rows,
    event_rows,
    name_of,
    named,
    positions,
)
from langchain_sessions.stores._partitioned.heads import IndexHead, dump_event
from langchain_sessions.stores._partitioned.index import traits_key
from langchain_sessions.stores._partitioned.rewinding import read_marks
from langchain_sessions.stores._partitioned.runs import knowing
from langchain_sessions.stores._partitioned.shelves import drop_shelves_of
from langchain_sessions.stores._partitioned.threads import (
    checkpoint_rows,
    dump_writes,
    load_checkpoint,
    load_writes,
    value_key,
)
from langchain_sessions.stores._partitioned.vectors import vector_key, vector_rows

if TYPE_CHECKING:
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores.engine import Row


def blank_events(at: Partitions, key: SessionKey, plan: BlankPlan) -> Flow[Blanked]:
    """The contract's `blank_events`."""
    done: Blanked = yield from at.change(key, plan.now, partial(_blank, at, plan))
    if done.rows:
        head = yield from at.find(name_of(key))
        if head is not None:
            yield from drop_shelves_of(at, key.app, head.session.user_id, [head.skey])
        # Also where nothing was left to overwrite: the last call may have been cut short here.
        yield from ask(at.engine.remove_rows, name_of(key), "")
    return done


def _blank(at: Partitions, plan: BlankPlan, head: SessionHead) -> Flow[Change]:
    session, view = head.session, head.view(ALL_AWAKE)
    rows = yield from _asked(at, head, view, plan)
    view = yield from knowing(at, head, view, rows, ALL_AWAKE)
    chosen = choose(session.id, rows, view, plan.asked, plan.seqs, superseded=plan.superseded)
    made = summaries_of(chosen.all, (yield from read_marks(at, head)))
    if not chosen.left:
        return Change(Blanked(None, (), tuple(chosen.all), made))
    record = blank_record(plan.record, session.last_seq + 1, chosen)
    blanked = [plan.row(row) for row in chosen.left]
    changed: Rows = {keys.at(head.skey, keys.EVENT, row.seq): dump_event(row) for row in blanked}
    changed |= event_rows(head.skey, [record])
    changed |= yield from _without_words(at, head, chosen.seqs)
    changed |= yield from _thread_without(at, head, Overwriting(plan.words(row) for row in chosen.left))
    ledger = view.ledger.with_blank(record.seq, chosen.seqs).encode()
    after = head.with_session(**moved(session, 1, plan.now), ledger=ledger)
    after = after.adding(tally_change(chosen.left, view, blanked, view))
    after = replace(after, index=_no_index(head), vectors=head.vectors._replace(signs=()))
    return Change(Blanked(record, tuple(chosen.seqs), tuple(chosen.all), made), after, changed)


def _asked(at: Partitions, head: SessionHead, view: LogView, plan: BlankPlan) -> Flow[list[EventRow]]:
    """The events among which a call chooses."""
    if plan.ident is None:
        runs = (SeqSet.of(plan.seqs) if plan.seqs else replaced_seqs(view)).ranges
        return (yield from at.events(head, runs))
    seqs = positions((yield from at.rows(head, named(head.skey, [plan.ident]))))
    return [row for row in (yield from at.events(head, seqs.ranges)) if row.ident == plan.ident]


def _no_index(head: SessionHead) -> IndexHead:
    """The index has to be built again; whoever is about to move it forward from here does not."""
    return IndexHead(0, head.index.generation + 1) if head.index.generation else head.index


def _without_words(at: Partitions, head: SessionHead, seqs: SeqSet) -> Flow[Rows]:
    """The rows of the index, and of the vectors of some events: they go."""
    rows: Rows = {}
    for chunk in head.index.chunks:
        rows[traits_key(head, chunk[0])] = None
        stored = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.BUCKET, chunk[0])))
        rows.update((row.key, None) for row in stored)
    if head.vectors.generation:
        rows.update((vector_key(head, head.vectors.generation, seq), None) for seq in seqs)
        # Signs of many events lie together: they are made again from the vectors that are left.
        rows.update(dict.fromkeys((yield from vector_rows(at, head, -head.vectors.generation))))
    return rows


def _thread_without(at: Partitions, head: SessionHead, overwriting: Overwriting) -> Flow[Rows]:
    """What changes in the thread's rows when words are overwritten in them."""
    skey = head.skey
    staged = yield from _part(at, head, keys.STAGED)
    found = ThreadBytes(
        [load_checkpoint(row.value) for row in (yield from _part(at, head, keys.CHECKPOINT))],
        [load_writes(row) for row in (yield from _part(at, head, keys.WRITES))],
        {keys.number_in(row.key): row.value for row in staged},
        {bytes.fromhex(row.key.rpartition("/")[2]): row.value for row in (yield from _part(at, head, keys.OUTSIDE))},
    )
    change = overwrite_thread(found, overwriting)
    rows: Rows = {}
    for checkpoint in change.checkpoints:
        rows |= checkpoint_rows(skey, checkpoint)
    for write in change.writes:
        rows |= dump_writes(skey, write)
    rows.update((keys.at(skey, keys.STAGED, n), body) for n, body in change.staged.items())
    rows.update((value_key(skey, name), data) for name, data in change.values.items())
    return rows


def _part(at: Partitions, head: SessionHead, part: str) -> Flow[list[Row]]:
    return (yield from at.all_rows(head, keys.under(keys.at(head.skey, part))))
