"""The store over SQLAlchemy: the contract's methods, each an operation run in a transaction."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions._sql.driver.engines import TYPE_ASYNC_ENGINE, Engines, engines_for
from langchain_sessions._sql.driver.failures import UniqueViolationError
from langchain_sessions._sql.driver.runner import Runner
from langchain_sessions._sql.driver.transaction import Mode
from langchain_sessions._sql.index import reading as recall_reading
from langchain_sessions._sql.index import scanning as recall_scanning
from langchain_sessions._sql.index import shelves, vectors
from langchain_sessions._sql.index import writing as recall_writing
from langchain_sessions._sql.log import appending, counting, maintenance, reading, scoped, sessions, standing
from langchain_sessions._sql.log.lookup import locate
from langchain_sessions._sql.tables.schema import build_tables
from langchain_sessions._sql.threads import history
from langchain_sessions._sql.threads import reading as thread_reading
from langchain_sessions._sql.threads.writing import commit_threads
from langchain_sessions.errors import SessionExistsError, StoreUnavailableError
from langchain_sessions.stores._base import SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

    from langchain_sessions._core.rows import EventRow, Owner, SessionKey, SessionRow
    from langchain_sessions._sql.driver.transaction import Transaction
    from langchain_sessions.stores._values import ArchivePlan, SessionDraft

P = ParamSpec("P")
T = TypeVar("T")
_MAX_RACES = 20
_MAX_STALE = 3
"""How often a compaction is prepared beside other writers, before it is prepared while they wait."""
_BATCH = 100


def pair(
    mode: Mode, operation: Callable[Concatenate[Transaction, P], T], name: str | None = None
) -> tuple[
    Callable[Concatenate[SqlStore, P], T],
    Callable[Concatenate[SqlStore, P], Coroutine[Any, Any, T]],
]:
    """Both methods of an operation that needs nothing but its transaction."""
    public = name or operation.__name__

    @wraps(operation)
    def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(mode, operation, *args, **kwargs)

    @wraps(operation)
    async def twin(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.arun(mode, operation, *args, **kwargs)

    method.__name__, twin.__name__ = public, f"a{public}"
    return method, twin


def _truncate_log(tx: Transaction) -> None:
    tx.ask("PRAGMA wal_checkpoint(TRUNCATE)")


class SqlStore(SessionStore):
    """Logs and threads in SQLite, PostgreSQL, MySQL or MariaDB.

    Args:
        database: A URL, an `Engine` or an `AsyncEngine`. Engines that are given are never closed.
        table_prefix: Put before every table's name.
        create_schema: Create the tables on first use; by default on SQLite only.
        synchronous: SQLite's durability for a URL: FULL, or NORMAL, with which a power cut may take the last
            transactions while a crash of the process does not.
    """

    def __init__(
        self,
        database: str | URL | Engine | TYPE_ASYNC_ENGINE,
        *,
        table_prefix: str = "",
        create_schema: bool | None = None,
        synchronous: str = "FULL",
    ) -> None:
        """See the class. Nothing is opened before first use."""
        self._engines: Engines = engines_for(database, synchronous=synchronous)
        self.tables = build_tables(table_prefix)
        self._runner = Runner(self._engines, self.tables, creates=create_schema)
        self.flavour = self._runner.flavour
        # An operation goes straight to where it is run: every call of the contract takes this way.
        self.run, self.arun = self._runner.run, self._runner.arun

    def create_schema(self) -> None:
        """Create or upgrade the tables."""
        self._runner.create_schema()

    async def acreate_schema(self) -> None:
        """Async `create_schema`."""
        await self._runner.acreate_schema()

    def close(self) -> None:
        """Close the engines that the library opened."""
        self._runner.close()

    async def aclose(self) -> None:
        """Async `close`."""
        await self._runner.aclose()

    # -- sessions ------------------------------------------------------------------------------------------

    def _create_session(self, draft: SessionDraft) -> Flow[SessionRow]:
        for _ in range(_MAX_RACES):
            try:
                return (yield from ask(self.run, Mode.WRITE, sessions.create_session, draft))
            except UniqueViolationError:
                # Somebody else created it in between, or is about to take it back.
                continue
        raise SessionExistsError(draft.id)

    create_session, acreate_session = faces(_create_session)

    def _open_session(self, draft: SessionDraft) -> Flow[SessionRow]:
        found = yield from ask(self.run, Mode.READ, sessions.find_open_session, draft)
        if found is not None:
            return found
        for _ in range(_MAX_RACES):
            try:
                return (yield from ask(self.run, Mode.APPEND, sessions.open_session, draft))
            except UniqueViolationError:
                continue
        problem = f"Session {draft.id!r} could not be opened: other writers keep creating and deleting it."
        raise StoreUnavailableError(problem)

    open_session, aopen_session = faces(_open_session)

    find_session, afind_session = pair(Mode.READ, locate, "find_session")
    list_sessions, alist_sessions = pair(Mode.READ, sessions.list_sessions)
    update_session, aupdate_session = pair(Mode.WRITE, sessions.update_session)
    end_session, aend_session = pair(Mode.WRITE, sessions.end_session)
    append_record, aappend_record = pair(Mode.WRITE, sessions.append_record)

    def _delete_session(self, key: SessionKey, now: int, tombstone_until: int) -> Flow[bool]:
        gone = yield from ask(self.run, Mode.WRITE, sessions.delete_session, key, now, tombstone_until)
        if gone:
            yield from self._forget_log()
        return gone

    delete_session, adelete_session = faces(_delete_session)

    def _delete_user(self, app: str, user_id: str, now: int, tombstone_until: int) -> Flow[int]:
        del now
        total = 0
        while True:
            batch = yield from ask(
                self.run, Mode.WRITE, sessions.delete_user_sessions, app, user_id, _BATCH, tombstone_until
            )
            total += batch
            if batch < _BATCH:
                break
        yield from self._forget_log()
        return total

    delete_user, adelete_user = faces(_delete_user)

    def _purge_expired(self, app: str, owner: Owner, now: int, limit: int) -> Flow[int]:
        gone = yield from ask(self.run, Mode.WRITE, sessions.purge_expired, app, owner, now, limit)
        if gone:
            yield from self._forget_log()
        return gone

    purge_expired, apurge_expired = faces(_purge_expired)

    def _forget_log(self) -> Flow[None]:
        """SQLite: what was deleted leaves the write-ahead log too, as far as no reader still needs it."""
        if self.flavour == "sqlite" and not self._engines.in_memory:
            yield from ask(self.run, Mode.READ, _truncate_log)

    def _fork_session(self, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> Flow[SessionRow]:
        try:
            return (yield from ask(self.run, Mode.WRITE, sessions.fork_session, key, draft, at_seq))
        except UniqueViolationError as error:
            raise SessionExistsError(draft.id) from error

    fork_session, afork_session = faces(_fork_session)

    # -- the log -------------------------------------------------------------------------------------------

    append_events, aappend_events = faces(appending.append_events)
    find_events, afind_events = pair(Mode.READ, reading.find_events)
    load_context, aload_context = pair(Mode.READ, reading.load_context)
    rewind_events, arewind_events = pair(Mode.WRITE, standing.rewind_events)

    def _archive_events(self, key: SessionKey, plan: ArchivePlan) -> Flow[tuple[EventRow, ...] | None]:
        for _ in range(_MAX_STALE):
            prepared = yield from ask(self.run, Mode.READ, standing.prepare_archiving, key, plan)
            if prepared is None:
                return None
            rows = yield from ask(self.run, Mode.WRITE, standing.commit_archiving, key, prepared)
            if rows is not None:
                return rows
        return (yield from ask(self.run, Mode.WRITE, standing.archive_events, key, plan))

    archive_events, aarchive_events = faces(_archive_events)
    count_live, acount_live = pair(Mode.READ, counting.count_live)
    measure_scope, ameasure_scope = pair(Mode.READ, counting.measure_scope)
    lease_scope, alease_scope = pair(Mode.WRITE, counting.lease_scope)
    find_invocation, afind_invocation = pair(Mode.READ, counting.find_invocation)
    load_state, aload_state = pair(Mode.READ, scoped.load_state)
    verify_session, averify_session = pair(Mode.WRITE, maintenance.verify_session)

    # -- threads -------------------------------------------------------------------------------------------

    commit_threads, acommit_threads = faces(commit_threads)

    find_checkpoints, afind_checkpoints = pair(Mode.READ, thread_reading.find_checkpoints)
    load_lineage, aload_lineage = pair(Mode.READ, thread_reading.load_lineage)
    list_root_checkpoints, alist_root_checkpoints = pair(Mode.READ, history.list_root_checkpoints)
    find_runs, afind_runs = pair(Mode.READ, history.find_runs)
    prune_checkpoints, aprune_checkpoints = pair(Mode.WRITE, history.prune_checkpoints)

    # -- recall --------------------------------------------------------------------------------------------

    load_index, aload_index = pair(Mode.READ, recall_reading.load_index)
    find_index, afind_index = pair(Mode.READ, recall_writing.find_index)
    load_chunks, aload_chunks = pair(Mode.READ, recall_writing.load_chunks)
    write_index, awrite_index = pair(Mode.WRITE, recall_writing.write_index)
    write_shelf, awrite_shelf = pair(Mode.WRITE, shelves.write_shelf)
    scan_logs, ascan_logs = pair(Mode.READ, recall_scanning.scan_logs)
    load_events, aload_events = pair(Mode.READ, recall_scanning.load_events)
    list_vectors, alist_vectors = pair(Mode.READ, vectors.list_vectors)
    find_vectors, afind_vectors = pair(Mode.READ, vectors.find_vectors)
    load_vectors, aload_vectors = pair(Mode.READ, vectors.load_vectors)
    write_vectors, awrite_vectors = pair(Mode.WRITE, vectors.write_vectors)
