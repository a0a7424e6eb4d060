"""Literal and pattern search: every event that fits, oldest first, read a bounded stretch of log at a time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.text import fold
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._recall.findings import Finding
from langchain_sessions._recall.index.indexing import MESSAGE_KINDS
from langchain_sessions._recall.text.documents import searchable_text
from langchain_sessions._recall.text.grammar import Query, QueryMatcher, QueryMode
from langchain_sessions.errors import InvalidInputError, SealedEventError
from langchain_sessions.page import decode_cursor, encode_cursor
from langchain_sessions.stores.values import EventQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._core.codec.messages import MessageCodec
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow, SessionRow
    from langchain_sessions._recall.rank.admission import Admission
    from langchain_sessions._recall.rank.ranked import RankedSearch
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions.stores.base import SessionStore
    from langchain_sessions.stores.values import LogSlice

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

    def find(self, request: SearchRequest, query: Query, admission: Admission) -> Flow[Stretch]:
        """The events of a page. Bodies are held for one stretch of log at a time, places for one page."""
        matcher = QueryMatcher(query, self._ranked.maker)
        literal = query.mode is QueryMode.LITERAL
        # What is stored for keywords is folded text; sealed bodies have none and are read here.
        keywords = (fold(query.text),) if literal and not self._codec.encrypts else ()
        if keywords:
            yield from self._require_readable(request, query)
        wanted = EventQuery(
            kinds=admission.kinds or MESSAGE_KINDS, keywords=keywords, idle_before=request.scope.idle_before
        )
        shown = None if request.cursor is None else _place(request.cursor)
        needed = (request.page + 1) * request.limit + 1
        best: list[_Place] = []
        owners: dict[int, tuple[SessionRow, LogView]] = {}
        total = 0
        after: tuple[int, int] | None = (0, 0)
        while after is not None:
            slices, after = yield from ask(self._store.scan_logs, request.scope, wanted, after)
            places: list[_Place] = []
            for log in slices:
                owners[log.session.skey] = (log.session, log.rows.view)
                in_time = request.scope.session_id is None
                # Within one log its order decides, between logs the clock.
                places += [
                    (row.at if in_time else 0, log.session.skey, row.seq)
                    for row in self._fitting(log, admission, matcher, checked=bool(keywords))
                ]
            total += len(places)
            new = places if shown is None else [place for place in places if place > shown]
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

    def _fitting(
        self, log: LogSlice, admission: Admission, matcher: QueryMatcher, *, checked: bool
    ) -> Iterator[EventRow]:
        for row in log.rows.rows:
            if not admission.admits(row, log.rows.view):
                continue
            if checked and not admission.needs_message:
                yield row
                continue
            message = self._codec.decode(log.session.id, row)
            if admission.admits_message(row, message) and (checked or matcher.accepts(searchable_text(message))):
                yield row


def _place(cursor: str) -> _Place:
    _, place = decode_cursor(cursor, "found")
    if len(place) != 3 or not all(type(part) is int for part in place):  # noqa: PLR2004 - the parts of a place
        raise InvalidInputError("cursor", "not a cursor that this library made")
    return place[0], place[1], place[2]
