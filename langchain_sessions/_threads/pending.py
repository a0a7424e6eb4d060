"""What a task wrote, as it lies in a row: until a checkpoint takes it over, and beside it for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langchain_sessions._core.checkpoints import CUT, WriteRow
from langchain_sessions._core.piece_rows import NAME
from langchain_sessions._threads.record import Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.pieces import Tree
    from langchain_sessions._threads.record import Given

MOST_STEPS: Final = 256
_MOST_BYTES, LARGE = 64_000_000, 64_000
"""What steps hold together that no checkpoint followed; whose writes are smaller each are not asked for their bytes."""


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


Written: TypeAlias = "tuple[Sequence[PendingWrite], bool, int]"
"""What tasks wrote on one checkpoint, whether that is all, and about how many bytes it takes."""
NOTHING_WRITTEN: Final[Written] = (), False, 0


def leave_out(steps: dict[tuple[str, str, str], Written], newest: tuple[str, str, str]) -> bool:
    """Forget the oldest steps where they are too many, or hold too much; the newest stays. Whether some were."""
    # A list, since a step may be taken away meanwhile; several at once, since it is as long as all of it.
    places, total = list(steps), 0
    fewer = MOST_STEPS // 16 if len(places) > MOST_STEPS else 0
    left: list[tuple[str, str, str]] = []
    for at in range(len(places) - 1, -1, -1):
        total += steps.get(places[at], NOTHING_WRITTEN)[2]
        if at < fewer or (total > _MOST_BYTES and places[at] != newest):
            left.append(places[at])
    for place in left:
        steps.pop(place, None)
    return bool(left)


def slot_of(row: WriteRow) -> Slot:
    """The slot of a pending write: one that was cut begins with the name of its pieces."""
    if row.kind & CUT and row.data is not None:
        return Slot(row.kind, row.refs, row.data[NAME:] or None, row.data[:NAME])
    return Slot(row.kind, row.refs, row.data)
