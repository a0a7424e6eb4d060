"""The commands that look. Each is one call of the service.

What the service refuses is told in a line, and the exit code is 1; 2 is a command that was typed wrong, 3 an import
that left something out.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from langchain_sessions._exporting.form import event_line, session_line
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.modes import Mode
from langchain_sessions._sql.store import SqlStore
from langchain_sessions._sql.tables.size import database_bytes
from langchain_sessions.cli import _moving as moving
from langchain_sessions.cli import _tables as tables
from langchain_sessions.cli import _upkeep as upkeep
from langchain_sessions.cli._conversation import paged, pages, spoken
from langchain_sessions.cli._place import AnywhereGroup, Place, answer, service
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.service import SessionService
    from langchain_sessions.session import Session

app = typer.Typer(
    cls=AnywhereGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its pictures of local variables hold texts and passwords
    help="Look at a log of conversations, search it and look after it. Common options may stand before or after the "
    "command. Exit codes: 0 done, 1 refused or not found, 2 typed wrong, 3 an import left something out.",
)
app.registered_commands += [*upkeep.app.registered_commands, *moving.app.registered_commands]

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
_PAUSE = 0.5


def _version(asked: bool) -> None:  # noqa: FBT001 - what an option gives
    if asked:
        typer.echo(f"langchain-sessions {version('langchain-sessions')}")
        raise typer.Exit


@app.callback()
def place(
    context: typer.Context,
    *,
    url: Annotated[str, typer.Option(help="The database, as SQLAlchemy writes it.")] = "sqlite:///chat.db",
    user: Annotated[str | None, typer.Option(help="See and touch only this user's sessions.")] = None,
    namespace: Annotated[str, typer.Option("--app", help="The application.")] = "default",
    prefix: Annotated[str, typer.Option(help="As `table_prefix` of the service.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
    as_lines: Annotated[bool, typer.Option("--jsonl", help="Answer in lines of JSON.")] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it, and end.")] = False,
) -> None:
    """Say once where the log is."""
    context.obj = Place(url, user, namespace, prefix, "json" if as_json else "jsonl" if as_lines else "")


@app.command("list")
def list_sessions(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    after: Annotated[str | None, typer.Option(help="Go on where a list ended: what it said behind `more`.")] = None,
) -> None:
    """List sessions, newest activity first."""
    with service(context) as sessions:
        page = sessions.list_sessions(limit=limit, cursor=after)
        answer(context, map(_session, page), lambda: [tables.sessions_table(page)])
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
        sessions.get(session)
        if context_only or branch is not None:
            messages = sessions.messages(session, branch=branch, last_n=last)
            found = ({"role": each.type, "content": each.content} for each in messages)
            answer(context, found, lambda: [tables.messages_table(messages)])
            return
        events = pages(sessions, session) if last is None else iter(sessions.events(session, EventFilter(last_n=last)))
        if log and not context.obj.form:
            Console().print(tables.events_table(events))
            return
        console = Console()
        if context.obj.form or not (pager and console.is_terminal and sys.stdin.isatty()):
            answer(context, map(event_line, events), lambda: spoken(events))
            return
        paged(console, spoken(events))


@app.command()
def tail(
    context: typer.Context,
    session: SessionId,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for more, until it is broken off.")] = False,
    lines: Annotated[int, typer.Option("-n", help="Begin with the newest so many.")] = 10,
) -> None:
    """Show the end of a session, and go on as it grows."""
    with service(context) as sessions:
        seq = sessions.get(session).version
        newest = list(sessions.events(session, EventFilter(last_n=lines))) if lines else []
        _tell(context, newest)
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
    query: Annotated[str, typer.Argument(help="Words, or the grammar of docs/recall.md.")],
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
            found = (
                {"session_id": hit.event.session_id, "score": hit.score, "text": hit.text, **event_line(hit.event)}
                for hit in page
            )
            answer(context, found, lambda: [tables.hits_table(page)])
        else:
            typer.echo(" ".join(["Nothing found.", *filter(None, [page.hint]), *page.nearest]))


@app.command()
def stats(
    context: typer.Context, biggest: Annotated[int, typer.Option(help="Show so many of the biggest sessions.")] = 10
) -> None:
    """Count sessions, entries and tokens, and name the biggest sessions."""
    with service(context) as sessions:
        total: dict[str, Any] = {"sessions": 0, "users": 0, "entries": 0, "live_messages": 0, "live_tokens": 0}
        users: set[str | None] = set()
        top: list[Session] = []
        for each in _all_sessions(sessions):
            users.add(each.user_id)
            total["sessions"] += 1
            total["entries"] += each.version
            total["live_messages"] += each.message_count
            total["live_tokens"] += each.token_count
            top = sorted([*top, each], key=lambda one: -one.version)[: max(biggest, 0)]
        total["users"] = len(users - {None})
        store = log_of(sessions).store
        if isinstance(store, SqlStore):
            total["bytes"] = store.run(Mode.READ, database_bytes)
        lines = (f"{name.replace('_', ' ')}: {number}" for name, number in total.items())
        found = [{**total, "biggest": [_session(each) for each in top]}]
        answer(context, found, lambda: [*lines, tables.sessions_table(top)])


def _tell(context: typer.Context, events: Sequence[SessionEvent]) -> None:
    answer(context, map(event_line, events), lambda: spoken(events))


def _all_sessions(sessions: SessionService) -> Iterator[Session]:
    cursor: str | None = None
    while True:
        page = sessions.list_sessions(limit=200, cursor=cursor)
        yield from page
        cursor = page.next_cursor
        if cursor is None:
            return


def _session(session: Session) -> dict[str, Any]:
    counts = {"version": session.version, "messages": session.message_count, "tokens": session.token_count}
    return {**session_line(session)["session"], **counts}
