"""Finding what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.checks import UNREADABLE, require
from langchain_sessions._core.flow import Flow, faces
from langchain_sessions._core.ids import check_id
from langchain_sessions._core.rows import Anyone, SessionKey
from langchain_sessions.errors import CorruptRowError, InvalidInputError, SessionsError
from langchain_sessions.stores.values import LogScope

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from langchain_sessions.filters import EventFilter
    from langchain_sessions.search import SearchPage

from langchain_sessions._log.rewind import StandingChanges


class Searching(StandingChanges):
    """Finding what was said."""

    def _search(
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
    ) -> Flow[SearchPage]:
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
        from langchain_sessions._recall.meaning.nearness import MeaningReader
        from langchain_sessions._recall.request import SearchRequest
        from langchain_sessions._recall.search import Searcher
        from langchain_sessions.filters import EventFilter

        everyone = isinstance(self._owner, Anyone)
        require(session_id is not None or whole_app or not everyone, "session_id", "give one, or whole_app=True")
        require(not whole_app or (everyone and session_id is None), "whole_app", "only the operator's service may")
        key = SessionKey(self.app, "" if session_id is None else check_id(session_id, "session_id"), self._owner)
        now = self.now()
        request = SearchRequest(
            text=query,
            scope=LogScope(
                app=key.app, owner=key.owner, session_id=session_id, now=now, idle_before=self.idle_before(now)
            ),
            where=EventFilter() if where is None else where,
            mode=mode,
            order=order,
            limit=limit,
            page=page,
            cursor=cursor,
            neighbours=neighbours,
            recency=recency,
        )
        embedder = self._embedder()
        reader = None if embedder is None else MeaningReader(self.store, self.codec, embedder)
        searcher = Searcher(self.store, self.encoder, self._indexer(), reader)
        try:
            found = yield from searcher.search(request)
        except SessionsError:
            raise
        except UNREADABLE as error:
            problem = "What the search needs cannot be read. verify() says of which session."
            raise CorruptRowError(problem) from error
        if searcher.behind:
            yield from self._embed_later(searcher.behind)
        return found

    search, asearch = faces(_search)

    def _reindex(
        self, session_id: str | None = None, *, progress: Callable[[str, int], None] | None = None
    ) -> Flow[int]:
        """Bring the index of recall up to date; how many events were added to it.

        Nobody has to: appends and searches do. It spares the first search of an imported log the wait, and that after
        a release or a language that makes other terms. It may be stopped at any time and goes on where it was.

        Args:
            session_id: The session; by default all sessions that this view reaches.
            progress: Told the id of each session and how many of its events were added.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        if session_id is None:
            return (yield from self._indexer().reindex(self.app, self._owner, progress))
        added = yield from self._indexer().catch_up(self.key(session_id))
        if progress is not None:
            progress(session_id, added)
        return added

    reindex, areindex = faces(_reindex)

    def _embed_pending(
        self, session_id: str | None = None, *, progress: Callable[[str, int], None] | None = None
    ) -> Flow[int]:
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
        embedder = self._embedder()
        if embedder is None:
            raise InvalidInputError("embed", "this service has no embedder: give it SearchSettings(embed=...)")
        builder = self._vector_builder(embedder)
        if session_id is None:
            return (yield from builder.catch_up_all(self.app, self._owner, progress))
        added = yield from builder.catch_up(self.key(session_id))
        if progress is not None:
            progress(session_id, added)
        return added

    embed_pending, aembed_pending = faces(_embed_pending)
