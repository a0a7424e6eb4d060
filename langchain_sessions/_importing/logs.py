"""Our own export becomes the log that it was: what happened is done again, entry by entry, each in its place."""

from __future__ import annotations

from bisect import insort
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.values import unpack
from langchain_sessions._core.edge import check_branch, check_id, to_micros
from langchain_sessions._core.event_encoding import new_record
from langchain_sessions._core.flow import drive
from langchain_sessions._core.ledger import covers_of
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._exporting.event_lines import said_in
from langchain_sessions._exporting.forms import all_events
from langchain_sessions._importing.messages import exported_message, read_with
from langchain_sessions._importing.past import at_past_times
from langchain_sessions._importing.values import SourceError
from langchain_sessions._log.blank import overwrite
from langchain_sessions._log.log import after_append, log_of
from langchain_sessions.errors import (
    EventConflictError,
    EventNotFoundError,
    InvalidInputError,
    SessionExistsError,
    SessionNotFoundError,
    SessionsError,
)
from langchain_sessions.events import EventKind, NewEvent, Standing
from langchain_sessions.stores._values import AppendBatch, ArchivePlan, RewindPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions._importing.values import History
    from langchain_sessions._log.log import Log
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.service import SessionService

_BATCH: Final = 200
_PENDING: Final = "pending"
"""Runs of positions that a compaction without a summary left for a later one to summarise."""
_STRANGE = (SourceError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_TAKEN_OUT: Final = "a graph took it out of its messages, which only the thread's checkpoints know"


class LogImport:
    """Writes exported logs into the sessions of one service."""

    def __init__(self, sessions: SessionService, tell: Callable[[str, str, str], None]) -> None:
        """Write into a service, and say `tell(session, "", problem)` for each entry that cannot be taken over."""
        self._now = datetime.now(timezone.utc)
        self._real = sessions
        self._sessions = at_past_times(sessions, lambda: self._now)
        self._tell = tell

    def take(self, history: History, owner: str | None) -> int:
        """Do again what the log of a session does not have yet; how many entries could be read.

        Raises:
            InvalidInputError: The session cannot be called so, or hold such metadata.
            SessionNotFoundError: There is such a session, and it is somebody else's.
            SessionEndedError: It has ended.
            EventConflictError: Another conversation is here under its id.
        """
        head = history.head or {}
        tell = partial(self._tell, history.id, "")
        times = {name: _moment(head.get(name)) for name in ("created_at", "updated_at", "expires_at")}
        expires = times["expires_at"]
        if expires is not None and expires <= log_of(self._real).clock():
            tell(f"its time to live ended at {expires:%Y-%m-%d %H:%M}")
            return 0
        self._now = times["created_at"] or self._now
        mine = self._sessions.as_user(owner)
        before = self._open(mine, history, head)
        log = log_of(mine)
        again = _Again(log, log.key(history.id), tell)
        # The operator's view: a user's may not show what edits took the place of. Whose it is was asked above.
        there = all_events(self._sessions, history.id) if before else iter(())
        given = again.play(_readable(history, tell), there)
        if again.is_changed or before is None:
            changes = {} if expires is None else {"expires_at": to_micros(expires)}
            log.store.update_session(again.key, changes, to_micros(times["updated_at"] or self._now))
        return given

    @staticmethod
    def _open(mine: SessionService, history: History, head: Mapping[str, Any]) -> int | None:
        """How far the session's log goes; None where the session was not there."""
        try:
            return mine.get(history.id).version
        except SessionNotFoundError:
            pass
        try:
            state = unpack(head.get("state") or {})
        except _STRANGE:
            state = {}
        try:
            mine.create(history.id, title=history.title, metadata=history.metadata, state=state)
        except SessionExistsError:
            raise SessionNotFoundError(history.id) from None
        return None


class _Again:
    """The log of one session, done again."""

    def __init__(self, log: Log, key: SessionKey, tell: Callable[[str], None]) -> None:
        """Write the log of a session, and tell what of it cannot be."""
        self.key = key
        self.is_changed = False
        self._log = log
        self._tell = tell
        self._missing: list[tuple[int, int]] = []
        self._last = 0
        self._is_ended = False
        self._waiting: list[tuple[int, EventRow]] = []
        self._at = 0
        self._top = 0

    def play(self, lines: Iterator[Mapping[str, Any]], there: Iterator[SessionEvent]) -> int:
        """Do entries again, beginning with the first that is not there; how many there were.

        Raises:
            EventConflictError: What is there is another log.
        """
        given = 0
        here = next(there, None)
        ahead = next(lines, None)
        while ahead is not None:
            line, ahead = ahead, next(lines, None)
            try:
                seq, at, kind = _place(line, self._last)
            except _STRANGE:
                self._tell("a line is no event, or out of order")
                continue
            if self._last + 1 < seq:
                self._miss(self._last + 1, seq - 1)
            self._last = seq
            self._is_ended ^= kind is EventKind.LIFECYCLE
            with_it: list[Mapping[str, Any]] = []
            while ahead is not None and _is_summary_of(ahead, line, seq + len(with_it)):
                with_it.append(ahead)
                ahead = next(lines, None)
            given += 1 + len(with_it)
            self._last += len(with_it)
            if here is None:
                self._do(line, with_it, seq, at, kind)
            elif _is_it(here, line):
                for _ in (line, *with_it):
                    here = next(there, None)
            elif line.get("standing") == Standing.DETACHED.value:
                self._left_out(seq, _TAKEN_OUT)
            elif ahead is not None and _is_it(here, ahead):
                self._left_out(seq, "the log here goes on without it")
            else:
                raise EventConflictError(self.key.id, str(line.get("id")))
        self._flush()
        return given

    def _do(
        self, line: Mapping[str, Any], with_it: Sequence[Mapping[str, Any]], seq: int, at: int, kind: EventKind
    ) -> None:
        try:
            if kind in {EventKind.MESSAGE, EventKind.STATE, EventKind.INVOCATION}:
                self._append(line, seq, at)
            else:
                self._flush()
                _RECORDS[kind](self, line, with_it, at)
                self.is_changed = True
                found = self._log.store.find_session(self.key, at)
                self._top = self._top if found is None else found.last_seq
        except (InvalidInputError, EventNotFoundError, *_STRANGE) as problem:
            # What a bug or a damaged line raises may quote what was said.
            known = isinstance(problem, (SourceError, SessionsError))
            self._left_out(seq, str(problem) if known else "it cannot be read", len(with_it))

    def _left_out(self, seq: int, problem: str, with_it: int = 0) -> None:
        self._tell(f"entry {seq}: {problem}")
        self._miss(seq, seq + with_it)

    def _miss(self, low: int, high: int) -> None:
        insort(self._missing, (low, high))

    def _now_at(self, seq: int) -> int:
        """Where an entry of the export is here, or the last one before it: what could not be taken over left no gap."""
        return seq - sum(min(high, seq) - low + 1 for low, high in self._missing if low <= seq)

    def _runs(self, runs: Any) -> SeqSet:
        """Where runs of the export are here; none goes beyond what was read so far."""
        found = SeqSet()
        for low, high in runs:
            first, last = self._now_at(max(low, 1) - 1) + 1, self._now_at(min(high, self._last))
            if first <= last:
                found |= SeqSet(((first, last),))
        return found

    # -- what is said --------------------------------------------------------------------------------------

    def _append(self, line: Mapping[str, Any], seq: int, at: int) -> None:
        if line["standing"] == Standing.DETACHED.value:
            raise SourceError(_TAKEN_OUT)
        row = self._row(line, at)
        # Runs fail by the clock, and what is written again finds what was there then.
        is_alone = bool(line.get("is_edit") or line["revision"])
        if is_alone or len(self._waiting) == _BATCH or (at != self._at and line["invocation_id"] is not None):
            self._flush()
        self._waiting.append((seq, row))
        self._at = at
        if is_alone:
            self._flush(is_edit=bool(line.get("is_edit")))

    def _row(self, line: Mapping[str, Any], at: int) -> EventRow:
        said = said_in(line)
        if line.get("in_thread"):
            # What reached a thread's messages is everybody's; without the thread only its branch can say so.
            said.pop("branch", None)
        event = NewEvent(
            message=None if line["message"] is None else read_with(exported_message, line["message"]),
            id=line["id"],
            timestamp=datetime.fromisoformat(line["timestamp"]),
            interrupted=bool(line["interrupted"]),
            synthetic=bool(line["synthetic"]),
            **said,
        )
        return self._log.encoder.row(event, at, mark=r.MARKS.get(str(line.get("reports")), 0))

    def _flush(self, *, is_edit: bool = False) -> None:
        """Write what waits; where something of it is refused, the others one by one."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            self._write(waiting, is_edit=is_edit)
        except InvalidInputError as problem:
            if len(waiting) == 1:
                self._left_out(waiting[0][0], str(problem))
                return
            for one in waiting:
                self._waiting = [one]
                self._flush()

    def _write(self, waiting: Sequence[tuple[int, EventRow]], *, is_edit: bool) -> None:
        rows = tuple(row for _, row in waiting)
        idle = self._log.idle_before(self._at)
        batch = AppendBatch(rows, self._at, self._log.codec.repeats, idle_before=idle)
        store = self._log.store
        try:
            appended = store.append_events(self.key, batch._replace(replaces_only=is_edit, moves=is_edit))
        except EventNotFoundError:
            # What it took the place of is not in this export.
            appended = store.append_events(self.key, batch)
        self.is_changed = True
        for (seq, _), row in zip(waiting, appended.rows, strict=True):
            if row.seq <= self._top:
                self._left_out(seq, "the log holds it already")
        self._top = appended.version
        recall = after_append(self._log, self.key, appended.version, rows)
        if recall is not None:
            drive(recall)

    # -- what happened -------------------------------------------------------------------------------------

    def rewind(self, line: Mapping[str, Any], _: Sequence[Mapping[str, Any]], at: int) -> None:
        runs = line["covers"]
        target = self._now_at((runs[0][0] if runs else line["seq"]) - 1)
        record = new_record(k.REWIND, at)._replace(ident=_id_of(line))
        self._log.store.rewind_events(self.key, RewindPlan(record=record, now=at, to_seq=target))

    def compact(self, line: Mapping[str, Any], summaries: Sequence[Mapping[str, Any]], at: int) -> None:
        metadata = unpack(line["metadata"])
        if metadata.get(_PENDING):
            metadata[_PENDING] = [list(run) for run in self._runs(metadata[_PENDING]).ranges]
        said = NewEvent(id=line["id"], metadata=metadata or None)
        scope = None if line["branch"] is None else check_branch(line["branch"])
        record = self._log.encoder.row(said, at)._replace(kind=k.COMPACTION, branch=scope)
        if not line["covers"]:
            self._log.store.append_record(self.key, record, at)
            return
        view = self._log.store.find_events(self.key, EventQuery(limit=1), at).view
        old = view.ledger.covers.get(scope)
        covered = self._runs(line["covers"])
        if old is not None:
            one = EventQuery(after_seq=old.record - 1, before_seq=old.record + 1)
            rows = self._log.store.find_events(self.key, one, at).rows
            covered -= SeqSet(tuple((low, high) for low, high in covers_of(rows[0] if rows else None)))
        plan = ArchivePlan(
            scope=scope,
            covered=covered,
            base_record=0 if old is None else old.record,
            record=record,
            now=at,
            summaries=tuple(self._row(each, at)._replace(branch=scope) for each in summaries),
            idle_before=self._log.idle_before(at),
        )
        if self._log.store.archive_events(self.key, plan) is None:
            problem = "what it archived is not all here"
            raise SourceError(problem)

    def end(self, line: Mapping[str, Any], _: Sequence[Mapping[str, Any]], at: int) -> None:
        record = new_record(k.LIFECYCLE, at)._replace(ident=_id_of(line))
        self._log.store.end_session(self.key, record, at if self._is_ended else None, at)

    def blank(self, line: Mapping[str, Any], _: Sequence[Mapping[str, Any]], at: int) -> None:
        record = new_record(k.BLANK, at)._replace(ident=_id_of(line))
        seqs = tuple(self._runs(line["covers"]))
        drive(overwrite(self._log, self.key.id, record, None, seqs, superseded=False))

    def unknown(self, _: Mapping[str, Any], __: Sequence[Mapping[str, Any]], ___: int) -> None:
        """A record that a later release wrote says nothing to this one."""
        problem = "it is of a kind that this release does not know"
        raise SourceError(problem)


_RECORDS: Final = {
    EventKind.REWIND: _Again.rewind,
    EventKind.COMPACTION: _Again.compact,
    EventKind.LIFECYCLE: _Again.end,
    EventKind.BLANK: _Again.blank,
    EventKind.UNKNOWN: _Again.unknown,
}


def _readable(history: History, tell: Callable[[str], None]) -> Iterator[Mapping[str, Any]]:
    """The entries that can be read."""
    for line in history.events:
        if isinstance(line, SourceError):
            tell(str(line))
        elif not isinstance(line, NewEvent):
            yield line


def _place(line: Mapping[str, Any], last: int) -> tuple[int, int, EventKind]:
    """Position, time and kind of an entry."""
    seq = line["seq"]
    if type(seq) is not int or seq <= last:
        raise ValueError
    return seq, to_micros(datetime.fromisoformat(line["timestamp"])), EventKind(line["kind"])


def _id_of(line: Mapping[str, Any]) -> str:
    return check_id(line["id"], "id")


def _is_it(event: SessionEvent, line: Mapping[str, Any]) -> bool:
    """Whether an entry that is here is that of a line."""
    return event.id == line.get("id") and event.kind.value == line.get("kind")


def _is_summary_of(line: Mapping[str, Any], record: Mapping[str, Any], seq: int) -> bool:
    """Whether an entry is part of what a compaction wrote behind its record."""
    covers, is_next = record.get("covers"), line.get("seq") == seq + 1
    is_one = record.get("kind") == EventKind.COMPACTION.value and bool(line.get("synthetic"))
    return is_one and is_next and bool(covers) and line.get("covers") == covers


def _moment(written: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(written)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None
