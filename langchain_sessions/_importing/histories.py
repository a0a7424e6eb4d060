"""Conversations in the databases of other libraries, as these lay them out."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from sqlalchemy import cast, column, exc, select, table
from sqlalchemy.dialects import mysql

from langchain_sessions._importing.messages import adk_message, agents_message, langchain_message, read_with
from langchain_sessions._importing.savers import count_rows, database_size, is_locked, unread
from langchain_sessions._importing.values import History, SourceError
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from sqlalchemy import ColumnElement, Connection, Executable

_BATCH = 500
_MYSQL = ("mysql", "mariadb")
_TRUNK = "main"
_OLD_COLUMNS = ("actions", "error_code", "error_message", "partial")
_STRANGE = (SourceError, ValueError, TypeError, KeyError, AttributeError, LookupError, RecursionError)


class _Database:
    """A connection that only reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def size(self) -> int | None:
        """See `HistorySource`."""
        return database_size(self._connection)

    def close(self) -> None:
        """See `HistorySource`."""
        engine = self._connection.engine
        self._connection.close()
        engine.dispose()

    def _rows(self, statement: Executable) -> Sequence[Any]:
        try:
            return self._connection.execute(statement).all()
        except (exc.SQLAlchemyError, UnicodeDecodeError) as error:
            raise unread(error) from error


class MessageTable(_Database):
    """One row for each message: `SQLChatMessageHistory`, langchain-postgres, the agents library's sessions."""

    def __init__(
        self, connection: Connection, name: str, body: str, at: str | None, convert: Callable[[Any], BaseMessage]
    ) -> None:
        """Read a table whose messages lie in the column `body`; `at` holds when they came."""
        super().__init__(connection)
        columns: list[Any] = [column("id"), column("session_id"), column(body), *([column(at)] if at else [])]
        self._table = table(name, *columns)
        self._session: ColumnElement[Any] = self._table.c.session_id
        if connection.dialect.name in _MYSQL:
            # Whose collation takes `ada` and `Ada` for one.
            self._session = cast(self._session, mysql.CHAR(charset="utf8mb4")).collate("utf8mb4_bin")
        self._body, self._at, self._convert = body, at, convert

    def histories(self) -> Iterator[History]:
        """See `HistorySource`."""
        for (found,) in self._rows(select(self._session).distinct().order_by(self._session)):
            yield History(str(found), None, {}, self._events(found))

    def count(self) -> int | None:
        """See `HistorySource`."""
        return count_rows(self._connection, self._table)

    def _events(self, session: Any, *some: ColumnElement[bool]) -> Iterator[NewEvent | SourceError]:
        after = -1
        while True:
            found = self._next(session, after, some)
            for row_id, body, *at in found:
                when = _moment(at[0]) if at else None
                after = row_id
                try:
                    message = read_with(self._convert, body)
                except SourceError as problem:
                    yield SourceError(f"row {row_id}: {problem}")
                else:
                    yield NewEvent(message=message, id=f"{row_id}", timestamp=when)
            if len(found) < _BATCH:
                return

    def _next(self, session: Any, after: int, some: Sequence[ColumnElement[bool]]) -> Sequence[Any]:
        """The rows behind one. Where the database does not give them at once, each that it gives for itself."""
        keys = self._table.c
        columns: list[Any] = [keys.id, keys[self._body], *([keys[self._at]] if self._at else [])]
        # The name as it is beside it: that is what an index knows.
        where = (keys.session_id == session, self._session == session, keys.id > after, *some)
        try:
            return self._rows(select(*columns).where(*where).order_by(keys.id).limit(_BATCH))
        except SourceError as problem:
            if is_locked(problem.__cause__ or problem):
                raise
        names = self._rows(select(keys.id).where(*where).order_by(keys.id).limit(_BATCH))
        found: list[Any] = []
        for (name,) in names:
            try:
                found += self._rows(select(*columns).where(keys.session_id == session, keys.id == name))
            except SourceError:
                found.append((name, None))
        return found


class BranchedMessages(MessageTable):
    """What the agents library's `AdvancedSQLiteSession` stored: branches of a session share rows, each is one here."""

    _placed = table("message_structure", *map(column, ("session_id", "message_id", "branch_id")))

    def count(self) -> int | None:
        """See `HistorySource`: what several branches share is in each of them."""
        keys, mine = self._placed.c, self._table.c
        is_it = (keys.session_id == mine.session_id) & (keys.message_id == mine.id)
        placed = select(mine.id, keys.branch_id).join_from(self._table, self._placed, is_it, isouter=True).distinct()
        return count_rows(self._connection, placed.subquery())

    def histories(self) -> Iterator[History]:
        """See `HistorySource`."""
        keys = self._placed.c
        taken = {name for (name,) in self._rows(select(self._table.c.session_id).distinct())}
        for each in super().histories():
            mine = keys.session_id == each.id
            others = select(keys.branch_id).where(mine, keys.branch_id != _TRUNK).distinct().order_by(keys.branch_id)
            rows = select(keys.message_id).where(mine)
            # What is in no branch was stored by a plain session of the same file.
            elsewhere = self._table.c.id.not_in(rows) | self._table.c.id.in_(rows.where(keys.branch_id == _TRUNK))
            yield replace(each, events=self._events(each.id, elsewhere))
            for (branch,) in self._rows(others):
                here = self._table.c.id.in_(rows.where(keys.branch_id == branch))
                name = f"{each.id}/{branch}"
                while name in taken:  # another session is called so
                    name += "'"
                taken.add(name)
                yield replace(each, id=name, events=self._events(each.id, here))


class AdkSessions(_Database):
    """What Google ADK's `DatabaseSessionService` stored. Its pickled actions of old schemas are never loaded."""

    def __init__(self, connection: Connection, columns: Mapping[str, set[str]]) -> None:
        """Read a database of either schema."""
        super().__init__(connection)
        self._is_new = "event_data" in columns["events"]
        names = ("id", "app_name", "user_id", "session_id", "invocation_id", "timestamp")
        older = [name for name in _OLD_COLUMNS if name in columns["events"]]
        more = ["event_data"] if self._is_new else ["content", "author", "branch", *older]
        self._events_table = table("events", *(column(name) for name in (*names, *more)))
        self._sessions = table("sessions", *(column(name) for name in ("app_name", "user_id", "id", "state")))
        self._shared = {
            "app:": table("app_states", *(column(name) for name in ("app_name", "state"))),
            "user:": table("user_states", *(column(name) for name in ("app_name", "user_id", "state"))),
        }

    def histories(self) -> Iterator[History]:
        """See `HistorySource`."""
        keys = self._sessions.c
        rows = self._rows(select(keys.app_name, keys.user_id, keys.id).order_by(keys.app_name, keys.user_id, keys.id))
        seen = set[str]()
        for app, user, session in rows:
            events = _taken() if session in seen else self._events(app, user, session)
            seen.add(session)
            yield History(str(session), str(user), {"app_name": app, "user_id": user}, events)

    def count(self) -> int | None:
        """See `HistorySource`."""
        return count_rows(self._connection, self._events_table)

    def _events(self, app: str, user: str, session: str) -> Iterator[NewEvent | SourceError]:
        told: dict[str, Any] = {}
        last: NewEvent | None = None
        has_pickled = False
        for row in self._event_rows(app, user, session):
            if isinstance(row, SourceError):
                yield row
                continue
            has_pickled = has_pickled or _is_pickled(row.get("actions"))
            try:
                found = list(self._event(row))
            except _STRANGE:
                yield SourceError(f"event {row['id']}: it is no event of this form")
                continue
            for last in found:
                told.update(last.state_delta or {})
                yield last
        if has_pickled:
            yield SourceError("its actions are pickled, which is never loaded; its state came over as it is at the end")
        # A state that a session was created with is in no event of it.
        rest = {key: value for key, value in self._state(app, user, session).items() if told.get(key) != value}
        if rest:
            at, name = (None, "") if last is None else (last.timestamp, last.id)
            yield NewEvent(state_delta=rest, id=f"state/{name}", timestamp=at)

    def _event_rows(self, app: str, user: str, session: str) -> Iterator[Mapping[str, Any] | SourceError]:
        """The rows of a session in order, some at a time; what is wrong with one that cannot be read."""
        keys = self._events_table.c
        where = (keys.app_name == app, keys.user_id == user, keys.session_id == session)
        names = [name for (name,) in self._rows(select(keys.id).where(*where).order_by(keys.timestamp, keys.id))]
        for at in range(0, len(names), _BATCH):
            some = names[at : at + _BATCH]
            found = {row.id: row._mapping for row in self._event_batch(where, some)}  # noqa: SLF001 - its public name
            yield from (
                found[name] if name in found else SourceError(f"event {name}: it cannot be read") for name in some
            )

    def _event_batch(self, where: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
        keys = self._events_table.c
        try:
            return self._rows(select(self._events_table).where(*where, keys.id.in_(names)))
        except SourceError as problem:
            if is_locked(problem.__cause__ or problem) or len(names) == 1:
                raise
        found: list[Any] = []
        for name in names:
            with suppress(SourceError):
                found += self._event_batch(where, [name])
        return found

    def _state(self, app: str, user: str, session: str) -> dict[str, Any]:
        """The state as it is: the session's, its user's and its application's."""
        keys = self._sessions.c
        own = select(keys.state).where(keys.app_name == app, keys.user_id == user, keys.id == session)
        found = {key: value for (state,) in self._rows(own) for key, value in _json(state).items()}
        for prefix, shared in self._shared.items():
            mine = select(shared.c.state).where(shared.c.app_name == app)
            mine = mine.where(shared.c.user_id == user) if "user_id" in shared.c else mine
            for (state,) in self._rows(mine):
                found.update((f"{prefix}{key}", value) for key, value in _json(state).items())
        return found

    def _event(self, row: Mapping[str, Any]) -> Iterator[NewEvent]:
        data = _json(row["event_data"]) if self._is_new else {**row, "content": _json(row["content"])}
        if data.get("partial"):
            return
        actions = data.get("actions")
        delta = None if _is_pickled(actions) else _json(actions or {}).get("state_delta")
        said: list[Any] = [*adk_message(data.get("content") or {}, data.get("author"))]
        for at, message in enumerate(said or ([None] if delta or data.get("error_code") else [])):
            yield NewEvent(
                message=message,
                id=str(row["id"]) if at == 0 else f"{row['id']}/{at}",
                author=data.get("author"),
                branch=data.get("branch") or None,
                invocation_id=row["invocation_id"] or None,
                error_code=data.get("error_code") or None,
                error_message=data.get("error_message") or None,
                state_delta=delta if at == 0 else None,
                timestamp=_moment(row["timestamp"]),
            )


def _taken() -> Iterator[SourceError]:
    """Of a session whose id another one has: an id is one session's here."""
    yield SourceError("another user or application has a session of this id")


def _is_pickled(actions: Any) -> bool:
    """Whether the actions of an old schema are not JSON."""
    if actions is None or isinstance(actions, dict):
        return False
    return not bytes(actions if not isinstance(actions, str) else actions.encode()).lstrip().startswith(b"{")


def message_tables(columns: Mapping[str, set[str]]) -> Sequence[str]:
    """The tables that LangChain's histories over SQL made; their names are the application's choice."""
    wanted = {"id", "session_id", "message"}
    return sorted(name for name, found in columns.items() if found in (wanted, wanted | {"created_at"}))


def langchain_history(connection: Connection, name: str, columns: Container[str]) -> MessageTable:
    """`SQLChatMessageHistory` or langchain-postgres, whose table has the time of each message."""
    at = "created_at" if "created_at" in columns else None
    return MessageTable(connection, name, "message", at, langchain_message)


def agents_sessions(connection: Connection, columns: Mapping[str, set[str]]) -> MessageTable:
    """`SQLiteSession`, `AdvancedSQLiteSession` and `SQLAlchemySession` of the agents library."""
    kind = BranchedMessages if "branch_id" in columns.get("message_structure", ()) else MessageTable
    return kind(connection, "agent_messages", "message_data", "created_at", agents_message)


def _json(value: Any) -> dict[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, (str, bytes)) else value
    except ValueError:
        raise SourceError("an event is not JSON") from None
    return found if isinstance(found, dict) else {}


def _moment(at: Any) -> datetime | None:
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            return None
    if not isinstance(at, datetime):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
