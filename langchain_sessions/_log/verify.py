"""Whether everything that is derived from a log is what the log says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import query_of
from langchain_sessions._log.indexing import embedder_of, mender_of
from langchain_sessions.errors import CorruptRowError, SealedEventError
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions._log.log import Log


_TRIES = 3
_PAGE = 200


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


def _is_readable(log: Log, key: SessionKey, row: EventRow, view: LogView) -> bool:
    try:
        log.encoder.event(key.id, row, view)
    except CorruptRowError:
        return False
    except SealedEventError:
        return not log.codec.encrypts  # else its key is somewhere else
    return True


def _unreadable(log: Log, key: SessionKey) -> Flow[list[str]]:
    """Events whose message is not what was written, wherever it was damaged: a copy of it is as damaged as it was."""
    query = replace(query_of(EventFilter(), log.codec), limit=_PAGE)
    found: list[str] = []
    while True:
        page = yield from ask(log.store.find_events, key, query, log.now())
        found += [f"event {row.seq} cannot be read" for row in page.rows if not _is_readable(log, key, row, page.view)]
        if len(page.rows) < _PAGE:
            return found
        query = replace(query, after_seq=page.rows[-1].seq)


def _differences(log: Log, key: SessionKey) -> Flow[list[str]]:
    unreadable = yield from _unreadable(log, key)
    try:
        found = yield from ask(log.store.verify_session, key, log.now())
    except CorruptRowError:
        if not unreadable:
            raise
        return unreadable  # which is why nothing else can be told
    found += unreadable
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
