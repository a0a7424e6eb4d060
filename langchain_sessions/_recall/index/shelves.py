"""An owner's copy of the indexes of many logs: shelves, on which logs lie end to end as if they were one.

To read a thousand small indexes costs as many times what reading one costs. A shelf is laid out like a chunk; its
events lie in slots. Between two logs some slots stay empty, so that no event is the neighbour of another log's.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._core.once import kept
from langchain_sessions._recall.index.chunks import OpenChunk, PackedEvents
from langchain_sessions._recall.index.columns import from_bytes, to_bytes
from langchain_sessions._recall.index.ranking_traits import LONGEST, ChunkTraits, EventTraits, human_talk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from langchain_sessions._recall.index.postings import Entry

GAP: Final = 4
"""Slots between two logs, at least: as far as neighbours reach."""

MOST_SLOTS: Final = 8192
"""Slots of a shelf, about. With one of its logs a shelf goes, and the others are put on another."""

MOST_PASSAGES: Final = 32_768
MOST_TERMS: Final = 800_000
"""Passages and terms of a shelf, about."""

LONGEST_LOG: Final = 1024
"""Events of a log that is put on a shelf: a longer one pays for being read by itself."""

_EMPTY: Final = bytes([0, *[255] * 255])


class ShelvedLog(NamedTuple):
    """A log on a shelf.

    Attributes:
        skey: The key of its session.
        id: The id of its session.
        last_seq: Up to where it is there.
        first: Its first slot.
        slots: How many it has.
        passages: How many passages.
        terms: How many terms.
        is_unsure: Where its events stand has to be asked of the log itself.
    """

    skey: int
    id: str
    last_seq: int
    first: int
    slots: int
    passages: int
    terms: int
    is_unsure: bool


class ShelfTraits:
    """What is known of a shelf besides its terms.

    Args:
        logs: Its logs, by slot.
        names: Who speaks on it.
        traits: What is known of each slot.
    """

    def __init__(self, logs: Sequence[ShelvedLog], names: Iterable[str], traits: ChunkTraits) -> None:
        self.logs = logs
        self.names = frozenset(names)
        self.traits = traits
        self.firsts = [log.first for log in logs]
        self.sizes = [log.slots for log in logs]
        self.by_key = {log.skey: log for log in logs}
        self.events = sum(log.slots for log in logs)
        self.filled = sum(log.slots > 0 for log in logs)
        self.passages = sum(log.passages for log in logs)
        self.terms = sum(log.terms for log in logs)

    @kept
    def is_taken(self) -> bytes:
        """A byte for each slot: 255 where there is an event."""
        return bytes(self.traits.kinds).translate(_EMPTY)

    @kept
    def spoken(self) -> Mapping[str, frozenset[int]]:
        """By author: the first slots of the logs in which they speak."""
        numbers, found = self.traits.voices, dict[int, list[int]]()
        for log in self.logs:
            for number in {*numbers[log.first : log.first + log.slots]}:
                found.setdefault(number, []).append(log.first)
        names = self.traits.authors
        return {name: frozenset(firsts) for number, firsts in found.items() if (name := names[number])}

    def log_at(self, slot: int) -> ShelvedLog:
        """The log that a slot belongs to."""
        return self.logs[max(0, bisect_right(self.firsts, slot) - 1)]

    def pack(self) -> bytes:
        """As bytes: a line of JSON, then columns."""
        packed = self.traits.pack()
        head = [len(self.logs), [log.id for log in self.logs], sorted(self.names)]
        columns = ("Q", "skey"), ("Q", "last_seq"), ("I", "first"), ("I", "slots"), ("I", "passages"), ("Q", "terms")
        written = [to_bytes(array(code, (getattr(log, name) for log in self.logs))) for code, name in columns]
        unsure = bytes(log.is_unsure for log in self.logs)
        return b"".join((json.dumps(head, separators=(",", ":")).encode("ascii"), b"\n", *written, unsure, packed))

    @classmethod
    def unpack(cls, data: bytes) -> ShelfTraits:
        """Read what `pack` wrote; some drivers return it as a view."""
        data = bytes(data)
        start = data.index(b"\n") + 1
        size, ids, names = json.loads(data[:start])
        columns: list[Sequence[int]] = []
        for code, wide in (("Q", 8), ("Q", 8), ("I", 4), ("I", 4), ("I", 4), ("Q", 8)):
            columns.append(from_bytes(code, data[start : start + wide * size]))
            start += wide * size
        unsure = map(bool, data[start : start + size])
        skeys, upto, *others = columns
        logs = [ShelvedLog(*each) for each in zip(skeys, ids, upto, *others, unsure, strict=True)]
        return cls(logs, names, ChunkTraits.unpack(data[start + size :]))


class ShelfEvents(PackedEvents):
    """A stored shelf as ranking reads it.

    Args:
        shelf: What is known of it.
        buckets: Buckets of the terms that are asked for, by name.
        apart: Keys of sessions whose logs are not to be searched here.
    """

    __slots__ = ("_left_out", "shelf")

    def __init__(self, shelf: ShelfTraits, buckets: Mapping[str, bytes], apart: Collection[int]) -> None:
        super().__init__(shelf.traits, shelf.terms, buckets)
        self.shelf = shelf
        self._left_out = [shelf.by_key[skey] for skey in apart if skey in shelf.by_key]
        self.said = shelf.events - sum(log.slots for log in self._left_out)
        self.passages = shelf.passages - sum(log.passages for log in self._left_out)
        self.size -= sum(log.terms for log in self._left_out)
        self.taken = shelf.is_taken
        # Labels were told from other beginnings of texts log by log.
        self.speakers, self.labels = shelf.names.intersection(shelf.spoken), {}
        self.logs = shelf.firsts, shelf.sizes
        self.filled = shelf.filled
        if self._left_out:
            self._leave_out(shelf)

    def _leave_out(self, shelf: ShelfTraits) -> None:
        """Take the logs that are searched elsewhere out of what is known of all."""
        self.taken = bytearray(shelf.is_taken)
        events, terms = shelf.traits.human_talk
        for log in self._left_out:
            place = slice(log.first, log.first + log.slots)
            self.taken[place] = bytes(log.slots)
            fewer = human_talk(shelf.traits.lengths[place], shelf.traits.flags[place])
            events, terms = events - fewer[0], terms - fewer[1]
        self.human_talk = events, terms
        gone = {log.first for log in self._left_out}
        # Who speaks in no other log here does so where that is searched, unless it was taken back.
        self.speakers = {name for name in self.speakers if not gone.issuperset(shelf.spoken[name])}
        kept = [log for log in shelf.logs if log not in self._left_out]
        self.logs = [log.first for log in kept], [log.slots for log in kept]
        self.filled -= sum([log.slots > 0 for log in self._left_out])

    def spoken(self, authors: frozenset[str]) -> Collection[int]:
        """Where the logs begin in which any of some authors speaks."""
        told = self.shelf.spoken
        found = frozenset[int]().union(*[told[author] for author in authors.intersection(told)])
        return found.difference([log.first for log in self._left_out]) if self._left_out else found

    @property
    def left_out(self) -> Sequence[range]:
        """The slots of logs that are searched elsewhere."""
        return [range(log.first, log.first + log.slots) for log in self._left_out]


class OpenShelf:
    """A shelf that is being filled."""

    def __init__(self) -> None:
        self.chunk = OpenChunk()
        self.logs: list[ShelvedLog] = []
        self.names: set[str] = set()
        self.terms = 0

    @property
    def slots(self) -> int:
        """How many slots are filled or left empty between."""
        return len(self.chunk.traits)

    def begin(self) -> int:
        """Leave slots empty before the next log; its first slot, an even one: ranking looks at pairs."""
        chunk = self.chunk
        if chunk.traits:
            empty = EventTraits(0, chunk.traits[-1].at, 0, (0,), 0, None, None)
            # One more where that makes the next log begin at an even slot.
            for _ in range(GAP + len(chunk.traits) % 2):
                chunk.add(empty, ((),))
        return len(chunk.traits)

    def add(self, traits: EventTraits, entry: Entry, *, counts: bool) -> None:
        """Add the next event of a log; one that does not count keeps its place."""
        self.chunk.add(
            traits if counts else _emptied(traits), entry.passages if counts else ((),) * len(entry.passages)
        )

    def extend(self, traits: ChunkTraits, buckets: Iterable[bytes], hidden: Collection[int] = ()) -> None:
        """Add the events of a stored chunk; those that do not count keep their places."""
        self._take(traits, buckets, [range(len(traits.seqs))], hidden)

    def end(self, log: ShelvedLog, names: Iterable[str]) -> None:
        """Note which log was added."""
        self.logs.append(log)
        self.names.update(names)
        self.terms += log.terms

    def terms_from(self, slot: int) -> int:
        """How many terms the events from a slot on have."""
        return sum(min(length, LONGEST) for traits in self.chunk.traits[slot:] for length in traits.lengths)

    def take(self, shelf: ShelfTraits, buckets: Iterable[bytes], without: Collection[int]) -> None:
        """Add the logs of a stored shelf, but for some."""
        kept = [log for log in shelf.logs if log.skey not in without]
        if not kept:
            return
        base = self.begin()
        ranges: list[range] = []
        for log in kept:
            # What is left of it goes on lying as it lay: with the slots before the next log.
            at = shelf.firsts.index(log.first)
            end = shelf.firsts[at + 1] if at + 1 < len(shelf.firsts) else log.first + log.slots
            ranges.append(range(log.first, end))
            self.logs.append(log._replace(first=base))
            self.terms += log.terms
            base += end - log.first
        self.names |= shelf.names
        self._take(shelf.traits, buckets, ranges, ())

    def _take(
        self, traits: ChunkTraits, buckets: Iterable[bytes], ranges: Sequence[range], hidden: Collection[int]
    ) -> None:
        chunk, size = self.chunk, len(traits.seqs)
        if not hidden and ranges == [range(size)]:
            chunk.extend(traits, buckets)
            return
        events = list(traits.events())
        firsts = traits.firsts or range(size + 1)
        target = array("l", [-1]) * len(traits.passage_lengths)
        for at in chain.from_iterable(ranges):
            if at in hidden:
                chunk.add(_emptied(events[at]), ((),) * len(events[at].lengths))
                continue
            for number in range(firsts[at], firsts[at + 1]):
                target[number] = chunk.passages + number - firsts[at]
            chunk.add(events[at], ((),) * len(events[at].lengths))
        chunk.postings.take(buckets, len(traits.passage_lengths), target)

    def traits(self) -> ShelfTraits:
        """What is known of it, once it is full."""
        return ShelfTraits(self.logs, self.names, ChunkTraits.of(self.chunk.traits, first_seq=0))


def _emptied(traits: EventTraits) -> EventTraits:
    """Nothing is found there any more; how long it is still tells its neighbours apart."""
    return traits._replace(seq=0, kind=0, author=None, branch=None)


def stale_copies(shelves: Sequence[tuple[int, ShelfTraits]]) -> dict[int, frozenset[int]]:
    """By the number of a shelf: keys of sessions of which another shelf holds more."""
    newest: dict[int, tuple[int, int]] = {}
    stale: dict[int, set[int]] = {}
    for number, shelf in shelves:
        for log in shelf.logs:
            known = newest.get(log.skey)
            if known is not None:
                older = min(known, (log.last_seq, number))
                stale.setdefault(older[1], set()).add(log.skey)
            if known is None or known < (log.last_seq, number):
                newest[log.skey] = (log.last_seq, number)
    return {number: frozenset(keys) for number, keys in stale.items()}


@dataclass(slots=True)
class Sums:
    """What is kept of some shelves: how many logs they hold, up to where in all, and what was left beside them.

    Attributes:
        logs: How many different logs they hold.
        total: The sum of the positions up to which these are there.
        left: Keys of sessions that they were met not to hold as they are: too long for a shelf, expired.
    """

    logs: int
    total: int
    left: frozenset[int] = frozenset()


class Copies:
    """Up to where some shelves hold their logs.

    Args:
        shelves: These.
        sums: What is kept of them.
    """

    def __init__(self, shelves: Iterable[ShelfTraits], sums: Sums) -> None:
        self._held = [shelf.by_key for shelf in shelves]
        self._sums = sums
        self.logs = sums.logs
        self.total = sums.total
        self.left = sums.left

    def keep_left(self, keys: frozenset[int]) -> None:
        """Remember which sessions they do not hold as they are."""
        self._sums.left = keys

    def upto(self, skey: int) -> int:
        """Up to which position the log of a session is there; 0 where it is not."""
        return max([found.last_seq for held in self._held if (found := held.get(skey)) is not None], default=0)
