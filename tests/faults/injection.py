"""Faults at the driver: every statement and every commit is a boundary at which a connection can fail.

The driver's connection is wrapped as it enters the pool, so that the library and SQLAlchemy run as they always do.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import NullPool, create_engine, event, make_url, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

FAULTS = ("error before", "error after", "cut before", "cut after")


class Injector:
    """Counts boundaries while it is armed, and fails at one of them.

    Args:
        engines: Their new connections are wrapped.
    """

    def __init__(self, *engines: Engine) -> None:
        self.count = 0
        self.fired = False
        self._at: int | None = None
        self._fault = ""
        self._armed = False
        self._url = engines[0].url
        self._error: Any = None
        for engine in engines:
            event.listen(engine, "connect", self._wrap)
        self._dialects = {engine.dialect for engine in engines}
        self._admin = None if self._url.get_backend_name() == "sqlite" else _admin_engine(self._url)

    def _wrap(self, connection: Any, record: Any) -> None:
        record.dbapi_connection = FaultyConnection(connection, self)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the boundaries of what runs within."""
        self.count, self._armed, self._at = 0, True, None
        yield
        self._armed = False

    @contextmanager
    def failing(self, at: int, fault: str) -> Iterator[None]:
        """Fail once, at boundary number `at` of what runs within."""
        self.count, self.fired, self._armed, self._at, self._fault = 0, False, True, at, fault
        yield
        self._armed = False

    def close(self) -> None:
        """Close the connection that cuts others."""
        if self._admin is not None:
            self._admin.dispose()

    def pass_through(
        self, connection: FaultyConnection, act: Any, args: tuple[Any, ...], *, is_sent: bool = False
    ) -> Any:
        """One boundary: `act` happens, or fails. What the driver has sent already happens in any case."""
        fate = self._fate()
        if fate == "cut before":
            self.cut(connection)
        result = None if fate == "error before" and not is_sent else act(*args)
        self._afterwards(fate, connection)
        return result

    async def apass_through(
        self, connection: FaultyConnection, act: Any, args: tuple[Any, ...], *, is_sent: bool = False
    ) -> Any:
        """`pass_through` for an asynchronous driver."""
        fate = self._fate()
        if fate == "cut before":
            self.cut(connection)
        result = None if fate == "error before" and not is_sent else await act(*args)
        self._afterwards(fate, connection)
        return result

    def _fate(self) -> str:
        """What happens at this boundary; usually nothing."""
        if not self._armed:
            return ""
        here, self.count = self.count, self.count + 1
        if here != self._at:
            return ""
        self.fired, self._at = True, None
        return self._fault

    def _afterwards(self, fate: str, connection: FaultyConnection) -> None:
        if fate == "cut after":
            self.cut(connection)
        elif fate.startswith("error"):
            raise connection.operational_error()

    def cut(self, connection: FaultyConnection) -> None:
        """Take the connection away, as a server or a network does."""
        driver = connection.driver
        if self._admin is None:
            # SQLite keeps a closed connection, lock and all, until its last statement is closed as well.
            for cursor in connection.cursors:
                cursor.close()
            driver.close()
            return
        name = self._url.get_backend_name()
        inner = getattr(driver, "driver_connection", driver)
        with self._admin.connect() as admin:
            if name == "postgresql":
                admin.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": inner.info.backend_pid})
                return
            thread = int(inner.thread_id())
            admin.execute(text(f"KILL {thread:d}"))
            running = text("SELECT count(*) FROM information_schema.processlist WHERE id = :id")
            while admin.execute(running, {"id": thread}).scalar_one():
                pass


class FaultyConnection:
    """A driver connection whose statements and commits are boundaries."""

    def __init__(self, driver: Any, injector: Injector) -> None:
        object.__setattr__(self, "driver", driver)
        object.__setattr__(self, "_injector", injector)
        object.__setattr__(self, "cursors", [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.driver, name, value)

    def cursor(self, *args: Any, **kwargs: Any) -> FaultyCursor:
        """A cursor whose statements are boundaries."""
        made = self.driver.cursor(*args, **kwargs)
        self.cursors.append(made)
        return FaultyCursor(made, self, self._injector)

    def run_async(self, act: Any) -> Any:
        """The statements that `act` runs on the asynchronous driver are boundaries."""
        return self.driver.run_async(lambda driver: act(FaultyAsyncConnection(driver, self, self._injector)))

    def wait(self, running: Any) -> Any:
        """A boundary: psycopg's driver waits for a statement that was given to libpq."""
        return self._injector.pass_through(self, self.driver.wait, (running,), is_sent=True)

    def commit(self) -> Any:
        """A boundary of its own."""
        return self._injector.pass_through(self, self.driver.commit, ())

    def operational_error(self) -> Exception:
        """What the driver raises when something fails that is nobody's fault."""
        module = type(self.driver).__module__
        if module.startswith("sqlite3") or module == "builtins":
            import sqlite3  # noqa: PLC0415

            return sqlite3.OperationalError("injected")
        if "psycopg" in module:
            import psycopg  # noqa: PLC0415

            return psycopg.OperationalError("injected")
        if "asyncmy" in module:
            from asyncmy import errors  # noqa: PLC0415

            failure: Exception = errors.OperationalError(9999, "injected")
            return failure
        import pymysql  # noqa: PLC0415

        return pymysql.OperationalError(9999, "injected")


class FaultyCursor:
    """A driver cursor whose statements are boundaries."""

    def __init__(self, cursor: Any, connection: FaultyConnection, injector: Injector) -> None:
        self._cursor = cursor
        self._connection = connection
        self._injector = injector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, *args: Any) -> Any:
        """A boundary."""
        return self._injector.pass_through(self._connection, self._cursor.execute, args)

    def executemany(self, *args: Any) -> Any:
        """A boundary."""
        return self._injector.pass_through(self._connection, self._cursor.executemany, args)


class FaultyAsyncConnection:
    """An asynchronous driver connection, as the library sees it when it sends several statements at once."""

    def __init__(self, driver: Any, connection: FaultyConnection, injector: Injector) -> None:
        self._driver = driver
        self._connection = connection
        self._injector = injector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def wait(self, running: Any) -> Any:
        """A boundary, as above."""
        return await self._injector.apass_through(self._connection, self._driver.wait, (running,), is_sent=True)

    def cursor(self) -> FaultyAsyncCursor:
        """A cursor whose statements are boundaries."""
        return FaultyAsyncCursor(self._driver.cursor(), self._connection, self._injector)


class FaultyAsyncCursor:
    """A cursor of an asynchronous driver whose statements are boundaries."""

    def __init__(self, cursor: Any, connection: FaultyConnection, injector: Injector) -> None:
        self._cursor = cursor
        self._connection = connection
        self._injector = injector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    async def execute(self, *args: Any) -> Any:
        """A boundary."""
        return await self._injector.apass_through(self._connection, self._cursor.execute, args)


def _admin_engine(url: Any) -> Engine:
    family = make_url(url).get_backend_name()
    driver = {"postgresql": "psycopg", "mysql": "pymysql"}[family]
    return create_engine(
        make_url(url).set(drivername=f"{family}+{driver}"), poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
