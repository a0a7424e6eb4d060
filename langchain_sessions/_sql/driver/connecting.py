"""From what a caller has (a URL, an engine of SQLAlchemy's) to the engines of SQLAlchemy's that a store runs on."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Dialect, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from langchain_sessions._sql.driver.drivers import (
    BY_NAME,
    DEFAULTS,
    DRIVERS,
    EXTRAS,
    database_of,
    is_supported,
    special_module,
    special_of,
)
from langchain_sessions._sql.driver.failures import refused_option
from langchain_sessions._sql.driver.lock_waits import (
    SECONDS,
    busy_milliseconds,
    check_lock_timeout,
    tell_postgresql,
)
from langchain_sessions.errors import InvalidInputError, MissingDependencyError, UnsupportedDatabaseError
from langchain_sessions.stores._engines_by_url import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

TYPE_ASYNC_ENGINE = Any
_PAGE_SIZE = 2048
"""Of a SQLite file that is created here; one that is there keeps its own until somebody vacuums it out of WAL mode.

A transaction here touches a few rows in a few trees, and whole pages are written: half the page is half the bytes.
"""


@dataclass(frozen=True, slots=True)
class Engines:
    """What a store runs on.

    Attributes:
        sync: The synchronous engine; None when only an async one was given.
        async_: The async engine; None on SQLite, and when only a sync one was given.
        owned: Whether the library made them, and so closes them.
        in_memory: A SQLite database that lives in one shared connection.
        one_by_one: SQLite has one connection for all threads, so that reads take turns with what is written.
        thread_bound: One that lives in a connection which only the thread that opened it may use.
        another_async: Makes one more async engine; None where only somebody else could.
    """

    sync: Engine | None
    async_: TYPE_ASYNC_ENGINE | None
    owned: bool
    in_memory: bool = False
    one_by_one: bool = False
    thread_bound: bool = False
    another_async: Callable[[], TYPE_ASYNC_ENGINE] | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect of the engines."""
        engine = self.sync if self.sync is not None else self.async_
        assert engine is not None
        found: Dialect = engine.dialect
        return found

    @property
    def url(self) -> URL:
        """Where the engines lead."""
        engine = self.sync if self.sync is not None else self.async_
        assert engine is not None
        found: URL = engine.url
        return found

    @property
    def is_mariadb(self) -> bool:
        """Whether an engine that has connected found MariaDB behind a mysql URL."""
        dialects: list[Any] = [engine.dialect for engine in (self.sync, self.async_) if engine is not None]
        return any(dialect.name in ("mysql", "mariadb") and dialect.is_mariadb for dialect in dialects)


class WrongDatabaseError(InvalidInputError, TypeError):
    """What was given is no database, or nothing was: Python itself would raise a `TypeError`."""


def engines_for(
    database: str | URL | Engine | TYPE_ASYNC_ENGINE,
    *,
    synchronous: str = "FULL",
    lock_timeout: timedelta | None = None,
) -> Engines:
    """The engines for a URL, an `Engine` or an `AsyncEngine`.

    Args:
        database: What the caller has. Given engines are used as they are and never closed.
        synchronous: SQLite's durability for engines made here: FULL, or NORMAL, with which a power cut may take
            the last transactions (a crash of the process does not).
        lock_timeout: How long engines made here wait for what somebody else has locked; by default a minute.

    Raises:
        InvalidInputError: It is no URL, or no time.
        UnsupportedDatabaseError: The library is not tested with this database or driver.
        MissingDependencyError: Its driver is not installed.
    """
    lock_seconds = check_lock_timeout(lock_timeout)
    if isinstance(database, Engine):
        _require_usable(database)
        in_memory = _is_memory(database.url)
        is_shared = isinstance(database.pool, StaticPool)
        bound, by_one = in_memory and not is_shared, in_memory or is_shared
        return Engines(database, None, owned=False, in_memory=in_memory, one_by_one=by_one, thread_bound=bound)
    if isinstance(database, (str, URL)):
        return _engines_for_url(database, synchronous, lock_seconds)
    if is_async_engine(database):
        _require_usable(database.sync_engine)
        return Engines(None, database, owned=False)
    given = database if isinstance(database, type) else type(database)
    name = given.__qualname__ if given.__module__ == "builtins" else f"{given.__module__}.{given.__qualname__}"
    what = f"the class {name} itself" if given is database else name
    raise WrongDatabaseError("database", f"{_GIVE}, not {what}")


_GIVE = (
    "give a URL such as sqlite:///chat.db, an Engine or AsyncEngine of SQLAlchemy, or a store such as InMemoryStore()"
)


def is_async_engine(database: Any) -> bool:
    """Whether this is SQLAlchemy's AsyncEngine, asked without importing its asyncio package for everybody."""
    kind = type(database)
    return kind.__name__ == "AsyncEngine" and kind.__module__.startswith("sqlalchemy.ext.asyncio")


def _require_supported(dialect: Dialect) -> None:
    if not is_supported(dialect):
        known = ", ".join(f"{driver.database}+{driver.name}" for driver in DRIVERS)
        used = f"{dialect.name}+{dialect.driver}"
        problem = (
            f"{used} is not supported. Leave the driver out ({database_of(dialect.name)}://…), or use one of: {known}."
        )
        raise UnsupportedDatabaseError(problem)


def _require_usable(engine: Engine) -> None:
    """Refuse what would mix up transactions or tenants without a word."""
    _require_supported(engine.dialect)
    if isinstance(engine.pool, StaticPool) and engine.dialect.name != "sqlite":
        problem = (
            "a StaticPool gives one connection to threads and tasks that work at once, in the middle of each other's "
            "transactions; with pool_size=1, max_overflow=0 in its place they take turns"
        )
        raise InvalidInputError("database", problem)
    if engine.get_execution_options().get("schema_translate_map"):
        problem = (
            "schema_translate_map is not applied to what this library says; name the schema in the URL, such as "
            "postgresql://…?options=-csearch_path=tenant, or give a table_prefix"
        )
        raise InvalidInputError("database", problem)


def _parse(database: str | URL) -> URL:
    try:
        url = make_url(database)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError) as error:
        problem = "not a database URL, such as sqlite:///chat.db for a file, or sqlite:// for one in memory"
        raise InvalidInputError("database", problem) from error
    name = database_of(backend)
    if name == "postgres":
        raise UnsupportedDatabaseError("SQLAlchemy knows postgres:// no longer. Write postgresql:// in the URL.")
    if name == "sqlite" and url.host:
        meant = f"sqlite:///{url.host} for a file here, sqlite:////… for an absolute path"
        raise InvalidInputError("database", f"two slashes name a server, which SQLite has not; write {meant}")
    if "@" in (url.host or ""):
        # What is left of the last of them belongs to a password, and a host is named in errors.
        raise InvalidInputError("database", "an @ in a user's name or password is written %40 in a URL")
    if name not in DEFAULTS:
        known = ", ".join(dict.fromkeys((*(driver.database for driver in DRIVERS), *ENGINES)))
        problem = f"{backend!r} is not supported. Use one of: {known}; or InMemoryStore() for what may be forgotten."
        raise UnsupportedDatabaseError(problem)
    if "+" not in url.drivername:
        url = url.set(drivername=f"{url.drivername}+{DEFAULTS[name]}")
    return url


def _engines_for_url(database: str | URL, synchronous: str, lock_seconds: float | None) -> Engines:
    url = _parse(database)
    name = url.get_backend_name()
    try:
        _require_supported(url.get_dialect()())
        if name == "sqlite":
            engine = _sqlite_engine(url, synchronous, busy_milliseconds(url, lock_seconds))
            in_memory = _is_memory(url)
            return Engines(engine, None, owned=True, in_memory=in_memory, one_by_one=in_memory)
        return _server_engines(url, lock_seconds)
    except (ImportError, NoSuchModuleError) as error:
        extra = EXTRAS.get(database_of(name), "all")
        raise MissingDependencyError(name, extra) from error
    except (TypeError, ValueError) as error:
        # SQLAlchemy makes numbers of some options before anything is opened.
        refused = refused_option(url, error)
        if refused is None:
            raise
        raise refused from error


def _is_memory(url: URL) -> bool:
    if url.get_backend_name() != "sqlite":
        return False
    return not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"


def _sqlite_engine(url: URL, synchronous: str, busy: int) -> Engine:
    if synchronous.upper() not in ("FULL", "NORMAL", "EXTRA"):
        raise InvalidInputError("synchronous", "give 'FULL' or 'NORMAL'")
    arguments: dict[str, Any] = {"check_same_thread": False, "timeout": busy / 1000}
    if _is_memory(url):
        # One connection for all threads: each further one would open an empty database of its own.
        engine = create_engine(url, connect_args=arguments, poolclass=StaticPool, hide_parameters=True)
    else:
        # Readers never wait for a connection, which costs no server here; writers take turns on one that is kept.
        engine = create_engine(url, connect_args=arguments, pool_size=16, max_overflow=-1, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        # The driver begins nothing by itself: `SqliteBoundaries` says when.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            # First of all: a file keeps the size that it has when its first page is written, which WAL mode does.
            f"page_size = {_PAGE_SIZE}",
            f"busy_timeout = {busy}",
            "journal_mode = WAL",
            f"synchronous = {synchronous.upper()}",
            "secure_delete = ON",
            # A file that somebody sent may hold views and triggers that call functions.
            "trusted_schema = OFF",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


def _server_engines(url: URL, lock_seconds: float | None) -> Engines:
    # Transactions here always end themselves; on MySQL the driver's rollback would be one more round trip. What
    # overflows a pool is closed when it is given back: who has more tasks than connections would connect all day.
    options: dict[str, Any] = {
        "hide_parameters": True,
        "pool_size": 16,
        "max_overflow": 0,
        "pool_timeout": SECONDS,
        "pool_reset_on_return": None,
    }
    driver = BY_NAME[url.drivername.partition("+")[2]]
    url, options["connect_args"] = special_module(driver).options(url, lock_seconds)
    another: Callable[[], TYPE_ASYNC_ENGINE] | None = None
    if driver.is_async:
        another = partial(_async_engine, url, options, lock_seconds)
        return Engines(None, another(), owned=True, another_async=another)
    # Without them async calls take a thread of the store's own, with the sync driver.
    if importlib.util.find_spec("greenlet") and importlib.util.find_spec(driver.twin):
        twin_url = url.set(drivername=f"{url.get_backend_name()}+{driver.twin}")
        another = partial(_async_engine, twin_url, options, lock_seconds)
    asynchronous = None if another is None else another()
    return Engines(_told(create_engine(url, **options), lock_seconds), asynchronous, owned=True, another_async=another)


def _async_engine(url: URL, options: dict[str, Any], lock_seconds: float | None) -> TYPE_ASYNC_ENGINE:
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url, **options)
    _told(engine.sync_engine, lock_seconds)
    return engine


def _told(engine: Engine, lock_seconds: float | None) -> Engine:
    if engine.dialect.name == "postgresql":
        tell_postgresql(engine, lock_seconds)
    return engine


def positional(engines: Engines) -> Dialect:
    """The dialect of engines, compiling to positional values, which every driver takes."""
    dialect = engines.dialect
    special = special_of(dialect)
    if dialect.positional or special is None:
        return dialect
    # Named values would be looked up in a dictionary by the driver at each call; `Prepared.bind` has put them in order.
    copy: Dialect = type(dialect)(paramstyle=special.style(owned=engines.owned))  # type: ignore[call-arg]
    return copy
