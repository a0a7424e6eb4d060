"""The values of the contract: what a store is asked for, and what it answers.

First those of logs and sessions; then those of the index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from langchain_sessions._core.packed_texts import NOTHING_PACKED, Packed
from langchain_sessions._core.rows import Counters, EventRow, Owner, SessionHeading, SessionKey, SessionLog, SessionRow

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores._vectors import VectorProgress

Place = tuple[int, int]
SameMessage = Callable[[str, EventRow, EventRow], bool]
ChunksOfLogs = dict[tuple[int, int], "tuple[StoredChunk, ...]"]


class SessionDraft(NamedTuple):
    """A session to create or open."""

    app: str
    id: str
    user_id: str | None
    now: int
    title: str | None = None
    metadata: str = "{}"
    state: str = "{}"
    shared_delta: str | None = None
    expires_at: int | None = None
    renewal: int | None = None
    renewal_grain: int | None = None
    anew: bool = True


class AppendBatch(NamedTuple):
    """Events to append in one transaction.

    Attributes:
        rows: The events, `seq` still 0, `rev` still 0.
        now: The time of the append.
        same: Whether a stored row of a session and a new one hold the same message; `CorruptRowError` where the stored
            one cannot be read.
        expected_version: Append only if this is the newest position.
        replaces_only: Every row must replace a standing message (an edit).
        moves: It replaces it even by the same message: what was logged for a branch moves to the row's.
        idle_before: An invocation that is open and was not touched since counts as failed.
        is_bare: Every row is known to be a message of which nothing else was said: no id of the append, branch, author
            or run, no change of state and nothing extra.
        answers: The position of what it answers. Where a rewind has taken that back nothing is appended: an
            `EventNotFoundError`. 0 for what answers nothing.
        packed: What a store packed of the rows before its transaction; it is the store's own.
    """

    rows: tuple[EventRow, ...]
    now: int
    same: SameMessage
    expected_version: int | None = None
    replaces_only: bool = False
    idle_before: int = 0
    moves: bool = False
    is_bare: bool = False
    answers: int = 0
    packed: Packed = NOTHING_PACKED


class Appended(NamedTuple):
    """What an append stored: one row for each of the batch, new or found, and the version after it.

    `view` says where they stand; None where all of them are new and live.
    """

    rows: tuple[EventRow, ...]
    version: int
    view: LogView | None = None


class EventSlice(NamedTuple):
    """Rows of a log, oldest first, with what decides where they stand."""

    rows: list[EventRow]
    view: LogView
    total: int | None = None


class ContextSlice(NamedTuple):
    """The rows of one viewer's context, in context order."""

    session: SessionLog
    rows: Sequence[EventRow]
    view: LogView


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindPlan:
    """Where to go back to: a position, or the event before an invocation; and the record to append."""

    record: EventRow
    now: int
    to_seq: int | None = None
    before_invocation: str | None = None
    undo: bool = False
    reset_thread: bool = False


class Rewound(NamedTuple):
    """What a rewind did: its record, the position gone back to, and `user:`/`app:` keys that it left alone."""

    record: EventRow
    to_seq: int
    kept_keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivePlan:
    """A compaction to commit, valid as long as its range was not touched.

    Attributes:
        scope: The branch that it compacts.
        covered: Positions of the log that it archives, beyond those archived already.
        base_record: Record of the compaction in force then; 0 for none.
        record: The record to append.
        summaries: The events that stand for what is covered, at its first position; empty keeps those in force.
    """

    scope: str | None
    covered: SeqSet
    base_record: int
    record: EventRow
    now: int
    summaries: tuple[EventRow, ...] = ()
    idle_before: int = 0


class StateRows(NamedTuple):
    """State as stored: the session's document, then the user's and the app's values by bare key."""

    session: str
    user: dict[str, str]
    app: dict[str, str]


WALK: Final = 1_000
"""Sessions of a page where all of them are walked through: a store of partitions reads a minute again for each page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionQuery:
    """Which sessions to list, newest activity first: a page behind the time and key of a session, or one before it.

    Attributes:
        app: The app.
        owner: Whose sessions.
        now: The present; expired sessions are not there.
        limit: How many at most.
        after: The time and key of the last session that was shown.
        before: In its stead those of the first one that was shown: the page in front of it.
    """

    app: str
    owner: Owner
    now: int
    limit: int
    after: Place | None = None
    before: Place | None = None

    def neighbours(self, page: Sequence[Place], *, has_more: bool) -> tuple[Place | None, Place | None]:
        """What leads on from a page, and back from it.

        Args:
            page: The places of its sessions, newest first.
            has_more: Whether there is more in the direction that was asked for.
        """
        first, last = (page[0], page[-1]) if page else (None, None)
        if self.before is not None:
            return last, first if has_more else None
        if self.after is not None and first is None:
            first = (self.after[0], max(self.after[1] - 1, 0))  # in front of the place itself
        return last if has_more else None, None if self.after is None else first


class SessionSlice(NamedTuple):
    """A page of sessions, the place that the next follows, and the one that the page in front of it ends before."""

    rows: list[SessionHeading]
    after: Place | None
    before: Place | None = None


class ScopeMeasure(NamedTuple):
    """What decides whether a scope is to be compacted: its session and its counters."""

    session: SessionRow
    counters: Counters


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedLogs:
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
        searched: Of which logs.
        fingerprint: Only what was built like this counts.
        buckets: Buckets of terms.
        beginnings: Also buckets that begin so.
        most_scanned: How many events may be left to scan; above that nothing is read but what lags behind.
        of_chunks: Of a log only the buckets of the chunks of these numbers; None for all.
        chunks: The chunks that the caller knows: those of an index by the key of its session and its generation.
        held: Traits that the caller has: key of the session, number of the chunk, its generation; or a `shelf_key`.
        copied: What shelves of some numbers hold, where the caller knows it. They never change.
        most_apart: With shelves: how many logs that a shelf would take may be read one by one; None for without.
        longest_shelved: Longer logs are no shelf's, nor those `apart`, by key of the session and newest position.
        only: Of these logs only those, by the keys of their sessions, and no shelves but `whole_shelves`.
        whole_shelves: With `only`: shelves of which all is read; None for those that are to hold one of these logs.
        vectors: Also how far the vectors of the logs go, where that is told in the same round trip.
    """

    searched: SearchedLogs
    fingerprint: str
    buckets: tuple[str, ...]
    beginnings: tuple[str, ...] = ()
    most_scanned: int = 0
    of_chunks: tuple[int, ...] | None = None
    chunks: Mapping[tuple[int, int], tuple[StoredChunk, ...]] = field(default_factory=ChunksOfLogs)
    held: Container[tuple[int, int, int]] = ()
    copied: Callable[[Sequence[int]], Copied | None] | None = None
    most_apart: int | None = None
    longest_shelved: int = 0
    apart: Container[tuple[int, int]] = ()
    only: tuple[int, ...] | None = None
    whole_shelves: tuple[int, ...] | None = ()
    vectors: bool = False

    def may_shelve(self, session: SessionRow) -> bool:
        """Whether a shelf would take the log of a session."""
        return session.last_seq <= self.longest_shelved and (session.skey, session.last_seq) not in self.apart


class Copied(Protocol):
    """Up to where some shelves hold their logs.

    Attributes:
        logs: How many logs.
        total: The sum of the positions up to which they are there.
        left: Keys of sessions that they were met not to hold as they are.
    """

    logs: int
    total: int
    left: frozenset[int]

    def keep_left(self, keys: frozenset[int]) -> None:
        """Remember which sessions those are."""
        ...

    def upto(self, skey: int) -> int:
        """Up to which position the log of a session is there; 0 where it is not."""
        ...


class StoredChunk(NamedTuple):
    """A chunk of the index. It never changes: a merged one is written anew.

    Attributes:
        number: Its number in its log.
        last_seq: The position up to which it goes.
        events: How many events it holds.
        terms: How many terms they have in all.
        written: The generation of the index that wrote it.
        traits: What the index knows of its events, packed; empty where the caller has it.
    """

    number: int
    last_seq: int
    events: int
    terms: int
    written: int
    traits: bytes


class IndexedLog(NamedTuple):
    """One log as search reads it: its chunks, the asked buckets by chunk, and the events after the last chunk.

    Of the runs that are not done its view tells at least those of these events. The generation is that of its index.
    """

    session: SessionRow
    view: LogView
    chunks: tuple[StoredChunk, ...]
    buckets: Mapping[int, Mapping[str, bytes]]
    tail: list[EventRow]
    generation: int = 0


class IndexRead(NamedTuple):
    """The answer to an `IndexQuery`: the logs; or, where the index lags too far behind, whose it is.

    Attributes:
        logs: Those that are read one by one.
        behind: Whose index has to catch up first.
        shelves: Where shelves were asked for, and the store keeps them: those of the owner. They hold the other logs.
        shelf_buckets: The asked buckets of each shelf.
        apart: Keys of sessions whose copies on shelves are not to be searched: what they hold is in `logs`, or expired.
        unshelved: Where too many logs would be read one by one, nothing else is: those that a shelf would take.
        vectors: How far the vectors of the logs go, as `list_vectors` tells; None where that is to be asked.
    """

    logs: list[IndexedLog]
    behind: list[SessionKey]
    shelves: Sequence[StoredShelf] = ()
    shelf_buckets: Mapping[int, Mapping[str, bytes]] = {}
    apart: frozenset[int] = frozenset()
    unshelved: Sequence[UnshelvedLog] = ()
    vectors: list[VectorProgress] | None = None


class StoredShelf(NamedTuple):
    """A copy of the indexes of several logs of one owner, laid end to end. It never changes: another takes its place.

    Attributes:
        number: Its number, the store's own.
        fingerprint: How it was built; empty where it is named and not there.
        slots: How many places for events it has.
        traits: What it knows of its logs and events, packed; empty where the caller has it.
    """

    number: int
    fingerprint: str
    slots: int
    traits: bytes


class UnshelvedLog(NamedTuple):
    """A log that no shelf holds as it is now: its key, the session's own key, its length, how far its index goes."""

    key: SessionKey
    skey: int
    last_seq: int
    indexed_to: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShelfChange:
    """A new shelf, and those that it takes the place of.

    Attributes:
        shelf: The new shelf; None where it holds nothing.
        app: The app.
        owner: Whose it is.
        buckets: Its terms by bucket.
        logs: The sessions on it by their own keys, and the newest position of each that it holds.
        replaced: Shelves that go; without a new one all that hold one of `logs` go, too.
    """

    app: str
    owner: str | None
    shelf: StoredShelf | None = None
    buckets: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    logs: Mapping[int, int] = field(default_factory=dict[int, int])
    replaced: tuple[int, ...] = ()


def shelf_key(number: int) -> tuple[int, int, int]:
    """How the traits of a shelf are called among those of chunks; no session has the key 0."""
    return 0, number, 0


class IndexProgress(NamedTuple):
    """How far the index of a log goes.

    Attributes:
        skey: The session's own key.
        last_seq: The log's newest position.
        indexed_to: The newest position in the index; 0 where there is none of this fingerprint.
        generation: Counts changes of the index; 0 where there is none at all.
        chunks: Number, events and terms of each chunk, in order.
    """

    skey: int
    last_seq: int
    indexed_to: int
    generation: int
    chunks: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexChange:
    """One step forward of an index, valid as long as nobody else made one.

    Attributes:
        progress: What it was planned from.
        fingerprint: How it was built.
        indexed_to: The newest position in the index afterwards.
        replaced: Chunks that the new one takes the place of; it gets the number of the first.
        chunk: The new chunk; None where the new events hold nothing to search.
        buckets: Its terms by bucket.
    """

    progress: IndexProgress
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
