"""Conversations in files: our own export, LangChain's JSON, OpenAI's chat format, exports of ChatGPT and Claude."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any

from langchain_sessions._core.codec.values import unpack
from langchain_sessions._exporting.event_lines import FORMAT, NEWEST
from langchain_sessions._importing.assistants import assistant_histories, is_of_assistant
from langchain_sessions._importing.elements import JsonElements, holds_torn_text
from langchain_sessions._importing.messages import langchain_message, openai_message, read_with
from langchain_sessions._importing.values import BROKEN, History, SourceError
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.messages import BaseMessage

_LOOKED_AT = 16
"""How many elements of a list tell what it is of: the first may be damaged."""
_NAMED = ("session_id", "thread_id", "conversation_id", "id")


class FileHistories:
    """A file of conversations; its first line says in which form."""

    def __init__(self, path: Path) -> None:
        """Look at a file, without reading all of it.

        Raises:
            InvalidInputError: It is in no form that is known here, or in one of a newer release.
        """
        self._path = path
        self._file: IO[bytes] | None = None
        try:
            with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
                first = next((line for line in file if line.strip()), "")
        except OSError:
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
        self._file = self._path.open("rb")
        for at, line in enumerate(self._file, 1):
            if line.strip():
                yield _line(at, line)

    def _ours(self) -> Iterator[History]:
        lines = self._lines()
        heads: list[Mapping[str, Any]] = [next(lines)]
        while heads:
            session = heads.pop().get("session")
            events = _events_until_head(lines, heads)
            if isinstance(session, dict) and isinstance(session.get("id"), str):
                user, title = (_text(session.get(name)) for name in ("user_id", "title"))
                metadata, problems = _metadata(session.get("metadata"), unpack)
                yield History(session["id"], user, metadata, chain(problems, events), title, session)
            else:
                yield History("", None, {}, iter([SourceError("a line begins a session without an id")]))
            # What nobody took, or could be read, stands before the next conversation.
            while not heads and (line := next(lines, None)) is not None:
                heads += [line] if FORMAT in line else []

    def _openai(self) -> Iterator[History]:
        stem = self._path.stem
        has_loose = False
        for at, line in enumerate(self._lines(), 1):
            if isinstance(messages := line.get("messages"), list):
                name = next((str(line[key]) for key in _NAMED if line.get(key)), f"{stem}-{at}")
                numbered = ((nth, f"message {nth}", each) for nth, each in enumerate(messages, 1))
                metadata, problems = _metadata(line.get("metadata"))
                yield History(name, None, metadata, chain(problems, _numbered(numbered, openai_message)))
            else:
                has_loose = True
        if has_loose:
            # Read once more: a conversation of a message per line may be longer than memory.
            yield History(stem, None, {}, _numbered(self._loose(), openai_message))

    def _loose(self) -> Iterator[tuple[int, str, Any]]:
        """The lines that are a message each, as they are numbered among all."""
        for at, line in enumerate(self._lines(), 1):
            if not isinstance(line.get("messages"), list):
                yield at, f"line {at}", line

    def _langchain(self) -> Iterator[History]:
        self.close()
        self._file = self._path.open("rb")
        whole = JsonElements(self._file)
        if whole.is_list:
            items = whole.items()
            first = list(islice(items, _LOOKED_AT))
            if any(is_of_assistant(each) for _, each in first):
                for nth, each in chain(first, items):
                    yield from assistant_histories(_whole(each, nth), f"{self._path.stem}-{nth}")
            else:
                yield _conversation(self._path.stem, chain(first, items))
            return
        for name, messages in whole.members():
            if isinstance(messages, list):
                yield _conversation(name, enumerate(messages, 1))
            else:
                problem = messages if isinstance(messages, SourceError) else SourceError("it is no list of messages")
                yield History(name, None, {}, iter([problem]))


def _conversation(name: str, messages: Iterable[tuple[int, Any]]) -> History:
    """A list of messages in LangChain's JSON or in OpenAI's chat format; the first one tells."""
    found = iter(messages)
    first = next(found, None)
    is_openai = first is not None and isinstance(first[1], dict) and "role" in first[1]
    numbered = (
        (nth, f"message {nth}", _whole(each, nth)) for nth, each in chain(() if first is None else (first,), found)
    )
    return History(name, None, {}, _numbered(numbered, openai_message if is_openai else langchain_message))


def _line(at: int, line: bytes) -> Mapping[str, Any]:
    """A line of JSON; what is wrong with it, where it is none."""
    try:
        found = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return {BROKEN: f"line {at} is not UTF-8"}
    except (ValueError, RecursionError):
        return {BROKEN: f"line {at} is not JSON"}
    return found if isinstance(found, dict) else {BROKEN: f"line {at} is not JSON"}


def _whole(element: Any, nth: int) -> Any:
    """A message or a conversation, or what is wrong with it where a file holds bytes that are not UTF-8."""
    if isinstance(element, SourceError):
        return {BROKEN: str(element)}
    return {BROKEN: f"message {nth} is not UTF-8"} if holds_torn_text(element) else element


def _metadata(found: Any, read: Callable[[Any], Any] = dict) -> tuple[Mapping[str, Any], Sequence[SourceError]]:
    """The metadata of a conversation, and what is wrong with it."""
    try:
        if not found or isinstance(found, dict):
            return read(found or {}), ()
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    return {}, (SourceError("its metadata is no object of JSON, and is left out"),)


def _text(found: Any) -> str | None:
    return found if isinstance(found, str) else None


def _numbered(
    messages: Iterable[tuple[int, str, Any]], convert: Callable[[Any], BaseMessage]
) -> Iterator[NewEvent | SourceError]:
    """Messages by their numbers and places; what is wrong with one that is none, and then the others."""
    for at, place, message in messages:
        if isinstance(message, dict) and BROKEN in message:
            yield SourceError(message[BROKEN])
            continue
        try:
            read = read_with(convert, message)
        except SourceError as problem:
            yield SourceError(f"{place}: {problem}")
            continue
        yield NewEvent(message=read, id=f"{at}")


def _events_until_head(
    lines: Iterator[Mapping[str, Any]], heads: list[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any] | SourceError]:
    """The lines of one log of an export; the head of the next one goes into `heads`."""
    for line in lines:
        if FORMAT in line:
            heads.append(line)
            return
        if BROKEN in line:
            yield SourceError(line[BROKEN])
            continue
        yield line


def _json_or_none(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
