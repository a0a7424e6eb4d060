"""Histories of appends to lists and reads of them, checked for anomalies as Jepsen's Elle checks them.

Each list is a session, each element the id of a message, so a read says which appends it saw and in which order. From
that follow who wrote before whom, who read whom and who missed whom; with what had ended before something else began
they must have no cycle, or no order of one thing after another explains them.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Operation:
    """One call.

    Attributes:
        began: When it was called.
        ended: When it returned; None where it failed, so that nobody knows whether it happened.
        name: The list.
        added: What an append added.
        seen: What a read saw.
    """

    began: float
    ended: float | None
    name: str
    added: str | None = None
    seen: tuple[str, ...] = ()


@dataclass
class History:
    """What several threads did, in the order in which they ended."""

    operations: list[Operation] = field(default_factory=list[Operation])
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, operation: Operation) -> None:
        """Note an operation."""
        with self._guard:
            self.operations.append(operation)

    @staticmethod
    def now() -> float:
        """The time that operations are told in."""
        return time.monotonic()


def anomalies(operations: list[Operation]) -> list[str]:
    """What no order of the operations explains; the last read of each list has to come after all else."""
    found: list[str] = []
    names = sorted({operation.name for operation in operations})
    for name in names:
        mine = [operation for operation in operations if operation.name == name]
        found += [f"{name}: {problem}" for problem in _of_list(mine)]
    return found


def _of_list(operations: list[Operation]) -> list[str]:
    reads = [operation for operation in operations if operation.added is None and operation.ended is not None]
    longest = max((read.seen for read in reads), key=len, default=())
    found: list[str] = []
    if len({*longest}) < len(longest):
        found.append("an element is there twice")
    found += ["reads disagree about the order" for read in reads if read.seen != longest[: len(read.seen)]]
    added = {operation.added: operation for operation in operations if operation.added is not None}
    found += [f"{element} was read and nobody added it" for element in longest if element not in added]
    lost = [each for each, operation in added.items() if operation.ended is not None and each not in longest]
    found += [f"{element} was acknowledged and is lost" for element in lost]
    return found or _cycle(operations, reads, longest, added)


def _cycle(
    operations: list[Operation], reads: list[Operation], order: tuple[str, ...], added: dict[str, Operation]
) -> list[str]:
    """The order of what happened as edges: each operation after those that it depends on."""
    happened = [each for each in operations if each.ended is not None or each.added in order]
    number = {id(each): at for at, each in enumerate(happened)}
    after: dict[int, set[int]] = {at: set() for at in number.values()}
    for first, second in pairwise(order):  # wrote after
        after[number[id(added[second])]].add(number[id(added[first])])
    for read in reads:
        if read.seen:  # read what was written
            after[number[id(read)]].add(number[id(added[read.seen[-1]])])
        if len(read.seen) < len(order):  # read before it was written over
            after[number[id(added[order[len(read.seen)]])]].add(number[id(read)])
    for each in happened:  # had ended before it began
        after[number[id(each)]].update(
            number[id(other)] for other in happened if other.ended is not None and other.ended < each.began
        )
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        return [f"a cycle of {len(error.args[1]) - 1} operations"]
    return []
