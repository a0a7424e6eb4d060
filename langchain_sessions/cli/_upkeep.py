"""The commands that look after a log, and those that change a session."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.modes import Mode
from langchain_sessions._sql.store import SqlStore
from langchain_sessions._sql.tables import schema as sql_schema
from langchain_sessions._sql.tables.migrations import found_version
from langchain_sessions.cli._place import FAILED, answer, service, told
from langchain_sessions.compaction import Compaction, TurnWindow

if TYPE_CHECKING:
    from langchain_sessions._sql.driver.transaction import Transaction

app = typer.Typer()
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
_PARTS = ("langchain-core", "langgraph", "langgraph-checkpoint", "sqlalchemy")


@app.command("init")
def create_schema(context: typer.Context) -> None:
    """Create the tables, or bring them up to date."""
    with service(context, creates=True) as sessions:
        sessions.create_schema()


@app.command("schema")
def print_schema(context: typer.Context, dialect: Annotated[str, typer.Argument(help="sqlite, postgresql …")]) -> None:
    """Print the DDL, for migrations of your own."""
    with told():
        typer.echo(sql_schema.schema_sql(dialect, context.obj.prefix))


@app.command()
def migrate(
    context: typer.Context,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")] = False,
) -> None:
    """Bring the tables of an older release up to date."""
    with service(context) as sessions:
        if not plan:
            sessions.create_schema()
        found = _asked(log_of(sessions).store, found_version)
    if found is None:
        typer.echo("nothing to migrate: this store has no tables")
        return
    newest = sql_schema.SCHEMA_VERSION
    steps = ", ".join(str(step) for step in range(found + 1, newest + 1)) or "none"
    typer.echo(f"schema version {found}; this release has {newest}; steps to take: {steps}")


@app.command()
def doctor(context: typer.Context) -> None:
    """Look at versions, the schema and every session's index and counters; exit code 1 when something differs."""
    with service(context) as sessions:
        store = log_of(sessions).store
        found: dict[str, Any] = {
            "langchain-sessions": version("langchain-sessions"),
            "python": platform.python_version(),
        }
        found.update((name, version(name)) for name in _PARTS)
        found["database"] = _asked(store, _server) or context.obj.url.partition(":")[0]
        schema = _asked(store, found_version)
        found["schema"] = "no tables" if schema is None else f"{schema} of {sql_schema.SCHEMA_VERSION}"
        problems: list[str] = []
        cursor, count = None, 0
        while count == 0 or cursor is not None:
            page = sessions.list_sessions(limit=200, cursor=cursor)
            for session in page:
                problems += [f"{session.id}: {problem}" for problem in sessions.verify(session.id)]
            count, cursor = count + max(len(page.items), 1), page.next_cursor
        lines = [*(f"{name}: {value}" for name, value in found.items()), *problems]
        answer(context, [{**found, "problems": problems}], lambda: [*lines, f"{len(problems)} problems"])
    raise typer.Exit(code=FAILED if problems else 0)


@app.command()
def verify(context: typer.Context, session: SessionId) -> None:
    """Compare a session's index and counters with its log; exit code 1 when they differ."""
    with service(context) as sessions:
        problems = sessions.verify(session)
    for problem in problems:
        typer.echo(problem)
    raise typer.Exit(code=FAILED if problems else 0)


@app.command()
def reindex(context: typer.Context, session: Annotated[str | None, typer.Argument(metavar="SESSION")] = None) -> None:
    """Build the search index anew, of one session or of all."""
    with service(context) as sessions:
        done = sessions.reindex(session)
    typer.echo(f"{done} indexed")


@app.command()
def purge(context: typer.Context) -> None:
    """Remove the rows of sessions that have expired."""
    with service(context) as sessions:
        removed = sessions.purge_expired()
    typer.echo(f"{removed} removed")


@app.command()
def rewind(
    context: typer.Context,
    session: SessionId,
    to: Annotated[int, typer.Option(help="The position to go back to; 0 is the beginning.")],
    *,
    reset_thread: Annotated[bool, typer.Option(help="Even where no checkpoint of a graph remains.")] = False,
) -> None:
    """Go back to how a session was at a position. Nothing is deleted."""
    with service(context) as sessions:
        done = sessions.rewind(session, to_seq=to, reset_thread=reset_thread)
    typer.echo(f"as it was at {done.to_seq}; a rewind to {done.seq - 1} undoes it")


@app.command()
def fork(
    context: typer.Context,
    session: SessionId,
    *,
    at: Annotated[int | None, typer.Option(help="Copy up to this position; by default all.")] = None,
    new_id: Annotated[str | None, typer.Option("--as", help="The id of the copy; by default a new one.")] = None,
) -> None:
    """Copy a session, and say the id of the copy."""
    with service(context) as sessions:
        typer.echo(sessions.fork(session, at_seq=at, new_id=new_id).id)


@app.command()
def delete(
    context: typer.Context,
    session: SessionId,
    yes: Annotated[bool, typer.Option("--yes", prompt="Delete it for good?", help="Do not ask.")],
) -> None:
    """Delete a session with everything that it holds."""
    if not yes:
        raise typer.Abort
    with service(context) as sessions:
        found = sessions.delete(session)
    typer.echo("deleted" if found else "there is none")
    raise typer.Exit(code=0 if found else FAILED)


def _server(tx: Transaction) -> str:
    asked = "SELECT sqlite_version()" if tx.flavour == "sqlite" else "SELECT version()"
    return f"{tx.flavour} {tx.ask(asked)[0][0]}"


def _asked(store: Any, question: Any) -> Any:
    return store.run(Mode.READ, question) if isinstance(store, SqlStore) else None


@app.command()
def compact(
    context: typer.Context,
    session_id: SessionId,
    *,
    keep: Annotated[int, typer.Option("--keep", min=1, help="Turns that stay in the context.")] = 10,
) -> None:
    """Archive the older turns of a session, without a summary. They are still found, and `rewind` brings them back."""
    with service(context) as sessions:
        done = sessions.compact(session_id, Compaction(when=None, how=TurnWindow(keep)))
    typer.echo(f"{done.outcome.value}: {done.tokens_before} tokens before, {done.tokens_after} after")
