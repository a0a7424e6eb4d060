"""Appending to logs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from langchain_sessions._core import rows as r
from langchain_sessions._core.checks import require
from langchain_sessions._core.codec.values import as_dict
from langchain_sessions._core.encode import as_events
from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions._core.state import TEMP
from langchain_sessions._recall.settings import EMBED_EVERY, INDEX_EVERY
from langchain_sessions.events import InvocationStatus, NewEvent, SessionEvent
from langchain_sessions.stores.values import AppendBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from langchain_sessions._core.rows import SessionKey

from langchain_sessions._log.lifecycle import Sessions

_NOTHING_SHARED = (None, None, None, None, None)


class Writing(Sessions):
    """Appending to logs."""

    def _append(
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
    ) -> Flow[list[SessionEvent]]:
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
            InvalidInputError: A value cannot be stored exactly; nothing was written.
        """
        key = self.key(session_id)
        known = invocation_status is None or isinstance(invocation_status, InvocationStatus)
        require(known, "invocation_status", "give a member of InvocationStatus")
        whole = expected_version is None or type(expected_version) is int
        require(whole, "expected_version", "give the version of a session, a whole number")
        shared = None
        if (branch, author, invocation_id, metadata, timestamp) != _NOTHING_SHARED:
            shared = NewEvent(
                branch=branch, author=author, invocation_id=invocation_id, metadata=metadata, timestamp=timestamp
            )
        events = as_events(messages, shared)
        if state_delta:
            events = _with_delta(events, as_dict(state_delta, "state_delta"), shared or NewEvent())
        mark = 0 if invocation_status is None else r.MARKS[invocation_status.value]
        require(not mark or invocation_id or _all_in_a_run(events), "invocation_status", "needs an invocation_id")
        if mark and not events:
            events = [NewEvent(invocation_id=invocation_id, branch=branch)]
        if not events:
            yield from self._get(session_id)
            return []
        now = self.now()
        marked = -1 if not mark else 0 if invocation_status is InvocationStatus.OPEN else len(events) - 1
        rows = tuple(
            self.encoder.row(event, now, ordinal=first_ordinal + at, mark=mark if at == marked else 0)
            if isinstance(event, NewEvent)
            else self.encoder.message_row(event, now)
            for at, event in enumerate(events)
        )
        batch = AppendBatch(
            rows=rows,
            now=now,
            same=self.codec.same,
            expected_version=expected_version,
            idle_before=self.idle_before(now),
        )
        appended = yield from ask(self.store.append_events, key, batch)
        yield from self.after_append(key, appended.version, len(rows))
        return [self.encoder.event(session_id, row, appended.view) for row in appended.rows]

    append, aappend = faces(_append)

    def after_append(self, key: SessionKey, version: int, added: int) -> Flow[None]:
        """What recall does about new events now and then, so that no search pays for all of them; never an error."""
        if version % INDEX_EVERY < added and self._search_settings is not None:
            yield from self._indexer().catch_up_quietly(key)
        if version % EMBED_EVERY < added and self._embedder() is not None:
            yield from self._embed_later([key])

    def _edit(
        self,
        session_id: str,
        message: BaseMessage,
        *,
        author: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Flow[SessionEvent]:
        """Replace a message by its id. The old revision stays in the log; the new one takes its place.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: No message of that id stands in the log.
            InvalidInputError: The message has no id.
        """
        require(isinstance(message, BaseMessage), "message", "give a LangChain message")
        require(message.id, "message", "needs the id of the message that it replaces")
        now = self.now()
        event = NewEvent(id=uuid.uuid4().hex, message=message, author=author, metadata=metadata)
        batch = AppendBatch(
            rows=(self.encoder.row(event, now),),
            now=now,
            same=self.codec.same,
            replaces_only=True,
            idle_before=self.idle_before(now),
        )
        appended = yield from ask(self.store.append_events, self.key(session_id), batch)
        return self.encoder.event(session_id, appended.rows[0], appended.view)

    edit, aedit = faces(_edit)


def _all_in_a_run(events: Sequence[BaseMessage | NewEvent]) -> bool:
    """Whether there are events and each names its run itself."""
    return bool(events) and all(isinstance(event, NewEvent) and event.invocation_id is not None for event in events)


def _with_delta(
    events: list[BaseMessage | NewEvent], delta: Mapping[str, Any], shared: NewEvent
) -> list[BaseMessage | NewEvent]:
    """The events with a batch's state delta on the first; an event of its own where there is none."""
    if all(isinstance(key, str) and key.startswith(TEMP) for key in delta):
        return events
    if not events:
        return [replace(shared, state_delta=delta)]
    first = events[0]
    if not isinstance(first, NewEvent):
        first = replace(shared, message=first)
    return [replace(first, state_delta={**delta, **(first.state_delta or {})}), *events[1:]]
