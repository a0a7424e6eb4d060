"""What a task wrote, as it is stored: until a checkpoint takes it over, and beside it for good."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.checkpoints import WriteRow
from langchain_sessions._core.piece_rows import LONGEST
from langchain_sessions._threads.record import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.checkpoints import ValueRow
    from langchain_sessions._core.pieces import Tree
    from langchain_sessions._threads.cache import ThreadCache
    from langchain_sessions._threads.record import Cutter, Record, Slot

# The constructor of a named tuple takes twice as long.
_tuple = tuple.__new__


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


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A write that was stored, or is about to be, with whatever bodies the log does not hold."""

    row: WriteRow
    value: Any
    tree: Tree | None = None
    """Its pieces, where it is large."""
    given: Given | None = None
    """What stores these."""

    @property
    def stored_tree(self) -> Tree | None:
        """Its pieces, where they are stored: else they never are, once a value tells it (`told`)."""
        return self.tree if self.given is not None and self.given.is_stored else None
