"""LangGraph's checkpointer over sessions: a thread is a session, and its messages are the session's events."""

from __future__ import annotations

import copy
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver, get_checkpoint_metadata
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_sessions._chat.address import (
    Addressing,
    LogsThreads,
    OwnerPolicy,
    ThreadConfig,
    checkpoint_id,
    configurable,
    next_version,
)
from langchain_sessions._core.codec.any_message import MessageCodec
from langchain_sessions._core.edge import check_id, made_by
from langchain_sessions._core.event_encoding import EventEncoder
from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.rows import ANYONE
from langchain_sessions._log.log import adapter_draft, log_of
from langchain_sessions._threads.allowed import Allowed
from langchain_sessions._threads.cache import MessageCache
from langchain_sessions._threads.forms import ValueForms, admitting, usable
from langchain_sessions._threads.heads import head_conflicts
from langchain_sessions._threads.load import CheckpointLoader
from langchain_sessions._threads.prune import CheckpointPruner
from langchain_sessions._threads.rebuild import decode_metadata
from langchain_sessions._threads.save import CheckpointWriter, CommitQueue
from langchain_sessions.errors import InvalidInputError, SessionNotFoundError
from langchain_sessions.service import SessionService
from langchain_sessions.stores._threads import CheckpointQuery, ThreadStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from typing_extensions import Self

    from langchain_sessions._threads.heads import HeadConflict
    from langchain_sessions._threads.load import CheckpointPages


@made_by("SessionCheckpointSaver(SessionService('sqlite:///chat.db'))")
class SessionCheckpointSaver(LogsThreads, BaseCheckpointSaver[Any]):
    """Keeps the state of LangGraph threads in sessions.

    The thread's id is the session's id. Messages in the state are events of the session, each stored once; a
    checkpoint names them by position. What the newest root checkpoint lists is the session's context.

    The owner is `configurable["user_id"]`; where the config names none, the thread is nobody's. `owner` may decide
    otherwise. A saver over `sessions.as_user(u)` enforces u in every method. A thread of somebody else raises
    `SessionNotFoundError`.

    Args:
        sessions: The service; its store must keep threads (`ThreadStore`).
        serde: A LangGraph serializer; by default the service's codec, else LangGraph's own in its strict mode. An
            encrypting one seals messages too.
        allow: Classes whose objects the state may hold: dataclasses, models, enumerations, named tuples, or a graph's
            whole state; what their fields name is allowed with them. An object of another class is refused before
            it is written, since it would come back as something else.
        owner: Whose threads a config reaches, see `OwnerPolicy`.
        encrypted: Whether `serde` encrypts; by default asked of LangGraph's own `EncryptedSerializer`.
        strict_head: Refuse a checkpoint of the root graph whose parent is no longer the newest, by
            `HeadConflictError`. By default it is stored beside, and `head_conflicts` names it.
        durable_writes: Whether what a task wrote waits for the disk. False spares a flush for each batch of them on
            SQLite and PostgreSQL; the next checkpoint's covers them. A power cut before it takes them back, and the
            graph runs these tasks again. Checkpoints, interrupts, errors and what resumes a graph always wait.
        cache_bytes: How much memory message objects may take, roughly.

    Raises:
        InvalidInputError: The service's store keeps no threads.
    """

    def __init__(
        self,
        sessions: SessionService,
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[type | tuple[str, ...]] = (),
        owner: OwnerPolicy = "config",
        encrypted: bool | None = None,
        strict_head: bool = False,
        durable_writes: bool = True,
        cache_bytes: int = 64_000_000,
    ) -> None:
        """See the class. Nothing is opened before first use."""
        log = log_of(sessions)
        if not isinstance(log.store, ThreadStore):
            raise InvalidInputError("sessions", "its store keeps no threads")
        self.sessions = sessions
        self._addressing = Addressing(sessions, owner)
        self.strict_head = strict_head
        self.durable_writes = durable_writes
        self._store = log.store
        self._queue = CommitQueue(log.store)
        self._cache_bytes = cache_bytes
        self._encrypted = encrypted
        self._allowed = Allowed(allow)
        self._clones: dict[frozenset[tuple[str, ...]], Self] = {}
        super().__init__(serde=usable(serde) or log.codec.serde or JsonPlusSerializer(allowed_msgpack_modules=None))

    @property
    def serde(self) -> SerializerProtocol:  # pyright: ignore[reportIncompatibleVariableOverride] - may be set, too
        """The serializer. With another one nothing is taken over of what was cached."""
        return self._serde

    @serde.setter
    def serde(self, serde: SerializerProtocol) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        log = log_of(self.sessions)
        encrypts = isinstance(serde, EncryptedSerializer) if self._encrypted is None else self._encrypted
        self._serde = serde = admitting(serde, self._allowed.classes)
        codec = MessageCodec(serde, encrypts=encrypts)
        self._forms = forms = ValueForms(serde, self._allowed)
        self._cache = MessageCache(codec, self._cache_bytes)
        self._loader = CheckpointLoader(self._store, self._cache, forms)
        self._writer = CheckpointWriter(self._loader, self._queue, EventEncoder(codec, log.tokens), forms)
        self._pruner = CheckpointPruner(log, self._store, self._cache, forms)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """A clone whose serializer admits more types. It shares the store and commits in the same line."""
        wanted = frozenset(extra_allowlist)
        if wanted not in self._clones:
            clone = copy.copy(self)
            clone._allowed, clone._clones = self._allowed.and_also(wanted), {}
            clone.serde = admitting(self._serde, wanted)
            self._clones[wanted] = clone
        return self._clones[wanted]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.sessions!r}>"

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - as LangGraph calls it
        """The version of a channel after `current`, of the same kind; a 64-bit integer at first."""
        return next_version(current)

    def _read(self, config: RunnableConfig) -> ThreadConfig:
        return self._addressing.thread(config)

    # -- writing -------------------------------------------------------------------------------------------

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
        full: Any = get_checkpoint_metadata(config, metadata)
        at = self._addressing.thread(config)
        return drive(self._writer.put(at, checkpoint, full, new_versions, strict=self.strict_head))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async `put`."""
        full: Any = get_checkpoint_metadata(config, metadata)
        at = self._addressing.thread(config)
        return await adrive(self._writer.put(at, checkpoint, full, new_versions, strict=self.strict_head))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, beside the checkpoint that it ran on.

        A regular write that is stored already stays; interrupts, errors, resumes and scheduled writes replace.

        Raises:
            SessionNotFoundError: The thread is somebody else's, or was deleted while its graph ran.
        """
        at, durable = self._addressing.thread(config), self.durable_writes
        drive(self._writer.put_writes(at, writes, task_id, task_path, durable=durable))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Async `put_writes`."""
        at, durable = self._addressing.thread(config), self.durable_writes
        await adrive(self._writer.put_writes(at, writes, task_id, task_path, durable=durable))

    # -- reading -------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, else the newest; None where there is none.

        Raises:
            SessionNotFoundError: The thread is somebody else's.
            CorruptRowError: It cannot be read.
        """
        return drive(self._loader.load(self._read(config), config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        return await adrive(self._loader.load(self._read(config), config))

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
        pages = self._pages(config, filter, before, limit)
        while not pages.is_over:
            yield from drive(pages.read())

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        pages = self._pages(config, filter, before, limit)
        while not pages.is_over:
            for found in await adrive(pages.read()):
                yield found

    def _pages(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> CheckpointPages:
        # LangGraph's server hands on the checkpoint itself, without a config around it.
        bare: Any = before or {}
        accept, last = self._loader.acceptance(wanted), checkpoint_id(before) or bare.get("checkpoint_id")
        if config is None:
            log = log_of(self.sessions)
            query = CheckpointQuery(app=log.app, owner=log.owner, now=log.now(), before=last, accept=accept)
            return self._loader.pages(query, limit, None)
        at = self._read(config)
        query = at.query(cid=at.checkpoint_id, before=last, accept=accept)
        if "checkpoint_ns" not in configurable(config):
            query = replace(query, ns=None)
        return self._loader.pages(query, limit, at.said)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What some channels were given on the way to a checkpoint, back to where each was last stored whole."""
        return drive(self._loader.delta_history(self._read(config), channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Async `get_delta_channel_history`."""
        return await adrive(self._loader.delta_history(self._read(config), channels))

    # -- whole threads -------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread: the session with everything in it. Nothing happens where there is none.

        Writes of a graph that still runs do not bring it back; a new root input starts it anew.
        """
        drive(self._delete(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Async `delete_thread`."""
        await adrive(self._delete(thread_id))

    def _delete(self, thread_id: str) -> Flow[None]:
        yield from ask(self.sessions.delete, str(thread_id))
        self._cache.forget(log_of(self.sessions).app, str(thread_id))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its events, checkpoints and writes to a new id of the same owner.

        Nothing happens where there is none: a thread that no graph ran in yet is empty.

        Raises:
            SessionNotFoundError: The source is somebody else's.
            SessionExistsError: The target is taken.
        """
        drive(self._copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Async `copy_thread`."""
        await adrive(self._copy(source_thread_id, target_thread_id))

    def _copy(self, source_thread_id: str, target_thread_id: str) -> Flow[None]:
        log = log_of(self.sessions)
        key = log.key(check_id(str(source_thread_id), "source_thread_id"))
        source = yield from ask(log.store.find_session, key._replace(owner=ANYONE), log.now())
        if source is None:
            return
        if not key.admits(source.user_id):
            raise SessionNotFoundError(key.id)
        draft = adapter_draft(log, str(target_thread_id))
        draft = draft._replace(user_id=source.user_id, title=source.title)
        yield from ask(log.store.fork_session, key, draft, None)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints and writes of some runs in every thread in reach. Events stay.

        Checkpoints from which a delta channel of a later one is rebuilt stay too. What came from a removed one comes
        from the nearest before it that is left. Each thread is changed by itself.
        """
        drive(self._pruner.delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Async `delete_for_runs`."""
        await adrive(self._pruner.delete_for_runs(run_ids))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove checkpoints. Events stay.

        Args:
            thread_ids: The threads; those that are not there are passed over.
            strategy: `keep_latest` keeps the newest of each namespace, and those from which its delta channels are
                rebuilt; calls of subgraphs that are over go with the checkpoint that they started from. `delete`
                keeps none.

        Raises:
            InvalidInputError: There is no such strategy, or `thread_ids` is a single text.
        """
        drive(self._pruner.prune(thread_ids, strategy=strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Async `prune`."""
        await adrive(self._pruner.prune(thread_ids, strategy=strategy))

    def trim(self, thread_ids: Sequence[str], *, keep: int | None = None, older_than: timedelta | None = None) -> int:
        """Remove old checkpoints by count, by age, or by both; events stay.

        Args:
            thread_ids: The threads; those that are not there are passed over.
            keep: How many of the newest of each namespace stay, whatever their age; 1 by default.
            older_than: Only checkpoints that are older go.

        Returns:
            How many checkpoints were removed.

        Raises:
            InvalidInputError: Neither is given, or something cannot be used.
        """
        return drive(self._pruner.trim(thread_ids, keep=keep, older_than=older_than))

    async def atrim(
        self, thread_ids: Sequence[str], *, keep: int | None = None, older_than: timedelta | None = None
    ) -> int:
        """Async `trim`."""
        return await adrive(self._pruner.trim(thread_ids, keep=keep, older_than=older_than))

    def head_conflicts(self, thread_id: str) -> Sequence[HeadConflict]:
        """Checkpoints that were stored beside the head because two writers raced; empty where there are none.

        A line that the head left on purpose, by a fork of an earlier checkpoint, is none.

        Raises:
            SessionNotFoundError: There is no such thread in reach.
        """
        return drive(self._conflicts(thread_id))

    async def ahead_conflicts(self, thread_id: str) -> Sequence[HeadConflict]:
        """Async `head_conflicts`."""
        return await adrive(self._conflicts(thread_id))

    def _conflicts(self, thread_id: str) -> Flow[Sequence[HeadConflict]]:
        log = log_of(self.sessions)
        key = log.key(str(thread_id))
        rows = yield from ask(self._store.list_root_checkpoints, key, log.now())
        return head_conflicts(rows, lambda row: decode_metadata(key.id, row, self._forms).get("source"))


def checkpointer_factory(
    database: Any,
    *,
    owner: OwnerPolicy = "ignore",
    serde: SerializerProtocol | None = None,
    allow: Iterable[type | tuple[str, ...]] = (),
    strict_head: bool = False,
    **options: Any,
) -> Callable[[], AbstractAsyncContextManager[SessionCheckpointSaver]]:
    """What a server's checkpointer configuration names.

    In a module of your own, `make = checkpointer_factory("postgresql://…")`; then name `module.py:make` as the path
    in `langgraph.json`. Each call opens a service and closes it at the end.

    Args:
        database: As for `SessionService`.
        owner: Whose threads a config reaches, see `OwnerPolicy`. A server authorises threads itself, and many of its
            calls name no user or something else as one; so by default a thread is reached by its id alone.
        serde: As for `SessionCheckpointSaver`.
        allow: As for `SessionCheckpointSaver`.
        strict_head: As for `SessionCheckpointSaver`.
        options: Further arguments of `SessionService`.
    """

    @asynccontextmanager
    async def make() -> AsyncIterator[SessionCheckpointSaver]:
        async with SessionService(database, **options) as sessions:
            yield SessionCheckpointSaver(sessions, owner=owner, serde=serde, allow=allow, strict_head=strict_head)

    return make


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
