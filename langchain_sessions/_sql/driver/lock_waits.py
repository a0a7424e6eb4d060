"""How long a statement waits for what somebody else has locked: told to each connection that the library opens.

Databases differ: PostgreSQL waits for ever, MariaDB 50 seconds for a row and a day for a table, SQLite not at all. Here
no call does for longer than a minute, unless somebody asked for another time.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import event, false, func, select

from langchain_sessions._core.edge import check_duration

if TYPE_CHECKING:
    from datetime import timedelta

    from sqlalchemy import Engine
    from sqlalchemy.engine import URL

_NAME = "lock_timeout"
SECONDS = 60
"""By default, and how long a call waits for a connection."""


def check_lock_timeout(given: timedelta | None) -> float | None:
    """A time in seconds; None where nobody asked for one.

    Raises:
        InvalidInputError: It is no time.
    """
    return None if given is None else check_duration(given, "lock_timeout") / 1_000_000


def busy_milliseconds(url: URL, asked: float | None) -> int:
    """What SQLite is told. A URL may say it, too, as the driver has it: `?timeout=5`."""
    told = url.query.get("timeout")
    if asked is None and isinstance(told, str):
        with suppress(ValueError, OverflowError):  # what is no number the driver refuses in its own words
            return math.ceil(float(told) * 1000)
    return math.ceil((SECONDS if asked is None else asked) * 1000)


def tell_postgresql(engine: Engine, asked: float | None) -> None:
    """Have each new connection told.

    By a statement, since poolers refuse options of a connection. What the URL, the role or the database says of it
    stands where nobody asked for something else.
    """
    milliseconds = str(math.ceil((SECONDS if asked is None else asked) * 1000))
    told = select(func.set_config(_NAME, milliseconds, false()))
    if asked is None:
        told = told.where(func.current_setting(_NAME) == "0")
    # With its values in it: drivers differ in how a statement names a parameter.
    said = str(told.compile(dialect=engine.dialect, compile_kwargs={"literal_binds": True}))

    @event.listens_for(engine, "connect")
    def tell(connection: Any, _record: Any) -> None:
        was = connection.autocommit
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(said)
        cursor.close()
        connection.autocommit = was


def mysql_settings(asked: float | None) -> str:
    """What MySQL and MariaDB are told, which count in whole seconds: of rows, and of tables that somebody alters."""
    if asked is None:
        return f"SET SESSION lock_wait_timeout = LEAST(@@lock_wait_timeout, {SECONDS})"
    seconds = max(1, math.ceil(asked))
    return f"SET SESSION lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {seconds}"
