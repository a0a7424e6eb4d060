"""How sessions and messages look in a terminal.

What people and models said is shown as plain text: control characters would let it move the cursor or set the title.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from langchain_core.messages import BaseMessage
    from rich.console import Console, ConsoleOptions, RenderableType

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.search import SearchHit
    from langchain_sessions.session import Session

_WIDE = 80
_LEGIBLE = 12
"""What of a text a column has to have room for, at least."""
_SHORT = frozenset({"events", "last change", "seq", "time", "score", "kind", "standing"})
_HARMLESS = "\n\t\u200c\u200d"
"""The joiners among them: they hold emoji and letters of some scripts together."""


class Rows:
    """Rows as a table. Where it has not the room each is lines of its own: ids are to be typed, and stay whole."""

    def __init__(self, *names: str) -> None:
        """Name the columns."""
        self._names = names
        self._rows: list[tuple[tuple[Text | str, ...], str]] = []

    def add_row(self, *cells: Text | str, style: str = "") -> None:
        """One more."""
        self._rows.append((cells, style))

    def __rich_console__(
        self,
        console: Console,
        options: ConsoleOptions,
    ) -> Iterator[RenderableType]:
        """See rich."""
        if options.max_width >= max(_WIDE, self._least()):
            table = Table()
            for at, name in enumerate(self._names):
                table.add_column(name, overflow="fold", no_wrap=at == 0 or name in _SHORT)
            for cells, style in self._rows:
                table.add_row(*cells, style=style)
            yield table
            return
        from rich.padding import Padding

        for cells, style in self._rows:
            yield Text.assemble(cells[0], style=style or "bold", overflow="fold")
            for name, cell in zip(self._names[1:], cells[1:], strict=True):
                if str(cell):
                    yield Padding(
                        Text.assemble((f"{name}: ", "dim"), cell, style=style, overflow="fold"),
                        (0, 0, 0, 2),
                        expand=False,
                    )

    def _least(self) -> int:
        """How wide the narrowest table is that breaks no id and no number, and leaves room for the texts beside."""
        columns = zip(self._names, *(cells for cells, _ in self._rows), strict=True)
        widths = [max(cell_len(str(cell)) for cell in column) for column in columns]
        whole = [at == 0 or name in _SHORT for at, name in enumerate(self._names)]
        return 1 + sum(3 + (wide if keep else min(wide, _LEGIBLE)) for wide, keep in zip(widths, whole, strict=True))


def sessions_table(sessions: Iterable[Session]) -> Rows:
    """One row for each session."""
    rows = Rows("session", "user", "title", "events", "last change")
    for session in sessions:
        user = Text("none", style="dim") if session.user_id is None else plain(session.user_id)
        count = str(session.version)
        rows.add_row(plain(session.id), user, plain(session.title or ""), count, _moment(session.updated_at))
    return rows


def messages_table(messages: Iterable[BaseMessage]) -> Rows:
    """What a model would be shown."""
    rows = Rows("role", "text")
    for message in messages:
        rows.add_row(message.type, said(message))
    return rows


def events_table(events: Iterable[SessionEvent]) -> Rows:
    """The log as it is: what no longer stands is dim."""
    rows = Rows("seq", "time", "kind", "standing", "text")
    for event in events:
        message = event.message
        kind = event.kind.value if message is None else message.type
        style = "" if event.standing is Standing.LIVE else "dim"
        text = Text() if message is None else said(message)
        rows.add_row(str(event.seq), _moment(event.timestamp), kind, event.standing.value, text, style=style)
    return rows


def hits_table(hits: Iterable[SearchHit]) -> Rows:
    """What a search found, best first."""
    rows = Rows("session", "seq", "time", "score", "text")
    for hit in hits:
        event = hit.event
        where = plain(event.session_id), str(event.seq), _moment(event.timestamp)
        rows.add_row(*where, f"{hit.score:.2f}", plain(hit.text))
    return rows


def plain(text: str) -> Text:
    """Text of a stranger: characters that a terminal would obey are shown as their code."""
    return Text("".join(c if c.isprintable() or c in _HARMLESS else ascii(c)[1:-1] for c in text))


def said(message: BaseMessage) -> Text:
    """What a message says, its calls included."""
    calls = [f"{call['name']}({call['args']})" for call in getattr(message, "tool_calls", [])]
    return plain("\n".join(filter(None, [str(message.text), *calls])))


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
