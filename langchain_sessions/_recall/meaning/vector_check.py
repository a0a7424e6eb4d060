"""Comparing the vectors of a log with its texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import MESSAGE_CODES
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._recall.meaning.embedding import embed_texts, embedded_text
from langchain_sessions._recall.meaning.signs import SignedPart, signs_of
from langchain_sessions._recall.meaning.vectors import QueryVector, VectorFormat, numbers_in
from langchain_sessions.errors import EmbeddingError
from langchain_sessions.stores._values import SearchedLogs

if TYPE_CHECKING:
    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._recall.meaning.embedder import Embedder
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._vectors import VectorProgress

_BATCH: Final = 512
_ASKED: Final = 16
"""How many texts an embedder is asked for again, of each kind: it may have to be paid."""
# Services round differently from call to call; another text is far below.
_ALIKE: Final = 0.95


class VectorChecker:
    """Compares vectors with what they were made of.

    Args:
        store: Where logs and vectors lie.
        codec: Reads the messages, and unseals vectors where it encrypts.
        embedder: Makes vectors.
        now: The present in microseconds.
    """

    def __init__(self, store: SessionStore, codec: MessageCodec, embedder: Embedder, now: int) -> None:
        self._store = store
        self._codec = codec
        self._embedder = embedder
        self._format = VectorFormat(codec)
        self._now = now

    def verify(self, key: SessionKey) -> Flow[list[str]]:
        """A line for each difference; none where nothing is embedded, or by another embedder.

        Vectors without a text are all found. Texts without a vector, and vectors of other texts, are found by asking
        the embedder again for a few, and not where it does not answer: it may have refused a text, too.

        Raises:
            SessionNotFoundError: There is none for this key.
            SealedEventError: The log holds what the codec cannot read.
        """
        progress = yield from ask(self._store.find_vectors, key, self._now)
        texts, stored = yield from self._read(key, progress)
        found = [f"the vector of event {seq} belongs to no text" for seq in sorted(stored.keys() - texts.keys())]
        found += yield from self._wrong_signs(key, progress, stored)
        try:
            signature = yield from ask(self._embedder.signature)
            if progress.embedded_to and self._format.same(self._format.fingerprint(signature), progress.fingerprint):
                found += yield from self._compared(texts, stored)
        except EmbeddingError:
            return found
        # Somebody embedded all of it anew meanwhile: what was read belongs to no one set.
        again = yield from ask(self._store.find_vectors, key, self._now)
        return found if again.generation == progress.generation else []

    def _read(self, key: SessionKey, progress: VectorProgress) -> Flow[tuple[dict[int, str], dict[int, bytes]]]:
        """The texts that are said to be embedded, and the vectors up to there."""
        texts: dict[int, str] = {}
        stored: dict[int, bytes] = {}
        searched = SearchedLogs(app=key.app, owner=key.owner, session_id=key.id, now=self._now)
        after = 0
        while after < progress.embedded_to:
            query = EventQuery(kinds=MESSAGE_CODES, after_seq=after, before_seq=progress.embedded_to + 1, limit=_BATCH)
            rows = (yield from ask(self._store.find_events, key, query, self._now)).rows
            upto = rows[-1].seq if len(rows) == _BATCH else progress.embedded_to
            for row in rows:
                text = embedded_text(row, self._codec.decode(key.id, row))
                if text.strip():
                    texts[row.seq] = text
            loaded = yield from ask(self._store.load_vectors, searched, {progress: SeqSet.between(after + 1, upto)})
            stored.update((seq, self._format.unpack(key.id, seq, data)) for (_, seq), data in loaded.items())
            after = upto
        return texts, stored

    def _wrong_signs(self, key: SessionKey, progress: VectorProgress, stored: dict[int, bytes]) -> Flow[list[str]]:
        """What the signs and the vectors say differently, as far as there are signs."""
        searched = SearchedLogs(app=key.app, owner=key.owner, session_id=key.id, now=self._now)
        asked = {progress.of_signs: SeqSet.of(progress.signs)}
        loaded = (yield from ask(self._store.load_vectors, searched, asked)) if progress.signs else {}
        known: dict[int, int] = {}
        found: list[str] = []
        for (_, upto), data in sorted(loaded.items()):
            try:
                part = SignedPart.unpack(self._format.unpack(key.id, upto, data))
            except UNREADABLE:
                found.append(f"the signs up to event {upto} cannot be read")
                continue
            known.update(zip(part.seqs, part.signs, strict=True))
        again = yield from ask(self._store.find_vectors, key, self._now)
        if again._replace(last_seq=0, embedded_to=0) != progress._replace(last_seq=0, embedded_to=0):
            # Somebody embeds, or overwrites: what was read is of two states.
            return []
        vectors = {seq: numbers_in(data) for seq, data in stored.items() if seq <= progress.signed_to}
        wrong = [seq for seq, each in vectors.items() if each and known.pop(seq, None) != signs_of(each)]
        wrong += known
        return found or ([f"signs of {len(wrong)} events are not those of their vectors"] if wrong else [])

    def _compared(self, texts: dict[int, str], stored: dict[int, bytes]) -> Flow[list[str]]:
        missing = sorted(texts.keys() - stored.keys())
        present = sorted(texts.keys() & stored.keys())
        step = max(1, len(present) // _ASKED)
        asked = (*missing[:_ASKED], *present[::step][:_ASKED])
        if not asked:
            return []
        answers = yield from embed_texts(self._embedder, {seq: texts[seq] for seq in asked})
        found: list[str] = []
        for seq, values in answers.items():
            vector = QueryVector.of(values)
            if vector is not None and seq not in stored:
                found.append(f"event {seq} has no vector")
            elif vector is not None and (vector.cosine(stored[seq]) or 0.0) < _ALIKE:
                found.append(f"the vector of event {seq} is not that of its text")
        return found
