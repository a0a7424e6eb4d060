"""A conversation with a model at the terminal, kept in a session."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from langchain_sessions.cli._models import open_model, trouble_of
from langchain_sessions.cli._target import fail, in_json, service
from langchain_sessions.cli._words import in_words
from langchain_sessions.errors import SessionEndedError, SessionNotFoundError, SessionsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from langchain_core.language_models import BaseChatModel
    from rich.console import RenderableType

    from langchain_sessions._compaction.plan import CompactionResult
    from langchain_sessions.service import SessionService

app = typer.Typer()
_SHARE = 0.6
_KEPT = 10
_HELP = """\
/help            this
/history [N]     the newest N entries; 20 where no number is given
/search WORDS    what was said in this session, compacted or not
/undo            take the last question and its answer back; nothing is deleted
/compact         put a summary in place of the older turns; the log keeps them
/quit            end, as Ctrl-D does
//text           say something that begins with a slash
Ctrl-C breaks an answer off; what was said so far is kept."""


@app.command()
def chat(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="Go on with this one, or begin it; by default a new one.")
    ] = None,
    *,
    model: Annotated[str, typer.Option(help="PROVIDER:NAME, such as openai:gpt-5-mini.")],
    system: Annotated[str | None, typer.Option(help="Instructions for the model; they are not stored.")] = None,
    last: Annotated[int, typer.Option(help="Begin with the newest so many entries.")] = 10,
) -> None:
    """Talk with a model that remembers. `/help` there names what else can be typed.

    Lines of a file or a pipe are questions, one each; only the answers go to standard output then.
    """
    if last < 0:
        fail("--last: give 0 or a number above it")
    # The file before the model: a mistyped one costs nothing, and is told without a key.
    with service(context) as sessions:
        talk = Conversation(sessions, session or uuid4().hex[:12], open_model(model), system, form=context.obj.form)
        talk.greet(last)
        talk.run()


class Conversation:
    """One conversation at the terminal."""

    def __init__(
        self, sessions: SessionService, session_id: str, model: BaseChatModel, system: str | None, *, form: str
    ) -> None:
        """Talk with a model in a session."""
        from langchain_sessions._compaction.plan import Compaction
        from langchain_sessions._compaction.summarize import Summarize
        from langchain_sessions._compaction.triggers import ContextUsage
        from langchain_sessions.memory import SessionMemoryAdvisor

        self._sessions, self._id, self._system, self._form = sessions, session_id, system, form
        self._how = Summarize(model, keep_events=_KEPT)
        when = ContextUsage(_SHARE, model=model)
        compaction = Compaction(when=when, how=self._how, on_result=self._compacted)
        # Whose it is was said by --user; the config of a call has no say in it.
        memory = SessionMemoryAdvisor(sessions, owner="ignore", compaction=compaction)
        self._model = memory.wrap(model)
        self._is_terminal = sys.stdin.isatty() and not form

    def greet(self, last: int) -> None:
        """Say which session this is, and show what was said last."""
        from langchain_sessions.cli._tables import plain

        try:
            found = self._sessions.get(self._id)
        except SessionNotFoundError:
            self._aside(f"new session {self._id}; /help for help, Ctrl-D ends")
            return
        if found.is_ended:
            raise SessionEndedError(self._id)
        title = f" · {plain(found.title).plain}" if found.title else ""
        self._aside(f"session {self._id}{title}, {found.version} entries; /help for help, Ctrl-D ends")
        if self._is_terminal and last:
            self._history(str(last))

    def run(self) -> None:
        """Answer until there are no more questions."""
        for line in self._lines():
            text = line.strip()
            if text.startswith("/") and not text.startswith("//"):
                name, _, rest = text[1:].partition(" ")
                if name in {"quit", "exit", "q"}:
                    return
                self._try(lambda name=name, rest=rest: self._command(name, rest.strip()))
            elif text:
                self._try(lambda text=text: self._answer(text.removeprefix("/") if text[:2] == "//" else text))

    def _lines(self) -> Iterator[str]:
        if not self._is_terminal:
            yield from sys.stdin
            return
        with suppress(ImportError):
            import readline  # noqa: F401 - makes lines editable where Python has it
        while (line := self._typed()) is not None:
            yield line

    def _typed(self) -> str | None:
        """A line of somebody at a terminal; None where there are no more."""
        try:
            return input("you> ")
        except KeyboardInterrupt:
            self._aside("\nCtrl-D or /quit ends")
            return ""
        except EOFError:
            typer.echo()
            return None

    def _try(self, work: Any) -> None:
        """Do one thing; a terminal goes on where it failed, a program ends."""
        try:
            work()
        except SessionsError as error:
            problem = in_words(error)
        except Exception as error:  # noqa: BLE001 - providers raise classes of their own
            problem = trouble_of(error)
        else:
            return
        if not self._is_terminal:
            fail(problem)
        typer.echo(problem, err=True)

    def _answer(self, text: str) -> None:
        from langchain_core.messages import HumanMessage, SystemMessage

        from langchain_sessions.cli._tables import plain

        prompt = [*([SystemMessage(self._system)] if self._system else []), HumanMessage(text)]
        answer: Any = self._model.stream(prompt, {"configurable": {"session_id": self._id}})
        said: list[str] = []
        try:
            for piece in answer:
                said.append(plain(str(piece.text)).plain)
                if not self._form:
                    typer.echo(said[-1], nl=False)
        except KeyboardInterrupt:
            answer.close()
            if not self._is_terminal:
                raise
            self._aside("\n(broken off)")
            return
        if self._form:
            typer.echo(in_json({"session_id": self._id, "role": "assistant", "text": "".join(said)}))
        else:
            typer.echo()

    def _command(self, name: str, rest: str) -> None:
        known = {
            "help": lambda: typer.echo(_HELP),
            "history": lambda: self._history(rest),
            "search": lambda: self._search(rest),
            "undo": self._undo,
            "compact": self._compact,
        }
        known.get(name, lambda: typer.echo(f"no such command: /{name}; /help names those there are", err=True))()

    def _history(self, number: str) -> None:
        from langchain_sessions.cli._conversation import spoken
        from langchain_sessions.filters import EventFilter

        wanted = int(number) if number.isdecimal() and int(number) else 20
        events = self._sessions.events(self._id, EventFilter(last_n=wanted))
        _show(lambda width: spoken(events, width))

    def _search(self, words: str) -> None:
        from langchain_sessions.cli._tables import hits_table

        page = self._sessions.search(words, session_id=self._id)
        _show(lambda _: [hits_table(page) if page.items else "Nothing found."])

    def _undo(self) -> None:
        from langchain_sessions.events import Standing
        from langchain_sessions.filters import EventFilter

        asked = EventFilter(roles={"human"}, standings={Standing.LIVE}, synthetic=False, branch=None, last_n=1)
        found = list(self._sessions.events(self._id, asked))
        if not found:
            typer.echo("there is nothing to take back")
            return
        run = found[0].invocation_id
        if run is None:
            done = self._sessions.rewind(self._id, to_seq=found[0].seq - 1)
        else:
            done = self._sessions.rewind(self._id, before_invocation=run)
        typer.echo(f"as it was at {done.to_seq}; `langchain-sessions rewind {self._id} --to {done.seq - 1}` undoes it")

    def _compact(self) -> None:
        from langchain_sessions._compaction.plan import Compaction

        done = self._sessions.compact(self._id, Compaction(when=None, how=self._how))
        typer.echo(f"{done.outcome.value}: {done.tokens_before} tokens before, {done.tokens_after} after")

    def _compacted(self, done: CompactionResult) -> None:
        self._aside(f"── {done.outcome.value}: {done.tokens_before} tokens before, {done.tokens_after} after")

    def _aside(self, words: str) -> None:
        """What is no answer: not on the output of a program."""
        typer.secho(words, err=not self._is_terminal, dim=self._is_terminal)


def _show(pieces: Callable[[int], Iterable[RenderableType]]) -> None:
    from rich.console import Console

    console = Console()
    for piece in pieces(console.width):
        console.print(piece)
