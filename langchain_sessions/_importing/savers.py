"""The threads of LangGraph's own savers, as they lie in SQLite, PostgreSQL and memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import writes_sort_key
from sqlalchemy import String, column, exc, func, select, table
from sqlalchemy.dialects import postgresql

from langchain_sessions._importing.values import CheckpointName, SourceError, StoredCheckpoint, StoredWrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langgraph.checkpoint.memory import InMemorySaver
    from sqlalchemy import Connection, Executable, FromClause, TableClause

_TASKS = "__pregel_tasks"
_SENDS_APART = 4
"""From this version on a checkpoint holds what was sent to nodes; before, it lay with the parent's writes."""
_NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id")


def _named(name: str, *columns: str) -> TableClause:
    return table(name, *(column(each) for each in (*_NAMES, *columns)))


_CHECKPOINTS = _named("checkpoints", "parent_checkpoint_id", "type", "checkpoint", "metadata")
_JSON_CHECKPOINTS = table(
    "checkpoints",
    *(column(each) for each in (*_NAMES, "parent_checkpoint_id")),
    column("checkpoint", postgresql.JSONB),
    column("metadata", postgresql.JSONB),
)
_LITE_WRITES = _named("writes", "task_id", "task_path", "idx", "channel", "type", "value")
_POSTGRES_WRITES = _named("checkpoint_writes", "task_id", "task_path", "idx", "channel", "type", "blob")
_BLOBS = table("checkpoint_blobs", *(column(each) for each in (*_NAMES[:2], "channel", "version", "type", "blob")))


_MYSQL_TABLES = table(
    "tables", column("table_schema"), column("data_length"), column("index_length"), schema="information_schema"
)


def database_size(connection: Connection) -> int | None:
    """How many bytes a database takes; None where it does not tell."""
    flavour = connection.dialect.name
    pages, size = "PRAGMA page_count", "PRAGMA page_size"
    try:
        if flavour == "sqlite":
            return int(connection.exec_driver_sql(pages).scalar_one() * connection.exec_driver_sql(size).scalar_one())
        if flavour == "postgresql":
            return int(connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one())
        of_tables = func.sum(_MYSQL_TABLES.c.data_length + _MYSQL_TABLES.c.index_length)
        mine = _MYSQL_TABLES.c.table_schema == func.database()
        return int(connection.execute(select(func.coalesce(of_tables, 0)).where(mine)).scalar_one())
    except exc.SQLAlchemyError:
        return None


def count_rows(connection: Connection, where: FromClause) -> int | None:
    """How many rows a table has; None where that cannot be read."""
    try:
        return int(connection.execute(select(func.count()).select_from(where)).scalar_one())
    except exc.SQLAlchemyError:
        return None


def unread(error: Exception) -> SourceError:
    """Why a database does not give what it holds."""
    if is_locked(error):
        return SourceError("the database is in use: another process has locked it")
    return SourceError("the database cannot read it")


def is_locked(error: BaseException) -> bool:
    """Whether another process has a SQLite database for itself."""
    return "is locked" in str(error)


class _SqlThreads:
    """What the savers over a database have in common. One connection, which only reads."""

    _writes: TableClause
    _paths: bool

    def __init__(self, connection: Connection, columns: Mapping[str, set[str]]) -> None:
        """Read over a connection, whose tables have these columns."""
        self._connection = connection
        self._paths = "task_path" in columns[self._writes.name]

    def threads(self) -> Iterator[str]:
        """See `ThreadSource`."""
        after: str | None = None
        ids = _CHECKPOINTS.c.thread_id
        while True:
            # One step of the key at a time: a list of all distinct ids would read the whole index first.
            statement = select(func.min(ids))
            found = self._rows(statement if after is None else statement.where(ids > after))
            if not found or found[0][0] is None:
                return
            after = str(found[0][0])
            yield after

    def checkpoints(self, thread_id: str) -> Sequence[CheckpointName]:
        """See `ThreadSource`."""
        keys = _CHECKPOINTS.c
        statement = select(keys.checkpoint_ns, keys.checkpoint_id).where(keys.thread_id == thread_id)
        found = self._rows(statement.order_by(keys.checkpoint_ns, keys.checkpoint_id))
        # The order of the ids is that of time, across namespaces; the database's collation may be another.
        return sorted((CheckpointName(ns, cid) for ns, cid in found), key=lambda named: (named.id, named.namespace))

    def count(self) -> int:
        """See `ThreadSource`."""
        return count_rows(self._connection, _CHECKPOINTS) or 0

    def size(self) -> int | None:
        """See `ThreadSource`."""
        return database_size(self._connection)

    def close(self) -> None:
        """See `ThreadSource`."""
        engine = self._connection.engine
        self._connection.close()
        engine.dispose()

    def _stored_writes(self, thread_id: str, ns: str, cid: str) -> list[StoredWrite]:
        keys = self._writes.c
        body = keys.value if "value" in keys else keys.blob
        path = [keys.task_path] if self._paths else []
        columns = (keys.task_id, keys.idx, keys.channel, keys.type, body, *path)
        found = self._rows(_at(select(*columns), self._writes, thread_id, ns, cid))
        writes = [
            StoredWrite(task, at[0] if at else "", idx, channel, tag or "null", bytes(data or b""))
            for task, idx, channel, tag, data, *at in found
        ]
        return sorted(writes, key=lambda write: writes_sort_key(write.task_path, write.task_id, write.idx))

    def _one(self, statement: Executable) -> Sequence[Any]:
        found = self._rows(statement)
        if not found:
            raise SourceError("it is gone")
        return found[0]

    def _rows(self, statement: Executable) -> Sequence[Sequence[Any]]:
        try:
            return self._connection.execute(statement).all()
        except (exc.SQLAlchemyError, UnicodeDecodeError) as error:
            if not isinstance(error, exc.DBAPIError) or not error.connection_invalidated:
                self._connection.rollback()
            raise unread(error) from error


class SqliteThreads(_SqlThreads):
    """What `SqliteSaver` and `AsyncSqliteSaver` stored: each checkpoint whole, in one row."""

    _writes = _LITE_WRITES

    def checkpoint(self, thread_id: str, named: CheckpointName) -> StoredCheckpoint:
        """See `ThreadSource`."""
        ns, cid = named.namespace, named.id
        keys = _CHECKPOINTS.c
        columns = (keys.parent_checkpoint_id, keys.type, keys.checkpoint, keys.metadata)
        parent, tag, body, metadata = self._one(_at(select(*columns), _CHECKPOINTS, thread_id, ns, cid))
        if tag is None or body is None:
            raise SourceError("it holds no checkpoint")
        return StoredCheckpoint(
            ns, cid, parent or None, (tag, bytes(body)), _mapping(metadata), {}, self._stored_writes(thread_id, ns, cid)
        )


class PostgresThreads(_SqlThreads):
    """What `PostgresSaver` and `AsyncPostgresSaver` stored: values by channel and version, beside the checkpoints."""

    _writes = _POSTGRES_WRITES

    def checkpoint(self, thread_id: str, named: CheckpointName) -> StoredCheckpoint:
        """See `ThreadSource`."""
        ns, cid = named.namespace, named.id
        keys = _JSON_CHECKPOINTS.c
        columns = (keys.parent_checkpoint_id, keys.checkpoint, keys.metadata)
        parent, body, metadata = self._one(_at(select(*columns), _JSON_CHECKPOINTS, thread_id, ns, cid))
        values = self._values(thread_id, ns, body.get("channel_versions") or {})
        if body.get("v", _SENDS_APART) < _SENDS_APART and parent:
            body, values = self._with_sends(body, values, self._stored_writes(thread_id, ns, parent))
        writes = self._stored_writes(thread_id, ns, cid)
        return StoredCheckpoint(ns, cid, parent or None, body, metadata or {}, values, writes)

    def _values(self, thread_id: str, ns: str, versions: Mapping[str, Any]) -> dict[str, tuple[str, bytes]]:
        if not versions:
            return {}
        keys = _BLOBS.c
        statement = select(keys.channel, keys.version, keys.type, keys.blob).where(
            keys.thread_id == thread_id,
            keys.checkpoint_ns == ns,
            keys.channel.in_(list(versions)),
            keys.version.cast(String).in_([str(version) for version in versions.values()]),
        )
        wanted = {(channel, str(version)) for channel, version in versions.items()}
        return {
            channel: (tag, bytes(data or b""))
            for channel, version, tag, data in self._rows(statement)
            if (channel, version) in wanted and tag != "empty"
        }

    @staticmethod
    def _with_sends(
        body: Mapping[str, Any], values: Mapping[str, tuple[str, bytes]], writes: Iterable[StoredWrite]
    ) -> tuple[Mapping[str, Any], dict[str, tuple[str, bytes]]]:
        """A checkpoint of an old version as the saver gives it: with what its parent's tasks sent to nodes."""
        sends = [(write.tag, write.data) for write in writes if write.channel == _TASKS]
        if not sends:
            return body, dict(values)
        versions = dict(body["channel_versions"])
        versions[_TASKS] = max(versions.values()) if versions else f"{1:032}.{0:016}"
        return {**body, "channel_versions": versions, "sends": sends}, dict(values)


class MemoryThreads:
    """What an `InMemorySaver` holds."""

    def __init__(self, saver: InMemorySaver) -> None:
        """Read an object that this process has."""
        self._saver = saver

    def threads(self) -> Iterator[str]:
        """See `ThreadSource`."""
        yield from sorted(thread_id for thread_id, spaces in self._saver.storage.items() if any(spaces.values()))

    def checkpoints(self, thread_id: str) -> Sequence[CheckpointName]:
        """See `ThreadSource`."""
        spaces = self._saver.storage[thread_id]
        found = [CheckpointName(ns, cid) for ns, stored in spaces.items() for cid in stored]
        return sorted(found, key=lambda named: (named.id, named.namespace))

    def checkpoint(self, thread_id: str, named: CheckpointName) -> StoredCheckpoint:
        """See `ThreadSource`."""
        ns, cid = named.namespace, named.id
        body, metadata, parent = self._saver.storage[thread_id][ns][cid]
        versions = self._saver.serde.loads_typed(body)["channel_versions"]
        found = {channel: self._saver.blobs.get((thread_id, ns, channel, at)) for channel, at in versions.items()}
        values = {channel: blob for channel, blob in found.items() if blob is not None and blob[0] != "empty"}
        writes = [
            StoredWrite(task, path, idx, channel, *value)
            for (_, idx), (task, channel, value, path) in self._saver.writes.get((thread_id, ns, cid), {}).items()
        ]
        writes.sort(key=lambda write: writes_sort_key(write.task_path, write.task_id, write.idx))
        return StoredCheckpoint(ns, cid, parent, body, metadata, values, writes)

    def count(self) -> int:
        """See `ThreadSource`."""
        return sum(len(stored) for spaces in self._saver.storage.values() for stored in spaces.values())

    def size(self) -> int | None:
        """See `ThreadSource`."""
        values = sum(len(data) for _, data in self._saver.blobs.values())
        return values + sum(
            len(value[1]) for writes in self._saver.writes.values() for _, _, value, _ in writes.values()
        )

    def close(self) -> None:
        """See `ThreadSource`."""


def _at(statement: Any, where: TableClause, thread_id: str, ns: str, cid: str) -> Any:
    keys = where.c
    return statement.where(keys.thread_id == thread_id, keys.checkpoint_ns == ns, keys.checkpoint_id == cid)


def _mapping(data: bytes | str | None) -> Mapping[str, Any]:
    if data is None:
        return {}
    try:
        found = json.loads(data)
    except ValueError as error:
        raise SourceError("its metadata is not JSON") from error
    if type(found) is not dict:
        raise SourceError("its metadata is not JSON")
    return found
