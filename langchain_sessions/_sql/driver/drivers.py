"""The drivers that are supported: the one table of them.

Another one is a row here, with a module beside this one for what it can do that others cannot, as psycopg has. What it
raises is told in `failures.py`, whose sentences go by the codes of the databases.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Dialect


class Driver(NamedTuple):
    """One driver.

    Attributes:
        name: What SQLAlchemy calls it, in a URL behind the plus.
        database: SQLAlchemy's name of its database. The first driver of one is meant where a URL names none.
        package: The package that is installed for it; empty for what Python brings.
        is_async: Whether it speaks asyncio only.
        twin: The driver that `await` goes through beside it; empty where calls take a thread instead.
        special: The module of ours that knows what others cannot do.
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


def special_of(dialect: Dialect) -> Any:
    """The module that knows what the driver of a dialect can do beyond others; None for most."""
    driver = BY_NAME.get(dialect.driver)
    return import_module(driver.special) if driver is not None and driver.special else None
