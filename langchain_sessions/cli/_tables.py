"""How sessions and messages look in a terminal.

What people and models said is shown as plain text: control characters would let it move the cursor or set the title.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from langchain_core.messages import BaseMessage

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.search import SearchHit
    from langchain_sessions.session import Session

_HARMLESS = "\n\t\u200c\u200d"
"""The joiners among them: they hold emoji and letters of some scripts together."""


def sessions_table(sessions: Iterable[Session]) -> Table:
    """One line for each session."""
    table = Table("session", "user", "title", "events", "last change")
    for session in sessions:
        user = Text("none", style="dim") if session.user_id is None else plain(session.user_id)
        count = str(session.version)
        table.add_row(plain(session.id), user, plain(session.title or ""), count, _moment(session.updated_at))
    return table


def messages_table(messages: Iterable[BaseMessage]) -> Table:
    """What a model would be shown."""
    table = Table("role", "text")
    for message in messages:
        table.add_row(message.type, said(message))
    return table


def events_table(events: Iterable[SessionEvent]) -> Table:
    """The log as it is: what no longer stands is dim."""
    table = Table("seq", "time", "kind", "standing", "text")
    for event in events:
        message = event.message
        kind = event.kind.value if message is None else message.type
        style = "" if event.standing is Standing.LIVE else "dim"
        text = Text() if message is None else said(message)
        table.add_row(str(event.seq), _moment(event.timestamp), kind, event.standing.value, text, style=style)
    return table


def hits_table(hits: Iterable[SearchHit]) -> Table:
    """What a search found, best first."""
    table = Table("session", "seq", "time", "score", "text")
    for hit in hits:
        event = hit.event
        where = plain(event.session_id), str(event.seq), _moment(event.timestamp)
        table.add_row(*where, f"{hit.score:.2f}", plain(hit.text))
    return table


def plain(text: str) -> Text:
    """Text of a stranger: characters that a terminal would obey are shown as their code."""
    return Text("".join(c if c.isprintable() or c in _HARMLESS else ascii(c)[1:-1] for c in text))


def said(message: BaseMessage) -> Text:
    """What a message says, its calls included."""
    calls = [f"{call['name']}({call['args']})" for call in getattr(message, "tool_calls", [])]
    return plain("\n".join(filter(None, [str(message.text), *calls])))


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
