"""Making the vectors of logs: in batches behind the log, each in one short transaction, to be resumed at any time."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import MESSAGE_CODES, speaker_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import BLANKED, SessionKey
from langchain_sessions._recall.meaning.embedder import BATCH_TIMEOUT, LONGEST_TEXT
from langchain_sessions._recall.meaning.signs import LONGEST_PART, SignedPart
from langchain_sessions._recall.meaning.vectors import VectorFormat, numbers_in, packed_numbers
from langchain_sessions._recall.text.documents import searchable_text
from langchain_sessions.errors import EmbeddingError, SealedEventError, SessionNotFoundError, StoreError
from langchain_sessions.stores._values import WALK, SearchedLogs, SessionQuery
from langchain_sessions.stores._vectors import NewSigns, VectorChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.rows import EventRow, Owner
    from langchain_sessions._recall.meaning.embedder import Embedder
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._vectors import VectorProgress

EMBED_BATCH: Final = 32
"""Events per transaction, and most texts per question to an embedder."""

_LEASE: Final = ".embedding"
"""No branch is called so: names of branches do not begin with a dot."""

# A batch and some slack: a process that dies holds a log no longer.
_LEASED_FOR: Final = int((BATCH_TIMEOUT + 30) * 1_000_000)
_LOST: Final = 5
_TOGETHER: Final = 16_000


class VectorBuilder:
    """Keeps the vectors of a store.

    Args:
        store: Where logs and vectors lie.
        codec: Reads the messages, and seals vectors where it encrypts.
        embedder: Makes vectors.
        now: The present in microseconds.
    """

    def __init__(self, store: SessionStore, codec: MessageCodec, embedder: Embedder, now: Callable[[], int]) -> None:
        self._store = store
        self._codec = codec
        self._embedder = embedder
        self._format = VectorFormat(codec)
        self._now = now

    def catch_up(
        self, key: SessionKey, *, holder: str | None = None, stops: Callable[[], bool] = lambda: False
    ) -> Flow[int]:
        """Embed what a log holds and its vectors do not; how many events were embedded.

        Another process that does the same wins or loses batch by batch; no vector is stored twice.

        Args:
            key: The log.
            holder: Who asks, to do nothing while somebody else is at it; None to do it anyway.
            stops: Whether to leave the rest for another time, asked after each batch.

        Raises:
            SessionNotFoundError: There is none for this key.
            SealedEventError: The log holds what the codec cannot read.
            EmbeddingError: The embedder failed; what was embedded so far is kept.
        """
        try:
            added = yield from self._catch_up(key, holder, stops)
        except EmbeddingError:
            yield from self._release(key, holder)
            raise
        yield from self._release(key, holder)
        return added

    def _catch_up(self, key: SessionKey, holder: str | None, stops: Callable[[], bool]) -> Flow[int]:
        fingerprint = self._format.fingerprint((yield from ask(self._embedder.signature)))
        added = lost = steps = 0
        # How far the signs went before a step of these alone: a store that keeps none is where it was.
        signed_to, keeps_signs, is_sound = -1, True, False
        while lost < _LOST and not stops():
            progress = yield from ask(self._store.find_vectors, key, self._now())
            keeps_signs = keeps_signs and progress.signed_to != signed_to
            anew = progress.embedded_to == 0 or not self._format.same(fingerprint, progress.fingerprint)
            after = 0 if anew else progress.embedded_to
            unsigned = keeps_signs and not anew and progress.signed_to < progress.embedded_to
            is_done = after >= progress.last_seq and not unsigned
            # What is done is looked at once, by hand or since a search found it wanting: damaged signs are made again.
            is_sound = is_sound or not progress.signs or (holder is not None and steps > 0)
            if (is_done and is_sound) or not (yield from self._reserve(key, holder)):
                break
            change: VectorChange | None
            if is_done:
                is_sound = True
                change = yield from self._mended(key, progress)
            elif unsigned:
                change = yield from self._signed(key, progress)
            else:
                told = fingerprint if anew else progress.fingerprint
                change = yield from self._plan(key, progress, after, told, anew=anew)
                change = change if keeps_signs else replace(change, signs=None)
            if change is None:
                break
            if (yield from ask(self._store.write_vectors, key, change, self._now())):
                signed_to = progress.signed_to if unsigned else -1
                added += len(change.vectors)
                steps += 1
                lost = 0
            else:
                lost += 1
        return added

    def _reserve(self, key: SessionKey, holder: str | None) -> Flow[bool]:
        if holder is None:
            return True
        now = self._now()
        return (yield from ask(self._store.lease_scope, key, _LEASE, holder, now, now + _LEASED_FOR))

    def _release(self, key: SessionKey, holder: str | None) -> Flow[None]:
        """Give back what is held; of somebody else it is not taken."""
        if holder is not None:
            now = self._now()
            yield from ask(self._store.lease_scope, key, _LEASE, holder, now, now)

    def _plan(
        self, key: SessionKey, progress: VectorProgress, after: int, fingerprint: str, *, anew: bool
    ) -> Flow[VectorChange]:
        query = EventQuery(kinds=MESSAGE_CODES, after_seq=after, limit=EMBED_BATCH)
        found = yield from ask(self._store.find_events, key, query, self._now())
        upto = found.rows[-1].seq if len(found.rows) == EMBED_BATCH else found.view.last_seq
        packed = yield from self._packed(key.id, found.rows)
        signs = yield from self._signs(key, progress, packed, (after, upto), anew=anew)
        vectors = {seq: self._format.sealed(data) for seq, data in packed.items()}
        return VectorChange(
            progress=progress, fingerprint=fingerprint, embedded_to=upto, vectors=vectors, anew=anew, signs=signs
        )

    def _signed(self, key: SessionKey, progress: VectorProgress) -> Flow[VectorChange]:
        """The signs of vectors that have none yet: an older release made these, or a text was overwritten."""
        after = progress.signed_to
        upto = min(progress.embedded_to, after + LONGEST_PART)
        stored = yield from self._load(key, progress, SeqSet.between(after + 1, upto))
        signs = yield from self._signs(key, progress, stored, (after, upto), anew=False)
        return VectorChange(
            progress=progress,
            fingerprint=progress.fingerprint,
            embedded_to=progress.embedded_to,
            vectors={},
            signs=signs,
        )

    def _signs(
        self,
        key: SessionKey,
        progress: VectorProgress,
        packed: dict[int, bytes],
        within: tuple[int, int],
        *,
        anew: bool,
    ) -> Flow[NewSigns]:
        """The next part of the signs: it takes in those before it that are no longer."""
        low, upto = within
        taken: list[int] = []
        parts = (0, *(() if anew else progress.signs))
        for before, part in zip(parts[-2::-1], parts[:0:-1], strict=True):
            if part - before > upto - low or upto - before > LONGEST_PART:
                break
            taken.append(part)
            low = before
        known = (yield from self._known_parts(key, progress, taken)) if taken else {}
        if len(known) < len(taken):  # damaged: made again of the vectors
            packed = (yield from self._load(key, progress, SeqSet.between(low + 1, within[0]))) | packed
            known = {}
        made = SignedPart.of({seq: numbers_in(data) for seq, data in packed.items()})
        made = made.joined(part for _, part in sorted(known.items()))
        return self._new_signs(upto, made, taken)

    def _mended(self, key: SessionKey, progress: VectorProgress) -> Flow[VectorChange | None]:
        """The first damaged part of the signs, made again; those behind it go, and follow. None where all are whole."""
        known = yield from self._known_parts(key, progress, progress.signs)
        damaged = [at for at, upto in enumerate(progress.signs) if upto not in known]
        if not damaged:
            return None
        gone = progress.signs[damaged[0] :]
        low, upto = (0, *progress.signs)[damaged[0]], gone[0]
        stored = yield from self._load(key, progress, SeqSet.between(low + 1, upto))
        made = SignedPart.of({seq: numbers_in(data) for seq, data in stored.items()})
        return VectorChange(
            progress=progress,
            fingerprint=progress.fingerprint,
            embedded_to=progress.embedded_to,
            vectors={},
            signs=self._new_signs(upto, made, gone),
        )

    def _new_signs(self, upto: int, made: SignedPart, gone: Sequence[int]) -> NewSigns:
        return NewSigns(upto, self._format.sealed(made.pack()), SeqSet.of(made.seqs), tuple(gone))

    def _known_parts(
        self, key: SessionKey, progress: VectorProgress, parts: Sequence[int]
    ) -> Flow[dict[int, SignedPart]]:
        """Some parts of the signs by their last positions; what is damaged is left out."""
        stored = yield from self._stored(key, progress.of_signs, SeqSet.of(parts))
        lows = dict(zip(progress.signs, (0, *progress.signs[:-1]), strict=True))
        known: dict[int, SignedPart] = {}
        for upto, data in stored.items():
            with suppress(*UNREADABLE):
                part = SignedPart.unpack(self._format.unpack(key.id, upto, data))
                if part.lies_in(lows[upto], upto):
                    known[upto] = part
        return known

    def _load(self, key: SessionKey, progress: VectorProgress, seqs: SeqSet) -> Flow[dict[int, bytes]]:
        """Vectors of a log, unsealed."""
        stored = yield from self._stored(key, progress, seqs)
        return {seq: self._format.unpack(key.id, seq, data) for seq, data in stored.items()}

    def _stored(self, key: SessionKey, progress: VectorProgress, seqs: SeqSet) -> Flow[dict[int, bytes]]:
        """What is stored of a log."""
        searched = SearchedLogs(app=key.app, owner=key.owner, session_id=key.id, now=self._now())
        found = yield from ask(self._store.load_vectors, searched, {progress: seqs})
        return {seq: data for (_, seq), data in found.items()}

    def _packed(self, session_id: str, rows: Sequence[EventRow]) -> Flow[dict[int, bytes]]:
        texts = {row.seq: embedded_text(row, self._codec.decode(session_id, row)) for row in rows}
        texts = {seq: text for seq, text in texts.items() if text.strip()}
        packed: dict[int, bytes] = {}
        for part in _parts(texts):
            found = yield from embed_texts(self._embedder, part)
            packed.update((seq, packed_numbers(vector)) for seq, vector in found.items())
        return {seq: data for seq, data in packed.items() if data}

    def catch_up_all(self, app: str, owner: Owner, progress: Callable[[str, int], None] | None = None) -> Flow[int]:
        """Embed what waits in all sessions, one after the other; how many events were embedded."""
        total = 0
        after: tuple[int, int] | None = None
        while True:
            query = SessionQuery(app=app, owner=owner, now=self._now(), limit=WALK, after=after)
            page = yield from ask(self._store.list_sessions, query)
            for session in page.rows:
                added = yield from self._catch_up_or_pass(SessionKey(session.app, session.id, session.user_id))
                total += added
                if progress is not None:
                    progress(session.id, added)
            after = page.after
            if after is None:
                return total

    def _catch_up_or_pass(self, key: SessionKey) -> Flow[int]:
        try:
            return (yield from self.catch_up(key))
        except SessionNotFoundError:  # deleted in between
            return 0

    def work_off(self, waiting: dict[SessionKey, None], stops: Callable[[], bool]) -> Flow[None]:
        """Embed one log after the other, quietly: what fails here is noticed again by the next search.

        Args:
            waiting: The logs; others may be added meanwhile, by other threads too.
            stops: Whether to leave the rest for another time.
        """
        holder = uuid.uuid4().hex
        while waiting and not stops():
            key, _ = waiting.popitem()
            if not (yield from self._catch_up_quietly(key, holder, stops)):
                # The embedder is down: each of the others would only wait for it in turn.
                waiting.clear()

    def _catch_up_quietly(self, key: SessionKey, holder: str, stops: Callable[[], bool]) -> Flow[bool]:
        try:
            yield from self.catch_up(key, holder=holder, stops=stops)
        except EmbeddingError:  # it said so itself; other logs would not fare better
            return False
        except (StoreError, SessionNotFoundError, SealedEventError):
            return True
        return True


def embedded_text(row: EventRow, message: BaseMessage) -> str:
    """What of an event is embedded: who says it, where that is known, and what; empty where it says nothing."""
    if row.flags & BLANKED:
        return ""
    text, speaker = searchable_text(message), row.author or speaker_of(message)
    return f"{speaker}: {text}" if speaker and text.strip() else text


def embed_texts(embedder: Embedder, texts: dict[int, str]) -> Flow[dict[int, list[float]]]:
    """Embed what can be: a text that the embedder refuses is left to its words, or it would hold up all others.

    Raises:
        EmbeddingError: It is not the texts: the embedder does not even answer for one that it knows.
    """
    try:
        vectors = yield from ask(embedder.documents, list(texts.values()))
    except EmbeddingError:
        found: dict[int, list[float]] = {}
        for seq, text in texts.items():
            vector = yield from _alone(embedder, text)
            if vector is not None:
                found[seq] = vector
        return found
    return dict(zip(texts, vectors, strict=True))


def _alone(embedder: Embedder, text: str) -> Flow[list[float] | None]:
    try:
        return (yield from ask(embedder.documents, [text]))[0]
    except EmbeddingError:
        if (yield from ask(embedder.is_well)):
            return None
        raise


def _parts(texts: dict[int, str]) -> Iterator[dict[int, str]]:
    """Texts in parts that even a slow model answers in time: as many as hold some pages together, at least one."""
    part: dict[int, str] = {}
    size = 0
    for seq, text in texts.items():
        length = min(len(text), LONGEST_TEXT)
        if part and size + length > _TOGETHER:
            yield part
            part, size = {}, 0
        part[seq] = text
        size += length
    if part:
        yield part
