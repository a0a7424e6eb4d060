"""Where the units of a query occur, part by part: counted everywhere, looked up where a search comes to look.

A common word occurs in every part of a long log, and of most of them a search wants to know only how often.
"""

from __future__ import annotations

from itertools import compress, repeat
from operator import add
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.buckets import MOST_COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._recall.index.inverted import Group, InvertedEvents, Occurrences
    from langchain_sessions._recall.rank.zone import Lookup

_IS_HELD: Final = bytes([0, *[1] * MOST_COUNTED])


class Postings:
    """Where any term of one unit of a query occurs.

    Args:
        parts: What is searched.
        group: The terms; one that ends in `*` stands for all that begin so.

    Attributes:
        occurring: What was found of each term, by the number of the part, ascending; parts without any are left out.
        frequency: In how many events it occurs in all.
    """

    __slots__ = ("_known", "_parts", "frequency", "occurring")

    def __init__(self, parts: Sequence[InvertedEvents], group: Group) -> None:
        self._parts = parts
        self._known: dict[int, Lookup | None] = {}
        self.occurring: dict[int, Sequence[Occurrences]] = {}
        self.frequency = 0
        begins = any(term.endswith("*") for term in group)
        for number, part in enumerate(parts):
            terms = _expand(group, part) if begins else group
            found = [each for term in terms if (each := part.find(term)) is not None]
            if found:
                self.occurring[number] = found
                self.frequency += self._count(number, part, found)

    def lookup(self, number: int) -> Lookup | None:
        """How often it occurs at which index of a part; None where nowhere."""
        found = self.occurring.get(number)
        if found is None:
            return None
        if number not in self._known:
            hidden = self._parts[number].hidden
            is_one = len(found) == 1 and not hidden
            self._known[number] = found[0].lookup() if is_one else _without(_joined(found), hidden) or None
        return self._known[number]

    def _count(self, number: int, part: InvertedEvents, found: Sequence[Occurrences]) -> int:
        """In how many events of a part it occurs."""
        if part.hidden or part.left_out:
            lookup = self.lookup(number) or {}
            count = len(lookup) - (lookup.count(0) if isinstance(lookup, bytes) else 0)
            return count - sum(_within(lookup, slots) for slots in part.left_out)
        return len(found[0]) if len(found) == 1 else _in_any(found)


def _joined(found: Iterable[Occurrences]) -> dict[int, int]:
    """How often any of some terms occurs at each index where one does."""
    lookups = [each.lookup() for each in found]
    joined: dict[int, int] = {}
    many = [lookup for lookup in lookups if isinstance(lookup, bytes)]
    if many:
        total = many[0]
        for more in many[1:]:
            total = bytes(map(min, map(add, total, more), repeat(MOST_COUNTED)))
        joined = dict(zip(compress(range(len(total)), total), total.replace(b"\0", b""), strict=True))
    for lookup in lookups:
        if not isinstance(lookup, bytes):
            for index, count in lookup.items():
                joined[index] = min(MOST_COUNTED, joined.get(index, 0) + count)
    return joined


def _without(joined: dict[int, int], hidden: Iterable[int]) -> dict[int, int]:
    for index in hidden:
        joined.pop(index, None)
    return joined


def _in_any(found: Iterable[Occurrences]) -> int:
    """In how many events any of some terms occurs."""
    few: set[int] = set()
    held, size = 0, 0
    for each in found:
        lookup = each.lookup()
        if isinstance(lookup, bytes):
            size = len(lookup)
            held |= int.from_bytes(lookup.translate(_IS_HELD), "little")
        else:
            few.update(lookup)
    many = held.to_bytes(size, "little")
    return size - many.count(0) + (bytes(map(many.__getitem__, few)).count(0) if size else len(few))


def _within(lookup: Lookup, slots: range) -> int:
    """In how many of some events a unit occurs."""
    if isinstance(lookup, bytes):
        return len(slots) - lookup.count(0, slots.start, slots.stop)
    return sum(1 for slot in slots if slot in lookup)


def _expand(group: Group, part: InvertedEvents) -> Iterable[str]:
    """Find the terms that a group stands for here; one that ends in `*` stands for all that begin so."""
    known = dict.fromkeys(term for term in group if not term.endswith("*"))
    for term in group:
        if term.endswith("*"):
            known.update(dict.fromkeys(part.expand(term[:-1])))
    return known
