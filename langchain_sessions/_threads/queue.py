"""Calls that wait for one thread share one transaction.

Whoever gets the turn commits all that wait; each caller returns after its own commit. It spares a disk flush for
every call that came while another one was being written.

What a task wrote is mostly followed at once by the checkpoint that takes it over, so regular writes wait a moment for
company. Nobody waits for them meanwhile: a graph stores them in the background.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langchain_sessions._core.twins import finish
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.modes import Mode
from langchain_sessions._sql.threads.writing import Job, Outcome, run_jobs
from langchain_sessions.errors import StoreUnavailableError
from langchain_sessions.stores.threads import PutPlan, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions._sql.store import SqlStore

_MAX_RACES = 20
_PATIENCE = 0.003
"""Seconds. A flush takes as long, and a checkpoint follows its last writes sooner."""


@dataclass(slots=True, eq=False)
class _Call:
    """One caller's work and what became of it. `after` runs once it is committed, before anybody else's turn."""

    job: Job
    after: Callable[[Any], None]
    is_done: bool = False
    result: Any = None
    error: BaseException | None = None

    @property
    def is_patient(self) -> bool:
        """Whether a checkpoint may be about to follow, which would take the same transaction."""
        return isinstance(self.job, WritesPlan) and self.job.is_regular

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class _Line:
    """The calls that wait for one thread; `company` says that one of them cannot wait any longer."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.company = threading.Event()
        self.waiting: list[_Call] = []
        self.users = 0


class _AsyncLine:
    """The same on one event loop."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.company = asyncio.Event()
        self.waiting: list[_Call] = []
        self.users = 0


class CommitQueue:
    """Commits the writes of threads."""

    def __init__(self, store: SqlStore) -> None:
        """Write to a store."""
        self._store = store
        self._guard = threading.Lock()
        self._lines: dict[tuple[str, str], _Line] = {}
        self._async_lines: WeakKeyDictionary[Any, dict[tuple[str, str], _AsyncLine]] = WeakKeyDictionary()

    def submit(self, job: Job, after: Callable[[Any], None]) -> Any:
        """Do a job; returns when it is committed."""
        name = (job.key.app, job.key.id)
        call = _Call(job, after)
        with self._guard:
            line = self._lines.setdefault(name, _Line())
            line.users += 1
            line.waiting.append(call)
            if not call.is_patient:
                line.company.set()
        try:
            with line.turn:
                if not call.is_done:
                    line.company.wait(_PATIENCE)
                    with self._guard:
                        batch, line.waiting = line.waiting, []
                        line.company.clear()
                    self._commit(batch)
        finally:
            with self._guard:
                line.users -= 1
                if not line.users:
                    self._lines.pop(name, None)
        return call.outcome()

    async def asubmit(self, job: Job, after: Callable[[Any], None]) -> Any:
        """Async `submit`. A cancelled caller never leaves half a job."""
        if not self._store.has_async_engine:
            return await finish(asyncio.to_thread(self.submit, job, after))
        return await finish(self._asubmit(job, after))

    async def _asubmit(self, job: Job, after: Callable[[Any], None]) -> Any:
        name = (job.key.app, job.key.id)
        lines = self._async_lines.setdefault(asyncio.get_running_loop(), {})
        line = lines.setdefault(name, _AsyncLine())
        call = _Call(job, after)
        line.users += 1
        line.waiting.append(call)
        if not call.is_patient:
            line.company.set()
        try:
            async with line.turn:
                if not call.is_done:
                    with suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(line.company.wait(), _PATIENCE)
                    batch, line.waiting = line.waiting, []
                    line.company.clear()
                    await self._acommit(batch)
        finally:
            line.users -= 1
            if not line.users:
                lines.pop(name, None)
        return call.outcome()

    def _commit(self, batch: list[_Call]) -> None:
        """Commit a batch; where that fails, each call by itself, so that one does not take others with it."""
        ordered = _in_order(batch)
        if len(ordered) > 1:
            # Where a batch fails, each call is tried alone and reports its own error.
            with suppress(Exception):
                _settle(ordered, self._store.run(_mode(ordered), run_jobs, [call.job for call in ordered]))
        for call in ordered:
            for attempt in range(_MAX_RACES):
                if call.is_done:
                    break
                try:
                    _settle([call], self._store.run(_mode([call]), run_jobs, [call.job], wary=attempt > 0))
                except Exception as error:
                    _fail(call, error, attempt)

    async def _acommit(self, batch: list[_Call]) -> None:
        """Async `_commit`."""
        ordered = _in_order(batch)
        if len(ordered) > 1:
            # Where a batch fails, each call is tried alone and reports its own error.
            with suppress(Exception):
                _settle(ordered, await self._store.arun(_mode(ordered), run_jobs, [call.job for call in ordered]))
        for call in ordered:
            for attempt in range(_MAX_RACES):
                if call.is_done:
                    break
                try:
                    _settle([call], await self._store.arun(_mode([call]), run_jobs, [call.job], wary=attempt > 0))
                except Exception as error:
                    _fail(call, error, attempt)


def _in_order(batch: list[_Call]) -> list[_Call]:
    """Writes before checkpoints: a checkpoint takes over what its parent's writes hold."""
    return sorted(batch, key=lambda call: isinstance(call.job, PutPlan))


def _mode(calls: Sequence[_Call]) -> Mode:
    """How to run them: without waiting for the disk only where none of them has to."""
    may_lag = all(isinstance(call.job, WritesPlan) and call.job.may_lag for call in calls)
    return Mode.RELAXED if may_lag else Mode.APPEND


def _settle(calls: Sequence[_Call], outcomes: Sequence[Outcome]) -> None:
    """Note what was committed. What turned out not to be stored stays undone."""
    for call, outcome in zip(calls, outcomes, strict=True):
        if outcome.happened:
            call.result = outcome
            call.after(outcome)
            call.is_done = True


def _fail(call: _Call, error: Exception, attempt: int) -> None:
    """Note a failure, unless it was a race that may be run again."""
    if isinstance(error, UniqueViolationError):
        if attempt < _MAX_RACES - 1:
            return
        error = StoreUnavailableError(f"Thread {call.job.key.id!r} could not be written: other writers keep winning.")
    call.error = error
    call.is_done = True
