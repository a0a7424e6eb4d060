"""Where the units of a query occur, part by part: counted everywhere, looked up where a search comes to look.

A common word occurs in every part of a long log, and of most of them a search wants to know only how often.
"""

from __future__ import annotations

from itertools import compress, count, repeat
from operator import add
from typing import TYPE_CHECKING, Final, cast

from langchain_sessions._recall.index.buckets import MOST_COUNTED, Strewn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

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
            self._known[number] = found[0].lookup() if is_one else _joined(found, hidden) or None
        return self._known[number]

    def _count(self, number: int, part: InvertedEvents, found: Sequence[Occurrences]) -> int:
        """In how many events of a part it occurs."""
        if part.hidden or part.left_out:
            lookup = self.lookup(number) or {}
            count = len(lookup) - (lookup.count(0) if isinstance(lookup, bytes) else 0)
            return count - sum(_within(lookup, slots) for slots in part.left_out)
        return len(found[0]) if len(found) == 1 else _in_any(found)


def _joined(found: Iterable[Occurrences], hidden: Collection[int]) -> Lookup:
    """How often any of some terms occurs at each index where one does, but for some events; empty where nowhere."""
    lookups = [each.lookup() for each in found]
    if not all(isinstance(lookup, bytes) for lookup in lookups):
        return _added(lookups, hidden)
    # The longest first: what few events hold is added one by one.
    first, *others = sorted(lookups, key=lambda lookup: -len(_indexes(lookup)))
    total = bytearray(cast("bytes", first))
    for more in others:
        if isinstance(more, Strewn):
            for index in more.indexes:
                total[index] = min(MOST_COUNTED, total[index] + more[index])
        else:
            total = bytearray(map(min, map(add, total, cast("bytes", more)), repeat(MOST_COUNTED)))
    for index in hidden:
        if index < len(total):
            total[index] = 0
    told = Strewn(total)
    if isinstance(first, Strewn):
        told.indexes = sorted(set[int]().union(*map(_indexes, lookups)).difference(hidden))
    else:
        told.indexes = list(compress(range(len(total)), total))
    return told if told.indexes else b""


def _added(lookups: Iterable[Lookup], hidden: Collection[int]) -> dict[int, int]:
    joined: dict[int, int] = {}
    for lookup in lookups:
        pairs = ((index, lookup[index]) for index in _indexes(lookup)) if isinstance(lookup, bytes) else lookup.items()
        for index, times in pairs:
            if times:
                joined[index] = min(MOST_COUNTED, joined.get(index, 0) + times)
    for index in hidden:
        joined.pop(index, None)
    return joined


def _indexes(lookup: Lookup) -> Collection[int]:
    """Where anything occurs; where it is often, also where nothing does."""
    if isinstance(lookup, Strewn):
        return lookup.indexes
    return range(len(lookup)) if isinstance(lookup, bytes) else lookup


def indexes_of(lookup: Lookup) -> Iterable[int]:
    """Where anything occurs."""
    if isinstance(lookup, Strewn):
        return lookup.indexes
    return compress(count(), lookup) if isinstance(lookup, bytes) else lookup


def _in_any(found: Iterable[Occurrences]) -> int:
    """In how many events any of some terms occurs."""
    few: set[int] = set()
    held, size = 0, 0
    for each in found:
        lookup = each.lookup()
        if isinstance(lookup, bytes) and not isinstance(lookup, Strewn):
            size = len(lookup)
            held |= int.from_bytes(lookup.translate(_IS_HELD), "little")
        else:
            few.update(_indexes(lookup))
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
