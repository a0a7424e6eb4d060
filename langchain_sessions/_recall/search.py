"""One search: understand the query, find by rank or in time order, show a page of hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import MESSAGE_CODES
from langchain_sessions._recall.index.shelving import Shelver
from langchain_sessions._recall.page import HitViewer
from langchain_sessions._recall.rank.admission import Admission
from langchain_sessions._recall.rank.chronological import TimeOrderedSearch
from langchain_sessions._recall.rank.ranked import RankedSearch
from langchain_sessions._recall.request import SearchRequest, remember, shown_before
from langchain_sessions._recall.text.grammar import (
    HINT,
    Query,
    QueryKind,
    literal_query,
    parse_query,
    pattern_query,
    what_is_wrong,
)
from langchain_sessions.search import SearchPage

if TYPE_CHECKING:
    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._recall.index.indexing import Indexer
    from langchain_sessions._recall.meaning.nearness import MeaningReader
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import SearchedLogs


class Searcher:
    """Searches the logs of a store.

    Args:
        store: Where they lie.
        encoder: Makes events of rows.
        indexer: Brings indexes up to date.
        reader: Compares in meaning; None to go by words alone.

    Attributes:
        behind: Logs of the last search that hold something not embedded yet.
    """

    def __init__(
        self, store: SessionStore, encoder: EventEncoder, indexer: Indexer, reader: MeaningReader | None = None
    ) -> None:
        self._store = store
        self._encoder = encoder
        self.behind: list[SessionKey] = []
        self._maker = indexer.builder.maker
        self._shelver = Shelver(indexer, encoder)
        self._ranked = RankedSearch(store, encoder.codec, indexer, self._shelver, reader)
        self._in_time_order = TimeOrderedSearch(store, encoder.codec, self._ranked)
        self._viewer = HitViewer(store, encoder, self._maker)

    def search(self, request: SearchRequest) -> Flow[SearchPage]:
        """Answer a request.

        Raises:
            SessionNotFoundError: The search names one session and there is none.
            SealedEventError: A log was written with an encrypting codec that this service does not have.
        """
        query = self._understood(request)
        hint = HINT if query.is_blank else None
        if isinstance(request.text, str) and request.mode == "ranked":
            hint = what_is_wrong(request.text) or hint
        if hint is not None:
            # Nothing is read by this, but a session that is not there is told even to whoever asks for nothing.
            yield from ask(self._store.scan_logs, request.searched, EventQuery(kinds=MESSAGE_CODES, before_seq=1))
            return SearchPage(items=(), total=0, hint=hint)
        admission = Admission(request.where, self._encoder.codec, request.searched.idle_before)
        if query.mode is QueryKind.RANKED:
            return (yield from self._by_rank(request, query, admission))
        found = yield from self._in_time_order.find(request, query)
        items = yield from self._viewer.show(request, admission, query, found.findings)
        return SearchPage(items=items, total=found.total, next_cursor=found.next_cursor)

    def drop_shelves(self, searched: SearchedLogs) -> Flow[bool]:
        """Delete the shelves of an owner; whether there were any."""
        return (yield from self._shelver.drop(searched))

    def _understood(self, request: SearchRequest) -> Query:
        if not isinstance(request.text, str):
            return pattern_query(request.text)
        if request.mode == "literal":
            return literal_query(request.text if request.text.strip() else "")
        return parse_query(request.text, self._maker)

    def _by_rank(self, request: SearchRequest, query: Query, admission: Admission) -> Flow[SearchPage]:
        found = yield from self._ranked.find(request, query, admission)
        self.behind = found.behind
        shown = shown_before(request.cursor)
        left = [hit for hit in found.findings if hit.place not in shown] if shown else found.findings
        start = request.page * request.limit
        chosen = left[start : start + request.limit]
        items = yield from self._viewer.show(request, admission, query, chosen, found.around)
        more = len(left) > start + len(chosen) and bool(chosen)
        told = shown.union(hit.place for hit in left[: start + len(chosen)])
        return SearchPage(
            items=items,
            total=len(found.findings),
            is_total_exact=not found.bounded,
            is_relaxed=found.relaxed,
            next_cursor=remember(told) if more else None,
            nearest=found.nearest,
            semantic=found.semantic,
        )
