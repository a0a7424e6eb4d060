"""Changing where events stand: rewinds and compactions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_sessions._core import rows as r
from langchain_sessions._core.checks import require
from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions._core.ids import check_optional_id
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions.stores.values import ArchivePlan, RewindPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._core.view import Context
    from langchain_sessions.compaction.plan import Compaction, CompactionResult, ModelCall
    from langchain_sessions.events import NewEvent, SessionEvent

from langchain_sessions._log.read import Reading
from langchain_sessions._log.values import RewindResult


class StandingChanges(Reading):
    """Changing where events stand: rewinds and compactions."""

    def _rewind(
        self,
        session_id: str,
        *,
        before_invocation: str | None = None,
        to_seq: int | None = None,
        reset_thread: bool = False,
    ) -> Flow[RewindResult]:
        """Go back: what came after is hidden, and the session's state is what it was. Nothing is deleted.

        Args:
            session_id: The session.
            before_invocation: To before the first standing event of this invocation.
            to_seq: To how the log read at this position; 0 is the beginning. A position before another rewind
                undoes that one.
            reset_thread: On a LangGraph thread, go back even where no checkpoint remains to resume from.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: There is no such invocation or position.
        """
        one = (before_invocation is None) != (to_seq is None)
        require(one, "to_seq", "give either before_invocation or to_seq")
        require(to_seq is None or (type(to_seq) is int and to_seq >= 0), "to_seq", "give a position of the log")
        name = check_optional_id(before_invocation, "before_invocation")
        return (yield from self._go_back(session_id, name, to_seq, undo=False, reset_thread=reset_thread))

    rewind, arewind = faces(_rewind)

    def _undo_rewind(self, session_id: str) -> Flow[RewindResult]:
        """Take the newest standing rewind back: the log reads as it did just before it.

        What was appended since that rewind is hidden in turn.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: There is no rewind to undo.
        """
        return (yield from self._go_back(session_id, None, None, undo=True, reset_thread=False))

    undo_rewind, aundo_rewind = faces(_undo_rewind)

    def _go_back(
        self, session_id: str, before_invocation: str | None, to_seq: int | None, *, undo: bool, reset_thread: bool
    ) -> Flow[RewindResult]:
        now = self.now()
        plan = RewindPlan(
            record=self._record(r.REWIND, now),
            now=now,
            to_seq=to_seq,
            before_invocation=before_invocation,
            undo=undo,
            reset_thread=reset_thread,
        )
        done = yield from ask(self.store.rewind_events, self.key(session_id), plan)
        return RewindResult(seq=done.record.seq, to_seq=done.to_seq, kept_keys=done.kept_keys)

    def _archive(
        self,
        session_id: str,
        covered: Iterable[int],
        *,
        base: Context,
        summary: Sequence[NewEvent] = (),
        details: Mapping[str, Any] | None = None,
    ) -> Flow[list[SessionEvent] | None]:
        """Archive events of one branch scope and put a summary in their place.

        A compare-and-set on its own range: valid as long as no rewind, edit or other compaction touched it since
        `base` was read. Appends meanwhile stay live and in place.

        Args:
            session_id: The session.
            covered: Positions of standing events of the scope `base.branch`.
            base: The context that they were chosen from.
            summary: Events that stand for them; without any, the summary in force stays.
            details: What the record says about it, such as strategy and token counts.

        Returns:
            The record and the summary events; None when the range was touched, and nothing was changed.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        now = self.now()
        record = self._record(r.COMPACTION, now)
        if details:
            extra = {"metadata": self.encoder.seal(dict(details), "details")}
            record = record._replace(extra=json.dumps(extra, separators=(",", ":")))
        plan = ArchivePlan(
            scope=base.branch,
            covered=SeqSet.of(covered),
            base_record=base.compaction,
            record=record,
            now=now,
            summaries=tuple(self.encoder.row(replace(event, synthetic=True), now) for event in summary),
            idle_before=self.idle_before(now),
        )
        rows = yield from ask(self.store.archive_events, self.key(session_id), plan)
        if rows is not None and self._search_settings is not None:
            yield from self._indexer().catch_up_quietly(self.key(session_id))
        return None if rows is None else [self.encoder.event(session_id, row, None) for row in rows]

    archive, aarchive = faces(_archive)

    def _compact(
        self,
        session_id: str,
        compaction: Compaction,
        *,
        branch: str | None = None,
        invocation_id: str | None = None,
        force: bool = False,
        call: ModelCall | None = None,
        automatic: bool = False,
    ) -> Flow[CompactionResult]:
        """Compact one branch scope of a session if it is time. Nothing is lost: what goes is archived.

        Args:
            session_id: The session.
            compaction: When and how; without a trigger it is always time.
            branch: The scope; None is root.
            invocation_id: The running invocation, whose events count and stay.
            force: Do not ask the trigger.
            call: What is known of the model call ahead: model, system prompt, tools, context window.
            automatic: Nobody asked for this run: whatever goes wrong becomes an outcome and is never raised, and
                a run that finds another one at work makes way.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        from langchain_sessions.compaction.run import compact_session

        return (
            yield from compact_session(
                self,
                session_id,
                compaction,
                branch=branch,
                invocation_id=invocation_id,
                force=force,
                call=call,
                automatic=automatic,
            )
        )

    compact, acompact = faces(_compact)

    def _compact_later(
        self, session_id: str, compaction: Compaction, *, branch: str | None = None, call: ModelCall | None = None
    ) -> Flow[bool]:
        """Compact in the background: on a thread, or as a task of the running loop. `close` waits for it.

        Args:
            session_id: The session.
            compaction: When and how; its `on_result` hears what came of it.
            branch: The scope; None is root.
            call: What is known of the model's calls.

        Returns:
            Whether a run was begun: there is never more than one of a scope.
        """
        place = (self.app, session_id, branch)

        def run() -> Flow[CompactionResult]:
            return self._compact(session_id, compaction, branch=branch, call=call, automatic=True)

        return (yield from ask(self.background.start, place, run))

    compact_later, acompact_later = faces(_compact_later)
