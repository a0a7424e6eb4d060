"""A prompt that every provider accepts: one system block, what was remembered, what is being said."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_sessions._chat.call_ids import rename_calls
from langchain_sessions._chat.news import find_news, message_of, says_one_thing, turn_length
from langchain_sessions._chat.outbound import bounded, made_valid, mended
from langchain_sessions._chat.store_run import STORED
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.kinds import SYSTEM
from langchain_sessions._core.ledger import visible_scopes
from langchain_sessions._core.matching import query_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ROOTED
from langchain_sessions._core.view import pair_tool_calls
from langchain_sessions._log.log import log_of, read_rows
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import EventKind, SessionEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.selectors import not_empty
from langchain_sessions.stores._values import SearchedLogs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.news import News
    from langchain_sessions._chat.session_memory import ChatOptions, SessionMemory
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.page import Page
    from langchain_sessions.stores._values import ContextSlice, EventSlice, LogSlice
    from langchain_sessions.tokens import TokenCounter

# What is looked at of a busy log beside the running turn, and once where nothing there is what a graph's state holds.
_SLACK, _FURTHER = 8, 500

FILTER_KEY = "session_filter"
"""The key of `configurable` that narrows what one call sees."""

_IN_CONTEXT = frozenset({Standing.LIVE, Standing.INTERRUPTED})
_SYSTEM = frozenset({"system"})
# Sessions whose look-ups are remembered; a small tuple each.
_MOST_KNOWN = 1000
_MOST_READ = 8
"""So many system messages of a log are looked at again; where none of them stands, the log is looked through."""


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


class SystemLookups:
    """Where logs that are seen through a window have system messages: looked for once, and then in what was added.

    What an entry is never changes, where it stands does: so positions are kept, and the newest are read again.
    """

    def __init__(self) -> None:
        """Nothing was looked for yet."""
        self._lock = threading.Lock()
        self._known: OrderedDict[int, _Lookup] = OrderedDict()

    def find(self, options: ChatOptions, address: Address, found: ContextSlice) -> Flow[SystemMessage | None]:
        """The newest system message of a context whose newest part holds none."""
        log, version = log_of(address.sessions), found.session.last_seq
        known = self._known.get(found.session.skey) or _Lookup(0, (), is_cut=False)
        grown: list[EventRow] = []
        if known.upto < version:
            wanted = EventFilter(roles=_SYSTEM, after_seq=known.upto, before_seq=version + 1)
            grown = yield from _rows_of(address, wanted)
            seqs = (*known.seqs, *(row.seq for row in grown))
            self._note(found.session.skey, _Lookup(version, seqs[-_MOST_READ:], known.is_cut or len(seqs) > _MOST_READ))
        rows = [*(yield from _rows_at(address, known.seqs)), *grown]
        scopes = visible_scopes(options.branch)
        standing = [
            row
            for row in rows
            if found.view.standing(row) in _IN_CONTEXT and (row.flags & ROOTED or row.branch in scopes)
        ]
        if not standing and known.is_cut:
            wanted = EventFilter(roles=_SYSTEM, standings=_IN_CONTEXT, branch=options.branch, before_seq=version + 1)
            standing = yield from _rows_of(address, wanted)
        if not standing:
            return None
        # By place: an edit of an old one was logged late and stands early.
        message = log.codec.decode(address.session_id, max(standing, key=_place))
        return message if isinstance(message, SystemMessage) else None

    def _note(self, skey: int, lookup: _Lookup) -> None:
        with self._lock:
            self._known[skey] = lookup
            self._known.move_to_end(skey)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)


class _Lookup(NamedTuple):
    """How far a log was looked through, and the positions of the newest system messages that it held."""

    upto: int
    seqs: tuple[int, ...]
    is_cut: bool


def _place(row: EventRow) -> int:
    return row.place


def _rows_of(address: Address, wanted: EventFilter) -> Flow[list[EventRow]]:
    """What of a log meets a filter, as rows."""
    log = log_of(address.sessions)
    now = log.now()
    query = query_of(wanted, log.codec, idle_before=log.idle_before(now))
    found: EventSlice = yield from ask(log.store.find_events, log.key(address.session_id), query, now)
    return found.rows


def _rows_at(address: Address, seqs: tuple[int, ...]) -> Flow[list[EventRow]]:
    """The rows at some positions of a log."""
    if not seqs:
        return []
    log = log_of(address.sessions)
    now = log.now()
    scope = SearchedLogs(
        app=log.app, owner=log.owner, session_id=address.session_id, now=now, idle_before=log.idle_before(now)
    )
    found: list[LogSlice] = yield from ask(log.store.load_events, scope, {address.session_id: SeqSet.of(seqs)})
    return [row for log_slice in found for row in log_slice.rows.rows]


def load_context(
    memory: SessionMemory, address: Address, invocation_id: str | None, last_n: int | None, *, wants_system: bool
) -> Flow[PromptContext]:
    """What stands in the context for a run: all of it, or the newest so many and the newest system message."""
    sessions, session_id = address
    log, options = log_of(sessions), memory.options
    found = yield from read_rows(log, session_id, options.branch, invocation_id=invocation_id, last_n=last_n)
    context = PromptContext(
        tuple(log.encoder.event(session_id, row, found.view) for row in found.rows),
        is_whole=last_n is None or len(found.rows) < last_n,
        has_unfinished=bool(found.view.invocations),
        version=found.session.last_seq,
    )
    if context.is_whole or not wants_system or any(row.kind == SYSTEM for row in found.rows):
        return context
    return context._replace(older_system=(yield from memory.systems.find(options, address, found)))


def look_for_news(
    options: ChatOptions,
    address: Address,
    context: PromptContext,
    body: Sequence[BaseMessage],
    state: Sequence[BaseMessage],
) -> Flow[News]:
    """Tell what a request adds to the log.

    What a graph's state holds of earlier turns is no few-shot, and is not shown where the log took it back.
    """
    recent: Sequence[SessionEvent] = context.events
    size = 2 * turn_length(body) + _SLACK
    if context.has_unfinished or not says_one_thing(body):
        recent = yield from newest_messages(address, size, branch=options.branch)
    news = find_news(body, recent)
    if not state:
        return news
    if len(recent) >= size and (news.examples or _is_buried(body, recent)):
        # Others said a lot since, so what it holds is not among the newest.
        recent = yield from newest_messages(address, _FURTHER, branch=options.branch)
        news = find_news(body, recent)
    if not news.examples and not news.between:
        return news
    rewound = frozenset({Standing.REWOUND})
    taken_back = yield from newest_messages(address, _FURTHER, branch=options.branch, standings=rewound)
    gone = {message_of(event).id for event in taken_back} - {None}
    earlier = {id(message) for message in (*news.examples, *news.between) if message.id in gone}
    return find_news([message for message in body if id(message) not in earlier], recent) if earlier else news


def _is_buried(body: Sequence[BaseMessage], recent: Sequence[SessionEvent]) -> bool:
    """Whether a turn goes on whose question is not among the newest of the log."""
    asked = next((message for message in reversed(body) if isinstance(message, HumanMessage)), body[-1])
    return asked is not body[-1] and all(message_of(event).id != asked.id for event in recent)


def newest_messages(
    address: Address, last_n: int, *, branch: str | None, standings: frozenset[Standing] = STORED
) -> Flow[Sequence[SessionEvent]]:
    """The newest messages of the log, by default wherever those stand that it holds."""
    wanted = EventFilter(
        kinds=frozenset({EventKind.MESSAGE}),
        standings=standings,
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


def remembered(context: Iterable[SessionEvent], appended: frozenset[int], news: News) -> list[SessionEvent]:
    """What of a context a request does not carry itself.

    Where the request carries the running turn, what other writers logged since it began belongs behind it.
    """
    return [
        event for event in context if event.seq not in appended and (news.start is None or event.position < news.start)
    ]


def newest_system(context: Sequence[SessionEvent]) -> SystemMessage | None:
    """The system message that stands in a log: a newer one replaces the older."""
    system = (event.message for event in reversed(context) if isinstance(event.message, SystemMessage))
    return next(system, None)


def spoken(context: Iterable[SessionEvent]) -> list[SessionEvent]:
    """What was said, without system messages and, since checkpointers log them too, replies without a word."""
    said = (event for event in context if not isinstance(event.message, SystemMessage))
    return [event for event in said if not_empty.accepts(message_of(event))]


def with_whole_calls(history: Sequence[SessionEvent]) -> list[SessionEvent]:
    """A history whose calls stand with their results, for those who choose from it."""
    paired = pair_tool_calls(rename_calls([message_of(event) for event in history]))
    return [_with_message(history[at], message) for at, message in paired]


def chosen(history: Sequence[SessionEvent], messages: Sequence[BaseMessage]) -> list[SessionEvent]:
    """What a selector left of a history; its own copies of messages stand where the originals stood."""
    if not history:
        return []
    by_message = {id(event.message): event for event in history}
    by_id = {message_of(event).id: event for event in history if message_of(event).id}
    found = [(by_message.get(id(m)) or by_id.get(m.id or "") or history[-1], m) for m in messages]
    return [_with_message(event, message) for event, message in found]


def _with_message(event: SessionEvent, message: BaseMessage) -> SessionEvent:
    return event if event.message is message else replace(event, message=message)


def bounded_events(history: Sequence[SessionEvent], max_characters: int, counter: TokenCounter) -> list[SessionEvent]:
    """A history whose texts are at most so long, and what it counts for then: for modes, which make texts of it."""
    return [_bounded_event(event, max_characters, counter) for event in history]


def _bounded_event(event: SessionEvent, max_characters: int, counter: TokenCounter) -> SessionEvent:
    message = message_of(event)
    shorter = bounded(message, max_characters)
    if shorter is message:
        return event
    return replace(event, message=shorter, tokens=counter.count_message(shorter))


def from_question(history: Sequence[SessionEvent]) -> list[SessionEvent]:
    """A history from its first question on: what stands before it may lack its beginning."""
    first = next((at for at, event in enumerate(history) if isinstance(event.message, HumanMessage)), len(history))
    return list(history[first:])


def narrowed(
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
    return from_question(kept)


def assemble(
    system: SystemMessage | None,
    examples: Sequence[BaseMessage],
    history: Sequence[BaseMessage],
    tail: Sequence[BaseMessage],
    max_characters: int | None = None,
) -> list[BaseMessage]:
    """Put a prompt together: the system block, few-shots, what is remembered, what is being said."""
    before = [*examples, *(m for m in history if not isinstance(m, SystemMessage))]
    messages = [*before, *tail]
    if max_characters is not None:
        messages = [bounded(message, max_characters) for message in messages]
    valid = made_valid(messages, over=len(before))
    # One block in front: some providers take no second system message, or none behind the first question.
    shown = None if system is None else mended(system)
    # An empty text or no block at all is refused by some; a system message that says nothing is none.
    return valid if shown is None or not shown.content else [shown, *valid]
