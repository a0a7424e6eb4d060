"""Keeping a conversation around model calls: what the advisor and the middleware do before and after each."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core import exceptions
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_sessions._flow import Flow, ask
from langchain_sessions.adapters import prompts
from langchain_sessions.adapters.modes import MemoryMode, PromptDraft
from langchain_sessions.adapters.requests import (
    News,
    Remembered,
    Request,
    asking_event,
    find_news,
    says_one_thing,
    window_for,
)
from langchain_sessions.adapters.selecting import Selector, message_window, not_empty
from langchain_sessions.compaction.base import Compaction, ModelCall, Outcome
from langchain_sessions.compaction.windows import TurnWindow
from langchain_sessions.context import call_ids, pair_tool_calls
from langchain_sessions.errors import InvalidInputError, SessionEndedError, SessionNotFoundError
from langchain_sessions.events import EventKind, InvocationStatus, NewEvent, SessionEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.ids import check_branch
from langchain_sessions.rows import SYNTHETIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions.adapters.addressing import Address

_log = logging.getLogger(__name__)

FILTER_KEY = "session_filter"
"""The key of `configurable` that narrows what one call sees."""

_STORED = frozenset(Standing) - {Standing.REWOUND, Standing.SUPERSEDED}
_LAST_CALLS = 8
_OVERFLOW_CODES = ("context_length_exceeded", "string_above_max_length")


@dataclass(frozen=True, kw_only=True, slots=True)
class Keeping:
    """How a conversation is kept.

    Attributes:
        compaction: When and how to compact.
        branch: The agent's branch; None is root.
        author: Who answers.
        human: Who asks.
        store: Chooses which new messages are stored.
        show: Chooses which remembered messages a prompt shows.
        store_system: Whether system messages of a request are stored; a newer one replaces the older.
        store_examples: Whether few-shots of a request are stored.
        modes: How memory reaches the model; as messages where there is none.
    """

    compaction: Compaction | None = None
    branch: str | None = None
    author: str | None = None
    human: str | None = None
    store: Selector = not_empty
    show: Selector | None = None
    store_system: bool = False
    store_examples: bool = False
    modes: tuple[MemoryMode, ...] = ()


@dataclass(kw_only=True, slots=True)
class Running:
    """One model call in progress."""

    address: Address
    invocation_id: str
    request: Request
    news: News
    appended: tuple[SessionEvent, ...] = ()
    call: ModelCall = field(default_factory=ModelCall)
    configurable: Mapping[str, Any] = field(default_factory=dict[str, Any])
    context: tuple[Remembered, ...] | None = None

    @property
    def count(self) -> int:
        """How many messages of the run the log holds."""
        return self.news.stored + len(self.appended)


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
    loaded = yield from _opened(keeping, address)
    recent: Sequence[Remembered] = loaded.context
    if loaded.is_unsettled or not says_one_thing(request.body):
        recent = yield from _recent(keeping, address, window_for(request.body))
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
        running.context = (*loaded.context, *_seen(running.appended))
    yield from _index(keeping, running, running.appended)
    if keeping.compaction is not None and keeping.compaction.where == "before":
        yield from _compact(keeping, running, keeping.compaction, force=False)
    return running


class _Loaded(NamedTuple):
    """The context of a viewer, and whether some run of the session is not done."""

    context: tuple[Remembered, ...]
    is_unsettled: bool


def _opened(keeping: Keeping, address: Address) -> Flow[_Loaded]:
    """The context of a session, which is opened where there is none."""
    try:
        return (yield from _load(keeping, address, None))
    except SessionNotFoundError:
        yield from ask(address.sessions.open, address.session_id)
        return _Loaded((), is_unsettled=False)


def _load(keeping: Keeping, address: Address, invocation_id: str | None) -> Flow[_Loaded]:
    """What stands in the context, without what only an audit asks for: this runs with every call."""
    sessions, session_id = address
    now = sessions.now()
    found = yield from ask(
        sessions.store.load_context,
        sessions.key(session_id),
        keeping.branch,
        invocation_id,
        None,
        now,
        sessions.idle_before(now),
    )
    messages = sessions.codec.decode_all(session_id, found.rows)
    context = tuple(
        Remembered(
            row.id,
            row.seq,
            row.place,
            message,
            invocation_id=row.invocation_id,
            is_synthetic=bool(row.flags & SYNTHETIC),
        )
        for row, message in zip(found.rows, messages, strict=True)
    )
    return _Loaded(context, is_unsettled=bool(found.view.invocations))


def _recent(keeping: Keeping, address: Address, last_n: int) -> Flow[list[Remembered]]:
    """The newest messages of the log, wherever they stand now."""
    wanted = EventFilter(
        kinds=frozenset({EventKind.MESSAGE}),
        standings=_STORED,
        exclude_synthetic=True,
        branch=keeping.branch,
        last_n=last_n,
    )
    found = yield from ask(address.sessions.events, address.session_id, wanted)
    return _seen(found)


def _seen(events: Iterable[SessionEvent]) -> list[Remembered]:
    """Events as far as a prompt needs to know them."""
    return [
        Remembered(
            event.id,
            event.seq,
            event.position,
            event.message,
            event.standing,
            event.invocation_id,
            event.is_synthetic,
            event.error_code is not None,
        )
        for event in events
        if event.message is not None
    ]


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


def build(keeping: Keeping, running: Running) -> Flow[list[BaseMessage]]:
    """The prompt: one system block, few-shots, what is remembered, what is being said."""
    draft = yield from recall(keeping, running, whole=True)
    for mode in keeping.modes:
        draft = yield from mode.shape(draft)
    history = [event.message for event in draft.history]
    return prompts.assemble(draft.system, running.news.examples, history, draft.tail)


def recall(keeping: Keeping, running: Running, *, whole: bool = False) -> Flow[PromptDraft]:
    """What is remembered, before a mode gives it its form.

    Args:
        keeping: How the conversation is kept.
        running: The call.
        whole: A prompt will be made of it, which looks at tool calls once more in any case.
    """
    context = running.context
    if context is None:
        context = (yield from _load(keeping, running.address, running.invocation_id)).context
        running.context = context
    shown = prompts.remembered(context, frozenset(event.seq for event in running.appended), running.news)
    shown = yield from _narrowed(keeping, running, shown)
    system = prompts.merge_system(running.request.system or prompts.newest_system(shown))
    history = prompts.together([event for event in shown if not isinstance(event.message, SystemMessage)])
    if keeping.show is not None or keeping.modes or not whole:
        paired = pair_tool_calls([event.message for event in history])
        history = [history[at]._replace(message=message) for at, message in paired]
    if keeping.show is not None:
        history = _chosen(history, keeping.show([event.message for event in history]))
    return PromptDraft(
        address=running.address,
        system=system,
        history=tuple(history),
        tail=running.news.tail,
        configurable=running.configurable,
    )


def _chosen(history: Sequence[Remembered], messages: Sequence[BaseMessage]) -> list[Remembered]:
    """What a selector left of a history; its own copies of messages stand where the originals stood."""
    if not history:
        return []
    by_message = {id(event.message): event for event in history}
    by_id = {event.message.id: event for event in history if event.message.id}
    found = [(by_message.get(id(m)) or by_id.get(m.id or "") or history[-1], m) for m in messages]
    return [event._replace(message=message) for event, message in found]


def _narrowed(keeping: Keeping, running: Running, events: list[Remembered]) -> Flow[list[Remembered]]:
    """What a filter of this call leaves of a context; it never adds anything."""
    given = running.configurable.get(FILTER_KEY)
    if given is None:
        return events
    if not isinstance(given, EventFilter):
        raise InvalidInputError(FILTER_KEY, "give an EventFilter")
    # A window counts what the call would see without it: this branch, without what is being said.
    wanted = replace(EventFilter.active(), branch=keeping.branch).merge(given)
    if running.appended:
        begun = running.appended[0].seq
        wanted = replace(wanted, before_seq=min(begun, wanted.before_seq or begun))
    found = yield from ask(running.address.sessions.events, running.address.session_id, wanted)
    seqs = {event.seq for event in found}
    kept = [event for event in events if event.seq in seqs]
    first = next((at for at, event in enumerate(kept) if isinstance(event.message, HumanMessage)), len(kept))
    return kept[first:]


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
        message_types=frozenset({"ai"}), standings=_STORED, branch=check_branch(keeping.branch), last_n=_LAST_CALLS
    )
    recent = yield from ask(sessions.events, session_id, wanted)
    asked = asking_event(call_id, _seen(recent))
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


def window_of(last_n: int | None, show: Selector | None) -> Selector | None:
    """The window and the selector of a caller as one."""
    if last_n is None:
        return show
    window = message_window(last_n)
    return window if show is None else lambda messages: window(show(messages))
