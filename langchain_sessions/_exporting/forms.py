"""The lines of one session in each form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import convert_to_openai_messages

from langchain_sessions._core.matching import query_of
from langchain_sessions._core.message_types import role_of
from langchain_sessions._exporting.event_lines import beginning, happened
from langchain_sessions._log.log import log_of
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from langchain_core.messages import BaseMessage

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.service import SessionService
    from langchain_sessions.session import Session

_PAGE = 200
_SPEAKERS = frozenset({"user", "assistant", "system"})


def all_events(sessions: SessionService, session_id: str) -> Iterator[SessionEvent]:
    """The whole log, a page at a time."""
    cursor: str | None = None
    where = EventFilter(page_size=_PAGE)
    while True:
        page = sessions.events(session_id, where, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None or len(page.items) < _PAGE:
            return


def jsonl_lines(sessions: SessionService, session: Session) -> Iterator[str]:
    """Our own form: the session, then its log. `import_threads` reads it."""
    log = log_of(sessions)
    head = log.store.find_session(log.key(session.id), log.now())
    if head is None:
        raise SessionNotFoundError(session.id)
    yield _json(beginning(session, head.initial_state))
    after: int | None = None
    while True:
        where = log.seen(EventFilter(after_seq=after, page_size=_PAGE))
        now = log.now()
        query = query_of(where, log.codec, session_id=session.id, idle_before=log.idle_before(now))
        found = log.store.find_events(log.key(session.id), query, now)
        for row in found.rows:
            yield _json(happened(log.encoder.event(session.id, row, found.view), row))
        if len(found.rows) < _PAGE:
            return
        after = found.rows[-1].seq


def openai_lines(sessions: SessionService, session: Session) -> Iterator[str]:
    """OpenAI's chat format: one line with what a model would be shown."""
    messages = [_openai(message) for message in sessions.messages(session.id)]
    yield _json({"session_id": session.id, "messages": messages})


def langsmith_lines(sessions: SessionService, session: Session) -> Iterator[str]:
    """Examples as LangSmith's datasets take them: for each answer what led to it, and the answer."""
    before: list[Mapping[str, Any]] = []
    for message in sessions.messages(session.id):
        written = _openai(message)
        if message.type == "ai":
            named = {"session_id": session.id, "thread_id": session.id}
            yield _json({"inputs": {"messages": before}, "outputs": {"messages": [written]}, "metadata": named})
        before = [*before, written]


def markdown_lines(sessions: SessionService, session: Session) -> Iterator[str]:
    """Markdown to read: who spoke when, and what was said."""
    yield f"# {session.title or session.id}"
    yield ""
    for event in all_events(sessions, session.id):
        if event.message is None or event.standing.value not in {"live", "archived", "interrupted"}:
            continue
        if event.is_synthetic:
            continue
        who = event.author or role_of(event.message).capitalize()
        yield f"**{who}** · {event.timestamp:%Y-%m-%d %H:%M}"
        yield ""
        said = str(event.message.text)
        if said:
            yield said
            yield ""
        for call in getattr(event.message, "tool_calls", ()):
            yield f"- `{call['name']}({_json(call['args'])})`"
            yield ""


def _openai(message: BaseMessage) -> Any:
    """A message in OpenAI's chat format; its text alone, where LangChain does not know its parts."""
    try:
        return convert_to_openai_messages(message)
    except (ValueError, TypeError, KeyError):
        # What stands without its call, or under a role of one's own, is told as what a user sends: any client takes it.
        role = role_of(message)
        return {"role": role if role in _SPEAKERS else "user", "content": str(message.text)}


def _json(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    try:
        written.encode()
    except UnicodeEncodeError:
        # Half of a pair, which models do send, is no text that a file could hold.
        return json.dumps(value, allow_nan=False, default=str)
    return written


FORMS: Mapping[str, Callable[[SessionService, Session], Iterator[str]]] = {
    "jsonl": jsonl_lines,
    "langsmith": langsmith_lines,
    "markdown": markdown_lines,
    "openai": openai_lines,
}
