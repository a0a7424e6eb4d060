"""What was read for a search, as parts to rank, and what is found in them."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from langchain_sessions._core.ledger import LogView
from langchain_sessions._core.message_types import OF_TOOLS
from langchain_sessions._recall.index.buckets import bucket_of
from langchain_sessions._recall.index.builder import IndexBuilder, only_term, tool_term
from langchain_sessions._recall.index.chunks import PackedEvents
from langchain_sessions._recall.index.directories import FIRST, is_directory
from langchain_sessions._recall.index.postings import Segment
from langchain_sessions._recall.index.shelves import GAP, LONGEST_LOG, Copies, ShelfEvents, ShelfTraits
from langchain_sessions._recall.rank.admission import TAKEN_BACK
from langchain_sessions.filters import AnyBranch
from langchain_sessions.stores._values import IndexedLog, IndexQuery, shelf_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions._recall.index.postings import Entry
    from langchain_sessions._recall.index.traits_cache import ChunkKey, TraitsCache
    from langchain_sessions._recall.rank.admission import Admission
    from langchain_sessions._recall.rank.many_logs import Found
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import IndexRead

MOST_APART: Final = 24
"""How many logs are read one by one before they are put on a shelf."""

_NEAREST: Final = 5
_PLAIN: Final = LogView()

T = TypeVar("T")


class SessionName(Protocol):
    """What is known of the session of a hit: the store's own key, and its id."""

    @property
    def skey(self) -> int:
        """The key."""
        ...

    @property
    def id(self) -> str:
        """The id."""
        ...


@dataclass(slots=True)
class Finding:
    """A hit on its way: which log, which event, which of its passages where that is known, and why.

    Attributes:
        session: The session of its log.
        view: Where the events of the log stand, as far as it was read.
        seq: Which event.
        score: How well it fits.
        parts: What each reason added.
        row: The event, where it was read.
        passage: Which of its passages was found, where that is known.
        spot: The searched part that it is in, and its index there.
        is_unsure: Whether the log has to be asked if it counts.
    """

    session: SessionName
    view: LogView
    seq: int
    score: float
    parts: Mapping[str, float]
    row: EventRow | None = None
    passage: int | None = None
    spot: tuple[int, int] | None = None
    is_unsure: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Where it is: the key of its session and its position."""
        return self.session.skey, self.seq


class KnownTraits(Generic[T]):
    """Traits of chunks, or of shelves: those that were read just now, and those that this process had.

    Args:
        cache: Where to keep them.
    """

    def __init__(self, cache: TraitsCache[T]) -> None:
        self._cache = cache
        # Whatever was told to be known stays so for the whole search.
        self._held: dict[ChunkKey, T] = {}

    def __contains__(self, place: object) -> bool:
        """Whether a place need not be read."""
        if place in self._held:
            return True
        known = self._cache.get(place)  # type: ignore[arg-type]
        if known is None:
            return False
        self._held[place] = known  # type: ignore[index]
        return True

    def of(self, place: ChunkKey, packed: bytes) -> T:
        """What is at a place."""
        known = self._held.get(place)
        if known is None:
            known = self._held[place] = self._cache.put(place, packed)
        return known


class Traits:
    """The traits of chunks and of shelves, for one search; it holds the places of those that need not be read.

    Args:
        builder: Made them.
        store: Where they lie.
    """

    def __init__(self, builder: IndexBuilder, store: SessionStore) -> None:
        chunks, self._shelf_cache, directories, self.logs = builder.caches(store)
        self.chunks = KnownTraits(chunks)
        self.shelves = KnownTraits(self._shelf_cache)
        self.directories = KnownTraits(directories)
        self.apart = self._shelf_cache.apart

    def __contains__(self, place: object) -> bool:
        """Whether something is known."""
        # `shelf_key` has no session.
        if not place[0]:  # type: ignore[index]
            return place in self.shelves
        return place in self.chunks or (place[1] >= FIRST and place in self.directories)  # type: ignore[index]

    def copied(self, numbers: Sequence[int]) -> Copies | None:
        """What shelves of some numbers hold; None where one of them has to be read first."""
        if not all(shelf_key(number) in self.shelves for number in numbers):
            return None
        return self._shelf_cache.copies([(number, self.shelves.of(shelf_key(number), b"")) for number in numbers])

    def keep(self, key: SessionKey, logs: Sequence[IndexedLog]) -> None:
        """Keep which chunks the index of a log consists of."""
        for log in logs:
            skey = log.session.skey
            for chunk in log.chunks:
                if is_directory(chunk.number, chunk.events) and chunk.traits:
                    self.directories.of((skey, chunk.number, chunk.written), chunk.traits)
            if log.chunks and (skey, log.generation) not in self.logs.of(key):
                self.logs.put(key, skey, log.generation, log.chunks)

    def searched_shelves(self, read: IndexRead) -> list[ShelfEvents]:
        """The shelves that were read, without what is to be searched elsewhere."""
        found = [(each.number, self.shelves.of(shelf_key(each.number), each.traits)) for each in read.shelves]
        stale = self._shelf_cache.stale(found)
        apart = {number: stale[number] | read.apart if number in stale else read.apart for number, _ in found}
        found.sort(key=lambda each: max([log.skey for log in each[1].logs], default=0))
        return [ShelfEvents(shelf, read.shelf_buckets.get(number, {}), apart[number]) for number, shelf in found]


class ReadLogs:
    """What was read, as parts to rank, and the way back from a part to its log.

    Args:
        read: What was read.
        admission: What may be found.
        builder: Made the terms.
        codec: Reads the messages that are not indexed.
        traits: What is known of chunks and shelves.
        counted: Of chunks whose words were not read, by number and generation: in how many events each word is.

    Attributes:
        parts: Those of each log.
        unread: Those whose words were not read, by the number of the chunk.
    """

    def __init__(
        self,
        read: IndexRead,
        admission: Admission,
        builder: IndexBuilder,
        codec: MessageCodec,
        traits: Traits,
        *,
        counted: Mapping[tuple[int, int], Mapping[str, int]],
    ) -> None:
        self.unread: dict[int, PackedEvents] = {}
        self.parts: list[list[PackedEvents | Segment]] = []
        self._owners: list[IndexedLog | ShelfTraits] = []
        self._flat: list[PackedEvents | Segment] = []
        self._tails: list[list[EventRow]] = []
        # Of logs on shelves it is known only how long they are, and many are of a length.
        self._views: dict[int, LogView] = {}
        tests: list[Callable[[int], bool] | None] = []
        for shelf in traits.searched_shelves(read):
            admission.hide_calls(shelf)
            self._take(shelf.shelf, [shelf], [[]])
            tests.append(admission.quick(shelf, _PLAIN))
        for log in read.logs:
            chunks: list[PackedEvents] = []
            tails: list[list[EventRow]] = []
            for chunk in log.chunks:
                if is_directory(chunk.number, chunk.events):
                    continue
                known = traits.chunks.of((log.session.skey, chunk.number, chunk.written), chunk.traits)
                part = PackedEvents(known, chunk.terms, log.buckets.get(chunk.number, {}))
                part.counted = counted.get((chunk.number, chunk.written))
                if part.counted is not None:
                    self.unread[chunk.number] = part
                chunks.append(part)
                tails.append([])
                tests.append(admission.quick(part, log.view))
            admission.hide(chunks, log.view)
            parts: list[PackedEvents | Segment] = [*chunks]
            if log.tail:
                segment, admitted = _segment(log, admission, builder, codec)
                parts.append(segment)
                tails.append(log.tail)
                tests.append(admitted.__contains__ if len(admitted) < len(log.tail) else None)
            for each in parts:
                admission.hide_calls(each)
            self._take(log, parts, tails)
        filtered = tests.count(None) < len(tests)

        def admits(number: int, index: int) -> bool:
            test = tests[number]
            return test is None or test(index)

        self.admits: Callable[[int, int], bool] | None = admits if filtered else None
        self.events = sum([part.said for part in self._flat])

    def _take(
        self, owner: IndexedLog | ShelfTraits, parts: list[PackedEvents | Segment], tails: list[list[EventRow]]
    ) -> None:
        self._owners.extend([owner] * len(parts))
        self._flat.extend(parts)
        self._tails.extend(tails)
        self.parts.append(parts)

    def place(self, number: int, index: int) -> tuple[int, int]:
        """The session key and the position of an event by its part."""
        part, owner = self._flat[number], self._owners[number]
        skey = owner.log_at(index).skey if isinstance(owner, ShelfTraits) else owner.session.skey
        if isinstance(part, PackedEvents):
            return skey, part.traits.first_seq + part.traits.seqs[index]
        return skey, self._tails[number][index].seq

    def finder(self, hidden: Callable[[int, int], bool]) -> Callable[[int, int], tuple[int, int] | None]:
        """What tells part and index of an event by session key and position; None where it may not be found."""
        parts: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners):
            for skey in owner.by_key if isinstance(owner, ShelfTraits) else (owner.session.skey,):
                parts.setdefault(skey, []).append(number)

        def find(skey: int, seq: int) -> tuple[int, int] | None:
            for number in parts.get(skey, ()):
                index = self._index(number, skey, seq)
                if index is not None and not hidden(number, index):
                    return (number, index) if self.admits is None or self.admits(number, index) else None
            return None

        return find

    def _index(self, number: int, skey: int, seq: int) -> int | None:
        """Which event of a part is at a position of a log."""
        part, owner = self._flat[number], self._owners[number]
        if not isinstance(part, PackedEvents):
            seqs: Sequence[int] = [row.seq for row in self._tails[number]]
            low, high = 0, len(seqs)
        else:
            seqs, seq = part.traits.seqs, seq - part.traits.first_seq
            low, high = 0, len(seqs)
            if isinstance(owner, ShelfTraits):
                log = owner.by_key[skey]
                # What does not count keeps its place there, and no position.
                try:
                    return seqs.index(seq, log.first, log.first + log.slots)
                except ValueError:
                    return None
        at = bisect_left(seqs, seq, low, high)
        return at if at < high and seqs[at] == seq else None

    def hits(self, found: Iterable[Found]) -> list[Finding]:
        """The found events by their logs."""
        hits: list[Finding] = []
        owners, flat, views = self._owners, self._flat, self._views
        for each in found:
            number, index = spot = each.segment, each.index
            _, score, why, passage = each.ranked
            owner, part = owners[number], flat[number]
            if not isinstance(part, PackedEvents):
                assert isinstance(owner, IndexedLog)  # noqa: S101 - shelves have no tails
                row = self._tails[number][index]
                hits.append(Finding(owner.session, owner.view, row.seq, score, why, row, passage, spot))
                continue
            seq = part.traits.first_seq + part.traits.seqs[index]
            if isinstance(owner, ShelfTraits):
                log = owner.log_at(index)
                view = views.get(log.last_seq)
                if view is None:
                    view = views[log.last_seq] = LogView(last_seq=log.last_seq)
                hits.append(Finding(log, view, seq, score, why, None, passage, spot, log.is_unsure))
            else:
                hits.append(Finding(owner.session, owner.view, seq, score, why, None, passage, spot))
        return hits

    def around(self, hit: Finding, neighbours: int, reach: int) -> tuple[int, int]:
        """Between which positions so many neighbours of a hit lie on each side, as far as its part tells, or a reach.

        Between them lie records; a long text that nobody is shown is not read.
        """
        low, high = hit.seq - reach, hit.seq + reach
        number, index = hit.spot or (0, 0)
        part, owner = self._flat[number], self._owners[number]
        if hit.spot is None or not isinstance(part, PackedEvents):
            return low, high
        log = owner.log_at(index) if isinstance(owner, ShelfTraits) else None
        first, end = (0, part.events) if log is None else (log.first, log.first + log.slots)
        return (
            max(low, self._nth(number, range(index - 1, first - 1, -1), neighbours, low)),
            min(high, self._nth(number, range(index + 1, end), neighbours, high)),
        )

    def _nth(self, number: int, indexes: Iterable[int], count: int, otherwise: int) -> int:
        """Where the nth of some events of a part stands that may be shown."""
        part = self._flat[number]
        assert isinstance(part, PackedEvents)  # noqa: S101 - `around` asks of no other
        admits, taken, hidden = self.admits, part.taken, part.hidden
        seqs, first = part.traits.seqs, part.traits.first_seq
        for index in indexes if count else ():
            is_seen = index not in hidden and (taken is None or taken[index])
            if is_seen and (admits is None or admits(number, index)):
                count -= 1
                if not count:
                    return first + seqs[index]
        return otherwise

    def terms_of(self, hit: Finding) -> int:
        """How many terms a hit has, as far as the index tells; 0 where it is not in it."""
        part = None if hit.spot is None else self._flat[hit.spot[0]]
        return part.traits.lengths[hit.spot[1]] if hit.spot and isinstance(part, PackedEvents) else 0

    def instant(self, hit: Finding) -> float:
        """When a hit was said, to the second."""
        if hit.row is not None:
            return hit.row.at / 1_000_000
        return 0.0 if hit.spot is None else self._flat[hit.spot[0]].instant(hit.spot[1])

    def nearest(self, query: Query) -> tuple[str, ...]:
        """Terms of the logs that are written most like the query's."""
        words = {
            term
            for part in self._flat
            for term in (part.vocabulary() if isinstance(part, PackedEvents) else part.postings)
            if ":" not in term
        }
        found: dict[str, None] = {}
        for group in query.groups[:8]:
            near = difflib.get_close_matches(group[0].rstrip("*"), words, n=2 * _NEAREST, cutoff=0.6)
            found.update(dict.fromkeys(filter(self._is_in_sight, near)))
        return tuple(found)[:_NEAREST]

    def _is_in_sight(self, term: str) -> bool:
        """Whether an event holds a term that may be returned."""
        for number, part in enumerate(self._flat):
            occurring = part.find(term)
            for index, _ in () if occurring is None else occurring.pairs():
                if part.taken is not None and not part.taken[index]:
                    continue
                if index not in part.hidden and (self.admits is None or self.admits(number, index)):
                    return True
        return False


def _segment(
    log: IndexedLog, admission: Admission, builder: IndexBuilder, codec: MessageCodec
) -> tuple[Segment, set[int]]:
    """The events after the index, inverted in memory; and which of them may be returned."""
    segment = Segment()
    admitted: set[int] = set()
    for row in log.tail:
        if not admission.counts(row, log.view):
            make = builder.stored_entry if log.view.edit_of(row.seq) is None else builder.replaced_entry
            segment.hidden.add(segment.add(_voiced(row, make(log.session.id, row, codec))))
            continue
        index = segment.add(_voiced(row, builder.stored_entry(log.session.id, row, codec)))
        is_admitted = admission.admits(row, log.view)
        if is_admitted and admission.asks_messages:
            is_admitted = admission.admits_message(row, codec.decode(log.session.id, row))
        if is_admitted:
            admitted.add(index)
    return segment, admitted


def _voiced(row: EventRow, entry: Entry) -> Entry:
    """An entry as ranking knows it: what a tool returned was said by nobody."""
    return entry if row.kind not in OF_TOOLS else entry._replace(author=None)


def index_query(request: SearchRequest, query: Query, builder: IndexBuilder) -> IndexQuery:
    """What to read of the index for a query."""
    terms = list(chain.from_iterable(query.groups))
    whole = [term for term in terms if not term.endswith("*")]
    begun = [term[:-1] for term in terms if term.endswith("*")]
    whole += [*map(tool_term, request.where.tools), *map(only_term, request.where.without_tools)]
    # One letter may begin many buckets; two lie in one.
    short = [start for start in begun if bucket_of(start + "zz") != bucket_of(start)]
    whole += [start for start in begun if start not in short]
    return IndexQuery(
        searched=request.searched,
        fingerprint=builder.fingerprint,
        buckets=tuple(sorted({bucket_of(term) for term in whole})),
        beginnings=tuple(sorted(set(short))),
        most_scanned=builder.settings.scanned,
        most_apart=MOST_APART if _may_be_shelved(request, builder) else None,
        longest_shelved=LONGEST_LOG,
    )


def _may_be_shelved(request: SearchRequest, builder: IndexBuilder) -> bool:
    """Whether shelves can answer: they leave out what was taken back, and do not tell branches of logs apart."""
    where = request.where
    return (
        request.searched.session_id is None
        and builder.settings.weights.reach <= GAP
        and isinstance(where.branch, AnyBranch)
        and not where.standings & TAKEN_BACK
    )
