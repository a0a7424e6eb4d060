"""Checkpoints as rows: names are shared as a shape, values lie in slots, messages are positions in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import ormsgpack

from langchain_sessions._chat.address import brief_time, brief_versions, short_digest
from langchain_sessions._core.checkpoints import (
    CUT,
    NAMES_WITHIN,
    CheckpointRow,
    ValueRow,
    WriteRow,
    seq_set,
    shortened,
    squeezed,
)
from langchain_sessions._core.edge import check_id, from_micros, to_micros, uuid_bytes
from langchain_sessions._core.packed_names import MOST_NAMES, packed_names
from langchain_sessions._core.piece_rows import LONGEST, Seal, value_digest
from langchain_sessions._core.pieces import LIMIT, Cut, Tree, cut
from langchain_sessions._core.ranges import NO_SEQS, encode_ranges
from langchain_sessions._threads.forms import PLAIN_TAG, STRICT, WITH_TAGS, RefusedValueError, UnstorableError
from langchain_sessions._threads.split import brief_skeleton, may_be_private, without_private_calls
from langchain_sessions._threads.turned import TURNED, turned
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_sessions._threads.cache import ThreadCache
    from langchain_sessions._threads.forms import ValueForms

    Values = Mapping[str, Any]

# A body that says another number was written by a later release, and is refused rather than guessed at.
# Of 1 to 3, versions and times are spelled out; 3 and 5 hold their names.
OLDEST, SPELLED_OUT, FORMAT, WITH_NAMES = 1, 3, 4, 5
INLINE_LIMIT = 96
"""Larger values are stored once beside the checkpoints that hold them."""
EMPTY, RUNS, NULL, PLAIN, TAGGED = 0, 1, 2, 3, 4
# The constructor of a named tuple takes twice as long.
_tuple = tuple.__new__
SPLIT = 8
"""Added to PLAIN or TAGGED: the value has marks, and `refs` says for which events.

So is `CUT`: `digest` names the pieces of the value, and `data` is the sealed key of their names, if any; with it
`TURNED`, and of writes `SLICED`, which have no such key.
"""
_STANDARD = frozenset({"v", "ts", "id", "channel_values", "channel_versions", "versions_seen", "updated_channels"})


class Slot(NamedTuple):
    """A stored value: `refs` are the events it mentions as ordered runs, `digest` says where large data lies."""

    kind: int
    refs: bytes | None = None
    data: bytes | None = None
    digest: bytes | None = None


NOTHING = Slot(EMPTY)
SCALARS = frozenset({int, float, bool, type(None)})
"""What holds no message and is never large: counters, flags, the triggers of nodes."""


def dump_slot(
    value: Any,
    forms: ValueForms,
    name: str,
    refs: bytes | None = None,
    packed: bytes | None = None,
    *,
    holds_messages: bool = False,
) -> Slot:
    """A value, or a skeleton with its references, in bytes, without what a call keeps private.

    Args:
        value: The value of a channel.
        forms: What gives it back equal.
        name: The channel.
        refs: The events that a skeleton mentions.
        packed: What `plain_bytes` made of it.
        holds_messages: Messages stand in it, so that `plain_bytes` made nothing of it.

    Raises:
        InvalidInputError: It would not come back equal.
    """
    try:
        is_packed = packed is not None and forms.is_plain
        tag, data = (PLAIN_TAG, packed or b"") if is_packed else _in_bytes(value, forms, holds_messages=holds_messages)
        if may_be_private(tag, data) and (kept := without_private_calls(value)) is not value:
            tag, data = _in_bytes(kept, forms)
    except UnstorableError as error:
        raise RefusedValueError(name, error.problem) from None
    if tag == "null":
        return Slot(NULL)
    kind = PLAIN
    if tag != PLAIN_TAG:
        kind, data = TAGGED, tag.encode() + b"\0" + data
    return Slot(kind + SPLIT if refs is not None else kind, refs, data)


def _in_bytes(value: Any, forms: ValueForms, *, holds_messages: bool = False) -> tuple[str, bytes]:
    if not forms.is_plain or type(value) in WITH_TAGS:
        return forms.dumps_typed(value)
    if holds_messages:
        return forms.dumps_marked(value, holds_messages=True)
    try:
        # Nearly every value is plain, and what is plain needs no form.
        return PLAIN_TAG, ormsgpack.packb(value, option=STRICT)
    except (TypeError, ValueError, RecursionError):
        return forms.dumps_marked(value)


Follows = Callable[[], tuple[Slot, Sequence[Tree]]]
"""The slot that a value follows, and what is stored that it may share pieces with, that slot's value among them."""


class Cutter:
    """Serializes values, and cuts large ones into pieces.

    Attributes:
        seal: How pieces are kept secret, once one was made or met; None with a serializer that does not encrypt.
    """

    def __init__(self, forms: ValueForms, seal: Seal | None) -> None:
        """Go on with the seal that the thread has, if any."""
        self.forms = forms
        self.seal = seal

    def scalar(self, channel: str, value: Any) -> Slot:
        """One of `SCALARS`."""
        if self.forms.is_plain:
            if value is None:
                return Slot(NULL)
            try:
                return _tuple(Slot, (PLAIN, None, ormsgpack.packb(value), None))
            except TypeError:  # more than 64 bits
                pass
        return self.dump(channel, value, lambda: (NOTHING, ()))[0]

    def dump(  # noqa: PLR0917 - what is known of a value
        self,
        channel: str,
        value: Any,
        follows: Follows,
        refs: bytes | None = None,
        packed: bytes | None = None,
        whole: int = LIMIT,
    ) -> tuple[Slot, Cut | None]:
        """A value, or a skeleton with its references, and its pieces where it was cut; see `dump_slot`.

        Args:
            channel: The channel.
            value: The value.
            follows: Asked where it is large.
            refs: The references.
            packed: What `plain_bytes` made of it.
            whole: Up to which length it is not cut where there is nothing that it may share pieces with.
        """
        # Cut first and encrypted piece by piece: the bytes of a value that was encrypted whole are never alike.
        cipher = self.forms.cipher
        slot = dump_slot(value, self.forms.plain, channel, refs, packed)
        data = slot.data
        if data is None or (cipher is None and _is_sealed(slot)):
            return slot, None
        if len(data) > LIMIT:
            before, bases = follows()
            if not bases and len(data) <= whole and cipher is None:
                return slot, None
            if cipher is not None and self.seal is None:
                self.seal = Seal.new(cipher)
            header = None if self.seal is None else self.seal.sealed_key
            base = next((base for base in bases if base.root == before.digest and before.data == header), None)
            kind = slot.kind | CUT
            around = turned(data, 0 if slot.kind & ~SPLIT == PLAIN else data.index(0) + 1)
            if around is not None:
                kind, data = kind | TURNED, around
            made = cut(data, base, [other for other in bases if other is not base], self.seal)
            return Slot(kind, refs, header, made.tree.root), made
        if cipher is not None:
            tag, data = (PLAIN_TAG.encode(), data) if slot.kind & ~SPLIT == PLAIN else _untagged(data)
            name, sealed = cipher.encrypt(data)
            kind = TAGGED | (slot.kind & SPLIT)
            slot = Slot(kind, refs, tag + b"+" + name.encode() + b"\0" + sealed)
        return slot, None


def _is_sealed(slot: Slot) -> bool:
    """Whether it came from a serializer that says with its tag that it encrypts: no two of them are alike."""
    return slot.kind & ~SPLIT == TAGGED and b"+" in _untagged(slot.data or b"")[0]


def _untagged(data: bytes) -> tuple[bytes, bytes]:
    tag, _, rest = data.partition(b"\0")
    return tag, rest


@dataclass(slots=True)
class Record:
    """A checkpoint between LangGraph's form and its row."""

    ns: int
    cid: str
    parent: str | None
    run_id: str | None
    v: int
    ts: str
    channels: tuple[str, ...]
    versions: tuple[Any, ...]
    seen: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
    updated: tuple[str, ...] | Literal[False] | None
    """None as LangGraph has it; False where the checkpoint does not say."""
    rest: Slot | None
    metadata: Slot
    shape: tuple[int, bytes]
    """The names in it, which others share, behind their digest."""
    slots: dict[str, Slot] = field(default_factory=dict)
    delta: str | None = None
    """The delta channel whose list is the conversation, though it is not stored here as a value."""
    delta_runs: bytes = b""
    """That list, as the log has it."""
    keeps_names: bool = False
    """Its row holds the names of its shape: no other checkpoint of the thread is known that has them."""

    @property
    def main(self) -> str | None:
        """The channel whose stored list is the conversation: `messages`, else the only list of messages."""
        if self.delta is not None:
            return None
        lists = [name for name, slot in self.slots.items() if slot.kind == RUNS]
        if not lists or "messages" in lists:
            return "messages" if lists else None
        lists = [name for name in lists if not name.startswith("__")]
        return lists[0] if len(lists) == 1 else None

    @property
    def stored(self) -> set[str]:
        """The channels whose whole value it holds."""
        return {channel for channel, slot in self.slots.items() if slot.kind != EMPTY}

    def version_of(self, channel: str) -> Any:
        """The version of a channel; None where it has none, or is not there."""
        return self.versions[self.channels.index(channel)] if channel in self.channels else None


def checked_id(name: Any, field: str) -> str:
    """`check_id` of what most often is a UUID, which is looked at once for all that ask for its bytes."""
    return name if type(name) is str and uuid_bytes(name) is not None else check_id(name, field)


def record_of(  # noqa: PLR0917 - what a checkpoint says, and what is known
    ns: int, checkpoint: Values, parent: str | None, metadata: Any, forms: ValueForms, shapes: Collection[int]
) -> Record:
    """What of a checkpoint does not need the log.

    It keeps its names where it has none of the `shapes` that are known of its thread: one of one turn stores no others.

    Raises:
        InvalidInputError: An id or a version cannot be stored.
    """
    is_usual = checkpoint.keys() <= _STANDARD
    rest = {} if is_usual else {key: value for key, value in checkpoint.items() if key not in _STANDARD}
    # Older releases of LangGraph do not write it, and None means something else.
    told = checkpoint.get("updated_channels", False)
    updated = told if told is None or told is False else tuple(told)
    versions: Mapping[str, Any] = checkpoint["channel_versions"]
    # A checkpoint made by hand may hold values of channels without a version; the graph's own never does.
    if not versions.keys() >= checkpoint["channel_values"].keys():
        versions = {**versions, **{name: None for name in checkpoint["channel_values"] if name not in versions}}
    seen = tuple([(node, tuple(seen.items())) for node, seen in checkpoint["versions_seen"].items()])
    run_id = metadata.get("run_id")
    cid = checked_id(checkpoint["id"], "checkpoint_id")
    came_from = None if parent is None else checked_id(parent, "checkpoint_id")
    run = check_id(str(run_id), "run_id") if run_id else None
    more = dump_slot(rest, forms, "checkpoint") if rest else None
    told_by = dump_slot(metadata, forms, "metadata")
    # Hundreds of checkpoints of a thread differ in no name, so these are stored once and named by their digest.
    triggers = [(node, [*names]) for node, names in checkpoint["versions_seen"].items()]
    digest, names = shape = _named(ormsgpack.packb([[*versions], triggers, updated]))
    held = tuple(versions), tuple(versions.values()), seen, updated, more, told_by, shape
    record = Record(ns, cid, came_from, run, checkpoint["v"], checkpoint["ts"], *held)
    record.keeps_names = digest not in shapes and len(names) <= MOST_NAMES
    return record


@lru_cache(256)
def _named(names: bytes) -> tuple[int, bytes]:
    """Names behind their digest."""
    return short_digest(names) or 1, names


@dataclass(slots=True)
class Given:
    """What one call stores of a task, beside the checkpoint that it ran on."""

    ns: int
    task: str
    path: str
    thread: ThreadCache | None
    parent: Record | None
    cutter: Cutter
    pieces: dict[bytes, ValueRow] = field(default_factory=dict)
    needs: set[bytes] = field(default_factory=set)
    is_stored: bool = False

    def dump(self, channel: str, value: Any, refs: bytes | None, packed: bytes | None) -> tuple[Slot, Tree | None]:
        """A value as it is stored, and its pieces, which it shares with what the channel holds."""
        # The checkpoint that takes it over cuts it with all that others gave the channel.
        slot, made = self.cutter.dump(channel, value, lambda: self._before(channel), refs, packed, LONGEST)
        if made is None:
            return slot, None
        self.pieces.update((row.digest, row) for row in made.rows)
        self.needs |= made.needs
        return slot, made.tree

    def row(self, idx: int, channel: str, slot: Slot) -> WriteRow:
        """A value as a pending write; see `slot_of`."""
        kind, refs, data, digest = slot
        if digest is not None:
            data = digest + (data or b"")
        return _tuple(WriteRow, (self.task, idx, channel, self.path, kind, refs, data))

    def _before(self, channel: str) -> tuple[Slot, Sequence[Tree]]:
        before = self.parent.slots.get(channel, NOTHING) if self.parent is not None else NOTHING
        if self.parent is None and self.thread is not None and self.thread.trees.size:
            # Most often it is on its way: what the channel held before it is stored, and most of it is the same.
            before = self.thread.trees.newest(self.thread.records.values(), self.ns, channel) or NOTHING
        is_known = self.thread is not None and before.digest is not None
        base = self.thread.trees.get(before.digest) if is_known and self.thread is not None else None
        return before, () if base is None else (base,)

    def learn(self, result: object) -> None:
        """Remember how pieces of this thread are kept secret, and what was stored."""
        del result
        self.is_stored = True
        if self.thread is not None:
            self.thread.seal = self.cutter.seal
            if self.pieces:
                self.thread.trees.keep((), self.pieces.values())
        # A write may wait for days: neither what is known of its thread nor rows that are stored are held by it.
        self.thread = self.parent = None
        self.pieces, self.needs = {}, set()


def encode_record(record: Record, start: Slot | None = None) -> tuple[CheckpointRow, list[ValueRow]]:
    """The row of a record, and the values to store beside it; `start` takes the place of the graph's input, if given.

    Raises:
        InvalidInputError: A version cannot be stored.
    """
    main, slots = record.main, record.slots if start is None else {**record.slots, "__start__": start}
    values: list[ValueRow] = []
    outside: list[bytes] = []
    others = NO_SEQS
    packed: list[Any] = []
    for channel in record.channels:
        kind, refs, data, _ = slot = slots.get(channel, NOTHING)
        if kind == PLAIN and data is not None and len(data) <= INLINE_LIMIT and refs is None:
            packed.append(data)  # most values are small, and mention nothing
            continue
        if kind in (EMPTY, NULL):
            packed.append(kind)
            continue
        if data is not None and _is_large(channel, slot):
            values.append(ValueRow(value_digest(data), data))
            slot = slot._replace(data=None, digest=values[-1].digest)
        if slot.digest is not None:
            outside.append(slot.digest)
        if refs is not None and channel != main:
            others = others | seq_set(refs)
        packed.append(_pack_slot(slot, is_main=channel == main))
    metadata = _pack_slot(record.metadata, is_main=False)
    versions = [*record.versions]
    for _, names in record.seen:
        versions += [version for _, version in names]
    body = [
        WITH_NAMES if record.keeps_names else FORMAT,
        record.v,
        brief_time(_pack_time(record.ts), record.cid),
        brief_versions(versions),
        packed,
        shortened(metadata) if type(metadata) is bytes else metadata,
        None if record.rest is None else _pack_slot(record.rest, is_main=False),
    ]
    if record.keeps_names:
        body.append(packed_names(record.shape[1]))
    runs = None if main is None else record.slots[main].refs or b""
    if record.delta is not None:
        body.append(record.channels.index(record.delta))
        runs = record.delta_runs
    data = squeezed(_packed(body))
    shape = NAMES_WITHIN if record.keeps_names else record.shape[0]
    at = (record.ns, record.cid, record.parent, record.run_id, shape, runs)
    mentioned = encode_ranges(others) if others.ranges else None
    return _tuple(CheckpointRow, (*at, mentioned, b"".join(outside) or None, data)), values


def _packed(body: list[Any]) -> bytes:
    try:
        return ormsgpack.packb(body)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("channel_versions", "hold something that is neither a number nor a string") from error


def _is_large(channel: str, slot: Slot) -> bool:
    """Whether the value lies beside the row. The graph's input does not: the next checkpoint shortens it."""
    return slot.data is not None and len(slot.data) > INLINE_LIMIT and channel != "__start__" and not slot.kind & CUT


def lighten(record: Record) -> None:
    """Let go of values that are stored now; later checkpoints name them by digest."""
    for channel, slot in record.slots.items():
        # Asked of the length first: most are small.
        if slot.data is not None and len(slot.data) > INLINE_LIMIT and _is_large(channel, slot):
            record.slots[channel] = slot._replace(data=None, digest=value_digest(slot.data))


def _pack_slot(slot: Slot, *, is_main: bool) -> Any:
    if is_main:
        # Its runs are a column of the row, where the head is found without reading bodies.
        return RUNS
    if slot.kind in (EMPTY, NULL):
        return slot.kind
    if slot.kind == PLAIN and slot.data is not None:
        return slot.data
    if slot.kind == SPLIT | PLAIN and slot.data is not None:
        slot = slot._replace(data=brief_skeleton(slot.data))
    return list(slot) if slot.digest is not None else list(slot[:3])


def _pack_time(ts: str) -> int | str:
    """An ISO time as microseconds where it reads back the same."""
    try:
        moment = datetime.fromisoformat(ts)
        micros = to_micros(moment)
    except (TypeError, ValueError):
        return ts
    # As LangGraph writes it: no other text of that form is this moment, but for midnight as 24 o'clock.
    if ts[4:20:3] == "--T::." and ts[26:] == "+00:00" and ts[11:13] != "24":
        return micros
    # Hand-made checkpoints have times in any form, and must come back with the same text.
    return micros if from_micros(micros).isoformat() == ts else ts
