"""The drivers that are supported: the one table of them.

Another one is a row here, and a module beside this one that keeps `Special`, as psycopg has.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Dialect
    from sqlalchemy.engine import URL

    from langchain_sessions._sql.driver.transaction import Boundaries, Send


class Special(Protocol):
    """What a module knows of a server's driver: all that differs from driver to driver."""

    def options(self, url: URL, lock_seconds: float | None) -> tuple[URL, dict[str, Any]]:
        """The URL, and what the driver is given besides, for connections of the library's own."""
        ...

    def boundaries(self, *, owned: bool) -> Boundaries:
        """How transactions begin and end, on connections of the library's own or (not `owned`) of the caller's."""
        ...

    def code_of(self, error: Any) -> Any:
        """What the database says went wrong, by its error: `failures.py` has the sentences for each code."""
        ...

    def senders(self, *, owned: bool) -> tuple[Send, Send] | tuple[None, None]:
        """What sends several statements at once, over synchronous and over adapted connections; None where none can."""
        ...

    def style(self, *, owned: bool) -> str:
        """How values stand in statements over connections of the library's own or (not `owned`) of the caller's."""
        ...

    def cursor_of(self, driver: Any, dialect: Dialect) -> Any:
        """What the transactions of a connection of the library's own share; None where each makes its own."""
        ...

    def close_without_loop(self, connection: Any) -> None:
        """Close an asynchronous connection whose loop has ended."""
        ...


class Driver(NamedTuple):
    """One driver.

    Attributes:
        name: What SQLAlchemy calls it, in a URL behind the plus.
        database: SQLAlchemy's name of its database. The first driver of one is meant where a URL names none.
        package: The package that is installed for it; empty for what Python brings.
        is_async: Whether it speaks asyncio only.
        twin: The driver that `await` goes through beside it; empty where calls take a thread instead.
        special: The module that keeps `Special` for it; empty for SQLite, which is no server.
    """

    name: str
    database: str
    package: str = ""
    is_async: bool = False
    twin: str = ""
    special: str = ""


_PSYCOPG: Final = "langchain_sessions._sql.driver.psycopg"
_MYSQL: Final = "langchain_sessions._sql.driver.mysql"
DRIVERS: Final = (
    Driver("pysqlite", "sqlite"),
    Driver("psycopg", "postgresql", "psycopg", twin="psycopg", special=_PSYCOPG),
    Driver("psycopg_async", "postgresql", "psycopg", is_async=True, special=_PSYCOPG),
    Driver("pymysql", "mysql", "PyMySQL", twin="asyncmy", special=_MYSQL),
    Driver("asyncmy", "mysql", "asyncmy", is_async=True, special=_MYSQL),
)
BY_NAME: Final[Mapping[str, Driver]] = {driver.name: driver for driver in DRIVERS}
DEFAULTS: Final[Mapping[str, str]] = {driver.database: driver.name for driver in reversed(DRIVERS)}
"""The driver of each database that is meant where a URL names none."""
EXTRAS: Final[Mapping[str, str]] = {"postgresql": "postgres", "mysql": "mysql"}
"""What of this library's extras brings the drivers of a database."""


def database_of(name: str) -> str:
    """The database that a dialect is for: MariaDB has a name of its own, and drivers and SQL that are MySQL's."""
    return "mysql" if name == "mariadb" else name


def is_supported(dialect: Dialect) -> bool:
    """Whether the library is tested with a dialect and its driver."""
    driver = BY_NAME.get(dialect.driver)
    return driver is not None and driver.database == database_of(dialect.name)


def special_of(dialect: Dialect) -> Special | None:
    """The module that knows the driver of a dialect; None for SQLite's."""
    driver = BY_NAME.get(dialect.driver)
    return special_module(driver) if driver is not None and driver.special else None


def special_module(driver: Driver) -> Special:
    """The module that knows a driver of a server."""
    found: Any = import_module(driver.special)
    known: Special = found
    return known
