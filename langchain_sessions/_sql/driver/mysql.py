"""All that the library knows of PyMySQL and asyncmy, which take several statements as one text; see `drivers.Special`.

The driver puts the values into each, by the function that it uses for a statement alone; they go in one round trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._sql.driver.lock_waits import mysql_settings
from langchain_sessions._sql.driver.transaction import Boundaries
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Dialect
    from sqlalchemy.engine import URL

    from langchain_sessions._sql.driver.transaction import Queued, Send, Transaction

_MOST_JOINED = 1_000_000
"""Characters of text that go to a server at once: a part of the largest packet that it takes by default."""
_SEVERAL_STATEMENTS, _FOUND_ROWS = 1 << 16, 1 << 1
"""Flags of MySQL's protocol: one text may hold several statements; an UPDATE counts the rows that it found, which is
what SQLAlchemy asks for where nobody else names flags."""


def send(connection: Any, queue: Sequence[Queued]) -> None:
    """Send statements over a PyMySQL connection, as few texts of several."""
    cursor = connection.cursor()
    for text, some in _joined(cursor, queue):
        cursor.execute(text)
        for at, item in enumerate(some):
            if at:
                cursor.nextset()
            item.outcome.changed, item.outcome.last_id = cursor.rowcount, cursor.lastrowid
            if cursor.description is not None:
                item.outcome.rows = list(cursor.fetchall())
    cursor.close()


def send_adapted(connection: Any, queue: Sequence[Queued]) -> None:
    """The same over SQLAlchemy's face of an asyncmy connection, in the greenlet that it runs in."""
    connection.run_async(lambda driver: _asend(driver, queue))


async def _asend(connection: Any, queue: Sequence[Queued]) -> None:
    cursor = connection.cursor()
    for text, some in _joined(cursor, queue):
        await cursor.execute(text)
        for at, item in enumerate(some):
            if at:
                await cursor.nextset()
            item.outcome.changed, item.outcome.last_id = cursor.rowcount, cursor.lastrowid
            if cursor.description is not None:
                item.outcome.rows = list(await cursor.fetchall())
    await cursor.close()


def _joined(cursor: Any, queue: Sequence[Queued]) -> Iterator[tuple[str, list[Queued]]]:
    """Statements with the values that the driver put into each, in one text as far as a packet reaches."""
    texts: list[str] = []
    some: list[Queued] = []
    size = 0
    for item in queue:
        # As the driver itself does with a statement that it is given alone.
        text = cursor.mogrify(item.text, item.values)
        if some and size + len(text) > _MOST_JOINED:
            yield ";\n".join(texts), some
            texts, some, size = [], [], 0
        texts.append(text)
        some.append(item)
        size += len(text)
    yield ";\n".join(texts), some


class MysqlBoundaries(Boundaries):
    """MySQL and MariaDB: on connections of the library's own as on PostgreSQL; a caller's may begin by themselves."""

    def begin(self, transaction: Transaction, kind: TransactionKind) -> None:
        """Begin, unless it only reads. A caller's engine may commit by itself after each statement."""
        if kind is TransactionKind.READ:
            return
        if self._owned:
            transaction.begin()
        else:
            transaction.script("BEGIN")

    def commit(self, driver: Any, transaction: Transaction, kind: TransactionKind) -> None:
        """Send what waits, and commit; on a caller's connection by the driver, which has begun for reads too."""
        if not self._owned:
            driver.commit()
        elif kind is TransactionKind.READ:
            transaction.flush()
        else:
            transaction.commit()


def options(url: URL, lock_seconds: float | None) -> tuple[URL, dict[str, Any]]:
    """A character set that holds every character, and what connections are told when they begin."""
    given = {
        # Under REPEATABLE READ a second read would not see the row whose lock was waited for, and gaps would be locked.
        "init_command": f"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; {mysql_settings(lock_seconds)}",
        # As `MysqlBoundaries` has it: what is begun and committed is sent with the statements beside it.
        "autocommit": True,
        "client_flag": int(str(url.query.get("client_flag", 0))) | _SEVERAL_STATEMENTS | _FOUND_ROWS,
    }
    # Their `utf8` holds no character beyond three bytes.
    return url.update_query_dict({"charset": "utf8mb4"}), given


def boundaries(*, owned: bool) -> Boundaries:
    """How transactions begin and end."""
    return MysqlBoundaries(owned=owned)


def code_of(error: Any) -> Any:
    """The number, or the SQLSTATE of what has none."""
    # SQLSTATEs say less than numbers: a lock that was waited for too long has none of its own.
    if error.args and isinstance(error.args[0], int):
        return error.args[0]
    return getattr(error, "sqlstate", None)


def senders(*, owned: bool) -> tuple[Send, Send] | tuple[None, None]:
    """What sends several statements at once, over synchronous and over adapted connections of our own."""
    # A caller's connections may not admit several statements, and end what is begun in their own way.
    return (send, send_adapted) if owned else (None, None)


def style(*, owned: bool) -> str:
    """One by one, in order."""
    del owned
    return "format"


def cursor_of(driver: Any, dialect: Dialect) -> Any:
    """None: a cursor holds what it has read, and a new one costs nothing."""
    del driver, dialect


def close_without_loop(connection: Any) -> None:
    """Close an asynchronous connection whose loop has ended, as far as that goes without it."""
    connection.close()
