"""A history of messages becomes a session."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from langchain_sessions._core.edge import check_title
from langchain_sessions._importing.past import at_past_times
from langchain_sessions._importing.values import SourceError
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_sessions._importing.values import History
    from langchain_sessions.service import SessionService

_BATCH = 200


class HistoryImport:
    """Writes histories into the sessions of one service."""

    def __init__(self, sessions: SessionService, tell: Callable[[str, str, str], None]) -> None:
        """Write into a service, and say `tell(thread, "", problem)` for each event that cannot be taken over."""
        self._now = datetime.now(timezone.utc)
        self._tell = tell
        self._sessions = at_past_times(sessions, lambda: self._now)

    def take(self, history: History, owner: str | None) -> int:
        """Append what the session does not have yet: events are known by the ids that the source gives them.

        Returns how many events could be read.

        Raises:
            InvalidInputError: The session cannot be called so, or hold such metadata.
            SessionNotFoundError: There is such a session, and it is somebody else's.
            SessionEndedError: It has ended.
            EventConflictError: An event of this name says something else here.
        """
        mine = self._sessions.as_user(owner)
        is_new, given = True, 0
        for batch in self._batches(history):
            self._now = next((event.timestamp for event in batch if event.timestamp), self._now)
            if is_new:
                session = mine.open(history.id)
                if session.version == 0 and (history.title is not None or history.metadata):
                    mine.update(history.id, title=self._title(history), metadata=history.metadata)
                is_new = False
            self._now = next((event.timestamp for event in reversed(batch) if event.timestamp), self._now)
            self._append(mine, history.id, batch)
            given += len(batch)
        return given

    def _title(self, history: History) -> str | None:
        """Its title where it can be stored: what was said is not lost for it."""
        try:
            return check_title(history.title)
        except InvalidInputError as problem:
            self._tell(history.id, "", f"{problem}; it is left out")
            return None

    def _batches(self, history: History) -> Iterator[list[NewEvent]]:
        """The events that can be read."""
        batch: list[NewEvent] = []
        try:
            for each in history.events:
                if isinstance(each, SourceError):
                    self._tell(history.id, "", str(each))
                    continue
                if isinstance(each, NewEvent):
                    batch.append(each)
                if len(batch) == _BATCH:
                    yield batch
                    batch = []
        except SourceError as problem:
            self._tell(history.id, "", str(problem))
        if batch:
            yield batch

    def _append(self, mine: SessionService, session_id: str, batch: Sequence[NewEvent]) -> None:
        try:
            mine.append(session_id, batch)
        except InvalidInputError:
            # One of them is refused: the others are taken one by one.
            for event in batch:
                try:
                    mine.append(session_id, [event])
                except InvalidInputError as problem:
                    self._tell(session_id, "", f"event {event.id}: {problem}")
