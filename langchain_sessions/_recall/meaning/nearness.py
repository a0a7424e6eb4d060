"""The semantic part of a search: how near events are to the query in meaning, for the best by their words."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nlargest
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import SessionKey
from langchain_sessions._recall.meaning.vectors import VectorFormat
from langchain_sessions.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._recall.meaning.embedder import Embedder
    from langchain_sessions._recall.meaning.vectors import QueryVector
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import SearchedLogs, VectorProgress

P = TypeVar("P")

SCANNED: Final = 500
"""How many events are looked through for their meaning alone, where words find few."""

# As many as a page usually shows.
_NEAREST: Final = 10

Semantic = Literal["full", "partial", "unavailable"]
"""Whether a search went by meaning too: for all that was said, but for the newest, or not at all this time."""


@dataclass(slots=True)
class Meaning:
    """What a query means, and which logs have vectors to compare.

    Attributes:
        searched: The logs that are searched.
        vector: The query's.
        places: By session key: logs whose vectors the embedder made.
        behind: Logs in which something is not embedded yet.
    """

    searched: SearchedLogs
    vector: QueryVector
    places: dict[int, VectorProgress] = field(default_factory=dict[int, "VectorProgress"])
    behind: list[SessionKey] = field(default_factory=list[SessionKey])

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

    def of(self, query: Query, searched: SearchedLogs) -> Flow[Meaning | None]:
        """What a query means; None where the embedder does not tell."""
        vector = yield from ask(self._embedder.query, asked_text(query))
        if vector is None:
            return None
        try:
            fingerprint = self._format.fingerprint((yield from ask(self._embedder.signature)))
        except EmbeddingError:
            return None
        meaning = Meaning(searched, vector)
        for place in (yield from ask(self._store.list_vectors, searched)):
            is_same = place.embedded_to > 0 and self._format.same(fingerprint, place.fingerprint)
            if is_same:
                meaning.places[place.skey] = place
            if place.last_seq > (place.embedded_to if is_same else 0):
                meaning.behind.append(searched.key._replace(id=place.session_id))
        return meaning

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


def nearest(cosines: Mapping[P, float]) -> list[P]:
    """The few that are nearest to the query, and nearer than others."""
    mean = sum(cosines.values()) / max(1, len(cosines))
    best = nlargest(_NEAREST, cosines, key=cosines.__getitem__)
    return [place for place in best if cosines[place] >= mean and cosines[place] > 0]


def asked_text(query: Query) -> str:
    """What a query asks for in plain words: as it was written, or without its operators and what they exclude."""
    if not query.required and not query.excluded:
        return query.text
    return " ".join(word for clause in query.ranked for word in clause.words)
