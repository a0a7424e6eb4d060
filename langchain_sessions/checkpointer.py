"""LangGraph's checkpointer over sessions: a thread is a session, and its messages are the session's events."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_sessions._chat.address import Addressing, OwnerPolicy
from langchain_sessions._core.codec.messages import MessageCodec
from langchain_sessions._core.encode import EventEncoder
from langchain_sessions._log.log import log_of
from langchain_sessions._threads.cache import MessageCache
from langchain_sessions._threads.load import ThreadReads
from langchain_sessions._threads.prune import Pruning
from langchain_sessions._threads.queue import CommitQueue
from langchain_sessions._threads.rebuild import Rebuilder
from langchain_sessions._threads.save import ThreadWrites
from langchain_sessions._threads.upkeep import Upkeep
from langchain_sessions._threads.versions import next_version
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.service import SessionService
from langchain_sessions.stores.threads import ThreadStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from langgraph.checkpoint.serde.base import SerializerProtocol
    from typing_extensions import Self


CACHE_BYTES = 64_000_000


class SessionCheckpointSaver(ThreadReads, ThreadWrites, Pruning, Upkeep, BaseCheckpointSaver[Any]):
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
        owner: Whose threads a config reaches, see `OwnerPolicy`.
        encrypted: Whether `serde` encrypts; by default asked of LangGraph's own `EncryptedSerializer`.
        strict_head: Refuse a checkpoint of the root graph whose parent is no longer the newest, by
            `HeadConflictError`. By default it is stored beside, and `head_conflicts` names it.
        durable_writes: Whether what a task wrote waits for the disk. False spares a flush for each batch of regular
            writes on SQLite and PostgreSQL; the next checkpoint's flush covers them. A power cut before it takes back
            writes that no checkpoint holds yet, and the graph runs these tasks again. Checkpoints, interrupts, errors
            and what resumes a graph always wait.
        cache_bytes: How much memory message objects may take, roughly.

    Raises:
        InvalidInputError: The service's store keeps no threads.
    """

    def __init__(
        self,
        sessions: SessionService,
        *,
        serde: SerializerProtocol | None = None,
        owner: OwnerPolicy = "config",
        encrypted: bool | None = None,
        strict_head: bool = False,
        durable_writes: bool = True,
        cache_bytes: int = CACHE_BYTES,
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
        self._pending = {}
        self._cache_bytes = cache_bytes
        self._encrypted = encrypted
        super().__init__(serde=serde or log.codec.serde or JsonPlusSerializer(allowed_msgpack_modules=None))

    @property
    def serde(self) -> SerializerProtocol:  # pyright: ignore[reportIncompatibleVariableOverride] - may be set, too
        """The serializer. With another one nothing is taken over of what was cached."""
        return self._serde

    @serde.setter
    def serde(self, serde: SerializerProtocol) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        encrypts = isinstance(serde, EncryptedSerializer) if self._encrypted is None else self._encrypted
        codec = MessageCodec(serde, encrypts=encrypts)
        self._serde = serde
        self._encoder = EventEncoder(codec, self.sessions.tokens)
        self._cache = MessageCache(codec, self._cache_bytes)
        self._rebuilder = Rebuilder(serde)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """A clone whose serializer admits more types. It shares the store and commits in the same line."""
        clone: Any = super().with_allowlist(extra_allowlist)
        return clone  # type: ignore[no-any-return]

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version of a channel after `current`, of the same kind; a 64-bit integer at first."""
        del channel
        return next_version(current)


def checkpointer_factory(
    database: Any,
    *,
    owner: OwnerPolicy = "ignore",
    serde: SerializerProtocol | None = None,
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
        strict_head: As for `SessionCheckpointSaver`.
        options: Further arguments of `SessionService`.
    """

    @asynccontextmanager
    async def make() -> AsyncIterator[SessionCheckpointSaver]:
        async with SessionService(database, **options) as sessions:
            yield SessionCheckpointSaver(sessions, owner=owner, serde=serde, strict_head=strict_head)

    return make
