"""From LangGraph's checkpoint to a plan: what is known is referred to, what is new will be appended.

Nothing here does I/O. `PlannedCheckpoint.take` runs before anything is locked; `decide` assigns positions, is called
by the store, and may be called again from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langchain_sessions._chat.address import branch_of, channel_branch
from langchain_sessions._core import rows as r
from langchain_sessions._core.checkpoints import (
    CUT,
    ROOT,
    CheckpointRow,
    ValueRow,
    WriteRow,
    blanked_at,
    is_in_sight,
    is_internal,
    merge_writes,
    rewound,
)
from langchain_sessions._core.codec.any_message import same_message
from langchain_sessions._core.ledger import Edit
from langchain_sessions._core.ranges import (
    NO_SEQS,
    SeqSet,
    decode_ranges,
    encode_ranges,
    fold_ranges,
    joined_ranges,
    pack_ranges,
)
from langchain_sessions._core.rows import EventRow, SessionRow, numbered
from langchain_sessions._threads.given import (
    Incoming,
    OpenSlot,
    Recognised,
    Said,
    deltas_of,
    said_before,
    snapshot_of,
)
from langchain_sessions._threads.record import NOTHING, RUNS, SCALARS, Cutter, Record, Slot, dump_slot, encode_record
from langchain_sessions._threads.split import (
    MIN_TEXT,
    apart,
    clone_message,
    is_event,
    is_message_list,
    plain_bytes,
    split,
)
from langchain_sessions._threads.told import told_by_values
from langchain_sessions.errors import StalePlanError
from langchain_sessions.events import NewEvent
from langchain_sessions.stores._threads import PutDecision

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.pieces import Tree
    from langchain_sessions._threads.cache import ThreadCache
    from langchain_sessions._threads.pending import PendingWrite

    Values = Mapping[str, Any]

START = "__start__"
_tuple = tuple.__new__


_NONE: Any = ()
"""In the place of a collection until the first value is met that is more than a number."""
_NO_NAMES: frozenset[bytes] = frozenset()


@dataclass(eq=False)
class PlannedCheckpoint:
    """A checkpoint that waits for its positions. What only some have is made where it is met."""

    record: Record
    namespace: str
    encoder: EventEncoder
    cutter: Cutter
    thread: ThreadCache | None
    parent: Record | None
    pending: Sequence[PendingWrite]
    parent_start: Any
    now: int
    open_slots: list[OpenSlot] = field(default=_NONE, init=False)
    incoming: list[Incoming] = field(default=_NONE, init=False)
    adopted: list[tuple[PendingWrite, WriteRow]] = field(default=_NONE, init=False)
    related: Sequence[EventRow] = field(default=(), init=False)  # what is stored of its messages
    revised: Collection[str] = field(default=(), init=False)  # those that have several revisions
    parent_slot: Slot | None = field(default=None, init=False)
    """What takes the place of the graph's input in the parent, once it is committed."""
    since: dict[str, int] | None = field(default=None, init=False)
    """Behind which positions revisions of its messages are not known."""
    pieces: dict[bytes, ValueRow] = field(default=_NONE, init=False)
    """What large values consist of that is not stored yet."""
    trees: list[Tree] = field(default=_NONE, init=False)
    """The large values."""
    needs: set[bytes] = field(default=_NONE, init=False)
    """Values whose pieces are taken over."""
    conversation: Sequence[BaseMessage] = field(default=(), init=False)  # the main list
    idents: tuple[str, ...] = field(default=(), init=False)  # to look up
    is_named: bool = field(default=True, init=False)  # whether all that is new has an id
    _by_id: dict[str, BaseMessage] | None = field(default=None, init=False)

    def known_since(self) -> dict[str, int]:
        """Behind which positions their revisions are not known."""
        if self.thread is None or not self.incoming:
            return {}
        found = ((ident, self.thread.known_since(ident)) for ident in self.idents)
        return {ident: seq for ident, seq in found if seq is not None}

    @property
    def known_to(self) -> int:
        """How far the log is known; 0 where that tells nothing, since one without an id is stored by another name."""
        thread = self.thread
        if thread is None or not self.incoming or not self.is_named:
            return 0
        return thread.known_to if thread.unnamed.isdisjoint(self.idents) else 0

    # -- taking in -----------------------------------------------------------------------------------------

    def take(
        self, values: Mapping[str, Any], new_versions: Mapping[str, Any], written: Sequence[tuple[str, Any]] | None
    ) -> None:
        """Take in the values of the channels.

        Args:
            values: The values.
            new_versions: The channels that changed.
            written: What the parent's tasks wrote, in order; None without delta channels.
        """
        parent, record = self.parent, self.record
        has_deltas = written is not None or (parent is not None and parent.delta is not None)
        has_deltas = has_deltas or _DeltaSnapshot in map(type, values.values())
        deltas = deltas_of(record, parent, values, written) if has_deltas else {}
        before = dict(zip(parent.channels, parent.versions, strict=True)) if parent is not None else {}
        slots = parent.slots if parent is not None else {}
        own = record.slots
        inherited: dict[str, Slot] = {}
        new: dict[str, Any] = {}
        for name, version in zip(record.channels, record.versions, strict=True):
            if version is not None and before.get(name) == version and name not in new_versions:
                # It is what the parent has of a channel that did not change.
                inherited[name] = slot = slots.get(name, NOTHING)
                if name in slots:
                    own[name] = slot
            elif name in values:
                value = values[name]
                if type(value) in SCALARS and name not in deltas:
                    own[name] = self.cutter.scalar(name, value)
                else:
                    new[name] = value
        if new or deltas:
            self._take_in(values, new, deltas, inherited)
            self.idents = tuple(dict.fromkeys([item.row.ident for item in self.incoming]))

    def _take_in(self, values: Values, new: Values, deltas: Values, inherited: Mapping[str, Slot]) -> None:
        self.open_slots, self.incoming, self.trees, self.pieces, self.needs = [], [], [], {}, set()
        known = {
            name: found
            for name, value in new.items()
            if type(value) is list and (found := self._recognise(name, value)) is not None
        }
        lists = [*known, *[name for name, slot in inherited.items() if slot.kind == RUNS and not is_internal(name)]]
        lists += [name for name in deltas if name not in lists]
        main = "messages" if "messages" in lists else lists[0] if len(lists) == 1 else None
        if main in lists and type(values.get(main)) is list:
            self.conversation = values[main]
        # The conversation first: the log's order is the order of its list.
        for channel in sorted({**new, **deltas}, key=lambda name: name != main):
            branch = branch_of(self.namespace)
            if channel != main:
                branch = channel_branch(branch, channel)
            if channel in deltas:
                self._take_said(channel, values.get(channel), deltas[channel], branch, is_main=channel == main)
            elif channel in known and (channel == main or not self._rewords_any(new[channel], known[channel])):
                self._take_list(channel, new[channel], known[channel], branch, is_main=channel == main)
            else:
                self._take_value(channel, new[channel], branch)

    def _take_said(self, channel: str, value: Any, items: list[Any], branch: str | None, *, is_main: bool) -> None:
        """Take what a delta channel was given, and its snapshot."""
        is_rooted = is_main and self.record.ns == ROOT
        said = Said(self.thread, said_before(self.parent, channel))
        snapshot = snapshot_of(value)
        places: dict[int, int | Incoming] = {}
        for message in filter(is_event, items if snapshot is None else snapshot):
            seq = self.thread.position(message) if self.thread is not None else None
            if seq is None and id(message) not in places:
                places[id(message)] = self._new(message, branch, is_rooted=is_rooted)
            elif seq is not None:
                places[id(message)] = seq
        if snapshot is None:
            said.take(items, places)
        else:
            said = Said(None, [])
            said.more = [places[id(message)] for message in snapshot]
            parts = split(value, lambda item: type(item) is not str)
            data = self._dump(channel, value if parts is None else parts.skeleton, None if parts is None else b"")
            if parts is None:
                self.record.slots[channel] = data
            else:
                self.open_slots.append(OpenSlot(channel, said.more, data))
        if is_main:
            self.record.delta = channel
            self.open_slots.append(OpenSlot(channel, said.more, None, said.base, is_said=True))

    def _take_list(
        self, channel: str, messages: list[BaseMessage], known: Recognised, branch: str | None, *, is_main: bool
    ) -> None:
        is_rooted = is_main and self.record.ns == ROOT
        found: list[int | Incoming] = [
            self._new(message, branch, is_rooted=is_rooted) if seq is None else seq
            for message, seq in zip(messages[len(messages) - len(known.others) :], known.others, strict=True)
        ]
        self.record.slots[channel] = Slot(RUNS, b"")
        self.open_slots.append(OpenSlot(channel, found, None, known.shared))

    def _take_value(self, channel: str, value: Any, branch: str | None) -> None:
        resolved: dict[int, int | Incoming] = {}
        left_in = False

        def wanted(item: Any) -> bool:
            nonlocal left_in
            if type(item) is str:
                return False
            if id(item) in resolved:
                return True
            seq = self.thread.position(item) if self.thread is not None else None
            if seq is None and (is_internal(channel) or item.id is None or self._rewords(item)):
                left_in = True
                return False
            resolved[id(item)] = self._new(item, branch, is_rooted=False) if seq is None else seq
            return True

        packed = plain_bytes(value)
        parts = split(value, wanted) if packed is None else None
        if parts is not None:
            taken: list[int | Incoming] = [resolved[id(item)] for item in parts.references]
            self.open_slots.append(OpenSlot(channel, taken, self._dump(channel, parts.skeleton, b"")))
        elif channel == START and left_in:
            # The next checkpoint takes these messages over, and shortens what is stored here.
            self.record.slots[channel] = dump_slot(value, self.cutter.forms, channel, holds_messages=True)
        else:
            self.record.slots[channel] = self._dump(channel, value, packed=packed)

    def _rewords(self, message: BaseMessage) -> bool:
        """Whether the conversation has a message in other words: what a hook cut for the model stays in its channel."""
        if self._by_id is None:
            self._by_id = {one.id: one for one in self.conversation if one.id is not None}
        said = self._by_id.get(message.id or "")
        return said is not None and not same_message(said, message)

    def _rewords_any(self, messages: list[BaseMessage], known: Recognised) -> bool:
        others = messages[len(messages) - len(known.others) :]
        return any(seq is None and self._rewords(message) for message, seq in zip(others, known.others, strict=True))

    def _dump(self, channel: str, value: Any, refs: bytes | None = None, packed: bytes | None = None) -> Slot:
        """A value as it is stored; a large one shares pieces with what the channel held and was given."""
        slot, made = self.cutter.dump(channel, value, lambda: self._before(channel), refs, packed)
        if made is not None:
            self.trees.append(made.tree)
            self.pieces.update((row.digest, row) for row in made.rows)
            self.needs |= made.needs
        return slot

    def _before(self, channel: str) -> tuple[Slot, Sequence[Tree]]:
        if self.parent is None or self.thread is None:
            return NOTHING, ()
        before = self.parent.slots.get(channel, NOTHING)
        roots = (before.digest, self.parent.slots.get(START, NOTHING).digest)
        bases = [tree for root in roots if root and (tree := self.thread.trees.get(root)) is not None]
        bases += [tree for each in self.pending if each.row.channel == channel and (tree := each.stored_tree)]
        return before, bases

    def _recognise(self, channel: str, value: list[Any]) -> Recognised | None:
        """Where the messages of a list are stored; None for one of anything else."""
        if is_internal(channel):
            return None
        if self.thread is None:
            return Recognised([], [None] * len(value)) if is_message_list(value) else None
        slot = NOTHING if self.parent is None else self.parent.slots.get(channel, NOTHING)
        return self.thread.recognise(value, decode_ranges(slot.refs) if slot.kind == RUNS and slot.refs else [])

    def _new(self, message: BaseMessage, branch: str | None, *, is_rooted: bool) -> Incoming:
        # The graph goes on and may change the message, or give it an id, while this waits to be written.
        clone = clone_message(message)
        row = self.encoder.row(NewEvent(message=clone, branch=branch), self.now)
        if row.flags & r.NO_MESSAGE_ID:
            # The same for a call that is repeated, so that it finds what it stored; no other message gets it.
            row = row._replace(ident=f"{self.record.cid[:200]}/{self.record.ns}/{len(self.incoming)}")
            self.is_named = False
        if is_rooted:
            row = row._replace(flags=row.flags | r.ROOTED)
        item = Incoming(clone, row, is_rooted)
        self.incoming.append(item)
        return item

    # -- deciding ------------------------------------------------------------------------------------------

    def decide(self, session: SessionRow, related: Sequence[EventRow], staged: Sequence[WriteRow]) -> PutDecision:
        """Assign positions, and encode what depends on them. May be run again from the start.

        Args:
            session: The session.
            related: Stored revisions of the new messages.
            staged: Writes of the parent that wait to be stored for good.

        Raises:
            StalePlanError: What is known is of a session that is gone, or of before texts were overwritten or rewound.
        """
        hidden, thread = rewound(session), self.thread
        is_of_another = thread is not None and (thread.skey != session.skey or thread.as_of != blanked_at(session))
        # An earlier revision than those that were asked for may be the one in force.
        if is_of_another or (self.since and hidden.ranges):
            raise StalePlanError
        fresh: tuple[EventRow, ...] = ()
        edits: tuple[Edit, ...] = ()
        writes: Sequence[WriteRow] = ()
        rooted, parent, unneeded = NO_SEQS, None, _NO_NAMES
        if self.open_slots or self.incoming:
            fresh, edits, rooted = self._placed(session, related, hidden)
        encoded, values = encode_record(self.record)
        if hidden.ranges and thread is not None and self._repeats_rewound(session, encoded):
            raise StalePlanError
        if self.incoming:
            parent = self._adopt()
        if staged:
            writes, unneeded = self._stored(staged)
        stored = (*values, *self.pieces.values()) if self.pieces else tuple(values)
        needs = tuple(sorted(self.needs)) if self.needs else ()
        return _tuple(PutDecision, (encoded, fresh, edits, rooted, stored, needs, tuple(writes), parent, unneeded))

    def _placed(
        self, session: SessionRow, related: Sequence[EventRow], hidden: SeqSet
    ) -> tuple[tuple[EventRow, ...], tuple[Edit, ...], SeqSet]:
        """The new events, which of them replace another, and which of those stored the root list takes over."""
        known: dict[str, list[EventRow]] = {}
        for row in related:
            known.setdefault(row.ident, []).append(row)
        fresh: list[EventRow] = []
        edits: list[Edit] = []
        taken_over: set[int] = set()
        for item in self.incoming:
            rows = known.setdefault(item.row.ident, [])
            standing = [row for row in rows if row.seq not in hidden]
            # From the newest: going back to an earlier wording is no new revision, its event is there.
            found = next((row for row in reversed(standing) if self.encoder.codec.same(row, item.row)), None)
            if found is None:
                seq = session.last_seq + len(fresh) + 1
                found = numbered(item.row, seq, rows, standing[-1] if standing else None, is_rooted=True)
                if standing:
                    edits.append(Edit(seq, standing[-1].seq, found.place, 1))
                fresh.append(found)
                rows.append(found)
            elif item.is_rooted and not found.flags & r.ROOTED:
                taken_over.add(found.seq)
            item.seq = found.seq
        self.related = [row for row in related if row.seq not in hidden]
        self.revised = {ident for ident, rows in known.items() if len(rows) > 1}
        if taken_over:
            fresh = [row._replace(flags=row.flags | r.ROOTED) if row.seq in taken_over else row for row in fresh]
        self._fill_slots()
        rooted = SeqSet.of(taken_over) | self._newly_rooted()
        if rooted.ranges and fresh:
            rooted = rooted - SeqSet.of(row.seq for row in fresh)
        return tuple(fresh), tuple(edits), rooted

    def _repeats_rewound(self, session: SessionRow, row: CheckpointRow) -> bool:
        """Whether it says again what was rewound, which is said anew. What goes on from there is taken back with it."""
        is_from_sight = self.parent is None or is_in_sight(session, encode_record(self.parent)[0])
        return is_from_sight and not is_in_sight(session, row)

    def _fill_slots(self) -> None:
        for opened in self.open_slots:
            seqs = [item.seq if isinstance(item, Incoming) else item for item in opened.refs]
            refs = pack_ranges(joined_ranges(opened.base, list(fold_ranges(seqs))))
            if opened.is_said:
                self.record.delta_runs = refs
                continue
            slot = Slot(RUNS, refs) if opened.data is None else opened.data._replace(refs=refs)
            self.record.slots[opened.channel] = slot

    def _newly_rooted(self) -> SeqSet:
        """Events that the root list holds for the first time, though the log has them: a subgraph's, a chain's."""
        main = self.record.delta or self.record.main
        if self.record.ns != ROOT or main is None or self.thread is None:
            return NO_SEQS
        row = self.thread.row
        seqs = [item for slot in self.open_slots if slot.channel == main for item in slot.refs if type(item) is int]
        return SeqSet.of([seq for seq in seqs if not row(seq).flags & r.ROOTED]) if seqs else NO_SEQS

    def _adopt(self) -> CheckpointRow | None:
        """Rewrite what the parent holds inline, now that the log has it."""
        self.adopted = []
        by_ident: dict[str, list[Incoming]] = {}
        texts: dict[str, int] = {}
        for item in self.incoming:
            by_ident.setdefault(item.row.ident, []).append(item)
            if item.row.text is not None and len(item.row.text) >= MIN_TEXT:
                texts[item.row.text] = item.seq
        for write in self.pending:
            if write.row.kind & CUT:
                continue
            slot = self._refer(write.value, by_ident, texts)
            if slot is not None:
                self.adopted.append((write, write.row._replace(kind=slot.kind, refs=slot.refs, data=slot.data)))
        self.parent_slot = None
        if self.parent is None or START not in self.parent.slots or self.parent_start is None:
            return None
        self.parent_slot = self._refer(self.parent_start, by_ident, texts)
        if self.parent_slot is None:
            return None
        return encode_record(self.parent, self.parent_slot)[0]

    def _stored(self, staged: Sequence[WriteRow]) -> tuple[Sequence[WriteRow], frozenset[bytes]]:
        """Writes without bodies, and pieces that these do not need. Those that another process staged keep bodies."""
        rows = merge_writes(staged)
        if self.adopted:
            rewritten = {write.row: row for write, row in self.adopted}
            rows = [rewritten.get(row, row) for row in rows]
        return told_by_values(rows, self.pending, self.record.slots, self.trees) if self.trees else (rows, _NO_NAMES)

    def _refer(self, value: Any, by_ident: Mapping[str, Sequence[Incoming]], texts: Mapping[str, int]) -> Slot | None:
        if type(value) in SCALARS:
            return None

        def position(item: BaseMessage) -> int | None:
            # By id and by value: a reducer may have stored another wording than the one that was written.
            seq = next((one.seq for one in by_ident.get(str(item.id), ()) if same_message(one.message, item)), None)
            return seq if seq is not None or self.thread is None else self.thread.position(item)

        found = apart(value, position, texts)
        if found.seqs is None:
            return None
        refs = encode_ranges(found.seqs)
        return Slot(RUNS, refs) if found.is_list else dump_slot(found.skeleton, self.cutter.forms, "messages", refs)
