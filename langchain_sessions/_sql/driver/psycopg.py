"""What psycopg can do that other drivers cannot.

It sends several statements in one round trip, without waiting for each answer, given a libpq of version 14 or later.
Elsewhere statements run one by one, with the same outcome. And it closes a connection whose event loop has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._sql.driver.transaction import Queued, Send


def send(connection: Any, queue: Sequence[Queued]) -> None:
    """Send statements over a psycopg connection, and wait once for all of them."""
    running = []
    with connection.pipeline():
        for item in queue:
            cursor = connection.cursor()
            cursor.execute(item.text, item.values)
            running.append((cursor, item.outcome))
    for cursor, outcome in running:
        if cursor.description is not None:
            outcome.rows = cursor.fetchall()
        cursor.close()


def send_adapted(connection: Any, queue: Sequence[Queued]) -> None:
    """`send` for SQLAlchemy's face of an asynchronous psycopg connection, in the greenlet that it runs in."""
    connection.run_async(lambda driver: _asend(driver, queue))


async def _asend(connection: Any, queue: Sequence[Queued]) -> None:
    running = []
    async with connection.pipeline():
        for item in queue:
            cursor = connection.cursor()
            await cursor.execute(item.text, item.values)
            running.append((cursor, item.outcome))
    for cursor, outcome in running:
        if cursor.description is not None:
            outcome.rows = await cursor.fetchall()
        await cursor.close()


def senders() -> tuple[Send, Send] | tuple[None, None]:
    """What sends several statements at once, over synchronous and over adapted connections, where libpq can."""
    from psycopg import Pipeline

    return (send, send_adapted) if Pipeline.is_supported() else (None, None)


def close_without_loop(connection: Any) -> None:
    """Close an asynchronous connection whose loop has ended: the socket, which is libpq's."""
    connection.pgconn.finish()
