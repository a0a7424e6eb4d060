"""Looks at tables past the engine: as it does, at a quorum, and with patience, since a statement may read all."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cassandra import ConsistencyLevel, DriverException
from cassandra.query import SimpleStatement

if TYPE_CHECKING:
    from langchain_sessions.stores._cassandra.engine import CassandraEngine

_TRIES = 3


def rows_past(engine: CassandraEngine, text: str, values: tuple[str, ...]) -> list[Any]:
    """What a statement finds."""
    session = engine._link.session()
    statement = SimpleStatement(text, fetch_size=100, consistency_level=ConsistencyLevel.QUORUM)
    for _ in range(_TRIES):
        with suppress(DriverException):
            return list(session.execute(statement, values, timeout=60))
    return list(session.execute(statement, values, timeout=60))
