"""What keeps copies of what was said outside of the store, and is told before a session goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import query_of
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.filters import EventFilter
from langchain_sessions.stores._values import WALK, SessionQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._log.log import Log

_PAGE = 200


class Copies(ABC):
    """Copies of events in another place than the log, named by the events' ids."""

    @abstractmethod
    def forget(self, app: str, session_id: str, event_ids: Sequence[str]) -> Flow[None]:
        """Remove the copies of some events, whether there are any or not.

        Raises:
            StoreError: They could not be removed; the session stays too, so that it can be tried again.
        """


def forget_session(log: Log, session_id: str) -> Flow[None]:
    """Remove what is kept elsewhere of a session, if it is there for this view."""
    if not log.shared.copies:
        return
    # Ids are read as rows: what cannot be decoded has to be forgotten as well.
    query = replace(query_of(EventFilter(), log.codec), limit=_PAGE)
    while True:
        try:
            found = yield from ask(log.store.find_events, log.key(session_id), query, log.now())
        except SessionNotFoundError:
            return
        if not found.rows:
            return
        for copies in log.shared.copies:
            yield from copies.forget(log.app, session_id, [row.id for row in found.rows])
        query = replace(query, after_seq=found.rows[-1].seq)


def forget_user(log: Log, user_id: str) -> Flow[None]:
    """Remove what is kept elsewhere of all sessions of a user."""
    if not log.shared.copies:
        return
    mine = replace(log, owner=user_id)
    query = SessionQuery(app=log.app, owner=user_id, now=log.now(), limit=WALK, after=None)
    while True:
        found = yield from ask(log.store.list_sessions, query)
        for row in found.rows:
            yield from forget_session(mine, row.id)
        if found.after is None:
            return
        query = replace(query, after=found.after)
