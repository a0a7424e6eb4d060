"""Writers of one partition in this process take turns, so that only those of other processes are raced.

A turn is politeness: what keeps a commit right is its comparison. So who waits too long goes ahead without one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

from langchain_sessions._core.locks import empty_in_child, new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.stores.engine import Partition

# Seconds after which whoever has the turn is taken to have died with it, or its loop to stand still.
_LONGEST = 10.0


class Turns:
    """Queues, one for each partition that somebody writes to now."""

    def __init__(self) -> None:
        """Nobody writes yet."""
        self._guard = new_lock()
        self._queues: dict[Partition, deque[Callable[[], None]]] = {}
        empty_in_child(self)

    def leave_all(self) -> None:
        """Forget the threads of another process."""
        self._queues = {}

    def take(self, partition: Partition) -> bool:
        """Wait for a turn; False where the others take too long."""
        event = threading.Event()
        if self._enter(partition, event.set):
            return True
        try:
            return event.wait(_LONGEST) or not self._withdraw(partition, event.set)
        except BaseException:
            if not self._withdraw(partition, event.set):
                self.leave(partition)
            raise

    async def atake(self, partition: Partition) -> bool:
        """Async `take`."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()

        def wake() -> None:
            # The turn may be given by a thread, or by a task of another loop.
            loop.call_soon_threadsafe(event.set)

        if self._enter(partition, wake):
            return True
        try:
            await asyncio.wait_for(event.wait(), _LONGEST)
        except (TimeoutError, asyncio.TimeoutError):
            return not self._withdraw(partition, wake)
        except BaseException:
            if not self._withdraw(partition, wake):
                self.leave(partition)
            raise
        return True

    def leave(self, partition: Partition) -> None:
        """Give the turn to whoever has waited longest."""
        while True:
            with self._guard:
                queue = self._queues.get(partition)
                if not queue:
                    self._queues.pop(partition, None)
                    return
                wake = queue.popleft()
            try:
                wake()
            except RuntimeError:  # its loop was closed
                continue
            return

    def _enter(self, partition: Partition, wake: Callable[[], None]) -> bool:
        with self._guard:
            queue = self._queues.get(partition)
            if queue is None:
                self._queues[partition] = deque()
                return True
            queue.append(wake)
            return False

    def _withdraw(self, partition: Partition, wake: Callable[[], None]) -> bool:
        """Stop waiting; False where the turn has come."""
        with self._guard:
            try:
                self._queues[partition].remove(wake)
            except (KeyError, ValueError):
                return False
            return True
