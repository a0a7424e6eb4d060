"""The connections that a store keeps for itself: those to a server, and the one that writes to SQLite.

SQLAlchemy opens and closes them. Its pool knows them no more: a round through it takes longer than many a statement.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from langchain_sessions._core.locks import new_lock
from langchain_sessions._sql.driver.lock_waits import SECONDS
from langchain_sessions.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Dialect

    from langchain_sessions._sql.driver.failures import Failures
    from langchain_sessions._sql.driver.transaction import Transaction

MOST = 16
"""Connections of a store to a server, for each event loop and for all threads together."""
_NONE_FREE = "No connection became free in time."


class Held:
    """A place for a connection, and the connection once it was opened.

    Attributes:
        driver: The driver's connection; None until it is opened.
        cursor: The cursor that its transactions share; None where each makes its own.
        transaction: What speaks through that, one transaction after the other.
        is_spoilt: Whether it is not to be used again.
    """

    __slots__ = ("__weakref__", "beside", "cursor", "driver", "is_spoilt", "transaction")

    def __init__(self, beside: WeakSet[Held]) -> None:
        """Open nothing yet; `beside` are all that may be used as long as this one may."""
        self.driver: Any = None
        self.cursor: Any = None
        self.transaction: Any = None
        self.is_spoilt = False
        self.beside = beside
        beside.add(self)

    def spoil(self) -> None:
        """Have it closed when it is given back."""
        self.is_spoilt = True


class Writer:
    """What a store keeps for writing to SQLite, which spares the pool's round; None until then.

    Attributes:
        kept: It speaks over the connection that is kept.
        was_flushing: The level of `synchronous` that it goes back to; 0 where it has it.
        path: Where its file is; empty where it has none.
        inode: Which file that is.
    """

    __slots__ = ("inode", "kept", "path", "was_flushing")

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.kept: Transaction | None = None
        self.was_flushing = self.inode = 0
        self.path = ""

    def keep(self, transaction: Transaction) -> Transaction:
        """Keep what speaks over a connection of its own, and know which file it writes to."""
        # As bytes: names of files need not be UTF-8.
        named = "SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE seq = 0"
        path = os.fsdecode(transaction.connection.execute(named).fetchone()[0])
        # Some file systems of SQLite's own have names that are no paths.
        with suppress(OSError):
            self.inode = Path(path).stat().st_ino
            self.path = path
        self.kept = transaction
        return transaction

    def release(self) -> Transaction | None:
        """Keep nothing any more; what was kept."""
        kept, self.kept, self.path = self.kept, None, ""
        self.was_flushing = 0
        return kept


class Kept:
    """Connections that go from one transaction to the next; who finds none waits in turn.

    Args:
        engine: Opens connections; what it is given runs where its driver can wait.
        cursor_of: Makes the cursor that the transactions of a connection share; None where they make their own.
        failures: Tells what goes wrong when one is opened.
    """

    def __init__(self, engine: Any, cursor_of: Callable[[Any, Dialect], Any], failures: Failures) -> None:
        """See the class. Nothing is opened yet."""
        self._engine = engine
        self._cursor_of = cursor_of
        self._failures = failures
        self._lock = new_lock()
        self._idle: list[Held] = []
        self._waiting: deque[Any] = deque()
        # Weak: what an interrupt lost on its way takes no place for ever.
        self._all = WeakSet[Held]()

    # -- taking --------------------------------------------------------------------------------------------

    def take(self) -> Held:
        """A place of one's own, in this thread."""
        held = self._at_once(Future)
        if isinstance(held, Held):
            return held
        try:
            found: Held = held.result(SECONDS)
        except WaitedTooLong:
            if held.cancel():
                raise StoreUnavailableError(_NONE_FREE) from None
            found = held.result()  # it came at the last moment
        except BaseException:
            self._leave(held)
            raise
        return found

    async def atake(self) -> Held:
        """A place of one's own, in this loop."""
        loop = asyncio.get_running_loop()
        held = self._at_once(loop.create_future)
        if isinstance(held, Held):
            return held
        timer = loop.call_later(SECONDS, _give_up, held)
        try:
            found: Held = await held
        except BaseException:
            self._leave(held)
            raise
        finally:
            timer.cancel()
        return found

    def _at_once(self, waiter: Callable[[], Any]) -> Any:
        """A place; where there is none, what waits for one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if len(self._all) < MOST:
                return Held(self._all)
            waits = waiter()
            self._waiting.append(waits)
            return waits

    def _leave(self, waits: Any) -> None:
        """Wait no longer; what was handed over meanwhile goes to the next."""
        if not waits.cancel() and not waits.cancelled() and waits.exception() is None:
            self.give_back(waits.result())

    def open(self, held: Held) -> None:
        """Open the connection of a place. On the asynchronous face this runs where its driver can wait."""
        driver = None
        try:
            pooled = self._engine.raw_connection()
            driver = pooled.dbapi_connection
            pooled.detach()
            held.cursor = self._cursor_of(driver, self._engine.dialect)
        except BaseException as error:
            self._close(driver, self._engine.dialect.do_terminate)
            if isinstance(error, Exception):
                raise self._failures.connecting(error) from error
            raise
        # Last: whoever is interrupted before leaves no connection that does not commit by itself yet.
        held.driver = driver

    # -- giving back ---------------------------------------------------------------------------------------

    def give_back(self, held: Held) -> None:
        """Let the next one have a place; what is spoilt is closed before."""
        if held.is_spoilt or held.beside is not self._all:
            driver, held.driver, held.cursor, held.transaction, held.is_spoilt = held.driver, None, None, None, False
            self._close(driver, self._engine.dialect.do_terminate)
            if held.beside is not self._all:
                return  # all were closed meanwhile
        with self._lock:
            while self._waiting:
                waits = self._waiting.popleft()
                if _hand_over(waits, held):
                    return
            if held.driver is None:
                self._all.discard(held)
            else:
                self._idle.append(held)

    def close_beside(self, dead: Held) -> None:
        """Close what idles beside a dead connection, which most likely died with it. Of many that notice, one does."""
        if dead.beside is self._all:
            self.close()

    def close(self) -> None:
        """Close what is idle. What is in use is closed when it comes back, and who waits opens connections anew."""
        with self._lock:
            idle, self._idle = self._idle, []
            waiting, self._waiting = self._waiting, deque()
            self._all = WeakSet()
            for waits in waiting:
                _hand_over(waits, Held(self._all))
        for held in idle:
            self._close(held.driver, self._engine.dialect.do_close)

    def forget(self) -> list[Held]:
        """Know nothing any more; all that was known, which another process uses on."""
        known = list(self._all)
        self._idle, self._waiting, self._all = [], deque(), WeakSet()
        return known

    @property
    def in_use(self) -> int:
        """How many are out."""
        return len(self._all) - len(self._idle)

    @property
    def drivers(self) -> list[Any]:
        """All connections, in use or not."""
        return [held.driver for held in list(self._all) if held.driver is not None]

    def _close(self, driver: Any, how: Callable[[Any], object]) -> None:
        if driver is not None:
            # Whatever keeps it from ending in good order, it is gone.
            with suppress(Exception):
                how(driver)


def _hand_over(waits: Any, held: Held) -> bool:
    """Give a place to who waits, unless that one has left."""
    if isinstance(waits, Future):
        if not waits.set_running_or_notify_cancel():
            return False
        waits.set_result(held)
        return True
    if waits.done():
        return False
    waits.set_result(held)
    return True


def _give_up(waits: Any) -> None:
    if not waits.done():
        waits.set_exception(StoreUnavailableError(_NONE_FREE))
