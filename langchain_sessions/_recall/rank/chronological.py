"""Literal and pattern search: every event that fits, oldest first, read a bounded stretch of log at a time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from langchain_sessions._core import rows as r
from langchain_sessions._core.cursors import decode_cursor, encode_cursor
from langchain_sessions._core.edge import require
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._recall.findings import Finding
from langchain_sessions._recall.rank.admission import Admission
from langchain_sessions._recall.text.grammar import Query, QueryKind
from langchain_sessions.errors import InvalidInputError, SealedEventError

if TYPE_CHECKING:
    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import SessionRow
    from langchain_sessions._recall.rank.ranked import RankedSearch
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions.filters import EventFilter
    from langchain_sessions.stores._base import SessionStore

_Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Stretch:
    """One page of a search in time order.

    Attributes:
        findings: The events of the page.
        total: How many fit in all.
        next_cursor: Where the next page begins; None where there is none.
    """

    findings: list[Finding]
    total: int
    next_cursor: str | None


class TimeOrderedSearch:
    """Finds every event that holds a text or fits an expression.

    Args:
        store: Where the logs lie.
        codec: Reads messages.
        ranked: Reads what comes after the index.
    """

    def __init__(self, store: SessionStore, codec: MessageCodec, ranked: RankedSearch) -> None:
        self._store = store
        self._codec = codec
        self._ranked = ranked

    def find(self, request: SearchRequest, query: Query) -> Flow[Stretch]:
        """The events of a page. Bodies are held for one stretch of log at a time, places for one page."""
        asked = self._asked(request, query)
        if asked.pattern is None and not self._codec.encrypts:
            yield from self._require_readable(request, query)
        wanted = Admission(asked, self._codec, request.searched.idle_before, request.searched.session_id or "").query
        shown = None if request.cursor is None else _place(request.cursor)
        # One more than is shown tells whether another page follows.
        needed = (request.page + 1) * request.limit + 1
        best: list[_Place] = []
        owners: dict[int, tuple[SessionRow, LogView]] = {}
        total = 0
        after: tuple[int, int] | None = (0, 0)
        while after is not None:
            slices, after = yield from ask(self._store.scan_logs, request.searched, wanted, after)
            places: list[_Place] = []
            for log in slices:
                owners[log.session.skey] = (log.session, log.rows.view)
                in_time = request.searched.session_id is None
                # Within one log its order decides, between logs the clock.
                places += [(row.at if in_time else 0, log.session.skey, row.seq) for row in log.rows.rows]
            total += len(places)
            new = places if shown is None else [place for place in places if place > shown]
            # Places only, three numbers each: what is shown is read once it is known which it is.
            best = heapq.nsmallest(needed, chain(best, new))
        chosen = best[request.page * request.limit : needed - 1]
        findings = [Finding(*owners[skey], seq, 0.0, {}) for _, skey, seq in chosen]
        more = bool(chosen) and len(best) == needed
        return Stretch(findings, total, encode_cursor("found", *chosen[-1]) if more else None)

    def _require_readable(self, request: SearchRequest, query: Query) -> Flow[None]:
        """Refuse sealed messages: without their codec they would silently not be found.

        What is indexed is not sealed, so only what comes after it has to be looked at.
        """
        for log in (yield from self._ranked.read(request, query)).logs:
            sealed = next((row for row in log.tail if row.flags & r.SEALED), None)
            if sealed is not None:
                raise SealedEventError(log.session.id, sealed.seq)

    @staticmethod
    def _asked(request: SearchRequest, query: Query) -> EventFilter:
        """The filter with what the query asks: a text beside its keywords, or an expression."""
        where = request.where
        if query.mode is QueryKind.PATTERN:
            require(
                where.pattern is None, "where", "the query is an expression already; leave out the filter's pattern"
            )
            return replace(where, pattern=query.pattern)
        if where.keyword is None:
            return replace(where, keyword=query.text)
        require(where.match != "any" or not where.keywords, "where", "give the filter keywords with match='all'")
        return replace(where, keywords=(*where.keywords, query.text), match="all")


def _place(cursor: str) -> _Place:
    _, place = decode_cursor(cursor, "found")
    if len(place) != 3 or not all(type(part) is int for part in place):  # noqa: PLR2004 - the parts of a place
        raise InvalidInputError("cursor", "not a cursor that this library made")
    return place[0], place[1], place[2]
