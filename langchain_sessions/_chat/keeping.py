"""Keeping a conversation around model calls: what is stored before and after each."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage, message_to_dict

from langchain_sessions._chat import prompt as prompts
from langchain_sessions._chat.edits import take_up_edits
from langchain_sessions._chat.news import (
    News,
    Remembered,
    Request,
    asking_event,
    find_news,
    says_one_thing,
    window_for,
)
from langchain_sessions._chat.outbound import acknowledgement
from langchain_sessions._chat.recalling import STORED, Loaded, as_remembered, newest_messages, open_context
from langchain_sessions._chat.running import Keeping, Running
from langchain_sessions._chat.storing import append, mark
from langchain_sessions._core.edge import check_branch
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import TURN_OF
from langchain_sessions._core.view import call_ids
from langchain_sessions.compaction.plan import Compaction, CompactionResult, ModelCall
from langchain_sessions.compaction.triggers import known_window
from langchain_sessions.compaction.windows import TurnWindow
from langchain_sessions.errors import ReplyNotStoredError, SessionEndedError, SessionNotFoundError
from langchain_sessions.events import InvocationStatus, SessionEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.selectors import not_empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._chat.address import Address

_log = logging.getLogger(__name__)

_LAST_CALLS = 8


def begin(
    keeping: Keeping,
    address: Address,
    request: Request,
    *,
    run_id: str,
    call: ModelCall,
    configurable: Mapping[str, Any],
    state: Sequence[BaseMessage] = (),
) -> Flow[Running]:
    """Open the session, store what is new in the request, compact if it is time.

    Args:
        keeping: How the conversation is kept.
        address: The session.
        request: What the model is asked.
        run_id: Names the run, where it is a new one.
        call: What is known of the model call.
        configurable: The `configurable` of the call.
        state: What the graph holds around the call; edits in it are taken up.

    Raises:
        SessionNotFoundError: The session belongs to somebody else.
        SessionEndedError: It has ended.
    """
    loaded = yield from open_context(keeping, address)
    loaded = yield from take_up_edits(keeping, address, loaded, state)
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
    try:
        yield from _store_request(keeping, running, loaded)
    except BaseException as error:
        yield from fail(keeping, running, None, error)
        raise
    return running


def _store_request(keeping: Keeping, running: Running, loaded: Loaded) -> Flow[None]:
    """Store what is new in a request, and compact if it is time."""
    news = running.news
    for run in news.given_up:
        yield from mark(keeping, running.address, run, InvocationStatus.FAILED)
    system = _new_system(keeping, running.request, loaded.context)
    examples = [_told_by_content(m, keeping.branch) for m in news.examples] if keeping.store_examples else []
    fresh = [*system, *examples, *keeping.store(news.fresh)]
    if fresh or not news.is_open:
        running.appended = tuple((yield from append(keeping, running, fresh, InvocationStatus.OPEN)))
        yield from _adopt(keeping, running, loaded.last_seq)
    if news.invocation_id is None:
        running.context = (*loaded.context, *as_remembered(running.appended))
    if keeping.compaction is not None and keeping.compaction.where == "before":
        yield from _compact(keeping, running, keeping.compaction, force=False)


def _adopt(keeping: Keeping, running: Running, last_seq: int) -> Flow[None]:
    """Take up the runs of questions that a checkpoint logged between the look at the log and the append."""
    events = [event for event in as_remembered(running.appended) if event.seq > last_seq]
    met = [event.run for event in events if event.run is not None and event.run.startswith(TURN_OF)]
    if not met:
        return
    if all(event.invocation_id is None for event in events):
        running.invocation_id = met[-1]
        yield from mark(keeping, running.address, met[-1], InvocationStatus.OPEN)
    others = {run: Standing.LIVE for run in met if run != running.invocation_id}
    running.news = replace(running.news, others={**running.news.others, **others})


def _new_system(keeping: Keeping, request: Request, context: Sequence[Remembered]) -> list[SystemMessage]:
    """The request's system message, if it is to be stored and says something new."""
    merged = prompts.merge_system(request.system)
    if merged is None or not keeping.store_system:
        return []
    stored = prompts.newest_system(context)
    return [] if stored and stored[0].content == merged.content else [merged]


def _told_by_content(example: BaseMessage, branch: str | None) -> BaseMessage:
    """A few-shot under an id that it makes itself: stored once, however often a template repeats it."""
    if example.id is not None:
        return example
    content = json.dumps([branch, message_to_dict(example)], sort_keys=True, default=str)
    return example.model_copy(update={"id": f"example:{hashlib.sha256(content.encode()).hexdigest()}"})


def _compact(keeping: Keeping, running: Running, compaction: Compaction, *, force: bool) -> Flow[CompactionResult]:
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
    if result.is_compacted:
        running.context = None
    return result


def make_room(keeping: Keeping, running: Running) -> Flow[bool]:
    """Compact after a provider refused the prompt as too long; whether that made it shorter."""
    given = keeping.compaction
    if given is not None:
        result = yield from _compact(keeping, running, given, force=True)
        # A long history is summarised in steps; the call at hand cannot wait for the last of them.
        window = known_window(running.call)
        if result.is_compacted and (window is None or result.tokens_after < window):
            return True
    last_resort = Compaction(None, TurnWindow(max_turns=1), on_result=None if given is None else given.on_result)
    return (yield from _compact(keeping, running, last_resort, force=True)).is_compacted


def finish(
    keeping: Keeping,
    running: Running,
    said: Sequence[BaseMessage],
    *,
    consumed: Sequence[str] = (),
    ended: bool = False,
) -> Flow[None]:
    """Store what was answered. The run is done, unless it asks for tools.

    Args:
        keeping: How the conversation is kept.
        running: The call.
        said: The reply, with the calls and the results that came with it.
        consumed: Calls of the reply that a structured output was made from.
        ended: Nobody will answer its calls.

    Raises:
        ReplyNotStoredError: It could not be stored, and `on_store_error` is `raise`.
    """
    answered = {message.tool_call_id for message in said if isinstance(message, ToolMessage)}
    awaits = not (consumed or ended) and any(call not in answered for message in said for call in call_ids(message))
    kept: list[BaseMessage] = list(keeping.store(said)) if said else []
    if kept:
        kept += [acknowledgement(call) for call in consumed]
    status = InvocationStatus.OPEN if awaits and kept else InvocationStatus.DONE
    if said and not not_empty(said) and not any(isinstance(message, AIMessage) for message in running.news.tail):
        status = InvocationStatus.FAILED  # an answer without a word leaves the question unanswered
    try:
        stored = yield from append(keeping, running, kept, status, is_reply=True)
        for run, standing in running.news.others.items():
            if standing is not Standing.LIVE:
                yield from mark(keeping, running.address, run, status)
        # Only now: a question that is its own best match would take a place among what it recalls.
        yield from _index(keeping, running, [*running.appended, *stored])
        if keeping.compaction is not None and keeping.compaction.where == "background" and not awaits:
            sessions, session_id = running.address
            yield from ask(
                sessions.compact_later, session_id, keeping.compaction, branch=keeping.branch, call=running.call
            )
    except (SessionNotFoundError, SessionEndedError) as error:
        # Deleted or ended while the model spoke: the answer is still delivered.
        _log.warning("A reply was not stored: %s", error)
    except Exception as error:
        _report(running, "The answer was delivered but not stored", error)
        if keeping.on_store_error == "raise":
            raise ReplyNotStoredError(running.address.session_id, said) from error
    except BaseException:
        # Cancelled on the way. The answer is there, and to append it again stores nothing twice.
        yield from append(keeping, running, kept, status, is_reply=True)
        raise


def _report(running: Running, what: str, error: Exception) -> None:
    """Say in the log what the store did not take; no text of messages, no driver's words."""
    name = type(error).__name__
    _log.error("%s: session %r, run %r: %s", what, running.address.session_id, running.invocation_id, name)


def interrupt(
    keeping: Keeping, running: Running, partial: AIMessage | None, *, steps: Sequence[BaseMessage] = ()
) -> Flow[None]:
    """The reader left: keep what arrived. A question that got no word of answer is not replayed."""
    status = InvocationStatus.INTERRUPTED if steps or partial is not None else InvocationStatus.FAILED
    try:
        if steps:
            done = yield from append(keeping, running, keeping.store(steps), status)
            running.appended += tuple(done)
        if partial is not None:
            yield from append(keeping, running, [partial], status, interrupted=True)
        elif not steps:
            yield from append(keeping, running, [], status)
        if status is InvocationStatus.INTERRUPTED:
            yield from _index(keeping, running, running.appended)
    except Exception as error:  # noqa: BLE001 - nobody is left to tell but the log
        _report(running, "What arrived before the reader left was not stored", error)


def fail(keeping: Keeping, running: Running, partial: AIMessage | None, error: BaseException) -> Flow[None]:
    """The call failed: mark the run, and keep what arrived in a run of its own, out of a retry's way."""
    try:
        yield from append(keeping, running, [], InvocationStatus.FAILED)
        for run in running.news.others:
            yield from mark(keeping, running.address, run, InvocationStatus.FAILED)
        if partial is not None:
            attempt = Running(
                address=running.address,
                invocation_id=f"attempt:{uuid.uuid4().hex}",
                request=running.request,
                news=running.news,
            )
            code = type(error).__name__
            yield from append(keeping, attempt, [partial], InvocationStatus.FAILED, interrupted=True, error_code=code)
    except (SessionNotFoundError, SessionEndedError):
        return
    except Exception as unmarked:  # noqa: BLE001 - the caller is told what went wrong with the call itself
        _report(running, "A failed call was not marked", unmarked)


def _index(keeping: Keeping, running: Running, events: Sequence[SessionEvent]) -> Flow[None]:
    for mode in keeping.modes:
        yield from mode.index(running.address, events)


def keep_result(
    keeping: Keeping, address: Address, results: Sequence[BaseMessage], call_id: str, *, ends_turn: bool
) -> Flow[None]:
    """Store the results of a tool call as part of the run that made it."""
    try:
        running = yield from _calling(keeping, address, call_id)
        if running is not None:
            status = InvocationStatus.DONE if ends_turn else InvocationStatus.OPEN
            yield from append(keeping, running, keeping.store(results), status)
    except Exception as error:  # noqa: BLE001 - the tool has acted; the next model call stores what it is shown
        _log.warning("A tool result was not stored yet: session %r: %s", address.session_id, type(error).__name__)


def fail_call(keeping: Keeping, address: Address, call_id: str) -> Flow[None]:
    """A tool raised: the run that called it has failed, unless it goes on all the same."""
    try:
        running = yield from _calling(keeping, address, call_id)
        if running is not None:
            yield from mark(keeping, address, running.invocation_id, InvocationStatus.FAILED)
    except Exception as error:  # noqa: BLE001 - the caller is told what went wrong with the tool
        _log.warning("A failed tool was not marked: session %r: %s", address.session_id, type(error).__name__)


def _calling(keeping: Keeping, address: Address, call_id: str) -> Flow[Running | None]:
    """The run that made a call; None where something called that is not kept."""
    sessions, session_id = address
    wanted = EventFilter(
        roles=frozenset({"ai"}), standings=STORED, branch=check_branch(keeping.branch), last_n=_LAST_CALLS
    )
    recent = yield from ask(sessions.events, session_id, wanted)
    asked = asking_event(call_id, as_remembered(recent))
    if asked is None or asked.invocation_id is None:
        return None
    return Running(
        address=address,
        invocation_id=asked.invocation_id,
        request=Request(system=(), body=()),
        news=News(invocation_id=asked.invocation_id),
    )
