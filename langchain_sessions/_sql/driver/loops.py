"""The async engines of a store: one for each event loop, since a connection belongs to the loop that opened it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from sqlalchemy import event

from langchain_sessions._core.locks import new_lock
from langchain_sessions._sql.driver.drivers import special_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from langchain_sessions._sql.driver.kept_connections import Kept


class LoopEngines:
    """Hands out the engine of the running loop, and closes what a loop that has ended left open.

    Args:
        first: The engine that the first loop gets; None where there is no async driver.
        another: Makes one more; None where only the caller could, whose engine then serves every loop.
        keep: Makes what keeps the connections of an engine of our own.
    """

    def __init__(self, first: Any, another: Callable[[], Any] | None, keep: Callable[[Any], Kept]) -> None:
        """See the class."""
        self._first = first
        self._another = another
        self._keep = keep
        self._used: list[_Used] = []
        self._is_taken = False
        self._lock = new_lock()

    def __iter__(self) -> Iterator[Any]:
        """All engines in use, and the first."""
        if self._first is not None:
            yield self._first
        yield from (used.engine for used in self._used if used.engine is not self._first)

    async def current(self) -> tuple[Any, Kept | None]:
        """The engine of the running loop, and what keeps its connections where it is our own."""
        if self._another is None:
            return self._first, None
        loop = asyncio.get_running_loop()
        for used in self._used:
            if used.loop() is loop:
                return used.engine, used.kept
        self.close_orphans()
        with self._lock:
            engine = self._another() if self._is_taken else self._first
            self._is_taken = True
            made = _Used(loop, engine, self._keep(engine.sync_engine))
            self._used = [*self._used, made]
        await made.begin()
        return engine, made.kept

    @property
    def kept(self) -> list[Kept]:
        """What keeps the connections of each loop."""
        return [used.kept for used in self._used]

    def forget(self) -> None:
        """Keep nothing of another process: not even a closing may go over its sockets."""
        for used in self._used:
            used.records.clear()

    def close_orphans(self) -> None:
        """Close the connections of loops that have ended without closing them."""
        with self._lock:
            orphans = [used for used in self._used if used.is_orphan]
            self._used = [used for used in self._used if used not in orphans]
        for used in orphans:
            used.close()

    async def dispose(self) -> None:
        """Close the engine of the running loop and what other loops left open."""
        loop = asyncio.get_running_loop()
        self.close_orphans()
        for used in tuple(self._used):
            if used.loop() is loop:
                await _dispose(used.engine, used.kept)


class _Used:
    """An engine that a loop uses, and its connections, which nobody else could find once the loop is gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: Any, kept: Kept) -> None:
        # Weak: a loop that was forgotten without being closed must not live as long as the service.
        self.loop = ref(loop)
        self.engine = engine
        self.kept = kept
        self.records: WeakSet[Any] = WeakSet()
        self._lifetime = _until_the_loop_ends(engine, kept)
        event.listen(engine.sync_engine, "connect", self._note)

    async def begin(self) -> None:
        """Have the engine closed when its loop shuts down, which only the loop itself can do for every driver."""
        await anext(self._lifetime)

    @property
    def is_orphan(self) -> bool:
        """Whether its loop has ended."""
        loop = self.loop()
        return loop is None or loop.is_closed()

    def _note(self, _connection: Any, record: Any) -> None:
        self.records.add(record)

    def close(self) -> None:
        """Close the connections without their loop, which has ended."""
        inside = self.engine.dialect.get_driver_connection
        for driver in (*(record.driver_connection for record in self.records), *map(inside, self.kept.drivers)):
            if driver is None:
                continue
            # A loop that was closed without closing its generators: asyncmy cannot close without it, and its socket
            # goes with the object.
            with suppress(Exception):
                special = special_of(self.engine.dialect)
                if special is not None:
                    special.close_without_loop(driver)
                else:
                    driver.close()
        self.engine.sync_engine.dispose(close=False)


async def _until_the_loop_ends(engine: Any, kept: Kept) -> AsyncGenerator[None]:
    """Close an engine when the loop closes its generators: the last thing that `asyncio.run` has it do."""
    try:
        yield
    finally:
        await _dispose(engine, kept)


async def _dispose(engine: Any, kept: Kept) -> None:
    from sqlalchemy.util import greenlet_spawn

    await greenlet_spawn(kept.close)
    await engine.dispose()
    # Drivers close a socket in the loop's next round, and this one may be the last.
    await asyncio.sleep(0)
