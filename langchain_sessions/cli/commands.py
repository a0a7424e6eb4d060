"""The commands. Each is one call of the service; what it refuses is told in a line, and the exit code is 1."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from langchain_sessions._sql.tables import schema as sql_schema
from langchain_sessions.cli import tables
from langchain_sessions.errors import SessionsError
from langchain_sessions.filters import EventFilter
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # its pictures of local variables hold texts and passwords
    help="Look at a log of conversations, search it and look after it.",
)

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]


@dataclass(frozen=True, slots=True)
class _Place:
    """Which database, and on whose behalf."""

    url: str
    user: str | None
    namespace: str
    prefix: str


@app.callback()
def place(
    context: typer.Context,
    url: Annotated[str, typer.Option(help="The database, as SQLAlchemy writes it.")] = "sqlite:///chat.db",
    user: Annotated[str | None, typer.Option(help="See and touch only this user's sessions.")] = None,
    namespace: Annotated[str, typer.Option("--app", help="The application.")] = "default",
    prefix: Annotated[str, typer.Option(help="As `table_prefix` of the service.")] = "",
) -> None:
    """Say once where the log is."""
    context.obj = _Place(url, user, namespace, prefix)


@app.command("init")
def create_schema(context: typer.Context) -> None:
    """Create the tables, or bring them up to date."""
    with _service(context, create_schema=True) as service:
        service.create_schema()


@app.command("schema")
def print_schema(context: typer.Context, dialect: Annotated[str, typer.Argument(help="sqlite, postgresql …")]) -> None:
    """Print the DDL, for migrations of your own."""
    with _told():
        typer.echo(sql_schema.schema_sql(dialect, context.obj.prefix))


@app.command("list")
def list_sessions(
    context: typer.Context, limit: Annotated[int, typer.Option(help="At most so many.")] = 50, after: str | None = None
) -> None:
    """List sessions, newest activity first."""
    with _service(context) as service:
        page = service.list_sessions(limit=limit, cursor=after)
        Console().print(tables.sessions_table(page))
        if page.next_cursor is not None:
            typer.echo(f"more: --after {page.next_cursor}")


@app.command()
def show(
    context: typer.Context,
    session: SessionId,
    *,
    log: Annotated[bool, typer.Option("--log", help="Everything ever logged, not just what a model sees.")] = False,
    branch: Annotated[str | None, typer.Option(help="As a viewer on this branch.")] = None,
    last: Annotated[int | None, typer.Option(help="Only the newest so many.")] = None,
) -> None:
    """Show what a model would be shown of a session, or its whole log."""
    with _service(context) as service:
        if not log:
            Console().print(tables.messages_table(service.messages(session, branch=branch, last_n=last)))
            return
        Console().print(tables.events_table(service.events(session, EventFilter(last_n=last))))


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
    with _service(context) as service:
        everyone = session is None and context.obj.user is None
        page = service.search(
            query, session_id=session, whole_app=everyone, limit=limit, mode="literal" if literal else "ranked"
        )
        if page.items:
            Console().print(tables.hits_table(page))
        else:
            typer.echo(" ".join(["Nothing found.", *filter(None, [page.hint]), *page.nearest]))


@app.command()
def verify(context: typer.Context, session: SessionId) -> None:
    """Compare a session's index and counters with its log; exit code 1 when they differ."""
    with _service(context) as service:
        problems = service.verify(session)
    for problem in problems:
        typer.echo(problem)
    raise typer.Exit(code=1 if problems else 0)


@app.command()
def reindex(context: typer.Context, session: Annotated[str | None, typer.Argument(metavar="SESSION")] = None) -> None:
    """Build the search index anew, of one session or of all."""
    with _service(context) as service:
        done = service.reindex(session)
    typer.echo(f"{done} indexed")


@app.command()
def purge(context: typer.Context) -> None:
    """Remove the rows of sessions that have expired."""
    with _service(context) as service:
        removed = service.purge_expired()
    typer.echo(f"{removed} removed")


@app.command()
def delete(
    context: typer.Context,
    session: SessionId,
    yes: Annotated[bool, typer.Option("--yes", prompt="Delete it for good?", help="Do not ask.")],
) -> None:
    """Delete a session with everything that it holds."""
    if not yes:
        raise typer.Abort
    with _service(context) as service:
        found = service.delete(session)
    typer.echo("deleted" if found else "there is none")
    raise typer.Exit(code=0 if found else 1)


@contextmanager
def _service(context: typer.Context, *, create_schema: bool = False) -> Iterator[SessionService]:
    where: _Place = context.obj
    with (
        _told(),
        SessionService(
            where.url, app=where.namespace, table_prefix=where.prefix, create_schema=create_schema
        ) as service,
    ):
        yield service if where.user is None else service.as_user(where.user)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except SessionsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code=1) from None
