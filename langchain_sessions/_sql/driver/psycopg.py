"""All that the library knows of psycopg; see `drivers.Special`.

It sends several statements in one round trip, without waiting for each answer, given a libpq of version 14 or later.
Elsewhere statements run one by one, with the same outcome. And it closes a connection whose event loop has ended.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_sessions._sql.driver.transaction import Boundaries
from langchain_sessions._sql.driver.transaction_kinds import LONG, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Dialect
    from sqlalchemy.engine import URL

    from langchain_sessions._sql.driver.transaction import Queued, Send, Transaction

_INNER = ("_communicate_gen", "_exit_gen", "_enqueue_sync", "_fetch_gen")
"""What psycopg's pipelines consist of, as far as it is used here."""


def send(connection: Any, queue: Sequence[Queued]) -> None:
    """Send statements over a psycopg connection, and wait once for all of them."""
    running = []
    with connection.pipeline() as pipeline, _held_back(pipeline):
        for item in queue:
            cursor = connection.cursor()
            cursor.execute(item.text, item.values)
            running.append((cursor, item.outcome))
    for cursor, outcome in running:
        outcome.changed = cursor.rowcount
        if cursor.description is not None:
            outcome.rows = cursor.fetchall()
        cursor.close()


def send_adapted(connection: Any, queue: Sequence[Queued]) -> None:
    """The same over SQLAlchemy's face of an asynchronous psycopg connection, in the greenlet that it runs in."""
    connection.run_async(lambda driver: _asend(driver, queue))


async def _asend(connection: Any, queue: Sequence[Queued]) -> None:
    running = []
    async with connection.pipeline() as pipeline:
        with _held_back(pipeline):
            for item in queue:
                cursor = connection.cursor()
                await cursor.execute(item.text, item.values)
                running.append((cursor, item.outcome))
    for cursor, outcome in running:
        outcome.changed = cursor.rowcount
        if cursor.description is not None:
            outcome.rows = await cursor.fetchall()
        await cursor.close()


class _AllAtOnce(deque[Any]):
    """What psycopg is about to give to libpq: all of it at once, which libpq then sends in one packet."""

    def popleft(self) -> Callable[[], None]:
        """All that waits, as one."""
        waiting = [*self]
        self.clear()

        def act() -> None:
            for command in waiting:
                command()

        return act


@contextmanager
def _held_back(pipeline: Any) -> Iterator[None]:
    """Have a pipeline send nothing before it ends: psycopg would flush after each statement, one packet for each."""
    # Not in its documentation: where a release has it otherwise, it flushes, and all else is the same.
    is_known = type(getattr(pipeline, "command_queue", None)) is deque
    if not is_known or not all(hasattr(pipeline, name) for name in _INNER):
        yield
        return
    pipeline.command_queue = _AllAtOnce(pipeline.command_queue)
    pipeline._communicate_gen = _nothing  # noqa: SLF001 - as said above
    try:
        yield
    finally:
        # Also where a statement is refused: psycopg counts on what it prepared before it.
        del pipeline._communicate_gen  # noqa: SLF001 - likewise
        pipeline._exit_gen = partial(_end, pipeline)  # noqa: SLF001 - likewise


def _nothing() -> Iterator[Any]:
    return iter(())


def _end(pipeline: Any) -> Iterator[Any]:
    """End a pipeline. What it sends last has the server answer; psycopg would ask it to in one more packet."""
    is_sent = False
    try:
        pipeline._enqueue_sync()  # noqa: SLF001 - likewise
        yield from pipeline._communicate_gen()  # noqa: SLF001 - likewise
        is_sent = True
    finally:
        # What could not be sent to its end has to be asked for.
        yield from pipeline._fetch_gen(flush=not is_sent)  # noqa: SLF001 - likewise


class PostgresBoundaries(Boundaries):
    """PostgreSQL: autocommit, and BEGIN and COMMIT sent together with the statements beside them."""

    def __init__(self, *, owned: bool) -> None:
        """Connections of the library's own commit by themselves from the start."""
        super().__init__(owned=owned)
        self.borrows = not owned

    def borrow(self, driver: Any) -> Any:
        """Turn autocommit on."""
        was = driver.autocommit
        if not was:
            # psycopg would send a BEGIN of its own before the first statement, and wait for the answer.
            driver.autocommit = True
        return was

    def begin(self, transaction: Transaction, kind: TransactionKind) -> None:
        """Begin where there may be several statements."""
        if kind in LONG:
            transaction.begin("SET LOCAL synchronous_commit TO off" if kind is TransactionKind.RELAXED else "")

    def commit(self, driver: Any, transaction: Transaction, kind: TransactionKind) -> None:
        """Commit what was begun."""
        del driver
        if kind in LONG:
            transaction.commit()
        else:
            transaction.flush()

    def give_back(self, driver: Any, was: Any) -> bool:
        """Turn autocommit off again where the connection is the caller's."""
        if was is False:
            try:
                driver.autocommit = False
            except Exception:
                return False
        return True


def options(url: URL, lock_seconds: float | None) -> tuple[URL, dict[str, Any]]:
    """Nothing besides the URL: `lock_waits` tells connections by a statement."""
    del lock_seconds
    return url, {}


def boundaries(*, owned: bool) -> Boundaries:
    """How transactions begin and end."""
    return PostgresBoundaries(owned=owned)


def code_of(error: Any) -> Any:
    """The SQLSTATE."""
    return getattr(error, "sqlstate", None)


def senders(*, owned: bool) -> tuple[Send, Send] | tuple[None, None]:
    """What sends several statements at once, over synchronous and over adapted connections, where libpq can."""
    del owned  # a caller's connections can, too
    from psycopg import Pipeline

    return (send, send_adapted) if Pipeline.is_supported() else (None, None)


def style(*, owned: bool) -> str:
    """Numbered, so that a value which stands in several places is sent once; a caller's cursors may not know that."""
    return "numeric_dollar" if owned else "format"


def cursor_of(driver: Any, dialect: Dialect) -> Any:
    """What the transactions of a connection of our own share."""
    from psycopg import AsyncRawCursor, RawCursor

    from langchain_sessions._sql.driver.libpq import Cursor

    driver.autocommit = True
    inside: Any = dialect.get_driver_connection(driver)
    inside.cursor_factory = AsyncRawCursor if dialect.is_async else RawCursor
    return Cursor(driver, dialect)


def close_without_loop(connection: Any) -> None:
    """Close an asynchronous connection whose loop has ended: the socket, which is libpq's."""
    connection.pgconn.finish()
