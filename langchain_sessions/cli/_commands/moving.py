"""The commands that bring conversations in and out."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_sessions.cli._numbers import in_units, stored_bytes
from langchain_sessions.cli._target import INCOMPLETE, Target, fail, in_json, say, service
from langchain_sessions.cli._words import in_words
from langchain_sessions.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import IO

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langchain_sessions.exporting import ExportForm
    from langchain_sessions.importing import ImportProblem, ImportProgress, ImportReport

app = typer.Typer()
_SHOWN = 20
_KEY_BYTES = frozenset({16, 24, 32})


@app.command("import")
def import_source(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file, or the URL of a database of another library.")
    ],
    *,
    user_from: Annotated[str | None, typer.Option(help="Whose a thread is, such as metadata.user_id.")] = None,
    key_from: Annotated[
        str | None, typer.Option(help="The variable with the AES key of a source that encrypts.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Write nothing; say what it would come to.")] = False,
) -> None:
    """Take over what another library stored; `--user` owns the threads of which nothing else says whose they are.

    The tables are created where there are none. A second import adds what is missing.
    """
    from langchain_sessions.importing import import_threads

    where: Target = context.obj
    if dry_run and where.file is not None and not where.file.is_file():
        # A prediction needs no database of its own, and leaves none behind.
        context.obj = Target("sqlite://", where.user, where.namespace, where.prefix, where.form)
    serde = None if key_from is None else _opening(key_from)
    with _creating(where.file), service(context, creates=True, as_operator=True) as sessions:
        # Asking how large it is would make the file, and a source that is refused makes none.
        before = 0 if where.file is not None and not where.file.exists() else stored_bytes(sessions, where.file)
        try:
            report = import_threads(
                sessions,
                source,
                user=where.user,
                user_from=user_from,
                serde=serde,
                progress=_progress if sys.stderr.isatty() else None,
                dry_run=dry_run,
            )
        except StoreUnavailableError as error:
            fail(f"{in_words(error)} What was imported until then is whole, and the same command goes on.")
        total = None if dry_run else stored_bytes(sessions, where.file)
    if total is not None and before is not None:
        report = replace(report, bytes_after=max(total - before, 0))
    _close(context, report, total, dry_run=dry_run)


@contextmanager
def _creating(file: Path | None) -> Iterator[None]:
    """Say that a database was created, once it is."""
    existed = file is None or file.exists()
    try:
        yield
    finally:
        if not existed and file is not None and file.exists():
            _wipe()
            typer.echo(f"created {file}", err=True)


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
            target = (
                nullcontext(sys.stdout) if to is None else to.open("x", encoding="utf-8", errors="backslashreplace")
            )
        except FileExistsError:
            fail(f"the file exists: {to}")
        except OSError as error:
            fail(f"the file cannot be written: {to} ({error.strerror})")
        else:
            lines = export_sessions(sessions, session, form=wanted)
            _write(target, lines if to is not None or form == "markdown" else map(_encodable, lines), to)


def _encodable(line: str) -> str:
    """A line of JSON that standard output can hold."""
    return line if line.isascii() else in_json(json.loads(line))


def _write(target: AbstractContextManager[IO[str]], lines: Iterator[str], to: Path | None) -> None:
    """Write all lines, or leave no file behind."""
    try:
        with target as file:
            for line in lines:
                file.write(line + "\n")
            file.flush()
    except BaseException as error:
        if to is not None:
            to.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            fail(f"the export cannot be written: {to or 'standard output'} ({error.strerror})")
        raise


def _opening(variable: str) -> SerializerProtocol:
    """The serializer that opens what was encrypted with a key."""
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    key = os.environ.get(variable)
    if not key:
        fail(f"--key-from: there is no variable {variable}")
    if len(key.encode()) not in _KEY_BYTES:
        fail("--key-from: an AES key has 16, 24 or 32 bytes")
    try:
        return EncryptedSerializer.from_pycryptodome_aes(key=key.encode())
    except ImportError:
        fail("--key-from needs another package: pip install pycryptodome")


def _problem(told: ImportProblem) -> str:
    """A problem in the words of the command."""
    typed = f"import it without --user, or `langchain-sessions delete {told.thread}` before"
    return told.problem.replace("import it without a user, or delete it before", typed)


def _progress(told: ImportProgress) -> None:
    steps = f", {told.checkpoints} of {told.checkpoints_total} checkpoints" if told.checkpoints_total else ""
    left = f"{told.seconds_left:.0f} s left"
    # A line that breaks is not the one that the next report writes over.
    line = f"{told.threads} of {told.total} threads{steps}, {left}"[: shutil.get_terminal_size().columns - 1]
    typer.echo(f"\r{line}\x1b[K", nl=False, err=True)


def _wipe() -> None:
    """Take the last progress off a terminal."""
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", nl=False, err=True)


def _close(context: typer.Context, report: ImportReport, total: int | None, *, dry_run: bool) -> None:
    _wipe()
    for problem in report.problems[:_SHOWN]:
        where = " ".join(filter(None, [problem.thread, problem.checkpoint])) or "source"
        typer.echo(f"not imported: {ascii(where)[1:-1]}: {_problem(problem)}", err=True)
    if report.problem_count > _SHOWN:
        typer.echo(f"and {report.problem_count - _SHOWN} more", err=True)
    if report.unowned and not dry_run:
        has = "1 thread has" if report.unowned == 1 else f"{report.unowned} threads have"
        typer.echo(f"{has} no owner; give --user", err=True)
    grown = in_units(report.bytes_after)
    after = f"{grown} predicted" if dry_run else f"{in_units(total)} after (+{grown})"
    sizes = f"{in_units(report.bytes_before)} before, {after}"
    words = (
        f"{'about ' if dry_run else ''}{report.threads} threads ({report.unchanged} unchanged), "
        f"{report.checkpoints} checkpoints, {report.messages} messages; {sizes}"
    )
    say(context, words, is_prediction=dry_run, **asdict(report), bytes_total=total)
    raise typer.Exit(code=INCOMPLETE if report.problem_count else 0)
