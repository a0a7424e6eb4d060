"""Writing checkpoints and pending writes, and remembering what was written."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import ERROR

from langchain_sessions._core.checkpoints import ROOT, WriteRow
from langchain_sessions._core.edge import check_id
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ranges import encode_runs
from langchain_sessions._core.rows import ROOTED
from langchain_sessions._log.log import adapter_draft, after_append
from langchain_sessions._threads.names import config_of, namespace_digest
from langchain_sessions._threads.plan import START, PendingWrite, PlannedCheckpoint
from langchain_sessions._threads.record import dump_slot, lighten, record_of
from langchain_sessions._threads.split import split
from langchain_sessions.errors import StalePlanError
from langchain_sessions.stores._threads import PutPlan, PutResult, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langchain_sessions._core.encode import EventEncoder
    from langchain_sessions._threads.cache import ThreadCache
    from langchain_sessions._threads.load import CheckpointLoader
    from langchain_sessions._threads.names import ThreadConfig
    from langchain_sessions._threads.queue import CommitQueue
    from langchain_sessions._threads.record import Record

_MAX_PENDING = 256


def _nothing(result: object) -> None:
    """What follows the commit of pending writes."""
    del result


class CheckpointWriter:
    """Writes checkpoints and pending writes of threads."""

    def __init__(
        self, loader: CheckpointLoader, queue: CommitQueue, encoder: EventEncoder, serde: SerializerProtocol
    ) -> None:
        """Write through a queue, and share what is known with a loader."""
        self._loader = loader
        self._cache = loader.cache
        self._queue = queue
        self._encoder = encoder
        self._serde = serde
        self._pending: dict[tuple[str, str, str], Sequence[PendingWrite]] = {}

    # -- checkpoints ---------------------------------------------------------------------------------------

    def put(
        self,
        at: ThreadConfig,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
        *,
        strict: bool,
    ) -> Flow[RunnableConfig]:
        """Store a checkpoint that came from the one which the config names; the config of the new one."""
        ns, parent = namespace_digest(at.namespace), at.checkpoint_id
        thread = self._cache.known(at.log.app, at.session_id)
        if parent is not None and (thread is None or (ns, parent) not in thread.records):
            thread = yield from self._loader.load_parent(at)
        while True:
            record = record_of(ns, checkpoint, parent, metadata, self._serde)
            planned = self._planned(at, record, thread)
            planned.take(checkpoint["channel_values"], new_versions)
            plan = self._plan(at, planned, strict=strict, is_fork=metadata.get("source") == "fork")
            after = partial(self._learn, at, planned, checkpoint["channel_values"].get(START))
            try:
                done: PutResult = yield from ask(self._queue.submit, plan, after)
            except StalePlanError:
                self._cache.forget(at.log.app, at.session_id)
                thread = None
            else:
                yield from after_append(at.log, at.key, done.session.last_seq, done.decision.fresh)
                return config_of(done.session, at.namespace, record.cid)

    def _planned(self, at: ThreadConfig, record: Record, thread: ThreadCache | None) -> PlannedCheckpoint:
        came_from = (record.ns, record.parent or "")
        return PlannedCheckpoint(
            record=record,
            namespace=at.namespace,
            encoder=self._encoder,
            serde=self._serde,
            thread=thread,
            parent=thread.records.get(came_from) if thread else None,
            pending=self._pending.get((at.session_id, at.namespace, record.parent or ""), ()),
            parent_start=thread.starts.get(came_from) if thread else None,
            now=at.log.now(),
        )

    def _plan(self, at: ThreadConfig, planned: PlannedCheckpoint, *, strict: bool, is_fork: bool) -> PutPlan:
        record, thread = planned.record, planned.thread
        shape, names = record.shape
        is_fresh = record.ns == ROOT and record.parent is None
        is_named = thread is not None and {shape, record.ns} <= thread.named
        return PutPlan(
            key=at.key,
            draft=replace(adapter_draft(at.log, at.session_id), anew=is_fresh),
            ns=record.ns,
            ns_name=at.namespace,
            cid=record.cid,
            parent=record.parent,
            is_fork=is_fork,
            shape=shape,
            shape_body=names,
            idents=planned.idents,
            decide=planned.decide,
            strict=strict,
            named_in=thread.skey if thread is not None and is_named else None,
        )

    def _learn(self, at: ThreadConfig, planned: PlannedCheckpoint, start: Any, result: PutResult) -> None:
        """Remember what was committed."""
        record = planned.record
        thread = self._cache.thread(result.session.skey, at.log.app, at.session_id)
        thread.add(planned.matched)
        thread.add(result.decision.fresh)
        for seq in result.decision.rooted:
            if seq in thread.rows:
                thread.rows[seq] = thread.rows[seq]._replace(flags=thread.rows[seq].flags | ROOTED)
        shape, names = record.shape
        thread.named.update((shape, record.ns))
        thread.shapes[shape] = names
        lighten(record)
        thread.keep(record)
        if start is not None:
            thread.starts[record.ns, record.cid] = start
        for write, row in planned.adopted:
            write.row = row
        if planned.parent is not None and planned.parent_slot is not None:
            planned.parent.slots[START] = planned.parent_slot
            thread.starts.pop((planned.parent.ns, planned.parent.cid), None)
        self._pending.pop((at.session_id, at.namespace, record.parent or ""), None)

    # -- what tasks wrote ----------------------------------------------------------------------------------

    def put_writes(
        self, at: ThreadConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str, *, durable: bool
    ) -> Flow[None]:
        """Store what a task wrote, beside the checkpoint that it ran on."""
        cid = check_id(at.checkpoint_id, "checkpoint_id")
        task = check_id(task_id, "task_id")
        thread = self._cache.known(at.log.app, at.session_id)
        while True:
            pending = [
                self._pending_write(thread, WriteRow(task, number, channel, task_path, 0, None, None), value)
                for number, (channel, value) in enumerate(writes)
            ]
            plan = self._writes_plan(at, cid, thread, pending, durable=durable)
            self._expect(at, cid, pending)
            try:
                yield from ask(self._queue.submit, plan, _nothing)
            except StalePlanError:
                self._cache.forget(at.log.app, at.session_id)
                thread = None
            else:
                return

    def _pending_write(self, thread: ThreadCache | None, row: WriteRow, value: Any) -> PendingWrite:
        """A write with references to the messages that the log has."""
        resolved: dict[int, int] = {}
        if row.channel == ERROR and isinstance(value, BaseException):
            value = repr(value)  # as LangGraph's own savers keep it

        def wanted(item: Any) -> bool:
            if type(item) is str or thread is None:
                return False
            seq = thread.position(item)
            if seq is not None:
                resolved[id(item)] = seq
            return seq is not None

        parts = split(value, wanted) if thread is not None else None
        if parts is None:
            slot = dump_slot(value, self._serde, row.channel)
        else:
            refs = encode_runs(resolved[id(item)] for item in parts.references)
            slot = dump_slot(parts.skeleton, self._serde, row.channel, refs)
        idx = WRITES_IDX_MAP.get(row.channel, row.idx)
        return PendingWrite(row._replace(idx=idx, kind=slot.kind, refs=slot.refs, data=slot.data), value)

    def _writes_plan(
        self, at: ThreadConfig, cid: str, thread: ThreadCache | None, pending: Sequence[PendingWrite], *, durable: bool
    ) -> WritesPlan:
        ns = namespace_digest(at.namespace)
        is_regular = all(write.row.idx >= 0 for write in pending)

        def rows(skey: int) -> Sequence[WriteRow]:
            if thread is not None and thread.skey != skey:
                raise StalePlanError
            return [write.row for write in pending]

        return WritesPlan(
            key=at.key,
            draft=replace(adapter_draft(at.log, at.session_id), anew=False),
            ns=ns,
            ns_name=at.namespace,
            cid=cid,
            rows=rows,
            is_regular=is_regular,
            may_lag=is_regular and not durable,
            named_in=thread.skey if thread is not None and (ns == ROOT or ns in thread.named) else None,
        )

    def _expect(self, at: ThreadConfig, cid: str, pending: Sequence[PendingWrite]) -> None:
        """Remember writes until the next checkpoint takes their messages over."""
        came_from = (at.session_id, at.namespace, cid)
        self._pending[came_from] = [*self._pending.get(came_from, ()), *pending]
        while len(self._pending) > _MAX_PENDING:
            self._pending.pop(next(iter(self._pending)), None)
