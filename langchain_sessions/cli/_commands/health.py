"""The commands that look after a database: its tables, their versions, and whether everything fits together."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_sessions import schema_sql
from langchain_sessions._log.log import log_of
from langchain_sessions.cli._numbers import all_sessions
from langchain_sessions.cli._target import FAILED, answer, fail, say, service, told
from langchain_sessions.cli._words import in_words
from langchain_sessions.errors import SchemaMissingError, SchemaVersionError, SessionsError
from langchain_sessions.stores._engines_by_url import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions.service import SessionService

app = typer.Typer()
_PARTS = ("langchain-core", "langgraph", "langgraph-checkpoint", "sqlalchemy")
_NO_STEPS = "nothing to migrate: this store has no numbered schema; `langchain-sessions init` makes what is missing"


@app.command("init")
def create_schema(context: typer.Context) -> None:
    """Create the tables, or bring them up to date."""
    with service(context, creates=True) as sessions:
        sessions.create_schema()
        schema = _schema(sessions)
    say(context, f"ready: {context.obj.shown}", url=context.obj.shown, **schema)


@app.command("schema")
def print_schema(
    context: typer.Context, dialect: Annotated[str, typer.Argument(metavar="DIALECT", help="sqlite, postgresql …")]
) -> None:
    """Print the DDL, for migrations of your own."""
    with told():
        written = schema_sql(dialect, context.obj.prefix)
    say(context, written.rstrip("\n"), dialect=dialect, sql=written)


@app.command()
def migrate(
    context: typer.Context,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")] = False,
) -> None:
    """Bring the tables of an older release up to date."""
    with service(context) as sessions:
        before = _schema(sessions)
        if before["schema"] is None and before["newest"] is not None:
            raise SchemaMissingError
        if not plan and before["steps"]:
            sessions.create_schema()
        found = _schema(sessions)
    if found["schema"] is None:
        say(context, _NO_STEPS, **found)
        return
    steps = ", ".join(str(step) for step in before["steps"]) or "none"
    done = "steps to take" if plan else "steps taken"
    told = f"schema version {found['schema']}; this release has {found['newest']}; {done}: {steps}"
    say(context, told, **(before if plan else {**found, "taken": before["steps"]}))


@app.command()
def doctor(context: typer.Context) -> None:
    """Look at versions, the schema and every session's index and counters; exit code 1 when something differs."""
    with service(context) as sessions:
        found = _versions(sessions, context.obj.url)
        schema = _schema(sessions)
        found["schema"] = "none" if schema["schema"] is None else f"{schema['schema']} of {schema['newest']}"
        found["steps to take"] = ", ".join(str(step) for step in schema["steps"]) or "none"
        checked, problems = 0, list[str]()
        if schema["steps"]:
            problems.append("the tables are of an older release: `langchain-sessions migrate` brings them up to date")
        elif schema["schema"] is None and schema["newest"] is not None:
            problems.append(in_words(SchemaMissingError()))
        else:
            for session in all_sessions(sessions):
                checked += 1
                problems += [f"{session.id}: {problem}" for problem in _verified(sessions, session.id)]
        found["sessions"] = checked
        lines = [*(f"{name}: {value}" for name, value in found.items()), *problems, f"{len(problems)} problems"]
        answer(context, [{**found, "problems": problems}], lambda: lines)
    raise typer.Exit(code=FAILED if problems else 0)


@app.command()
def verify(
    context: typer.Context, session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
) -> None:
    """Compare a session's index and counters with its log; exit code 1 when they differ."""
    with service(context) as sessions:
        problems = sessions.verify(session)
        answer(context, [{"session_id": session, "problems": problems}], lambda: problems or ["no problems"])
    raise typer.Exit(code=FAILED if problems else 0)


def _verified(sessions: SessionService, session_id: str) -> Iterator[str]:
    """What is wrong with a session; one that cannot be looked at is a problem, not the end."""
    try:
        yield from sessions.verify(session_id)
    except SessionsError as error:
        yield in_words(error)


def _schema(sessions: SessionService) -> dict[str, Any]:
    """The schema that is there, the one of this release, and the steps between them."""
    store = log_of(sessions).store.describe()
    found, newest = store.schema, store.newest_schema
    if found is None or newest is None:
        return {"schema": found, "newest": newest, "steps": []}
    if found > newest:
        fail(in_words(SchemaVersionError(found, newest)))
    return {"schema": found, "newest": newest, "steps": list(range(found + 1, newest + 1))}


def _versions(sessions: SessionService, url: str) -> dict[str, Any]:
    found: dict[str, Any] = {"langchain-sessions": version("langchain-sessions"), "python": platform.python_version()}
    found.update((name, version(name)) for name in _PARTS)
    store, scheme = log_of(sessions).store.describe(), url.partition(":")[0]
    package = store.package or (ENGINES[scheme].package if scheme in ENGINES else None)
    found["driver"] = "sqlite3 of Python" if store.driver == "pysqlite" else "built in"
    if package is not None:
        with suppress(PackageNotFoundError):
            found["driver"] = f"{package} {version(package)}"
    found["server"] = store.server or scheme
    return found
