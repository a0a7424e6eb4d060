"""The semantic part of a search: which events are nearest to the query in meaning, and how near some of them are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import SessionKey
from langchain_sessions._recall.meaning.signs import MOST_COMPARED, nearest
from langchain_sessions._recall.meaning.vectors import VectorFormat
from langchain_sessions.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._recall.index.traits_cache import ChunkKey, TraitsCache
    from langchain_sessions._recall.meaning.embedder import Embedder
    from langchain_sessions._recall.meaning.signs import SignedPart
    from langchain_sessions._recall.meaning.vectors import QueryVector
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import SearchedLogs
    from langchain_sessions.stores._vectors import VectorProgress

P = TypeVar("P")

NEAREST: Final = 50
"""How many events, the nearest of all that are searched, are compared in meaning beside the best by their words."""

Semantic = Literal["full", "partial", "unavailable"]
"""Whether a search went by meaning too: for all that was said, but for the newest, or not at all this time."""


@dataclass(slots=True)
class Meaning:
    """What a query means, and which logs have vectors to compare.

    Attributes:
        searched: The logs that are searched.
        vector: The query's.
        places: By session key: logs whose vectors the embedder made.
        behind: Logs in which something is not embedded yet, or has no signs.
        signs: Those of the newest events: key of the session, and a part of its signs.
    """

    searched: SearchedLogs
    vector: QueryVector
    places: dict[int, VectorProgress] = field(default_factory=dict[int, "VectorProgress"])
    behind: list[SessionKey] = field(default_factory=list[SessionKey])
    signs: list[tuple[int, SignedPart]] = field(default_factory=list[tuple[int, "SignedPart"]])

    def nearest(self, accept: Callable[[int, int], P | None]) -> list[P]:
        """What the events are called that are nearest by their signs; `accept` says it, None where one may not be."""
        return nearest(self.signs, self.vector, accept, NEAREST)

    @property
    def semantic(self) -> Semantic:
        """How far it reaches."""
        return "partial" if self.behind else "full"


class MeaningReader:
    """Compares events with queries.

    Args:
        store: Where the vectors lie.
        codec: Unseals them where it encrypts.
        embedder: Made them, and makes those of queries.
    """

    def __init__(self, store: SessionStore, codec: MessageCodec, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._format = VectorFormat(codec)

    def of(
        self, query: Query, searched: SearchedLogs, listed: Sequence[VectorProgress] | None = None
    ) -> Flow[Meaning | None]:
        """What a query means; None where the embedder does not tell.

        Args:
            query: In words.
            searched: The logs that are searched.
            listed: How far their vectors go, where that was told with the index.
        """
        vector = yield from ask(self._embedder.query, asked_text(query))
        if vector is None:
            return None
        try:
            fingerprint = self._format.fingerprint((yield from ask(self._embedder.signature)))
        except EmbeddingError:
            return None
        meaning = Meaning(searched, vector)
        if listed is None:
            listed = yield from ask(self._store.list_vectors, searched)
        for place in listed:
            is_same = place.embedded_to > 0 and self._format.same(fingerprint, place.fingerprint)
            if is_same:
                meaning.places[place.skey] = place
            if place.last_seq > (place.embedded_to if is_same else 0) or place.signed_to < place.embedded_to:
                meaning.behind.append(searched.key._replace(id=place.session_id))
        yield from self._read_signs(meaning)
        return meaning

    def _read_signs(self, meaning: Meaning) -> Flow[None]:
        """Take in the signs of the newest events: those that this process knows, and those that are read.

        A log of which a part is gone meanwhile, or damaged, is behind.
        """
        searched, places = meaning.searched, list(meaning.places.values())
        cache, left = self._embedder.known_signs(self._store), MOST_COMPARED
        missing: dict[VectorProgress, list[int]] = {}
        wanted: list[tuple[VectorProgress, int, ChunkKey, SignedPart | None]] = []
        for place in reversed(places):
            before = (0, *place.signs)
            for low, upto in zip(before[-2::-1], place.signs[::-1], strict=True):
                if left > 0:
                    name = _named(place, low, upto)
                    known = cache.get(name)
                    wanted.append((place, upto, name, known))
                    left -= upto - low
                    if known is None:
                        missing.setdefault(place, []).append(upto)
        found: dict[tuple[int, int], bytes] = {}
        if missing:
            asked = {place.of_signs: SeqSet.of(parts) for place, parts in missing.items()}
            found = yield from ask(self._store.load_vectors, searched, asked)
        lacking: dict[str, None] = {}
        for place, upto, name, known in reversed(wanted):
            part, stored = known, found.get((place.skey, upto))
            if part is None and stored is not None:
                part = self._unpacked(cache, place, name, upto, stored)
            if part is not None:
                meaning.signs.append((place.skey, part))
            else:
                lacking[place.session_id] = None
        keys = [searched.key._replace(id=session_id) for session_id in lacking]
        meaning.behind += [key for key in keys if key not in meaning.behind]

    def _unpacked(
        self, cache: TraitsCache[SignedPart], place: VectorProgress, name: ChunkKey, upto: int, stored: bytes
    ) -> SignedPart | None:
        """A part of the signs; None where it is damaged."""
        try:
            return cache.put(name, self._format.unpack(place.session_id, upto, stored))
        except UNREADABLE:
            return None

    def cosines(self, meaning: Meaning, wanted: Iterable[tuple[int, int]]) -> Flow[dict[tuple[int, int], float]]:
        """Similarities to the query by session key and position; what has no vector is left out."""
        seqs: dict[int, list[int]] = {}
        for skey, seq in wanted:
            if skey in meaning.places:
                seqs.setdefault(skey, []).append(seq)
        if not seqs:
            return {}
        asked = {meaning.places[skey]: SeqSet.of(each) for skey, each in seqs.items()}
        names = {place.skey: place.session_id for place in asked}
        stored = yield from ask(self._store.load_vectors, meaning.searched, asked)
        unpack = self._format.unpack
        return meaning.vector.cosines(
            {(skey, seq): unpack(names[skey], seq, data) for (skey, seq), data in stored.items()}
        )


def _named(place: VectorProgress, low: int, upto: int) -> ChunkKey:
    """What no other part of the signs is called: after an overwriting others end where these ended."""
    return place.skey, place.generation, (place.blanked_at << 64 | low) << 64 | upto


def asked_text(query: Query) -> str:
    """What a query asks for in plain words: as it was written, or without its operators and what they exclude."""
    if not query.required and not query.excluded:
        return query.text
    return " ".join(word for clause in query.ranked for word in clause.words)
