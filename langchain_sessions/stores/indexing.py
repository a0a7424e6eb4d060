"""What a store keeps for recall: packed chunks of an index beside the log, and the logs themselves to scan.

The index belongs to the log: it lags behind it, it is deleted with it, and it can always be built anew. A store does
not know what is in a chunk. One that keeps no index answers everything from the log, as `scanning`
does for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core.rows import EventRow, SessionKey, SessionRow

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import Owner
    from langchain_sessions.stores.values import EventSlice


@dataclass(frozen=True, kw_only=True, slots=True)
class LogScope:
    """Which logs are searched: one session, or all sessions of an owner within an app.

    Attributes:
        app: The app.
        owner: Whose sessions.
        session_id: The only session; None for all.
        now: The present; expired sessions are not there.
        idle_before: Open invocations not touched since count as failed.
    """

    app: str
    owner: Owner
    session_id: str | None
    now: int
    idle_before: int = 0

    @property
    def key(self) -> SessionKey:
        """The key of the one session; its id is empty where there are many."""
        return SessionKey(self.app, self.session_id or "", self.owner)


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexQuery:
    """What to read of the index.

    Attributes:
        scope: Of which logs.
        fingerprint: Only what was built like this counts.
        buckets: Buckets of terms.
        beginnings: Also buckets that begin so.
        most_scanned: How many events may be left to scan; above that nothing is read but what lags behind.
        held: Facts that the caller has: key of the session, number of the chunk, generation that wrote it.
    """

    scope: LogScope
    fingerprint: str
    buckets: tuple[str, ...]
    beginnings: tuple[str, ...] = ()
    most_scanned: int = 0
    held: Container[tuple[int, int, int]] = ()


class StoredChunk(NamedTuple):
    """A chunk of the index. It never changes: a merged one is written anew.

    Attributes:
        number: Its number in its log.
        last_seq: The position up to which it goes.
        events: How many events it holds.
        terms: How many terms they have in all.
        written: The generation of the index that wrote it.
        facts: What the index knows of its events, packed; empty where the caller has it.
    """

    number: int
    last_seq: int
    events: int
    terms: int
    written: int
    facts: bytes


class IndexedLog(NamedTuple):
    """One log as search reads it: its chunks, the asked buckets by chunk, and the events after the last chunk."""

    session: SessionRow
    view: LogView
    chunks: tuple[StoredChunk, ...]
    buckets: Mapping[int, Mapping[str, bytes]]
    tail: list[EventRow]


class IndexRead(NamedTuple):
    """The answer to an `IndexQuery`: the logs; or, where the index lags too far behind, whose it is."""

    logs: list[IndexedLog]
    behind: list[SessionKey]


class IndexPlace(NamedTuple):
    """How far the index of a log goes.

    Attributes:
        skey: The session's own key.
        last_seq: The log's newest position.
        indexed_to: The newest position in the index; 0 where there is none of this fingerprint.
        generation: Counts changes of the index; 0 where there is none at all.
        chunks: Number and events of each chunk, in order.
    """

    skey: int
    last_seq: int
    indexed_to: int
    generation: int
    chunks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexChange:
    """One step forward of an index, valid as long as nobody else made one.

    Attributes:
        place: What it was planned from.
        fingerprint: How it was built.
        indexed_to: The newest position in the index afterwards.
        replaced: Chunks that the new one takes the place of; it gets the number of the first.
        chunk: The new chunk; None where the new events hold nothing to search.
        buckets: Its terms by bucket.
    """

    place: IndexPlace
    fingerprint: str
    indexed_to: int
    replaced: tuple[int, ...] = ()
    chunk: StoredChunk | None = None
    buckets: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class LogSlice(NamedTuple):
    """Rows of one of several logs."""

    session: SessionRow
    rows: EventSlice


class LogScan(NamedTuple):
    """One stretch of several logs: what meets a query there, and the place to go on from; None at the end."""

    slices: list[LogSlice]
    after: tuple[int, int] | None
