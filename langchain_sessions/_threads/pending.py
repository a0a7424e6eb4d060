"""What a task wrote, as it lies in a row: until a checkpoint takes it over, and beside it for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.checkpoints import CUT, WriteRow
from langchain_sessions._core.piece_rows import NAME
from langchain_sessions._threads.record import Slot

if TYPE_CHECKING:
    from langchain_sessions._core.pieces import Tree
    from langchain_sessions._threads.record import Given


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


def slot_of(row: WriteRow) -> Slot:
    """The slot of a pending write: one that was cut begins with the name of its pieces."""
    if row.kind & CUT and row.data is not None:
        return Slot(row.kind, row.refs, row.data[NAME:] or None, row.data[:NAME])
    return Slot(row.kind, row.refs, row.data)
