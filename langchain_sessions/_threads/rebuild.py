"""From rows back to LangGraph's form.

Only what decodes stored bytes says that they cannot be read; an error of any other kind is a mistake, and looks it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key

from langchain_sessions._chat.address import config_again, config_of, short_digest, whole_time, whole_versions
from langchain_sessions._core.checkpoints import (
    CUT,
    SLICED,
    CheckpointRow,
    corrupt_checkpoint,
    lengthened,
    opened,
    rewound,
)
from langchain_sessions._core.edge import UNREADABLE, from_micros
from langchain_sessions._core.packed_names import unpacked_names
from langchain_sessions._core.piece_rows import Seal, sliced
from langchain_sessions._core.pieces import Tree, assemble
from langchain_sessions._core.ranges import SeqSet, decode_ranges, expand_ranges
from langchain_sessions._core.rows import YEARS
from langchain_sessions._threads.forms import PLAIN_TAG
from langchain_sessions._threads.pending import slot_of
from langchain_sessions._threads.record import (
    EMPTY,
    NULL,
    OLDEST,
    PLAIN,
    RUNS,
    SPELLED_OUT,
    SPLIT,
    WITH_NAMES,
    Record,
    Slot,
)
from langchain_sessions._threads.split import join, whole_skeleton
from langchain_sessions._threads.turned import TURNED, turned_back
from langchain_sessions.errors import CorruptRowError, InvalidInputError, SealedEventError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_sessions._core.ranges import SeqRange
    from langchain_sessions._threads.cache import CacheReader, ThreadCache
    from langchain_sessions._threads.forms import ValueForms
    from langchain_sessions.stores._threads import CheckpointDetails, FoundCheckpoint

_NO_TIME = "no time of a checkpoint"
HOLD_NAMES = (SPELLED_OUT, WITH_NAMES)


class Rebuilder:
    """Rebuilds the checkpoints of a page from their rows and from the messages that they name.

    Its methods raise `CorruptRowError` where a row cannot be read, and `SealedEventError` where it was written with
    an encrypting serializer that this saver does not have.
    """

    def __init__(self, forms: ValueForms, details: CheckpointDetails, reader: CacheReader) -> None:
        """Read values with a serializer, out of what was read."""
        self._forms = forms
        self._details = details
        self._reader = reader
        self._rows: dict[int, dict[bytes, bytes]] = {}
        self._told: dict[bytes, Tree] = {}
        """The values that tell the writes of one checkpoint: each is read once for all of them."""

    def remember(self, found: FoundCheckpoint) -> tuple[ThreadCache, Record]:
        """Take a checkpoint and its messages into the cache."""
        session = found.session
        thread = self._reader.threads[session.skey]
        thread.add(self._details.events.get(session.skey, ()))
        thread.is_rewound = bool(rewound(session))
        shape = self._details.shapes[session.skey, found.row.shape]
        record = decode_record(session.id, found.row, shape)
        thread.keep(record)
        digest, names = record.shape
        thread.shapes[digest] = names
        return thread, record

    def remember_trees(self, found: FoundCheckpoint) -> ThreadCache:
        """Take a checkpoint into the cache with its large values: another one is about to come from it."""
        thread, record = self.remember(found)
        if thread.lacks(found.row.mentioned).ranges:
            raise _corrupt(found)
        for channel, slot in record.slots.items():
            if slot.kind & CUT:
                # Where it cannot be read nothing is shared with it; whoever reads the value says what is wrong.
                with suppress(CorruptRowError):
                    self._data(found, thread, channel, slot)
        return thread

    def tuple_of(
        self, found: FoundCheckpoint, config: RunnableConfig | None, said: Mapping[str, Any] | None
    ) -> CheckpointTuple:
        """The checkpoint as LangGraph knows it, under the config that asked for it, and what it `said` of who asks."""
        _, record = self.remember(found)
        session, row = found.session, found.row
        values = {name: self.value(found, name, slot) for name, slot in record.slots.items() if slot.kind != EMPTY}
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
            checkpoint.update(self._deserialized(found, record.rest.kind, record.rest.data or b""))
        ns = found.ns_name
        return CheckpointTuple(
            config_again(session, config, said) if config is not None else config_of(session, ns, row.cid, said),
            checkpoint,
            self._deserialized(found, record.metadata.kind, record.metadata.data or b""),
            config_of(session, ns, row.parent, said) if row.parent is not None else None,
            self.pending(found),
        )

    def pending(self, found: FoundCheckpoint, channels: Collection[str] | None = None) -> list[PendingWrite]:
        """Pending writes, those of some channels or all, in the order in which a run applies them."""
        writes = self._details.writes.get((found.session.skey, found.row.ns, found.row.cid), [])
        writes = writes if channels is None else [row for row in writes if row.channel in channels]
        self._told = {}
        ordered = sorted(writes, key=lambda row: writes_sort_key(row.path, row.task, row.idx))
        return [(row.task, row.channel, self.value(found, row.channel, slot_of(row))) for row in ordered]

    def value(self, found: FoundCheckpoint, channel: str, slot: Slot) -> Any:
        """The value of a channel's slot."""
        if slot.kind == NULL:
            return None
        thread = self._reader.threads[found.session.skey]
        try:
            runs = decode_ranges(slot.refs) if slot.refs else []
        except UNREADABLE as error:
            raise _corrupt(found) from error
        if slot.kind == RUNS:
            return self._messages(found, thread, runs)
        loaded = self._deserialized(found, slot.kind, self._data(found, thread, channel, slot))
        if not slot.kind & SPLIT:
            return loaded
        seqs = expand_ranges(runs)
        messages = self._messages(found, thread, runs)
        try:
            return join(loaded, messages, lambda at: thread.row(seqs[at]).text or "")
        except UNREADABLE as error:  # marks that name nothing
            raise _corrupt(found) from error

    def _data(self, found: FoundCheckpoint, thread: ThreadCache, channel: str, slot: Slot) -> bytes:
        """What a slot holds, wherever it lies."""
        values, root = self._details.values, slot.digest
        if root is None:
            if slot.data is None:
                raise _corrupt(found)
            return slot.data
        if slot.kind & CUT:
            return self._in_pieces(found, thread, channel, slot)
        data = values.get((thread.skey, root))
        if data is None:
            raise _corrupt_channel(found.session.id, found.row.cid, channel)
        return data

    def _in_pieces(self, found: FoundCheckpoint, thread: ThreadCache, channel: str, slot: Slot) -> bytes:
        root, is_slice = slot.digest or b"", slot.kind & SLICED
        tree = self._told.get(root) if is_slice else None
        tree = tree or self._tree(found, thread, channel, root, None if is_slice else slot.data)
        if is_slice:
            self._told[root] = tree
        try:
            if is_slice:
                return sliced(tree.data, slot.data or b"")
            return turned_back(tree.data) if slot.kind & TURNED else tree.data
        except UNREADABLE as error:
            raise _corrupt_channel(found.session.id, found.row.cid, channel) from error

    def _tree(
        self, found: FoundCheckpoint, thread: ThreadCache, channel: str, root: bytes, sealed_key: bytes | None
    ) -> Tree:
        """A value that lies in pieces."""
        rows = self._rows.setdefault(thread.skey, {})
        if not rows:
            values = self._details.values
            # Once for each session of a page: its values are looked up by digest alone from here on.
            rows.update({name: row for (skey, name), row in values.items() if skey == thread.skey})
        tree = thread.trees.stored(root, rows.get)
        if tree is None:
            try:
                seal = None if sealed_key is None else self._seal(thread, sealed_key)
                tree = assemble(root, rows.get, seal)
            except Exception as error:  # a cipher may raise anything over what it did not write
                raise _corrupt_channel(found.session.id, found.row.cid, channel) from error
            thread.trees.keep((tree,), ((name, rows[name]) for name in tree.held))
        return tree

    def _seal(self, thread: ThreadCache, sealed_key: bytes) -> Seal:
        cipher = self._forms.cipher
        if cipher is None:
            problem = "sealed with a serializer that this saver does not have"
            raise ValueError(problem)
        if thread.seal is None or thread.seal.sealed_key != sealed_key:
            thread.seal = Seal.opened(cipher, sealed_key)
        return thread.seal

    def _messages(self, found: FoundCheckpoint, thread: ThreadCache, runs: list[SeqRange]) -> list[BaseMessage]:
        try:
            return self._reader.serve(thread, runs)
        except LookupError as error:
            if not thread.lacks(SeqSet.of(expand_ranges(runs))):
                raise  # every position is there: a mistake of ours
            raise _corrupt(found) from error

    def _deserialized(self, found: FoundCheckpoint, kind: int, data: bytes) -> Any:
        try:
            return load_slot(kind, data, self._forms.plain if kind & CUT else self._forms)
        except (SealedEventError, InvalidInputError):
            raise
        except Exception as error:  # a serializer may raise anything over what it did not write
            raise _corrupt(found) from error


def _corrupt(found: FoundCheckpoint) -> CorruptRowError:
    return corrupt_checkpoint(found.session.id, found.row.cid)


# -- rows --------------------------------------------------------------------------------------------------


def decode_metadata(session_id: str, row: CheckpointRow, forms: ValueForms) -> Any:
    """The metadata of a row, without the rest of it.

    Raises:
        CorruptRowError: The row cannot be read.
    """
    try:
        slot = _unpack_slot(_body(row)[6], None)
        return load_slot(slot.kind, slot.data or b"", forms)
    except Exception as error:  # a serializer may raise anything
        raise corrupt_checkpoint(session_id, row.cid) from error


def decode_record(session_id: str, row: CheckpointRow, shape: bytes) -> Record:
    """Read what `encode_record` wrote.

    Raises:
        CorruptRowError: The row cannot be read, or was written by a newer release.
    """
    try:
        form, v, ts, versions, seen_versions, packed, metadata, rest, *delta = _body(row)
        if form in HOLD_NAMES:
            shape = unpacked_names(delta.pop(0))
        if type(ts) is not str and (type(ts) is not int or ts not in YEARS):
            raise ValueError(_NO_TIME)
        channels, seen, updated = ormsgpack.unpackb(shape)
        versions, seen_versions = versions[: len(channels)], seen_versions or versions[len(channels) :]
        left = iter(seen_versions)
        record = Record(
            ns=row.ns,
            cid=row.cid,
            parent=row.parent,
            run_id=row.run_id,
            v=v,
            ts="",
            channels=tuple(channels),
            versions=tuple(versions),
            seen=tuple((node, tuple((channel, next(left)) for channel in names)) for node, names in seen),
            updated=updated if updated in (None, False) else tuple(updated),
            rest=None if rest is None else _unpack_slot(rest, None),
            metadata=_unpack_slot(metadata, None),
            shape=(row.shape, shape),
            slots={
                name: _unpack_slot(slot, row.runs) for name, slot in zip(channels, packed, strict=True) if slot != EMPTY
            },
            delta=channels[delta[0]] if delta else None,
            delta_runs=row.runs or b"" if delta else b"",
            keeps_names=form in HOLD_NAMES,
        )
    except UNREADABLE as error:
        raise corrupt_checkpoint(session_id, row.cid) from error
    # Nothing stored is taken apart here: what fails from here on is a mistake.
    record.ts = ts if isinstance(ts, str) else from_micros(ts).isoformat()
    if record.keeps_names:
        record.shape = short_digest(shape) or 1, shape
    return record


def _body(row: CheckpointRow) -> list[Any]:
    body: list[Any] = ormsgpack.unpackb(opened(row.body))
    if not OLDEST <= body[0] <= WITH_NAMES:
        problem = f"written in format {body[0]}"
        raise ValueError(problem)
    if body[0] > SPELLED_OUT:
        body[2:4] = whole_time(body[2], row.cid), whole_versions(body[3]), ()
    return body


def _unpack_slot(packed: Any, runs: bytes | None) -> Slot:
    if type(packed) is int:
        return Slot(RUNS, runs or b"") if packed == RUNS else Slot(packed)
    if type(packed) is bytes:
        return Slot(PLAIN, None, lengthened(packed))
    slot = Slot(*packed)
    return slot._replace(data=whole_skeleton(slot.data)) if slot.kind == SPLIT | PLAIN and slot.data else slot


def load_slot(kind: int, data: bytes, forms: ValueForms) -> Any:
    """The value, or skeleton, of a slot that has data."""
    if kind & ~(SPLIT | CUT | TURNED | SLICED) == PLAIN:
        return forms.serde.loads_typed((PLAIN_TAG, data))
    tag, _, rest = data.partition(b"\0")
    return forms.loads_typed((tag.decode(), rest))


def _corrupt_channel(session_id: str, cid: str, channel: str) -> CorruptRowError:
    """The error for a checkpoint of which a channel's value cannot be read."""
    return CorruptRowError(
        f"The value of channel {channel!r} in checkpoint {cid!r} of thread {session_id!r} is missing or altered in "
        "part; the checkpoints that do not share that part can be read."
    )
