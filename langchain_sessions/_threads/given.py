"""The conversation of a delta channel. LangGraph stores what its tasks wrote; the log holds what was said.

Nothing here replaces the channel's reducer: a run gets its writes back as they were. Messages are put into the log's
list as every reducer of messages does: one that the list has under its id takes its place, a `RemoveMessage` takes
one out, an `Overwrite` begins anew. A snapshot, which the reducer made, then stands over it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.base import writes_sort_key
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from langchain_sessions._core.checkpoints import is_internal, merge_writes
from langchain_sessions._core.ranges import SeqRange, decode_ranges, expand_ranges
from langchain_sessions._core.rows import NO_MESSAGE_ID
from langchain_sessions._threads.split import is_event, is_message_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._threads.cache import ThreadCache
    from langchain_sessions._threads.pending import PendingWrite
    from langchain_sessions._threads.record import Record, Slot

COUNTERS = "counters_since_delta_snapshot"
"""Where the metadata of a checkpoint names the delta channels that it does not hold whole."""


@dataclass(slots=True, eq=False)
class Incoming:
    """A message that the log may not hold yet, as it was when the call began."""

    message: BaseMessage
    row: EventRow
    is_rooted: bool
    seq: int = 0


class Recognised(NamedTuple):
    """Where the messages of a list are stored: the runs that it shares with the list before it, then each by itself."""

    shared: list[SeqRange]
    others: list[int | None]
    """None for a message that is not stored."""


@dataclass(slots=True)
class OpenSlot:
    """A value whose references have no positions yet."""

    channel: str
    refs: list[int | Incoming]
    data: Slot | None
    base: list[SeqRange] = field(default_factory=list)
    """Runs that go before `refs`."""
    is_said: bool = False
    """It is no value: what a delta channel holds."""


def given_to(channel: str, writes: Iterable[tuple[str, Any]]) -> list[Any]:
    """The messages, and what is said about messages, that a channel was given, one after the other."""
    return [item for name, value in writes if name == channel for item in _flat(value)]


def deltas_of(
    record: Record, parent: Record | None, values: Mapping[str, Any], written: Sequence[tuple[str, Any]] | None
) -> dict[str, list[Any]]:
    """What delta channels of messages were given: those that changed and have no value here, or a snapshot."""
    was = None if parent is None else parent.delta
    found: dict[str, list[Any]] = {}
    for name, version in zip(record.channels, record.versions, strict=True):
        snapshot = snapshot_of(values.get(name))
        if is_internal(name) or (name in values and snapshot is None):
            continue
        is_changed = parent is None or parent.version_of(name) != version
        items = given_to(name, written or ()) if is_changed else []
        if items or snapshot or name == was:
            found[name] = items
    return found


def said_before(parent: Record | None, channel: str) -> list[SeqRange]:
    """The list that a delta channel held in the checkpoint that another one comes from."""
    if parent is None:
        return []
    slot = parent.slots.get(channel)
    refs = parent.delta_runs if parent.delta == channel else slot and slot.refs
    return decode_ranges(refs) if refs else []


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
        row = item.row if self._thread is None or type(item) is not int else self._thread.row(item)
        return None if row.flags & NO_MESSAGE_ID else row.ident
