"""Whether what recall keeps of a log is what the log says: its index, and its copies on shelves; and making it so."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Final

from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import MESSAGE_CODES
from langchain_sessions._recall.index.buckets import Bucket, split_occurrences
from langchain_sessions._recall.index.inverted import LEFT_OUT
from langchain_sessions._recall.index.shelves import OpenShelf, ShelfTraits, ShelvedLog
from langchain_sessions.errors import (
    CorruptRowError,
    SealedEventError,
    SessionNotFoundError,
    StoreUnavailableError,
)
from langchain_sessions.stores._values import IndexedLog, IndexQuery, SearchedLogs, ShelfChange

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from langchain_sessions._core.rows import EventRow, SessionKey, SessionRow
    from langchain_sessions._recall.index.indexing import Indexer
    from langchain_sessions._recall.index.shelving import Shelver
    from langchain_sessions.stores._values import EventSlice, IndexRead, StoredShelf

# Times that a log may move on while it is compared.
_TRIES: Final = 5
_MOST_KEPT: Final = 64

_Copies = dict[int, bytes]
"""By the key of a session, a digest of all that a shelf holds of its log."""


class Mender:
    """Compares what recall keeps with the logs, and builds anew what differs.

    Args:
        indexer: Keeps the indexes.
        shelver: Keeps the shelves.
    """

    def __init__(self, indexer: Indexer, shelver: Shelver) -> None:
        self._indexer = indexer
        self._store = indexer.store
        self._shelver = shelver
        # To take a shelf apart takes long, and a check of all sessions of an owner meets it for each of them.
        self._known: OrderedDict[tuple[int, int], _Copies] = indexer.builder.taken_apart

    def verify(self, key: SessionKey) -> Flow[list[str]]:
        """Compare the index of a log and its copies with what the log says; a line for each difference.

        Raises:
            SessionNotFoundError: There is none for this key.
            CorruptRowError: The index, or a message, cannot be read.
            StoreUnavailableError: The log kept changing.
        """
        found = yield from self._indexer.verify(key)
        return found + (yield from self._verify_copies(key))

    def mend(self, key: SessionKey) -> Flow[int]:
        """Build anew what of it differs from the log; how many events were indexed for it.

        Where a message cannot be read, or the log keeps changing, all stays as it is.

        Raises:
            SessionNotFoundError: There is none for this key.
        """
        try:
            if (yield from self._verify_copies(key)):
                session = yield from self._session(key)
                gone = ShelfChange(app=session.app, owner=session.user_id, logs={session.skey: session.last_seq})
                yield from ask(self._store.write_shelf, gone)
            if (yield from self._indexer.is_wrong(key)):
                yield from self._indexer.require_readable(key)
                return (yield from self._indexer.rebuild(key))
        except (CorruptRowError, SealedEventError, StoreUnavailableError):
            return 0
        return 0

    def _session(self, key: SessionKey) -> Flow[SessionRow]:
        session = yield from ask(self._store.find_session, key, self._indexer.now())
        if session is None:
            raise SessionNotFoundError(key.id)
        return session

    def _verify_copies(self, key: SessionKey) -> Flow[list[str]]:
        if self._indexer.codec.encrypts:  # nothing of its logs is copied
            return []
        for _ in range(_TRIES):
            session = yield from self._session(key)
            query = IndexQuery(
                searched=SearchedLogs(app=key.app, owner=key.owner, session_id=key.id, now=self._indexer.now()),
                fingerprint=self._indexer.builder.fingerprint,
                buckets=(),
                only=(session.skey,),
                whole_shelves=None,
            )
            read = yield from ask(self._store.load_index, query)
            # What was copied before the log went on is not searched.
            if not read.shelves or session.skey in read.apart:
                return []
            events = EventQuery(kinds=MESSAGE_CODES)
            rows = yield from ask(self._store.find_events, key, events, self._indexer.now())
            if rows.view.last_seq == session.last_seq:
                return self._differences(session, rows, read)
        problem = "The log kept changing while its copy was compared; try again."
        raise StoreUnavailableError(problem)

    def _differences(self, session: SessionRow, rows: EventSlice, read: IndexRead) -> list[str]:
        foreign = [shelf for shelf in read.shelves if shelf.fingerprint not in ("", self._indexer.builder.fingerprint)]
        if foreign:  # of another release or language: the next search makes it anew
            return []
        log = IndexedLog(session, rows.view, (), {}, rows.rows)
        held = False
        for shelf in read.shelves:
            buckets = {name: bytes(data) for name, data in read.shelf_buckets.get(shelf.number, {}).items() if name}
            try:
                found = ShelfTraits.unpack(shelf.traits) if shelf.fingerprint else None
                copies = {} if found is None else self._copies(shelf, found, buckets)
            except UNREADABLE:
                return ["a shelf with a copy of the log cannot be read"]
            copy = None if found is None else found.by_key.get(session.skey)
            if found is None or copy is None or copy.last_seq != session.last_seq:
                continue
            held = True
            fresh = self._fresh(log, _left_out(found, copy, rows.rows))
            if not fresh.logs or copies[copy.skey] != _taken_apart(fresh.traits(), _packed(fresh))[copy.skey]:
                return ["the copy on a shelf differs from the log"]
            if not fresh.names <= found.names:
                return ["a shelf does not know who speaks in the log"]
        return [] if held else ["the log is said to be on a shelf, and is on none"]

    def _fresh(self, log: IndexedLog, without: Collection[int]) -> OpenShelf:
        """A shelf with nothing but the log, as it would be made now, of some events without words."""
        shelf = OpenShelf()
        try:
            self._shelver.add(shelf, log, without)
        except UNREADABLE as error:
            problem = f"A message of session {log.session.id!r} cannot be read."
            raise CorruptRowError(problem) from error
        return shelf

    def _copies(self, shelf: StoredShelf, traits: ShelfTraits, buckets: Mapping[str, bytes]) -> _Copies:
        """What a shelf holds, by log; known as long as its bytes stay as they are."""
        checksum = zlib.crc32(shelf.traits)
        for name in sorted(buckets):
            checksum = zlib.crc32(buckets[name], zlib.crc32(name.encode(), checksum))
        place = shelf.number, checksum
        known = self._known.get(place)
        if known is None:
            known = self._known[place] = _taken_apart(traits, buckets)
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return known


def _left_out(shelf: ShelfTraits, copy: ShelvedLog, rows: Sequence[EventRow]) -> set[int]:
    """Of which events a copy has no words, told by its slots, which are in the order of the log."""
    flags = shelf.traits.flags[copy.first : copy.first + copy.slots]
    return {row.seq for row, each in zip(rows, flags, strict=False) if each & LEFT_OUT}


def _packed(shelf: OpenShelf) -> Mapping[str, bytes]:
    return shelf.chunk.postings.pack()


def _taken_apart(shelf: ShelfTraits, buckets: Mapping[str, bytes]) -> _Copies:
    """Digests of the logs of a shelf: of what is known of their events, and of every term with its places."""
    size = len(shelf.traits.passage_lengths)
    firsts = shelf.traits.firsts or range(len(shelf.traits.seqs) + 1)
    starts = [firsts[log.first] for log in shelf.logs]
    events = list(shelf.traits.events())
    told: defaultdict[int, list[str]] = defaultdict(list)
    for term, packed in chain.from_iterable(Bucket(buckets[name]).items() for name in sorted(buckets)):
        for index, count in zip(*split_occurrences(packed, size), strict=True):
            at = bisect_right(starts, index) - 1
            told[at].append(f"{term} {index - starts[at]} {count}")
    found: _Copies = {}
    for at, log in enumerate(shelf.logs):
        mine = events[log.first : log.first + log.slots]
        whole = (log._replace(first=0), [tuple(each) for each in mine], sorted(told[at]))
        found[log.skey] = blake2b(repr(whole).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return found
