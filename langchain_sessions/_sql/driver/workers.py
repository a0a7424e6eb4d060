"""Threads of a store's own, since nodes and tools of the application may hold every thread of a loop's executor."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy.engine.interfaces import AdaptedConnection
from sqlalchemy.util.concurrency import await_only

from langchain_sessions._core.locks import empty_in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_sessions._sql.driver.transaction import Transaction

T = TypeVar("T")
_MUCH: Final = 1 << 14
"""Bytes, deflated. So many mostly take as long as handing them over; with more a loop would be held up."""


def beside(tx: Transaction, sizes: Iterable[int], call: Callable[[], T]) -> T:
    """What a call makes of deflated texts of these sizes: of much in a thread, where an operation runs on a loop.

    Reads keep their connection for it, and lock nothing.
    """
    # A loop's own connections are used in the runner's greenlets alone. One that somebody else made holds our turns.
    if isinstance(tx.connection, AdaptedConnection) and sum(sizes) >= _MUCH:
        from langchain_sessions._core.threads import COMPUTERS

        return await_only(COMPUTERS.arun(call))
    return call()


class Workers:
    """A few threads, begun when they are needed."""

    def __init__(self, most: int) -> None:
        """Have at most so many."""
        self._most = most
        self._pools = self._new_pools()
        empty_in_child(self)

    def _new_pools(self) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        """Those that work side by side, and the one that takes turns."""
        name = "langchain-sessions"
        return ThreadPoolExecutor(self._most, name), ThreadPoolExecutor(1, name)

    def leave_all(self) -> None:
        """Begin others: a pool takes those of the process that this one was forked from for its own, and idle."""
        self._pools = self._new_pools()

    def run(self, call: Callable[[], T]) -> T:
        """Have one of them make a call, and wait for it."""
        return self._pools[0].submit(call).result()

    async def arun(self, call: Callable[[], T], *, in_turn: bool = False) -> T:
        """Async `run`; in turn with all that are, in the order in which they came, by a thread of their own."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[in_turn], call)

    def close(self) -> None:
        """End them once they have done what was given to them. A call after it finds new ones."""
        ending, self._pools = self._pools, self._new_pools()
        for pool in ending:
            pool.shutdown()
