"""Moving indexes forward behind their logs: in batches, each in one short transaction."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from langchain_sessions._core.collecting import resting_collector
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.flow import Flow, ask, give_way
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import MESSAGE_CODES
from langchain_sessions._core.rows import EventRow, SessionKey
from langchain_sessions._recall.index.buckets import Bucket, split_occurrences
from langchain_sessions._recall.index.builder import made
from langchain_sessions._recall.index.chunks import (
    LARGEST_CHUNK,
    MOST_PASSAGES_HELD,
    ChunkSize,
    OpenChunk,
    chunks_to_merge,
)
from langchain_sessions._recall.index.directories import (
    ChunkWithWords,
    DirectoryTraits,
    directory_words,
    due_directory,
    is_directory,
    is_mixed,
    make_directory,
)
from langchain_sessions._recall.index.ranking_traits import ChunkTraits
from langchain_sessions.errors import (
    CorruptRowError,
    SealedEventError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
)
from langchain_sessions.stores._values import IndexChange, IndexProgress, SessionQuery, StoredChunk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._recall.index.builder import IndexBuilder
    from langchain_sessions._recall.index.postings import Entry
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import SearchedLogs

T = TypeVar("T")
_log = logging.getLogger(__name__)
BATCH: Final = 512
"""Events that an append leaves to the next."""
_AT_ONCE: Final = 128
"""Events that are read and taken apart at once: what bounds how long others of an event loop wait."""
_ALL: Final = 1 << 16
# Steps that another process was faster with, before a caller stops trying: the index moves on all the same.
_LOST: Final = 5
# Of an owner's newest sessions: a check of all of them would take as long as they are many.
_ASKED: Final = 100
# With those of a step the number of a passage stays within 16 bits, even where passages hold hardly a word.
_MOST_PASSAGES_MERGED: Final = 32_768


class Indexer:
    """Keeps the indexes of a store.

    Args:
        store: Where logs and indexes lie.
        codec: Reads the messages.
        builder: Makes the entries.
        now: The present in microseconds.
    """

    def __init__(self, store: SessionStore, codec: MessageCodec, builder: IndexBuilder, now: Callable[[], int]) -> None:
        self.store = store
        self.codec = codec
        self.builder = builder
        self.now = now

    def catch_up(self, key: SessionKey, directories: int = 1) -> Flow[int]:
        """Bring the index of a log to where the log ends now; how many events were added.

        What others append meanwhile is left to the next: an append that had to follow them would never come back.
        Another process that does the same wins or loses batch by batch; nothing is indexed twice. What an encrypting
        codec wrote is never indexed.

        Args:
            key: Of the session.
            directories: How many may be made beside those that a large step is followed by: each takes as long as one.

        Raises:
            SessionNotFoundError: There is none for this key.
            SealedEventError: The log holds what this codec cannot read.
        """
        added = lost = 0
        fewest, end = _AT_ONCE, None
        # Words in an index would tell what the codec hides: such logs are scanned.
        if self.codec.encrypts:
            return 0
        while lost < _LOST:
            progress = yield from ask(self.store.find_index, key, self.builder.fingerprint, self.now())
            end = progress.last_seq if end is None else min(end, progress.last_seq)
            if is_mixed(progress.chunks):  # as one of another fingerprint: what comes first takes the place of all
                progress = progress._replace(indexed_to=0, chunks=())
            if directories > 0 and (due := due_directory([number for number, *_ in progress.chunks])):
                listed = yield from self._directory(key, progress, due)
                # What cannot be listed is looked through.
                directories = directories - 1 if listed is not None else 0
                lost += not (listed and (yield from ask(self.store.write_index, key, listed, self.now())))
                continue
            if progress.indexed_to >= end:
                break
            entries, upto, fewest = yield from self._next(key, progress.indexed_to, end, fewest)
            change = yield from self._plan(key, progress, entries, upto)
            if change is not None and (yield from ask(self.store.write_index, key, change, self.now())):
                added += len(entries)
                directories += len(entries) > BATCH
            else:
                lost += 1
        return added

    def _next(
        self, key: SessionKey, after: int, end: int, at_once: int
    ) -> Flow[tuple[list[tuple[EventRow, Entry]], int, int]]:
        """The entries of one step, how far it reaches, and how many events to read at once after it.

        It reaches to the end where a chunk can hold so much: what small steps write is merged again by the next, and
        who waits for the last of them waits longer.
        """
        entries: list[tuple[EventRow, Entry]] = []
        left = MOST_PASSAGES_HELD
        while after < end and len(entries) < LARGEST_CHUNK and left > 0:
            limit = min(at_once, LARGEST_CHUNK - len(entries))
            query = EventQuery(kinds=MESSAGE_CODES, after_seq=after, limit=limit)
            found = yield from ask(self.store.find_events, key, query, self.now())
            rows = found.rows
            some = yield from made(key.id, rows, partial(self._entries, key.id, rows, found.view, left))
            entries += some
            left -= sum(len(entry.lengths) for _, entry in some)
            after = found.view.last_seq if len(some) == len(rows) < limit else some[-1][0].seq
            yield from give_way()
        # Where events are so long that a step takes few of them, the next one reads no more than it may take.
        return entries, after, at_once if left > 0 else min(_AT_ONCE, 2 * len(entries))

    def rows_of(self, key: SessionKey, chunk: StoredChunk, traits: ChunkTraits) -> Flow[list[EventRow]]:
        """The events of a chunk as the log has them; none where the session is gone."""
        query = EventQuery(kinds=MESSAGE_CODES, after_seq=traits.first_seq - 1, before_seq=chunk.last_seq + 1)
        try:
            return (yield from ask(self.store.find_events, key, query, self.now())).rows
        except SessionNotFoundError:  # deleted in between
            return []

    def with_words(
        self, key: SessionKey, chunk: StoredChunk, rows: list[EventRow], without: Collection[int]
    ) -> Flow[ChunkWithWords | None]:
        """A chunk with the words of its events but for some, in the place of what was there.

        None where it would hold more than a chunk can, or cannot be written.

        Raises:
            CorruptRowError: A message cannot be read.
            SealedEventError: The log holds what this codec cannot read.
        """
        whole = yield from made(key.id, rows, partial(self._whole, key.id, rows, without))
        if whole.passages > _MOST_PASSAGES_MERGED:
            return None
        try:
            progress = yield from ask(self.store.find_index, key, self.builder.fingerprint, self.now())
            stored = yield from ask(self.store.load_chunks, key, progress, [chunk.number], self.now())
            if not stored or stored[0][0].written != chunk.written:
                return None
            change = _change(self.builder.fingerprint, progress, whole, progress.indexed_to, (chunk.number,))
            assert change.chunk is not None  # noqa: S101 - it has rows
            is_written = yield from ask(self.store.write_index, key, change, self.now())
        except (StoreError, SessionNotFoundError):  # a full or read-only disk; deleted in between
            return None
        return (change.chunk, change.buckets) if is_written else None

    def _entries(
        self, session_id: str, rows: Iterable[EventRow], view: LogView | None, most: int = MOST_PASSAGES_HELD
    ) -> list[tuple[EventRow, Entry]]:
        """The entries of the first of some rows, as many as one step takes: long messages make a step of few.

        A long text that an edit replaced has no words in the index, or one that is edited a hundred times would have a
        hundred times its own: the search that needs them has the chunk made whole.
        """
        found: list[tuple[EventRow, Entry]] = []
        passages = 0
        for row in rows:
            is_replaced = view is not None and view.edit_of(row.seq) is not None
            make = self.builder.replaced_entry if is_replaced else self.builder.stored_entry
            entry = make(session_id, row, self.codec)
            found.append((row, entry))
            passages += len(entry.lengths)
            if passages >= most:
                break
        return found

    def _plan(
        self, key: SessionKey, progress: IndexProgress, entries: Sequence[tuple[EventRow, Entry]], upto: int
    ) -> Flow[IndexChange | None]:
        """The next step: the entries in a new chunk, with small ones before it. None where somebody was faster."""
        if not entries:
            return IndexChange(progress=progress, fingerprint=self.builder.fingerprint, indexed_to=upto)
        terms = sum(sum(entry.lengths) for _, entry in entries)
        merged = chunks_to_merge(_sizes(progress), len(entries), terms)
        numbers = [chunk.number for chunk in merged]
        chunk = OpenChunk()
        if numbers:
            loaded = yield from ask(self.store.load_chunks, key, progress, numbers, self.now())
            if loaded is None:
                return None
            with resting_collector():
                for stored, buckets in loaded:
                    chunk.extend(ChunkTraits.unpack(stored.traits), buckets.values())
            if chunk.passages > _MOST_PASSAGES_MERGED:
                numbers, chunk = [], OpenChunk()

        def change() -> IndexChange:
            for row, entry in entries:
                chunk.add(self.builder.traits(row, entry), entry.passages)
            return _change(self.builder.fingerprint, progress, chunk, upto, tuple(numbers))

        yield from give_way()
        return (yield from made(key.id, [row for row, _ in entries], change))

    def _directory(self, key: SessionKey, progress: IndexProgress, due: Sequence[int]) -> Flow[IndexChange | None]:
        """A directory of some chunks; None where they cannot be read, or somebody was faster."""
        loaded = yield from ask(self.store.load_chunks, key, progress, due, self.now())
        if loaded is None or len(loaded) < len(due):
            return None
        try:
            with resting_collector():
                chunk, buckets = make_directory(loaded, progress.generation + 1)
        except UNREADABLE:
            return None
        upto, mark = progress.indexed_to, self.builder.fingerprint
        return IndexChange(progress=progress, fingerprint=mark, indexed_to=upto, chunk=chunk, buckets=buckets)

    def catch_up_wholly(self, key: SessionKey) -> Flow[int]:
        """`catch_up` with all directories: an index that was built before there were any has none."""
        return (yield from self.catch_up(key, directories=_ALL))

    def catch_up_quietly(self, key: SessionKey) -> Flow[None]:
        """`catch_up` beside something that has succeeded: what fails here is done by the next search."""
        try:
            yield from self.catch_up(key)
        except (StoreError, SessionNotFoundError, SealedEventError):
            return
        except Exception as error:  # noqa: BLE001 - the append beside it happened: to raise would call it failed
            _log.error("The index of session %r did not move: %s", key.id, type(error).__name__)

    def verify(self, key: SessionKey) -> Flow[list[str]]:
        """Compare the index of a log with what the log says; a line for each difference.

        Raises:
            SessionNotFoundError: There is none for this key.
            StoreUnavailableError: The index kept changing.
        """
        for _ in range(_LOST):
            progress = yield from ask(self.store.find_index, key, self.builder.fingerprint, self.now())
            found = yield from self._differences(key, progress)
            wrong = None if found is None else (yield from self._wrong_directories(key, progress))
            if found is not None and wrong is not None:
                return found + wrong
        problem = "The index kept changing while it was compared; try again."
        raise StoreUnavailableError(problem)

    def is_damaged(self, searched: SearchedLogs) -> Flow[bool]:
        """Whether the index of a searched log is not what its log says; of many sessions the newest are asked."""
        query = SessionQuery(app=searched.app, owner=searched.owner, now=searched.now, limit=_ASKED)
        page = () if searched.session_id is not None else (yield from ask(self.store.list_sessions, query)).rows
        keys = [searched.key] if searched.session_id is not None else [SessionKey(s.app, s.id, s.user_id) for s in page]
        for key in keys:
            if (yield from self.is_wrong(key)):
                return True
        return False

    def require_readable(self, key: SessionKey) -> Flow[None]:
        """Go through a log as if to index it.

        Raises:
            CorruptRowError: It holds what cannot be read.
        """
        after = 0
        while True:
            query = EventQuery(kinds=MESSAGE_CODES, after_seq=after, limit=BATCH)
            rows = (yield from ask(self.store.find_events, key, query, self.now())).rows
            if not rows:
                return
            entries = yield from made(key.id, rows, partial(self._entries, key.id, rows, None))
            after = entries[-1][0].seq

    def rebuild(self, key: SessionKey) -> Flow[int]:
        """Build the index of a log anew; how many events are in it."""
        progress = yield from ask(self.store.find_index, key, self.builder.fingerprint, self.now())
        empty = IndexChange(
            progress=progress._replace(indexed_to=0), fingerprint=self.builder.fingerprint, indexed_to=0
        )
        # Where somebody was faster the index moves, which only a search or an append makes it do: they see it too.
        yield from ask(self.store.write_index, key, empty, self.now())
        return (yield from self.catch_up(key))

    def is_wrong(self, key: SessionKey) -> Flow[bool]:
        """Whether the index of a log is not what the log says, or cannot be read."""
        try:
            return bool((yield from self.verify(key)))
        except CorruptRowError:
            return True
        except SessionNotFoundError:  # deleted in between
            return False

    def _differences(self, key: SessionKey, progress: IndexProgress) -> Flow[list[str] | None]:
        found: list[str] = []
        after = 0
        for number, *_ in _sizes(progress):
            loaded = yield from ask(self.store.load_chunks, key, progress, [number], self.now())
            if loaded is None:
                return None
            for stored, buckets in loaded:
                if any(type(each) is not int for each in stored[:5]) or stored.last_seq > progress.indexed_to:
                    found.append(f"chunk {number} of the index does not say how far it reaches, or how much it holds")
                    continue
                query = EventQuery(kinds=MESSAGE_CODES, after_seq=after, before_seq=stored.last_seq + 1)
                rows = (yield from ask(self.store.find_events, key, query, self.now())).rows
                after = stored.last_seq
                try:
                    contents = _contents(stored, buckets)
                    without = _left_out(stored)
                except UNREADABLE as error:
                    problem = f"Chunk {number} of the index of session {key.id!r} cannot be read."
                    raise CorruptRowError(problem) from error
                expecting = partial(self._expected, key.id, rows, stored, without)
                if contents != (yield from made(key.id, rows, expecting)):
                    found.append(f"chunk {number} of the index differs from the log")
        upto = min(progress.indexed_to, progress.last_seq)
        if progress.indexed_to:
            query = EventQuery(kinds=MESSAGE_CODES, after_seq=after, before_seq=upto + 1, limit=1)
            left = yield from ask(self.store.find_events, key, query, self.now())
            if left.rows:
                found.append("the index leaves out events that it claims to hold")
            # Read after the index was: events that came in between and are in it are no difference.
            if progress.indexed_to > left.view.last_seq:
                found.append("the index claims to hold events that the log does not have")
        return found

    def _wrong_directories(self, key: SessionKey, progress: IndexProgress) -> Flow[list[str] | None]:
        found: list[str] = []
        for number in [number for number, events, _ in progress.chunks if is_directory(number, events)]:
            is_right = yield from self._is_directory_right(key, progress, number)
            if is_right is None:
                return None
            if not is_right:
                found.append(f"directory {number} of the index differs from its chunks")
        return found

    def _is_directory_right(self, key: SessionKey, progress: IndexProgress, number: int) -> Flow[bool | None]:
        """Whether a directory says what its chunks hold; None where the index moved on."""
        loaded = yield from ask(self.store.load_chunks, key, progress, [number], self.now())
        if not loaded:
            return None
        try:
            covers = DirectoryTraits.unpack(loaded[0][0].traits).covers
            chunks = yield from ask(self.store.load_chunks, key, progress, sorted(covers), self.now())
            if chunks is None:
                return None
            there = [chunk for chunk in chunks if covers[chunk[0].number] == chunk[0].written]
            numbers = [stored.number for stored, _ in there]
            made = make_directory(there, 0) if there else (loaded[0][0], {})
            return directory_words(loaded[0], numbers) == directory_words(made, numbers)
        except UNREADABLE as error:
            problem = f"Directory {number} of the index of session {key.id!r} cannot be read."
            raise CorruptRowError(problem) from error

    def _whole(self, session_id: str, rows: list[EventRow], without: Collection[int] = ()) -> OpenChunk:
        """A chunk of rows, without the words of some."""
        chunk = OpenChunk()
        for row in rows:
            if row.seq in without:
                entry = self.builder.without_words(row)
            else:
                entry = self.builder.stored_entry(session_id, row, self.codec)
            chunk.add(self.builder.traits(row, entry), entry.passages)
        return chunk

    def _expected(
        self, session_id: str, rows: list[EventRow], stored: StoredChunk, without: Collection[int]
    ) -> _Contents:
        chunk = self._whole(session_id, rows, without)
        if not chunk.traits:
            return b"", []
        packed = ChunkTraits.of(chunk.traits).pack()
        return _contents(stored._replace(traits=packed), chunk.postings.pack())


def _sizes(progress: IndexProgress) -> list[ChunkSize]:
    """The chunks of an index but for its directories."""
    return [ChunkSize(*chunk) for chunk in progress.chunks if not is_directory(chunk[0], chunk[1])]


def _left_out(stored: StoredChunk) -> set[int]:
    """Of which events a chunk has no words. They may be left out of any: who needs them has it made whole."""
    traits = ChunkTraits.unpack(stored.traits)
    return {traits.first_seq + traits.seqs[index] for index in traits.left_out}


_Contents = tuple[bytes, list[tuple[str, str, list[int], bytes]]]


def _contents(stored: StoredChunk, buckets: Mapping[str, bytes]) -> _Contents:
    """The traits of a chunk, and the terms of each bucket in order: in which passages, and how often."""
    traits, terms = ChunkTraits.unpack(stored.traits), list[tuple[str, str, list[int], bytes]]()
    # A bucket is gone through once: to look up each of its terms would take the square of its length.
    for name, bucket in buckets.items():
        for term, packed in Bucket(bytes(bucket)).items():
            numbers, counts = split_occurrences(packed, len(traits.passage_lengths))
            terms.append((name, term, list(numbers), bytes(counts)))
    return traits.pack(), sorted(terms)


def _change(
    fingerprint: str, progress: IndexProgress, chunk: OpenChunk, upto: int, replaced: tuple[int, ...]
) -> IndexChange:
    traits = ChunkTraits.of(chunk.traits)
    events = len(chunk.traits)
    number = replaced[0] if replaced else max((size.number for size in _sizes(progress)), default=0) + 1
    return IndexChange(
        progress=progress,
        fingerprint=fingerprint,
        indexed_to=upto,
        replaced=replaced,
        chunk=StoredChunk(number, chunk.traits[-1].seq, events, chunk.terms, progress.generation + 1, traits.pack()),
        buckets=chunk.postings.pack(),
    )
