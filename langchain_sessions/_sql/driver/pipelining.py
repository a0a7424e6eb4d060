"""Several statements in one round trip, where the driver can send them without waiting for each answer.

psycopg can, given a libpq of version 14 or later. Elsewhere statements run one by one, with the same outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Dialect

    from langchain_sessions._sql.driver.transaction import Queued


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


def can_pipeline(dialect: Dialect) -> bool:
    """Whether connections of a dialect take statements without waiting."""
    if dialect.name != "postgresql":
        return False
    from psycopg import Pipeline

    return Pipeline.is_supported()
