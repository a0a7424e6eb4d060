"""What a source is: found by what lies in it, never created."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import create_engine, exc, inspect
from sqlalchemy.engine import URL, make_url

from langchain_sessions._core.edge import require
from langchain_sessions._importing.files import FileHistories
from langchain_sessions._importing.histories import AdkSessions, agents_sessions, langchain_history, message_tables
from langchain_sessions._importing.reasons import why_unreachable
from langchain_sessions._importing.savers import MemoryThreads, PostgresThreads, SqliteThreads, is_locked
from langchain_sessions._importing.several import Found, SeveralHistories
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from langchain_sessions._importing.values import HistorySource, ThreadSource

_DRIVERS = {
    "mariadb": "mysql+pymysql",
    "mysql": "mysql+pymysql",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "sqlite": "sqlite",
}
_PORTS = {"mariadb": 3306, "mysql": 3306}
_PORT = 5432
_SQLITE_HEAD = b"SQLite format 3\0"
_ARCHIVE_HEAD = b"PK\x03\x04"
# Which tables tell whose database it is.
_SAVERS: tuple[tuple[frozenset[str], Callable[[Connection, Mapping[str, set[str]]], ThreadSource]], ...] = (
    (frozenset({"checkpoints", "checkpoint_blobs", "checkpoint_writes"}), PostgresThreads),
    (frozenset({"checkpoints", "writes"}), SqliteThreads),
)
_HISTORIES: tuple[tuple[str, frozenset[str], Callable[[Connection, Mapping[str, set[str]]], HistorySource]], ...] = (
    ("agent_messages", frozenset({"agent_sessions", "agent_messages"}), agents_sessions),
    ("events", frozenset({"sessions", "events", "app_states", "user_states"}), AdkSessions),
)

_KEY = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id"})
_NEEDED = {
    "checkpoints": {*_KEY, "parent_checkpoint_id", "checkpoint", "metadata"},
    "checkpoint_blobs": {"thread_id", "checkpoint_ns", "channel", "version", "type", "blob"},
    "checkpoint_writes": {*_KEY, "task_id", "idx", "channel", "type", "blob"},
    "writes": {*_KEY, "task_id", "idx", "channel", "type", "value"},
}
"""What is read of tables whose layout changed between releases of their libraries."""
_OUR_VERSIONS = {"version", "applied_at"}


def open_source(source: Any) -> Found:
    """Open a source for reading.

    Args:
        source: A path, a URL of a database, or an `InMemorySaver`.

    Raises:
        InvalidInputError: There is no such file, it cannot be read, or it is nothing that is known here.
    """
    if isinstance(source, InMemorySaver):
        return Found(threads=MemoryThreads(source))
    if isinstance(source, Path):
        return _file(source)
    if isinstance(source, URL):
        return _database(source)
    if type(source) is not str or not source:
        raise InvalidInputError("source", "give a path, the URL of a database, or an InMemorySaver")
    return _named(source)


def _named(source: str) -> Found:
    """What a path or a URL names."""
    if source.startswith("file:"):
        return _file(Path(url2pathname(urlsplit(source).path)))
    if "://" not in source:
        return _file(Path(source))
    try:
        url = make_url(source)
    except (exc.ArgumentError, ValueError):  # the latter for several hosts with ports
        raise InvalidInputError("source", "this is no URL of a database") from None
    if url.get_backend_name() == "sqlite":
        return _file(Path(url.database or ""))
    return _database(url)


def _file(path: Path) -> Found:
    require(not path.is_dir(), "source", f"{path} is a folder; name a file in it")
    if not path.is_file():
        raise InvalidInputError("source", f"no such file: {path}")
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_HEAD))
    except OSError:
        raise InvalidInputError("source", f"the file cannot be read: {path}") from None
    archive = "an archive is not read: unpack it, and name the file in it, such as conversations.json"
    require(not head.startswith(_ARCHIVE_HEAD), "source", archive)
    if head == _SQLITE_HEAD:
        # Read-only and as a URI: a path that is wrong stays no database, and the source is never changed.
        return _database(URL.create("sqlite", database=f"file:{path.absolute()}", query={"mode": "ro", "uri": "true"}))
    return Found(histories=FileHistories(path))


def _database(url: URL) -> Found:
    backend = url.get_backend_name()
    if backend not in _DRIVERS:
        raise InvalidInputError("source", f"databases of {backend} are not read")
    try:
        # Each statement for itself: a long import holds no transaction open in a database that others use.
        engine = create_engine(url.set(drivername=_DRIVERS[backend]), hide_parameters=True)
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    except ImportError:
        extra = _DRIVERS[backend].partition("+")[0].replace("postgresql", "postgres")
        told = f"the driver of {backend} is not installed: pip install 'langchain-sessions[{extra}]'"
        raise InvalidInputError("source", told) from None
    except exc.SQLAlchemyError as error:
        place = f"the database at {url.host}:{url.port or _PORTS.get(backend, _PORT)}" if url.host else "the database"
        why = ": ".join(filter(None, [f"{place} cannot be opened", why_unreachable(error)]))
        raise InvalidInputError("source", why) from None
    try:
        looking = inspect(connection)
        columns = {
            name: {str(each["name"]) for each in looking.get_columns(name)} for name in looking.get_table_names()
        }
        return _of_tables(connection, columns)
    except exc.SQLAlchemyError as error:
        connection.close()
        engine.dispose()
        locked = "the database is in use: another process has locked it; try again"
        raise InvalidInputError("source", locked if is_locked(error) else "the database cannot be read") from None
    except InvalidInputError:
        connection.close()
        engine.dispose()
        raise


def _of_tables(connection: Connection, columns: Mapping[str, set[str]]) -> Found:
    """What these tables are: applications keep the threads of a saver and histories in one database, and several."""
    for tables, saver in _SAVERS:
        if tables <= columns.keys():
            for name in sorted(tables & _NEEDED.keys()):
                missing = ", ".join(sorted(_NEEDED[name] - columns[name]))
                unknown = f"the table {name} is of a release that is not known here: it has no column {missing}"
                require(not missing, "source", unknown)
            threads: ThreadSource | None = saver(connection, columns)
            break
    else:
        threads = None
    found = {name: kind(connection, columns) for name, tables, kind in _HISTORIES if tables <= columns.keys()}
    found.update((name, langchain_history(connection, name, columns[name])) for name in message_tables(columns))
    if threads is None and len(found) == 1:
        return Found(histories=next(iter(found.values())))
    if found or threads is not None:
        return Found(threads, SeveralHistories(found, threads) if found else None)
    is_ours = any(each == _OUR_VERSIONS for name, each in columns.items() if name.endswith("schema_versions"))
    ours = "this is a database of langchain-sessions itself: `export` writes a file that `import` reads"
    require(not is_ours, "source", ours)
    raise InvalidInputError("source", "the database holds no conversations of a library that is known here")
