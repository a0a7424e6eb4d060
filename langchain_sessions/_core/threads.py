"""Threads of this package's own, for what computes long beside an event loop, or waits for a disk.

Nodes and tools of the application may hold every thread of a loop's executor while they wait for one of our calls.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain_sessions._core.locks import empty_in_child

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class OwnThreads:
    """A few threads, begun when they are needed. They hold nothing of what they did."""

    def __init__(self, most: int, name: str) -> None:
        """Begin none yet."""
        self._most, self._name = most, name
        self._pool = self._new_pool()
        empty_in_child(self)

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._most, self._name)

    def leave_all(self) -> None:
        """Begin others: a pool takes those of the process that this one was forked from for its own, and idle."""
        self._pool = self._new_pool()

    async def arun(self, call: Callable[[], T]) -> T:
        """Have one of them make a call, as its caller would: with what he has set for himself."""
        import asyncio  # noqa: PLC0415 - for who has a loop

        run: Any = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._pool, run, call)


# Of the whole process. Where the interpreter ends, it waits for what they are at.
COMPUTERS: Final = OwnThreads(4, "langchain-sessions-computing")
"""They wait for nothing."""
WAITERS: Final = OwnThreads(16, "langchain-sessions-waiting")
"""They make calls of stores that have no asynchronous half: some wait for a disk, or for who writes just then."""
