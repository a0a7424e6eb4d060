"""The conversation of a delta channel. LangGraph stores what its tasks wrote; the log holds what was said.

Nothing here replaces the channel's reducer: a run gets its writes back as they were. Messages are put into the log's
list as every reducer of messages does: one that the list has under its id takes its place, a `RemoveMessage` takes
one out, an `Overwrite` begins anew. A snapshot, which the reducer made, then stands over it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.base import writes_sort_key
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from langchain_sessions._core.checkpoints import ValueRow, merge_writes
from langchain_sessions._core.ranges import SeqRange, expand_ranges
from langchain_sessions._core.rows import NO_MESSAGE_ID
from langchain_sessions._threads.record import NOTHING, Cutter, Record, Slot, write_row
from langchain_sessions._threads.split import is_event, is_message_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_sessions._core.checkpoints import WriteRow
    from langchain_sessions._core.pieces import Tree
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._threads.cache import ThreadCache

COUNTERS = "counters_since_delta_snapshot"
"""Where the metadata of a checkpoint names the delta channels that it does not hold whole."""


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A write that was stored, or is about to be, with whatever bodies the log does not hold."""

    row: WriteRow
    value: Any
    tree: Tree | None = None
    """Its pieces, where it is large."""


@dataclass(slots=True, eq=False)
class Incoming:
    """A message that the log may not hold yet, as it was when the call began."""

    message: BaseMessage
    row: EventRow
    is_rooted: bool
    seq: int = 0


@dataclass(slots=True)
class OpenSlot:
    """A value whose references have no positions yet."""

    channel: str
    refs: list[int | Incoming]
    data: Slot | None
    base: list[SeqRange] = field(default_factory=list[SeqRange])
    """Runs that go before `refs`."""
    is_said: bool = False
    """It is no value: what a delta channel holds."""


@dataclass(slots=True)
class Given:
    """What one call stores of a task, beside the checkpoint that it ran on."""

    ns: int
    task: str
    path: str
    thread: ThreadCache | None
    parent: Record | None
    cutter: Cutter
    pieces: dict[bytes, ValueRow] = field(default_factory=dict[bytes, ValueRow])
    needs: set[bytes] = field(default_factory=set[bytes])

    def dump(self, channel: str, value: Any, refs: bytes | None) -> tuple[Slot, Tree | None]:
        """A value as it is stored, and its pieces, which it shares with what the channel holds."""
        slot, made = self.cutter.dump(channel, value, lambda: self._before(channel), refs)
        if made is None:
            return slot, None
        self.pieces.update((row.digest, row) for row in made.rows)
        self.needs |= made.needs
        return slot, made.tree

    def row(self, idx: int, channel: str, slot: Slot) -> WriteRow:
        """A value as a pending write."""
        return write_row(self.task, idx, channel, self.path, slot)

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
        if self.thread is not None:
            self.thread.seal = self.cutter.seal
            if self.pieces:
                self.thread.trees.keep((), self.pieces.values())


def given_to(channel: str, writes: Iterable[tuple[str, Any]]) -> list[Any]:
    """The messages, and what is said about messages, that a channel was given, one after the other."""
    return [item for name, value in writes if name == channel for item in _flat(value)]


def _flat(value: Any) -> Iterator[Any]:
    if type(value) is Overwrite:
        yield Overwrite(None)
        yield from _flat(value.value)
    elif type(value) is list:
        yield from (item for item in value if isinstance(item, BaseMessage))
    elif isinstance(value, BaseMessage):
        yield value


def in_order(writes: Sequence[PendingWrite]) -> list[tuple[str, Any]]:
    """What tasks wrote, in the order in which a run applies it."""
    values = {(write.row.task, write.row.idx): write.value for write in reversed(writes)}
    rows = merge_writes(write.row for write in writes)
    rows.sort(key=lambda row: writes_sort_key(row.path, row.task, row.idx))
    return [(row.channel, values[row.task, row.idx]) for row in rows]


def snapshot_of(value: Any) -> list[BaseMessage] | None:
    """The messages of a snapshot; None for anything else."""
    return value.value if type(value) is _DeltaSnapshot and is_message_list(value.value) else None


class Said:
    """A list of messages that is given more, by the positions of the log.

    Attributes:
        base: Runs that go before `more`.
        more: Positions, and messages that have none yet.
    """

    def __init__(self, thread: ThreadCache | None, base: list[SeqRange]) -> None:
        """Go on from a list."""
        self.base = base
        self.more: list[Any] = []
        self._thread = thread

    def take(self, items: Iterable[Any], new: Mapping[int, Any]) -> None:
        """Take what the channel was given.

        Args:
            items: See `given_to`.
            new: Position, or new message, of each message by its `id()`.
        """
        for item in items:
            if type(item) is Overwrite or (isinstance(item, RemoveMessage) and item.id == REMOVE_ALL_MESSAGES):
                self.base, self.more = [], []
                continue
            at = None if item.id is None else self._place_of(str(item.id))
            if isinstance(item, RemoveMessage):
                if at is not None:
                    del self.more[at]
            elif is_event(item):
                if at is None:
                    self.more.append(new[id(item)])
                else:
                    self.more[at] = new[id(item)]

    def _place_of(self, message_id: str) -> int | None:
        """Where in `more` a message stands, which then holds as much of the list as it takes to say so."""
        thread = self._thread
        if self.base and thread is not None and (thread.is_rewound or thread.newest(message_id) is not None):
            self.base, self.more = [], [*expand_ranges(self.base), *self.more]
        return next((at for at, each in enumerate(self.more) if self._name_of(each) == message_id), None)

    def _name_of(self, item: Any) -> str | None:
        row = item.row if self._thread is None or type(item) is not int else self._thread.rows[item]
        return None if row.flags & NO_MESSAGE_ID else row.ident
