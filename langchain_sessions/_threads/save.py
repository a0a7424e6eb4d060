"""Writing checkpoints and pending writes, and remembering what was written."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import ERROR

from langchain_sessions._chat.address import config_of, namespace_digest
from langchain_sessions._core.checkpoints import NAMES_WITHIN, ROOT, rewound
from langchain_sessions._core.locks import empty_in_child, new_lock
from langchain_sessions._core.packed_texts import NOTHING_PACKED
from langchain_sessions._core.ranges import encode_ranges
from langchain_sessions._core.rows import ROOTED
from langchain_sessions._core.twins import finish
from langchain_sessions._log.log import after_append, thread_draft
from langchain_sessions._threads.given import COUNTERS, in_order
from langchain_sessions._threads.pending import LARGE, MOST_STEPS, NOTHING_WRITTEN, PendingWrite, Written, leave_out
from langchain_sessions._threads.plan import START, PlannedCheckpoint
from langchain_sessions._threads.record import SCALARS, Cutter, Given, checked_id, dump_slot, lighten, record_of
from langchain_sessions._threads.split import apart, plain_bytes
from langchain_sessions.errors import StalePlanError
from langchain_sessions.stores._threads import PutPlan, PutResult, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint

    from langchain_sessions._chat.address import ThreadConfig
    from langchain_sessions._core.checkpoints import WriteRow
    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._threads.cache import ThreadCache
    from langchain_sessions._threads.forms import ValueForms
    from langchain_sessions._threads.load import CheckpointLoader
    from langchain_sessions._threads.record import Record
    from langchain_sessions.stores._threads import PlanOutcome, ThreadPlan, ThreadStore
    from langchain_sessions.stores._values import SessionDraft

_PATIENCE, _ALONE, _PASSED = 0.003, 0.02, 7
"""Seconds, and how often others go first. A flush takes as long, and a checkpoint follows its last writes sooner; of
one task, which a busy machine holds up, not much later. Nobody waits for it; many wait for each other's threads."""
# The constructor of a named tuple takes twice as long, by names three times.
_tuple = tuple.__new__


class CheckpointWriter:
    """Writes checkpoints and pending writes of threads."""

    def __init__(self, loader: CheckpointLoader, queue: CommitQueue, encoder: EventEncoder, forms: ValueForms) -> None:
        """Write through a queue, and share what is known with a loader."""
        self._loader = loader
        self._cache = loader.cache
        self._queue = queue
        self._encoder = encoder
        self._forms = forms
        self._steps: dict[tuple[str, str, str], Written] = {}
        """What tasks wrote on checkpoints that have no child yet, whether that is all, and how many bytes it is."""
        self._steps_guard = new_lock()
        self._forgot_at = ""
        """When a step was forgotten last: of one whose checkpoint is no younger nobody knows whether that is all."""

    # -- checkpoints ---------------------------------------------------------------------------------------

    def put(
        self,
        at: ThreadConfig,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
        *,
        strict: bool,
    ) -> Flow[RunnableConfig]:
        """Store a checkpoint that came from the one which the config names; the config of the new one."""
        ns, parent, is_again = namespace_digest(at.namespace) if at.namespace else ROOT, at.checkpoint_id, False
        thread = self._cache.known(at.log.app, at.session_id)
        # Without the parent nothing could be inherited, and every value would be stored again.
        if parent is not None and (thread is None or (ns, parent) not in thread.records):
            thread = yield from self._loader.load_parent(at)
        while True:
            record = record_of(ns, checkpoint, parent, metadata, self._forms, () if thread is None else thread.shapes)
            draft = thread_draft(at.log, at.key, anew=ns == ROOT and parent is None)
            planned = self._planned(at, record, thread, draft.now)
            written = None
            if COUNTERS in metadata and parent is not None:
                written = in_order(planned.pending)
                if not self._steps.get((at.session_id, at.namespace, parent), NOTHING_WRITTEN)[1]:
                    # Some of it may have been written by a process that is gone.
                    written = yield from self._loader.writes_of(at)
            planned.take(checkpoint["channel_values"], new_versions, written)
            plan = self._plan(at, planned, draft, strict=strict, is_fork=metadata.get("source") == "fork")
            after = partial(self._learn, at, planned, checkpoint["channel_values"].get(START))
            try:
                # As `ask` does, whose two functions each step would enter for each of its calls.
                done: PutResult = yield self._queue.submit, (plan, after), {}
            except StalePlanError:
                self._cache.forget(at.log.app, at.session_id)
                thread = None if is_again or parent is None else (yield from self._loader.load_parent(at))
                is_again = True
            else:
                recall = after_append(at.log, plan.key, done.session.last_seq, done.decision.fresh)
                if recall is not None:
                    yield from recall
                return config_of(done.session, at.namespace, record.cid, at.said)

    def _planned(self, at: ThreadConfig, record: Record, thread: ThreadCache | None, now: int) -> PlannedCheckpoint:
        pending, _, _ = self._steps.get((at.session_id, at.namespace, record.parent or ""), NOTHING_WRITTEN)
        parent = start = seal = None
        if thread is not None:
            came_from = record.ns, record.parent or ""
            parent, start, seal = thread.records.get(came_from), thread.starts.get(came_from), thread.seal
        cutter = Cutter(self._forms, seal)
        return PlannedCheckpoint(record, at.namespace, self._encoder, cutter, thread, parent, pending, start, now)

    def _plan(
        self, at: ThreadConfig, planned: PlannedCheckpoint, draft: SessionDraft, *, strict: bool, is_fork: bool
    ) -> PutPlan:
        record, thread = planned.record, planned.thread
        shape, names = (NAMES_WITHIN, b"") if record.keeps_names else record.shape
        named_in, known_to, seen_as = None, 0, None if thread is None else thread.skey
        said: Sequence[EventRow] = ()
        if thread is not None and (record.ns == ROOT or record.ns in thread.named):
            named_in = seen_as if shape == NAMES_WITHIN or shape in thread.named else None
        if planned.incoming:
            known_to, planned.since = planned.known_to, planned.known_since()
            said = [item.row for item in planned.incoming]
            known_to = min(known_to, planned.known_to)  # another thread may take messages in meanwhile, or see a rewind
        place = record.ns, at.namespace, record.cid, record.parent, is_fork, shape, names
        what = planned.idents, planned.decide, planned.since or {}, known_to, strict
        return _tuple(PutPlan, (at.key, draft, *place, *what, named_in, seen_as, said, NOTHING_PACKED))

    def _learn(self, at: ThreadConfig, planned: PlannedCheckpoint, start: Any, result: PutResult) -> None:
        """Remember what was committed."""
        record = planned.record
        known = self._cache.thread(result.session)
        thread = planned.thread or known  # it was forgotten meanwhile: what is known now lacks what the record names
        if planned.incoming:
            thread.add([*planned.related, *result.decision.fresh], planned.revised)
        for seq in result.decision.rooted if result.decision.rooted.ranges else ():
            if seq in thread.rows:
                thread.rows[seq] = thread.row(seq)._replace(flags=thread.row(seq).flags | ROOTED)
        shape, names = record.shape
        thread.named.update((record.ns,) if record.keeps_names else (record.ns, shape))
        thread.shapes[shape] = names
        lighten(record)
        thread.keep(record)
        if planned.trees:
            thread.trees.keep(planned.trees, planned.pieces.values())
        thread.seal = planned.cutter.seal
        thread.is_rewound = bool(rewound(result.session).ranges)
        if start is not None:
            thread.starts[record.ns, record.cid] = start
        for write, row in planned.adopted:
            write.row = row
        if planned.parent is not None and planned.parent_slot is not None:
            planned.parent.slots[START] = planned.parent_slot
            # Only once it is committed: until then a second attempt needs the graph's input as it was.
            thread.starts.pop((planned.parent.ns, planned.parent.cid), None)
        self._steps.pop((at.session_id, at.namespace, record.parent or ""), None)
        if record.delta is not None:
            self._expect(at, record.cid, (), begun=record.ts)

    # -- what tasks wrote ----------------------------------------------------------------------------------

    def put_writes(
        self, at: ThreadConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str, *, durable: bool
    ) -> Flow[None]:
        """Store what a task wrote, beside the checkpoint that it ran on."""
        cid = checked_id(at.checkpoint_id, "checkpoint_id")
        task = checked_id(task_id, "task_id")
        thread = self._cache.known(at.log.app, at.session_id)
        ns = namespace_digest(at.namespace) if at.namespace else ROOT
        while True:
            parent = seal = None
            if thread is not None:
                parent, seal = thread.records.get((ns, cid)), thread.seal
            given = Given(ns, task, task_path, thread, parent, Cutter(self._forms, seal))
            pending = [
                # LangGraph's own channels have places below zero, where a later write replaces an earlier one.
                self._pending_write(given, WRITES_IDX_MAP.get(channel, number), channel, value)
                for number, (channel, value) in enumerate(writes)
            ]
            plan = self._writes_plan(at, cid, given, pending, durable=durable)
            # Before it is committed: the next checkpoint may be planned while this waits for its turn.
            self._expect(at, cid, pending)
            try:
                yield self._queue.submit, (plan, given.learn), {}
            except StalePlanError:
                self._cache.forget(at.log.app, at.session_id)
                thread = None
            else:
                return

    def _pending_write(self, given: Given, idx: int, channel: str, value: Any) -> PendingWrite:
        """A write with references to the messages that the log has. What waits for the log to have it stays whole."""
        if channel == ERROR and isinstance(value, BaseException):
            value = repr(value)  # as LangGraph's own savers keep it
        if type(value) in SCALARS:
            return PendingWrite(given.row(idx, channel, given.cutter.scalar(channel, value)), value)
        if (packed := plain_bytes(value)) is not None:
            slot, tree = given.dump(channel, value, None, packed)
            return PendingWrite(given.row(idx, channel, slot), value, tree, given)
        found = apart(value, None if given.thread is None else given.thread.position)
        refs, tree = None if found.seqs is None else encode_ranges(found.seqs), None
        if found.has_others:
            slot = dump_slot(found.skeleton, self._forms, channel, refs, holds_messages=True)
        else:
            slot, tree = given.dump(channel, found.skeleton, refs, None)
        return PendingWrite(given.row(idx, channel, slot), value, tree, given)

    def _writes_plan(
        self, at: ThreadConfig, cid: str, given: Given, pending: Sequence[PendingWrite], *, durable: bool
    ) -> WritesPlan:
        ns, thread = given.ns, given.thread
        is_regular = min([write.row.idx for write in pending], default=0) >= 0  # errors and interrupts end a step

        def rows(skey: int) -> Sequence[WriteRow]:
            if thread is not None and thread.skey != skey:
                raise StalePlanError
            return [write.row for write in pending]

        named_in = thread.skey if thread is not None and (ns == ROOT or ns in thread.named) else None
        values = tuple(given.pieces.values()) if given.pieces else ()
        needs = tuple(sorted(given.needs)) if given.needs else ()
        place = at.key, thread_draft(at.log, at.key, anew=False), ns, at.namespace, cid
        return _tuple(WritesPlan, (*place, rows, named_in, values, needs, is_regular, is_regular and not durable))

    def _expect(self, at: ThreadConfig, cid: str, pending: Sequence[PendingWrite], *, begun: str = "") -> None:
        """Remember writes until the next checkpoint takes their messages over. Tasks of one step come at once."""
        place, size = (at.session_id, at.namespace, cid), 0
        for write in pending:
            size += len(write.row.data or b"") + (0 if write.tree is None else len(write.tree.data))
        with self._steps_guard:
            before, is_all, held = self._steps.get(place, NOTHING_WRITTEN)
            size += held
            is_all = is_all or begun > self._forgot_at
            self._steps[place] = [*before, *pending] if before else pending, is_all, size
            if (len(self._steps) > MOST_STEPS or size >= LARGE) and leave_out(self._steps, place):
                self._forgot_at = datetime.now(timezone.utc).isoformat()


class _Call:
    """One caller's work and what became of it: patient while a checkpoint may follow, which takes it along.

    `after` runs once it is committed, before anybody else's turn; a thread that is patient waits for `told`. `takes`
    says whose writes a checkpoint takes over, `place` whose writes they are.
    """

    takes: tuple[int, str | None] | None = None
    place: tuple[int, str] | None = None
    told: threading.Lock | None = None
    result: PutResult | BaseException | None = None
    is_done = is_patient = False
    passed = 0

    def __init__(self, plan: ThreadPlan, after: Callable[[Any], None]) -> None:
        self.plan, self.after = plan, after
        if isinstance(plan, PutPlan):
            self.takes = (plan.ns, plan.parent)
        elif plan.is_regular:
            self.is_patient, self.place = True, (plan.ns, plan.cid)
            self.told = told = threading.Lock()
            told.acquire()

    def tell(self) -> None:
        """Wake who waits for it."""
        if self.told is not None and self.told.locked():
            self.told.release()

    def goes_later(self) -> bool:
        """Whether it may wait once more: a checkpoint that does not come is not waited for."""
        self.passed += 1
        self.is_patient = self.passed < _PASSED
        return self.is_patient

    def outcome(self) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


Turn = TypeVar("Turn")
Company = TypeVar("Company", None, asyncio.Event)


@dataclass(slots=True, eq=False)
class _Line(Generic[Turn, Company]):
    """The calls that wait for one thread: whoever has the turn commits; company is set where one cannot wait longer."""

    turn: Turn
    company: Company
    waiting: list[_Call] = field(default_factory=list)
    users: int = 0

    def take(self) -> list[_Call]:
        """What is committed next: writes, then the checkpoints, which take over what their parents' writes hold."""
        batch, self.waiting = self.waiting, []
        puts = [call for call in batch if call.takes is not None]
        if not puts or len(batch) == 1:
            return batch
        taken = [call.takes for call in puts]
        writes: list[_Call] = []
        for call in batch:
            # Without the checkpoint that takes them over writes would be written twice, staged and then for good: it
            # is one of the next.
            if call.is_patient and call.place not in taken and call.goes_later():
                self.waiting.append(call)
            elif call.takes is None:
                writes.append(call)
        return writes + puts

    def give_back(self, batch: Sequence[_Call], torn: _Call) -> None:
        """Have the others wait again: whoever had the turn was torn away from it."""
        self.waiting[:0] = left = [call for call in batch if not call.is_done and call is not torn]
        for call in left:
            call.is_patient = False
            call.tell()


_AsyncLine = _Line[asyncio.Lock, asyncio.Event]


class CommitQueue:
    """Commits the writes of threads."""

    def __init__(self, store: ThreadStore) -> None:
        """Write to a store."""
        self._store = store
        self._guard = new_lock()
        self._lines: dict[tuple[str, str], _Line[threading.Lock, None]] = {}
        self._async_lines: WeakKeyDictionary[Any, dict[tuple[str, str], _AsyncLine]] = WeakKeyDictionary()
        empty_in_child(self)

    def leave_all(self) -> None:
        """Forget the callers of another process."""
        self._lines = {}
        self._async_lines = WeakKeyDictionary()

    def submit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        """Write what was planned; returns when it is committed."""
        name, call = plan.key[:2], _Call(plan, after)
        with self._guard:
            line = self._lines.get(name)
            if line is None:
                # It lives as long as somebody stands in it: a saver that has seen a million threads holds none.
                line = self._lines[name] = _Line(threading.Lock(), None)
            line.users += 1
            line.waiting.append(call)
        try:
            while not call.is_done:
                # It goes with its checkpoint, whose caller takes it along and tells it. Without the turn, which the
                # checkpoint before has to take; while somebody has that, one alone does not count the time.
                if call.is_patient and self._store.waits and call.told is not None:
                    is_told = call.told.acquire(timeout=_PATIENCE)
                    if not is_told and len(line.waiting) == 1 and (line.turn.locked() or call.goes_later()):
                        continue  # asked now and then: others that come may have taken it along
                with line.turn:
                    if not call.is_done:
                        self._commit(line, call)
        finally:
            with self._guard:
                line.users -= 1
                if not line.users:
                    self._lines.pop(name, None)
        return call.outcome()

    def _commit(self, line: _Line[threading.Lock, None], call: _Call) -> None:
        """Commit what waits. Writes for which no checkpoint came yet may stay in the line: see `_Line.take`."""
        with self._guard:
            batch = line.take()
        try:
            _note(batch, self._store.commit_threads([each.plan for each in batch]))
        except BaseException:
            with self._guard:
                line.give_back(batch, call)
            raise

    async def asubmit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        """Async `submit`. A cancelled caller never leaves half a plan."""
        if not self._store.waits:
            return self.submit(plan, after)
        return await finish(self._asubmit(plan, after))

    async def _asubmit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        name = plan.key[:2]
        lines = self._async_lines.setdefault(asyncio.get_running_loop(), {})
        line = lines.get(name)
        if line is None:
            line = lines[name] = _Line(asyncio.Lock(), asyncio.Event())
        call = _Call(plan, after)
        line.users += 1
        line.waiting.append(call)
        if not call.is_patient:
            line.company.set()
        try:
            while not call.is_done:
                if call.is_patient and not line.company.is_set():
                    # A timer costs a third of `wait_for`, which makes a task, and this is asked for every step.
                    seconds = _PATIENCE if len(line.waiting) > 1 else _ALONE
                    patience = asyncio.get_running_loop().call_later(seconds, line.company.set)
                    await line.company.wait()
                    patience.cancel()
                async with line.turn:
                    if not call.is_done and (not call.is_patient or line.company.is_set()):
                        await self._acommit(line, call)
        finally:
            line.users -= 1
            if not line.users:
                lines.pop(name, None)
        return call.outcome()

    async def _acommit(self, line: _AsyncLine, call: _Call) -> None:
        """Async `_commit`."""
        batch = line.take()
        line.company.clear()
        try:
            _note(batch, await self._store.acommit_threads([each.plan for each in batch]))
        except BaseException:
            line.give_back(batch, call)
            line.company.set()
            raise


def _note(calls: Sequence[_Call], outcomes: Sequence[PlanOutcome]) -> None:
    """Note what became of some calls, and tell those that wait for it."""
    for call, outcome in zip(calls, outcomes, strict=True):
        call.is_done = True
        call.result = outcome
        if not isinstance(outcome, Exception):
            try:
                call.after(outcome)
            except Exception as error:  # told to its caller, not to the one whose turn it is
                call.result = error
        call.tell()
