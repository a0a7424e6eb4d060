"""One search: read what the index holds for the query, rank, check against the log, show with neighbours."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from langchain_sessions import rows as r
from langchain_sessions._flow import Flow, ask
from langchain_sessions.codec.text import fold
from langchain_sessions.errors import InvalidInputError, SealedEventError, require
from langchain_sessions.page import decode_cursor, encode_cursor
from langchain_sessions.recall.admission import Admission
from langchain_sessions.recall.corpus import search_logs
from langchain_sessions.recall.documents import searchable_text
from langchain_sessions.recall.engine import RecallEngine, only_term, tool_term
from langchain_sessions.recall.grammar import (
    ClauseKind,
    Query,
    QueryMatcher,
    QueryMode,
    literal_query,
    parse_query,
    pattern_query,
)
from langchain_sessions.recall.highlights import find_spans
from langchain_sessions.recall.hits import SearchFilter, SearchHit, SearchPage
from langchain_sessions.recall.indexing import MESSAGE_KINDS, Indexer
from langchain_sessions.recall.packing import PackedPart, bucket_of
from langchain_sessions.recall.postings import Segment
from langchain_sessions.runs import SeqSet
from langchain_sessions.stores.base import EventQuery
from langchain_sessions.stores.indexing import IndexedLog, IndexQuery, IndexRead, LogScope, LogSlice

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_sessions.codec.messages import MessageCodec
    from langchain_sessions.encoding import EventEncoder
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.ledger import LogView
    from langchain_sessions.rows import EventRow, SessionRow
    from langchain_sessions.stores.base import SessionStore

_ROUNDS: Final = 4
_EVERYTHING: Final = 2**62
_NEAREST: Final = 5
_LOOK_AROUND: Final = 3
_COVERED: Final = 20
_HALF_LIFE: Final = 30 * 86_400.0
_HINT: Final = 'Say what to look for: words, a "phrase", prefix*, AND, OR, -not.'

Order = Literal["relevance", "time"]
Mode = Literal["ranked", "literal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """One search, checked.

    Attributes:
        text: The query, or a compiled expression.
        scope: Which logs.
        where: Which events.
        mode: Whether the text is a query or a literal substring.
        order: The best first, or the oldest first.
        limit: Hits per page.
        page: Which page, from 0; not together with a cursor.
        cursor: Where an earlier page ended.
        neighbours: How many events to show on each side of a hit.
        recency: What an event of now gains; half of it is left after 30 days.
    """

    text: str | re.Pattern[str]
    scope: LogScope
    where: SearchFilter
    mode: Mode = "ranked"
    order: Order = "relevance"
    limit: int = 10
    page: int = 0
    cursor: str | None = None
    neighbours: int = 1
    recency: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        require(self.mode in ("ranked", "literal"), "mode", "give 'ranked' or 'literal'")
        require(self.order in ("relevance", "time"), "order", "give 'relevance' or 'time'")
        require(type(self.limit) is int and self.limit > 0, "limit", "give a whole number above 0")
        require(type(self.page) is int and self.page >= 0, "page", "pages are counted from 0")
        require(self.cursor is None or not self.page, "cursor", "give either a cursor or a page")
        require(type(self.neighbours) is int and self.neighbours >= 0, "neighbours", "give a whole number from 0 on")


@dataclass(slots=True)
class _Hit:
    """A hit on its way: which log, which event, and why."""

    session: SessionRow
    view: LogView
    seq: int
    score: float
    parts: Mapping[str, float]
    row: EventRow | None = None


class Searcher:
    """Searches the logs of a store.

    Args:
        store: Where they lie.
        encoder: Makes events of rows.
        indexer: Brings indexes up to date.
    """

    def __init__(self, store: SessionStore, encoder: EventEncoder, indexer: Indexer) -> None:
        self._store = store
        self._encoder = encoder
        self._codec: MessageCodec = encoder.codec
        self._indexer = indexer
        self._engine: RecallEngine = indexer.engine

    def search(self, request: SearchRequest) -> Flow[SearchPage]:
        """Answer a request.

        Raises:
            SessionNotFoundError: The scope names one session and there is none.
            SealedEventError: A log was written with an encrypting codec that this service does not have.
        """
        query = self._understood(request)
        if query.is_blank:
            yield from ask(self._store.scan_logs, request.scope, EventQuery(limit=1, kinds=MESSAGE_KINDS, before_seq=1))
            return SearchPage(items=(), total=0, hint=_HINT)
        if query.mode is not QueryMode.RANKED:
            return (yield from self._in_time_order(request, query))
        return (yield from self._ranked(request, query))

    def _understood(self, request: SearchRequest) -> Query:
        if not isinstance(request.text, str):
            return pattern_query(request.text)
        if request.mode == "literal":
            return literal_query(request.text if request.text.strip() else "")
        return parse_query(request.text, self._engine.maker)

    # -- ranked --------------------------------------------------------------------------------------------

    def _ranked(self, request: SearchRequest, query: Query) -> Flow[SearchPage]:
        admission = Admission(request.where)
        read = yield from self._read(request, query)
        logs = _Logs(read.logs, admission, self._engine, self._codec)
        shown = _shown(request.cursor)
        wanted = (request.page + 1) * request.limit + len(shown)
        candidates = self._engine.settings.candidates
        matcher = QueryMatcher(query, self._engine.maker)
        while True:
            found = search_logs(
                logs.parts,
                query,
                self._engine.maker,
                weights=self._engine.settings.weights,
                admits=logs.admits,
                candidates=candidates,
            )
            hits = [logs.hit(each.segment, each.index, each.ranked.score, each.ranked.parts) for each in found]
            # Neighbours alone make no hit where nothing at all was hit.
            kept = yield from self._checked(request.scope, admission, matcher, hits)
            bounded = len(found) >= candidates
            if len(kept) >= wanted or not bounded or candidates > logs.events:
                break
            candidates *= 4
        relaxed = False
        if len(kept) < request.limit and (softer := _without_phrases(query)) is not None:
            # A title in a question is seldom said word for word; the other words still are.
            others = yield from self._checked(request.scope, admission, QueryMatcher(softer, self._engine.maker), hits)
            exact = {(hit.session.skey, hit.seq) for hit in kept}
            kept += [hit for hit in others if (hit.session.skey, hit.seq) not in exact]
            relaxed = len(kept) > len(exact)
        if request.recency:
            kept = _fresher(kept, request, logs)
        if request.order == "time":
            kept.sort(key=lambda hit: (logs.instant(hit), hit.session.skey, hit.seq))
        left = [hit for hit in kept if (hit.session.skey, hit.seq) not in shown]
        start = request.page * request.limit
        chosen = left[start : start + request.limit]
        items = yield from self._shown_hits(request, admission, query, chosen)
        more = len(left) > start + len(chosen) and bool(chosen)
        told = shown | {(hit.session.skey, hit.seq) for hit in left[: start + len(chosen)]}
        return SearchPage(
            items=items,
            total=len(kept),
            is_total_exact=not bounded,
            is_relaxed=relaxed,
            next_cursor=_remember(told) if more else None,
            nearest=() if kept else logs.nearest(query),
        )

    def _read(self, request: SearchRequest, query: Query) -> Flow[IndexRead]:
        """What the index holds for the query; logs that are too far behind it catch up first."""
        if self._codec.encrypts:
            slices = yield from ask(self._store.scan_logs, request.scope, EventQuery(kinds=MESSAGE_KINDS))
            return IndexRead([IndexedLog(s.session, s.rows.view, (), {}, s.rows.rows) for s in slices], [])
        wanted = _index_query(request, query, self._engine)
        read = IndexRead([], [])
        for attempt in range(_ROUNDS):
            last = attempt == _ROUNDS - 1
            asked = replace(wanted, most_scanned=_EVERYTHING) if last else wanted
            read = yield from ask(self._store.load_index, asked)
            for key in read.behind:
                yield from self._indexer.catch_up(key)
            if not read.behind:
                break
        return read

    def _checked(
        self, scope: LogScope, admission: Admission, matcher: QueryMatcher, hits: list[_Hit]
    ) -> Flow[list[_Hit]]:
        """The hits that the log confirms; the log is asked where the index cannot tell."""
        by_message = matcher.needs_text
        unsure = [hit for hit in hits if hit.row is None and (by_message or admission.needs_row(hit.view))]
        if unsure:
            yield from self._fill(scope, unsure)
        kept: list[_Hit] = []
        for hit in hits:
            if hit.row is None and hit not in unsure:
                kept.append(hit)
                continue
            if hit.row is None or not admission.admits(hit.row, hit.view):
                continue
            if by_message:
                message = self._codec.decode(hit.session.id, hit.row)
                if not matcher.accepts(searchable_text(message)):
                    continue
            kept.append(hit)
        return kept

    def _fill(self, scope: LogScope, hits: Iterable[_Hit]) -> Flow[None]:
        """Read the rows of hits."""
        places: dict[str, list[int]] = {}
        waiting: dict[tuple[int, int], _Hit] = {}
        for hit in hits:
            places.setdefault(hit.session.id, []).append(hit.seq)
            waiting[hit.session.skey, hit.seq] = hit
        asked = {session_id: SeqSet.of(seqs) for session_id, seqs in places.items()}
        for log in (yield from ask(self._store.load_events, scope, asked)):
            for row in log.rows.rows:
                if (log.session.skey, row.seq) in waiting:
                    waiting[log.session.skey, row.seq].row = row

    # -- in time order -------------------------------------------------------------------------------------

    def _in_time_order(self, request: SearchRequest, query: Query) -> Flow[SearchPage]:
        """Literal and pattern searches: every event that fits, oldest first."""
        admission = Admission(request.where)
        matcher = QueryMatcher(query, self._engine.maker)
        literal = query.mode is QueryMode.LITERAL
        # What is stored for keywords is folded text; sealed bodies have none and are read here.
        keywords = (fold(query.text),) if literal and not self._codec.encrypts else ()
        wanted = EventQuery(
            kinds=admission.kinds or MESSAGE_KINDS, keywords=keywords, idle_before=request.scope.idle_before
        )
        if keywords:
            yield from self._require_readable(request, query)
        slices = yield from ask(self._store.scan_logs, request.scope, wanted)
        hits: list[_Hit] = []
        for log in slices:
            view = log.rows.view
            hits.extend(
                _Hit(log.session, view, row.seq, 0.0, {}, row)
                for row in log.rows.rows
                if admission.admits(row, view) and self._fits(log, row, admission, matcher, checked=bool(keywords))
            )
        # Within one log its order decides, between logs the clock.
        place_of = _log_place if request.scope.session_id is not None else _time_place
        hits.sort(key=place_of)
        start = request.page * request.limit
        if request.cursor is not None:
            _, place = decode_cursor(request.cursor, "found")
            start = sum(list(place_of(hit)) <= place for hit in hits)
        chosen = hits[start : start + request.limit]
        items = yield from self._shown_hits(request, admission, query, chosen)
        more = bool(chosen) and start + len(chosen) < len(hits)
        cursor = encode_cursor("found", *place_of(chosen[-1])) if more else None
        return SearchPage(items=items, total=len(hits), next_cursor=cursor)

    def _require_readable(self, request: SearchRequest, query: Query) -> Flow[None]:
        """Refuse sealed messages: without their codec they would silently not be found.

        What is indexed is not sealed, so only what comes after it has to be looked at.
        """
        for log in (yield from self._read(request, query)).logs:
            sealed = next((row for row in log.tail if row.flags & r.SEALED), None)
            if sealed is not None:
                raise SealedEventError(log.session.id, sealed.seq)

    def _fits(
        self, log: LogSlice, row: EventRow, admission: Admission, matcher: QueryMatcher, *, checked: bool
    ) -> bool:
        where = admission.where
        if checked and not (where.authors or where.tools or where.without_tools):
            return True
        message = self._codec.decode(log.session.id, row)
        return admission.admits_message(row, message) and (checked or matcher.accepts(searchable_text(message)))

    # -- showing -------------------------------------------------------------------------------------------

    def _shown_hits(
        self, request: SearchRequest, admission: Admission, query: Query, chosen: Sequence[_Hit]
    ) -> Flow[tuple[SearchHit, ...]]:
        """The hits as they are returned, with their neighbours."""
        if not chosen:
            return ()
        reach = request.neighbours * _LOOK_AROUND
        places: dict[str, set[int]] = {}
        for hit in chosen:
            around = range(max(1, hit.seq - reach), min(hit.view.last_seq, hit.seq + reach) + 1)
            places.setdefault(hit.session.id, set()).update(around)
        asked = {session_id: SeqSet.of(seqs) for session_id, seqs in places.items()}
        logs = {log.session.skey: log for log in (yield from ask(self._store.load_events, request.scope, asked))}
        items: list[SearchHit] = []
        for hit in chosen:
            log = logs.get(hit.session.skey)
            item = self._shown_hit(request.neighbours, admission, query, hit, log) if log is not None else None
            if log is None or item is None:  # deleted in between
                continue
            if item.event.is_synthetic and item.event.covers:
                item = replace(item, covered=(yield from self._covered(request.scope, log, item.event)))
            items.append(item)
        return tuple(items)

    def _shown_hit(
        self, neighbours: int, admission: Admission, query: Query, hit: _Hit, log: LogSlice
    ) -> SearchHit | None:
        session_id, view = log.session.id, log.rows.view
        row = next((row for row in log.rows.rows if row.seq == hit.seq), None)
        if row is None:
            return None
        event = self._encoder.event(session_id, row, view)
        assert event.message is not None  # noqa: S101 - only messages are searched
        text = searchable_text(event.message)
        spans = find_spans(text, query, self._engine.maker)
        near = [other for other in log.rows.rows if other.kind in MESSAGE_KINDS and admission.is_there(other, view)]
        before = [other for other in near if other.seq < hit.seq][-neighbours:] if neighbours else []
        after = [other for other in near if other.seq > hit.seq][:neighbours]
        return SearchHit(
            event=event,
            text=text,
            score=hit.score,
            highlights=spans,
            before=tuple(self._encoder.event(session_id, other, view) for other in before),
            after=tuple(self._encoder.event(session_id, other, view) for other in after),
            parts=hit.parts,
            words=tuple(dict.fromkeys(text[start:end].lower() for start, end in spans)),
        )

    def _covered(self, scope: LogScope, log: LogSlice, event: SessionEvent) -> Flow[tuple[SessionEvent, ...]]:
        """The first of the events that a summary stands for."""
        seqs = list(chain.from_iterable(range(low, high + 1) for low, high in event.covers))[:_COVERED]
        found = yield from ask(self._store.load_events, scope, {log.session.id: SeqSet.of(seqs)})
        return tuple(
            self._encoder.event(log.session.id, row, each.rows.view)
            for each in found
            for row in each.rows.rows
            if row.kind in MESSAGE_KINDS
        )


class _Logs:
    """What was read, as parts to rank, and the way back from a part to its log."""

    def __init__(
        self, logs: Sequence[IndexedLog], admission: Admission, engine: RecallEngine, codec: MessageCodec
    ) -> None:
        self.parts: list[list[PackedPart | Segment]] = []
        self._owners: list[IndexedLog] = []
        self._flat: list[PackedPart | Segment] = []
        self._tails: list[list[EventRow]] = []
        tests: list[Callable[[int], bool] | None] = []
        for log in logs:
            parts: list[PackedPart | Segment] = []
            for chunk in log.chunks:
                part = PackedPart(chunk.facts, chunk.terms, log.buckets.get(chunk.number, ()))
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

    def hit(self, number: int, index: int, score: float, parts: Mapping[str, float]) -> _Hit:
        """A found event by its part."""
        log, part = self._owners[number], self._flat[number]
        if isinstance(part, PackedPart):
            return _Hit(log.session, log.view, part.facts.first_seq + part.facts.seqs[index], score, parts)
        row = self._tails[number][index]
        return _Hit(log.session, log.view, row.seq, score, parts, row)

    def instant(self, hit: _Hit) -> float:
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
            near = difflib.get_close_matches(group[0].rstrip("*"), words, n=_NEAREST, cutoff=0.6)
            found.update(dict.fromkeys(near))
        return tuple(found)[:_NEAREST]


def _segment(
    log: IndexedLog, admission: Admission, engine: RecallEngine, codec: MessageCodec
) -> tuple[Segment, set[int]]:
    """The events after the index, inverted in memory; and which of them may be returned."""
    segment = Segment()
    admitted: set[int] = set()
    for row in log.tail:
        message = codec.decode(log.session.id, row)
        index = segment.add(engine.entry(row, message))
        if not admission.is_there(row, log.view):
            segment.hidden.add(index)
        elif admission.admits(row, log.view) and admission.admits_message(row, message):
            admitted.add(index)
    return segment, admitted


def _index_query(request: SearchRequest, query: Query, engine: RecallEngine) -> IndexQuery:
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


def _without_phrases(query: Query) -> Query | None:
    """The query with its phrases as mere words; None where they are all that is asked, or an operator binds them."""
    kinds = {clause.kind for clause in query.ranked if clause.groups}
    bound = any([clause.kind for clause in group] != [ClauseKind.PHRASE] for group in query.required)
    return replace(query, required=()) if query.required and not bound and ClauseKind.WORD in kinds else None


def _fresher(hits: list[_Hit], request: SearchRequest, logs: _Logs) -> list[_Hit]:
    now = request.scope.now / 1_000_000 or time.time()
    for hit in hits:
        gain = request.recency * 0.5 ** (max(0.0, now - logs.instant(hit)) / _HALF_LIFE)
        hit.parts = {**hit.parts, "recency": gain}
        hit.score += gain
    return sorted(hits, key=lambda hit: -hit.score)


def _log_place(hit: _Hit) -> tuple[int, int, int]:
    return 0, hit.session.skey, hit.seq


def _time_place(hit: _Hit) -> tuple[int, int, int]:
    assert hit.row is not None  # noqa: S101 - scans bring their rows
    return hit.row.at, hit.session.skey, hit.seq


def _shown(cursor: str | None) -> frozenset[tuple[int, int]]:
    """What earlier pages showed."""
    if cursor is None:
        return frozenset()
    _, place = decode_cursor(cursor, "ranked")
    try:
        return frozenset((int(skey), int(seq)) for skey, *seqs in place for seq in seqs)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("cursor", "not a cursor that this library made") from error


def _remember(shown: Iterable[tuple[int, int]]) -> str:
    """A cursor that knows what was shown, so that appends in between neither repeat a hit nor skip one."""
    by_session: dict[int, list[int]] = {}
    for skey, seq in sorted(shown):
        by_session.setdefault(skey, [skey]).append(seq)
    return encode_cursor("ranked", *by_session.values())
