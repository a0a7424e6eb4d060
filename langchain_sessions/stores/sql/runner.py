"""How an operation is run: the one place that opens transactions, retries them and translates driver errors.

An operation is a plain function of a `Transaction` that returns finished values. `run` executes it on the sync
engine, `arun` the same function on the async engine, or in one worker-thread hop where there is none.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Dialect
from sqlalchemy import exc as sa_exc

from langchain_sessions.errors import (
    SchemaMissingError,
    SessionsError,
    StoreError,
    StoreUnavailableError,
    SyncNotAvailableError,
)
from langchain_sessions.stores._twins import finish
from langchain_sessions.stores.sql.loops import LoopEngines, disposed
from langchain_sessions.stores.sql.pipelining import Send, can_pipeline, send, send_adapted
from langchain_sessions.stores.sql.transaction import StatementCache, Transaction

if TYPE_CHECKING:
    from langchain_sessions.stores.sql.engines import Engines
    from langchain_sessions.stores.sql.schema import Tables

P = ParamSpec("P")
T = TypeVar("T")
Operation = Callable[Concatenate[Transaction, P], T]


class Mode(Enum):
    """How an operation uses the database."""

    READ = "read"
    """Statements without a transaction: a log only grows, so its session row says which version is read."""
    WRITE = "write"
    """One transaction. Where its outcome is unknown the caller is told, since it may not be repeated."""
    APPEND = "append"
    """One transaction that may be repeated: what it wrote is recognised."""
    RELAXED = "relaxed"
    """`APPEND` that need not outlive a power cut until the next transaction of another mode has: it does not wait
    for the disk where the database can leave that out."""
    STATEMENT = "statement"
    """One statement that commits itself and may be repeated."""


_LONG = (Mode.WRITE, Mode.APPEND, Mode.RELAXED)
_NORMAL = 1
_MAX_TRIES = 12
_THREADS = 4
"""Workers for stores without an async engine: one writes while others read."""
_MAX_DEAD = 3
_LOST_RACES = ("40001", "40P01", "55P03")
_MYSQL_RACES = (1205, 1213, 1020)
_MYSQL_MISSING = (1146,)
_UNREACHABLE = ("08", "57P", "53")


class UniqueViolationError(StoreError):
    """A row with that key exists already. Internal: operations turn it into an answer."""

    def __init__(self) -> None:
        """Say what a caller would need to know, if one ever saw it."""
        super().__init__("The database refused a row whose key exists; nothing was written.")


class _LostRaceError(Exception):
    """The database took the transaction back in favour of another; it is run again."""


class _DeadConnectionError(Exception):
    """The connection turned out to be dead before it could be known that the operation happened."""


class Runner:
    """Runs operations, synchronously and asynchronously."""

    def __init__(self, engines: Engines, tables: Tables) -> None:
        """Run on these engines and tables."""
        self.engines = engines
        self.cache = StatementCache(_positional(engines.dialect), tables)
        self.flavour = "mysql" if engines.dialect.name == "mariadb" else engines.dialect.name
        self._pipelines = can_pipeline(engines.dialect)
        self._pid = os.getpid()
        # SQLite admits one writer; waiting here is fair and costs no polling. In memory there is one connection.
        self._turn: threading.RLock | None = threading.RLock() if self.flavour == "sqlite" else None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="langchain-sessions")
        self._writer: Any = None
        # The level of SQLite's `synchronous` that the writing connection goes back to; 0 where it has it.
        self._was_flushing = 0
        self._inherited: list[Any] = []
        self._loops = LoopEngines(engines.async_, engines.another_async)
        # A pool that gives each thread an in-memory database of its own is used from one thread only.
        self._only_thread = ThreadPoolExecutor(1, "langchain_sessions") if engines.thread_bound else None

    # -- synchronous ---------------------------------------------------------------------------------------

    def run(self, mode: Mode, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation in a transaction of its own.

        Raises:
            SyncNotAvailableError: Only an async engine was given.
            StoreUnavailableError: The database cannot be reached, is locked or full.
            StoreError: It failed otherwise.
        """
        if self.engines.sync is None:
            raise SyncNotAvailableError
        if self._only_thread is not None:
            return self._only_thread.submit(lambda: self._run_here(mode, operation, *args, **kwargs)).result()
        return self._run_here(mode, operation, *args, **kwargs)

    def _run_here(self, mode: Mode, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        attempt = 0
        while True:
            attempt += 1
            self._guard_fork()
            try:
                if self._turn is None or (mode is Mode.READ and not self.engines.in_memory):
                    return self._on_pooled(mode, operation, *args, **kwargs)
                with self._turn:
                    return self._as_writer(mode, operation, *args, **kwargs)
            except (_LostRaceError, _DeadConnectionError) as error:
                time.sleep(self._pause(error, attempt))

    def _on_pooled(self, mode: Mode, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation on a connection of the pool."""
        assert self.engines.sync is not None
        pool = self.engines.sync.pool
        pooled = self._checkout()
        try:
            driver: Any = pooled.dbapi_connection
            return self._in_transaction(driver, pooled.invalidate, send, mode, operation, *args, **kwargs)
        except _DeadConnectionError:
            # What idles beside a dead connection most likely died with it. Of many that notice, one clears the pool.
            if self.engines.sync.pool is pool:
                self.engines.sync.dispose()
            raise
        finally:
            pooled.close()
            if self.engines.sync.pool is not pool:
                pool.dispose()  # somebody cleared it meanwhile; nobody else would close what came back later

    def _as_writer(self, mode: Mode, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """SQLite: run an operation on the connection that is kept for writing, which spares the pool's round."""
        if self.engines.in_memory or not self.engines.owned:
            return self._on_pooled(mode, operation, *args, **kwargs)
        if self._writer is None:
            pooled = self._checkout()
            self._writer = pooled.dbapi_connection
            pooled.detach()
        return self._in_transaction(self._writer, self._drop_writer, send, mode, operation, *args, **kwargs)

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        self._was_flushing = 0
        if writer is not None:
            writer.close()

    def _checkout(self) -> Any:
        assert self.engines.sync is not None
        try:
            return self.engines.sync.raw_connection()
        except Exception as error:
            raise self._translated(error) from error

    # -- asynchronous --------------------------------------------------------------------------------------

    async def arun(self, mode: Mode, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Async `run`. A cancelled caller never leaves half an operation."""
        if self.engines.async_ is None:
            # One hop for the whole transaction.
            loop = asyncio.get_running_loop()
            return await finish(loop.run_in_executor(self._threads, lambda: self.run(mode, operation, *args, **kwargs)))
        return await finish(self._aretrying(mode, operation, *args, **kwargs))

    async def _aretrying(self, mode: Mode, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(1, _MAX_TRIES + 1):
            try:
                return await self._aattempt(mode, operation, *args, **kwargs)
            except (_LostRaceError, _DeadConnectionError) as error:
                await asyncio.sleep(self._pause(error, attempt))
        raise AssertionError  # pragma: no cover - the last attempt raises

    async def _aattempt(self, mode: Mode, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._guard_fork()
        engine = self._loops.current()
        pool = engine.sync_engine.pool
        try:
            connection = await engine.connect()
        except Exception as error:
            raise self._translated(error) from error

        def on_driver(connection: Any) -> T:
            driver = connection.connection.dbapi_connection
            return self._in_transaction(driver, connection.invalidate, send_adapted, mode, operation, *args, **kwargs)

        result: T
        try:
            result = await connection.run_sync(on_driver)
        except _DeadConnectionError:
            if engine.sync_engine.pool is pool:
                await engine.dispose()
            raise
        finally:
            await connection.close()
            if engine.sync_engine.pool is not pool:
                await disposed(pool)
        return result

    # -- both ----------------------------------------------------------------------------------------------

    def _in_transaction(
        self,
        driver: Any,
        discard: Callable[[], None],
        send: Send,
        mode: Mode,
        operation: Operation[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an operation between BEGIN and COMMIT on a driver connection, or roll everything back.

        A connection that cannot even roll back is discarded, whatever went wrong.
        """
        committing = False
        was = None
        transaction: Transaction | None = None
        try:
            was = self._borrow(driver)
            transaction = Transaction(driver, self.cache, send if self._pipelines else None)
            self._begin(transaction, mode)
            result = operation(transaction, *args, **kwargs)
            committing = True
            self._commit(driver, transaction, mode)
        except BaseException as error:
            if transaction is not None:
                # A statement that was not read to its end keeps SQLite's lock, even past the end of its connection.
                _closed(transaction)
            alive = self._roll_back(driver) and self._give_back(driver, was)
            if not alive:
                discard()
            if not isinstance(error, Exception) or isinstance(error, SessionsError):
                raise
            translated = self._translated(error, alive=alive)
            if alive and isinstance(translated, _DeadConnectionError):
                discard()
            if committing and mode is Mode.WRITE and isinstance(translated, _DeadConnectionError):
                problem = "The database went away while it committed: read before you repeat the call."
                raise StoreUnavailableError(problem) from error
            raise translated from error
        if not (_closed(transaction) and self._give_back(driver, was)):
            # It has happened; only the connection is lost.
            discard()
        return result

    def _borrow(self, driver: Any) -> Any:
        """Bring a connection into the mode that operations need; what to restore where it is somebody else's."""
        if self.flavour == "postgresql":
            was = driver.autocommit
            if not was:
                driver.autocommit = True
            return was
        if not self.engines.owned and self.flavour == "sqlite":
            # What is deleted must not linger in the file, also where the engine is the caller's.
            driver.execute("PRAGMA secure_delete = ON")
        return None

    def _give_back(self, driver: Any, was: Any) -> bool:
        """Restore the mode of a caller's connection; whether the connection is still good."""
        if was is False and not self.engines.owned:
            try:
                driver.autocommit = False
            except Exception:
                return False
        return True

    def _begin(self, transaction: Transaction, mode: Mode) -> None:
        if self.flavour == "sqlite":
            if mode is not Mode.READ:
                self._set_flushing(transaction, mode)
                transaction.script("BEGIN IMMEDIATE")
        elif self.flavour == "postgresql":
            if mode in _LONG:
                transaction.begin("SET LOCAL synchronous_commit TO off" if mode is Mode.RELAXED else "")
        elif not self.engines.owned and mode is not Mode.READ:
            # A caller's engine may commit by itself after each statement.
            transaction.script("BEGIN")

    def _set_flushing(self, transaction: Transaction, mode: Mode) -> None:
        """SQLite: whether the writing connection waits for the disk. Each transaction says so before it begins."""
        if self._writer is None or not transaction.uses(self._writer):
            return  # a connection of the pool, which always waits
        if mode is Mode.RELAXED and not self._was_flushing:
            level = int(transaction.ask("PRAGMA synchronous")[0][0])
            if level > _NORMAL:
                transaction.script(f"PRAGMA synchronous = {_NORMAL}")
                self._was_flushing = level
        elif mode is not Mode.RELAXED and self._was_flushing:
            transaction.script(f"PRAGMA synchronous = {self._was_flushing:d}")
            self._was_flushing = 0

    def _commit(self, driver: Any, transaction: Transaction, mode: Mode) -> None:
        if self.flavour == "mysql":
            driver.commit()
        elif mode in _LONG or (mode is Mode.STATEMENT and self.flavour == "sqlite"):
            transaction.commit()
        else:
            transaction.flush()

    def _roll_back(self, driver: Any) -> bool:
        """Undo what was begun; whether the connection is still good."""
        try:
            driver.rollback()
        except Exception:
            return False
        return True

    def _pause(self, error: Exception, attempt: int) -> float:
        """How long to wait before the next attempt; raises when there is none."""
        dead = isinstance(error, _DeadConnectionError)
        if attempt >= _MAX_TRIES or (dead and attempt >= _MAX_DEAD):
            problem = "The database went away." if dead else "The database kept preferring other writers."
            raise StoreUnavailableError(problem) from error.__cause__
        return 0.0 if dead else min(0.005 * 2**attempt, 0.5)

    def _translated(self, error: Exception, *, alive: bool = True) -> Exception:
        """The library's error for a driver's, or the internal one that says what to do."""
        driver: Any = error.orig if isinstance(error, sa_exc.DBAPIError) and error.orig is not None else error
        dialect = self._dialect_of(driver)
        dbapi: Any = dialect.dbapi
        if isinstance(error, sa_exc.TimeoutError):
            return StoreUnavailableError("No connection became free in time.")
        if not isinstance(driver, (dbapi.Error, OSError)):
            # Over a broken connection drivers trip over themselves in ways of their own.
            return error if alive else _DeadConnectionError()
        code = _error_code(driver)
        if isinstance(driver, dbapi.IntegrityError) and alive:
            return UniqueViolationError()
        if code in _LOST_RACES or code in _MYSQL_RACES:
            return _LostRaceError()
        if not alive or dialect.is_disconnect(driver, None, None):  # type: ignore[arg-type]
            return _DeadConnectionError()
        return _store_error(code, driver, dbapi)

    def _dialect_of(self, driver: Any) -> Dialect:
        """The dialect of the driver that raised: on MariaDB each face has a driver with errors of its own."""
        if self.engines.async_ is not None:
            other: Any = self.engines.async_.dialect
            if isinstance(driver, other.dbapi.Error):
                return cast("Dialect", other)
        return self.engines.dialect

    def _guard_fork(self) -> None:
        """Drop connections that were inherited over a fork: two processes must not share a socket."""
        if os.getpid() == self._pid:
            return
        self._pid = os.getpid()
        if self._turn is not None:
            self._turn = threading.RLock()
            if self.engines.in_memory:
                return  # the child has a copy of the whole database
            # Kept, not closed: a close here would meddle with the parent's file.
            self._inherited.append(self._writer)
            self._writer = None
            self._was_flushing = 0
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="langchain-sessions")
        self._loops.forget()
        for engine in (self.engines.sync, *(each.sync_engine for each in self._loops)):
            if engine is not None:
                self._inherited.append(engine.pool)
                engine.dispose(close=False)

    def close(self) -> None:
        """Close the engines that the library opened. An async engine is closed by `aclose`."""
        self._close_writer()
        self._threads.shutdown(wait=False)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="langchain-sessions")
        if self.engines.owned and self.engines.sync is not None:
            self.engines.sync.dispose()
        if self.engines.owned:
            self._loops.close_orphans()

    def _close_writer(self) -> None:
        if self._turn is not None:
            self._guard_fork()
            with self._turn:
                self._drop_writer()
        if self._only_thread is not None:
            self._only_thread.submit(self._drop_only_connection)
            self._only_thread.shutdown()

    def _drop_only_connection(self) -> None:
        """Only the thread that opened a connection may close it, and that thread is about to end."""
        pooled = self._checkout()
        pooled.invalidate()
        pooled.close()

    async def aclose(self) -> None:
        """Async `close`."""
        if self._turn is not None:
            await asyncio.to_thread(self._close_writer)
        if self.engines.owned:
            await self._loops.dispose()
        if self.engines.owned and self.engines.sync is not None:
            await asyncio.to_thread(self.engines.sync.dispose)


def _closed(transaction: Transaction) -> bool:
    """Close a transaction's cursor; whether its connection is still good."""
    try:
        transaction.close()
    except Exception:
        return False
    return True


def _error_code(driver: Any) -> Any:
    """What the driver says went wrong: an SQLSTATE, an error number, or nothing."""
    # MySQL's SQLSTATEs say less than its numbers: a lock that was waited for too long has none of its own.
    if driver.args and isinstance(driver.args[0], int):
        return driver.args[0]
    return getattr(driver, "sqlstate", None)


def _store_error(code: Any, driver: Any, dbapi: Any) -> StoreError:
    text = str(driver).lower()
    if code == "42P01" or code in _MYSQL_MISSING or "no such table" in text:
        return SchemaMissingError()
    if "locked" in text or "busy" in text:
        return StoreUnavailableError("The database is locked by another process; try again.")
    if "full" in text or code in (1021, 1114) or code == "53100":
        return StoreUnavailableError("The disk of the database is full; nothing was written.")
    if "not a database" in text or "malformed" in text or "corrupt" in text:
        return StoreError("The file is not a usable SQLite database; it was not touched.")
    if isinstance(code, str) and code.startswith(_UNREACHABLE):
        return StoreUnavailableError("The database cannot be reached.")
    if isinstance(driver, (dbapi.OperationalError, OSError)):
        return StoreUnavailableError("The database could not do it; see the cause.")
    return StoreError("The database refused the operation; see the cause.")


def _positional(dialect: Dialect) -> Dialect:
    """The same dialect, compiling to positional values, which every driver takes."""
    if dialect.positional:
        return dialect
    copy: Dialect = type(dialect)(paramstyle="format")  # type: ignore[call-arg]
    return copy
