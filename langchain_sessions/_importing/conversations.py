"""A history of messages becomes a session."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING

from langchain_sessions._importing.past import at_past_times
from langchain_sessions._importing.values import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._importing.values import History
    from langchain_sessions.events import NewEvent
    from langchain_sessions.service import SessionService

_BATCH = 200


class HistoryImport:
    """Writes histories into the sessions of one service."""

    def __init__(self, sessions: SessionService) -> None:
        """Write into a service."""
        self._now = datetime.now(timezone.utc)
        self._sessions = at_past_times(sessions, lambda: self._now)

    def take(self, history: History, owner: str | None) -> None:
        """Append what the session does not have yet: events are known by the ids that the source gives them.

        Raises:
            SourceError: A message cannot be read; those before it are here.
            SessionNotFoundError: There is such a session, and it is somebody else's.
            EventConflictError: An event of this name says something else here.
        """
        mine = self._sessions.as_user(owner)
        events = iter(history.events)
        is_new, problem = True, None
        while problem is None:
            batch, problem = _batch(events)
            if not batch:
                break
            self._now = next((event.timestamp for event in batch if event.timestamp), self._now)
            if is_new:
                session = mine.open(history.id)
                if session.version == 0 and (history.title is not None or history.metadata):
                    mine.update(history.id, title=history.title, metadata=history.metadata)
                is_new = False
            self._now = next((event.timestamp for event in reversed(batch) if event.timestamp), self._now)
            mine.append(history.id, batch)
        if problem is not None:
            raise problem


def _batch(events: Iterator[NewEvent]) -> tuple[list[NewEvent], SourceError | None]:
    """The next events, and what is wrong with the one after them."""
    batch: list[NewEvent] = []
    try:
        batch.extend(islice(events, _BATCH))
    except SourceError as problem:
        return batch, problem
    return batch, None
