"""Writing checkpoints and pending writes, and remembering what was written."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)

from langchain_sessions._core.checkpoints import ROOT, WriteRow
from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.ids import check_id
from langchain_sessions._core.ranges import encode_runs
from langchain_sessions._core.rows import ROOTED
from langchain_sessions._log.indexing import after_append
from langchain_sessions._log.lifecycle import adapter_draft
from langchain_sessions._log.log import log_of
from langchain_sessions._threads.access import ThreadAccess, checkpoint_id
from langchain_sessions._threads.cache import Needs, ThreadCache
from langchain_sessions._threads.plan import START, PendingWrite, Preparation
from langchain_sessions._threads.rebuild import config_of
from langchain_sessions._threads.record import Record, dump_slot, lighten, record_of
from langchain_sessions._threads.split import split
from langchain_sessions._threads.versions import namespace_digest
from langchain_sessions.errors import StalePlanError
from langchain_sessions.stores.threads import PutPlan, PutResult, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig

    from langchain_sessions._chat.address import Address
    from langchain_sessions._core.encode import EventEncoder
    from langchain_sessions._threads.queue import CommitQueue

_MAX_PENDING = 256


def _nothing(result: object) -> None:
    """What follows the commit of pending writes."""
    del result


class ThreadWrites(ThreadAccess):
    """The part of the saver that writes checkpoints."""

    strict_head: bool
    durable_writes: bool
    _queue: CommitQueue
    _encoder: EventEncoder
    _pending: dict[tuple[str, str, str], Sequence[PendingWrite]]

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Flow[RunnableConfig]:
        address, namespace = self._place(config)
        parent_id = checkpoint_id(config)
        thread = yield from self._known(address, namespace, parent_id)
        while True:
            full = get_checkpoint_metadata(config, metadata)
            record = record_of(namespace_digest(namespace), checkpoint, parent_id, full, self.serde)
            prepared = self._prepare(address, record, namespace, thread)
            prepared.take(checkpoint["channel_values"], new_versions)
            after = partial(self._learn, address, prepared, checkpoint["channel_values"].get(START))
            try:
                done = yield from ask(self._queue.submit, self._plan(address, prepared, metadata), after)
            except StalePlanError:
                self._cache.forget(address.sessions.app, address.session_id)
                thread = None
            else:
                sessions, added = address.sessions, len(done.decision.fresh)
                yield from after_append(
                    log_of(sessions), log_of(sessions).key(address.session_id), done.session.last_seq, added
                )
                return config_of(done.session, namespace, record.cid)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; messages that the session does not have yet become its events.

        Raises:
            SessionNotFoundError: The thread is somebody else's, or was deleted while its graph ran.
            SessionEndedError: The session was ended.
            HeadConflictError: With `strict_head`, another checkpoint became the newest.
        """
        return drive(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async `put`."""
        return await adrive(self._put(config, checkpoint, metadata, new_versions))

    def _known(self, address: Address, namespace: str, parent_id: str | None) -> Flow[ThreadCache | None]:
        """What is known of a thread; with it the checkpoint that the next one comes from."""
        thread = self._cache.known(address.sessions.app, address.session_id)
        ns = namespace_digest(namespace)
        if parent_id is not None and (thread is None or (ns, parent_id) not in thread.records):
            query = self._query(address, namespace, cid=parent_id)
            needs = Needs(self._cache)
            found, details, _ = yield from ask(self._store.find_checkpoints, query, None, needs)
            if found:
                thread, _ = self._rebuilder.remember(found[0], details, needs)
        return thread

    def _prepare(self, address: Address, record: Record, namespace: str, thread: ThreadCache | None) -> Preparation:
        place = (record.ns, record.parent or "")
        return Preparation(
            record=record,
            namespace=namespace,
            encoder=self._encoder,
            thread=thread,
            parent=thread.records.get(place) if thread else None,
            pending=self._pending.get((address.session_id, namespace, record.parent or ""), ()),
            parent_start=thread.starts.get(place) if thread else None,
            now=log_of(address.sessions).now(),
        )

    def _plan(self, address: Address, prepared: Preparation, metadata: CheckpointMetadata) -> PutPlan:
        sessions, record = address.sessions, prepared.record
        shape, names = record.shape
        thread = prepared.thread
        draft = adapter_draft(log_of(sessions), address.session_id)
        is_fresh = record.ns == ROOT and record.parent is None
        is_named = thread is not None and {shape, record.ns} <= thread.named
        return PutPlan(
            key=log_of(sessions).key(address.session_id),
            draft=replace(draft, anew=is_fresh),
            ns=record.ns,
            ns_name=prepared.namespace,
            cid=record.cid,
            parent=record.parent,
            is_fork=metadata.get("source") == "fork",
            shape=shape,
            shape_body=names,
            idents=prepared.idents,
            decide=prepared.decide,
            strict=self.strict_head,
            named_in=thread.skey if thread is not None and is_named else None,
        )

    def _learn(self, address: Address, prepared: Preparation, start: Any, result: PutResult) -> None:
        """Remember what was committed."""
        record = prepared.record
        thread = self._cache.thread(result.session.skey, address.sessions.app, address.session_id)
        thread.add(prepared.matched)
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
        for write, row in prepared.adopted:
            write.row = row
        if result.decision.parent is not None and record.parent is not None:
            thread.starts.pop((record.ns, record.parent), None)
        self._pending.pop((address.session_id, prepared.namespace, record.parent or ""), None)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Flow[None]:
        address, namespace = self._place(config)
        cid = check_id(checkpoint_id(config), "checkpoint_id")
        task = check_id(task_id, "task_id")
        thread = self._cache.known(address.sessions.app, address.session_id)
        while True:
            pending = [
                self._pending_write(thread, WriteRow(task, at, channel, task_path, 0, None, None), value)
                for at, (channel, value) in enumerate(writes)
            ]
            plan = self._writes_plan(address, namespace, cid, thread, pending)
            self._expect(address, namespace, cid, pending)
            try:
                yield from ask(self._queue.submit, plan, _nothing)
            except StalePlanError:
                self._cache.forget(address.sessions.app, address.session_id)
                thread = None
            else:
                return

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, beside the checkpoint that it ran on.

        A regular write that is stored already stays; interrupts, errors, resumes and scheduled writes replace.

        Raises:
            SessionNotFoundError: The thread is somebody else's, or was deleted while its graph ran.
        """
        drive(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Async `put_writes`."""
        await adrive(self._put_writes(config, writes, task_id, task_path))

    def _pending_write(self, thread: ThreadCache | None, row: WriteRow, value: Any) -> PendingWrite:
        """A write with references to the messages that the log has."""
        resolved: dict[int, int] = {}

        def wanted(item: Any) -> bool:
            if type(item) is str or thread is None:
                return False
            seq = thread.position(item)
            if seq is not None:
                resolved[id(item)] = seq
            return seq is not None

        parts = split(value, wanted) if thread is not None else None
        if parts is None:
            slot = dump_slot(value, self.serde)
        else:
            slot = dump_slot(parts.skeleton, self.serde, encode_runs(resolved[id(item)] for item in parts.references))
        idx = WRITES_IDX_MAP.get(row.channel, row.idx)
        return PendingWrite(row._replace(idx=idx, kind=slot.kind, refs=slot.refs, data=slot.data), value)

    def _writes_plan(
        self, address: Address, namespace: str, cid: str, thread: ThreadCache | None, pending: Sequence[PendingWrite]
    ) -> WritesPlan:
        sessions, ns = address.sessions, namespace_digest(namespace)
        is_regular = all(write.row.idx >= 0 for write in pending)

        def rows(skey: int) -> Sequence[WriteRow]:
            if thread is not None and thread.skey != skey:
                raise StalePlanError
            return [write.row for write in pending]

        return WritesPlan(
            key=log_of(sessions).key(address.session_id),
            draft=replace(adapter_draft(log_of(sessions), address.session_id), anew=False),
            ns=ns,
            ns_name=namespace,
            cid=cid,
            rows=rows,
            is_regular=is_regular,
            may_lag=is_regular and not self.durable_writes,
            named_in=thread.skey if thread is not None and (ns == ROOT or ns in thread.named) else None,
        )

    def _expect(self, address: Address, namespace: str, cid: str, pending: Sequence[PendingWrite]) -> None:
        """Remember writes until the next checkpoint takes their messages over."""
        self._pending[address.session_id, namespace, cid] = [
            *self._pending.get((address.session_id, namespace, cid), ()),
            *pending,
        ]
        while len(self._pending) > _MAX_PENDING:
            self._pending.pop(next(iter(self._pending)), None)
