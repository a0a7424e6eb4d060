"""What all commands share: where the log is, in which form answers are given, and how errors are told."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer
from sqlalchemy import exc
from sqlalchemy.engine import make_url
from typer.core import TyperGroup

from langchain_sessions.cli._words import in_words
from langchain_sessions.errors import SessionsError
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rich.console import RenderableType

FAILED = 1
INCOMPLETE = 3
_WITH_VALUE = frozenset({"--url", "--user", "--app", "--prefix"})
_ALONE = frozenset({"--json", "--jsonl"})


class AnywhereGroup(TyperGroup):
    """A command whose common options may stand before the name of the subcommand or after it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Bring the common options to the front."""
        front: list[str] = []
        rest: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--":
                rest += [word, *words]
            elif word in _WITH_VALUE:
                value = next(words, None)
                if value is None or value in _WITH_VALUE | _ALONE:
                    ctx.fail(f"Option {word!r} requires an argument.")
                front += [word, str(value)]
            elif word in _ALONE or word.partition("=")[0] in _WITH_VALUE:
                front.append(word)
            else:
                rest.append(word)
        return super().parse_args(ctx, front + rest)


_LOGIN = re.compile(r"(://[^:/@]*):.*@")


@dataclass(frozen=True, slots=True)
class Target:
    """Which database, on whose behalf, and how to answer."""

    url: str
    user: str | None
    namespace: str
    prefix: str
    form: str

    @property
    def shown(self) -> str:
        """The URL without the password."""
        return _LOGIN.sub(r"\1:***@", self.url)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database, or the folder of files; None for what is on a server or in memory."""
        if self.url.startswith("file:"):
            return Path(url2pathname(urlsplit(self.url).path))
        if not self.url.startswith("sqlite"):  # what names several hosts is no URL to SQLAlchemy
            return None
        try:
            url = make_url(self.url)
        except exc.ArgumentError:
            return None
        name = url.database or ""
        if "uri" in url.query and name.startswith("file:"):
            parts = urlsplit(name)
            if url.query.get("mode") == "memory" or "mode=memory" in parts.query:
                return None
            name = url2pathname(parts.path)
        return None if name in {"", ":memory:"} else Path(name)


@contextmanager
def service(context: typer.Context, *, creates: bool = False, as_operator: bool = False) -> Iterator[SessionService]:
    """The service that a command works on. Only a command that `creates` makes a database."""
    where: Target = context.obj
    if not creates and where.file is not None and not where.file.exists():
        fail(f"no such file: {where.file}. `langchain-sessions --url {where.url} init` would create it.")
    if where.url.startswith("file:") and where.file is not None and where.file.exists() and not where.file.is_dir():
        fail(f"no folder: {where.file} is a file. That of a database is --url sqlite:///{where.file}")
    with (
        told(),
        SessionService(where.url, app=where.namespace, table_prefix=where.prefix, create_schema=creates) as sessions,
    ):
        yield sessions if where.user is None or as_operator else sessions.as_user(where.user)


@contextmanager
def told() -> Iterator[None]:
    """Tell an error of the library in one line, in the words of the command."""
    try:
        yield
    except SessionsError as error:
        fail(in_words(error))


def fail(problem: str) -> NoReturn:
    """Say one line on standard error, and end."""
    typer.echo(problem, err=True)
    raise typer.Exit(code=FAILED) from None


def answer(
    context: typer.Context,
    found: Iterable[Mapping[str, Any]],
    shown: Callable[[], Iterable[RenderableType]],
) -> None:
    """Give an answer as JSON, as lines of JSON, or as it is shown to people."""
    form = context.obj.form
    if form == "json":
        typer.echo(in_json(list(found), indent=1))
    elif form == "jsonl":
        for each in found:
            typer.echo(in_json(each))
    else:
        from rich.console import Console

        console = Console()
        for piece in shown():
            console.print(piece)


def in_json(value: Any, indent: int | None = None) -> str:
    """JSON that standard output can hold: all of it in ASCII, where its encoding does not have a character."""
    written = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        written.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return written


def say(context: typer.Context, words: str, **told: Any) -> None:
    """Say what was done: a line to people, an object to programs."""
    if context.obj.form:
        typer.echo(in_json(told))
    else:
        typer.echo(words)
