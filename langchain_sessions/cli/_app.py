"""The command itself: the options that all commands have, and the modules of `_commands` whose commands they are.

What the service refuses is told in a line, and the exit code is 1; 2 is a command that was typed wrong, 3 an import
that left something out.
"""

from __future__ import annotations

from typing import Annotated

import typer

from langchain_sessions.cli._commands import chat, health, looking, moving, upkeep
from langchain_sessions.cli._target import AnywhereGroup, Target

app = typer.Typer(
    cls=AnywhereGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its pictures of local variables hold texts and passwords
    help="Look at a log of conversations, search it and look after it. Common options may stand before or after the "
    "command. Exit codes: 0 done; 1 refused, not found, or a check found something; 2 typed wrong; 3 an import left "
    "something out; 130 broken off.",
)
for topic in (chat, moving, upkeep, health, looking):
    app.registered_commands += topic.app.registered_commands


def _version(asked: bool) -> None:  # noqa: FBT001 - what an option gives
    if asked:
        from importlib.metadata import version

        typer.echo(f"langchain-sessions {version('langchain-sessions')}")
        raise typer.Exit


@app.callback()
def target(
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
    context.obj = Target(url, user, namespace, prefix, "json" if as_json else "jsonl" if as_lines else "")
