"""What a conversation writes to the log: messages of a run under ids that the log can take, edits, tool results."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage, message_to_dict

from langchain_sessions._chat.news import asking_event, likeness
from langchain_sessions._core.codec.any_message import equal, ident_of
from langchain_sessions._core.codec.private_arguments import without_private
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import visible_scopes
from langchain_sessions._core.rows import MARKS
from langchain_sessions._core.view import call_ids
from langchain_sessions._log.append import append_events, move_message
from langchain_sessions._log.log import log_of
from langchain_sessions._log.read import find_events
from langchain_sessions.errors import CorruptRowError, EventConflictError, EventNotFoundError, InvalidInputError
from langchain_sessions.events import EventKind, InvocationStatus, NewEvent, SessionEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.selectors import WholeRuns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.news import News
    from langchain_sessions._chat.session_memory import ChatOptions
    from langchain_sessions.page import Page
    from langchain_sessions.selectors import Selector

_log = logging.getLogger(__name__)

STORED = frozenset(Standing) - {Standing.REWOUND, Standing.SUPERSEDED}
"""Where a message may stand that the log holds."""
_STANDING = frozenset({Standing.LIVE, Standing.OPEN, Standing.INTERRUPTED})
# So many replaced messages are looked at for an edit that the log itself undid.
_REVISIONS = 100
# Replies among which the call of a result is looked for: it is nearly always in the last one.
_LAST_CALLS = 8


def store_messages(
    options: ChatOptions,
    address: Address,
    messages: Sequence[BaseMessage],
    status: InvocationStatus,
    *,
    invocation_id: str,
    first_ordinal: int = 0,
    is_reply: bool = False,
    answers: int = 0,
    noted: Mapping[str, Any] | None = None,
    **more: Any,
) -> Flow[list[SessionEvent]]:
    """Append messages as the next of a run, and say how far it has got.

    A message whose id the log has for another one is stored without it: some providers and clients count anew in each
    process or conversation, and what was said must not be lost for that. A message that a checkpointer logged for a
    subgraph, on a branch that the agent does not see, moves to the agent's branch.
    What is noted stands beside the last message.

    Raises:
        EventNotFoundError: A rewind has taken back the position that they answer.
    """
    events = [
        NewEvent(
            message=message,
            author=options.author_of(message),
            branch=options.branch,
            invocation_id=invocation_id,
            metadata=noted if message is messages[-1] else None,
            **more,
        )
        for message in messages
    ]
    if not events:
        yield from mark_run(options, address, invocation_id, status)
        return []
    how: dict[str, Any] = {"invocation_status": status, "first_ordinal": first_ordinal, "answers": answers}
    stored: list[SessionEvent] = yield from append_all(address, events, **how)
    seen = visible_scopes(options.branch)
    for at, event in enumerate(stored):
        if event.branch not in seen and (yield from _moved(address, events[at])):
            stored[at] = replace(event, branch=options.branch, invocation_id=invocation_id)
    taken = [
        at
        for at, event in enumerate(stored)
        if event.branch not in seen or (is_reply and _is_earlier_reply(event, invocation_id))
    ]
    if taken:
        events = [_unnamed(event) if at in taken else event for at, event in enumerate(events)]
        stored = yield from append_all(address, events, **how)
    return stored


def _moved(address: Address, event: NewEvent) -> Flow[bool]:
    """Move a message to the branch of an event, and into its run; whether it still stood."""
    sessions, session_id = address
    try:
        yield from move_message(log_of(sessions), session_id, event)
    except EventNotFoundError:
        return False
    return True


def mark_run(options: ChatOptions, address: Address, invocation_id: str, status: InvocationStatus) -> Flow[None]:
    """Say how far a run has got."""
    sessions, session_id = address
    event = NewEvent(invocation_id=invocation_id, branch=options.branch)
    yield from append_events(log_of(sessions), session_id, event, invocation_status=status, is_ours=True)


def store_ending(options: ChatOptions, address: Address, news: News, invocation_id: str) -> Flow[News]:
    """Store what ended a run that no model of ours ended, such as a limit's answer.

    Returns:
        The news without it, as the log has it now.
    """
    ending = news.ended[invocation_id]
    kept = () if isinstance(options.store, WholeRuns) else options.store(ending)
    yield from store_messages(options, address, kept, InvocationStatus.DONE, invocation_id=invocation_id)
    stored = {id(message) for message in kept}
    return replace(news, tail=tuple(message for message in news.tail if id(message) not in stored))


def append_all(address: Address, events: Sequence[NewEvent], **how: Any) -> Flow[list[SessionEvent]]:
    """Append events; those whose id the log has for another message, or for one that is damaged, go under another.

    But for the question at hand: a graph may have replaced it (redacted, say) after a checkpoint logged it.
    """
    sessions, session_id = address
    replaced: set[str] = set()
    while True:
        try:
            return (yield from append_events(log_of(sessions), session_id, events, is_ours=True, **how))
        except (EventConflictError, CorruptRowError) as error:
            taken = error.event_id
            named = [event.message is not None and taken == _id_of(event, event.message) for event in events]
            if taken is None or not any(named):
                raise
            is_damaged = isinstance(error, CorruptRowError)
        ours = events[named.index(True)]
        if not is_damaged and taken not in replaced and (yield from _replace_question(address, ours)):
            replaced.add(taken)
        else:
            anew = _named_anew if is_damaged else _unnamed
            events = [anew(event) if is_named else event for event, is_named in zip(events, named, strict=True)]


def _replace_question(address: Address, event: NewEvent) -> Flow[bool]:
    """Edit the newest message of the log, if it is a question under this one's id; whether it was."""
    sessions, session_id = address
    wanted = EventFilter(kinds=frozenset({EventKind.MESSAGE}), standings=_STANDING, branch=event.branch, last_n=1)
    newest: Page[SessionEvent] = yield from ask(sessions.events, session_id, wanted)
    asked = newest.items[0].message if newest.items else None
    if event.id is not None or event.message is None or not isinstance(asked, HumanMessage):
        return False
    if asked.id != event.message.id:
        return False
    return (yield from _edit(address, event.message, event.author))


def _id_of(event: NewEvent, message: BaseMessage) -> str | None:
    return ident_of(message.id)[0] if event.id is None else event.id


def _unnamed(event: NewEvent) -> NewEvent:
    """The event under an id that is made of its run and its place in it."""
    message = event.message
    return event if message is None else replace(event, id=None, message=message.model_copy(update={"id": None}))


def _named_anew(event: NewEvent) -> NewEvent:
    """The event under another id than one that is damaged. Outside of runs what it says makes it: a repeat is none."""
    message, unnamed = event.message, _unnamed(event)
    if message is None or event.invocation_id is not None:
        return unnamed
    return replace(unnamed, id=f"instead:{_digest(event.id, event.branch, message)}")


def _is_earlier_reply(stored: SessionEvent, invocation_id: str) -> bool:
    """Whether the log gave an earlier reply, of the same id and content, in answer."""
    if stored.invocation_id in (None, invocation_id):
        return False  # nearly always, and so the message needs not be decoded
    return stored.message is not None and stored.message.type == "ai"


def told_by_content(example: BaseMessage, branch: str | None) -> BaseMessage:
    """A few-shot under an id that it makes itself: stored once, however often a template repeats it."""
    if example.id is not None:
        return example
    return example.model_copy(update={"id": f"example:{_digest(branch, example)}"})


def _digest(*about: str | BaseMessage | None) -> str:
    said = [message_to_dict(one) if isinstance(one, BaseMessage) else one for one in about]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


class CallMessages:
    """What of one call is stored: as `store` chooses, or all at once where that wants whole runs."""

    def __init__(self, store: Selector) -> None:
        """Nothing was said yet. `is_whole` says whether nothing is to be stored in parts."""
        self._store = store
        self.is_whole = isinstance(store, WholeRuns)
        self._held: list[BaseMessage] = []

    def question(self, fresh: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """What to store of a request."""
        if self.is_whole:
            self._held = list(fresh)
            return ()
        return self._store(fresh)

    def answer(self, said: Sequence[BaseMessage], *, awaits: bool) -> list[BaseMessage]:
        """What to store with a reply: of a whole run all of it, once no tool is to follow."""
        if self.is_whole:
            return [] if awaits else list(self._store([*self._held, *said]))
        return list(self._store(said)) if said else []

    def part(self, said: BaseMessage | None) -> list[BaseMessage]:
        """What to store of a reply that was broken off, or refused: nothing of it is a whole run."""
        return [] if said is None or self.is_whole else list(self._store([said]))


# -- edits of a graph ------------------------------------------------------------------------------------------


def take_up_edits(
    options: ChatOptions, address: Address, context: Sequence[SessionEvent], state: Sequence[BaseMessage]
) -> Flow[bool]:
    """Edit in the log what a graph's state holds in other words: redacted by a middleware, or by `update_state`.

    Only turns that are done are compared. Where the log itself was edited and the state still holds an earlier
    revision, the log is right.

    Returns:
        Whether the log was edited, so that a context that was loaded before is out of date.
    """
    asked = max((at for at, message in enumerate(state) if isinstance(message, HumanMessage)), default=0)
    if not asked:
        return False
    held = {message.id: message for event in context if (message := event.message) is not None and message.id}
    changed = [m for m in options.store(state[:asked]) if m.id in held and not _says_the_same(m, held[m.id])]
    if not changed:
        return False
    superseded = EventFilter(standings=frozenset({Standing.SUPERSEDED}), last_n=_REVISIONS)
    # Whatever views may see: what the log itself replaced is not to come back.
    log = replace(log_of(address.sessions), hide_superseded=False)
    earlier = yield from find_events(log, address.session_id, superseded)
    revisions = [(event.message.id, likeness(event.message)) for event in earlier if event.message is not None]
    newer = [m for m in changed if (m.id, likeness(without_private(m))) not in revisions]
    for message in newer:
        yield from _edit(address, message, options.author_of(message))
    return bool(newer)


def _edit(address: Address, message: BaseMessage, author: str | None) -> Flow[bool]:
    """Replace a message by its id; whether it was still there."""
    try:
        yield from ask(address.sessions.edit, address.session_id, message, author=author)
    except EventNotFoundError:
        return False  # rewound meanwhile
    return True


def _says_the_same(ours: BaseMessage, theirs: BaseMessage) -> bool:
    if equal(ours.content, theirs.content) and call_ids(ours) == call_ids(theirs) == []:
        return True
    return likeness(without_private(ours)) == likeness(theirs)


# -- results of tools ------------------------------------------------------------------------------------------


def keep_result(
    options: ChatOptions, address: Address, results: Sequence[BaseMessage], call_id: str, *, ends_turn: bool
) -> Flow[str | None]:
    """Store the results of a tool call as part of the run that made it; that run, where it is kept."""
    calling = None
    try:
        asking = yield from _asking(options, address, call_id)
        calling = None if asking is None else asking.invocation_id
        if asking is not None and calling is not None:
            is_over = ends_turn or (yield from _is_done(address, asking))
            status = InvocationStatus.DONE if is_over else InvocationStatus.OPEN
            kept = () if isinstance(options.store, WholeRuns) else options.store(results)
            yield from store_messages(options, address, kept, status, invocation_id=calling, answers=asking.seq)
    except Exception as error:  # noqa: BLE001 - the tool has acted; the next model call stores what it is shown
        _log.warning("A tool result was not stored yet: session %r: %s", address.session_id, type(error).__name__)
    return calling


def take_up_call(options: ChatOptions, address: Address, news: News) -> Flow[News]:
    """What results that stand alone continue, where their call was made longer ago than was looked at.

    Raises:
        InvalidInputError: The log has no such call, so that nobody could be shown them.
    """
    asked = [result.tool_call_id for result in news.fresh if isinstance(result, ToolMessage)]
    for call_id in asked:
        if (asking := (yield from _asking(options, address, call_id))) is not None:
            return replace(news, invocation_id=asking.invocation_id, answers=asking.seq)
    raise without_call(asked[0])


def without_call(call_id: str) -> InvalidInputError:
    """What to raise for a result that stands alone, and whose call the log has not got."""
    problem = f"the log has no call {call_id!r}, or a rewind took it back: send its question and its call along"
    return InvalidInputError("input", problem)


def _is_done(address: Address, asking: SessionEvent) -> Flow[bool]:
    """Whether the run of a reply is over: with a structured output beside its calls, whose results nobody waits for."""
    if asking.standing is Standing.OPEN or asking.invocation_id is None:
        return False
    # A thread may say of it that it is detached, which says nothing of the run.
    log = log_of(address.sessions)
    run = yield from ask(log.store.find_invocation, log.key(address.session_id), asking.invocation_id, log.now())
    return run is not None and run.status == MARKS["done"]


def fail_tool(options: ChatOptions, address: Address, call_id: str) -> Flow[None]:
    """A tool raised: the run that called it has failed, unless it goes on all the same."""
    try:
        asking = yield from _asking(options, address, call_id)
        if asking is not None and asking.invocation_id is not None:
            yield from mark_run(options, address, asking.invocation_id, InvocationStatus.FAILED)
    except Exception as error:  # noqa: BLE001 - the caller is told what went wrong with the tool
        _log.warning("A failed tool was not marked: session %r: %s", address.session_id, type(error).__name__)


def _asking(options: ChatOptions, address: Address, call_id: str) -> Flow[SessionEvent | None]:
    """The reply that made a call; None where something called that is not kept."""
    sessions, session_id = address
    wanted = EventFilter(roles=frozenset({"ai"}), standings=STORED, branch=options.branch, last_n=_LAST_CALLS)
    recent: Page[SessionEvent] = yield from ask(sessions.events, session_id, wanted)
    return asking_event(call_id, recent.items)
