"""What a model is shown: what stands in the log for its call, and a prompt of it that every provider accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_sessions._chat.call_ids import rename_calls
from langchain_sessions._chat.graph_state import tell_apart
from langchain_sessions._chat.news import find_news, message_of, says_one_thing, turn_length
from langchain_sessions._chat.outbound import bounded, made_valid, mended
from langchain_sessions._chat.store_run import STORED
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.message_types import SYSTEM
from langchain_sessions._core.view import pair_tool_calls
from langchain_sessions._log.log import log_of, read_rows
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import EventKind, SessionEvent
from langchain_sessions.filters import EventFilter
from langchain_sessions.modes import PromptDraft
from langchain_sessions.selectors import not_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.language_models import BaseChatModel

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.call import Call
    from langchain_sessions._chat.graph_state import GraphState
    from langchain_sessions._chat.news import News
    from langchain_sessions._chat.session_memory import ChatOptions
    from langchain_sessions._tokens.base import TokenCounter
    from langchain_sessions.page import Page

# So many messages more than a window are loaded at least: it begins with a question, and tools answer in between.
_SLACK, _GROWTH = 8, 4

FILTER_KEY = "session_filter"
"""The key of `configurable` that narrows what one call sees."""


class PromptContext(NamedTuple):
    """What stands in the context of a session, as far as it was loaded.

    Attributes:
        events: The events in the order of a prompt.
        is_whole: Whether nothing older stands there.
        has_unfinished: Whether some invocation of the session is not done.
        version: How far the log went.
        older_system: The newest system message among what is older, where it was asked for.
    """

    events: tuple[SessionEvent, ...] = ()
    is_whole: bool = True
    has_unfinished: bool = False
    version: int = 0
    older_system: SystemMessage | None = None


def load_context(call: Call, invocation_id: str | None, last_n: int | None) -> Flow[PromptContext]:
    """What stands in the context for a run: all of it, or the newest so many and the newest system message."""
    sessions, session_id = address = call.address
    log, options = log_of(sessions), call.options
    found = yield from read_rows(log, session_id, options.branch, invocation_id=invocation_id, last_n=last_n)
    context = PromptContext(
        tuple(log.encoder.event(session_id, row, found.view) for row in found.rows),
        is_whole=last_n is None or len(found.rows) < last_n,
        has_unfinished=found.view.has_unfinished,
        version=found.session.last_seq,
    )
    wants_system = not call.request.system or options.store_system
    if context.is_whole or not wants_system or any(row.kind == SYSTEM for row in found.rows):
        return context
    return context._replace(older_system=(yield from call.memory.systems.find(options, address, found)))


def enough(call: Call, carried: int = 0) -> int | None:
    """How many of the newest messages to load at first for a call; None for all."""
    window = call.options.window
    if window is None or call.configurable.get(FILTER_KEY) is not None:
        return None
    return window + max(window // 2, _SLACK) + max(carried, turn_length(call.request.body))


def draft_of(call: Call) -> Flow[PromptDraft]:
    """What a call is shown of what is remembered, in the form that the modes give it."""
    options, log = call.options, log_of(call.address.sessions)
    context, shown = yield from _remembered(call)
    history = _history(call, context, shown)
    tail = call.news.tail
    if call.asides is not None:
        history = _with_whole_calls(call.asides.of_events(history, log.tokens))
        tail = tuple(call.asides.of_messages(tail))
    if options.show is not None:
        history = _chosen(history, options.show([message_of(event) for event in history]))
    if options.modes and options.max_characters is not None:
        history = [_bounded_event(event, options.max_characters, log.tokens) for event in history]
    system = merge_system(call.request.system) or newest_system(shown) or context.older_system
    draft = PromptDraft(
        address=call.address,
        system=system,
        history=tuple(history),
        tail=tail,
        configurable=call.configurable,
    )
    for mode in options.modes:
        draft = yield from mode.shape(draft)
    return draft


def _remembered(call: Call) -> Flow[tuple[PromptContext, list[SessionEvent]]]:
    """What of the context a request does not carry itself, as far back as the window goes."""
    size = enough(call)
    while True:
        context = call.context
        if context is None:
            context = call.context = yield from load_context(call, call.invocation_id, size)
        shown = _not_carried(call, context)
        if context.is_whole or len(_history(call, context, shown)) >= (call.options.window or 0):
            break
        # The turn at hand is long, or much is not shown: look further back.
        size, call.context = _GROWTH * len(context.events), None
    given = call.configurable.get(FILTER_KEY)
    if given is not None:
        begun = call.appended[0].seq if call.appended else None
        shown = yield from _narrowed(call.options, call.address, shown, given, begun)
    return context, shown


def _not_carried(call: Call, context: PromptContext) -> list[SessionEvent]:
    # Where the request carries the running turn, what other writers logged since it began belongs behind it.
    start, appended = call.news.start, frozenset(event.seq for event in call.appended)
    before = (event for event in context.events if start is None or event.position < start)
    shown = [event for event in before if event.seq not in appended]
    return call.state.without_gone(shown) if call.state.is_logged else shown


def _history(call: Call, context: PromptContext, shown: Sequence[SessionEvent]) -> list[SessionEvent]:
    """What was said, whole turns of it where the past is not known whole."""
    history = [event for event in _spoken(shown) if call.request.carries(message_of(event))]
    if not context.is_whole:
        history = _from_question(history)
    is_chosen_from = call.options.show is not None or call.options.modes
    return _with_whole_calls(history) if is_chosen_from else history


def look_for_news(
    options: ChatOptions,
    address: Address,
    context: PromptContext,
    body: Sequence[BaseMessage],
    state: GraphState,
) -> Flow[News]:
    """Tell what a request adds to the log; what a graph's state holds of earlier turns is no few-shot."""
    recent: Sequence[SessionEvent] = context.events
    size = 2 * turn_length(body) + _SLACK
    if context.has_unfinished or not says_one_thing(body):
        recent = yield from _newest_messages(address, size, branch=options.branch)
    news = find_news(body, recent, state.runs, is_thread=state.is_kept)
    if not state.messages:
        return news
    return (yield from tell_apart(options, address, news, body, recent, state=state))


def _newest_messages(address: Address, last_n: int, *, branch: str | None) -> Flow[Sequence[SessionEvent]]:
    """The newest messages of the log, wherever those stand that it holds."""
    wanted = EventFilter(
        kinds=frozenset({EventKind.MESSAGE}),
        standings=STORED,
        synthetic=False,
        branch=branch,
        last_n=last_n,
    )
    found: Page[SessionEvent] = yield from ask(address.sessions.events, address.session_id, wanted)
    return found.items


def merge_system(messages: Sequence[BaseMessage]) -> SystemMessage | None:
    """Several system messages as one block; a single one stays as it is."""
    if not messages:
        return None
    if len(messages) == 1 and isinstance(messages[0], SystemMessage):
        return messages[0]
    contents = [message.content for message in messages]
    if all(isinstance(content, str) for content in contents):
        return SystemMessage("\n\n".join(str(content) for content in contents))
    blocks: list[Any] = []
    for content in contents:
        blocks.extend([{"type": "text", "text": content}] if isinstance(content, str) else content)
    return SystemMessage(blocks)


def newest_system(context: Sequence[SessionEvent]) -> SystemMessage | None:
    """The system message that stands in a log: a newer one replaces the older."""
    system = (event.message for event in reversed(context) if isinstance(event.message, SystemMessage))
    return next(system, None)


def _spoken(context: Iterable[SessionEvent]) -> list[SessionEvent]:
    """What was said, without system messages and, since checkpointers log them too, replies without a word."""
    said = (event for event in context if not isinstance(event.message, SystemMessage))
    return [event for event in said if not_empty.accepts(message_of(event))]


def _with_whole_calls(history: Sequence[SessionEvent]) -> list[SessionEvent]:
    """A history whose calls stand with their results, for those who choose from it."""
    paired = pair_tool_calls(rename_calls([message_of(event) for event in history]))
    return [_with_message(history[at], message) for at, message in paired]


def _chosen(history: Sequence[SessionEvent], messages: Sequence[BaseMessage]) -> list[SessionEvent]:
    """What a selector left of a history; its own copies of messages stand where the originals stood."""
    if not history:
        return []
    by_message = {id(event.message): event for event in history}
    by_id = {message_of(event).id: event for event in history if message_of(event).id}
    found = [(by_message.get(id(m)) or by_id.get(m.id or "") or history[-1], m) for m in messages]
    return [_with_message(event, message) for event, message in found]


def _with_message(event: SessionEvent, message: BaseMessage) -> SessionEvent:
    return event if event.message is message else replace(event, message=message)


def _bounded_event(event: SessionEvent, max_characters: int, counter: TokenCounter) -> SessionEvent:
    message = message_of(event)
    shorter = bounded(message, max_characters)
    if shorter is message:
        return event
    return replace(event, message=shorter, tokens=counter.count_message(shorter))


def _from_question(history: Sequence[SessionEvent]) -> list[SessionEvent]:
    """A history from its first question on: what stands before it may lack its beginning."""
    first = next((at for at, event in enumerate(history) if isinstance(event.message, HumanMessage)), len(history))
    return list(history[first:])


def _narrowed(
    options: ChatOptions, address: Address, events: Sequence[SessionEvent], given: object, begun: int | None
) -> Flow[list[SessionEvent]]:
    """What a filter of one call leaves of a context; it never adds anything.

    Args:
        options: How the conversation is kept.
        address: The session.
        events: The context.
        given: The filter.
        begun: The first event of the call itself, which a window of the filter does not count.

    Raises:
        InvalidInputError: It is no filter.
    """
    if not isinstance(given, EventFilter):
        raise InvalidInputError(FILTER_KEY, "give an EventFilter")
    wanted = replace(EventFilter.active(), branch=options.branch).merge(given)
    if begun is not None:
        wanted = replace(wanted, before_seq=min(begun, wanted.before_seq or begun))
    found: Page[SessionEvent] = yield from ask(address.sessions.events, address.session_id, wanted)
    seqs = {event.seq for event in found}
    kept = [event for event in events if event.seq in seqs]
    return _from_question(kept)


def assemble(
    system: SystemMessage | None,
    examples: Sequence[BaseMessage],
    history: Sequence[BaseMessage],
    tail: Sequence[BaseMessage],
    *,
    max_characters: int | None = None,
    reader: BaseChatModel | None = None,
    tools: Sequence[object] = (),
    is_shortened: bool = False,
) -> list[BaseMessage]:
    """Put a prompt together: the system block, few-shots, what is remembered, what is being said."""
    before = [*examples, *(m for m in history if not isinstance(m, SystemMessage))]
    messages = [*before, *tail]
    if max_characters is not None:
        messages = [bounded(message, max_characters) for message in messages]
    valid = made_valid(messages, over=len(before), reader=reader, tools=tools, is_shortened=is_shortened)
    # One block in front: some providers take no second system message, or none behind the first question.
    shown = None if system is None else mended(system)
    # An empty text or no block at all is refused by some; a system message that says nothing is none.
    return valid if shown is None or not shown.content else [shown, *valid]
