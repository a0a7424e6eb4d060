"""The commands that change a session, and those that tidy up."""

from __future__ import annotations

from typing import Annotated

import typer

from langchain_sessions.cli._target import FAILED, say, service

app = typer.Typer()
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]


@app.command()
def reindex(context: typer.Context, session: Annotated[str | None, typer.Argument(metavar="SESSION")] = None) -> None:
    """Build the search index anew, of one session or of all."""
    with service(context) as sessions:
        done = sessions.reindex(session)
    say(context, f"{done} indexed", indexed=done)


@app.command()
def purge(context: typer.Context) -> None:
    """Remove the rows of sessions that have expired."""
    with service(context) as sessions:
        removed = sessions.purge_expired()
    say(context, f"{removed} removed", removed=removed)


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
    words = f"as it was at {done.to_seq}; a rewind to {done.seq - 1} undoes it"
    say(context, words, session_id=session, to=done.to_seq, undo=done.seq - 1)


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
        copy = sessions.fork(session, at_seq=at, new_id=new_id).id
    say(context, copy, id=copy)


@app.command()
def blank(
    context: typer.Context,
    session: SessionId,
    message: Annotated[str | None, typer.Argument(metavar="MESSAGE", help="The message's id.")] = None,
    *,
    superseded: Annotated[bool, typer.Option(help="Only what edits replaced; of all messages by default.")] = False,
    yes: Annotated[bool, typer.Option("--yes", prompt="Overwrite it for good?", help="Do not ask.")],
) -> None:
    """Overwrite what a message said, everywhere. Its place in the conversation stays."""
    if not yes:
        raise typer.Abort
    with service(context) as sessions:
        done = sessions.blank(session, message, superseded=superseded)
    repeats = [f"the summary at {seq} was made of it and may repeat it" for seq in done.summaries]
    words = "\n".join([f"{len(done.seqs)} overwritten", *repeats])
    say(context, words, session_id=session, seqs=list(done.seqs), summaries=list(done.summaries))


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
    say(context, "deleted" if found else "there is none", deleted=found)
    raise typer.Exit(code=0 if found else FAILED)


@app.command()
def compact(
    context: typer.Context,
    session: SessionId,
    *,
    keep: Annotated[int, typer.Option("--keep", help="Turns that stay in the context.")] = 10,
    model: Annotated[str | None, typer.Option(help="Who writes a summary of the others: openai:gpt-5-mini …")] = None,
) -> None:
    """Archive the older turns of a session, without a summary unless a model is named.

    They are still found, and `rewind` brings them back.
    """
    from langchain_sessions._compaction.plan import Compaction, CompactionStrategy
    from langchain_sessions._compaction.strategies import TurnWindow
    from langchain_sessions._compaction.summarize import Summarize
    from langchain_sessions.cli._models import open_model

    with service(context) as sessions:
        sessions.get(session)
        window: CompactionStrategy = TurnWindow(keep)
        how = window if model is None else Summarize(open_model(model), window=window)
        done = sessions.compact(session, Compaction(when=None, how=how))
    words = f"{done.outcome.value}: {done.tokens_before} tokens before, {done.tokens_after} after"
    reason = done.reason or ""
    say(
        context,
        " ".join(filter(None, [words, f"({reason})" if reason else ""])),
        session_id=session,
        outcome=done.outcome.value,
        tokens_before=done.tokens_before,
        tokens_after=done.tokens_after,
        reason=done.reason,
    )
