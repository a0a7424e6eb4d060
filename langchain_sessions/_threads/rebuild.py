"""From rows back to LangGraph's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key

from langchain_sessions._core.checkpoints import corrupt_checkpoint
from langchain_sessions._core.ranges import decode_runs, expand_runs
from langchain_sessions._threads.record import (
    EMPTY,
    NULL,
    RUNS,
    SPLIT,
    Record,
    Slot,
    decode_record,
    load_slot,
)
from langchain_sessions._threads.split import join
from langchain_sessions.errors import SealedEventError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langchain_sessions._core.checkpoints import WriteRow
    from langchain_sessions._core.rows import SessionRow
    from langchain_sessions._threads.cache import Needs, ThreadCache
    from langchain_sessions.stores.threads import CheckpointDetails, FoundCheckpoint


class Rebuilder:
    """Rebuilds checkpoints from rows and from the messages that they name."""

    def __init__(self, serde: SerializerProtocol) -> None:
        """Read values with a serializer."""
        self._serde = serde

    @staticmethod
    def remember(found: FoundCheckpoint, details: CheckpointDetails, needs: Needs) -> tuple[ThreadCache, Record]:
        """Take a checkpoint and its messages into the cache."""
        session = found.session
        thread = needs.threads[session.skey]
        thread.add(details.events.get(session.skey, ()))
        shape = details.shapes[session.skey, found.row.shape]
        record = decode_record(session.id, found.row, shape)
        thread.keep(record)
        thread.shapes[found.row.shape] = shape
        return thread, record

    def tuple_of(
        self, found: FoundCheckpoint, details: CheckpointDetails, needs: Needs, config: RunnableConfig | None
    ) -> CheckpointTuple:
        """The checkpoint as LangGraph knows it.

        Raises:
            CorruptRowError: It cannot be read.
            SealedEventError: It was written with an encrypting serializer that this saver does not have.
        """
        row, session = found.row, found.session
        try:
            return self._tuple(found, details, needs, config)
        except SealedEventError:
            raise
        except Exception as error:
            raise corrupt_checkpoint(session.id, row.cid) from error

    def _tuple(
        self,
        found: FoundCheckpoint,
        details: CheckpointDetails,
        needs: Needs,
        config: RunnableConfig | None,
    ) -> CheckpointTuple:
        thread, record = self.remember(found, details, needs)
        session, row = found.session, found.row
        values = {
            name: self.value(thread, slot, details, needs) for name, slot in record.slots.items() if slot.kind != EMPTY
        }
        versions = zip(record.channels, record.versions, strict=True)
        checkpoint: Any = {
            "v": record.v,
            "ts": record.ts,
            "id": record.cid,
            "channel_values": values,
            "channel_versions": {name: version for name, version in versions if version is not None},
            "versions_seen": {node: dict(seen) for node, seen in record.seen},
        }
        if record.updated is not False:
            checkpoint["updated_channels"] = None if record.updated is None else list(record.updated)
        if record.rest is not None:
            checkpoint.update(load_slot(record.rest.kind, record.rest.data or b"", self._serde))
        ns = found.ns_name
        return CheckpointTuple(
            config if config is not None else config_of(session, ns, row.cid),
            checkpoint,
            load_slot(record.metadata.kind, record.metadata.data or b"", self._serde),
            config_of(session, ns, row.parent) if row.parent is not None else None,
            self.pending(thread, details.writes.get((session.skey, row.ns, row.cid), []), details, needs),
        )

    def pending(
        self, thread: ThreadCache, writes: list[WriteRow], details: CheckpointDetails, needs: Needs
    ) -> list[PendingWrite]:
        """Pending writes in the order in which a run applies them."""
        ordered = sorted(writes, key=lambda row: writes_sort_key(row.path, row.task, row.idx))
        return [
            (row.task, row.channel, self.value(thread, Slot(row.kind, row.refs, row.data), details, needs))
            for row in ordered
        ]

    def value(self, thread: ThreadCache, slot: Slot, details: CheckpointDetails, needs: Needs) -> Any:
        """The value of a slot."""
        if slot.kind == NULL:
            return None
        runs = decode_runs(slot.refs) if slot.refs else []
        if slot.kind == RUNS:
            return needs.serve(thread, runs)
        data = slot.data
        if data is None:
            data = details.values[thread.skey, slot.digest or b""]
        loaded = load_slot(slot.kind, data, self._serde)
        if not slot.kind & SPLIT:
            return loaded
        seqs = expand_runs(runs)
        return join(loaded, needs.serve(thread, runs), lambda at: thread.rows[seqs[at]].text or "")


def config_of(session: SessionRow, ns: str, cid: str) -> RunnableConfig:
    """The config of a checkpoint. It names the owner, so that going on from an old state needs nothing else."""
    configurable = {"thread_id": session.id, "checkpoint_ns": ns, "checkpoint_id": cid}
    if session.user_id is not None:
        configurable["user_id"] = session.user_id
    return {"configurable": configurable}
