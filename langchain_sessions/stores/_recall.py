"""The contract about recall: its index and its vectors, kept beside logs. The rules are those of `_base`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from langchain_sessions._core.twins import threaded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.matching import EventQuery
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions.stores._values import (
        IndexChange,
        IndexProgress,
        IndexQuery,
        IndexRead,
        LogScan,
        LogSlice,
        SearchedLogs,
        ShelfChange,
        StoredChunk,
    )
    from langchain_sessions.stores._vectors import VectorChange, VectorProgress


class IndexStore(ABC):
    """What recall keeps beside logs: chunks of an index that lags behind, is deleted with its log and can be rebuilt.

    A store does not know what is in a chunk.
    """

    waits: ClassVar[bool] = True

    @abstractmethod
    def load_index(self, /, query: IndexQuery) -> IndexRead:
        """What a search needs of the index, and the events after it; or whose index has to catch up first.

        Each log as of one moment. Crosses sessions where several are searched.

        Raises:
            SessionNotFoundError: The search names one session and there is none.
        """

    @threaded(load_index)
    def aload_index(self) -> None:
        """Async `load_index`."""

    @abstractmethod
    def find_index(self, /, key: SessionKey, fingerprint: str, now: int) -> IndexProgress:
        """How far the index of a log goes. Without an index: to its end.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(find_index)
    def afind_index(self) -> None:
        """Async `find_index`."""

    @abstractmethod
    def load_chunks(
        self, /, key: SessionKey, progress: IndexProgress, numbers: Sequence[int], now: int
    ) -> list[tuple[StoredChunk, dict[str, bytes]]] | None:
        """Whole chunks of an index with their buckets; None where the index is no longer as `progress` says."""

    @threaded(load_chunks)
    def aload_chunks(self) -> None:
        """Async `load_chunks`."""

    @abstractmethod
    def write_index(self, /, key: SessionKey, change: IndexChange, now: int) -> bool:
        """Move an index forward; False, and nothing is changed, where it moved since the plan, or the log is gone."""

    @threaded(write_index)
    def awrite_index(self) -> None:
        """Async `write_index`."""

    def write_shelf(self, /, change: ShelfChange) -> bool:
        """Put a shelf in the place of others; False, and nothing is changed, where one of them or a log is gone.

        A search over all sessions of an owner would read thousands of small indexes; a store may keep an owner's copy
        of them, shelf by shelf. Whoever deletes a log deletes every shelf that holds it before it returns: in the same
        transaction, so that this one waits for deletions of its logs and they for it; or, where there is none over
        two logs, each looks once more after its own write. Appends need not wait. The default keeps none: then
        `load_index` returns none, and names nothing as unshelved.
        """
        del change
        return False

    @threaded(write_shelf)
    def awrite_shelf(self) -> None:
        """Async `write_shelf`."""

    @abstractmethod
    def scan_logs(self, /, searched: SearchedLogs, query: EventQuery, after: tuple[int, int] = (0, 0)) -> LogScan:
        """Rows that meet a query in the next stretch of the searched logs, in the order of their keys.

        A scan goes through a bounded number of events per call. Logs without a row are left out where there are
        several. Crosses sessions.

        Args:
            searched: Which logs.
            query: Criteria; without a window.
            after: What the call before returned.

        Raises:
            SessionNotFoundError: The search names one session and there is none.
        """

    @threaded(scan_logs)
    def ascan_logs(self) -> None:
        """Async `scan_logs`."""

    @abstractmethod
    def load_events(self, /, searched: SearchedLogs, places: Mapping[str, SeqSet]) -> list[LogSlice]:
        """Rows at some positions of some searched sessions; what is gone is left out. Crosses sessions."""

    @threaded(load_events)
    def aload_events(self) -> None:
        """Async `load_events`."""


class VectorStore(ABC):
    """A vector per event for the semantic part of recall, kept beside the log and deleted with it.

    A store does not know what is in a vector, nor whose embedder made it.
    """

    waits: ClassVar[bool] = True

    @abstractmethod
    def list_vectors(self, /, searched: SearchedLogs) -> list[VectorProgress]:
        """How far the vectors of every searched log go, in the order of their keys. Crosses sessions."""

    @threaded(list_vectors)
    def alist_vectors(self) -> None:
        """Async `list_vectors`."""

    @abstractmethod
    def find_vectors(self, /, key: SessionKey, now: int) -> VectorProgress:
        """How far the vectors of a log go.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(find_vectors)
    def afind_vectors(self) -> None:
        """Async `find_vectors`."""

    @abstractmethod
    def load_vectors(
        self, /, searched: SearchedLogs, places: Mapping[VectorProgress, SeqSet]
    ) -> dict[tuple[int, int], bytes]:
        """Vectors at some positions of some searched logs, by session key and position. Crosses sessions.

        What is not there, or belongs to another set by now, is left out. Asked with `VectorProgress.of_signs`, parts of
        the signs at their last positions; of any number of logs these are a bounded number of reads.
        """

    @threaded(load_vectors)
    def aload_vectors(self) -> None:
        """Async `load_vectors`."""

    @abstractmethod
    def write_vectors(self, /, key: SessionKey, change: VectorChange, now: int) -> bool:
        """Add vectors to a log, and a part of their signs; `VectorChange` says what is stored.

        False, and nothing is changed, where they moved since the plan, or the log is gone.
        """

    @threaded(write_vectors)
    def awrite_vectors(self) -> None:
        """Async `write_vectors`."""
