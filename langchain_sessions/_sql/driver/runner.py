"""How an operation is run: the one place that takes connections, runs transactions on them and retries them.

An operation is a plain function of a `Transaction` that returns finished values. `run` executes it on the sync
engine, `arun` the same function on the async engine, or in one worker-thread hop where there is none.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy.util.concurrency import greenlet_spawn

from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions._core.locks import TurnOfThread, new_turn
from langchain_sessions._core.twins import alone, finish
from langchain_sessions._sql.driver.connecting import positional
from langchain_sessions._sql.driver.drivers import special_of
from langchain_sessions._sql.driver.failures import DeadConnectionError, Failures, LostRaceError, PassedInError, fitting
from langchain_sessions._sql.driver.kept_connections import Held, Kept, Writer
from langchain_sessions._sql.driver.loops import LoopEngines
from langchain_sessions._sql.driver.transaction import Send, SqliteBoundaries, StatementCache, Transaction, check_file
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.driver.workers import Workers
from langchain_sessions._sql.tables import migrations
from langchain_sessions.errors import SessionsError, StoreUnavailableError, SyncNotAvailableError

if TYPE_CHECKING:
    import threading

    from langchain_sessions._sql.driver.connecting import Engines
    from langchain_sessions._sql.tables.schema import Tables

P = ParamSpec("P")
T = TypeVar("T")
Operation = Callable[Concatenate[Transaction, P], T]
Work = tuple[Callable[..., T], tuple[Any, ...], dict[str, Any]]
"""An operation, and what it is given besides its transaction. Bare, since every call pays for a function of its own."""


# With the pauses between them these are three seconds of losing races before the caller hears of it.
_MAX_TRIES = 12
_THREADS = 4
"""Workers for stores without an async engine, one hop for each transaction; who writes to SQLite has another one."""
# The first dead connection clears the pool, so what dies after it was opened just now: the server itself is away.
_MAX_DEAD = 3
_MOST_READERS = 16
# To find a member of an enumeration takes longer than a call.
_READ, _WRITE = TransactionKind.READ, TransactionKind.WRITE


class Runner:
    """Runs operations, synchronously and asynchronously."""

    def __init__(self, engines: Engines, tables: Tables, *, creates: bool | None = None) -> None:
        """Run on these engines and tables, which are created where that is asked for, by default on SQLite only."""
        self.engines = engines
        self.cache = StatementCache(positional(engines), tables)
        self.flavour = self.cache.flavour
        self.is_checked = self._is_closed = False
        self._creates = self.flavour == "sqlite" if creates is None else creates
        self._special = special = special_of(engines.dialect)
        # What sends several statements at once, over a connection of each face; None where the driver cannot.
        self._sends: tuple[Send | None, Send | None] = special.senders(owned=engines.owned) if special else (None, None)
        self._pid = os.getpid()
        # SQLite admits one writer; waiting here is fair and costs no polling. In memory there is one connection.
        self._turn: threading.RLock | None = new_turn() if self.flavour == "sqlite" else None
        self._reading = TurnOfThread()
        self._workers = Workers(_THREADS)
        self._writer = Writer()
        # On SQLite they know the connection that is kept for writing.
        self._boundaries = (
            special.boundaries(owned=engines.owned)
            if special
            else SqliteBoundaries(owned=engines.owned, writer=self._writer)
        )
        self._failures = Failures(engines)
        # SQLite's connections are kept here, where the pool would take longer than most of what they are used for.
        self._keeps = self._turn is not None and engines.owned and not engines.in_memory
        self._readers: list[Transaction] = []
        self._inherited: list[Any] = []
        self._loops = LoopEngines(engines.async_, engines.another_async, self._keep)
        # Likewise on servers; engines that were given keep their connections themselves.
        on_server = engines.owned and self.flavour != "sqlite"
        self._kept = self._keep(engines.sync) if engines.sync is not None and on_server else None
        # A pool that gives each thread an in-memory database of its own is used from one thread only.
        self._only_thread = Workers(1) if engines.sync is not None and engines.thread_bound else None
        self._is_elsewhere = engines.sync is None or self._only_thread is not None

    # -- synchronous ---------------------------------------------------------------------------------------

    def run(self, kind: TransactionKind, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation in a transaction of its own, on a schema that is known to fit.

        Raises:
            SyncNotAvailableError: Only an async engine was given.
            SchemaError: The tables are missing, or of another release.
            StoreUnavailableError: The database cannot be reached, is locked or full.
            StoreError: It failed otherwise.
        """
        if not self.is_checked:
            self._prepare_schema()
        return self._run(kind, (operation, args, kwargs))

    def run_on_any(self, kind: TransactionKind, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`run`, whatever the schema."""
        return self._run(kind, (operation, args, kwargs))

    def _run(self, kind: TransactionKind, work: Work[T], *, is_there: bool = False) -> T:
        """Run some work, again where that may help; `is_there` says that this is the thread where it has to run."""
        if self._is_elsewhere and not is_there:
            if self._only_thread is None:
                raise SyncNotAvailableError
            return self._only_thread.run(partial(self._run, kind, work, is_there=True))
        attempt = 0
        raised: Exception | None = None
        while raised is None:
            attempt += 1
            if os.getpid() != self._pid:
                self._guard_fork()
            try:
                if self._turn is None:
                    return self._as_reader(kind, work)
                if kind is _READ and not self.engines.one_by_one:
                    with self._reading.turn:
                        return self._as_reader(kind, work)
                with self._turn:
                    return self._as_writer(kind, work)
            except PassedInError as passed_in:
                raised = passed_in.error
            except (LostRaceError, DeadConnectionError) as error:
                time.sleep(self._pause(error, attempt))
                work = fitting(work, error)
        raise raised

    def _on_pooled(self, engine: Any, send: Send | None, kind: TransactionKind, work: Work[T]) -> T:
        """Run an operation on a connection of an engine's pool."""
        pool = engine.pool
        try:
            pooled = engine.raw_connection()
        except Exception as error:
            raise self._failures.connecting(error) from error
        try:
            return self._in_transaction(pooled.dbapi_connection, pooled.invalidate, send, None, kind, work)
        except DeadConnectionError:
            # What idles beside a dead connection most likely died with it. Of many that notice, one clears the pool.
            if engine.pool is pool:
                engine.dispose()
            raise
        finally:
            pooled.close()
            if engine.pool is not pool:
                pool.dispose()  # somebody cleared it meanwhile; nobody else would close what came back later

    def _keep(self, engine: Any) -> Kept:
        assert self._special is not None, "SQLite's connections are kept apart"
        return Kept(engine, self._special.cursor_of, self._failures)

    def _on_kept(self, kept: Kept, held: Held, send: Send | None, kind: TransactionKind, work: Work[T]) -> T:
        """Run an operation on a connection that is kept, which it gives back."""
        try:
            if held.driver is None:
                kept.open(held)
                if held.cursor is not None:
                    held.transaction = Transaction(held.driver, self.cache, send, held.cursor)
            return self._in_transaction(held.driver, held.spoil, send, held.transaction, kind, work)
        except DeadConnectionError:
            kept.close_beside(held)
            raise
        finally:
            kept.give_back(held)

    def _as_writer(self, kind: TransactionKind, work: Work[T]) -> T:
        """SQLite: run an operation on the connection that is kept for writing, which spares the pool's round."""
        if not self._keeps:
            return self._on_pooled(self.engines.sync, self._sends[0], kind, work)
        writer = self._writer
        kept = writer.kept or writer.keep(Transaction(self._detached(), self.cache))
        check_file(writer.path, writer.inode)
        try:
            return self._in_transaction(kept.connection, self._drop_writer, None, kept, kind, work)
        finally:
            if self._is_closed:
                self._drop_writer()

    def _as_reader(self, kind: TransactionKind, work: Work[T]) -> T:
        """SQLite: run an operation on a connection that is kept for reading. Elsewhere on any connection."""
        if self._kept is not None:
            return self._on_kept(self._kept, self._kept.take(), self._sends[0], kind, work)
        if not self._keeps:
            return self._on_pooled(self.engines.sync, self._sends[0], kind, work)
        readers = self._readers
        bad: list[None] = []
        try:
            kept = readers.pop()
        except IndexError:
            kept = Transaction(self._detached(), self.cache)
        try:
            return self._in_transaction(kept.connection, partial(bad.append, None), None, kept, kind, work)
        finally:
            if not bad and not self._is_closed and readers is self._readers and len(readers) < _MOST_READERS:
                readers.append(kept)
            else:
                kept.connection.close()  # bad, one too many, or the store was closed meanwhile

    def _detached(self) -> Any:
        """A connection that the pool knows no more: it does not count against it."""
        assert self.engines.sync is not None
        # A file that was moved away would be made anew, and what SQLite holds beside it be dropped.
        check_file(self._writer.path, self._writer.inode)
        try:
            pooled = self.engines.sync.raw_connection()
        except Exception as error:
            raise self._failures.connecting(error) from error
        driver = pooled.dbapi_connection
        pooled.detach()
        return driver

    def _drop_writer(self) -> None:
        kept = self._writer.release()
        if kept is not None:
            kept.connection.close()

    # -- asynchronous --------------------------------------------------------------------------------------

    async def arun(self, kind: TransactionKind, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Async `run`."""
        if not self.is_checked:
            await self._aprepare_schema()
        try:
            return await self.arun_on_any(kind, operation, *args, **kwargs)
        except PassedInError as passed_in:
            error = passed_in.error
        raise error

    async def arun_on_any(
        self, kind: TransactionKind, operation: Operation[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Async `run_on_any`. A cancelled caller never leaves half an operation."""
        if self.engines.async_ is None:
            run = partial(self.run_on_any, kind, operation, *args, **kwargs)
            return await finish(self._workers.arun(run, in_turn=self._turn is not None and kind is not _READ))
        return await finish(self._aretrying(kind, (operation, args, kwargs)))

    async def _aretrying(self, kind: TransactionKind, work: Work[T]) -> T:
        for attempt in range(1, _MAX_TRIES + 1):
            try:
                return await self._aattempt(kind, work)
            except (LostRaceError, DeadConnectionError) as error:
                await asyncio.sleep(self._pause(error, attempt))
                work = fitting(work, error)
        raise AssertionError  # pragma: no cover - the last attempt raises

    async def _aattempt(self, kind: TransactionKind, work: Work[T]) -> T:
        self._guard_fork()
        engine, kept = await self._loops.current()
        try:
            # One greenlet for all of it, the pool's part too.
            if kept is None:
                result: T = await greenlet_spawn(self._on_pooled, engine.sync_engine, self._sends[1], kind, work)
            else:
                result = await greenlet_spawn(self._on_kept, kept, await kept.atake(), self._sends[1], kind, work)
        except BaseException:
            # Drivers close a socket in the loop's next round, and this one may be the last.
            await asyncio.sleep(0)
            raise
        return result

    # -- the schema ----------------------------------------------------------------------------------------

    def _create_schema(self) -> Flow[None]:
        """Create or upgrade the tables."""
        # The dialect learns on its first connection whether a mysql URL leads to MariaDB.
        yield from ask(self.run_on_any, TransactionKind.READ, migrations.touch)
        flavour = "mariadb" if self.engines.is_mariadb else str(self.engines.dialect.name)
        while (yield from ask(self.run_on_any, TransactionKind.WRITE, migrations.migrate, flavour)):
            pass
        self.is_checked = True

    def _prepare(self) -> Flow[None]:
        """See to the schema before first use. Doing it twice at once does no harm."""
        if self._creates:
            yield from self._create_schema()
            return
        yield from ask(self.run_on_any, TransactionKind.READ, migrations.check_version)
        self.is_checked = True

    _prepare_schema, _aprepare_schema = faces(_prepare)
    create_schema, acreate_schema = faces(_create_schema)

    # -- both ----------------------------------------------------------------------------------------------

    def _in_transaction(
        self,
        driver: Any,
        discard: Callable[[], None],
        send: Send | None,
        kept: Transaction | None,
        kind: TransactionKind,
        work: Work[T],
    ) -> T:
        """Run some work between BEGIN and COMMIT on a driver connection, or roll everything back.

        A connection that cannot even roll back is discarded, whatever went wrong.
        """
        committing = False
        was = None
        transaction = kept
        boundaries = self._boundaries
        try:
            was = boundaries.borrow(driver) if boundaries.borrows else None
            if transaction is None:
                transaction = Transaction(driver, self.cache, send)
            boundaries.begin(transaction, kind)
            operation, args, kwargs = work
            result = operation(transaction, *args, **kwargs)
            committing = kind is _WRITE
            boundaries.commit(driver, transaction, kind)
        except BaseException as error:
            told = self._failed(error, driver, discard, transaction, kept, was, committing=committing)
            if told is error:
                raise
            raise told from error
        is_good = transaction.close() if kept is None else transaction.let_go()
        if not is_good or (boundaries.borrows and not boundaries.give_back(driver, was)):
            # It has happened; only the connection is lost.
            discard()
        return result

    def _failed(
        self,
        error: BaseException,
        driver: Any,
        discard: Callable[[], None],
        transaction: Transaction | None,
        kept: Transaction | None,
        was: Any,
        *,
        committing: bool,
    ) -> BaseException:
        """Roll back after an error; what is told of it. `committing` says that a commit may not be repeated."""
        alive = False
        try:
            # Interrupted, a server's driver may hold an answer that nobody has read: the next call would get it.
            if isinstance(error, Exception) or self._turn is not None:
                alive = self._undone(driver, transaction, kept, was)
        finally:
            if not alive and not self.engines.in_memory:
                discard()
        translated: BaseException = error
        if isinstance(error, Exception) and not isinstance(error, SessionsError):
            translated = self._failures.told(error, transaction, alive=alive)
        if kept is not None:
            kept.let_go()
        if isinstance(translated, DeadConnectionError):
            if alive:
                discard()  # some drivers roll back without asking the server; what this one raised says that it is gone
            if committing:
                # Whether it was committed nobody can know. What may be repeated is; this kind is the caller's to judge.
                problem = "The database went away while it committed: read before you repeat the call."
                return StoreUnavailableError(problem)
        return translated

    def _undone(self, driver: Any, transaction: Transaction | None, kept: Transaction | None, was: Any) -> bool:
        """Undo what was begun; whether the connection is still good."""
        if transaction is not None:
            # A statement that was not read to its end keeps SQLite's lock, even past the end of its connection.
            transaction.close()
        try:
            (driver if transaction is None else transaction).rollback()
            if kept is not None:
                kept.renew()
        except Exception:
            return False
        return self._boundaries.give_back(driver, was)

    def _pause(self, error: Exception, attempt: int) -> float:
        """How long to wait before the next attempt; raises when there is none."""
        dead = isinstance(error, DeadConnectionError)
        if attempt >= _MAX_TRIES or (dead and attempt >= _MAX_DEAD):
            problem = "The database went away." if dead else "The database kept preferring other writers."
            raise StoreUnavailableError(problem) from error.__cause__
        return 0.0 if dead else min(0.005 * 2**attempt, 0.5)

    def _guard_fork(self) -> None:
        """Drop connections that were inherited over a fork: two processes must not share a socket."""
        if os.getpid() == self._pid:
            return
        self._pid = os.getpid()
        if self._turn is not None:
            self._turn = new_turn()
            if self.engines.in_memory:
                return  # the child has a copy of the whole database
            # Kept, not closed: a close here would meddle with the parent's file.
            self._inherited.append((self._writer.release(), self._readers))
            self._readers = []
        self._inherited += [kept.forget() for kept in (self._kept, *self._loops.kept) if kept is not None]
        self._loops.forget()
        for engine in (self.engines.sync, *(each.sync_engine for each in self._loops)):
            if engine is not None:
                self._inherited.append(engine.pool)
                engine.dispose(close=False)

    def close(self) -> None:
        """Close the engines that the library opened. An async engine is closed by `aclose`."""
        self._guard_fork()
        self._end_work()
        self._close_engine()
        if self.engines.owned:
            self._loops.close_orphans()

    def _end_work(self) -> None:
        """Let the workers end, and close what is kept. Of what comes after it nothing is."""
        self._workers.close()
        self._is_closed = True
        if self._turn is not None:
            with self._turn:
                self._drop_writer()
            readers, self._readers = self._readers, []
            while readers:
                readers.pop().connection.close()
        if self._only_thread is not None:
            self._only_thread.run(self._drop_only_connection)
            self._only_thread.close()

    def _drop_only_connection(self) -> None:
        """Only the thread that opened a connection may close it, and that thread is about to end."""
        assert self.engines.sync is not None
        pooled = self.engines.sync.raw_connection()
        pooled.invalidate()
        pooled.close()

    async def aclose(self) -> None:
        """Async `close`."""
        self._guard_fork()
        await alone(self._end_work)
        if self.engines.owned:
            await self._loops.dispose()
        await alone(self._close_engine)

    def _close_engine(self) -> None:
        if self.engines.owned and self.engines.sync is not None:
            if self._kept is not None:
                self._kept.close()
            self.engines.sync.dispose()
