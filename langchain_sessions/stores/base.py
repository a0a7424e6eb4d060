"""The contract that every store keeps.

A store holds logs. It assigns positions, keeps identities unique, counts what is live and changes where events
stand; it knows nothing of messages, models or prompts. Each method here is atomic, and all but those marked
*crosses partitions* touch one session only, so that an engine may keep each session on a machine of its own.

The synchronous half is abstract. The asynchronous half is supplied: `ax` runs `x` in a worker thread, and a call
that is cancelled finishes first. A store with native async I/O overrides it; one that waits for nothing sets `waits`.

It comes in three parts: `sessions`, `logs`, and here what a search needs of a store. `values` are what is passed.

Rules that hold for all of them:

- A key names app, session and owner. A session of another owner, an expired one and one that does not exist are
  the same: `SessionNotFoundError`, or the method's empty answer.
- The session row is locked or bumped before anything else is written; every change of the log moves `last_seq`.
- Positions are 1, 2, 3 … without a gap, assigned in the inserting transaction.
- Nothing but `delete_session`, `delete_user` and `purge_expired` removes an event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.twins import threaded
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores import defaults as scanning
from langchain_sessions.stores.indexing import (
    IndexChange,
    IndexPlace,
    IndexQuery,
    IndexRead,
    LogScan,
    LogScope,
    LogSlice,
    StoredChunk,
)
from langchain_sessions.stores.logs import SessionLogs
from langchain_sessions.stores.vectors import VectorChange, VectorPlace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions.stores.values import EventQuery


class SessionStore(SessionLogs):
    """Logs of conversations. See the module for the rules that hold for every method.

    What a search needs beside the logs is concrete: a store that keeps no index answers from its logs, and one that
    keeps no vectors is never behind with them.
    """

    # -- the index -----------------------------------------------------------------------------------------

    def load_index(self, /, query: IndexQuery) -> IndexRead:
        """What a search needs of the index, and the events after it; or whose index has to catch up first.

        All of it as of one moment, per log. Crosses partitions where the scope holds several sessions.

        Raises:
            SessionNotFoundError: The scope names one session and there is none.
        """
        return scanning.scan_index(self, query.scope)

    aload_index = threaded(load_index)

    def find_index(self, /, key: SessionKey, fingerprint: str, now: int) -> IndexPlace:
        """How far the index of a log goes. Without an index: to its end.

        Raises:
            SessionNotFoundError: There is none for this key.
        """
        del fingerprint
        session = self.find_session(key, now)
        if session is None:
            raise SessionNotFoundError(key.id)
        return IndexPlace(session.skey, session.last_seq, session.last_seq, 0, ())

    afind_index = threaded(find_index)

    def load_chunks(
        self, /, place: IndexPlace, numbers: Sequence[int]
    ) -> list[tuple[StoredChunk, dict[str, bytes]]] | None:
        """Whole chunks of an index with their buckets; None where the index is no longer as `place` says."""
        del place, numbers
        return []

    aload_chunks = threaded(load_chunks)

    def write_index(self, /, key: SessionKey, change: IndexChange, now: int) -> bool:
        """Move an index forward; False, and nothing is changed, where it moved since the plan, or the log is gone."""
        del key, change, now
        return False

    awrite_index = threaded(write_index)

    def scan_logs(self, /, scope: LogScope, query: EventQuery, after: tuple[int, int] = (0, 0)) -> LogScan:
        """Rows that meet a query in the next stretch of the logs of a scope, in the order of their keys.

        A scan goes through a bounded number of events per call. Logs without a row are left out where there are
        several.

        Args:
            scope: Which logs.
            query: Criteria; without a window.
            after: What the call before returned.

        Raises:
            SessionNotFoundError: The scope names one session and there is none.
        """
        return scanning.scan_logs(self, scope, query, after)

    ascan_logs = threaded(scan_logs)

    def load_events(self, /, scope: LogScope, places: Mapping[str, SeqSet]) -> list[LogSlice]:
        """Rows at some positions of some sessions of a scope; what is gone is left out."""
        return scanning.pick_events(self, scope, places)

    aload_events = threaded(load_events)

    # -- vectors -------------------------------------------------------------------------------------------

    def list_vectors(self, /, scope: LogScope) -> list[VectorPlace]:
        """How far the vectors of every log of a scope go, in the order of their keys. Crosses partitions."""
        del scope
        return []

    alist_vectors = threaded(list_vectors)

    def find_vectors(self, /, key: SessionKey, now: int) -> VectorPlace:
        """How far the vectors of a log go.

        Raises:
            SessionNotFoundError: There is none for this key.
        """
        session = self.find_session(key, now)
        if session is None:
            raise SessionNotFoundError(key.id)
        return VectorPlace(session.skey, session.id, session.last_seq, session.last_seq)

    afind_vectors = threaded(find_vectors)

    def load_vectors(self, /, places: Mapping[VectorPlace, SeqSet]) -> dict[tuple[int, int], bytes]:
        """Vectors at some positions of some logs, by session key and position; what is not there is left out."""
        del places
        return {}

    aload_vectors = threaded(load_vectors)

    def write_vectors(self, /, key: SessionKey, change: VectorChange, now: int) -> bool:
        """Add vectors to a log; False, and nothing is changed, where they moved since the plan, or the log is gone."""
        del key, change, now
        return False

    awrite_vectors = threaded(write_vectors)
