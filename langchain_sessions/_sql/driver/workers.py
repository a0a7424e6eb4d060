"""Threads of a store's own, since nodes and tools of the application may hold every thread of a loop's executor."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from langchain_sessions._core.locks import empty_in_child

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Workers:
    """A few threads, begun when they are needed."""

    def __init__(self, most: int) -> None:
        """Have at most so many."""
        self._most = most
        self._pool = self._new_pool()
        empty_in_child(self)

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._most, thread_name_prefix="langchain-sessions")

    def leave_all(self) -> None:
        """Begin others: a pool takes those of the process that this one was forked from for its own, and idle."""
        self._pool = self._new_pool()

    def run(self, call: Callable[[], T]) -> T:
        """Have one of them make a call, and wait for it."""
        return self._pool.submit(call).result()

    async def arun(self, call: Callable[[], T]) -> T:
        """Async `run`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """End them once they have done what was given to them. A call after it finds new ones."""
        ending, self._pool = self._pool, self._new_pool()
        ending.shutdown()
