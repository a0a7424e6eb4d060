"""Reading checkpoints: one by its id, the newest, or many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._log.log import log_of
from langchain_sessions._threads.access import ThreadAccess, checkpoint_id, configurable
from langchain_sessions._threads.cache import Needs
from langchain_sessions._threads.record import decode_metadata
from langchain_sessions.stores.threads import CheckpointQuery, FoundCheckpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple


class ThreadReads(ThreadAccess):
    """The part of the saver that reads checkpoints."""

    def _get_tuple(self, config: RunnableConfig) -> Flow[CheckpointTuple | None]:
        address, ns = self._place(config)
        asked = checkpoint_id(config)
        query = self._query(address, ns, cid=asked)
        needs = Needs(self._cache)
        found, details, _ = yield from ask(self._store.find_checkpoints, query, None, needs)
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
            page = self._store.find_checkpoints(replace(query, limit=left), after, needs)
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
            page = await self._store.afind_checkpoints(replace(query, limit=left), after, needs)
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
        # LangGraph's server hands on the checkpoint itself, without a config around it.
        bare: Any = before or {}
        last = checkpoint_id(before) or bare.get("checkpoint_id")
        if config is None:
            owner, now = self.sessions.owner, log_of(self.sessions).now()
            query = CheckpointQuery(
                app=self.sessions.app, owner=owner, now=now, before=last, limit=limit, accept=accept
            )
            return query, limit, None
        address, ns = self._place(config)
        has_ns = "checkpoint_ns" in configurable(config)
        cid = checkpoint_id(config)
        query = self._query(address, ns if has_ns else None, cid=cid, before=last, limit=limit, accept=accept)
        return query, limit, None

    def _acceptance(self, wanted: dict[str, Any] | None) -> Callable[[FoundCheckpoint], bool] | None:
        if not wanted:
            return None
        conditions = dict(wanted)

        def accept(found: FoundCheckpoint) -> bool:
            metadata = decode_metadata(found.session.id, found.row, self.serde)
            return all(value == metadata.get(key) for key, value in conditions.items())

        return accept
