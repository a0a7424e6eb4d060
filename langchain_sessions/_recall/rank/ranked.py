"""Ranked search: read what the index holds for the words, rank it, check it against the log."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import MESSAGE_CODES, speaker_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import EventRow, SessionKey
from langchain_sessions._recall.findings import Finding, ReadLogs, Traits, index_query
from langchain_sessions._recall.index.chunks import NotReadError
from langchain_sessions._recall.index.directories import is_directory
from langchain_sessions._recall.meaning.nearness import asked_text
from langchain_sessions._recall.rank.first_look import FirstLook, heavy
from langchain_sessions._recall.rank.many_logs import shortlist_logs
from langchain_sessions._recall.rank.reranking import RERANKED
from langchain_sessions._recall.request import shown_before
from langchain_sessions._recall.text.documents import searchable_text
from langchain_sessions._recall.text.grammar import ClauseKind, Query, QueryMatcher
from langchain_sessions._recall.text.passages import split_passages
from langchain_sessions.errors import StoreError
from langchain_sessions.stores._values import IndexedLog, IndexRead, StoredChunk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._recall.index.builder import IndexBuilder
    from langchain_sessions._recall.index.indexing import Indexer
    from langchain_sessions._recall.index.shelving import Shelver
    from langchain_sessions._recall.meaning.nearness import Meaning, MeaningReader, Semantic
    from langchain_sessions._recall.page import Around
    from langchain_sessions._recall.rank.admission import Admission
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions._recall.text.terms import TermMaker
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import SearchedLogs

# Times that an index is brought up to date for one search, before the log is read as it is.
_ROUNDS: Final = 4
_EVERYTHING: Final = 2**62
_HALF_LIFE: Final = 30 * 86_400.0
# Terms of hits that are read for what only their texts tell, six megabytes or so: of more only as many as are wanted.
_MOST_LOOKED_THROUGH: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Ranking:
    """All that a ranked search found, in the order in which it is paged.

    Attributes:
        findings: The events.
        bounded: There may be more that fit less.
        relaxed: They lack a phrase of the query, which no event holds.
        nearest: Where there is nothing: words written like those of the query.
        semantic: How far meaning counted; None where it was not to.
        behind: Logs that hold something not embedded yet.
        around: Between which positions the neighbours of a hit lie, as far as the index tells.
    """

    findings: list[Finding]
    bounded: bool
    relaxed: bool
    nearest: tuple[str, ...]
    semantic: Semantic | None
    behind: list[SessionKey]
    around: Around


class _Asked(NamedTuple):
    """One search on its way: what is asked, what may be found, what is known of the index, and what is meant."""

    request: SearchRequest
    query: Query
    admission: Admission
    traits: Traits
    meaning: Meaning | None
    semantic: Semantic | None


class RankedSearch:
    """Finds events by their words.

    Args:
        store: Where logs and indexes lie.
        codec: Reads messages.
        indexer: Brings indexes up to date.
        shelver: Puts logs on shelves.
        reader: Compares in meaning; None to go by words alone.
    """

    def __init__(
        self,
        store: SessionStore,
        codec: MessageCodec,
        indexer: Indexer,
        shelver: Shelver,
        reader: MeaningReader | None = None,
    ) -> None:
        self._store = store
        self._codec = codec
        self._indexer = indexer
        self._shelver = shelver
        self._builder: IndexBuilder = indexer.builder
        self._reader = reader

    @property
    def maker(self) -> TermMaker:
        """What makes the terms of queries."""
        return self._builder.maker

    def find(self, request: SearchRequest, query: Query, admission: Admission) -> Flow[Ranking]:
        """What fits a query, checked as far as the page that is asked for."""
        traits = Traits(self._builder, self._store)
        is_meant = self._reader is not None and bool(asked_text(query).strip())
        look = FirstLook(self._store, self._builder, request, query, traits, vectors=is_meant)
        seen = None if self._codec.encrypts else (yield from look.ask())
        read = seen or (yield from self.read(request, query, traits, vectors=is_meant))
        meant = (yield from self._meant(request.searched, query, read)) if is_meant else (None, None)
        asked = _Asked(request, query, admission, traits, *meant)
        if seen is not None:
            with suppress(NotReadError):
                return (yield from self._found(asked, seen, look))
            read = yield from self.read(request, query, traits)
        return (yield from self._found(asked, read))

    def _found(self, asked: _Asked, read: IndexRead, look: FirstLook | None = None) -> Flow[Ranking]:
        """What fits a query among what was read.

        Raises:
            NotReadError: It takes more of the words than a first look read.
        """
        request, query, admission, traits, meaning, semantic = asked
        read = read._replace(logs=(yield from self._with_words(read.logs, admission, traits)))
        logs = ReadLogs(read, admission, self._builder, self._codec, traits, counted=look.counted if look else {})
        candidates = self._builder.settings.candidates
        if look is not None:
            yield from look.read(logs, candidates)
        matcher = QueryMatcher(query, self._builder.maker)
        ranks = _Ranks(request, logs)
        while True:
            hits, bounded = yield from self._best(logs, query, candidates, meaning)
            # Neighbours alone make no hit where nothing at all was hit.
            kept, is_cut = yield from self._checked_enough(asked, logs, matcher, ranks.new(hits), ranks.wanted)
            ranks.add(hits, kept)
            bounded |= is_cut
            if ranks.is_enough or not bounded or candidates > logs.events:
                break
            # Wider each time: a filter that only the log can decide may have taken most of what was chosen.
            candidates *= 4
        kept = ranks.in_order()
        relaxed = False
        if not kept and (softer := _without_phrases(query)) is not None:
            # A title in a question is seldom said word for word; the other words still are.
            kept = yield from self._checked(
                request.searched, admission, QueryMatcher(softer, self._builder.maker), hits
            )
            kept = _in_order(kept, request, logs)
            relaxed = bool(kept)
        spoken = any(hit.parts.get("words") for hit in kept)
        alike = () if spoken else logs.nearest(query)
        # Last: what takes more of the words than were read begins the search again, and a judge costs money.
        kept = yield from self._reranked(request, kept)
        return Ranking(kept, bounded, relaxed, alike, semantic, meaning.behind if meaning else [], logs.around)

    def _reranked(self, request: SearchRequest, kept: list[Finding]) -> Flow[list[Finding]]:
        """The hits with the best of them in the order of the application's own judge, where there is one."""
        judge = self._builder.settings.reranker
        if judge is None or request.order == "time" or not isinstance(request.text, str) or not kept:
            return kept
        # The rest stays as it was: a judge costs more for each text than the whole search.
        best = kept[:RERANKED]
        yield from self._fill(request.searched, [hit for hit in best if hit.row is None])
        best = [hit for hit in best if hit.row is not None]
        order = yield from ask(judge.order, request.text, [self._passage(hit) for hit in best])
        if order is None:
            return kept
        return [*(best[number] for number in order), *kept[RERANKED:]]

    def _passage(self, hit: Finding) -> str:
        """Who says what was found, and what."""
        assert hit.row is not None  # noqa: S101 - it was read
        message = self._codec.decode(hit.session.id, hit.row)
        text, speaker = searchable_text(message), hit.row.author or speaker_of(message)
        passages = split_passages(text)
        start, end = passages[hit.passage] if hit.passage and hit.passage < len(passages) else passages[0]
        return f"{speaker}: {text[start:end]}" if speaker else text[start:end]

    def _meant(self, searched: SearchedLogs, query: Query, read: IndexRead) -> Flow[tuple[Meaning | None, Semantic]]:
        assert self._reader is not None  # noqa: S101 - it is asked
        meaning = yield from self._reader.of(query, searched, read.vectors)
        return meaning, "unavailable" if meaning is None else meaning.semantic

    def _best(
        self, logs: ReadLogs, query: Query, candidates: int, meaning: Meaning | None
    ) -> Flow[tuple[list[Finding], bool]]:
        """The candidates in order, and whether there may be more."""
        shortlist = shortlist_logs(
            logs.parts,
            query,
            self._builder.maker,
            weights=self._builder.settings.weights,
            admits=logs.admits,
            candidates=candidates,
        )
        if meaning is None:
            found = shortlist.ranked()
        else:
            shortlist.add(meaning.nearest(logs.finder(shortlist.is_hidden)))
            found = shortlist.ranked()
            known = yield from self._cosines(logs, meaning, shortlist.compared(found))
            found = shortlist.by_meaning(found, lambda number, index: known.get((number, index)))
        return logs.hits(found), shortlist.is_cut

    def _cosines(
        self, logs: ReadLogs, meaning: Meaning, places: Iterable[tuple[int, int]]
    ) -> Flow[dict[tuple[int, int], float]]:
        assert self._reader is not None  # noqa: S101 - it told the meaning
        wanted = {place: logs.place(*place) for place in places}
        found = yield from self._reader.cosines(meaning, wanted.values())
        return {place: found[stored] for place, stored in wanted.items() if stored in found}

    def read(
        self, request: SearchRequest, query: Query, traits: Traits | None = None, *, vectors: bool = False
    ) -> Flow[IndexRead]:
        """What the index holds for the query; logs that are too far behind it catch up first."""
        if self._codec.encrypts:
            return (yield from self._read_sealed(request.searched))
        traits = traits or Traits(self._builder, self._store)
        searched = request.searched
        known = traits.logs.of(searched.key) if searched.session_id is not None else {}
        wanted = replace(
            index_query(request, query, self._builder),
            held=traits,
            copied=traits.copied,
            apart=traits.apart,
            chunks=known,
            vectors=vectors,
        )
        read = IndexRead([], [])
        stuck = False
        for attempt in range(_ROUNDS):
            last = stuck or attempt == _ROUNDS - 1
            asked = replace(wanted, most_scanned=_EVERYTHING, most_apart=None) if last else wanted
            read = yield from ask(self._store.load_index, asked)
            behind = read.behind or heavy(read.logs)
            is_shelved = not read.unshelved and self._shelver.is_current(read)
            if last or (not behind and is_shelved):
                break
            try:
                moved = 0 if is_shelved else (yield from self._shelver.shelve(request.searched, read, traits.shelves))
                for key in behind:
                    moved += yield from self._indexer.catch_up(key)
            except StoreError:
                stuck = True  # a full or read-only disk: the logs can be read all the same
                continue
            stuck = not moved and not is_shelved
            if not moved and not read.behind and is_shelved:
                break  # the store keeps no index
        if searched.session_id is not None:
            traits.keep(searched.key, read.logs)
        return read

    def _with_words(self, logs: list[IndexedLog], admission: Admission, traits: Traits) -> Flow[list[IndexedLog]]:
        """The logs with the words that their indexes leave out and this search may find."""
        found: list[IndexedLog] = []
        for log in logs:
            key = SessionKey(log.session.app, log.session.id, log.session.user_id)
            chunks, buckets, read = list[StoredChunk](), dict(log.buckets), list[EventRow]()
            for stored in log.chunks:
                if is_directory(stored.number, stored.events):
                    continue
                known = traits.chunks.of((log.session.skey, stored.number, stored.written), stored.traits)
                lacking, gone = admission.split_left_out(known, log.view) if known.left_out else (set(), set())
                rows = (yield from self._indexer.rows_of(key, stored, known)) if lacking else []
                made = (yield from self._indexer.with_words(key, stored, rows, gone)) if rows else None
                if made is not None:
                    buckets[stored.number] = made[1]
                elif rows:  # more than a chunk can hold, or a full disk: inverted for this search alone
                    read += rows
                    continue
                chunks.append(stored if made is None else made[0])
            found.append(log._replace(chunks=tuple(chunks), buckets=buckets, tail=[*read, *log.tail]))
        return found

    def _read_sealed(self, searched: SearchedLogs) -> Flow[IndexRead]:
        """What no index holds: all messages of the logs."""
        logs: dict[int, IndexedLog] = {}
        query = EventQuery(kinds=MESSAGE_CODES, idle_before=searched.idle_before)
        after: tuple[int, int] | None = (0, 0)
        while after is not None:
            slices, after = yield from ask(self._store.scan_logs, searched, query, after)
            for log in slices:
                known = logs.setdefault(log.session.skey, IndexedLog(log.session, log.rows.view, (), {}, []))
                known.tail.extend(log.rows.rows)
        return IndexRead(list(logs.values()), [])

    def _checked_enough(
        self, asked: _Asked, logs: ReadLogs, matcher: QueryMatcher, hits: list[Finding], wanted: int
    ) -> Flow[tuple[list[Finding], bool]]:
        """The hits that the log confirms, and whether any were left out.

        Where they hold very much text, no more are looked through than are wanted, the best first: all of a hundred
        texts of a megabyte take seconds.
        """
        request, _, admission, *_ = asked
        judged = RERANKED if self._builder.settings.reranker is not None else 0
        is_ranked = request.order == "relevance" and not request.recency
        unsure = _unsure(admission, matcher, hits) if is_ranked else ()
        if sum(map(logs.terms_of, unsure)) <= _MOST_LOOKED_THROUGH:
            return (yield from self._checked(request.searched, admission, matcher, hits)), False
        waiting, kept = _in_order(hits, request, logs), list[Finding]()
        size = wanted = max(wanted, judged)
        while waiting and len(kept) < wanted:
            some, waiting = waiting[:size], waiting[size:]
            kept += yield from self._checked(request.searched, admission, matcher, some)
            size *= 2
        return kept, bool(waiting)

    def _checked(
        self, searched: SearchedLogs, admission: Admission, matcher: QueryMatcher, hits: list[Finding]
    ) -> Flow[list[Finding]]:
        """The hits that the log confirms; the log is asked where the index cannot tell."""
        by_message = matcher.needs_text or admission.needs_message
        unsure = _unsure(admission, matcher, hits)
        if unsure:
            yield from self._fill(searched, unsure)
        asked = set(map(id, unsure))
        kept: list[Finding] = []
        for hit in hits:
            if hit.row is None and id(hit) not in asked:
                kept.append(hit)
                continue
            if hit.row is None or not admission.admits(hit.row, hit.view):
                continue
            if by_message:
                message = self._codec.decode(hit.session.id, hit.row)
                if not admission.admits_message(hit.row, message) or not matcher.accepts(searchable_text(message)):
                    continue
            kept.append(hit)
        return kept

    def _fill(self, searched: SearchedLogs, hits: Iterable[Finding]) -> Flow[None]:
        """Read the rows of hits."""
        places: dict[str, list[int]] = {}
        waiting: dict[tuple[int, int], Finding] = {}
        for hit in hits:
            places.setdefault(hit.session.id, []).append(hit.seq)
            waiting[hit.place] = hit
        asked = {session_id: SeqSet.of(seqs) for session_id, seqs in places.items()}
        for log in (yield from ask(self._store.load_events, searched, asked)):
            for row in log.rows.rows:
                if (log.session.skey, row.seq) in waiting:
                    hit = waiting[log.session.skey, row.seq]
                    hit.row, hit.view = row, log.rows.view


def _unsure(admission: Admission, matcher: QueryMatcher, hits: Iterable[Finding]) -> list[Finding]:
    """The hits of which the log has to be asked."""
    hits = [hit for hit in hits if hit.row is None]
    if matcher.needs_text or admission.needs_message:
        return hits
    views = {id(hit.view): hit.view for hit in hits}
    changed = {key for key, view in views.items() if admission.needs_row(view)}
    return [hit for hit in hits if hit.is_unsure or id(hit.view) in changed]


def _without_phrases(query: Query) -> Query | None:
    """The query with its phrases as mere words; None where they are all that is asked, or an operator binds them."""
    kinds = {clause.kind for clause in query.ranked if clause.groups}
    bound = any([clause.kind for clause in group] != [ClauseKind.PHRASE] for group in query.required)
    return replace(query, required=()) if query.required and not bound and ClauseKind.WORD in kinds else None


class _Ranks:
    """What was found round by round, wider each time. What later pages add comes after what earlier ones showed.

    Args:
        request: What is asked.
        logs: Where it is found.

    Attributes:
        wanted: How many hits fill the page that is asked for, and tell whether another follows.
    """

    def __init__(self, request: SearchRequest, logs: ReadLogs) -> None:
        self._request = request
        self._logs = logs
        self._rounds: list[list[Finding]] = []
        self._ranked: list[Finding] = []
        self._found: list[Finding] = []
        # In time order every page shows a stretch of the same hits: those that the first page needs.
        pages = 0 if request.order == "time" else request.page
        shown = 0 if request.order == "time" else len(shown_before(request.cursor))
        # One more than a page holds tells whether another follows.
        self._first = request.limit + 1
        self.wanted = (pages + 1) * request.limit + shown + 1

    def new(self, hits: Iterable[Finding]) -> list[Finding]:
        """Those that no earlier round found."""
        seen = {hit.place for found in self._rounds for hit in found}
        return [hit for hit in hits if hit.place not in seen] if seen else list(hits)

    def add(self, hits: list[Finding], kept: Iterable[Finding]) -> None:
        """Take in a round: what it found, and what of that is new and fits."""
        self._rounds.append(hits)
        self._found += kept
        if len(self._ranked) + len(self._found) >= self._first:
            self._order_found()

    @property
    def is_enough(self) -> bool:
        """Whether the page that is asked for is full."""
        return len(self._ranked) + len(self._found) >= self.wanted

    def in_order(self) -> list[Finding]:
        """All of it, as it is paged."""
        self._order_found()
        return self._ranked

    def _order_found(self) -> None:
        self._ranked += _in_order(self._found, self._request, self._logs)
        self._found = []


def _in_order(hits: list[Finding], request: SearchRequest, logs: ReadLogs) -> list[Finding]:
    if request.recency:
        now = request.searched.now / 1_000_000 or time.time()
        for hit in hits:
            gain = request.recency * 0.5 ** (max(0.0, now - logs.instant(hit)) / _HALF_LIFE)
            hit.parts = {**hit.parts, "recency": gain}
            hit.score += gain
    if request.order == "time":
        return sorted(hits, key=lambda hit: (logs.instant(hit), *hit.place))
    # Wherever logs lie, equal scores are in the order in which their sessions were made.
    return sorted(hits, key=lambda hit: (-hit.score, hit.session.skey, hit.seq))
