"""What the drivers of MySQL and MariaDB can do that others cannot: take several statements as one text.

The driver puts the values into each, by the function that it uses for a statement alone; they go in one round trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Dialect

    from langchain_sessions._sql.driver.transaction import Queued, Send

_MOST_JOINED = 1_000_000
"""Characters of text that go to a server at once: a part of the largest packet that it takes by default."""


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


def senders(*, owned: bool) -> tuple[Send, Send] | tuple[None, None]:
    """What sends several statements at once, over synchronous and over adapted connections of our own."""
    # A caller's connections may not admit several statements, and end what is begun in their own way.
    return (send, send_adapted) if owned else (None, None)


def cursor_of(driver: Any, dialect: Dialect) -> Any:
    """None: a cursor holds what it has read, and a new one costs nothing."""
    del driver, dialect


def close_without_loop(connection: Any) -> None:
    """Close an asynchronous connection whose loop has ended, as far as that goes without it."""
    connection.close()
