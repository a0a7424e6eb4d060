"""Making a prompt fit: which scopes are compacted for a call, before it and when its prompt was too long."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._chat.budget import carries
from langchain_sessions._compaction.fallback import LastResort
from langchain_sessions._compaction.plan import Compaction, CompactionResult, Outcome
from langchain_sessions._compaction.triggers import DEFAULT_CONTEXT_WINDOW, PromptSize, known_window
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._log.log import log_of
from langchain_sessions._tokens.content import holds_media
from langchain_sessions.errors import PromptTooLongError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions._chat.call import Call

# What a message without a word counts for.
_FRAME = 4
# Below both, what was added is taken for the difference between the prompt as it was made and as it was made valid.
_FEW, _SLIGHTLY = 50, 0.05
# What providers put around messages and tools differs by so much, also where texts are counted exactly.
_FRAMES = 0.02
# Where nobody says how much is too much: one more refusal would cost more than what a third of the prompt tells.
_SHRINK = 0.7
_MUTE = (Outcome.ARCHIVED, Outcome.SUMMARY_BLANK, Outcome.SUMMARY_FAILED)
"""What a run says whose summariser has nothing to say: it is not asked again for the call at hand."""


def compact_before(call: Call, compaction: Compaction) -> Flow[None]:
    """Compact where it is time; where the prompt alone makes it so and its own scope is not enough, ancestors.

    What is compacted in the background is so before the call as well where the prompt would not fit otherwise.

    Raises:
        PromptTooLongError: By an exact count the prompt exceeds a known window, and could not be made shorter.
    """
    if compaction.where != "before":
        limit = known_window(call.model)
        if compaction.where == "manual" or limit is None or (yield from _size(call)) < limit:
            return
    yield from _compact_where_due(call, compaction)
    yield from _refuse_what_exceeds(call, compaction)


def _compact_where_due(call: Call, compaction: Compaction) -> Flow[None]:
    own, *ancestors = _scopes(call)
    yield from call.prompt()
    yield from _compact_scope(call, compaction, own)
    if compaction.when is None:
        return
    for scope in ancestors:
        yield from call.prompt()
        yield from _compact_scope(call, replace(compaction, when=PromptSize(compaction.when)), scope)
    window = known_window(call.model)
    if ancestors and window is not None and (yield from _size(call)) >= window:
        # What the strategy keeps of each scope is too much of all together.
        yield from _keep_newest(call, compaction, window)


def _refuse_what_exceeds(call: Call, compaction: Compaction) -> Flow[None]:
    """Make fit what is known to exceed the window, or raise: nobody is asked, and nobody paid, what must be refused."""
    window = known_window(call.model)
    if window is None:
        return
    if call.drafted is None:
        yield from call.prompt()
    if not _is_known_to_exceed(call, window):
        return
    yield from _keep_newest(call, compaction, window, force=True)
    yield from call.prompt()
    if _is_known_to_exceed(call, window):
        raise PromptTooLongError(call.address.session_id, prompt_costs(call, call.shown), window)


def _is_known_to_exceed(call: Call, window: int) -> bool:
    """Whether a prompt exceeds the window by an exact count of texts, which no report contradicts.

    An estimate says no such thing, and what others shorten behind us may fit.
    """
    tokens, usage = call.model.prompt_tokens, call.model.usage
    if tokens is None or not (usage.is_exact or log_of(call.address.sessions).tokens.exact):
        return False
    if any(not isinstance(message.content, str) and holds_media(message.content) for message in call.shown):
        return False
    left_out = min((0, *usage.additions))
    return min(tokens + left_out, usage.expect(tokens, is_exact=True)) > window * (1 + _FRAMES)


def shorten(call: Call) -> Flow[bool]:
    """Compact, whatever the triggers say; whether that made the prompt shorter.

    A long history is summarised in steps, and the call at hand cannot wait for the last of them. Where one scope is
    not enough, what the viewer sees of its ancestors is next.
    """
    # First of all, so that a compaction that fails is not begun again for the same call.
    call.was_shortened = True
    refused = yield from _size(call)
    goal = _goal(call, refused)
    given = call.options.compaction
    became_shorter, is_mute = False, False
    if given is not None:
        for scope in _scopes(call):
            result = yield from _compact_scope(call, replace(given, when=None), scope, force=True)
            is_mute = is_mute or result.outcome in _MUTE
            became_shorter = became_shorter or result.is_compacted
            if result.is_compacted and (yield from _size(call)) < goal:
                return True
    is_stripped = yield from _keep_newest(call, given, goal, force=True, is_mute=is_mute)
    return became_shorter or is_stripped


def _goal(call: Call, refused: int) -> float:
    """Below how many tokens a prompt has to come, of which so many were refused.

    A refusal says that what was counted is too much, whatever the window is said to be. By how much nobody knows where
    no prompt of the conversation was ever reported on, as in a log that somebody else filled: there the window is taken
    for the one that triggers assume.
    """
    window = known_window(call.model)
    if window is not None and refused >= window:
        return window
    goal = refused * _SHRINK
    if window is None and not call.model.usage.reported:
        goal = min(goal, DEFAULT_CONTEXT_WINDOW * _SHRINK)
    return goal


def _keep_newest(
    call: Call, given: Compaction | None, goal: float, *, force: bool = False, is_mute: bool = False
) -> Flow[bool]:
    """Keep the newest turn of each scope alone, until the prompt is shorter than `goal`; whether anything went.

    What goes is summarised where the strategy can; what still has to go after that is archived to be summarised later.
    """
    on_result = None if given is None else given.on_result
    strategies = [LastResort(None)] if given is None or is_mute else [LastResort(given.how), LastResort(None)]
    became_shorter = False
    for strategy in strategies:
        for scope in _scopes(call):
            compaction = Compaction(None, strategy, on_result=on_result)
            result = yield from _compact_scope(call, compaction, scope, force=force)
            became_shorter = became_shorter or result.is_compacted
            if result.is_compacted and (yield from _size(call)) < goal:
                return True
            if strategy.how is not None and result.outcome in _MUTE:
                break  # no summary is to be had of the other scopes either
    return became_shorter


def _size(call: Call) -> Flow[int]:
    """What the model will report of the prompt as it would go out now, rather too much than too little."""
    prompt = yield from call.prompt()
    counter, tokens = log_of(call.address.sessions).tokens, call.model.prompt_tokens
    if tokens is None:
        tokens = counter.count_messages(prompt).messages + call.memory.budget.count_tools(
            call.model.tools, call.model.model
        )
    return call.model.usage.expect(tokens, is_exact=counter.exact)


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
        # What was loaded shows what is archived now.
        call.context = call.drafted = None
    return result


def prompt_costs(call: Call, sent: Sequence[BaseMessage]) -> dict[str, int]:
    """What the prompt of a call was made of, and what each part counts for.

    Args:
        call: The call.
        sent: What the model was asked at last, as far as it was heard: others may have added to it on the way.
    """
    budget, draft = call.memory.budget, call.drafted
    parts = {"template": budget.count_messages(call.added)}
    if draft is not None:
        parts["system prompt"] = budget.count_messages([draft.system] if draft.system else [])
        for event in draft.history:
            name = "root" if event.branch is None else f"branch {event.branch}"
            parts[name] = parts.get(name, 0) + event.tokens
    for name, said in (("few-shots", call.news.examples), ("running turn", call.news.tail)):
        parts[name] = budget.count_messages(said)
    added = (budget.count_messages(sent) if carries(sent, call.shown) else 0) - sum(parts.values())
    # Small differences come of how a prompt is made valid.
    parts["added on the way"] = added if added > max(_FEW, _SLIGHTLY * sum(parts.values())) else 0
    parts["tools"] = budget.count_tools(call.model.tools)
    return {name: tokens for name, tokens in parts.items() if tokens > _FRAME}
