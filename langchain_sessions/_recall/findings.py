"""What was read for a search, as parts to rank, and what is found in them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.engine import RecallEngine, only_term, tool_term
from langchain_sessions._recall.index.buckets import bucket_of
from langchain_sessions._recall.index.chunks import PackedPart
from langchain_sessions._recall.index.postings import Segment
from langchain_sessions.stores._values import IndexedLog, IndexQuery, StoredChunk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_sessions._core.codec.messages import MessageCodec
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow, SessionRow
    from langchain_sessions._recall.index.facts import ChunkFacts
    from langchain_sessions._recall.index.facts_cache import FactsCache, Place
    from langchain_sessions._recall.rank.admission import Admission
    from langchain_sessions._recall.rank.ranking import RankedEvent
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions._recall.text.grammar import Query

_NEAREST: Final = 5


@dataclass(slots=True)
class Finding:
    """A hit on its way: which log, which event, which of its passages where that is known, and why."""

    session: SessionRow
    view: LogView
    seq: int
    score: float
    parts: Mapping[str, float]
    row: EventRow | None = None
    passage: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Where it is: the key of its session and its position."""
        return self.session.skey, self.seq


class KnownFacts:
    """The facts of chunks: those that were read just now, and those that this process had.

    Args:
        cache: Where to keep them.
        held: What was there before the store was asked.
    """

    def __init__(self, cache: FactsCache, held: Mapping[Place, ChunkFacts]) -> None:
        self._cache = cache
        self._held = held

    def of(self, skey: int, chunk: StoredChunk) -> ChunkFacts:
        """The facts of a chunk."""
        place = (skey, chunk.number, chunk.written)
        known = self._held.get(place)
        if known is None:
            return self._cache.put(place, chunk.facts)
        self._cache.touch(place)
        return known


class ReadLogs:
    """What was read, as parts to rank, and the way back from a part to its log."""

    def __init__(
        self,
        logs: Sequence[IndexedLog],
        admission: Admission,
        engine: RecallEngine,
        codec: MessageCodec,
        facts: KnownFacts,
    ) -> None:
        self.parts: list[list[PackedPart | Segment]] = []
        self._owners: list[IndexedLog] = []
        self._flat: list[PackedPart | Segment] = []
        self._tails: list[list[EventRow]] = []
        tests: list[Callable[[int], bool] | None] = []
        for log in logs:
            parts: list[PackedPart | Segment] = []
            for chunk in log.chunks:
                part = PackedPart(facts.of(log.session.skey, chunk), chunk.terms, log.buckets.get(chunk.number, {}))
                admission.hide(part, log.view)
                parts.append(part)
                self._tails.append([])
                tests.append(admission.quick(part, log.view))
            if log.tail:
                segment, admitted = _segment(log, admission, engine, codec)
                parts.append(segment)
                self._tails.append(log.tail)
                tests.append(admitted.__contains__ if len(admitted) < len(log.tail) else None)
            self._owners.extend([log] * len(parts))
            self._flat.extend(parts)
            self.parts.append(parts)
        filtered = any(test is not None for test in tests)

        def admits(number: int, index: int) -> bool:
            test = tests[number]
            return test is None or test(index)

        self.admits: Callable[[int, int], bool] | None = admits if filtered else None
        self.events = sum(part.events for part in self._flat)

    def place(self, number: int, index: int) -> tuple[int, int]:
        """The session key and the position of an event by its part."""
        part, skey = self._flat[number], self._owners[number].session.skey
        if isinstance(part, PackedPart):
            return skey, part.facts.first_seq + part.facts.seqs[index]
        return skey, self._tails[number][index].seq

    def hit(self, number: int, index: int, ranked: RankedEvent) -> Finding:
        """A found event by its part."""
        log, part = self._owners[number], self._flat[number]
        row = None if isinstance(part, PackedPart) else self._tails[number][index]
        _, seq = self.place(number, index)
        return Finding(log.session, log.view, seq, ranked.score, ranked.parts, row, ranked.passage)

    def instant(self, hit: Finding) -> float:
        """When a hit was said, to the second."""
        if hit.row is not None:
            return hit.row.at / 1_000_000
        for owner, part in zip(self._owners, self._flat, strict=True):
            if owner.session.skey == hit.session.skey and isinstance(part, PackedPart):
                facts = part.facts
                first, seqs = facts.first_seq, facts.seqs
                if first <= hit.seq <= first + seqs[-1]:
                    return part.instant(list(seqs).index(hit.seq - first))
        return 0.0

    def nearest(self, query: Query) -> tuple[str, ...]:
        """Terms of the logs that are written most like the query's."""
        words = {
            term
            for part in self._flat
            for term in (part.vocabulary() if isinstance(part, PackedPart) else part.postings)
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
                if index not in part.hidden and (self.admits is None or self.admits(number, index)):
                    return True
        return False


def _segment(
    log: IndexedLog, admission: Admission, engine: RecallEngine, codec: MessageCodec
) -> tuple[Segment, set[int]]:
    """The events after the index, inverted in memory; and which of them may be returned."""
    segment = Segment()
    admitted: set[int] = set()
    for row in log.tail:
        message = codec.decode(log.session.id, row)
        index = segment.add(engine.entry(row, message))
        if not admission.counts(row, log.view):
            segment.hidden.add(index)
        elif admission.admits(row, log.view) and admission.admits_message(row, message):
            admitted.add(index)
    return segment, admitted


def index_query(request: SearchRequest, query: Query, engine: RecallEngine) -> IndexQuery:
    """What to read of the index for a query."""
    terms = list(chain.from_iterable(query.groups))
    whole = [term for term in terms if not term.endswith("*")]
    begun = [term[:-1] for term in terms if term.endswith("*")]
    whole += [*map(tool_term, request.where.tools), *map(only_term, request.where.without_tools)]
    # One letter may begin many buckets; two lie in one.
    short = [start for start in begun if bucket_of(start + "zz") != bucket_of(start)]
    whole += [start for start in begun if start not in short]
    return IndexQuery(
        scope=request.scope,
        fingerprint=engine.fingerprint,
        buckets=tuple(sorted({bucket_of(term) for term in whole})),
        beginnings=tuple(sorted(set(short))),
        most_scanned=engine.settings.scanned,
    )
