"""Calls that wait for one thread share one transaction.

Whoever gets the turn commits all that wait; each caller returns after its own commit. It spares a disk flush for
every call that came while another one was being written.

What a task wrote is mostly followed at once by the checkpoint that takes it over, so regular writes wait a moment for
company. Nobody waits for them meanwhile: a graph stores them in the background.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from langchain_sessions._core.twins import finish
from langchain_sessions.stores._threads import PutPlan, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions.stores._threads import PlanOutcome, ThreadPlan, ThreadStore

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


Turn = TypeVar("Turn")
Company = TypeVar("Company", threading.Event, asyncio.Event)


@dataclass(slots=True, eq=False)
class _Line(Generic[Turn, Company]):
    """The calls that wait for one thread.

    Attributes:
        turn: Held by whoever commits.
        company: Set where one of them cannot wait any longer.
        waiting: The calls.
        users: How many callers are about it.
    """

    turn: Turn
    company: Company
    waiting: list[_Call] = field(default_factory=list[_Call])
    users: int = 0

    def join(self, call: _Call) -> None:
        self.users += 1
        self.waiting.append(call)
        if not call.is_patient:
            self.company.set()

    def take(self) -> list[_Call]:
        """All that wait, writes before checkpoints: a checkpoint takes over what its parent's writes hold."""
        batch, self.waiting = self.waiting, []
        self.company.clear()
        return sorted(batch, key=_is_put)

    def give_back(self, batch: Sequence[_Call]) -> None:
        """Have them wait again: whoever had the turn was torn away from it."""
        self.waiting[:0] = [call for call in batch if not call.is_done]
        self.company.set()


class CommitQueue:
    """Commits the writes of threads."""

    def __init__(self, store: ThreadStore) -> None:
        """Write to a store."""
        self._store = store
        self._guard = threading.Lock()
        self._lines: dict[SessionKey, _Line[threading.Lock, threading.Event]] = {}
        self._async_lines: WeakKeyDictionary[Any, dict[SessionKey, _Line[asyncio.Lock, asyncio.Event]]] = (
            WeakKeyDictionary()
        )

    def submit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        """Write what was planned; returns when it is committed."""
        name = plan.key._replace(owner=None)
        call = _Call(plan, after)
        with self._guard:
            line = self._lines.get(name)
            if line is None:
                line = self._lines[name] = _Line(threading.Lock(), threading.Event())
            line.join(call)
        try:
            with line.turn:
                if not call.is_done:
                    if self._store.waits:
                        line.company.wait(_PATIENCE)
                    with self._guard:
                        batch = line.take()
                    try:
                        _note(batch, self._store.commit_threads([each.plan for each in batch]))
                    except BaseException:
                        with self._guard:
                            line.give_back([each for each in batch if each is not call])
                        raise
        finally:
            with self._guard:
                line.users -= 1
                if not line.users:
                    self._lines.pop(name, None)
        return call.outcome()

    async def asubmit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        """Async `submit`. A cancelled caller never leaves half a plan."""
        if not self._store.waits:
            return self.submit(plan, after)
        return await finish(self._asubmit(plan, after))

    async def _asubmit(self, plan: ThreadPlan, after: Callable[[Any], None]) -> Any:
        name = plan.key._replace(owner=None)
        lines = self._async_lines.setdefault(asyncio.get_running_loop(), {})
        line = lines.get(name)
        if line is None:
            line = lines[name] = _Line(asyncio.Lock(), asyncio.Event())
        call = _Call(plan, after)
        line.join(call)
        try:
            async with line.turn:
                if not call.is_done:
                    if not line.company.is_set():
                        # A timer costs a third of `wait_for`, which makes a task, and this is asked for every step.
                        patience = asyncio.get_running_loop().call_later(_PATIENCE, line.company.set)
                        await line.company.wait()
                        patience.cancel()
                    batch = line.take()
                    try:
                        _note(batch, await self._store.acommit_threads([each.plan for each in batch]))
                    except BaseException:
                        line.give_back([each for each in batch if each is not call])
                        raise
        finally:
            line.users -= 1
            if not line.users:
                lines.pop(name, None)
        return call.outcome()


def _is_put(call: _Call) -> bool:
    return isinstance(call.plan, PutPlan)


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
        except Exception as error:  # told to its caller, not to the one whose turn it is
            call.error = error
