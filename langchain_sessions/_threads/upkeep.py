"""What is done to whole threads: deleted, copied, pruned, walked, and asked for lost siblings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.flow import Flow, ask, async_face, sync_face
from langchain_sessions._core.ids import check_id
from langchain_sessions._core.rows import ANYONE
from langchain_sessions._log.lifecycle import adapter_draft
from langchain_sessions._log.log import log_of
from langchain_sessions._threads.access import ThreadAccess, checkpoint_id
from langchain_sessions._threads.cache import Needs
from langchain_sessions._threads.record import EMPTY, decode_metadata, decode_record
from langchain_sessions.errors import SessionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite

    from langchain_sessions._core.checkpoints import CheckpointRow
    from langchain_sessions.stores.threads import FoundCheckpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadConflict:
    """A checkpoint that was acknowledged and is not in the history of the head, since another writer came later.

    Attributes:
        checkpoint_id: The last checkpoint of the lost line; it can be read and continued by this id.
        parent_id: The newest checkpoint that it shares with the head.
    """

    checkpoint_id: str
    parent_id: str | None


class Upkeep(ThreadAccess):
    """The part of the saver that deals with whole threads."""

    def _delete_thread(self, thread_id: str) -> Flow[None]:
        """Delete a thread: the session with everything in it. Nothing happens where there is none.

        Writes of a graph that still runs do not bring it back; a new root input starts it anew.
        """
        yield from ask(self.sessions.delete, str(thread_id))
        self._cache.forget(self.sessions.app, str(thread_id))

    delete_thread = sync_face(_delete_thread)
    adelete_thread = async_face(_delete_thread)

    # -- copying -------------------------------------------------------------------------------------------

    def _copy_thread(self, source_thread_id: str, target_thread_id: str) -> Flow[None]:
        """Copy a thread with its events, checkpoints and writes to a new id of the same owner.

        Nothing happens where there is none: a thread that no graph ran in yet is empty.

        Raises:
            SessionNotFoundError: The source is somebody else's.
            SessionExistsError: The target is taken.
        """
        log = log_of(self.sessions)
        key = log.key(check_id(str(source_thread_id), "source_thread_id"))
        source = yield from ask(log.store.find_session, key._replace(owner=ANYONE), log.now())
        if source is None:
            return
        if not key.admits(source.user_id):
            raise SessionNotFoundError(key.id)
        draft = adapter_draft(log, str(target_thread_id))
        draft = replace(draft, user_id=source.user_id, title=source.title)
        yield from ask(log.store.fork_session, key, draft, None)

    copy_thread = sync_face(_copy_thread)
    acopy_thread = async_face(_copy_thread)

    # -- walking -------------------------------------------------------------------------------------------

    def _get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Flow[Mapping[str, DeltaChannelHistory]]:
        """What some channels were given on the way to a checkpoint, back to where each was last stored whole."""
        if not channels:
            return {}
        address, namespace = self._place(config)
        query = self._query(address, namespace, cid=checkpoint_id(config))
        needs = Needs(self._cache)
        found, details, _ = yield from ask(self._store.load_lineage, query, channels, _stored_in, needs)
        writes: dict[str, list[list[PendingWrite]]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        for item in found:
            thread, record = self._rebuilder.remember(item, details, needs)
            pending = self._rebuilder.pending(
                thread, details.writes[thread.skey, item.row.ns, item.row.cid], details, needs
            )
            for channel in channels:
                if channel in seeds:
                    continue
                writes[channel].append([write for write in pending if write[1] == channel])
                slot = record.slots.get(channel)
                if slot is not None and slot.kind != EMPTY:
                    seeds[channel] = self._rebuilder.value(thread, slot, details, needs)
        history: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            history[channel] = {"writes": [write for step in reversed(writes[channel]) for write in step]}
            if channel in seeds:
                history[channel]["seed"] = seeds[channel]
        return history

    get_delta_channel_history = sync_face(_get_delta_channel_history)
    aget_delta_channel_history = async_face(_get_delta_channel_history)

    def _head_conflicts(self, thread_id: str) -> Flow[list[HeadConflict]]:
        """Checkpoints that were stored beside the head because two writers raced; empty where there are none.

        A line that the head left on purpose, by a fork of an earlier checkpoint, is none.

        Raises:
            SessionNotFoundError: There is no such thread in reach.
        """
        key = log_of(self.sessions).key(str(thread_id))
        rows = yield from ask(self._store.list_root_checkpoints, key, log_of(self.sessions).now())
        return self._conflicts(key.id, rows)

    head_conflicts = sync_face(_head_conflicts)
    ahead_conflicts = async_face(_head_conflicts)

    def _conflicts(self, session_id: str, rows: Sequence[CheckpointRow]) -> list[HeadConflict]:
        by_id = {row.cid: row for row in rows}
        parents = {row.parent for row in rows}
        came: dict[str | None, str] = {}
        at = rows[-1] if rows else None
        while at is not None and at.parent not in came:
            came[at.parent] = at.cid
            at = by_id.get(at.parent) if at.parent is not None else None
        line = set(came.values())
        found: list[HeadConflict] = []
        for row in rows:
            if row.cid in parents or row.cid in line:
                continue
            first, walked = row, {row.cid}
            while first.parent in by_id and first.parent not in line | walked:
                first = by_id[first.parent]
                walked.add(first.cid)
            rival = came.get(first.parent)
            sources = [decode_metadata(session_id, first, self.serde).get("source")]
            if rival is not None:
                sources.append(decode_metadata(session_id, by_id[rival], self.serde).get("source"))
            if "fork" not in sources:
                found.append(HeadConflict(checkpoint_id=row.cid, parent_id=first.parent))
        return found


def _stored_in(found: FoundCheckpoint, shape: bytes) -> Collection[str]:
    """The channels whose whole value a checkpoint holds."""
    return decode_record(found.session.id, found.row, shape).stored
