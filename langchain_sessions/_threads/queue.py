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
from langchain_sessions.stores.threads import PutPlan, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions.stores.threads import PlanOutcome, ThreadPlan, ThreadStore

_PATIENCE = 0.003
"""Seconds. A flush takes as long, and a checkpoint follows its last writes sooner."""


@dataclass(slots=True, eq=False)
class _Call:
    """One caller's work and what became of it. `after` runs once it is committed, before anybody else's turn."""

    plan: ThreadPlan
    after: Callable[[Any], None]
    is_done: bool = False
    result: Any = None
    error: BaseException | None = None

    @property
    def is_patient(self) -> bool:
        """Whether a checkpoint may be about to follow, which would take the same transaction."""
        return isinstance(self.plan, WritesPlan) and self.plan.is_regular

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

    def __init__(self, store: ThreadStore) -> None:
        """Write to a store."""
        self._store = store
        self._guard = threading.Lock()
        self._lines: dict[tuple[str, str], _Line] = {}
        self._async_lines: WeakKeyDictionary[Any, dict[tuple[str, str], _AsyncLine]] = WeakKeyDictionary()

    def submit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        """Write what was planned; returns when it is committed."""
        name = (plan.key.app, plan.key.id)
        call = _Call(plan, after)
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

    async def asubmit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        """Async `submit`. A cancelled caller never leaves half a plan."""
        if not self._store.waits_on_loop:
            return await finish(asyncio.to_thread(self.submit, plan, after))
        return await finish(self._asubmit(plan, after))

    async def _asubmit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        name = (plan.key.app, plan.key.id)
        lines = self._async_lines.setdefault(asyncio.get_running_loop(), {})
        line = lines.setdefault(name, _AsyncLine())
        call = _Call(plan, after)
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
        ordered = _in_order(batch)
        _note(ordered, self._store.commit_threads([call.plan for call in ordered]))

    async def _acommit(self, batch: list[_Call]) -> None:
        ordered = _in_order(batch)
        _note(ordered, await self._store.acommit_threads([call.plan for call in ordered]))


def _in_order(batch: list[_Call]) -> list[_Call]:
    """Writes before checkpoints: a checkpoint takes over what its parent's writes hold."""
    return sorted(batch, key=lambda call: isinstance(call.plan, PutPlan))


def _note(calls: Sequence[_Call], outcomes: Sequence[PlanOutcome]) -> None:
    """Note what became of some calls."""
    for call, outcome in zip(calls, outcomes, strict=True):
        call.is_done = True
        if isinstance(outcome, Exception):
            call.error = outcome
            continue
        call.result = outcome
        try:
            call.after(outcome)
        except Exception as error:
            call.error = error
