"""Whether everything that is derived from a log is what the log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._log.indexing import embedder_of, mender_of
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from langchain_sessions._log.log import Log


def verify_session(log: Log, session_id: str) -> Flow[list[str]]:
    """`SessionService.verify`."""
    key = log.key(session_id)
    found = yield from ask(log.store.verify_session, key, log.now())
    if log.search is not None:
        try:
            found += yield from mender_of(log).verify(key)
        except CorruptRowError:
            found.append("the index, or what it is made of, cannot be read")
    if (embedder := embedder_of(log)) is not None:
        from langchain_sessions._recall.meaning.vector_check import VectorChecker

        checker = VectorChecker(log.store, log.codec, embedder, log.now())
        found += yield from checker.verify(key)
    return found
