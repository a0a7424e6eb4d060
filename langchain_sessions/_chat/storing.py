"""Appending the messages of a run, whatever ids and branches they come with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import visible_scopes
from langchain_sessions.errors import EventConflictError, EventNotFoundError
from langchain_sessions.events import EventKind, InvocationStatus, NewEvent, SessionEvent, Standing
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.running import Keeping, Running
    from langchain_sessions.page import Page

_STANDING = frozenset({Standing.LIVE, Standing.OPEN, Standing.INTERRUPTED})


def append(
    keeping: Keeping,
    running: Running,
    messages: Sequence[BaseMessage],
    status: InvocationStatus,
    *,
    is_reply: bool = False,
    **more: Any,
) -> Flow[list[SessionEvent]]:
    """Append messages as the next of a run, and say how far it has got.

    A message whose id the log has for another one is stored without it: some providers and clients count anew in each
    process or conversation, and what was said must not be lost for that. So is a message that a checkpointer logged
    for a subgraph, on a branch that the agent does not see.
    """
    run = running.invocation_id
    options: dict[str, Any] = {"invocation_status": status, "first_ordinal": running.count}
    events = [
        NewEvent(
            message=message,
            author=keeping.human if isinstance(message, HumanMessage) else keeping.author,
            branch=keeping.branch,
            invocation_id=run,
            **more,
        )
        for message in messages
    ]
    if not events:
        yield from mark(keeping, running.address, run, status)
        return []
    stored: list[SessionEvent] = yield from append_all(running.address, events, **options)
    seen = visible_scopes(keeping.branch)
    taken = [
        at for at, event in enumerate(stored) if event.branch not in seen or (is_reply and _is_earlier(event, run))
    ]
    if taken:
        events = [_unnamed(event) if at in taken else event for at, event in enumerate(events)]
        stored = yield from append_all(running.address, events, **options)
    return stored


def mark(keeping: Keeping, address: Address, run: str, status: InvocationStatus) -> Flow[None]:
    """Say how far a run has got."""
    sessions, session_id = address
    event = NewEvent(invocation_id=run, branch=keeping.branch)
    yield from ask(sessions.append, session_id, event, invocation_status=status)


def append_all(address: Address, events: Sequence[NewEvent], **options: Any) -> Flow[list[SessionEvent]]:
    """Append events; those whose id the log has for another message go without it.

    But for the question at hand: a graph may have replaced it (redacted, say) after a checkpoint logged it.
    """
    sessions, session_id = address
    replaced: set[str] = set()
    while True:
        try:
            return (yield from ask(sessions.append, session_id, events, **options))
        except EventConflictError as conflict:
            named = [event.message is not None and event.message.id == conflict.event_id for event in events]
            if not any(named):
                raise
            taken = conflict.event_id
        ours = events[named.index(True)]
        if taken not in replaced and (yield from _replace_question(address, ours)):
            replaced.add(taken)
        else:
            events = [_unnamed(event) if is_named else event for event, is_named in zip(events, named, strict=True)]


def _replace_question(address: Address, event: NewEvent) -> Flow[bool]:
    """Edit the newest message of the log, if it is a question under this one's id; whether it was."""
    sessions, session_id = address
    wanted = EventFilter(kinds=frozenset({EventKind.MESSAGE}), standings=_STANDING, branch=event.branch, last_n=1)
    newest: Page[SessionEvent] = yield from ask(sessions.events, session_id, wanted)
    asked = newest.items[0].message if newest.items else None
    if event.message is None or not isinstance(asked, HumanMessage) or asked.id != event.message.id:
        return False
    try:
        yield from ask(sessions.edit, session_id, event.message, author=event.author)
    except EventNotFoundError:
        return False  # rewound meanwhile
    return True


def _unnamed(event: NewEvent) -> NewEvent:
    """The event under an id that is made of its run and its place in it."""
    message = event.message
    return event if message is None else replace(event, message=message.model_copy(update={"id": None}))


def _is_earlier(stored: SessionEvent, run: str) -> bool:
    """Whether the log gave an earlier reply, of the same id and content, in answer."""
    is_reply = stored.message is not None and stored.message.type == "ai"
    return is_reply and stored.invocation_id not in (None, run)
