"""One run: ask the trigger, choose, summarise, commit. Written once for both faces.

The model runs outside any transaction. The commit is a compare-and-set on the archived range alone, so appends
meanwhile never lose it; a rewind, an edit or another compaction in the range does. A lease in the store keeps two
processes from paying for the same summary. It guards money: where it fails, the compare-and-set still decides.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langchain_sessions._compaction.archivable import choose_archived
from langchain_sessions._compaction.fallback import (
    COOL_DOWN,
    PENDING,
    LastResort,
    as_ranges,
    is_cooling_down,
    load_pending,
    pending_seqs,
    that_fit,
    would_not_fit,
)
from langchain_sessions._compaction.live_scope import LiveScope, plan_tokens
from langchain_sessions._compaction.plan import (
    NO_CALL,
    Compaction,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    ModelCall,
    Outcome,
    check_compaction,
)
from langchain_sessions._compaction.records import record_row, session_changes, summary_rows
from langchain_sessions._compaction.shown import shown_to
from langchain_sessions._compaction.summarizer import GuardedSummarizer, Summary, SummaryLimits, SummaryTask
from langchain_sessions._core.edge import check_branch, from_micros
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import Cover, ledger_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._log.log import read_rows
from langchain_sessions.errors import SessionNotFoundError, SessionsError, SummaryError
from langchain_sessions.events import Standing
from langchain_sessions.stores._values import ArchivePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions._log.log import Log
    from langchain_sessions.session import Session

_log = logging.getLogger(__name__)

_ATTEMPTS = 3
"""How often a run whose range was touched meanwhile starts over, where that costs no model call."""
_PAID_IN_VAIN = (Outcome.SUMMARY_BLANK, Outcome.SUMMARY_FAILED, Outcome.NOT_WORTH_IT, Outcome.ARCHIVED)


def compact_session(
    log: Log,
    session_id: str,
    compaction: Compaction,
    *,
    branch: str | None = None,
    invocation_id: str | None = None,
    force: bool = False,
    call: ModelCall | None = None,
    automatic: bool = False,
) -> Flow[CompactionResult]:
    """Compact one branch scope of a session if it is time; the arguments are those of `SessionService.compact`.

    A run that nobody asked for must not cost anybody the answer: whatever goes wrong becomes an outcome, a run that
    finds nothing to do, or too little to pay for, leaves no record (it would leave one on every turn), and one that
    finds another at work, or failed lately, makes way. One that is forced does not wait after an earlier failure.

    Raises:
        SessionNotFoundError: There is none for this view.
    """
    check_compaction(compaction)
    run = _Run(log, session_id, compaction, check_branch(branch), invocation_id, force, automatic, call or NO_CALL)
    try:
        result = yield from run.compact()
    except Exception as error:
        if not automatic or isinstance(error, SessionNotFoundError):
            raise
        _log.warning("Compaction of session %r failed: %s", session_id, type(error).__name__)
        result = yield from run.failed(f"{type(error).__name__} was raised")
    if compaction.on_result is not None and result.outcome is not Outcome.NOT_TRIGGERED:
        _tell(compaction.on_result, result, automatic=automatic)
    return result


def _tell(listener: Callable[[CompactionResult], None], result: CompactionResult, *, automatic: bool) -> None:
    """Tell whoever wanted to hear of it; what a listener raises costs nobody an answer either."""
    try:
        listener(result)
    except Exception as error:
        if not automatic:
            raise
        _log.warning("on_result raised %s", type(error).__name__)


@dataclass(slots=True)
class _Run:
    """One run and what is known of it so far."""

    log: Log
    session_id: str
    compaction: Compaction
    scope: str | None
    invocation_id: str | None
    force: bool
    automatic: bool
    call: ModelCall
    started: float = field(default_factory=time.monotonic)
    # Names this run, not this process: two threads of it are two.
    holder: str = field(default_factory=lambda: uuid.uuid4().hex)
    tokens_before: int = 0
    cover: Cover | None = None
    # For how long nobody asks the summariser again if this run does so in vain.
    cool_down: timedelta = timedelta(0)

    @property
    def key(self) -> SessionKey:
        return self.log.key(self.session_id)

    def result(self, outcome: Outcome, **known: Any) -> CompactionResult:
        """A result with what is known of every run."""
        known = {"tokens_before": self.tokens_before, "tokens_after": self.tokens_before, **known}
        duration = timedelta(seconds=time.monotonic() - self.started)
        return CompactionResult(
            outcome=outcome, session_id=self.session_id, scope=self.scope, duration=duration, **known
        )

    # -- deciding ------------------------------------------------------------------------------------------

    def compact(self) -> Flow[CompactionResult]:
        """The whole run."""
        request = yield from self._measure()
        self.tokens_before = request.counters.tokens
        if not self._is_due(request):
            return self.result(Outcome.NOT_TRIGGERED)
        for _ in range(_ATTEMPTS):
            chosen = yield from self._choose(request)
            if chosen is None:
                return (yield from self._nothing_to_do())
            live, plan = chosen
            if plan.summarizer is not None:
                return (yield from self._summarize_and_commit(live, plan))
            done = yield from self._without_summary(live, plan)
            if done is not None:
                return done
            request = yield from self._measure()
        return (yield from self._refused(Outcome.LOST_RACE, "the range was touched meanwhile"))

    def _without_summary(self, live: LiveScope, plan: CompactionPlan) -> Flow[CompactionResult | None]:
        """Archive as the strategy wants it, without a summary; what earlier runs left for one stays noted."""
        pending = yield from pending_seqs(self.log, self.session_id, live)
        if not isinstance(self.compaction.how, LastResort):
            return (yield from self._commit(live, plan, None, pending=as_ranges(pending)))
        pending |= SeqSet.of(event.seq for event in plan.archive)
        reason = "what the strategy keeps would not have fitted"
        return (
            yield from self._commit(
                live, plan, None, outcome=Outcome.ARCHIVED, pending=as_ranges(pending), reason=reason
            )
        )

    def _is_due(self, request: CompactionRequest) -> bool:
        return self.force or self.compaction.when is None or self.compaction.when.is_due(request)

    def _choose(self, request: CompactionRequest) -> Flow[tuple[LiveScope, CompactionPlan] | None]:
        """Load the scope and ask the strategy; None where nothing may be archived."""
        live = yield from self._load(request)
        self.tokens_before = live.tokens
        plan = self.compaction.how.plan(live.request)
        archive = choose_archived(live.request.events, self.scope, plan.archive)
        return (live, replace(plan, archive=archive)) if archive else None

    def _measure(self) -> Flow[CompactionRequest]:
        """The request without events: at most two statements, no bodies."""
        now = self.log.now()
        session, counters = yield from ask(self.log.store.measure_scope, self.key, self.scope, now)
        cover = self.cover = ledger_of(session).covers.get(self.scope)
        return CompactionRequest(
            session=self.log.session_of(session),
            scope=self.scope,
            counters=counters,
            now=from_micros(now),
            counter=self.log.tokens,
            last_compacted_at=None if cover is None else from_micros(cover.at),
            call=self.call,
        )

    def _load(self, request: CompactionRequest) -> Flow[LiveScope]:
        """The request with the live events of the scope: what is archived costs nothing."""
        found = yield from read_rows(self.log, self.session_id, self.scope, invocation_id=self.invocation_id)
        rows = [row for row in found.rows if row.scope == self.scope]
        events = tuple(self.log.encoder.event(self.session_id, row, found.view) for row in rows)
        return LiveScope(replace(request, events=events), found.view, found.view.ledger.covers.get(self.scope))

    # -- the summary ---------------------------------------------------------------------------------------

    def _summarize_and_commit(self, live: LiveScope, plan: CompactionPlan) -> Flow[CompactionResult]:
        """Summarise under a lease, and commit what came of it."""
        limits = plan.limits or SummaryLimits()
        if self.automatic and not self.force and live.outweighs(plan):
            return self.result(Outcome.NOT_WORTH_IT, reason="the summary in force is larger than what would go")
        # Longer than the summariser may take: a process that dies with the lease holds the scope no longer than that.
        granted = yield from self._lease(limits.timeout + timedelta(seconds=30))
        if not granted and self.automatic and not self.force:
            return (yield from self._make_way(live, plan, limits))
        self.cool_down = limits.cool_down if granted else timedelta(0)
        cool_down = timedelta(0)
        try:
            result = yield from self._under_lease(live, plan, limits)
            cool_down = self.cool_down if result.outcome in _PAID_IN_VAIN else cool_down
            return result
        finally:
            if granted:
                # Given back, or kept for a while by nobody: then the next run would only pay for the same failure.
                yield from self._lease(cool_down)

    def _make_way(self, live: LiveScope, plan: CompactionPlan, limits: SummaryLimits) -> Flow[CompactionResult]:
        """Leave the summary to the run at work, or for later where one failed so lately that it would fail again."""
        outcome, reason = Outcome.LOST_RACE, "another run holds the scope"
        if (yield from is_cooling_down(self.log, self.session_id, self.scope, limits)):
            outcome, reason = Outcome.COOLING_DOWN, "a summary was paid for in vain lately"
        archived = yield from self._archive_alone(live, plan, reason)
        return archived or self.result(outcome, reason=reason)

    def _under_lease(self, live: LiveScope, plan: CompactionPlan, limits: SummaryLimits) -> Flow[CompactionResult]:
        """Choose anew where another run committed between the choice and the lease, before anything is paid."""
        request = yield from self._measure()
        if self.cover != live.cover:
            if not self._is_due(request):
                return self.result(Outcome.NOT_TRIGGERED)
            chosen = yield from self._choose(request)
            if chosen is None:
                return (yield from self._nothing_to_do())
            live, plan = chosen
        return (yield from self._with_summary(live, plan, limits))

    def _with_summary(self, live: LiveScope, plan: CompactionPlan, limits: SummaryLimits) -> Flow[CompactionResult]:
        assert plan.summarizer is not None  # noqa: S101 - the caller's case
        pending, later = yield from load_pending(self.log, self.session_id, live)
        shown = that_fit(pending, live, plan, limits)
        left = later | SeqSet.of(event.seq for event in pending[shown:])
        task = SummaryTask(
            archived=shown_to(plan.summarizer, (*pending[:shown], *plan.archive), limits, live.request.counter),
            counter=self.log.tokens,
            previous=live.previous,
            upcoming=shown_to(plan.summarizer, live.upcoming(plan), limits, live.request.counter),
            limits=limits,
        )
        try:
            summary = yield from ask(GuardedSummarizer(plan.summarizer).summarize, task)
        except SummaryError as error:
            _log.warning("No summary of session %r: %s", self.session_id, error)
            archived = yield from self._archive_alone(live, plan, str(error), calls=error.calls)
            return archived or (yield from self._refused(error.outcome, str(error), calls=error.calls))
        for _ in range(_ATTEMPTS):
            after = self._tokens_after(live, plan, summary)
            # It was paid for, but a context that grows by it would be compacted again at once.
            if after > live.tokens + limits.max_growth:
                problem = f"the context would grow from {live.tokens} to {after} tokens"
                return (yield from self._refused(Outcome.NOT_WORTH_IT, problem, calls=summary.calls))
            done = yield from self._commit(live, plan, summary, pending=as_ranges(left))
            if done is not None:
                return done
            fresh = yield from self._load((yield from self._measure()))
            if not live.is_intact_in(fresh, plan):
                break
            live = fresh
        return (yield from self._refused(Outcome.LOST_RACE, "the range was touched meanwhile", calls=summary.calls))

    def _archive_alone(
        self, live: LiveScope, plan: CompactionPlan, reason: str, *, calls: int = 0
    ) -> Flow[CompactionResult | None]:
        """Archive without the summary that could not be had, where the prompt would not fit otherwise."""
        if not self.automatic or not (self.force or would_not_fit(self.compaction.when, live.request)):
            return None
        # By their positions alone: what is pending already is not read for it.
        pending = (yield from pending_seqs(self.log, self.session_id, live)) | SeqSet.of(e.seq for e in plan.archive)
        done = yield from self._commit(
            live, plan, None, outcome=Outcome.ARCHIVED, pending=as_ranges(pending), reason=reason, calls=calls
        )
        if done is not None:
            _log.warning("Session %r was compacted without a summary, which a later run makes.", self.session_id)
        return done

    def _lease(self, duration: timedelta) -> Flow[bool]:
        now = self.log.now()
        until = now + duration // timedelta(microseconds=1)
        return (yield from ask(self.log.store.lease_scope, self.key, self.scope, self.holder, now, until))

    # -- committing ----------------------------------------------------------------------------------------

    def _commit(
        self,
        live: LiveScope,
        plan: CompactionPlan,
        summary: Summary | None,
        *,
        outcome: Outcome = Outcome.COMPACTED,
        pending: list[list[int]] | None = None,
        reason: str | None = None,
        calls: int = 0,
    ) -> Flow[CompactionResult | None]:
        """Archive; None when the range was touched since it was read."""
        now = self.log.now()
        after = self._tokens_after(live, plan, summary)
        calls = calls if summary is None else summary.calls
        if summary is not None and summary.is_cut:
            reason = "the model's limit cut the summary off; it ends with its last whole sentence"
        details = self._details(outcome, plan=plan, tokens_after=after, calls=calls, reason=reason)
        details = {**details, PENDING: pending}
        archive = ArchivePlan(
            scope=self.scope,
            covered=SeqSet.of(event.seq for event in plan.archive),
            base_record=0 if live.cover is None else live.cover.record,
            record=self._record(now, details),
            now=now,
            summaries=self._summary_rows(plan, summary, now),
            idle_before=self.log.idle_before(now),
        )
        rows = yield from ask(self.log.store.archive_events, self.key, archive)
        if rows is None:
            return None
        if summary is not None:
            yield from self._describe_session(live.request.session, summary)
        record = rows[0].seq
        return self.result(
            outcome,
            reason=reason,
            archived=tuple(replace(e, standing=Standing.ARCHIVED, archived_by=record) for e in plan.archive),
            tokens_after=after,
            summary=None if summary is None else summary.text,
            title=None if summary is None else summary.title,
            keywords=() if summary is None else summary.keywords,
            calls=calls,
            record=record,
            is_rebased=record != live.view.last_seq + 1,
        )

    def _tokens_after(self, live: LiveScope, plan: CompactionPlan, summary: Summary | None) -> int:
        left = live.tokens - plan_tokens(plan)
        if summary is None:
            return left
        return left - live.summary_tokens + sum(row.tokens for row in self._summary_rows(plan, summary, 0))

    def _summary_rows(self, plan: CompactionPlan, summary: Summary | None, now: int) -> tuple[EventRow, ...]:
        source = type(self.compaction.how).__name__
        return summary_rows(self.log.encoder, self.scope, plan, summary, source=source, now=now)

    def _describe_session(self, session: Session, summary: Summary) -> Flow[None]:
        """Put the title and the keywords of a structured summary on the session."""
        changes = session_changes(session, summary, is_sealed=self.log.encoder.codec.encrypts)
        if not changes:
            return
        try:
            yield from ask(self.log.store.update_session, self.key, changes, self.log.now())
        except SessionsError as error:
            # The compaction is committed; its title may come with the next one.
            _log.warning("Session %r got no title: %s", self.session_id, type(error).__name__)

    # -- records -------------------------------------------------------------------------------------------

    def _nothing_to_do(self) -> Flow[CompactionResult]:
        """Only a run that somebody asked for is recorded: a trigger that stays due would write on every turn."""
        if self.automatic and not self.force:
            return self.result(Outcome.NOTHING_TO_DO)
        return (yield from self._refused(Outcome.NOTHING_TO_DO, "nothing may be archived"))

    def failed(self, reason: str) -> Flow[CompactionResult]:
        """Record a failure of the trigger, the strategy or the store, as far as the store still takes it."""
        try:
            return (yield from self._refused(Outcome.FAILED, reason))
        except SessionsError:
            return self.result(Outcome.FAILED, reason=reason)

    def _refused(self, outcome: Outcome, reason: str, *, calls: int = 0) -> Flow[CompactionResult]:
        """Record a run that changed nothing."""
        now = self.log.now()
        details = self._details(outcome, tokens_after=self.tokens_before, calls=calls, reason=reason)
        row = yield from ask(self.log.store.append_record, self.key, self._record(now, details), now)
        return self.result(outcome, reason=reason, calls=calls, record=row.seq)

    def _details(
        self,
        outcome: Outcome,
        *,
        tokens_after: int,
        plan: CompactionPlan | None = None,
        calls: int = 0,
        reason: str | None = None,
    ) -> Mapping[str, Any]:
        when = self.compaction.when
        return {
            "outcome": outcome.value,
            "strategy": type(self.compaction.how).__name__,
            "trigger": None if when is None or self.force else type(when).__name__,
            "where": self.compaction.where,
            "archived": 0 if plan is None else len(plan.archive),
            "tokens_before": self.tokens_before,
            "tokens_after": tokens_after,
            "calls": calls,
            COOL_DOWN: self.cool_down.total_seconds() or None if outcome in _PAID_IN_VAIN else None,
            "milliseconds": round((time.monotonic() - self.started) * 1000),
            "reason": reason,
        }

    def _record(self, now: int, details: Mapping[str, Any]) -> EventRow:
        return record_row(self.log.encoder, self.scope, details, now)
