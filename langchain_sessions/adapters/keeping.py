"""Keeping a conversation around model calls: what is stored before and after each."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from langchain_core import exceptions
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_sessions._flow import Flow, ask
from langchain_sessions.adapters import prompts
from langchain_sessions.adapters.recalling import STORED, as_remembered, newest_messages, open_context
from langchain_sessions.adapters.requests import (
    News,
    Remembered,
    Request,
    asking_event,
    find_news,
    says_one_thing,
    window_for,
)
from langchain_sessions.adapters.running import Keeping, Running
from langchain_sessions.compaction.base import Compaction, ModelCall, Outcome
from langchain_sessions.compaction.windows import TurnWindow
from langchain_sessions.context import call_ids
from langchain_sessions.errors import SessionEndedError, SessionNotFoundError
from langchain_sessions.events import InvocationStatus, NewEvent, SessionEvent
from langchain_sessions.filters import EventFilter
from langchain_sessions.ids import check_branch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions.adapters.addressing import Address

_log = logging.getLogger(__name__)

_LAST_CALLS = 8
_OVERFLOW_CODES = ("context_length_exceeded", "string_above_max_length")


def is_overflow(error: BaseException) -> bool:
    """Whether a provider says that the prompt exceeds its context window."""
    known = getattr(exceptions, "ContextOverflowError", None)
    if known is not None and isinstance(error, known):
        return True
    return getattr(error, "code", None) in _OVERFLOW_CODES


def begin(
    keeping: Keeping,
    address: Address,
    request: Request,
    *,
    run_id: str,
    call: ModelCall,
    configurable: Mapping[str, Any],
) -> Flow[Running]:
    """Open the session, store what is new in the request, compact if it is time.

    Raises:
        SessionNotFoundError: The session belongs to somebody else.
        SessionEndedError: It has ended.
    """
    loaded = yield from open_context(keeping, address)
    recent: Sequence[Remembered] = loaded.context
    if loaded.is_unsettled or not says_one_thing(request.body):
        recent = yield from newest_messages(keeping, address, window_for(request.body))
    news = find_news(request.body, [event for event in recent if not isinstance(event.message, SystemMessage)])
    running = Running(
        address=address,
        invocation_id=news.invocation_id or run_id,
        request=request,
        news=news,
        call=call,
        configurable=configurable,
    )
    system = _new_system(keeping, request, loaded.context)
    fresh = [*system, *(news.examples if keeping.store_examples else ()), *keeping.store(news.fresh)]
    running.appended = tuple((yield from _append(keeping, running, fresh, InvocationStatus.OPEN)))
    if news.invocation_id is None:
        running.context = (*loaded.context, *as_remembered(running.appended))
    yield from _index(keeping, running, running.appended)
    if keeping.compaction is not None and keeping.compaction.where == "before":
        yield from _compact(keeping, running, keeping.compaction, force=False)
    return running


def _new_system(keeping: Keeping, request: Request, context: Sequence[Remembered]) -> list[SystemMessage]:
    """The request's system message, if it is to be stored and says something new."""
    merged = prompts.merge_system(request.system)
    if merged is None or not keeping.store_system:
        return []
    stored = prompts.newest_system(context)
    return [] if stored and stored[0].content == merged.content else [merged]


def _append(
    keeping: Keeping, running: Running, messages: Sequence[BaseMessage], status: InvocationStatus, **more: Any
) -> Flow[list[SessionEvent]]:
    sessions, session_id = running.address
    events = [
        NewEvent(message=message, author=keeping.human if isinstance(message, HumanMessage) else keeping.author, **more)
        for message in messages
    ]
    return (
        yield from ask(
            sessions.append,
            session_id,
            events,
            branch=keeping.branch,
            invocation_id=running.invocation_id,
            invocation_status=status,
            first_ordinal=running.count,
        )
    )


def _compact(keeping: Keeping, running: Running, compaction: Compaction, *, force: bool) -> Flow[Outcome]:
    sessions, session_id = running.address
    result = yield from ask(
        sessions.compact,
        session_id,
        compaction,
        branch=keeping.branch,
        invocation_id=running.invocation_id,
        force=force,
        call=running.call,
        automatic=True,
    )
    if result.outcome is Outcome.COMPACTED:
        running.context = None
    return result.outcome


def make_room(keeping: Keeping, running: Running) -> Flow[bool]:
    """Compact after a provider refused the prompt as too long; whether that made it shorter."""
    given = keeping.compaction
    if given is not None and (yield from _compact(keeping, running, given, force=True)) is Outcome.COMPACTED:
        return True
    last_resort = Compaction(None, TurnWindow(max_turns=1), on_result=None if given is None else given.on_result)
    return (yield from _compact(keeping, running, last_resort, force=True)) is Outcome.COMPACTED


def finish(
    keeping: Keeping,
    running: Running,
    reply: AIMessage | None,
    *,
    consumed: Sequence[str] = (),
    results: Sequence[BaseMessage] = (),
    ended: bool = False,
) -> Flow[None]:
    """Store the reply. The run is done, unless the reply asks for tools.

    Args:
        keeping: How the conversation is kept.
        running: The call.
        reply: What the model said.
        consumed: Calls of the reply that a structured output was made from.
        results: Results of its calls that came with it.
        ended: Nobody will answer its calls.
    """
    said: list[BaseMessage] = [] if reply is None else list(keeping.store([reply, *results]))
    if said:
        said += [prompts.acknowledgement(call) for call in consumed]
    awaits = reply is not None and bool(call_ids(reply)) and not (consumed or ended)
    status = InvocationStatus.OPEN if awaits and said else InvocationStatus.DONE
    try:
        stored = yield from _append(keeping, running, said, status)
        yield from _index(keeping, running, stored)
        if keeping.compaction is not None and keeping.compaction.where == "background" and not awaits:
            sessions, session_id = running.address
            yield from ask(
                sessions.compact_later, session_id, keeping.compaction, branch=keeping.branch, call=running.call
            )
    except (SessionNotFoundError, SessionEndedError) as error:
        # Deleted or ended while the model spoke: the answer is still delivered.
        _log.warning("A reply was not stored: %s", error)


def interrupt(keeping: Keeping, running: Running, partial: AIMessage | None) -> Flow[None]:
    """The reader left: keep what arrived. A question that got no word of answer is not replayed."""
    if partial is None:
        yield from _append(keeping, running, [], InvocationStatus.FAILED)
    else:
        yield from _append(keeping, running, [partial], InvocationStatus.INTERRUPTED, interrupted=True)


def fail(keeping: Keeping, running: Running, partial: AIMessage | None, error: BaseException) -> Flow[None]:
    """The call failed: mark the run, and keep what arrived in a run of its own, out of a retry's way."""
    try:
        yield from _append(keeping, running, [], InvocationStatus.FAILED)
        if partial is not None:
            attempt = Running(
                address=running.address,
                invocation_id=f"{running.invocation_id}~{uuid.uuid4().hex[:8]}",
                request=running.request,
                news=running.news,
            )
            code = type(error).__name__
            yield from _append(keeping, attempt, [partial], InvocationStatus.FAILED, interrupted=True, error_code=code)
    except (SessionNotFoundError, SessionEndedError):
        return


def _index(keeping: Keeping, running: Running, events: Sequence[SessionEvent]) -> Flow[None]:
    for mode in keeping.modes:
        yield from mode.index(running.address, events)


def keep_result(
    keeping: Keeping, address: Address, results: Sequence[BaseMessage], call_id: str, *, ends_turn: bool
) -> Flow[None]:
    """Store the results of a tool call as part of the run that made it."""
    sessions, session_id = address
    wanted = EventFilter(
        message_types=frozenset({"ai"}), standings=STORED, branch=check_branch(keeping.branch), last_n=_LAST_CALLS
    )
    recent = yield from ask(sessions.events, session_id, wanted)
    asked = asking_event(call_id, as_remembered(recent))
    if asked is None or asked.invocation_id is None:
        return  # called by something that is not kept; the next model call stores what it is shown
    running = Running(
        address=address,
        invocation_id=asked.invocation_id,
        request=Request(system=(), body=()),
        news=News(invocation_id=asked.invocation_id),
    )
    status = InvocationStatus.DONE if ends_turn else InvocationStatus.OPEN
    yield from _append(keeping, running, keeping.store(results), status)
