"""Databases on a server that somebody else started."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import URL, NullPool, create_engine, inspect, make_url, text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import Connection

ASYNC_DRIVERS = {"postgresql": "psycopg", "mysql": "asyncmy"}


@contextmanager
def connection(url: str) -> Iterator[Connection]:
    """A connection of its own, outside any transaction."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        yield conn


def create_database(url: str, label: str = "test") -> str:
    """Create an empty database beside the one that `url` names, and return its URL."""
    name = f"{label}_{secrets.token_hex(6)}"
    with connection(url) as conn:
        conn.execute(text(f"CREATE DATABASE {_quoted(conn, name)}"))
    return _text(make_url(url).set(database=name))


def drop_database(url: str) -> None:
    """Remove the database that `url` names, also while connections to it are open."""
    parsed = make_url(url)
    name = parsed.database or ""
    if parsed.get_backend_name() == "postgresql":
        with connection(_text(parsed.set(database="postgres"))) as conn:
            conn.execute(text(f"DROP DATABASE IF EXISTS {_quoted(conn, name)} WITH (FORCE)"))
        return
    with connection(_text(parsed.set(database="information_schema"))) as conn:
        others = text("SELECT id FROM information_schema.processlist WHERE db = :name")
        for thread in conn.scalars(others, {"name": name}).all():
            conn.execute(text(f"KILL {thread:d}"))
        conn.execute(text(f"DROP DATABASE IF EXISTS {_quoted(conn, name)}"))


def others(url: str) -> set[int]:
    """The connections of this database but the one that asks: a server goes on with what a killed client sent it."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        found = "SELECT pid FROM pg_stat_activity WHERE datname = :name AND pid <> pg_backend_pid()"
    elif parsed.get_backend_name() == "mysql":
        found = "SELECT id FROM information_schema.processlist WHERE db = :name AND id <> CONNECTION_ID()"
    else:
        return set()
    with connection(url) as conn:
        return set(conn.scalars(text(found), {"name": parsed.database}))


def tables(conn: Connection, prefix: str = "") -> list[str]:
    """The names of the tables that start with `prefix`."""
    return [name for name in inspect(conn).get_table_names() if name.startswith(prefix)]


def drop_tables(url: str, prefix: str = "") -> None:
    """Drop the tables that start with `prefix`."""
    with connection(url) as conn:
        for name in _in_any_order(conn, tables(conn, prefix)):
            conn.execute(text(f"DROP TABLE {name}{_cascade(conn)}"))


def empty_tables(url: str, prefix: str = "", keep: Collection[str] = ()) -> None:
    """Delete every row of the tables that start with `prefix`, except those named in `keep`."""
    with connection(url) as conn:
        names = [name for name in tables(conn, prefix) if name not in keep]
        if conn.dialect.name == "postgresql" and names:
            listed = ", ".join(_quoted(conn, name) for name in names)
            conn.execute(text(f"TRUNCATE {listed} CASCADE"))
            return
        for name in _in_any_order(conn, names):  # TRUNCATE rebuilds the file on MariaDB: slow
            conn.execute(text(f"DELETE FROM {name}"))


def server_version(url: str) -> str:
    """The version number that the server behind `url` reports."""
    statement = "SHOW server_version" if _backend(url) == "postgresql" else "SELECT VERSION()"
    with connection(url) as conn:
        version: str = conn.execute(text(statement)).scalar_one()
    return version.split(maxsplit=1)[0].split("-", maxsplit=1)[0]


def with_driver(url: str, driver: str) -> str:
    """The same database through another driver, say ``asyncpg``."""
    return _text(make_url(url).set(drivername=f"{_backend(url)}+{driver}"))


def async_url(url: str) -> str:
    """The same database through the async driver that the extras install."""
    return with_driver(url, ASYNC_DRIVERS[_backend(url)])


def normal_url(url: str) -> str:
    """A server URL as given by a person, with the sync driver that the extras install."""
    drivers = {"postgresql": "psycopg", "mysql": "pymysql", "mariadb": "pymysql"}
    parsed = make_url(url.replace("postgres://", "postgresql://", 1))
    backend = parsed.get_backend_name()
    if backend not in drivers:
        raise ValueError(f"A {backend} URL was given where PostgreSQL or MariaDB was expected.")
    family = "mysql" if backend == "mariadb" else backend
    return _text(parsed.set(drivername=f"{family}+{drivers[backend]}"))


def _backend(url: str) -> str:
    return make_url(url).get_backend_name()


def _text(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def _quoted(conn: Connection, name: str) -> str:
    return conn.dialect.identifier_preparer.quote_identifier(name)


def _in_any_order(conn: Connection, names: list[str]) -> list[str]:
    """The quoted names, once foreign keys no longer ask for an order."""
    if conn.dialect.name == "mysql":
        conn.execute(text("SET foreign_key_checks = 0"))
    return [_quoted(conn, name) for name in names]


def _cascade(conn: Connection) -> str:
    return " CASCADE" if conn.dialect.name == "postgresql" else ""
