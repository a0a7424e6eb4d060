"""What a conversation remembers, and the prompt that is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_sessions._chat import prompt as prompts
from langchain_sessions._chat.call_ids import rename_calls
from langchain_sessions._chat.news import Remembered
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import SYNTHETIC
from langchain_sessions._core.view import pair_tool_calls
from langchain_sessions._log.log import log_of
from langchain_sessions.errors import InvalidInputError, SessionNotFoundError
from langchain_sessions.events import EventKind, SessionEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.modes import PromptDraft
from langchain_sessions.selectors import not_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.running import Keeping, Running

FILTER_KEY = "session_filter"
"""The key of `configurable` that narrows what one call sees."""

STORED = frozenset(Standing) - {Standing.REWOUND, Standing.SUPERSEDED}
"""Where a message may stand that the log holds."""


class Loaded(NamedTuple):
    """The context of a viewer, whether some run of the session is not done, and how far the log went."""

    context: tuple[Remembered, ...]
    is_unsettled: bool
    last_seq: int = 0


def open_context(keeping: Keeping, address: Address) -> Flow[Loaded]:
    """The context of a session, which is opened where there is none."""
    try:
        return (yield from load_context(keeping, address, None))
    except SessionNotFoundError:
        yield from ask(address.sessions.open, address.session_id)
        return Loaded((), is_unsettled=False)


def load_context(keeping: Keeping, address: Address, invocation_id: str | None) -> Flow[Loaded]:
    """What stands in the context, without what only an audit asks for: this runs with every call."""
    sessions, session_id = address
    log = log_of(sessions)
    now = log.now()
    found = yield from ask(
        log.store.load_context,
        log.key(session_id),
        keeping.branch,
        invocation_id,
        None,
        now,
        log.idle_before(now),
    )
    rows = found.rows
    messages = log.codec.decode_all(session_id, rows)
    live = Standing.LIVE
    context = [
        Remembered(row.id, row.seq, row.place, message, live, row.invocation_id, row.flags & SYNTHETIC != 0)
        for row, message in zip(rows, messages, strict=True)
    ]
    return Loaded(tuple(context), is_unsettled=bool(found.view.invocations), last_seq=found.session.last_seq)


def newest_messages(keeping: Keeping, address: Address, last_n: int) -> Flow[list[Remembered]]:
    """The newest messages of the log, wherever they stand now."""
    wanted = EventFilter(
        kinds=frozenset({EventKind.MESSAGE}),
        standings=STORED,
        synthetic=False,
        branch=keeping.branch,
        last_n=last_n,
    )
    found = yield from ask(address.sessions.events, address.session_id, wanted)
    return as_remembered(found)


def as_remembered(events: Iterable[SessionEvent]) -> list[Remembered]:
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


def build(keeping: Keeping, running: Running) -> Flow[list[BaseMessage]]:
    """The prompt: one system block, few-shots, what is remembered, what is being said."""
    draft = yield from recall(keeping, running)
    history = [event.message for event in draft.history]
    return prompts.assemble(draft.system, running.news.examples, history, draft.tail)


def recall(keeping: Keeping, running: Running) -> Flow[PromptDraft]:
    """What is remembered, in the form that the modes give it."""
    context = running.context
    if context is None:
        context = (yield from load_context(keeping, running.address, running.invocation_id)).context
        running.context = context
    shown = prompts.remembered(context, frozenset(event.seq for event in running.appended), running.news)
    if FILTER_KEY in running.configurable:
        shown = yield from _narrowed(keeping, running, shown)
    system = prompts.merge_system(running.request.system or prompts.newest_system(shown))
    # A checkpointer logs replies without a word too.
    spoken = (event for event in shown if not isinstance(event.message, SystemMessage))
    history = [event for event in spoken if not_empty.accepts(event.message)]
    if keeping.show is not None or keeping.modes:
        paired = pair_tool_calls(rename_calls([event.message for event in history]))
        history = [history[at]._replace(message=message) for at, message in paired]
    if keeping.show is not None:
        history = _chosen(history, keeping.show([event.message for event in history]))
    draft = PromptDraft(
        address=running.address,
        system=system,
        history=tuple(history),
        tail=running.news.tail,
        configurable=running.configurable,
    )
    for mode in keeping.modes:
        draft = yield from mode.shape(draft)
    return draft


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
    given = running.configurable[FILTER_KEY]
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
