"""Conversations in files: our own export, LangChain's JSON, and JSON lines in OpenAI's chat format."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.codec.values import unpack
from langchain_sessions._exporting.form import FORMAT, NEWEST
from langchain_sessions._importing.messages import exported_message, langchain_message, openai_message, read_with
from langchain_sessions._importing.values import History, SourceError
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from io import TextIOWrapper
    from pathlib import Path

    from langchain_core.messages import BaseMessage

_BROKEN = "\0"
_GONE = frozenset({"superseded", "rewound", "detached", "failed", "open"})
_NAMED = ("session_id", "thread_id", "conversation_id", "id")
_TAKEN = ("author", "branch", "invocation_id", "error_code", "error_message")


class FileHistories:
    """A file of conversations; its first line says in which form."""

    def __init__(self, path: Path) -> None:
        """Look at a file, without reading all of it.

        Raises:
            InvalidInputError: It is in no form that is known here, or in one of a newer release.
        """
        self._path = path
        self._file: TextIOWrapper | None = None
        try:
            with path.open(encoding="utf-8-sig") as file:
                first = next((line for line in file if line.strip()), "")
        except (OSError, UnicodeDecodeError):
            raise InvalidInputError("source", f"the file cannot be read: {path}") from None
        found = _json_or_none(first)
        self._is_ours = isinstance(found, dict) and FORMAT in found
        if isinstance(found, dict) and self._is_ours and found[FORMAT] not in range(1, NEWEST + 1):
            raise InvalidInputError("source", "the export was written by a newer release")
        self._is_lines = isinstance(found, dict) and (self._is_ours or "messages" in found or "role" in found)
        if not self._is_lines and first.lstrip()[:1] not in {"[", "{"}:
            raise InvalidInputError("source", f"nothing that is known here: {path}")

    def histories(self) -> Iterator[History]:
        """See `HistorySource`."""
        if self._is_ours:
            yield from self._ours()
        elif self._is_lines:
            yield from self._openai()
        else:
            yield from self._langchain()

    def count(self) -> int | None:
        """See `HistorySource`."""
        return None

    def size(self) -> int | None:
        """See `HistorySource`."""
        return self._path.stat().st_size

    def close(self) -> None:
        """See `HistorySource`."""
        if self._file is not None:
            self._file.close()

    def _lines(self) -> Iterator[Mapping[str, Any]]:
        self.close()
        self._file = self._path.open(encoding="utf-8-sig", errors="surrogateescape")
        for at, line in enumerate(self._file, 1):
            if line.strip():
                found = _json_or_none(line)
                yield found if isinstance(found, dict) else {_BROKEN: at}

    def _ours(self) -> Iterator[History]:
        lines = self._lines()
        heads: list[Mapping[str, Any]] = [next(lines)]
        while heads:
            session: Mapping[str, Any] = heads.pop().get("session") or {}
            events = _events_until_head(lines, heads)
            if isinstance(session.get("id"), str):
                metadata = unpack(session.get("metadata") or {})
                yield History(session["id"], session.get("user_id"), metadata, events, session.get("title"))
            # What nobody took, or could be read, stands before the next conversation.
            while not heads and (line := next(lines, None)) is not None:
                heads += [line] if FORMAT in line else []

    def _openai(self) -> Iterator[History]:
        stem = self._path.stem
        loose: list[tuple[int, Mapping[str, Any]]] = []
        for at, line in enumerate(self._lines(), 1):
            if isinstance(messages := line.get("messages"), list):
                name = next((str(line[key]) for key in _NAMED if line.get(key)), f"{stem}-{at}")
                yield History(name, None, line.get("metadata") or {}, _numbered(enumerate(messages, 1), openai_message))
            else:
                loose.append((at, line))
        if loose:
            yield History(stem, None, {}, _numbered(loose, openai_message))

    def _langchain(self) -> Iterator[History]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8-sig"))
        except ValueError:
            raise SourceError("the file is not JSON") from None
        if isinstance(found, list):
            found = {self._path.stem: found}
        for name, messages in found.items():
            if not isinstance(messages, list):
                raise SourceError("it is no list of messages")
            convert = openai_message if messages and "role" in messages[0] else langchain_message
            yield History(name, None, {}, _numbered(enumerate(messages, 1), convert))


def _numbered(messages: Iterable[tuple[int, Any]], convert: Callable[[Any], BaseMessage]) -> Iterator[NewEvent]:
    for at, message in messages:
        if isinstance(message, dict) and _BROKEN in message:
            raise SourceError(f"line {message[_BROKEN]} is not JSON")
        yield NewEvent(message=read_with(convert, message), id=f"{at}")


def _events_until_head(lines: Iterator[Mapping[str, Any]], heads: list[Mapping[str, Any]]) -> Iterator[NewEvent]:
    """The events of one conversation of an export; the head of the next one goes into `heads`."""
    for line in lines:
        if FORMAT in line:
            heads.append(line)
            return
        if _BROKEN in line:
            raise SourceError(f"line {line[_BROKEN]} is not JSON")
        try:
            event = _event(line)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise SourceError("a line is no event") from None
        if event is not None:
            yield event


def _event(line: Mapping[str, Any]) -> NewEvent | None:
    """The event of a line; None for what does not stand, and for records of what happened to the log."""
    if line["standing"] in _GONE or (line["message"] is None and not line["state_delta"]):
        return None
    return NewEvent(
        message=None if line["message"] is None else read_with(exported_message, line["message"]),
        id=line["id"],
        timestamp=datetime.fromisoformat(line["timestamp"]),
        state_delta=unpack(line["state_delta"]) or None,
        metadata=unpack(line["metadata"]) or None,
        long_running_tool_ids=tuple(line["long_running_tool_ids"]),
        interrupted=line["interrupted"],
        synthetic=line["synthetic"],
        grounding=unpack(line["grounding"]),
        **{name: line[name] for name in _TAKEN},
    )


def _json_or_none(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
