"""A first look at a long log: which of its chunks hold the words of a query, before any of them is read."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import SessionKey, bytes_of
from langchain_sessions._recall.findings import index_query
from langchain_sessions._recall.index.chunks import NotReadError, PackedEvents
from langchain_sessions._recall.index.directories import DirectoryTraits, counts_in, is_directory
from langchain_sessions._recall.settings import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._recall.findings import ReadLogs, Traits
    from langchain_sessions._recall.index.builder import IndexBuilder
    from langchain_sessions._recall.index.inverted import Group, InvertedEvents
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import IndexedLog, IndexRead, StoredChunk

_EVERYTHING: Final = 2**62
_ROUNDS: Final = 2
Listed = dict[int, tuple["StoredChunk", DirectoryTraits]]


class FirstLook:
    """What the directories of one log say of the words of a query.

    Args:
        store: Where the index lies.
        builder: Made the terms.
        request: What is asked.
        query: In words.
        traits: What is known of the index.
        vectors: Whether to ask how far the vectors of the log go, too.

    Attributes:
        counted: Of chunks that need not be looked through, by number and generation: how many events hold each word.
    """

    def __init__(
        self,
        store: SessionStore,
        builder: IndexBuilder,
        request: SearchRequest,
        query: Query,
        traits: Traits,
        *,
        vectors: bool,
    ) -> None:
        self._store = store
        self._request = request
        self._query = query
        self._traits = traits
        self._asked = replace(index_query(request, query, builder), held=traits)
        self._vectors = vectors
        self._place = (0, 0)
        self.counted: dict[tuple[int, int], dict[str, int]] = {}

    def ask(self) -> Flow[IndexRead | None]:
        """What was read of the log but for chunks that directories list; None where there is no directory to go by."""
        searched, where = self._request.searched, self._request.where
        terms = list(chain.from_iterable(self._query.groups))
        by_beginning = any(term.endswith("*") for term in terms)
        if searched.session_id is None or by_beginning or where.tools or where.without_tools:
            return None
        for _ in range(_ROUNDS):
            known = self._traits.logs.of(searched.key)
            (skey, _), chunks = next(iter(known.items()), ((0, 0), ()))
            listed = self._listed(skey, chunks)
            if not listed:
                return None
            directories = {stored.number: (stored, traits) for stored, traits in listed.values()}
            rows = {traits.row_of(term) for _, traits in directories.values() for term in terms}
            others = (each for each in chunks if not is_directory(each.number, each.events))
            open_ones = [each.number for each in others if each.number not in listed]
            asked = replace(
                self._asked,
                buckets=tuple(sorted(rows.union(self._asked.buckets))),
                of_chunks=(*open_ones, *directories),
                chunks=known,
                vectors=self._vectors,
            )
            read = yield from ask(self._store.load_index, asked)
            if read.behind or not read.logs or heavy(read.logs):
                return None
            (log,) = read.logs
            if (log.session.skey, log.generation) in known:
                self._place = log.session.skey, log.generation
                self._count(log, chunks, listed, terms)
                return read
            self._traits.keep(searched.key, read.logs)
        return None

    def _listed(self, skey: int, chunks: Sequence[StoredChunk]) -> Listed:
        """By the number of each chunk that a directory lists as it is: that directory."""
        written = {chunk.number: chunk.written for chunk in chunks}
        found: Listed = {}
        for stored in chunks:
            place = skey, stored.number, stored.written
            if is_directory(stored.number, stored.events) and place in self._traits:
                traits = self._traits.directories.of(place, b"")
                found.update(
                    (number, (stored, traits)) for number, made in traits.covers.items() if written.get(number) == made
                )
        return found

    def _count(self, log: IndexedLog, chunks: Sequence[StoredChunk], listed: Listed, terms: Sequence[str]) -> None:
        told: dict[int, dict[str, Mapping[int, int]]] = {}
        for directory, traits in listed.values():
            if directory.number not in told:
                rows = log.buckets.get(directory.number, {})
                named = ((term, rows.get(traits.row_of(term))) for term in terms)
                told[directory.number] = {term: counts_in(row, term) for term, row in named if row is not None}
        for chunk in chunks:
            if chunk.number in listed:
                counts = dict.fromkeys(terms, 0)
                for term, found in told[listed[chunk.number][0].number].items():
                    counts[term] = found.get(chunk.number, 0)
                self.counted[chunk.number, chunk.written] = counts

    def read(self, logs: ReadLogs, candidates: int) -> Flow[None]:
        """Read the words of the chunks in which so many candidates are looked for.

        Raises:
            NotReadError: The index has moved on.
        """
        (parts,) = logs.parts
        needed = {id(parts[at]) for at in _needed(parts, self._query.groups, candidates)}
        numbers = [number for number, part in logs.unread.items() if id(part) in needed]
        if not numbers:
            return
        known = self._traits.logs.of(self._request.searched.key)
        asked = replace(self._asked, of_chunks=tuple(numbers), chunks=known, most_scanned=_EVERYTHING)
        for log in (yield from ask(self._store.load_index, asked)).logs:
            if (log.session.skey, log.generation) != self._place:
                raise NotReadError
            for number in numbers:
                logs.unread[number].fill(log.buckets.get(number, {}))


def _needed(parts: Sequence[InvertedEvents], groups: Iterable[Group], candidates: int) -> set[int]:
    """The parts in which a shortlist looks, and those beside them: what it takes a word from, and what decides there.

    A word that is in many events is taken from the newest (`shortlisting`); here it is from as many parts or more.
    """
    found: set[int] = set()
    for group in groups:
        held: list[tuple[int, int]] = []
        for at, part in enumerate(parts):
            counted = part.counted if isinstance(part, PackedEvents) else None
            if counted is None:
                sizes = [len(each) for term in group if (each := part.find(term)) is not None]
            else:
                sizes = [counted[term] for term in group if counted[term]]
            if sizes:
                # Of several words nobody knows how many events hold any, nor how many of them are hidden.
                found.update([at] if len(sizes) > 1 or part.hidden else ())
                held.append((at, 0 if part.hidden else max(sizes)))
        total = sum(size for _, size in held)
        left = 4 * candidates if total > 16 * candidates else total + 1
        for at, size in reversed(held):
            if left <= 0:
                break
            found.add(at)
            left -= size
    return {near for at in found for near in (at - 1, at, at + 1) if 0 <= near < len(parts)}


def heavy(logs: Iterable[IndexedLog]) -> list[SessionKey]:
    """Whose text waits for the index in such amount that no search should scan it, the most first."""
    waiting = sorted(((bytes_of(log.tail), log.session) for log in logs if log.tail), key=lambda pair: -pair[0])
    left = sum(size for size, _ in waiting)
    found: list[SessionKey] = []
    for size, session in waiting:
        if left <= MOST_BYTES:
            break
        found.append(SessionKey(session.app, session.id, session.user_id))
        left -= size
    return found
