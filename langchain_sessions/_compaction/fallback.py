"""What becomes of a conversation whose summariser is dead: it goes on, and is summarised later.

While the prompt fits, a failure changes nothing. Where it would not fit, the oldest turns are archived without a
summary; the record names them as pending, and the next run that gets a summary shows them to the summariser too.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from langchain_sessions._compaction.shown import cost_of, room_of
from langchain_sessions._compaction.strategies import TurnWindow
from langchain_sessions._compaction.summarize import Summarize
from langchain_sessions._compaction.triggers import (
    DEFAULT_CONTEXT_WINDOW,
    AllOf,
    AnyOf,
    ContextUsage,
    PromptSize,
    TokenCount,
    known_window,
)
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import COMPACTION, MESSAGE_CODES
from langchain_sessions._core.ranges import NO_SEQS, SeqSet
from langchain_sessions.events import SessionEvent, Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._compaction.live_scope import LiveScope
    from langchain_sessions._compaction.plan import (
        CompactionPlan,
        CompactionRequest,
        CompactionStrategy,
        CompactionTrigger,
    )
    from langchain_sessions._compaction.summarizer import SummaryLimits
    from langchain_sessions._log.log import Log

PENDING = "pending"
"""In the details of a record: runs of positions that are archived and in no summary yet."""

COOL_DOWN = "cool_down"
"""In the details of a record: for how many seconds after it nobody asks the summariser again, since it was in vain."""

# So many pending events a run reads at most, whatever a dead summariser left.
_MOST_PENDING = 512
_BEYOND = 1.25  # a bound on tokens is rarely all that a model takes


class LastResort:
    """Keeps the newest turn alone, where what a strategy keeps is more than the model takes.

    What goes is summarised as the strategy would have it; of one that makes no summaries, and of none, it is archived
    to be summarised later.
    """

    def __init__(self, how: CompactionStrategy | None) -> None:
        """Summarise as `how` does."""
        self.how = how

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """Archive all turns but the newest."""
        if isinstance(self.how, Summarize):
            narrow = copy(self.how)
            narrow.window, narrow.overlap = TurnWindow(1), 0
            return narrow.plan(request)
        plan = TurnWindow(1).plan(request)
        return plan if self.how is None else replace(self.how.plan(request), archive=plan.archive)


def would_not_fit(when: CompactionTrigger | None, request: CompactionRequest) -> bool:
    """Whether the prompt ahead exceeds the window, as far as the call, the model or the trigger says what that is."""
    return request.tokens > max(_windows(when, request), default=known_window(request.call) or DEFAULT_CONTEXT_WINDOW)


def _windows(when: CompactionTrigger | None, request: CompactionRequest) -> Iterator[float]:
    if isinstance(when, ContextUsage):
        yield when.window(request)
    elif isinstance(when, TokenCount):
        yield known_window(request.call) or when.tokens * _BEYOND
    elif isinstance(when, PromptSize):
        yield from _windows(when.when, request)
    elif isinstance(when, (AnyOf, AllOf)):
        for trigger in when.triggers:
            yield from _windows(trigger, request)


def pending_seqs(log: Log, session_id: str, live: LiveScope) -> Flow[SeqSet]:
    """What the record of the compaction in force names as pending."""
    if live.cover is None:
        return NO_SEQS
    at = live.cover.record
    key, now = log.key(session_id), log.now()
    found = yield from ask(log.store.find_events, key, EventQuery(after_seq=at - 1, before_seq=at + 1), now)
    records = [log.encoder.event(session_id, row, found.view) for row in found.rows]
    runs: list[Any] = records[0].metadata.get(PENDING, []) if records else []
    return SeqSet(tuple((int(first), int(last)) for first, last in runs))


def is_cooling_down(log: Log, session_id: str, scope: str | None, limits: SummaryLimits) -> Flow[bool]:
    """Whether a run on a scope paid for a summary in vain so lately that its lease is kept, by nobody at work."""
    now = log.now()
    since = now - limits.cool_down // timedelta(microseconds=1)
    query = EventQuery(kinds=frozenset({COMPACTION}), branch=scope, since=since)
    found = yield from ask(log.store.find_events, log.key(session_id), query, now)
    records = (log.encoder.event(session_id, row, found.view) for row in found.rows)
    return any(COOL_DOWN in record.metadata for record in records)


def load_pending(log: Log, session_id: str, live: LiveScope) -> Flow[tuple[tuple[SessionEvent, ...], SeqSet]]:
    """The oldest events that earlier runs archived without a summary, in context order, and where the rest of them is.

    What is read for one run is bounded, however long nobody summarised; the rest stays pending for the next ones.
    """
    named = yield from pending_seqs(log, session_id, live)
    seqs = SeqSet.of(islice(named, _MOST_PENDING))
    if not seqs:
        return (), NO_SEQS
    key, now = log.key(session_id), log.now()
    query = EventQuery(
        kinds=MESSAGE_CODES,
        standings=frozenset({Standing.ARCHIVED}),
        after_seq=seqs.ranges[0][0] - 1,
        before_seq=seqs.ranges[-1][1] + 1,
        predicate=lambda row: row.seq in seqs,
    )
    found = yield from ask(log.store.find_events, key, query, now)
    events = [log.encoder.event(session_id, row, found.view) for row in found.rows]
    return tuple(sorted(events, key=lambda event: event.position)), named - seqs


def that_fit(pending: tuple[SessionEvent, ...], live: LiveScope, plan: CompactionPlan, limits: SummaryLimits) -> int:
    """How many of the pending events, oldest first, one run can show its summariser beside what it archives itself."""
    if plan.summarizer is None:
        return len(pending)
    room = room_of(plan.summarizer, limits, live.request.counter) - cost_of(plan.summarizer, plan.archive)
    for number, event in enumerate(pending):
        room -= cost_of(plan.summarizer, (event,))
        if room < 0:
            return number
    return len(pending)


def as_ranges(seqs: SeqSet) -> list[list[int]] | None:
    """Positions as a record names them; None for none."""
    return [[first, last] for first, last in seqs.ranges] or None
