"""The large values of a thread that were met lately: the next ones share most of their pieces."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_sessions._core.pieces import Tree
    from langchain_sessions._threads.record import Record, Slot

_TREES = 64
_BYTES = 16_000_000
_PER_NAME = 200


class TreeCache:
    """Large values by name, bounded by their size, and what their pieces were like when they were met."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._trees: OrderedDict[bytes, Tree] = OrderedDict()
        self._marks: dict[bytes, int] = {}
        self.size = 0
        """Roughly how many bytes they take."""

    def get(self, root: bytes | None) -> Tree | None:
        """The value behind a name, where it is known."""
        return None if root is None else self._trees.get(root)

    def pieces(self, roots: Iterable[bytes]) -> frozenset[bytes]:
        """The names of the pieces of those values that are known."""
        return frozenset[bytes]().union(*(tree.held for root in roots if (tree := self._trees.get(root)) is not None))

    def newest(self, records: Iterable[Record], ns: int, channel: str) -> Slot | None:
        """What a channel held in the last of some checkpoints that holds a large value there which is known."""
        # A copy: another call may add to them meanwhile.
        slots = (record.slots.get(channel) for record in reversed([*records]) if record.ns == ns)
        return next((slot for slot in slots if slot is not None and slot.digest in self._trees), None)

    def keep(self, trees: Iterable[Tree], rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Remember values, and their pieces as they are stored."""
        for tree in trees:
            was = self._trees.pop(tree.root, None)
            self.size += _size_of(tree) - (0 if was is None else _size_of(was))
            self._trees[tree.root] = tree
        while len(self._trees) > 1 and (len(self._trees) > _TREES or self.size > _BYTES):
            self.size -= _size_of(self._trees.popitem(last=False)[1])
        if len(self._marks) * _PER_NAME > _BYTES:
            self._marks.clear()
        self._marks.update((name, hash(row)) for name, row in rows)

    def stored(self, root: bytes, find: Callable[[bytes], bytes | None]) -> Tree | None:
        """The value behind a name, if its pieces are stored as they were when it was met."""
        tree = self._trees.get(root)
        if tree is None:
            return None
        names, marks = tree.held, self._marks
        # Compared with what is stored now, so that a damaged piece is noticed although the value is in memory.
        is_sound = [*map(hash, map(find, names))] == [*map(marks.get, names)]
        return tree if is_sound else None


def _size_of(tree: Tree) -> int:
    return len(tree.data) + len(tree.names) * _PER_NAME
