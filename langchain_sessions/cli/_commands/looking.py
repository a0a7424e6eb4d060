"""The commands that look. Each is one call of the service."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_sessions.cli._target import answer, fail, service
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.service import SessionService
    from langchain_sessions.session import Session

app = typer.Typer()
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
_PAUSE = 0.5


@app.command("list")
def list_sessions(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    after: Annotated[str | None, typer.Option(help="Go on where a list ended: what it said behind `more`.")] = None,
) -> None:
    """List sessions, newest activity first."""
    from langchain_sessions.cli._tables import sessions_table

    with service(context) as sessions:
        page = sessions.list_sessions(limit=limit, cursor=after)
        answer(context, map(_session, page), lambda: [sessions_table(page)])
        if page.next_cursor is not None:
            typer.echo(f"more: --after {page.next_cursor}", err=bool(context.obj.form))


@app.command()
def show(
    context: typer.Context,
    session: SessionId,
    *,
    context_only: Annotated[bool, typer.Option("--context", help="What a model would be shown, and no more.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Everything ever logged, as a table.")] = False,
    branch: Annotated[str | None, typer.Option(help="What a model on this branch would be shown.")] = None,
    last: Annotated[int | None, typer.Option(help="Only the newest so many.")] = None,
    pager: Annotated[bool, typer.Option(help="Page through it, on a terminal.")] = True,
) -> None:
    """Show a session as a conversation."""
    with service(context) as sessions:
        if context_only or branch is not None:
            _show_context(context, sessions, session, branch, last)
            return
        events = _events(sessions, session, last)
        if context.obj.form:
            answer(context, map(_line, events), list)
            return
        _show_log(events, as_table=log, pager=pager)


def _show_context(
    context: typer.Context, sessions: SessionService, session: str, branch: str | None, last: int | None
) -> None:
    from langchain_sessions.cli._tables import messages_table

    sessions.get(session)
    messages = sessions.messages(session, branch=branch, last_n=last)
    found = ({"role": each.type, "content": each.content} for each in messages)
    answer(context, found, lambda: [messages_table(messages)])


def _show_log(events: Iterator[SessionEvent], *, as_table: bool, pager: bool) -> None:
    from rich.console import Console

    console = Console()
    if as_table:
        from langchain_sessions.cli._tables import events_table

        console.print(events_table(events))
        return
    from langchain_sessions.cli._conversation import paged, spoken

    in_pager = pager and console.is_terminal and sys.stdin.isatty()
    pieces = spoken(events, console.width, in_pager=in_pager)
    if in_pager:
        paged(console, pieces)
        return
    for piece in pieces:
        console.print(piece)


@app.command()
def tail(
    context: typer.Context,
    session: SessionId,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for more, until it is broken off.")] = False,
    lines: Annotated[int, typer.Option("-n", help="Begin with the newest so many.")] = 10,
) -> None:
    """Show the end of a session, and go on as it grows."""
    from langchain_sessions.cli._conversation import pages

    if follow and context.obj.form:
        # A list that never ends is no JSON.
        context.obj = replace(context.obj, form="jsonl")
    if lines < 0:
        fail("-n: give 0 or a number above it")
    with service(context) as sessions:
        seq = sessions.get(session).version
        if lines:
            _tell(context, list(sessions.events(session, EventFilter(last_n=lines, before_seq=seq + 1))))
        try:
            while follow:
                time.sleep(_PAUSE)
                newest = list(pages(sessions, session, after=seq))
                _tell(context, newest)
                seq = newest[-1].seq if newest else seq
        except KeyboardInterrupt:
            return


@app.command()
def search(
    context: typer.Context,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="Words; what is in double quotes is found as it stands, -word leaves out."
        ),
    ],
    *,
    session: Annotated[str | None, typer.Option(help="In this session only.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 10,
    literal: Annotated[bool, typer.Option("--literal", help="The text as it stands, oldest first.")] = False,
) -> None:
    """Search everything that was said, compacted or not."""
    with service(context) as sessions:
        everyone = session is None and context.obj.user is None
        page = sessions.search(
            query, session_id=session, whole_app=everyone, limit=limit, mode="literal" if literal else "ranked"
        )
        if page.items or context.obj.form:
            from langchain_sessions.cli._tables import hits_table

            found = (
                {"session_id": hit.event.session_id, "score": hit.score, "text": hit.text, **_line(hit.event)}
                for hit in page
            )
            answer(context, found, lambda: [hits_table(page)])
        else:
            typer.echo(" ".join(["Nothing found.", *filter(None, [page.hint]), *page.nearest]))


@app.command()
def stats(
    context: typer.Context,
    biggest: Annotated[int, typer.Option(help="Show so many of the biggest sessions.")] = 10,
) -> None:
    """Sizes, the biggest sessions, growth, and what compaction saved."""
    from langchain_sessions.cli._numbers import add_up, stored_bytes
    from langchain_sessions.cli._tables import sessions_table

    with service(context) as sessions:
        totals, top = add_up(sessions, biggest)
        totals.bytes = stored_bytes(sessions, context.obj.file)
        found = [{**totals.told(), "biggest": [_session(each) for each in top]}]
        answer(context, found, lambda: [*totals.lines(), *([sessions_table(top)] if top else [])])


def _tell(context: typer.Context, events: Sequence[SessionEvent]) -> None:
    if context.obj.form:
        answer(context, map(_line, events), list)
    else:
        _show_log(iter(events), as_table=False, pager=False)


def _events(sessions: SessionService, session: str, last: int | None) -> Iterator[SessionEvent]:
    """The log, or its end; a session that is not there is told before the first of it."""
    from langchain_sessions.cli._conversation import pages

    sessions.get(session)
    return pages(sessions, session) if last is None else iter(sessions.events(session, EventFilter(last_n=last)))


def _line(event: SessionEvent) -> dict[str, Any]:
    from langchain_sessions._exporting.event_lines import event_line

    return event_line(event)


def _session(session: Session) -> dict[str, Any]:
    from langchain_sessions._exporting.event_lines import session_line

    counts = {"version": session.version, "messages": session.message_count, "tokens": session.token_count}
    return {**session_line(session)["session"], **counts}
