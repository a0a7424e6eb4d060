"""One session in memory: its row, its events in a list, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langchain_sessions._core import rows as r
from langchain_sessions._core.archive import settle_archive
from langchain_sessions._core.counters import count_scope
from langchain_sessions._core.identity import place_batch, require_version
from langchain_sessions._core.ledger import Ledger, LogView
from langchain_sessions._core.marks import covers_of, marks_of, undone_target, with_extra
from langchain_sessions._core.ranges import decode_runs
from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, Mark, SessionRow
from langchain_sessions._core.standing import open_invocations
from langchain_sessions._core.state import apply_deltas, require_owner, scoped_keys
from langchain_sessions.errors import EventNotFoundError, SessionEndedError
from langchain_sessions.stores.values import Appended, Rewound, VectorChange, VectorPlace

if TYPE_CHECKING:
    from langchain_sessions.stores.values import AppendBatch, ArchivePlan, RewindPlan


@dataclass(slots=True)
class MemoryLog:
    """One session and all that it holds."""

    session: SessionRow
    events: list[EventRow] = field(default_factory=list[EventRow])
    marks: list[Mark] = field(default_factory=list[Mark])
    invocations: dict[str, InvocationRow] = field(default_factory=dict[str, InvocationRow])
    leases: dict[str | None, tuple[str, int]] = field(default_factory=dict[str | None, tuple[str, int]])
    vectors: dict[int, bytes] = field(default_factory=dict[int, bytes])
    embedded: tuple[int, int, str] = (0, 0, "")

    # -- reading -------------------------------------------------------------------------------------------

    def is_expired(self, now: int) -> bool:
        """Whether its time is over."""
        return self.session.expires_at is not None and self.session.expires_at <= now

    def view(self, idle_before: int) -> LogView:
        """Where its events stand."""
        head = None if self.session.head_runs is None else tuple(decode_runs(self.session.head_runs))
        standings = open_invocations(self.invocations.values(), idle_before)
        return LogView(Ledger.decode(self.session.ledger), head, standings, self.session.last_seq)

    def count(self, scope: str | None) -> Counters:
        """What is live in a scope."""
        return count_scope(self.events, self.view(0), scope)

    @property
    def counted(self) -> SessionRow:
        """Its row with the counters of the root scope."""
        counters = self.count(None)
        return self.session._replace(
            live_events=counters.events, live_turns=counters.turns, live_tokens=counters.tokens
        )

    # -- appending -----------------------------------------------------------------------------------------

    def append(self, batch: AppendBatch) -> tuple[Appended, list[str]]:
        """Append a batch; what was stored, and the state deltas that took effect with it."""
        name, last = self.session.id, self.session.last_seq
        if self.session.ended_at is not None:
            raise SessionEndedError(name)
        idents, ids = {row.ident for row in batch.rows}, {row.id for row in batch.rows}
        existing = [row for row in self.events if row.ident in idents or row.id in ids]
        view = self.view(batch.idle_before)
        require_version(name, batch, existing, view, last)
        placed = place_batch(name, batch, existing, view, last)
        deltas = [row.delta for row in placed.fresh if row.delta is not None]
        require_owner(self.session.user_id, deltas)
        if placed.fresh:
            ledger = view.ledger
            for edit in placed.edits:
                ledger = ledger.with_edit(edit)
            self.write(placed.fresh, batch.now)
            state = apply_deltas(self.session.state, deltas) if deltas else self.session.state
            self.session = self.session._replace(ledger=ledger.encode(), state=state)
        self._touch_invocations(batch)
        return Appended(placed.rows, self.session.last_seq, self.view(batch.idle_before)), deltas

    def _touch_invocations(self, batch: AppendBatch) -> None:
        """A retry that stored nothing still says how far its invocation got."""
        for row in batch.rows:
            known = None if row.invocation_id is None else self.invocations.get(row.invocation_id)
            mark = row.flags >> r.MARK_SHIFT & 7
            if known is not None and mark:
                self.invocations[known.id] = known._replace(status=mark, updated_at=batch.now)

    def write(self, rows: tuple[EventRow, ...], now: int) -> None:
        """Append rows that have their positions already, and what follows from them."""
        self.events.extend(rows)
        self.marks.extend(marks_of(rows))
        for row in rows:
            self._note_invocation(row, now)
        renewed = self.session.expires_at
        if self.session.renewal is not None and self.session.renewal_grain is not None and renewed is not None:
            due = now + self.session.renewal
            renewed = due if due - renewed >= self.session.renewal_grain else renewed
        self.session = self.session._replace(
            last_seq=self.session.last_seq + len(rows), updated_at=now, activity=now, expires_at=renewed
        )

    def _note_invocation(self, row: EventRow, now: int) -> None:
        if row.invocation_id is None:
            return
        mark = row.flags >> r.MARK_SHIFT & 7
        known = self.invocations.get(row.invocation_id)
        status = mark or (known.status if known else r.MARKS["done"])
        first = known.first_seq if known else row.seq
        self.invocations[row.invocation_id] = InvocationRow(row.invocation_id, first, status, now)

    # -- changing where events stand -----------------------------------------------------------------------

    def rewind(self, plan: RewindPlan) -> Rewound:
        """Hide what came after a position, with the state of then."""
        before = Ledger.decode(self.session.ledger).hidden
        target = self._target(plan)
        seq = self.session.last_seq + 1
        record = plan.record._replace(seq=seq, extra=with_extra(plan.record.extra, "mark", target))
        self.write((record,), plan.now)
        ledger = Ledger.of(self.marks, seq)
        kept = scoped_keys(row.delta for row in self.events if row.seq in ledger.hidden and row.seq not in before)
        self.session = self.session._replace(ledger=ledger.encode(), state=self._replayed(ledger))
        return Rewound(record, target, kept)

    def _target(self, plan: RewindPlan) -> int:
        name, hidden = self.session.id, Ledger.decode(self.session.ledger).hidden
        if plan.undo:
            return undone_target(name, self.marks, hidden)
        if plan.before_invocation is not None:
            hits = (row.seq for row in self.events if row.invocation_id == plan.before_invocation)
            first = next((seq for seq in hits if seq not in hidden), None)
            if first is None:
                raise EventNotFoundError(name, f"invocation {plan.before_invocation!r}")
            return first - 1
        target = plan.to_seq or 0
        if target > self.session.last_seq:
            raise EventNotFoundError(name, f"position {target}")
        return target

    def archive(self, plan: ArchivePlan) -> tuple[EventRow, ...] | None:
        """Commit a compaction, unless its range was touched."""
        view = self.view(plan.idle_before)
        old = view.ledger.covers.get(plan.scope)
        old_covers = covers_of(self.events[old.record - 1]) if old else []
        archived = settle_archive(plan, self.events, view, old_covers)
        if archived is None:
            return None
        self.write(archived.rows, plan.now)
        self.session = self.session._replace(ledger=view.ledger.with_cover(archived.cover).encode())
        return archived.rows

    def copy_from(self, source: MemoryLog, upto: int) -> None:
        """Hold what another log held up to a position, what it hid included."""
        self.events = source.events[:upto]
        self.marks = [mark for mark in source.marks if mark.seq <= upto]
        self.invocations = {name: row for name, row in source.invocations.items() if row.first_seq <= upto}
        ledger = Ledger.of(self.marks, upto)
        self.session = self.session._replace(
            last_seq=upto,
            ledger=ledger.encode(),
            initial_state=source.session.initial_state,
            aliased=source.session.aliased,
        )
        self.session = self.session._replace(state=self._replayed(ledger))

    def _replayed(self, ledger: Ledger) -> str:
        deltas = (row.delta for row in self.events if row.seq not in ledger.hidden)
        return apply_deltas(self.session.initial_state, deltas)

    def problems(self) -> list[str]:
        """A line for each derived value that differs from what the events say."""
        found: list[str] = []
        marks = marks_of(self.events)
        if [row.seq for row in self.events] != list(range(1, self.session.last_seq + 1)):
            found.append("positions are not gap-free")
        if marks != self.marks:
            found.append("marks differ from the log")
        ledger = Ledger.of(marks, self.session.last_seq)
        if ledger.encode() != self.session.ledger:
            found.append("ledger differs from the log")
        if self._replayed(ledger) != self.session.state:
            found.append("state differs from the log")
        return found

    # -- vectors -------------------------------------------------------------------------------------------

    @property
    def vector_place(self) -> VectorPlace:
        """How far its vectors go."""
        return VectorPlace(self.session.skey, self.session.id, self.session.last_seq, *self.embedded)

    def add_vectors(self, change: VectorChange) -> bool:
        """Add vectors, unless they moved since the plan."""
        if self.vector_place._replace(last_seq=change.place.last_seq) != change.place:
            return False
        if change.anew:
            self.vectors.clear()
        self.vectors.update(change.vectors)
        self.embedded = (change.embedded_to, change.generation, change.fingerprint)
        return True
