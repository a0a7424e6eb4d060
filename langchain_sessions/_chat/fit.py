"""Making a prompt fit: which scopes are compacted for a call, before it and when its prompt was too long."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._log.log import log_of
from langchain_sessions.compaction._plan import Compaction, CompactionResult
from langchain_sessions.compaction._triggers import PromptSize, known_window
from langchain_sessions.compaction._windows import TurnWindow

if TYPE_CHECKING:
    from langchain_sessions._chat.call import Call

_FRAME = 4


def compact_before(call: Call, compaction: Compaction) -> Flow[None]:
    """Compact where it is time; where the prompt alone makes it so and its own scope is not enough, ancestors."""
    own, *ancestors = _scopes(call)
    yield from call.prompt()
    yield from _compact_scope(call, compaction, own)
    if compaction.when is None:
        return
    for scope in ancestors:
        yield from call.prompt()
        yield from _compact_scope(call, replace(compaction, when=PromptSize(compaction.when)), scope)
    if ancestors and not (yield from _fits(call)):
        # What the strategy keeps of each scope is too much of all together.
        for scope in (own, *ancestors):
            result = yield from _compact_scope(call, Compaction(None, TurnWindow(1)), scope)
            if result.is_compacted and (yield from _fits(call)):
                return


def shorten(call: Call) -> Flow[bool]:
    """Compact, whatever the triggers say; whether that made the prompt shorter.

    A long history is summarised in steps, and the call at hand cannot wait for the last of them. Where one scope is
    not enough, what the viewer sees of its ancestors is next.
    """
    call.was_shortened = True
    given = call.options.compaction
    last_resort = Compaction(None, TurnWindow(max_turns=1), on_result=None if given is None else given.on_result)
    became_shorter = False
    for scope in _scopes(call):
        for compaction in (given, last_resort):
            if compaction is None:
                continue
            result = yield from _compact_scope(call, replace(compaction, when=None), scope, force=True)
            became_shorter = became_shorter or result.is_compacted
            if result.is_compacted and (yield from _fits(call)):
                return True
    return became_shorter


def _fits(call: Call) -> Flow[bool]:
    """Whether the prompt fits the window now, as far as anybody knows that."""
    window = known_window(call.model)
    if window is None:
        return True
    yield from call.prompt()
    # What the model will report of the prompt, rather too much than too little.
    is_exact = log_of(call.address.sessions).tokens.exact
    return call.model.usage.expect(call.model.prompt_tokens or 0, is_exact=is_exact) < window


def _scopes(call: Call) -> list[str | None]:
    """What the viewer sees: its own branch, then its ancestors up to root."""
    branch = call.options.branch
    parts = [] if branch is None else branch.split(".")
    return [*(".".join(parts[:size]) for size in range(len(parts), 0, -1)), None]


def _compact_scope(
    call: Call, compaction: Compaction, scope: str | None, *, force: bool = False
) -> Flow[CompactionResult]:
    sessions, session_id = call.address
    result = yield from ask(
        sessions.compact,
        session_id,
        compaction,
        branch=scope,
        invocation_id=call.invocation_id,
        force=force,
        call=call.model,
        automatic=True,
    )
    if result.is_compacted:
        call.context = call.drafted = None
    return result


def prompt_parts(call: Call) -> dict[str, int]:
    """What the prompt of a call was made of, and what each part counts for."""
    counter, draft = log_of(call.address.sessions).tokens, call.drafted
    parts = {"tools": call.memory.budget.count_tools(call.model.tools)}
    if draft is not None:
        parts["system prompt"] = counter.count_messages([draft.system] if draft.system else []).messages
        for event in draft.history:
            name = "root" if event.branch is None else f"branch {event.branch}"
            parts[name] = parts.get(name, 0) + event.tokens
    for name, said in (("few-shots", call.news.examples), ("running turn", call.news.tail)):
        parts[name] = counter.count_messages(said).messages
    return {name: tokens for name, tokens in parts.items() if tokens > _FRAME}
