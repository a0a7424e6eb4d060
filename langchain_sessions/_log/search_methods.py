"""The part of a service that finds what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.edge import told_methods
from langchain_sessions._core.flow import adrive, drive
from langchain_sessions._log import indexing, search

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from langchain_sessions._log.log import Log
    from langchain_sessions.filters import EventFilter
    from langchain_sessions.search import SearchPage


@told_methods
class SearchMethods:
    """The methods of `SessionService` that are about recall. Each is a workflow of a module here, run in two ways."""

    _log: Log

    def search(
        self,
        query: str | re.Pattern[str],
        *,
        session_id: str | None = None,
        whole_app: bool = False,
        where: EventFilter | None = None,
        mode: Literal["ranked", "literal"] = "ranked",
        order: Literal["relevance", "time"] = "relevance",
        limit: int = 10,
        page: int = 0,
        cursor: str | None = None,
        neighbours: int = 1,
        recency: float = 0.0,
    ) -> SearchPage:
        """Find what was said, compacted or not: the best first, each hit with its neighbours and the reasons for it.

        What was just appended is found. What a rewind hid and revisions that an edit replaced are not, unless asked.

        Args:
            query: Words, a "phrase", prefix*, AND, OR, -not; nothing in it is an error. Or a compiled regular
                expression, from code only: then every event that it is found in, oldest first.
            session_id: The session; by default all sessions of this view's owner.
            whole_app: On the operator's service: search the sessions of everybody.
            where: Criteria beside the words.
            mode: `literal` finds every event that holds the text as it is, whatever its case, oldest first.
            order: `time` returns the hits of a page oldest first of all.
            limit: Hits per page.
            page: Which page, from 0.
            cursor: The `next_cursor` of an earlier page instead; it stays right while events are appended.
            neighbours: How many events to show on each side of a hit.
            recency: What an event of now gains in score; half of it is left after 30 days.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            CorruptRowError: A log or an index in the scope is not what was written.
            SealedEventError: A log was written with an encrypting codec that this service does not have.
            InvalidInputError: A parameter other than the query cannot be used.
        """
        return drive(
            search.search_logs(
                self._log,
                query,
                session_id=session_id,
                whole_app=whole_app,
                where=where,
                mode=mode,
                order=order,
                limit=limit,
                page=page,
                cursor=cursor,
                neighbours=neighbours,
                recency=recency,
            )
        )

    async def asearch(
        self,
        query: str | re.Pattern[str],
        *,
        session_id: str | None = None,
        whole_app: bool = False,
        where: EventFilter | None = None,
        mode: Literal["ranked", "literal"] = "ranked",
        order: Literal["relevance", "time"] = "relevance",
        limit: int = 10,
        page: int = 0,
        cursor: str | None = None,
        neighbours: int = 1,
        recency: float = 0.0,
    ) -> SearchPage:
        """Async `search`."""
        return await adrive(
            search.search_logs(
                self._log,
                query,
                session_id=session_id,
                whole_app=whole_app,
                where=where,
                mode=mode,
                order=order,
                limit=limit,
                page=page,
                cursor=cursor,
                neighbours=neighbours,
                recency=recency,
            )
        )

    def reindex(self, session_id: str | None = None, *, progress: Callable[[str, int], None] | None = None) -> int:
        """Bring the index of recall up to date; how many events were added to it.

        Nobody has to: appends and searches do. It spares the first search of an imported log the wait, and that after
        a release or a language that makes other terms. What there is already is compared with the log, as `verify`
        does, and built anew where it differs. It may be stopped at any time and goes on where it was.

        Args:
            session_id: The session; by default all sessions that this view reaches.
            progress: Told the id of each session and how many of its events were added.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(indexing.reindex_logs(self._log, session_id, progress))

    async def areindex(
        self, session_id: str | None = None, *, progress: Callable[[str, int], None] | None = None
    ) -> int:
        """Async `reindex`."""
        return await adrive(indexing.reindex_logs(self._log, session_id, progress))

    def embed_pending(
        self, session_id: str | None = None, *, progress: Callable[[str, int], None] | None = None
    ) -> int:
        """Embed everything that is not embedded yet; how many events were.

        Nobody has to: appends and searches have it done in the background. It is for imported logs, and for another
        model. It may be stopped at any time and goes on where it was.

        Args:
            session_id: The session; by default all sessions that this view reaches.
            progress: Told the id of each session and how many of its events were embedded.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EmbeddingError: The embedder failed; what was embedded so far is kept.
            InvalidInputError: The service has no embedder.
        """
        return drive(indexing.embed_pending(self._log, session_id, progress))

    async def aembed_pending(
        self, session_id: str | None = None, *, progress: Callable[[str, int], None] | None = None
    ) -> int:
        """Async `embed_pending`."""
        return await adrive(indexing.embed_pending(self._log, session_id, progress))
