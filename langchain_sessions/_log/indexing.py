"""What keeps recall up to date beside the log: its index, and the vectors of what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._log.log import Log
    from langchain_sessions._recall.index.indexing import Indexer
    from langchain_sessions._recall.index.mending import Mender
    from langchain_sessions._recall.meaning.embedder import Embedder
    from langchain_sessions._recall.meaning.embedding import VectorBuilder


def indexer_of(log: Log) -> Indexer:
    """What builds the index.

    Raises:
        InvalidInputError: The service has none.
    """
    from langchain_sessions._recall.index.indexing import Indexer

    if log.search is None:
        raise InvalidInputError("search", "this service was built with search=False")
    return Indexer(log.store, log.codec, log.search.index_builder, log.now)


def embedder_of(log: Log) -> Embedder | None:
    """What turns texts into vectors; None where there is nothing."""
    return None if log.search is None else log.search.embedder


def embed_later(log: Log, keys: Iterable[SessionKey]) -> Flow[None]:
    """Embed what some logs hold, beside the conversation; never at the cost of who noticed it."""
    embedder, waiting = embedder_of(log), log.shared.to_embed
    # Noted even where a run is under way: it looks again before it ends.
    waiting.update(dict.fromkeys(keys))
    if embedder is None or not waiting:
        return
    builder = _vector_builder(log, embedder)
    try:
        yield from ask(
            log.background.start,
            (log.app, "", ".embedding"),
            lambda: builder.work_off(waiting, lambda: log.background.is_closed),
        )
    except RuntimeError:  # no thread is left: the next search tries again
        return


def mender_of(log: Log) -> Mender:
    """What compares the index with the log."""
    from langchain_sessions._recall.index.shelving import Shelver

    return Shelver(indexer_of(log), log.encoder).mender


def reindex_logs(log: Log, session_id: str | None, progress: Callable[[str, int], None] | None) -> Flow[int]:
    """`SessionService.reindex`."""
    from langchain_sessions._recall.index.shelving import Shelver

    indexer = indexer_of(log)
    shelver = Shelver(indexer, log.encoder)
    if session_id is None:
        return (yield from shelver.reindex(log.app, log.owner, progress))
    key = log.key(session_id)
    added = yield from shelver.mender.mend(key)
    added += yield from indexer.catch_up_wholly(key)
    if progress is not None:
        progress(session_id, added)
    return added


def embed_pending(log: Log, session_id: str | None, progress: Callable[[str, int], None] | None) -> Flow[int]:
    """`SessionService.embed_pending`."""
    embedder = embedder_of(log)
    if embedder is None:
        raise InvalidInputError("embed", "this service has no embedder: give it SearchSettings(embed=...)")
    builder = _vector_builder(log, embedder)
    if session_id is None:
        return (yield from builder.catch_up_all(log.app, log.owner, progress))
    added = yield from builder.catch_up(log.key(session_id))
    if progress is not None:
        progress(session_id, added)
    return added


def _vector_builder(log: Log, embedder: Embedder) -> VectorBuilder:
    from langchain_sessions._recall.meaning.embedding import VectorBuilder

    return VectorBuilder(log.store, log.codec, embedder, log.now)
