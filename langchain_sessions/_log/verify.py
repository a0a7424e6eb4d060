"""Whether everything that is derived from a log is what the log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._log.indexing import embedder_of, mender_of
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._log.log import Log


_TRIES = 3


def verify_session(log: Log, session_id: str) -> Flow[list[str]]:
    """`SessionService.verify`.

    Differences count where the session is still the one that was looked at: another may have come under its id.
    """
    key = log.key(session_id)
    found: list[str] = []
    for _ in range(_TRIES):
        before = yield from ask(log.store.find_session, key, log.now())
        found = yield from _differences(log, key)
        if not found:
            return found
        after = yield from ask(log.store.find_session, key, log.now())
        if before is not None and after is not None and before.skey == after.skey:
            return found
    return found


def _differences(log: Log, key: SessionKey) -> Flow[list[str]]:
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
