"""The commands that bring conversations in and out."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_sessions.cli._numbers import in_units
from langchain_sessions.cli._place import INCOMPLETE, Place, fail, service

if TYPE_CHECKING:
    from langchain_sessions.exporting import ExportForm
    from langchain_sessions.importing import ImportProgress, ImportReport

app = typer.Typer()
_SHOWN = 20


@app.command("import")
def import_source(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="A file, or the URL of a database of another library.")],
    *,
    user_from: Annotated[str | None, typer.Option(help="Whose a thread is, such as metadata.user_id.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Write nothing; say what it would come to.")] = False,
) -> None:
    """Take over the conversations of another library; `--user` owns those of which nothing else says whose they are.

    The tables are created where there are none. A second import adds what is missing.
    """
    from langchain_sessions.importing import import_threads

    where: Place = context.obj
    if dry_run and where.file is not None and not where.file.is_file():
        # A prediction needs no database of its own, and leaves none behind.
        context.obj = Place("sqlite://", where.user, where.namespace, where.prefix, where.form)
    elif where.file is not None and not where.file.is_file():
        typer.echo(f"creating {where.file}", err=True)
    with service(context, creates=True, as_operator=True) as sessions:
        report = import_threads(
            sessions,
            source,
            user=where.user,
            user_from=user_from,
            progress=_progress if sys.stderr.isatty() else None,
            dry_run=dry_run,
        )
    _close(report, dry_run=dry_run)


@app.command("export")
def export(
    context: typer.Context,
    session: Annotated[str | None, typer.Argument(metavar="SESSION", help="By default all.")] = None,
    *,
    form: Annotated[str, typer.Option("--format", help="jsonl, markdown, openai or langsmith.")] = "jsonl",
    to: Annotated[Path | None, typer.Option(help="A new file; by default standard output.")] = None,
) -> None:
    """Write sessions in a form that other programs read; `import` reads jsonl back."""
    from langchain_sessions.exporting import export_sessions

    chosen: Any = form
    wanted: ExportForm = chosen
    with service(context) as sessions:
        if session is not None:
            sessions.get(session)
        try:
            target = nullcontext(sys.stdout) if to is None else to.open("x", encoding="utf-8")
        except FileExistsError:
            fail(f"the file exists: {to}")
        except OSError as error:
            fail(f"the file cannot be written: {to} ({error.strerror})")
        else:
            with target as file:
                for line in export_sessions(sessions, session, form=wanted):
                    file.write(line + "\n")


def _progress(told: ImportProgress) -> None:
    left = f"{told.seconds_left:.0f} s left"
    typer.echo(f"\r{told.threads} of {told.total} threads, {left}\x1b[K", nl=False, err=True)


def _close(report: ImportReport, *, dry_run: bool) -> None:
    if sys.stderr.isatty():
        typer.echo("", err=True)
    for problem in report.problems[:_SHOWN]:
        where = " ".join(filter(None, [problem.thread, problem.checkpoint])) or "source"
        typer.echo(f"not imported: {ascii(where)[1:-1]}: {problem.problem}", err=True)
    if report.problem_count > _SHOWN:
        typer.echo(f"and {report.problem_count - _SHOWN} more", err=True)
    sizes = (
        f"{in_units(report.bytes_before)} before, {in_units(report.bytes_after)} {'predicted' if dry_run else 'after'}"
    )
    begin = "about " if dry_run else ""
    typer.echo(
        f"{begin}{report.threads} threads ({report.unchanged} unchanged), {report.checkpoints} checkpoints, "
        f"{report.messages} messages; {sizes}"
    )
    raise typer.Exit(code=INCOMPLETE if report.problem_count else 0)
