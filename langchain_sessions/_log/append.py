"""Appending to logs: what a service offers, and how it is done."""

from __future__ import annotations

import uuid
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.messages import BaseMessage

from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.values import as_dict
from langchain_sessions._core.edge import bounded, require, told_methods
from langchain_sessions._core.event_encoding import as_events
from langchain_sessions._core.flow import LARGE, Flow, adrive, ask, computed, drive
from langchain_sessions._core.matching import EventQuery
from langchain_sessions._core.message_types import HUMAN
from langchain_sessions._core.packed_texts import NOTHING_PACKED
from langchain_sessions._core.state import TEMP, dump_delta
from langchain_sessions._log.lifecycle import get_session
from langchain_sessions._log.log import after_append
from langchain_sessions.events import InvocationStatus, NewEvent, SessionEvent
from langchain_sessions.stores._values import AppendBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions._log.log import Log
    from langchain_sessions._log.order import CallOrder, Place


T = TypeVar("T")
# The constructor of a named tuple takes twice as long.
_tuple = tuple.__new__
_MOST_NESTED = 3
_NOTHING_SHARED = (None, None, None, None, None)


@told_methods
class AppendMethods:
    """The methods of `SessionService` that append. Each is a workflow of this module, run in two ways."""

    _log: Log

    def append(
        self,
        session_id: str,
        messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent],
        *,
        branch: str | None = None,
        author: str | None = None,
        invocation_id: str | None = None,
        invocation_status: InvocationStatus | None = None,
        first_ordinal: int = 0,
        state_delta: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | None = None,
        expected_version: int | None = None,
    ) -> list[SessionEvent]:
        """Append messages or prepared events: all of them or none, in one transaction.

        Idempotent by event id: a message with an id, or any message within an invocation, is stored once however
        often the append is repeated. A message that is stored already is returned as it stands.

        Args:
            session_id: The session.
            messages: A message, a `NewEvent`, or several.
            branch: Dotted path of the agent; None is root.
            author: Who speaks.
            invocation_id: The run that they belong to.
            invocation_status: How far that run has got with this append; events may name the run themselves.
            first_ordinal: Position of the first message within its invocation; a handle counts for you.
            state_delta: Changes of state; they take effect with the first event.
            metadata: The caller's own data, for each event that has none.
            timestamp: When it happened, aware; by default now.
            expected_version: Append only if the log is at this version.

        Returns:
            An event for each message, in order; streaming chunks (`partial`) are left out.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            SessionEndedError: It has ended.
            StaleSessionError: The log is at another version; nothing was written.
            EventConflictError: An event id stands with another message; nothing was written.
            CorruptRowError: An event id stands with a message that cannot be read; nothing was written.
            InvalidInputError: A value cannot be stored exactly; nothing was written.
        """
        return drive(
            append_events(
                self._log,
                session_id,
                messages,
                branch=branch,
                author=author,
                invocation_id=invocation_id,
                invocation_status=invocation_status,
                first_ordinal=first_ordinal,
                state_delta=state_delta,
                metadata=metadata,
                timestamp=timestamp,
                expected_version=expected_version,
            )
        )

    async def aappend(
        self,
        session_id: str,
        messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent],
        *,
        branch: str | None = None,
        author: str | None = None,
        invocation_id: str | None = None,
        invocation_status: InvocationStatus | None = None,
        first_ordinal: int = 0,
        state_delta: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | None = None,
        expected_version: int | None = None,
    ) -> list[SessionEvent]:
        """Async `append`."""
        return await adrive(
            append_events(
                self._log,
                session_id,
                messages,
                branch=branch,
                author=author,
                invocation_id=invocation_id,
                invocation_status=invocation_status,
                first_ordinal=first_ordinal,
                state_delta=state_delta,
                metadata=metadata,
                timestamp=timestamp,
                expected_version=expected_version,
            )
        )

    def edit(
        self,
        session_id: str,
        message: BaseMessage,
        *,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionEvent:
        """Replace a message by its id. The old revision stays in the log; the new one takes its place.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: No message of that id stands in the log.
            InvalidInputError: The message has no id.
        """
        return drive(edit_message(self._log, session_id, message, author=author, metadata=metadata))

    async def aedit(
        self,
        session_id: str,
        message: BaseMessage,
        *,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionEvent:
        """Async `edit`."""
        return await adrive(edit_message(self._log, session_id, message, author=author, metadata=metadata))


def append_events(
    log: Log,
    session_id: str,
    messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent],
    *,
    branch: str | None = None,
    author: str | None = None,
    invocation_id: str | None = None,
    invocation_status: InvocationStatus | None = None,
    first_ordinal: int = 0,
    state_delta: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    timestamp: datetime | None = None,
    expected_version: int | None = None,
    answers: int = 0,
    is_ours: bool = False,
) -> Flow[list[SessionEvent]]:
    """`SessionService.append`; nothing is appended where the position that it answers was taken back."""
    key = log.key(session_id)
    if expected_version is not None:
        require(type(expected_version) is int, "expected_version", "give the version of a session, a whole number")
        expected_version = bounded(expected_version, -1)
    shared = None
    if (branch, author, invocation_id, metadata, timestamp) != _NOTHING_SHARED:
        shared = NewEvent(
            branch=branch, author=author, invocation_id=invocation_id, metadata=metadata, timestamp=timestamp
        )
    events = as_events(messages, shared)
    delta = None
    if state_delta:
        events, delta = _with_delta(events, as_dict(state_delta, "state_delta"), shared)
    marks: dict[int, int] = {}
    if invocation_status is not None:
        marks = _marks_of(invocation_status, len(events) or 1)
        require(invocation_id or _all_in_a_run(events), "invocation_status", "needs an invocation_id")
        events = events or [NewEvent(invocation_id=invocation_id, branch=branch)]
        yield from () if is_ours else _require_question(log, key, events[next(iter(marks))])
    if not events:
        yield from get_session(log, session_id)
        return []
    now, encoder, first, place = log.now(), log.encoder, events[0], None
    # What is no message is told by the encoder, with the way out.
    if (
        len(events) == 1
        and not isinstance(first, NewEvent)
        and type(said := getattr(first, "content", None)) is str
        and len(said) < LARGE
    ):
        rows: tuple[EventRow, ...] = (encoder.message_row(first, now, delta=delta),)
        is_bare = delta is None
    else:
        encoding = partial(_rows_of, encoder=encoder, now=now, ordinal=first_ordinal, marks=marks, delta=delta)
        (rows, is_bare), place = yield from _encoded(log, key, events, encoding)
    idle = now - log.invocation_timeout
    given = (rows, now, log.codec.repeats, expected_version, False, idle, False, is_bare, answers, NOTHING_PACKED)
    batch = _tuple(AppendBatch, given)
    appending = ask(log.store.append_events, key, batch)
    appended = yield from _in_turn(log, key, place, batch, appending) if log.shared.under_way else appending
    recall = after_append(log, key, appended.version, rows)
    if recall is not None:
        yield from recall
    if (view := appended.view) is None and is_bare:
        return [encoder.bare(session_id, row) for row in appended.rows]
    return [encoder.appended(session_id, row, view) for row in appended.rows]


def _encoded(
    log: Log,
    key: SessionKey,
    events: Sequence[BaseMessage | NewEvent],
    encoding: Callable[[Sequence[BaseMessage | NewEvent]], T],
) -> Flow[tuple[T, Place | None]]:
    """What is made of events. Of long ones that is done beside their caller, of copies, and they keep their place."""
    size = said_in(events)
    if size < LARGE:
        return encoding(events), None
    held = [_held_event(event, size) for event in events]
    order = _order_of(log)
    place = yield from ask(order.enter, key)
    try:
        return (yield from computed(size, partial(encoding, held))), place
    except BaseException:
        order.leave(place)
        raise


def _in_turn(log: Log, key: SessionKey, place: Place | None, batch: AppendBatch, work: Flow[T]) -> Flow[T]:
    # Several of these at once are one transaction, in their order; any other takes turns, in no order that is sure.
    travels = batch.is_bare and batch.expected_version is None and not batch.answers
    return _order_of(log).in_turn(key, place, work, travels=travels)


def _order_of(log: Log) -> CallOrder:
    from langchain_sessions._log.order import CallOrder

    return CallOrder(log.shared.under_way)


def _rows_of(
    events: Sequence[BaseMessage | NewEvent],
    encoder: EventEncoder,
    now: int,
    ordinal: int,
    marks: Mapping[int, int],
    *,
    delta: str | None,
) -> tuple[tuple[EventRow, ...], bool]:
    """The rows of events, of which some are marked and the first may bring a change of state.

    Also, whether all of them are messages, of which no more is said.
    """
    rows: list[EventRow] = []
    is_bare = delta is None
    for at, event in enumerate(events):
        if isinstance(event, NewEvent):
            is_bare = False
            row = encoder.row(event, now, ordinal=ordinal + at, mark=marks.get(at, 0))
        else:
            row = encoder.message_row(event, now, delta=None if rows else delta)
        rows.append(row)
    return tuple(rows), is_bare


def edit_message(
    log: Log,
    session_id: str,
    message: BaseMessage,
    *,
    author: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Flow[SessionEvent]:
    """`SessionService.edit`."""
    require(
        isinstance(message, BaseMessage),
        "message",
        "give the new message with the id of the one that it replaces, such as edit('s1', HumanMessage('hi', id='q1'))",
    )
    require(message.id, "message", "needs the id of the message that it replaces")
    now = log.now()
    # With an id of its own: under that of the message it would be taken for the append that it replaces.
    key, event = log.key(session_id), NewEvent(id=uuid.uuid4().hex, message=message, author=author, metadata=metadata)
    encoding = partial(_rows_of, encoder=log.encoder, now=now, ordinal=0, marks={}, delta=None)
    (rows, _), place = yield from _encoded(log, key, [event], encoding)
    batch = AppendBatch(
        rows=rows,
        now=now,
        same=log.codec.repeats,
        replaces_only=True,
        idle_before=log.idle_before(now),
    )
    appending = ask(log.store.append_events, key, batch)
    appended = yield from _in_turn(log, key, place, batch, appending) if log.shared.under_way else appending
    return log.encoder.appended(session_id, appended.rows[0], appended.view)


def move_message(log: Log, session_id: str, event: NewEvent) -> Flow[SessionEvent]:
    """Log a standing message once more, as a revision on another branch and of another run.

    Raises:
        EventNotFoundError: It stands no longer.
    """
    now = log.now()
    row = log.encoder.row(replace(event, id=uuid.uuid4().hex), now)
    idle = log.idle_before(now)
    batch = AppendBatch(rows=(row,), now=now, same=log.codec.repeats, replaces_only=True, idle_before=idle, moves=True)
    appended = yield from ask(log.store.append_events, log.key(session_id), batch)
    return log.encoder.appended(session_id, appended.rows[0], appended.view)


def said_in(events: Sequence[BaseMessage | NewEvent]) -> int:
    """About how many characters there are to count in events."""
    size = 0
    for event in events:
        content: object = getattr(event.message if isinstance(event, NewEvent) else event, "content", None)
        if isinstance(content, str):
            size += len(content)
        elif isinstance(content, list):
            size += sum(_characters(block) for block in cast("list[object]", content))
    return size


def _characters(block: object, depth: int = 0) -> int:
    """Of a block of text or of an image, as deep as providers nest it."""
    if isinstance(block, dict) and depth < _MOST_NESTED:
        return sum(_characters(value, depth + 1) for value in cast("dict[str, object]", block).values())
    return len(block) if isinstance(block, str) else 0


def _held(message: BaseMessage, size: int) -> BaseMessage:
    """A message as it is now: of what is encoded beside its caller, a copy, since he may change it meanwhile."""
    if size < LARGE:
        return message
    try:
        return deepcopy(message)
    except Exception:  # noqa: BLE001 - what it holds may refuse that with any error, and is stored all the same
        return message


def _held_event(event: BaseMessage | NewEvent, size: int) -> BaseMessage | NewEvent:
    if not isinstance(event, NewEvent):
        return _held(event, size)
    return event if event.message is None else replace(event, message=_held(event.message, size))


def _marks_of(status: InvocationStatus, count: int) -> dict[int, int]:
    """How far an invocation has got: its first row says that it is open, its last that it is over."""
    require(isinstance(status, InvocationStatus), "invocation_status", "give a member of InvocationStatus")
    return {0 if status is InvocationStatus.OPEN else count - 1: r.MARKS[status.value]}


def _require_question(log: Log, key: SessionKey, marked: BaseMessage | NewEvent) -> Flow[None]:
    """Refuse to say how a question's run got on before it was asked: it would stand so, and be counted otherwise."""
    run = marked.invocation_id if isinstance(marked, NewEvent) else None
    if run is None or not run.startswith(r.TURN_OF):
        return
    wanted = EventQuery(kinds=frozenset({HUMAN}), idents=frozenset({run[len(r.TURN_OF) :]}), limit=1)
    found = yield from ask(log.store.find_events, key, wanted, log.now())
    problem = f"{run!r} is the run of a question that the log has not: append it first, or name the run otherwise"
    require(found.rows, "invocation_id", problem)


def _all_in_a_run(events: Sequence[BaseMessage | NewEvent]) -> bool:
    """Whether there are events and each names its run itself."""
    return bool(events) and all(isinstance(event, NewEvent) and event.invocation_id is not None for event in events)


def _with_delta(
    events: list[BaseMessage | NewEvent], delta: Mapping[str, Any], shared: NewEvent | None
) -> tuple[list[BaseMessage | NewEvent], str | None]:
    """The events with a batch's state delta on the first; an event of its own where there is none.

    Where the first is a bare message the delta stands beside them, as it is stored.
    """
    first = events[0] if events else shared or NewEvent()
    if not isinstance(first, NewEvent):  # where nothing is shared, messages are bare
        return events, dump_delta(delta)
    if all(isinstance(key, str) and key.startswith(TEMP) for key in delta):
        return events, None
    return [replace(first, state_delta={**delta, **(first.state_delta or {})}), *events[1:]], None
