"""When a compaction runs: at once, or beside the conversation after the reply, on a thread or as a task.

Never do two run at once for one scope. What a compaction needs is loaded by the first one.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.locks import new_lock
from langchain_sessions._core.twins import alone

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from langchain_sessions._compaction.plan import Compaction, CompactionResult, ModelCall
    from langchain_sessions._log.log import Log

_log = logging.getLogger(__name__)

Scope = tuple[str, str, str | None]
"""App, session and branch."""


class BackgroundRuns:
    """The background runs of one service and all its views.

    Within this process a scope that is being compacted is not begun again; across processes a lease in the store
    sees to that. `drain` waits for what is running. Threads are daemons: a process that ends without `close` leaves
    the log as it was before the run, never half compacted.
    """

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._lock = new_lock()
        self._threads: dict[Scope, threading.Thread] = {}
        self._tasks: dict[Scope, asyncio.Task[Any]] = {}
        self._closed = False

    def start(self, scope: Scope, flow: Callable[[], Flow[Any]]) -> bool:
        """Begin a run on a thread; False when the scope has one already or the service is closed."""
        with self._lock:
            if not self._is_free(scope):
                return False
            thread = threading.Thread(target=self._work, args=(scope, flow), name="background", daemon=True)
            self._threads[scope] = thread
            # Started under the lock, so that `drain` never joins a thread that has not begun.
            thread.start()
        return True

    def _work(self, scope: Scope, flow: Callable[[], Flow[Any]]) -> None:
        try:
            drive(flow())
        except Exception as error:  # noqa: BLE001 - nobody waits for it; the log of the process is told
            _report(scope, error)
        finally:
            with self._lock:
                if self._threads.get(scope) is threading.current_thread():
                    del self._threads[scope]

    async def astart(self, scope: Scope, flow: Callable[[], Flow[Any]]) -> bool:
        """Async `start`: a task of the running loop."""
        import asyncio

        with self._lock:
            if not self._is_free(scope):
                return False
            # In a context of its own: callbacks and traces of the reply must not outlive it.
            create = asyncio.get_running_loop().create_task
            task: asyncio.Task[Any] = contextvars.Context().run(create, self._awork(scope, flow))
            self._tasks[scope] = task
        task.add_done_callback(lambda _: self._forget(scope))
        return True

    async def _awork(self, scope: Scope, flow: Callable[[], Flow[Any]]) -> None:
        try:
            await adrive(flow())
        except Exception as error:  # noqa: BLE001 - nobody waits for it; the log of the process is told
            _report(scope, error)

    @property
    def is_closed(self) -> bool:
        """Whether the service is being closed: what can be gone on with later need not be finished."""
        return self._closed

    def _is_free(self, scope: Scope) -> bool:
        thread, task = self._threads.get(scope), self._tasks.get(scope)
        # Threads of the process that this one was forked from, and tasks of a loop that ended, are over.
        running = (thread is not None and thread.is_alive()) or (task is not None and not task.done())
        return not self._closed and not running

    def _forget(self, scope: Scope) -> None:
        with self._lock:
            task = self._tasks.get(scope)
            if task is not None and task.done():
                del self._tasks[scope]

    def drain(self, timeout: float | None = None, *, close: bool = False) -> bool:
        """Wait for the threads; whether all are done. Tasks of a loop are waited for by `adrain` alone."""
        with self._lock:
            self._closed = self._closed or close
            waiting = list(self._threads.values())
        end = None if timeout is None else time.monotonic() + timeout
        for thread in waiting:
            if thread is not threading.current_thread():
                thread.join(None if end is None else max(end - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in waiting if thread is not threading.current_thread())

    async def adrain(self, timeout: float | None = None, *, close: bool = False) -> bool:
        """Async `drain`: waits for the tasks of this loop, and for the threads."""
        import asyncio

        with self._lock:
            self._closed = self._closed or close
            loop = asyncio.get_running_loop()
            tasks = {task for task in self._tasks.values() if task.get_loop() is loop}
            has_threads = bool(self._threads)
        pending: set[asyncio.Task[Any]] = set()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=timeout)
        if has_threads and not await alone(self.drain, timeout):
            return False
        return not pending


def _report(scope: Scope, error: Exception) -> None:
    _log.warning("Background work on session %r failed: %s", scope[1], type(error).__name__)


def compact_now(
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
    """`SessionService.compact`."""
    from langchain_sessions._compaction.run import compact_session

    return (
        yield from compact_session(
            log,
            session_id,
            compaction,
            branch=branch,
            invocation_id=invocation_id,
            force=force,
            call=call,
            automatic=automatic,
        )
    )


def compact_later(
    log: Log,
    session_id: str,
    compaction: Compaction,
    *,
    branch: str | None = None,
    call: ModelCall | None = None,
    ancestors: bool = False,
) -> Flow[bool]:
    """`SessionService.compact_later`; for a viewer also what it sees of its ancestors, where its own is not enough."""

    def run() -> Flow[None]:
        result = yield from compact_now(log, session_id, compaction, branch=branch, call=call, automatic=True)
        if not ancestors or branch is None or compaction.when is None:
            return
        from langchain_sessions._compaction.triggers import PromptSize

        scope: str | None = branch
        of_prompt = replace(compaction, when=PromptSize(compaction.when))
        # What the prompt is after a compaction, the next call knows.
        while scope is not None and not result.is_compacted:
            scope = scope.rpartition(".")[0] or None
            result = yield from compact_now(log, session_id, of_prompt, branch=scope, call=call, automatic=True)

    return (yield from ask(log.background.start, (log.app, session_id, branch), run))
