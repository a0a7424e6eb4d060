"""Putting logs on shelves: an owner's many small indexes copied end to end, so that a search reads few large ones."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langchain_sessions._core.collecting import resting_collector
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.message_types import OF_TOOLS
from langchain_sessions._core.once import kept
from langchain_sessions._core.rows import SessionKey
from langchain_sessions._recall.findings import MOST_APART, Traits
from langchain_sessions._recall.index.chunks import PackedEvents
from langchain_sessions._recall.index.directories import is_directory
from langchain_sessions._recall.index.inverted import LABELLED
from langchain_sessions._recall.index.mending import Mender
from langchain_sessions._recall.index.ranking_traits import ChunkTraits
from langchain_sessions._recall.index.shelves import (
    GAP,
    LONGEST_LOG,
    MOST_PASSAGES,
    MOST_SLOTS,
    MOST_TERMS,
    OpenShelf,
    ShelfTraits,
    ShelvedLog,
    stale_copies,
)
from langchain_sessions._recall.rank.admission import Admission
from langchain_sessions._recall.text.speakers import labels_in
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.filters import EventFilter
from langchain_sessions.stores._values import (
    WALK,
    IndexQuery,
    IndexRead,
    SearchedLogs,
    SessionQuery,
    ShelfChange,
    StoredShelf,
    shelf_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.rows import Owner
    from langchain_sessions._recall.findings import KnownTraits
    from langchain_sessions._recall.index.indexing import Indexer
    from langchain_sessions._recall.index.postings import Entry
    from langchain_sessions.stores._values import IndexedLog, UnshelvedLog

_EVERYTHING: Final = 2**62
_MOST_READ: Final = 2048
"""Events that are read at once, about."""
# Keys that one statement names, too.
_MOST_LOGS: Final = 256
_MOST_NUMBERED: Final = 50_000
"""Passages of a shelf, about: with the slots between logs they are numbered by 16 bits."""
_LONGEST_TAIL: Final = 128
"""Events that are inverted on the way to a shelf; a log with more of them has an index of its own first."""


class Shelver:
    """Keeps the shelves of owners.

    Args:
        indexer: Keeps the indexes of which they are copies.
        encoder: Knows what counts.
    """

    def __init__(self, indexer: Indexer, encoder: EventEncoder) -> None:
        self._indexer = indexer
        self._store = indexer.store
        self._builder = indexer.builder
        self._admission = Admission(EventFilter(), encoder.codec)
        self._shelves_known = self._builder.caches(self._store).shelves

    @kept
    def mender(self) -> Mender:
        """What compares it all with the logs; no search needs it."""
        return Mender(self._indexer, self)

    def is_current(self, read: IndexRead) -> bool:
        """Whether all shelves were built as this one builds them."""
        return all(shelf.fingerprint == self._builder.fingerprint for shelf in read.shelves)

    def shelve(self, searched: SearchedLogs, read: IndexRead, traits: KnownTraits[ShelfTraits]) -> Flow[int]:
        """Put on shelves what is on none; how many logs were, or are found to be for none. Shelves of another make go.

        Small shelves, and those of which the most is outdated, are put together with the new one, so a log is copied a
        few times in its life while the number of shelves stays near events / `MOST_SLOTS`.
        """
        owner = searched.owner if isinstance(searched.owner, str) else None
        foreign = tuple(shelf.number for shelf in read.shelves if shelf.fingerprint != self._builder.fingerprint)
        if foreign:
            dropped = ShelfChange(app=searched.app, owner=owner, replaced=foreign)
            return int((yield from ask(self._store.write_shelf, dropped)))
        known = {shelf.number: traits.of(shelf_key(shelf.number), shelf.traits) for shelf in read.shelves}
        gone = {log.skey for log in read.unshelved}
        waiting = sorted(read.unshelved, key=lambda log: log.skey)
        moved = 0
        apart = self._shelves_known.apart
        while waiting:
            shelf = OpenShelf()
            waiting = yield from self._fill(searched, shelf, waiting)
            if not shelf.logs:
                break
            replaced = _to_take(known, gone, shelf)
            for number in replaced:
                yield from self._take(searched, shelf, number, known, gone)
            filled = shelf.traits()
            change = self._change(searched.app, owner, shelf, filled, replaced)
            if change.shelf is None or not (yield from ask(self._store.write_shelf, change)):
                break
            moved += len(shelf.logs)
            known = {number: each for number, each in known.items() if number not in replaced}
            known[change.shelf.number] = filled
            gone -= {log.skey for log in shelf.logs}
        # Those that no shelf takes count too: nobody tries again before they move on.
        return moved + sum((log.skey, log.last_seq) in apart for log in read.unshelved)

    def reindex(self, app: str, owner: Owner, progress: Callable[[str, int], None] | None = None) -> Flow[int]:
        """Bring the indexes of all sessions up to date, one after the other; how many events were added.

        What there is is compared with the logs first, and made anew where it differs. Where an owner has so many
        sessions that a search would put them on shelves, that is done here. It may be stopped at any time and goes on
        where it was.
        """
        now = self._indexer.now
        mended = yield from self._mend_all(app, owner)
        total = sum(mended.values())
        shelved: dict[str | None, Mapping[int, int]] = {}
        after: tuple[int, int] | None = None
        while True:
            query = SessionQuery(app=app, owner=owner, now=now(), limit=WALK, after=after)
            page = yield from ask(self._store.list_sessions, query)
            for session in page.rows:
                whose = session.user_id
                if whose not in shelved:
                    searched = SearchedLogs(app=app, owner=whose, session_id=None, now=now())
                    shelved[whose] = yield from self._shelve_all(searched)
                added = shelved[whose].get(session.skey)
                try:
                    if added is None:
                        key = SessionKey(session.app, session.id, session.user_id)
                        added = yield from self._indexer.catch_up_wholly(key)
                except SessionNotFoundError:  # deleted in between
                    continue
                total += added
                if progress is not None:
                    progress(session.id, added + mended.get(session.skey, 0))
            after = page.after
            if after is None:
                return total

    def _mend_all(self, app: str, owner: Owner) -> Flow[dict[int, int]]:
        """Make anew what differs from its log; by the key of a session how many events were indexed for it."""
        found: dict[int, int] = {}
        after: tuple[int, int] | None = None
        while True:
            query = SessionQuery(app=app, owner=owner, now=self._indexer.now(), limit=WALK, after=after)
            page = yield from ask(self._store.list_sessions, query)
            for session in page.rows:
                try:
                    added = yield from self.mender.mend(SessionKey(session.app, session.id, session.user_id))
                except SessionNotFoundError:  # deleted in between
                    continue
                if added:
                    found[session.skey] = added
            after = page.after
            if after is None:
                return found

    def drop(self, searched: SearchedLogs) -> Flow[bool]:
        """Delete the shelves of an owner; whether there were any."""
        if searched.session_id is not None:
            return False
        query = replace(self._query(searched, ()), only=None, beginnings=(), most_apart=_EVERYTHING)
        read = yield from ask(self._store.load_index, query)
        if not read.shelves:
            return False
        owner = searched.owner if isinstance(searched.owner, str) else None
        gone = ShelfChange(app=searched.app, owner=owner, replaced=tuple(shelf.number for shelf in read.shelves))
        return (yield from ask(self._store.write_shelf, gone))

    def _shelve_all(self, searched: SearchedLogs) -> Flow[Mapping[int, int]]:
        """Put on shelves what a search would; by the key of each session how many events that added."""
        traits = Traits(self._builder, self._store)
        query = IndexQuery(
            searched=searched,
            fingerprint=self._builder.fingerprint,
            buckets=(),
            held=traits,
            most_apart=MOST_APART,
            longest_shelved=LONGEST_LOG,
            apart=self._shelves_known.apart,
        )
        read = yield from ask(self._store.load_index, query)
        if not self.is_current(read):
            yield from self.shelve(searched, read, traits.shelves)
            read = yield from ask(self._store.load_index, query)
        on_shelves = (traits.shelves.of(shelf_key(shelf.number), shelf.traits) for shelf in read.shelves)
        found = {log.skey: 0 for shelf in on_shelves for log in shelf.logs}
        if read.unshelved and (yield from self.shelve(searched, read, traits.shelves)):
            apart = self._shelves_known.apart
            found.update(
                (log.skey, log.last_seq - log.indexed_to)
                for log in read.unshelved
                if (log.skey, log.last_seq) not in apart
            )
        return found

    @resting_collector()
    def _change(
        self, app: str, owner: str | None, shelf: OpenShelf, traits: ShelfTraits, replaced: Sequence[int]
    ) -> ShelfChange:
        return ShelfChange(
            app=app,
            owner=owner,
            # Drawn, since two processes may make shelves of one owner at once; odd, so that none is 0.
            shelf=StoredShelf(secrets.randbits(62) | 1, self._builder.fingerprint, shelf.slots, traits.pack()),
            buckets=shelf.chunk.postings.pack(),
            logs={log.skey: log.last_seq for log in shelf.logs},
            replaced=tuple(replaced),
        )

    def _query(self, searched: SearchedLogs, logs: Iterable[int], shelves: Iterable[int] = ()) -> IndexQuery:
        return IndexQuery(
            searched=searched,
            fingerprint=self._builder.fingerprint,
            buckets=(),
            beginnings=("",),
            most_scanned=_EVERYTHING,
            only=tuple(logs),
            whole_shelves=tuple(shelves),
        )

    def _fill(self, searched: SearchedLogs, shelf: OpenShelf, waiting: list[UnshelvedLog]) -> Flow[list[UnshelvedLog]]:
        """Add logs until the shelf is full; what is left. One that is gone meanwhile, or too long, is left out."""
        while waiting and not _is_full(shelf):
            some, waiting = _first(waiting)
            for log in some:
                if log.last_seq - log.indexed_to > _LONGEST_TAIL:
                    try:
                        yield from self._indexer.catch_up(log.key)
                    except SessionNotFoundError:  # deleted in between
                        continue
            query = self._query(searched, (log.skey for log in some))
            read = yield from ask(self._store.load_index, query)
            if read.behind:  # indexes of another kind
                for key in read.behind:
                    yield from self._indexer.catch_up(key)
                read = yield from ask(self._store.load_index, query)
            with resting_collector():
                later = {log.session.skey for log in read.logs if not self.add(shelf, log)}
            if later:
                return [log for log in some if log.skey in later] + waiting
        return waiting

    def _keep_apart(self, log: IndexedLog) -> bool:
        self._shelves_known.keep_apart(log.session.skey, log.session.last_seq)
        return True

    def add(self, shelf: OpenShelf, log: IndexedLog, without: Collection[int] = ()) -> bool:
        """Copy one log, of some events no words; False where it is for another shelf."""
        parts: list[PackedEvents] = []
        for chunk in log.chunks:
            if is_directory(chunk.number, chunk.events):
                continue
            buckets = {name: data for name, data in log.buckets.get(chunk.number, {}).items() if name}
            parts.append(PackedEvents(ChunkTraits.unpack(chunk.traits), chunk.terms, buckets))
        if any(self._admission.may_come_back(part.traits, log.view) for part in parts if part.traits.left_out):
            return self._keep_apart(log)  # it is read by itself, and made whole by who needs the words
        self._admission.hide(parts, log.view, for_good=True)
        make, codec = self._builder, self._indexer.codec
        tail = [
            (row, make.without_words(row) if row.seq in without else make.stored_entry(log.session.id, row, codec))
            for row in log.tail
        ]
        size = sum(part.passages for part in parts) + sum(len(entry.lengths) for _, entry in tail)
        if size > MOST_PASSAGES:
            return self._keep_apart(log)
        if size + shelf.chunk.passages > _MOST_NUMBERED and shelf.logs:
            return False
        first, passages = shelf.begin(), shelf.chunk.passages
        names: set[str] = set()
        labels: Counter[str] = Counter()
        for part in parts:
            shelf.extend(part.traits, part.buckets.values(), part.hidden)
            names.update(part.speakers)
            labels.update(part.labels)
        counts_all = self._admission.counts_all(log.view)
        for row, entry in tail:
            counts = counts_all or self._admission.counts(row, log.view)
            shelf.add(make.traits(row, entry), entry, counts=counts)
        _hear((entry for row, entry in tail if row.kind not in OF_TOOLS), names, labels)
        copied = ShelvedLog(
            log.session.skey,
            log.session.id,
            log.view.last_seq,
            first,
            shelf.slots - first,
            shelf.chunk.passages - passages,
            shelf.terms_from(first),
            self._admission.needs_row(log.view),
        )
        shelf.end(copied, names.union(labels_in(labels, copied.slots)))
        return True

    def _take(
        self,
        searched: SearchedLogs,
        shelf: OpenShelf,
        number: int,
        known: Mapping[int, ShelfTraits],
        gone: Collection[int],
    ) -> Flow[None]:
        """Add the logs of a stored shelf that nothing newer is known of."""
        read = yield from ask(self._store.load_index, self._query(searched, (), (number,)))
        buckets = {name: data for name, data in read.shelf_buckets.get(number, {}).items() if name}
        traits = known[number]
        stale = stale_copies(list(known.items())).get(number, frozenset())
        mine = {log.skey for log in shelf.logs}
        with resting_collector():
            shelf.take(traits, buckets.values(), {*gone, *stale, *mine})


def _first(logs: list[UnshelvedLog]) -> tuple[list[UnshelvedLog], list[UnshelvedLog]]:
    """As many of some logs as are read at once, and the rest."""
    size = 0
    for at, log in enumerate(logs, 1):
        size += log.last_seq + GAP
        if size >= _MOST_READ or at == _MOST_LOGS:
            return logs[:at], logs[at:]
    return logs, []


def _is_full(shelf: OpenShelf) -> bool:
    return shelf.slots + _MOST_READ > MOST_SLOTS or shelf.chunk.passages >= MOST_PASSAGES or shelf.terms > MOST_TERMS


def _to_take(known: Mapping[int, ShelfTraits], gone: Collection[int], shelf: OpenShelf) -> list[int]:
    """The shelves that are put together with a new one: small ones, and those that are mostly outdated."""
    stale = stale_copies(list(known.items()))
    left: list[tuple[int, int, ShelfTraits]] = []
    for number, traits in known.items():
        dead = {*stale.get(number, ()), *gone}
        left.append((sum(log.slots + GAP for log in traits.logs if log.skey not in dead), number, traits))
    taken: list[int] = []
    slots, passages, terms = shelf.slots, shelf.chunk.passages, shelf.terms
    for size, number, traits in sorted(left, key=lambda each: each[:2]):
        # Larger than the new one and mostly in force: copying it would cost more than reading one shelf more.
        if size > slots and 2 * size > traits.events:
            continue
        if (
            slots + size > MOST_SLOTS
            or passages + traits.passages > _MOST_NUMBERED
            or terms + traits.terms > MOST_TERMS
        ):
            continue
        taken.append(number)
        slots, passages, terms = slots + size, passages + traits.passages, terms + traits.terms
    return taken


def _hear(entries: Iterable[Entry], names: set[str], labels: Counter[str]) -> None:
    """Add who says some events, and the labels that their texts begin with."""
    for entry in entries:
        if entry.author and entry.flags & LABELLED:
            labels[entry.author] += 1
        elif entry.author:
            names.add(entry.author)
