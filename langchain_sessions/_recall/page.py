"""Hits as they are returned: with their neighbours, what of them was hit, and what a summary stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.message_types import MESSAGE_CODES
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._recall.text.documents import searchable_text
from langchain_sessions._recall.text.grammar import QueryKind
from langchain_sessions._recall.text.highlights import Span, find_spans
from langchain_sessions._recall.text.passages import split_passages
from langchain_sessions.search import SearchHit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._recall.findings import Finding
    from langchain_sessions._recall.rank.admission import Admission
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions._recall.text.terms import TermMaker
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._values import LogSlice

# Positions per neighbour that is shown: records and what the filter leaves out lie between.
_LOOK_AROUND: Final = 3
# A summary of a thousand events is not unfolded on a page of hits.
_COVERED: Final = 20
# Characters of a text that is not looked through for words that its best passage does not have: it is shown for those
# of its neighbours, and a megabyte takes a third of a second.
_LONG: Final = 100_000


Around = Callable[["Finding", int, int], tuple[int, int]]
"""Between which positions so many neighbours of a hit lie, within a reach."""


class _Shown(NamedTuple):
    """The log of a hit, and the neighbours that were found there."""

    log: LogSlice
    before: tuple[SessionEvent, ...]
    after: tuple[SessionEvent, ...]

    def is_short(self, neighbours: int, near: range, whole: range) -> bool:
        """Whether there may be more neighbours than were found, further away."""
        return (len(self.before) < neighbours and near[0] > whole[0]) or (
            len(self.after) < neighbours and near[-1] < whole[-1]
        )


class HitViewer:
    """Makes hits of findings.

    Args:
        store: Where the logs lie.
        encoder: Makes events of rows.
        maker: Made the terms of the queries.
    """

    def __init__(self, store: SessionStore, encoder: EventEncoder, maker: TermMaker) -> None:
        self._store = store
        self._encoder = encoder
        self._maker = maker

    def show(
        self,
        request: SearchRequest,
        admission: Admission,
        query: Query,
        chosen: Sequence[Finding],
        around: Around | None = None,
    ) -> Flow[tuple[SearchHit, ...]]:
        """The hits of a page. One that was deleted since it was found is left out."""
        reach = request.neighbours * _LOOK_AROUND
        whole = [(hit, _within(hit, hit.seq - reach, hit.seq + reach)) for hit in chosen]
        near = whole
        if around is not None:
            near = [(hit, _within(hit, *around(hit, request.neighbours, reach))) for hit in chosen]
        shown = yield from self._with_neighbours(request, admission, near)
        # What the index took for a neighbour may not be seen, as what was said again since.
        short = [
            further
            for further, (_, within), found in zip(whole, near, shown, strict=True)
            if found is not None and found.is_short(request.neighbours, within, further[1])
        ]
        wider = {
            hit.place: found
            for (hit, _), found in zip(
                short, (yield from self._with_neighbours(request, admission, short)), strict=True
            )
        }
        items: list[SearchHit] = []
        for hit, nearer in zip(chosen, shown, strict=True):
            found = wider.get(hit.place, nearer)
            item = self._hit(query, hit, found) if found is not None else None
            if found is None or item is None:
                continue
            if item.event.is_synthetic and item.event.covers:
                item = replace(item, covered=(yield from self._covered(request, admission, found.log, item.event)))
            items.append(item)
        return tuple(items)

    def _with_neighbours(
        self, request: SearchRequest, admission: Admission, hits: Sequence[tuple[Finding, range]]
    ) -> Flow[list[_Shown | None]]:
        """The logs of some hits, and their neighbours within a range; None for what is gone."""
        if not hits:
            return []
        places: dict[str, set[int]] = {}
        for hit, near in hits:
            places.setdefault(hit.session.id, set()).update(near)
        asked = {session_id: SeqSet.of(seqs) for session_id, seqs in places.items()}
        logs = {log.session.skey: log for log in (yield from ask(self._store.load_events, request.searched, asked))}
        found: list[_Shown | None] = []
        for hit, near in hits:
            log = logs.get(hit.session.skey)
            found.append(
                None if log is None else _Shown(log, *self._around(request.neighbours, admission, hit, near, log))
            )
        return found

    def _hit(self, query: Query, hit: Finding, found: _Shown) -> SearchHit | None:
        log = found.log
        session_id, view = log.session.id, log.rows.view
        row = next((row for row in log.rows.rows if row.seq == hit.seq), None)
        if row is None:
            return None
        event = self._encoder.event(session_id, row, view)
        assert event.message is not None  # noqa: S101 - only messages are searched
        text, spans = self._passage(searchable_text(event.message), query, hit.passage)
        return SearchHit(
            event=event,
            text=text,
            score=hit.score,
            highlights=spans,
            before=found.before,
            after=found.after,
            parts=hit.parts,
            words=tuple(dict.fromkeys(text[start:end].lower() for start, end in spans)),
        )

    def _passage(self, text: str, query: Query, number: int | None) -> tuple[str, tuple[Span, ...]]:
        """The passage of a text that was found, and where the query hit in it."""
        passages = split_passages(text)
        if number is not None and number < len(passages):
            start, end = passages[number]
            spans = find_spans(text[start:end], query, self._maker)
            is_by_words = query.mode is QueryKind.RANKED and not query.required
            if spans or len(passages) == 1 or (is_by_words and len(text) > _LONG):
                return text[start:end], spans
        # What is looked for as it stands is in one passage or across two.
        first = next(iter(find_spans(text, query, self._maker, limit=1)), (0, 0))
        start = max(start for start, _ in passages if start <= first[0])
        end = min(end for _, end in passages if end >= first[1])
        return text[start:end], find_spans(text[start:end], query, self._maker)

    def _around(
        self, neighbours: int, admission: Admission, hit: Finding, within: range, log: LogSlice
    ) -> tuple[tuple[SessionEvent, ...], tuple[SessionEvent, ...]]:
        """The nearest events on each side, within a range, that the filter lets a caller see."""
        rows = log.rows.rows
        before = (row for row in reversed(rows) if row.seq < hit.seq)
        after = (row for row in rows if row.seq > hit.seq)
        sides: list[list[SessionEvent]] = [[], []]
        for side, near in zip(sides, (before, after), strict=True):
            for row in near:
                if len(side) == neighbours or row.seq not in within:
                    break
                if (event := self._seen(admission, row, log)) is not None:
                    side.append(event)
        return tuple(reversed(sides[0])), tuple(sides[1])

    def _seen(self, admission: Admission, row: EventRow, log: LogSlice) -> SessionEvent | None:
        view = log.rows.view
        if row.kind not in MESSAGE_CODES or not admission.admits(row, view):
            return None
        event = self._encoder.event(log.session.id, row, view)
        assert event.message is not None  # noqa: S101 - only messages are searched
        return event if admission.admits_message(row, event.message) else None

    def _covered(
        self, request: SearchRequest, admission: Admission, log: LogSlice, event: SessionEvent
    ) -> Flow[tuple[SessionEvent, ...]]:
        """The first of the events that a summary stands for, as far as the viewer may see them."""
        seqs = list(chain.from_iterable(range(low, high + 1) for low, high in event.covers))[:_COVERED]
        found = yield from ask(self._store.load_events, request.searched, {log.session.id: SeqSet.of(seqs)})
        return tuple(
            self._encoder.event(log.session.id, row, each.rows.view)
            for each in found
            for row in each.rows.rows
            if row.kind in MESSAGE_CODES and admission.is_there(row, each.rows.view)
        )


def _within(hit: Finding, low: int, high: int) -> range:
    """The positions of a log between two, with the hit's own."""
    return range(max(1, min(low, hit.seq)), max(hit.seq, min(hit.view.last_seq, high)) + 1)
