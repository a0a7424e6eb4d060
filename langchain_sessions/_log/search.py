"""Finding what was said."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.edge import UNREADABLE, check_id, check_kind, require
from langchain_sessions._core.rows import Anyone, SessionKey
from langchain_sessions._log.indexing import embed_later, embedder_of, indexer_of
from langchain_sessions.errors import CorruptRowError, SessionsError
from langchain_sessions.stores._values import SearchedLogs

if TYPE_CHECKING:
    import re

    from langchain_sessions._core.flow import Flow
    from langchain_sessions._log.log import Log
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions._recall.search import Searcher
    from langchain_sessions.filters import EventFilter
    from langchain_sessions.search import SearchPage

_log = logging.getLogger(__name__)


def search_logs(
    log: Log,
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
    """`SessionService.search`."""
    from langchain_sessions._recall.meaning.nearness import MeaningReader
    from langchain_sessions._recall.request import SearchRequest
    from langchain_sessions._recall.search import Searcher
    from langchain_sessions.filters import EventFilter

    check_kind(where, EventFilter, "where", "EventFilter(…), such as EventFilter(roles={'human'})")
    everyone = isinstance(log.owner, Anyone)
    require(session_id is not None or whole_app or not everyone, "session_id", "give one, or whole_app=True")
    require(not whole_app or (everyone and session_id is None), "whole_app", "only the operator's service may")
    key = SessionKey(log.app, "" if session_id is None else check_id(session_id, "session_id"), log.owner)
    now = log.now()
    searched = SearchedLogs(
        app=key.app, owner=key.owner, session_id=session_id, now=now, idle_before=log.idle_before(now)
    )
    request = SearchRequest(
        text=query,
        searched=searched,
        where=EventFilter() if where is None else log.seen(where) if where.standings else where,
        mode=mode,
        order=order,
        limit=limit,
        page=page,
        cursor=cursor,
        neighbours=neighbours,
        recency=recency,
    )
    embedder = embedder_of(log)
    reader = None if embedder is None else MeaningReader(log.store, log.codec, embedder)
    searcher = Searcher(log.store, log.encoder, indexer_of(log), reader)
    try:
        found = yield from _found(searcher, request)
    except SessionsError:
        raise
    except UNREADABLE as error:
        # It tripped over an index that is not what was written, or over a mistake of its own: the index is asked.
        if not (yield from indexer_of(log).is_damaged(request.searched)):
            raise
        problem = "What the search needs cannot be read. verify() says of which session."
        raise CorruptRowError(problem) from error
    if searcher.behind:
        yield from embed_later(log, searcher.behind)
    return found


def _found(searcher: Searcher, request: SearchRequest) -> Flow[SearchPage]:
    """What a search finds. A shelf is a copy: one that cannot be read is made anew."""
    try:
        return (yield from searcher.search(request))
    except UNREADABLE as error:
        if isinstance(error, SessionsError) or not (yield from searcher.drop_shelves(request.searched)):
            raise
        # A mistake of its own would throw them away in each search, and answer all the same.
        _log.error("Shelves could not be searched and are made anew: %s", type(error).__name__)
    return (yield from searcher.search(request))
