"""The driver: a session that is opened at first use, statements by their names, and its errors as ours."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions import errors
from langchain_sessions._core.edge import require
from langchain_sessions._core.locks import new_lock
from langchain_sessions._core.twins import alone
from langchain_sessions.stores._cassandra.address import read_url
from langchain_sessions.stores._cassandra.statements import statements

try:
    import cassandra
    from cassandra import policies
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, ResultSet
    from cassandra.connection import ConnectionException
    from cassandra.protocol import ErrorMessage
    from cassandra.query import BatchStatement, BatchType, tuple_factory
except ImportError as error:  # pragma: no cover - a test runs an interpreter without it
    raise errors.MissingDependencyError("The store in Cassandra", "cassandra") from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_sessions.stores._wide.work import Do

_PATIENCE: Final = 10
"""Seconds until the driver gives up on one statement; after one of them it asks another node beside the first."""
_LEVEL: Final = cassandra.ConsistencyLevel
_PROFILE: Final = {
    "row_factory": tuple_factory,
    "request_timeout": _PATIENCE,
    "consistency_level": _LEVEL.QUORUM,
    "serial_consistency_level": _LEVEL.SERIAL,
    "speculative_execution_policy": policies.ConstantSpeculativeExecutionPolicy(1.0, 2),
}
_LATE: Final = (cassandra.OperationTimedOut, cassandra.Timeout)
_CONTENDED: Final = 0x1700
"""What a node says of a conditional write or a serial read that others got in the way of; the driver has no class."""
_GONE = "Cassandra could not be reached, or too few of its nodes answered. Repeat the call: an append goes by its ids."
_BUSY = (
    "Nodes of Cassandra did not agree in time: one of them is away, or very many write to one session. "
    "Repeat the call: an append goes by its ids."
)


class BusyError(errors.StoreUnavailableError):
    """Nodes are there, and others were in the way: who asks again soon gets through."""


class Link:
    """Runs statements on the session that was given, or on one of its own."""

    def __init__(self, source: Any, prefix: str) -> None:
        """Nothing is opened yet."""
        self._is_given = not isinstance(source, str)
        self._source: Any = source if self._is_given else read_url(source)
        require(
            not self._is_given or bool(getattr(source, "keyspace", None)),
            "database",
            "give a Session that has a keyspace",
        )
        self._statements = statements(prefix)
        self._guard = new_lock()
        self._session: Any = None
        self._profiles: dict[bool | None, Any] = {}
        self._prepared: dict[str, Any] = {}

    def session(self) -> Any:
        """The driver's session, opened now if it was not."""
        with self._guard, _told():
            if self._session is None:
                session = self._source if self._is_given else self._connect()
                serial, once = {"consistency_level": _LEVEL.SERIAL}, {"retry_policy": policies.FallthroughRetryPolicy()}
                for how, more in ((False, {}), (True, serial), (None, once)):
                    profile = session.execution_profile_clone_update(EXEC_PROFILE_DEFAULT, **{**_PROFILE, **more})
                    self._profiles[how] = profile
                self._session = session
            return self._session

    def _connect(self) -> Any:
        hosts, keyspace, login, datacenter = self._source
        near = policies.DCAwareRoundRobinPolicy(datacenter) if datacenter else policies.RoundRobinPolicy()
        cluster = Cluster(
            hosts,
            auth_provider=PlainTextAuthProvider(*login) if login else None,
            protocol_version=5,
            connect_timeout=_PATIENCE,
            control_connection_timeout=_PATIENCE,
            execution_profiles={EXEC_PROFILE_DEFAULT: ExecutionProfile(policies.TokenAwarePolicy(near))},
        )
        try:
            return cluster.connect(keyspace)
        except BaseException:
            cluster.shutdown()
            raise

    def prepare(self) -> None:
        """Open the session and prepare every statement."""
        session = self.session()
        with self._guard, _told():
            for name in self._statements.keys() - self._prepared.keys():
                self._prepared[name] = session.prepare(self._statements[name])

    async def aprepare(self) -> None:
        """Async `prepare`: once for each store, so in a thread."""
        await alone(self.prepare)

    def close(self) -> None:
        """Close the session that was opened here."""
        with self._guard:
            self._prepared.clear()
            if self._session is not None and not self._is_given:
                self._session.cluster.shutdown()
            self._session = None

    def execute(self, text: str) -> None:
        """Run a statement that is not prepared."""
        session = self.session()
        with _told():
            session.execute(text, timeout=4 * _PATIENCE, execution_profile=self._profiles[False])

    def send(self, work: Sequence[Do], *, serial: bool = False) -> list[list[Any]]:
        """Run some statements beside each other; the rows of each."""
        with _told():
            return [each.result() for each in self._begin_each(work, serial=serial)]

    async def asend(self, work: Sequence[Do], *, serial: bool = False) -> list[list[Any]]:
        """Async `send`: the driver's own futures, and no thread."""
        with _told():
            return [await asyncio.wrap_future(each) for each in self._begin_each(work, serial=serial)]

    def batch(self, work: Sequence[Do]) -> list[Any]:
        """Run statements on one partition as one, and once: what it comes to may be unknown afterwards."""
        with _told():
            return self._begin_batch(work).result()

    async def abatch(self, work: Sequence[Do]) -> list[Any]:
        """Async `batch`."""
        with _told():
            return await asyncio.wrap_future(self._begin_batch(work))

    def _begin_each(self, work: Sequence[Do], *, serial: bool) -> list[Future[list[Any]]]:
        return [self._begin(self._prepared[do.name].bind(do.values), serial=serial) for do in work]

    def _begin_batch(self, work: Sequence[Do]) -> Future[list[Any]]:
        batch = BatchStatement(BatchType.UNLOGGED)
        for do in work:
            batch.add(self._prepared[do.name], do.values)
        return self._begin(batch, serial=None)

    def _begin(self, statement: Any, *, serial: bool | None) -> Future[list[Any]]:
        """Send a statement; the future has its rows when the last page is there."""
        done: Future[list[Any]] = Future()
        done.set_running_or_notify_cancel()  # who is cancelled leaves it to end by itself
        statement.fetch_size, statement.is_idempotent = 1000, serial is not None
        self._ask(statement, self._profiles[serial], done, [], None)
        return done

    def _ask(self, statement: Any, profile: Any, done: Future[list[Any]], rows: list[Any], after: bytes | None) -> None:
        """Ask for the page behind the rows that are there.

        Of a statement that was sent to a second node as well the driver may tell both answers. So each page is a
        request of its own, and what is told first of it counts.
        """
        response = self._session.execute_async(statement, execution_profile=profile, paging_state=after)
        untold = [done]

        def page(some: Any) -> None:
            if not _is_first(untold):
                return
            rows.extend(some or ())
            if not response.has_more_pages:
                done.set_result(rows)
                return
            try:
                self._ask(statement, profile, done, rows, ResultSet(response, some).paging_state)
            except Exception as error:  # it would be lost in the driver's loop, and somebody waits
                done.set_exception(error)

        def failed(error: BaseException) -> None:
            if _is_first(untold):
                done.set_exception(error)

        response.add_callbacks(page, failed)


def _is_first(untold: list[Any]) -> bool:
    """Whether nobody took what was there; of several threads one does."""
    try:
        untold.pop()
    except IndexError:
        return False
    return True


@contextmanager
def _told() -> Iterator[None]:
    """Tell an error of the driver as one of ours: it names no password, no host and no value."""
    try:
        yield
    except errors.SessionsError:
        raise
    except Exception as error:
        each_said = getattr(error, "errors", None)
        within = list(each_said.values()) if isinstance(each_said, dict) else [error]
        if within and all(
            isinstance(each, (cassandra.AuthenticationFailed, cassandra.Unauthorized)) for each in within
        ):
            raise errors.StoreUnavailableError("Cassandra refused the user or the password of the URL.") from None
        if isinstance(error, cassandra.InvalidRequest) or "using keyspace" in str(error):
            raise _refused(str(error)) from error
        if any(isinstance(each, _LATE) or getattr(each, "code", 0) == _CONTENDED for each in within):
            raise BusyError(_BUSY) from error
        # What the driver has no class for is an ErrorMessage: that nobody knows what a batch came to, for one.
        if isinstance(error, (NoHostAvailable, cassandra.DriverException, ConnectionException, ErrorMessage, OSError)):
            raise errors.StoreUnavailableError(_GONE) from error
        raise


def _refused(said: str) -> Exception:
    if "table" in said and ("unconfigured" in said or "does not exist" in said):
        return errors.SchemaMissingError()
    if "eyspace" in said:
        return errors.StoreUnavailableError("There is no such keyspace: create it with the replication that you want.")
    if "too large" in said:
        return errors.InvalidInputError("messages", "take more than this Cassandra lets one commit hold")
    return errors.StoreError("Cassandra refused a statement.")
