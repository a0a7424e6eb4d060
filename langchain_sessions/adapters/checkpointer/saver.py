"""LangGraph's checkpointer over sessions: a thread is a session, and its messages are the session's events."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_sessions._flow import Flow, adrive, ask, drive
from langchain_sessions.adapters.addressing import Address, require_address
from langchain_sessions.adapters.checkpointer.batching import CommitQueue
from langchain_sessions.adapters.checkpointer.cache import MessageCache, Needs, ThreadCache
from langchain_sessions.adapters.checkpointer.preparing import START, PendingWrite, Preparation, RecreatedError
from langchain_sessions.adapters.checkpointer.reading import Rebuilder, config_of
from langchain_sessions.adapters.checkpointer.records import (
    Record,
    decode_metadata,
    dump_slot,
    lighten,
    record_of,
    shape_of,
)
from langchain_sessions.adapters.checkpointer.splitting import split
from langchain_sessions.adapters.checkpointer.upkeep import Upkeep
from langchain_sessions.adapters.checkpointer.versions import namespace_digest, next_version
from langchain_sessions.codec.messages import MessageCodec
from langchain_sessions.encoding import EventEncoder
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.ids import check_id
from langchain_sessions.rows import ROOTED
from langchain_sessions.runs import encode_runs
from langchain_sessions.stores.sql.runner import Mode
from langchain_sessions.stores.sql.store import SqlStore
from langchain_sessions.stores.sql.thread_reading import read_checkpoints
from langchain_sessions.stores.threads import ROOT, CheckpointQuery, Found, PutPlan, PutResult, WriteRow, WritesPlan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from typing_extensions import Self

    from langchain_sessions.service import SessionService

CACHE_BYTES = 64_000_000
_MAX_PENDING = 256


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    """What a config says of the thread; empty where it says nothing."""
    return config.get("configurable") or {}


def _nothing(result: object) -> None:
    """What follows the commit of pending writes."""
    del result


class SessionCheckpointSaver(Upkeep, BaseCheckpointSaver[Any]):
    """Keeps the state of LangGraph threads in sessions.

    The thread's id is the session's id. Messages in the state are events of the session, each stored once; a
    checkpoint names them by position. What the newest root checkpoint lists is the session's context.

    The owner is `configurable["user_id"]`; where the config names none, the thread is nobody's. A saver over
    `sessions.as_user(u)` enforces u in every method. A thread of somebody else raises `SessionNotFoundError`.

    Args:
        sessions: The service; its store must be an SQL one.
        serde: A LangGraph serializer; by default the service's codec, else LangGraph's own in its strict mode. An
            encrypting one seals messages too.
        encrypted: Whether `serde` encrypts; by default asked of LangGraph's own `EncryptedSerializer`.
        strict_head: Refuse a checkpoint of the root graph whose parent is no longer the newest, by
            `HeadConflictError`. By default it is stored beside, and `head_conflicts` names it.
        cache_bytes: How much memory message objects may take, roughly.

    Raises:
        InvalidInputError: The service has another kind of store.
    """

    def __init__(
        self,
        sessions: SessionService,
        *,
        serde: SerializerProtocol | None = None,
        encrypted: bool | None = None,
        strict_head: bool = False,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """See the class. Nothing is opened before first use."""
        given = serde or sessions.codec.serde or JsonPlusSerializer(allowed_msgpack_modules=None)
        super().__init__(serde=given)
        if not isinstance(sessions.store, SqlStore):
            raise InvalidInputError("sessions", "a checkpointer needs an SQL store, such as sqlite:// for memory")
        self.sessions = sessions
        self.strict_head = strict_head
        self._store: SqlStore = sessions.store
        self._queue = CommitQueue(sessions.store)
        self._cache_bytes = cache_bytes
        self._encrypts = isinstance(given, EncryptedSerializer) if encrypted is None else encrypted
        self._pending: dict[tuple[str, str, str], Sequence[PendingWrite]] = {}
        self._use_serde()

    def _use_serde(self) -> None:
        """Build what depends on the serializer."""
        codec = MessageCodec(self.serde, encrypts=self._encrypts)
        self._encoder = EventEncoder(codec, self.sessions.tokens)
        self._cache = MessageCache(codec, self._cache_bytes)
        self._rebuilder = Rebuilder(self.serde)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """A clone whose serializer admits more types. It shares the store and commits in the same line."""
        clone: Any = super().with_allowlist(extra_allowlist)
        if clone is not self:
            clone._use_serde()
        return clone  # type: ignore[no-any-return]

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version of a channel after `current`, of the same kind; a 64-bit integer at first."""
        del channel
        return next_version(current)

    # -- reading -------------------------------------------------------------------------------------------

    def _get_tuple(self, config: RunnableConfig) -> Flow[CheckpointTuple | None]:
        address, ns = self._place(config)
        asked = get_checkpoint_id(config)
        query = self._query(address, ns, cid=asked)
        needs = Needs(self._cache)
        found, details, _ = yield from ask(self._store.run, Mode.READ, read_checkpoints, query, None, needs)
        if not found:
            return None
        return self._rebuilder.tuple_of(found[0], details, needs, config if asked else None)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, else the newest; None where there is none.

        Raises:
            SessionNotFoundError: The thread is somebody else's.
            CorruptRowError: It cannot be read.
        """
        return drive(self._get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        return await adrive(self._get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first.

        Args:
            config: Names the thread, and the namespace and the checkpoint if given; None for all threads in reach.
            filter: What the metadata must hold: equal values under all these keys.
            before: Only checkpoints with a smaller id than this one's.
            limit: At most so many.

        Raises:
            SessionNotFoundError: The thread is somebody else's.
        """
        query, left, after = self._list_query(config, filter, before, limit)
        while left is None or left > 0:
            needs = Needs(self._cache)
            page = self._store.run(Mode.READ, read_checkpoints, replace(query, limit=left), after, needs)
            # Rebuilt before the first is handed out: what is served together is checked once.
            yield from [self._rebuilder.tuple_of(item, page[1], needs, None) for item in page[0]]
            left, after = None if left is None else left - len(page[0]), page[2]
            if after is None:
                return

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        query, left, after = self._list_query(config, filter, before, limit)
        while left is None or left > 0:
            needs = Needs(self._cache)
            page = await self._store.arun(Mode.READ, read_checkpoints, replace(query, limit=left), after, needs)
            for found in [self._rebuilder.tuple_of(item, page[1], needs, None) for item in page[0]]:
                yield found
            left, after = None if left is None else left - len(page[0]), page[2]
            if after is None:
                return

    def _list_query(
        self,
        config: RunnableConfig | None,
        wanted: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> tuple[CheckpointQuery, int | None, None]:
        accept = self._acceptance(wanted)
        last = get_checkpoint_id(before) if before else None
        if config is None:
            owner, now = self.sessions.owner, self.sessions.now()
            query = CheckpointQuery(
                app=self.sessions.app, owner=owner, now=now, before=last, limit=limit, accept=accept
            )
            return query, limit, None
        address, ns = self._place(config)
        has_ns = "checkpoint_ns" in _configurable(config)
        cid = get_checkpoint_id(config)
        query = self._query(address, ns if has_ns else None, cid=cid, before=last, limit=limit, accept=accept)
        return query, limit, None

    def _acceptance(self, wanted: dict[str, Any] | None) -> Callable[[Found], bool] | None:
        if not wanted:
            return None
        conditions = dict(wanted)

        def accept(found: Found) -> bool:
            metadata = decode_metadata(found.session.id, found.row, self.serde)
            return all(value == metadata.get(key) for key, value in conditions.items())

        return accept

    # -- writing -------------------------------------------------------------------------------------------

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Flow[RunnableConfig]:
        address, namespace = self._place(config)
        parent_id = _configurable(config).get("checkpoint_id")
        thread = yield from self._known(address, namespace, parent_id)
        while True:
            full = get_checkpoint_metadata(config, metadata)
            record = record_of(namespace_digest(namespace), checkpoint, parent_id, full, self.serde)
            prepared = self._prepare(address, record, namespace, thread)
            prepared.take(checkpoint["channel_values"], new_versions)
            after = partial(self._learn, address, prepared, checkpoint["channel_values"].get(START))
            try:
                done = yield from ask(self._queue.submit, self._plan(address, prepared, metadata), after)
            except RecreatedError:
                self._cache.forget(address.sessions.app, address.session_id)
                thread = None
            else:
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
            found, details, _ = yield from ask(self._store.run, Mode.READ, read_checkpoints, query, None, needs)
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
            now=address.sessions.now(),
        )

    def _plan(self, address: Address, prepared: Preparation, metadata: CheckpointMetadata) -> PutPlan:
        sessions, record = address.sessions, prepared.record
        shape, body = shape_of(record)
        thread = prepared.thread
        draft = sessions.adapter_draft(address.session_id)
        is_fresh = record.ns == ROOT and record.parent is None
        is_named = thread is not None and {shape, record.ns} <= thread.named
        return PutPlan(
            key=sessions.key(address.session_id),
            draft=replace(draft, anew=is_fresh),
            ns=record.ns,
            ns_name=prepared.namespace,
            cid=record.cid,
            parent=record.parent,
            is_fork=metadata.get("source") == "fork",
            shape=shape,
            shape_body=body,
            idents=prepared.idents,
            settle=prepared.settle,
            strict=self.strict_head,
            named_in=thread.skey if thread is not None and is_named else None,
        )

    def _learn(self, address: Address, prepared: Preparation, start: Any, result: PutResult) -> None:
        """Remember what was committed."""
        record = prepared.record
        thread = self._cache.thread(result.session.skey, address.sessions.app, address.session_id)
        thread.add(prepared.matched)
        thread.add(result.settled.fresh)
        for seq in result.settled.rooted:
            if seq in thread.rows:
                thread.rows[seq] = thread.rows[seq]._replace(flags=thread.rows[seq].flags | ROOTED)
        thread.named.update((shape_of(record)[0], record.ns))
        lighten(record)
        thread.keep(record)
        if start is not None:
            thread.starts[record.ns, record.cid] = start
        for write, row in prepared.adopted:
            write.row = row
        if result.settled.parent is not None and record.parent is not None:
            thread.starts.pop((record.ns, record.parent), None)
        self._pending.pop((address.session_id, prepared.namespace, record.parent or ""), None)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Flow[None]:
        address, namespace = self._place(config)
        cid = check_id(_configurable(config).get("checkpoint_id"), "checkpoint_id")
        task = check_id(task_id, "task_id")
        thread = self._cache.known(address.sessions.app, address.session_id)
        ns = namespace_digest(namespace)
        while True:
            pending = [
                self._pending_write(thread, WriteRow(ns, cid, task, at, 0, channel, task_path, 0, None, None), value)
                for at, (channel, value) in enumerate(writes)
            ]
            plan = self._writes_plan(address, namespace, thread, pending)
            self._expect(address, namespace, cid, pending)
            try:
                yield from ask(self._queue.submit, plan, _nothing)
            except RecreatedError:
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
        self, address: Address, namespace: str, thread: ThreadCache | None, pending: Sequence[PendingWrite]
    ) -> WritesPlan:
        sessions, ns = address.sessions, namespace_digest(namespace)

        def rows(skey: int) -> Sequence[WriteRow]:
            if thread is not None and thread.skey != skey:
                raise RecreatedError
            return [write.row for write in pending]

        return WritesPlan(
            key=sessions.key(address.session_id),
            draft=replace(sessions.adapter_draft(address.session_id), anew=False),
            ns=ns,
            ns_name=namespace,
            rows=rows,
            replaces=tuple(write.row.channel in WRITES_IDX_MAP for write in pending),
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

    # -- shared --------------------------------------------------------------------------------------------

    def _place(self, config: RunnableConfig) -> tuple[Address, str]:
        """The session of a config as its owner sees it, and the namespace."""
        address = require_address(self.sessions, config)
        return address, str(_configurable(config).get("checkpoint_ns") or "")

    def _query(self, address: Address, namespace: str | None, **wanted: Any) -> CheckpointQuery:
        sessions = address.sessions
        return CheckpointQuery(
            app=sessions.app,
            owner=sessions.owner,
            now=sessions.now(),
            session_id=address.session_id,
            ns=None if namespace is None else namespace_digest(namespace),
            ns_name=namespace or "",
            **wanted,
        )
