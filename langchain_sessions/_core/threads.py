"""Threads of this package's own, for what computes long beside an event loop.

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
_MOST: Final = 4
_NAME: Final = "langchain-sessions-computing"


class Computers:
    """A few threads, begun when they are needed. They wait for nothing, and hold nothing that was computed."""

    def __init__(self) -> None:
        """Begin none yet."""
        self._pool = ThreadPoolExecutor(_MOST, _NAME)
        empty_in_child(self)

    def leave_all(self) -> None:
        """Begin others: a pool takes those of the process that this one was forked from for its own, and idle."""
        self._pool = ThreadPoolExecutor(_MOST, _NAME)

    async def arun(self, call: Callable[[], T]) -> T:
        """Have one of them make a call, as its caller would: with what he has set for himself."""
        import asyncio  # noqa: PLC0415 - for who has a loop

        run: Any = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._pool, run, call)


COMPUTERS: Final = Computers()
"""Of the whole process. Where the interpreter ends, it waits for what they are at."""
