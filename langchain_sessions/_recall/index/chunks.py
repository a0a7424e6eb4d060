"""The index as it is stored: chunks of up to `LARGEST_CHUNK` events of one session, and how they grow.

A chunk's terms lie in buckets by their first letters; what ranking asks about single events lies in one row beside.
About 100 bytes per message of 120 characters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.index.buckets import Bucket, PackedOccurrences, bucket_of, sought
from langchain_sessions._recall.index.open_postings import OpenPostings
from langchain_sessions._recall.index.ranking_traits import LONGEST, ChunkTraits, Columns, EventTraits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from langchain_sessions._recall.rank.zone import Lookup

LARGEST_CHUNK: Final = 4096
"""Events per chunk: few rows to read at 100 000 events, and a merge that takes tens of milliseconds."""

MOST_PASSAGES_HELD: Final = 16_384
"""Passages per step, about: long events make a step of few."""

# Part of the fingerprint: an index of another layout is built anew, log by log, as each is searched.
LAYOUT_VERSION: Final = 6

LARGEST_TERMS: Final = 400_000
"""Terms per chunk: long messages make chunks of fewer events."""


class ChunkSize(NamedTuple):
    """A stored chunk without its contents: its number, how many events and terms it holds."""

    number: int
    events: int
    terms: int


@dataclass(slots=True)
class OpenChunk:
    """A chunk that is being built: traits and terms of events in log order.

    Attributes:
        traits: What is known of each event.
        postings: Where each term occurs.
    """

    traits: list[EventTraits] = field(default_factory=list[EventTraits])
    postings: OpenPostings = field(default_factory=OpenPostings)

    def add(self, traits: EventTraits, passages: Sequence[Iterable[str]]) -> None:
        """Add the next event and the terms of its passages, each as often as it occurs."""
        self.traits.append(traits)
        self.postings.add(passages)

    def extend(self, traits: ChunkTraits, buckets: Iterable[bytes]) -> None:
        """Add the events of a stored chunk."""
        self.traits.extend(traits.events())
        self.postings.extend(buckets, len(traits.passage_lengths))

    @property
    def passages(self) -> int:
        """How many passages there are."""
        return self.postings.passages

    @property
    def terms(self) -> int:
        """Number of terms of all events."""
        return sum(map(min, chain.from_iterable(traits.lengths for traits in self.traits), repeat(LONGEST)))


def chunks_to_merge(stored: Sequence[ChunkSize], added: int, terms: int) -> list[ChunkSize]:
    """Which of the newest chunks the next events are merged with, oldest first.

    A chunk is taken along by one of at least its size, so an event is rewritten three times in its life or so, while
    the number of chunks stays near events / `LARGEST_CHUNK`.
    """
    taken: list[ChunkSize] = []
    size = added
    for chunk in reversed(stored):
        if chunk.events > size or chunk.events + size > LARGEST_CHUNK or chunk.terms + terms > LARGEST_TERMS:
            break
        taken.insert(0, chunk)
        size += chunk.events
        terms += chunk.terms
    return taken


class NotReadError(Exception):
    """Words of a chunk are asked for that were not read: whoever did not read them reads them now."""


class Counted:
    """Where a term occurs in a chunk that was not read: it is known in how many events."""

    __slots__ = ("_events",)

    def __init__(self, events: int) -> None:
        self._events = events

    def __len__(self) -> int:
        return self._events

    def lookup(self) -> Lookup:
        """Not known."""
        raise NotReadError

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Not known."""
        raise NotReadError

    def passages(self) -> Mapping[int, int]:
        """Not known."""
        raise NotReadError


class PackedEvents:
    """A stored chunk as ranking reads it: any terms whose buckets were read, and the traits of its events.

    Args:
        traits: What is known of its events.
        size: Number of terms of all events.
        buckets: Buckets of the terms that are asked for, by name.

    Attributes:
        counted: Where these were not read: in how many events each of the asked terms occurs; else None.
    """

    __slots__ = (
        *("_read", "buckets", "counted", "events", "filled", "hidden", "human_talk", "labels", "logs"),
        *("passages", "said", "size", "speakers", "taken", "traits"),
    )

    def __init__(self, traits: ChunkTraits, size: int, buckets: Mapping[str, bytes]) -> None:
        self.traits = traits
        self.events = self.said = len(traits.seqs)
        self.passages = len(traits.passage_lengths)
        self.size = size
        self.taken: bytes | bytearray | None = None
        self.hidden: set[int] = set()
        self.human_talk = traits.human_talk
        self.speakers: Collection[str]
        self.labels: Mapping[str, int]
        self.speakers, self.labels = traits.speakers
        self.logs: tuple[Sequence[int], Sequence[int]] = (0,), (self.events,)
        self.filled = int(self.events > 0)
        self.buckets = buckets
        self.counted: Mapping[str, int] | None = None
        self._read: dict[str, Bucket] = {}

    def _bucket(self, name: str) -> Bucket | None:
        """A bucket that was read; None where there is none."""
        known = self._read.get(name)
        if known is None and (data := self.buckets.get(name)) is not None:
            known = self._read[name] = Bucket(bytes(data))
        return known

    def columns(self, longest: int) -> Columns:
        """What is added up of the lengths of its events."""
        return self.traits.columns(longest)

    @property
    def passage_lengths(self) -> Sequence[int]:
        """Number of terms of each passage."""
        return self.traits.passage_lengths

    @property
    def firsts(self) -> Sequence[int] | None:
        """The number of the first passage of each event, and one past the last; None where each event is one."""
        return self.traits.firsts

    def hints(self, index: int) -> int:
        """Hints of an event."""
        return self.traits.flags[index]

    def author(self, index: int) -> str | None:
        """Who said it."""
        return self.traits.authors[self.traits.voices[index]]

    def spoken(self, authors: frozenset[str]) -> Collection[int]:
        """Where its log begins, if any of some authors speaks."""
        if authors.isdisjoint(self.speakers) and authors.isdisjoint(self.labels):
            return ()
        return () if self.hidden and authors.isdisjoint(self.heard) else (0,)

    @property
    def heard(self) -> Collection[str]:
        """All authors and labels of the events that count."""
        return self.traits.heard_beside(self.hidden) if self.hidden else {*self.speakers, *self.labels}

    def instant(self, index: int) -> float:
        """When, in seconds since 1970."""
        return self.traits.first_second + self.traits.seconds[index]

    def find(self, term: str) -> PackedOccurrences | Counted | None:
        """Where a term occurs."""
        if self.counted is not None:
            return self._counted_of(term)
        bucket = self._read.get(name := sought(term)[0]) or self._bucket(name)
        data = None if bucket is None else bucket.find(term)
        if data is None:
            return None
        return PackedOccurrences(data, len(self.traits.passage_lengths), self.traits.owners)

    def _counted_of(self, term: str) -> Counted | None:
        assert self.counted is not None  # noqa: S101 - asked of what was not read
        if (events := self.counted.get(term)) is None:
            raise NotReadError
        return Counted(events) if events else None

    def fill(self, buckets: Mapping[str, bytes]) -> None:
        """Take the buckets, which were not read before."""
        self.buckets, self.counted = buckets, None

    def expand(self, beginning: str) -> Iterable[str]:
        """The terms that begin so."""
        if self.counted is not None:
            raise NotReadError
        name = bucket_of(beginning)
        # One letter may begin many buckets; two lie in one.
        names = (name,) if bucket_of(beginning + "zz") == name else self.buckets
        found = [bucket for each in names if (bucket := self._bucket(each)) is not None]
        return [term for bucket in found for term in bucket.terms() if term.startswith(beginning) and ":" not in term]

    @property
    def left_out(self) -> Sequence[range]:
        """None."""
        return ()

    def vocabulary(self) -> Iterable[str]:
        """All terms that were read."""
        if self.counted is not None:
            raise NotReadError
        found = [bucket for name in self.buckets if (bucket := self._bucket(name)) is not None]
        return chain.from_iterable(bucket.terms() for bucket in found)
