"""Conversations in the databases of other libraries, as these lay them out."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from sqlalchemy import column, exc, select, table

from langchain_sessions._importing.messages import adk_message, agents_message, langchain_message, read_with
from langchain_sessions._importing.savers import count_rows, database_size, unread
from langchain_sessions._importing.values import History, SourceError
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from sqlalchemy import Connection, Executable

_BATCH = 500


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
        except exc.SQLAlchemyError as error:
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
        self._body, self._at, self._convert = body, at, convert

    def histories(self) -> Iterator[History]:
        """See `HistorySource`."""
        session = self._table.c.session_id
        for (found,) in self._rows(select(session).distinct().order_by(session)):
            yield History(str(found), None, {}, self._events(found))

    def count(self) -> int | None:
        """See `HistorySource`."""
        return count_rows(self._connection, self._table)

    def _events(self, session: Any) -> Iterator[NewEvent]:
        keys = self._table.c
        columns: list[Any] = [keys.id, keys[self._body], *([keys[self._at]] if self._at else [])]
        after = -1
        while True:
            wanted = select(*columns).where(keys.session_id == session, keys.id > after)
            found = self._rows(wanted.order_by(keys.id).limit(_BATCH))
            for row_id, body, *at in found:
                when = _moment(at[0]) if at else None
                yield NewEvent(message=read_with(self._convert, body), id=f"{row_id}", timestamp=when)
                after = row_id
            if len(found) < _BATCH:
                return


class AdkSessions(_Database):
    """What Google ADK's `DatabaseSessionService` stored. Its pickled actions of old schemas are not looked at."""

    def __init__(self, connection: Connection, columns: Mapping[str, set[str]]) -> None:
        """Read a database of either schema."""
        super().__init__(connection)
        self._is_new = "event_data" in columns["events"]
        names = ("id", "app_name", "user_id", "session_id", "invocation_id", "timestamp")
        more = ("event_data",) if self._is_new else ("content", "author", "branch")
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

    def _events(self, app: str, user: str, session: str) -> Iterator[NewEvent]:
        keys = self._events_table.c
        mine = select(self._events_table).where(keys.app_name == app, keys.user_id == user, keys.session_id == session)
        told: dict[str, Any] = {}
        last: NewEvent | None = None
        for row in self._rows(mine.order_by(keys.timestamp, keys.id)):
            for last in self._event(row._mapping):  # noqa: SLF001 - SQLAlchemy's public name for it
                told.update(last.state_delta or {})
                yield last
        # A state that a session was created with is in no event of it.
        rest = {key: value for key, value in self._state(app, user, session).items() if told.get(key) != value}
        if rest:
            at, name = (None, "") if last is None else (last.timestamp, last.id)
            yield NewEvent(state_delta=rest, id=f"state/{name}", timestamp=at)

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
        delta = (data.get("actions") or {}).get("state_delta") if self._is_new else None
        said: list[Any] = [*adk_message(data.get("content") or {}, data.get("author"))]
        for at, message in enumerate(said or ([None] if delta else [])):
            yield NewEvent(
                message=message,
                id=str(row["id"]) if at == 0 else f"{row['id']}/{at}",
                author=data.get("author"),
                branch=data.get("branch") or None,
                state_delta=delta if at == 0 else None,
                timestamp=_moment(row["timestamp"]),
            )


def _taken() -> Iterator[NewEvent]:
    """Of a session whose id another one has: an id is one session's here."""
    raise SourceError("another user or application has a session of this id")
    yield


def message_tables(columns: Mapping[str, set[str]]) -> Sequence[str]:
    """The tables that LangChain's histories over SQL made; their names are the application's choice."""
    wanted = {"id", "session_id", "message"}
    return sorted(name for name, found in columns.items() if found in (wanted, wanted | {"created_at"}))


def langchain_history(connection: Connection, columns: Mapping[str, set[str]]) -> MessageTable:
    """`SQLChatMessageHistory` or langchain-postgres, whose table has the time of each message."""
    name = message_tables(columns)[0]
    at = "created_at" if "created_at" in columns[name] else None
    return MessageTable(connection, name, "message", at, langchain_message)


def agents_sessions(connection: Connection, _columns: Mapping[str, set[str]]) -> MessageTable:
    """`SQLiteSession` and `SQLAlchemySession` of the agents library."""
    return MessageTable(connection, "agent_messages", "message_data", "created_at", agents_message)


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
