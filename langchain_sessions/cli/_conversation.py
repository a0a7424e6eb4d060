"""A log as a conversation: who spoke, and what; what happened to the log is one line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rich.text import Text

from langchain_sessions._core.message_types import role_of
from langchain_sessions.cli._tables import plain, said
from langchain_sessions.events import EventKind, Standing
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.service import SessionService

_PAGE = 200
_MOST_RUNS = 3
_TOLD = ("outcome", "tokens_before", "tokens_after")
_COLOURS = {"human": "bold green", "ai": "bold cyan", "tool": "bold yellow", "system": "bold magenta"}
_JOINED = re.compile("[\u200d\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""What joins characters to one picture: joiners, forms, letters of flags, tones of skin."""


def pages(sessions: SessionService, session_id: str, after: int = 0) -> Iterator[SessionEvent]:
    """The log from a position on, a page at a time: the first line is there before the last one is read."""
    size = 1
    while True:
        # The first page is short: what is on the screen first needs no more.
        size = min(size * 16, _PAGE)
        found = list(sessions.events(session_id, EventFilter(after_seq=after, page_size=size)))
        yield from found
        if len(found) < size:
            return
        after = found[-1].seq


def spoken(events: Iterable[SessionEvent], width: int, *, in_pager: bool = False) -> Iterator[Text]:
    """What people read of events, on a terminal of so many columns, or in a pager on it."""
    for event in events:
        if event.message is None:
            record = _record(event)
            if record is not None:
                yield Text(f"── {record}", style="dim")
            continue
        who = event.author or event.message.name or role_of(event.message)
        standing = "" if event.standing is Standing.LIVE else f", {event.standing.value}"
        faded = standing and event.standing is not Standing.ARCHIVED
        head = Text.assemble(
            (plain(who).plain, "dim" if faded else _COLOURS.get(event.message.type, "bold")),
            (f"  {event.timestamp:%Y-%m-%d %H:%M}  {event.seq}{standing}", "dim"),
        )
        body = _whole(said(event.message), width, in_pager=in_pager)
        if faded:
            body.stylize("dim")
        yield Text("\n", no_wrap=body.no_wrap, overflow=body.overflow).join([head, body, Text()])


def _whole(text: Text, width: int, *, in_pager: bool) -> Text:
    """Text that is broken between pictures, never within one: terminals join what stands together."""
    if _JOINED.search(text.plain) is None:
        return text
    lines = (line for each in text.plain.split("\n") for line in _lines(each, width, in_pager=in_pager))
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")


def _lines(text: str, width: int, *, in_pager: bool) -> list[str]:
    from wcwidth import wcwidth, wrap

    def fits(line: str) -> bool:
        # A pager adds up the parts of a picture, and would break a line within it.
        return sum(max(wcwidth(each), 0) for each in line) <= width

    lines, limit = wrap(text, width), width
    while in_pager and limit > 1 and not all(map(fits, lines)):
        limit -= 1
        lines = wrap(text, limit)
    return lines or [""]


def _record(event: SessionEvent) -> str | None:
    """A record of the log in one line; None for what says nothing to a reader."""
    if event.kind is EventKind.LIFECYCLE:
        return f"ended or reopened at {event.seq}"
    if event.kind not in {EventKind.REWIND, EventKind.COMPACTION, EventKind.BLANK}:
        return None
    told: dict[str, Any] = dict(event.metadata)
    outcome = [f"{name.replace('_', ' ')} {told[name]}" for name in _TOLD if told.get(name) is not None]
    # What a rewind took back is in force no longer.
    undone = ["undone"] if event.standing is Standing.REWOUND else []
    # To undo a rewind one goes back to before where it stands.
    at = f" at {event.seq}" if event.kind is EventKind.REWIND else ""
    return ", ".join([f"{event.kind.value}{at}{_range(event)}", *outcome, *undone])


def _range(event: SessionEvent) -> str:
    if not event.covers:
        return ""
    runs = ", ".join(f"{first}-{last}" if first < last else f"{first}" for first, last in event.covers)
    if len(event.covers) > _MOST_RUNS:
        runs = f"{event.covers[0][0]}-{event.covers[-1][1]} in {len(event.covers)} parts"
    return f" of {runs}"


def paged(console: Console, pieces: Iterable[Text]) -> None:
    """Page through what is not all there yet, with the reader's own pager; where there is none, print it."""
    command = shlex.split(os.environ.get("PAGER", "less"))
    pager = shutil.which(command[0]) if command else None
    if pager is None:
        for piece in pieces:
            console.print(piece)
        return
    environment = {"LESS": "-R", **os.environ}
    with (
        # The reader has seen enough. Ctrl-C is the pager's, which goes on.
        suppress(BrokenPipeError, KeyboardInterrupt),
        subprocess.Popen(  # noqa: S603 - the reader's own
            [pager, *command[1:]],
            stdin=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            env=environment,
        ) as reading,
    ):
        for piece in pieces:
            with console.capture() as captured:
                console.print(piece)
            if reading.stdin is not None:
                reading.stdin.write(captured.get())
