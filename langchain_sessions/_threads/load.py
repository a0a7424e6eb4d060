"""Reading checkpoints: one by its id, the newest, or many; and what a delta channel was given on the way to one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_sessions._core.codec.any_message import equal
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._threads.cache import CacheReader
from langchain_sessions._threads.rebuild import Rebuilder, decode_metadata, decode_record
from langchain_sessions._threads.record import EMPTY
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite

    from langchain_sessions._chat.address import ThreadConfig
    from langchain_sessions._core.checkpoints import CheckpointRow
    from langchain_sessions._threads.cache import MessageCache, ThreadCache
    from langchain_sessions._threads.forms import ValueForms
    from langchain_sessions.stores._threads import (
        CheckpointPage,
        CheckpointQuery,
        FoundCheckpoint,
        PageEnd,
        ThreadStore,
    )

Built = TypeVar("Built")
_TRIES = 8
"""Among many threads what is read is other each time, while one of them is damaged for good."""


class CheckpointLoader:
    """Reads checkpoints of threads."""

    def __init__(self, store: ThreadStore, cache: MessageCache, forms: ValueForms) -> None:
        """Read from a store what a cache does not have."""
        self._store = store
        self._forms = forms
        self.cache = cache

    def load(self, at: ThreadConfig, config: RunnableConfig) -> Flow[CheckpointTuple | None]:
        """The checkpoint that a config names, else the newest; None where there is none."""

        def build(page: CheckpointPage, rebuilder: Rebuilder) -> CheckpointTuple | None:
            asked = config if at.checkpoint_id else None
            return rebuilder.tuple_of(page.found[0], asked, at.said) if page.found else None

        return (yield from self._built(at, build))

    def load_parent(self, at: ThreadConfig) -> Flow[ThreadCache | None]:
        """What is known of a thread, and with it the checkpoint that a config names."""

        def build(page: CheckpointPage, rebuilder: Rebuilder) -> ThreadCache | None:
            if not page.found:
                return self.cache.known(at.log.app, at.session_id)
            return rebuilder.remember_trees(page.found[0])

        return (yield from self._built(at, build))

    def writes_of(self, at: ThreadConfig) -> Flow[list[tuple[str, Any]]]:
        """What tasks wrote on the checkpoint that a config names, in the order in which a run applies it."""

        def build(page: CheckpointPage, rebuilder: Rebuilder) -> list[tuple[str, Any]]:
            for found in page.found:
                rebuilder.remember(found)
            return [(channel, value) for found in page.found for _, channel, value in rebuilder.pending(found)]

        return (yield from self._built(at, build))

    def _built(self, at: ThreadConfig, build: Callable[[CheckpointPage, Rebuilder], Built]) -> Flow[Built]:
        """What is built of the checkpoint that a config names, else of the newest."""
        query = at.query(cid=at.checkpoint_id)

        def read(reader: CacheReader) -> Flow[CheckpointPage]:
            return ask(self._store.find_checkpoints, query, None, reader)

        return whole(self.cache, self._forms, read, build)

    def pages(self, query: CheckpointQuery, limit: int | None, said: Mapping[str, Any] | None) -> CheckpointPages:
        """Pages of checkpoints, newest first, for one who `said` who asks."""
        return CheckpointPages(self._store, self.cache, self._forms, query, limit, said=said)

    def acceptance(self, wanted: Mapping[str, Any] | None) -> Callable[[FoundCheckpoint], bool] | None:
        """Asks whether the metadata of a checkpoint holds equal values under all keys; None where nothing is wanted."""
        if not wanted:
            return None
        conditions = dict(wanted)

        def accept(found: FoundCheckpoint) -> bool:
            metadata = decode_metadata(found.session.id, found.row, self._forms)
            return all(equal(value, metadata.get(key)) for key, value in conditions.items())

        return accept

    def delta_history(self, at: ThreadConfig, channels: Sequence[str]) -> Flow[Mapping[str, DeltaChannelHistory]]:
        """What some channels were given on the way to a checkpoint, back to where each was last stored whole."""
        if not channels:
            return {}
        query = at.query(cid=at.checkpoint_id)

        def read(reader: CacheReader) -> Flow[CheckpointPage]:
            return ask(self._store.load_lineage, query, channels, _stored_in, reader)

        def build(page: CheckpointPage, rebuilder: Rebuilder) -> Mapping[str, DeltaChannelHistory]:
            return _history(page.found, rebuilder, channels)

        return (yield from whole(self.cache, self._forms, read, build))


class CheckpointPages:
    """Checkpoints that meet a query, page by page."""

    def __init__(
        self,
        store: ThreadStore,
        cache: MessageCache,
        forms: ValueForms,
        query: CheckpointQuery,
        limit: int | None,
        *,
        said: Mapping[str, Any] | None,
    ) -> None:
        """Begin with the newest; end after `limit` of them."""
        self._store = store
        self._cache = cache
        self._forms = forms
        self._query = query
        self._left = limit
        self._said = said
        self._after: PageEnd | None = None
        self.is_over = limit is not None and limit <= 0

    def read(self) -> Flow[list[CheckpointTuple]]:
        """The next page. What is served together is checked once, so all of it is rebuilt at once."""
        query = replace(self._query, limit=self._left)

        def read(reader: CacheReader) -> Flow[CheckpointPage]:
            return ask(self._store.find_checkpoints, query, self._after, reader)

        def build(page: CheckpointPage, rebuilder: Rebuilder) -> tuple[list[CheckpointTuple], PageEnd | None]:
            return [rebuilder.tuple_of(item, None, self._said) for item in page.found], page.after

        found, self._after = yield from whole(self._cache, self._forms, read, build)
        if self._left is not None:
            self._left -= len(found)
        self.is_over = self._after is None or self._left == 0
        return found


def _stored_in(found: FoundCheckpoint, shape: bytes) -> Collection[str]:
    """The channels whose whole value a checkpoint holds."""
    return decode_record(found.session.id, found.row, shape).stored


def _history(
    found: Sequence[FoundCheckpoint], rebuilder: Rebuilder, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    # Newest checkpoint first, as they were found; within a step they are in order already.
    writes: dict[str, list[list[PendingWrite]]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    for item in found:
        _, record = rebuilder.remember(item)
        pending = rebuilder.pending(item, channels)
        for channel in channels:
            if channel in seeds:
                continue
            writes[channel].append([write for write in pending if write[1] == channel])
            slot = record.slots.get(channel)
            if slot is not None and slot.kind != EMPTY:
                seeds[channel] = rebuilder.value(item, channel, slot)
    history: dict[str, DeltaChannelHistory] = {}
    for channel in channels:
        history[channel] = {"writes": [write for step in reversed(writes[channel]) for write in step]}
        if channel in seeds:
            history[channel]["seed"] = seeds[channel]
    return history


def whole(
    cache: MessageCache,
    forms: ValueForms,
    read: Callable[[CacheReader], Flow[CheckpointPage]],
    build: Callable[[CheckpointPage, Rebuilder], Built],
) -> Flow[Built]:
    """What is built of the checkpoints that are read.

    A thread may be deleted or pruned between two statements that read it, so that messages or values are missing. So
    it is read again, until the same checkpoints lack something twice.
    """
    before: list[tuple[int, CheckpointRow]] = []
    tries = 0
    while True:
        reader = CacheReader(cache)
        page = yield from read(reader)
        try:
            return build(page, Rebuilder(forms, page.details, reader))
        except CorruptRowError:
            there, tries = [(item.session.skey, item.row) for item in page.found], tries + 1
            if there == before or tries == _TRIES:
                raise
            before = there
            for item in page.found:
                cache.forget(item.session.app, item.session.id)
