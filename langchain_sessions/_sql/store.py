"""The store over SQLAlchemy: the contract's methods, each an operation run in a transaction."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from langchain_sessions._core.flow import Flow, ask, both_faces, faces, stands_for
from langchain_sessions._core.twins import told_alike
from langchain_sessions._sql.driver.connecting import TYPE_ASYNC_ENGINE, Engines, engines_for
from langchain_sessions._sql.driver.drivers import BY_NAME
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.runner import Operation, Runner
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.index import reading as recall_reading
from langchain_sessions._sql.index import scanning as recall_scanning
from langchain_sessions._sql.index import shelves, vectors
from langchain_sessions._sql.index import writing as recall_writing
from langchain_sessions._sql.log import (
    appending,
    archiving,
    contexts,
    counting,
    overwriting,
    reading,
    removing,
    rewinding,
    sessions,
    shared_state,
    verifying,
)
from langchain_sessions._sql.log.lookup import locate
from langchain_sessions._sql.log.together import Travelling
from langchain_sessions._sql.tables.schema import SCHEMA_VERSION, Tables, build_tables
from langchain_sessions._sql.threads import history
from langchain_sessions._sql.threads import reading as thread_reading
from langchain_sessions._sql.threads.writing import commit_threads
from langchain_sessions.errors import SchemaMissingError, SessionExistsError, StoreUnavailableError
from langchain_sessions.stores._base import SessionStore
from langchain_sessions.stores._erasing import UserRemoved
from langchain_sessions.stores._opening_and_closing import StoreDescription

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import timedelta

    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

    from langchain_sessions._core.rows import EventRow, Owner, SessionKey, SessionRow
    from langchain_sessions._sql.driver.transaction import Transaction
    from langchain_sessions.stores._erasing import Blanked, BlankPlan, Remainder
    from langchain_sessions.stores._values import ArchivePlan, SessionDraft

P = ParamSpec("P")
T = TypeVar("T")
_MAX_RACES = 20
_MAX_STALE = 3
"""How often a compaction is prepared beside other writers, before it is prepared while they wait."""
_BATCH = 100


class Run(Protocol):
    """`run` of some runner."""

    def __call__(self, kind: TransactionKind, operation: Operation[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it."""
        ...


class ARun(Protocol):
    """`arun` of some runner."""

    def __call__(
        self, kind: TransactionKind, operation: Operation[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Run it."""
        ...


def runs(
    kind: TransactionKind, operation: Callable[Concatenate[Transaction, P], T]
) -> Callable[[Callable[[SqlStore], None]], Callable[Concatenate[SqlStore, P], T]]:
    """Declares both methods of an operation that needs nothing but its transaction."""

    @wraps(operation)
    def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(kind, operation, *args, **kwargs)

    @wraps(operation)
    async def twin(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.arun(kind, operation, *args, **kwargs)

    return stands_for(method, twin)


def _truncate_log(tx: Transaction) -> None:
    # A connection that made the file and has read nothing since waits for itself, as long as for a busy database.
    tx.ask("SELECT 1 FROM sqlite_master LIMIT 1")
    tx.ask("PRAGMA wal_checkpoint(TRUNCATE)")


@told_alike
class SqlStore(SessionStore):
    """Logs and threads in SQLite, PostgreSQL, MySQL or MariaDB.

    Args:
        database: A URL, an `Engine` or an `AsyncEngine`. Engines that are given are never closed.
        table_prefix: Put before every table's name.
        create_schema: Create the tables on first use; by default on SQLite only.
        synchronous: SQLite's durability for a URL: FULL, or NORMAL, with which a power cut may take the last
            transactions while a crash of the process does not.
        lock_timeout: How long calls wait for what somebody else has locked, for a URL; by default a minute.
    """

    def __init__(
        self,
        database: str | URL | Engine | TYPE_ASYNC_ENGINE,
        *,
        table_prefix: str = "",
        create_schema: bool | None = None,
        synchronous: str = "FULL",
        lock_timeout: timedelta | None = None,
    ) -> None:
        """See the class. Nothing is opened before first use."""
        self._engines: Engines = engines_for(database, synchronous=synchronous, lock_timeout=lock_timeout)
        self.tables: Tables = build_tables(table_prefix)
        self._runner = Runner(self._engines, self.tables, creates=create_schema)
        self.flavour: str = self._runner.flavour
        self.travelling: Travelling = Travelling()
        self.heads: appending.Heads = {}
        # Straight to where an operation is run: every call takes this way. mypy cannot compare generic functions.
        self.run: Run = self._runner.run  # type: ignore[assignment]
        self.arun: ARun = self._runner.arun  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Short: which database, without the password."""
        url = self._engines.url
        return f"<SqlStore {url.set(drivername=url.get_backend_name()).render_as_string()}>"

    def create_schema(self) -> None:
        """Create or upgrade the tables."""
        self._runner.create_schema()

    async def acreate_schema(self) -> None:
        """Async `create_schema`."""
        await self._runner.acreate_schema()

    @both_faces
    def describe(self) -> Flow[StoreDescription]:
        from langchain_sessions._sql.tables.describing import described
        from langchain_sessions._sql.tables.migrations import found_version

        ask_any = self._runner.run_on_any
        try:
            schema = (yield from ask(ask_any, TransactionKind.READ, found_version)) or None
        except SchemaMissingError:
            schema = None
        server, size = yield from ask(ask_any, TransactionKind.READ, described)
        driver = BY_NAME[self._engines.dialect.driver]
        return StoreDescription(
            driver=driver.name,
            package=driver.package or None,
            server=server,
            schema=schema,
            newest_schema=SCHEMA_VERSION,
            bytes=size,
        )

    def close(self) -> None:
        """Close the engines that the library opened."""
        self._runner.close()

    async def aclose(self) -> None:
        """Async `close`."""
        await self._runner.aclose()

    @property
    def remainders(self) -> tuple[Remainder, ...]:
        """What the database goes on keeping of what was removed, and what clears it."""
        from langchain_sessions._sql.tables.remainders import remainders_of

        return remainders_of("mariadb" if self._engines.is_mariadb else self.flavour, self.tables)

    # -- sessions ------------------------------------------------------------------------------------------

    @both_faces
    def create_session(self, draft: SessionDraft) -> Flow[SessionRow]:
        for _ in range(_MAX_RACES):
            try:
                return (yield from ask(self.run, TransactionKind.WRITE, sessions.create_session, draft))
            except UniqueViolationError:
                # Somebody else created it in between, or is about to take it back.
                continue
        raise SessionExistsError(draft.id)

    @both_faces
    def open_session(self, draft: SessionDraft) -> Flow[SessionRow]:
        found = yield from ask(self.run, TransactionKind.READ, sessions.find_open_session, draft)
        if found is not None:
            return found
        for _ in range(_MAX_RACES):
            try:
                return (yield from ask(self.run, TransactionKind.APPEND, sessions.open_session, draft))
            except UniqueViolationError:
                continue
        problem = f"Session {draft.id!r} could not be opened: other writers keep creating and deleting it."
        raise StoreUnavailableError(problem)

    @runs(TransactionKind.READ, locate)
    def find_session(self) -> None: ...
    @runs(TransactionKind.READ, sessions.list_sessions)
    def list_sessions(self) -> None: ...
    @runs(TransactionKind.WRITE, sessions.update_session)
    def update_session(self) -> None: ...
    @runs(TransactionKind.WRITE, sessions.end_session)
    def end_session(self) -> None: ...
    @runs(TransactionKind.WRITE, sessions.append_record)
    def append_record(self) -> None: ...

    @both_faces
    def delete_session(self, key: SessionKey, now: int, tombstone_until: int) -> Flow[bool]:
        gone = yield from ask(self.run, TransactionKind.WRITE, removing.delete_session, key, now, tombstone_until)
        if gone:
            yield from self._forget_log()
        return gone

    @both_faces
    def delete_user(self, app: str, user_id: str, now: int, tombstone_until: int) -> Flow[UserRemoved]:
        del now
        total = UserRemoved(0, 0, 0)
        while True:
            batch = yield from ask(
                self.run, TransactionKind.WRITE, removing.delete_user_sessions, app, user_id, _BATCH, tombstone_until
            )
            total = UserRemoved(*map(sum, zip(total, batch, strict=True)))
            if batch.sessions < _BATCH:
                break
        yield from self._forget_log()
        return total

    @both_faces
    def purge_expired(self, app: str, owner: Owner, now: int, limit: int) -> Flow[int]:
        gone = yield from ask(self.run, TransactionKind.WRITE, removing.purge_expired, app, owner, now, limit)
        if gone:
            yield from self._forget_log()
        return gone

    def _forget_log(self) -> Flow[None]:
        """SQLite: what was deleted leaves the write-ahead log too, as far as no reader still needs it."""
        if self.flavour == "sqlite" and not self._engines.in_memory:
            yield from ask(self.run, TransactionKind.READ, _truncate_log)

    @both_faces
    def fork_session(self, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> Flow[SessionRow]:
        try:
            return (yield from ask(self.run, TransactionKind.WRITE, sessions.fork_session, key, draft, at_seq))
        except UniqueViolationError as error:
            raise SessionExistsError(draft.id) from error

    # -- the log -------------------------------------------------------------------------------------------

    @stands_for(*faces(appending.append_events))
    def append_events(self) -> None: ...
    @runs(TransactionKind.READ, reading.find_events)
    def find_events(self) -> None: ...
    @runs(TransactionKind.READ, contexts.load_context)
    def load_context(self) -> None: ...
    @runs(TransactionKind.WRITE, rewinding.rewind_events)
    def rewind_events(self) -> None: ...

    @both_faces
    def archive_events(self, key: SessionKey, plan: ArchivePlan) -> Flow[tuple[EventRow, ...] | None]:
        for _ in range(_MAX_STALE):
            prepared = yield from ask(self.run, TransactionKind.READ, archiving.prepare_archiving, key, plan)
            if prepared is None:
                return None
            rows = yield from ask(self.run, TransactionKind.WRITE, archiving.commit_archiving, key, prepared)
            if rows is not None:
                return rows
        return (yield from ask(self.run, TransactionKind.WRITE, archiving.archive_events, key, plan))

    @both_faces
    def blank_events(self, key: SessionKey, plan: BlankPlan) -> Flow[Blanked]:
        done = yield from ask(self.run, TransactionKind.WRITE, overwriting.blank_events, key, plan)
        if done.record is not None:
            yield from self._forget_log()
        return done

    @runs(TransactionKind.READ, counting.count_live)
    def count_live(self) -> None: ...
    @runs(TransactionKind.READ, counting.measure_scope)
    def measure_scope(self) -> None: ...
    @runs(TransactionKind.WRITE, counting.lease_scope)
    def lease_scope(self) -> None: ...
    @runs(TransactionKind.READ, counting.find_invocation)
    def find_invocation(self) -> None: ...
    @runs(TransactionKind.READ, shared_state.load_state)
    def load_state(self) -> None: ...
    @runs(TransactionKind.READ, shared_state.load_shared)
    def load_shared(self) -> None: ...
    @runs(TransactionKind.APPEND, shared_state.change_shared)
    def change_shared(self) -> None: ...
    @runs(TransactionKind.WRITE, verifying.verify_session)
    def verify_session(self) -> None: ...

    # -- threads -------------------------------------------------------------------------------------------

    @stands_for(*faces(commit_threads))
    def commit_threads(self) -> None: ...

    @runs(TransactionKind.READ, thread_reading.find_checkpoints)
    def find_checkpoints(self) -> None: ...
    @runs(TransactionKind.READ, thread_reading.load_lineage)
    def load_lineage(self) -> None: ...
    @runs(TransactionKind.READ, history.list_root_checkpoints)
    def list_root_checkpoints(self) -> None: ...
    @runs(TransactionKind.READ, history.find_runs)
    def find_runs(self) -> None: ...
    @runs(TransactionKind.WRITE, history.prune_checkpoints)
    def prune_checkpoints(self) -> None: ...

    # -- recall --------------------------------------------------------------------------------------------

    @runs(TransactionKind.READ, recall_reading.load_index)
    def load_index(self) -> None: ...
    @runs(TransactionKind.READ, recall_writing.find_index)
    def find_index(self) -> None: ...
    @runs(TransactionKind.READ, recall_writing.load_chunks)
    def load_chunks(self) -> None: ...
    @runs(TransactionKind.WRITE, recall_writing.write_index)
    def write_index(self) -> None: ...
    @runs(TransactionKind.WRITE, shelves.write_shelf)
    def write_shelf(self) -> None: ...
    @runs(TransactionKind.READ, recall_scanning.scan_logs)
    def scan_logs(self) -> None: ...
    @runs(TransactionKind.READ, recall_scanning.load_events)
    def load_events(self) -> None: ...
    @runs(TransactionKind.READ, vectors.list_vectors)
    def list_vectors(self) -> None: ...
    @runs(TransactionKind.READ, vectors.find_vectors)
    def find_vectors(self) -> None: ...
    @runs(TransactionKind.READ, vectors.load_vectors)
    def load_vectors(self) -> None: ...
    @runs(TransactionKind.WRITE, vectors.write_vectors)
    def write_vectors(self) -> None: ...
