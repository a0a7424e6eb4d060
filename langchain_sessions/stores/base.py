"""The contract that every store keeps.

A store holds logs. It assigns positions, keeps identities unique, counts what is live and changes where events
stand; it knows nothing of messages, models or prompts. Each method here is atomic, and all but those marked
*crosses partitions* touch one session only, so that an engine may keep each session on a machine of its own.

The synchronous half is abstract. The asynchronous half is supplied: `ax` runs `x` in a worker thread, and a call
that is cancelled finishes first. A store with native async I/O overrides it.

Rules that hold for all of them:

- A key names app, session and owner. A session of another owner, an expired one and one that does not exist are
  the same: `SessionNotFoundError`, or the method's empty answer.
- The session row is locked or bumped before anything else is written; every change of the log moves `last_seq`.
- Positions are 1, 2, 3 … without a gap, assigned in the inserting transaction.
- Nothing but `delete_session`, `delete_user` and `purge_expired` removes an event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.filters import ANY_BRANCH, AnyBranch
from langchain_sessions.rows import Counters, EventRow, InvocationRow, Owner, SessionKey, SessionRow
from langchain_sessions.stores import indexing
from langchain_sessions.stores._twins import threaded
from langchain_sessions.stores.vectors import VectorChange, VectorPlace

if TYPE_CHECKING:
    from langchain_sessions.events import Standing
    from langchain_sessions.ledger import LogView
    from langchain_sessions.runs import SeqSet

SameMessage = Callable[[EventRow, EventRow], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDraft:
    """A session to create or open."""

    app: str
    id: str
    user_id: str | None
    now: int
    title: str | None = None
    metadata: str = "{}"
    state: str = "{}"
    scoped_delta: str | None = None
    expires_at: int | None = None
    renewal: int | None = None
    renewal_grain: int | None = None
    anew: bool = True


class AppendBatch(NamedTuple):
    """Events to append in one transaction.

    Attributes:
        rows: The events, `seq` still 0, `rev` still 0.
        now: The time of the append.
        same: Whether a stored row and a new one hold the same message.
        expected_version: Append only if this is the newest position.
        replaces_only: Every row must replace a standing message (an edit).
        idle_before: An invocation that is open and was not touched since counts as failed.
    """

    rows: tuple[EventRow, ...]
    now: int
    same: SameMessage
    expected_version: int | None = None
    replaces_only: bool = False
    idle_before: int = 0


class Appended(NamedTuple):
    """What an append stored: one row for each of the batch, new or found, and the version after it.

    `view` says where they stand; None where all of them are new and live.
    """

    rows: tuple[EventRow, ...]
    version: int
    view: LogView | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EventQuery:
    """The criteria of an `EventFilter` in stored form, and a window.

    Rows come back oldest first. `newest` counts the window from the end. `predicate` is asked for each row that
    meets everything else, before the window; it is for what no database compares alike.
    """

    kinds: frozenset[int] = frozenset()
    standings: frozenset[Standing] = frozenset()
    exclude_synthetic: bool = False
    since: int | None = None
    until: int | None = None
    keyword: str | None = None
    keywords: tuple[str, ...] = ()
    match_all: bool = True
    branch: str | AnyBranch | None = ANY_BRANCH
    authors: frozenset[str] = frozenset()
    invocation_id: str | None = None
    after_seq: int | None = None
    before_seq: int | None = None
    newest: bool = False
    limit: int | None = None
    offset: int = 0
    with_total: bool = False
    predicate: Callable[[EventRow], bool] | None = None
    idle_before: int = 0


class EventSlice(NamedTuple):
    """Rows of a log, oldest first, with what decides where they stand."""

    rows: list[EventRow]
    view: LogView
    total: int | None = None


class ContextSlice(NamedTuple):
    """The rows of one viewer's context, in context order."""

    session: SessionRow
    rows: list[EventRow]
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
        base_version: The version that it was planned at. Appends since then do not matter.
        base_record: Record of the compaction in force then; 0 for none.
        record: The record to append.
        summaries: The events that stand for what is covered; they take its first position. Empty keeps the
            summaries in force.

    """

    scope: str | None
    covered: SeqSet
    base_version: int
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


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionQuery:
    """Which sessions to list: newest activity first, after a place that an earlier answer named."""

    app: str
    owner: Owner
    now: int
    limit: int
    after: tuple[int, ...] | None = None


class SessionSlice(NamedTuple):
    """A page of sessions and the place of the next; None at the end."""

    rows: list[SessionRow]
    after: tuple[int, ...] | None


class ScopeMeasure(NamedTuple):
    """What decides whether a scope is to be compacted: its session and its counters."""

    session: SessionRow
    counters: Counters


class SessionStore(ABC):
    """Logs of conversations. See the module for the rules that hold for every method."""

    # -- life ----------------------------------------------------------------------------------------------

    @abstractmethod
    def create_schema(self, /) -> None:
        """Create or upgrade the tables. Idempotent, safe when many processes do it at once.

        Raises:
            SchemaVersionError: The database is newer than this release.
        """

    acreate_schema = threaded(create_schema)

    @abstractmethod
    def close(self, /) -> None:
        """Release what the store opened itself; finish nothing, lose nothing."""

    aclose = threaded(close)

    # -- sessions ------------------------------------------------------------------------------------------

    @abstractmethod
    def create_session(self, /, draft: SessionDraft) -> SessionRow:
        """Create a session. An expired session of the same owner under that id is deleted first.

        Raises:
            SessionExistsError: The id is taken, by whomever.
        """

    acreate_session = threaded(create_session)

    @abstractmethod
    def open_session(self, /, draft: SessionDraft) -> SessionRow:
        """The draft's session, created if there is none. Atomic: of many callers one creates.

        Raises:
            SessionNotFoundError: It belongs to another owner, or was deleted lately and `draft.anew` is not set.
        """

    aopen_session = threaded(open_session)

    @abstractmethod
    def find_session(self, /, key: SessionKey, now: int) -> SessionRow | None:
        """The session, or None when there is none for this key."""

    afind_session = threaded(find_session)

    @abstractmethod
    def list_sessions(self, /, query: SessionQuery) -> SessionSlice:
        """Sessions by newest activity, without their events. Crosses partitions.

        Reads no more than it returns, but for a bounded look-ahead.
        """

    alist_sessions = threaded(list_sessions)

    @abstractmethod
    def update_session(self, /, key: SessionKey, changes: Mapping[str, Any], now: int) -> SessionRow:
        """Set columns of a session: title, expires_at, renewal, renewal_grain, metadata.

        `metadata` is a JSON object whose keys are merged into the stored one; null deletes.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    aupdate_session = threaded(update_session)

    @abstractmethod
    def end_session(self, /, key: SessionKey, record: EventRow, ended_at: int | None, now: int) -> SessionRow:
        """End (or with None reopen) a session and append the record; nothing changes when it is so already.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    aend_session = threaded(end_session)

    @abstractmethod
    def delete_session(self, /, key: SessionKey, now: int, tombstone_until: int) -> bool:
        """Remove a session with everything that it holds; leave a tombstone. False when there is none."""

    adelete_session = threaded(delete_session)

    @abstractmethod
    def delete_user(self, /, app: str, user_id: str, now: int, tombstone_until: int) -> int:
        """Remove all sessions of a user and the user's state; how many sessions. Crosses partitions."""

    adelete_user = threaded(delete_user)

    @abstractmethod
    def purge_expired(self, /, app: str, owner: Owner, now: int, limit: int) -> int:
        """Remove at most `limit` expired sessions and forget old tombstones; how many. Crosses partitions."""

    apurge_expired = threaded(purge_expired)

    @abstractmethod
    def fork_session(self, /, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> SessionRow:
        """Copy a log up to a position, hidden entries included, into a new session. Crosses partitions.

        Raises:
            SessionNotFoundError: There is no source for this key.
            SessionExistsError: The target's id is taken.
            EventNotFoundError: The source has no such position.
        """

    afork_session = threaded(fork_session)

    # -- the log -------------------------------------------------------------------------------------------

    @abstractmethod
    def append_events(self, /, key: SessionKey, batch: AppendBatch) -> Appended:
        """Append a batch: all of it or nothing.

        Idempotent by event id among the standing events: the same message returns the stored row, another one
        raises. A row whose message is stored under another event id replaces it (an edit) or, when equal, is
        returned. State deltas of new rows take effect in the same transaction.

        Raises:
            SessionNotFoundError: There is none for this key.
            SessionEndedError: It was ended.
            StaleSessionError: `expected_version` is not the newest position.
            EventConflictError: An id stands with another message.
            EventNotFoundError: `replaces_only` is set and there is no such message.
        """

    aappend_events = threaded(append_events)

    @abstractmethod
    def find_events(self, /, key: SessionKey, query: EventQuery, now: int) -> EventSlice:
        """Rows that meet the query, in log order.

        Never loads more rows than it returns, unless a predicate forces it to look.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    afind_events = threaded(find_events)

    @abstractmethod
    def load_context(
        self,
        /,
        key: SessionKey,
        viewer: str | None,
        invocation_id: str | None,
        last_n: int | None,
        now: int,
        idle_before: int,
    ) -> ContextSlice:
        """The message rows that stand in a viewer's context, in context order; the newest `last_n` of them.

        The rows of each run stand together, where the run began. Loads the live part only: what is archived costs
        nothing.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    aload_context = threaded(load_context)

    @abstractmethod
    def rewind_events(self, /, key: SessionKey, plan: RewindPlan) -> Rewound:
        """Hide what came after a position and restore the session's state of then; append a record.

        Raises:
            SessionNotFoundError: There is none for this key.
            EventNotFoundError: There is no such position or invocation, or nothing to undo.
        """

    arewind_events = threaded(rewind_events)

    @abstractmethod
    def archive_events(self, /, key: SessionKey, plan: ArchivePlan) -> tuple[EventRow, ...] | None:
        """Commit a compaction: archive the covered rows and put the summaries in their place.

        Returns:
            The appended rows: the record, then the summaries. None, and nothing is changed, when a rewind, an
            edit or another compaction touched the range since `plan.base_version`.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    aarchive_events = threaded(archive_events)

    @abstractmethod
    def append_record(self, /, key: SessionKey, record: EventRow, now: int) -> EventRow:
        """Append one entry that is no message and changes no standing; allowed on an ended session.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    aappend_record = threaded(append_record)

    @abstractmethod
    def count_live(self, /, key: SessionKey, scope: str | None, now: int) -> Counters:
        """How many events, turns and tokens are live in one branch scope, from counters.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    acount_live = threaded(count_live)

    @abstractmethod
    def measure_scope(self, /, key: SessionKey, scope: str | None, now: int) -> ScopeMeasure:
        """The session and the counters of one scope, in at most two statements and without a body.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    ameasure_scope = threaded(measure_scope)

    @abstractmethod
    def lease_scope(self, /, key: SessionKey, scope: str | None, holder: str, now: int, until: int) -> bool:
        """Reserve a scope for one compactor, so that no two pay for the same summary.

        It is granted where nobody holds it, where the holder's time is over, and to the holder itself, who so
        extends it, or gives it back with an `until` of now. It guards money, not the log: that is `archive_events`.

        Returns:
            Whether the scope is the holder's until then.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    alease_scope = threaded(lease_scope)

    @abstractmethod
    def find_invocation(self, /, key: SessionKey, invocation_id: str, now: int) -> InvocationRow | None:
        """How far an invocation got; None when the session has none of that id."""

    afind_invocation = threaded(find_invocation)

    # -- state ---------------------------------------------------------------------------------------------

    @abstractmethod
    def load_state(self, /, key: SessionKey, now: int) -> StateRows:
        """The session's state and the scoped state of its user and app. The scoped part crosses partitions.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    aload_state = threaded(load_state)

    # -- maintenance ---------------------------------------------------------------------------------------

    @abstractmethod
    def verify_session(self, /, key: SessionKey, now: int) -> list[str]:
        """Rebuild every derived value of a session from its log; a line for each that differs.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    averify_session = threaded(verify_session)

    # -- recall: concrete; a store that keeps no index answers from its logs ---------------------------------

    def load_index(self, /, query: indexing.IndexQuery) -> indexing.IndexRead:
        """What a search needs of the index, and the events after it; or whose index has to catch up first.

        All of it as of one moment, per log. Crosses partitions where the scope holds several sessions.

        Raises:
            SessionNotFoundError: The scope names one session and there is none.
        """
        return indexing.scan_index(self, query.scope)

    aload_index = threaded(load_index)

    def find_index(self, /, key: SessionKey, fingerprint: str, now: int) -> indexing.IndexPlace:
        """How far the index of a log goes. Without an index: to its end.

        Raises:
            SessionNotFoundError: There is none for this key.
        """
        del fingerprint
        session = self.find_session(key, now)
        if session is None:
            raise SessionNotFoundError(key.id)
        return indexing.IndexPlace(session.skey, session.last_seq, session.last_seq, 0, ())

    afind_index = threaded(find_index)

    def load_chunks(
        self, /, place: indexing.IndexPlace, numbers: Sequence[int]
    ) -> list[tuple[indexing.StoredChunk, dict[str, bytes]]] | None:
        """Whole chunks of an index with their buckets; None where the index is no longer as `place` says."""
        del place, numbers
        return []

    aload_chunks = threaded(load_chunks)

    def write_index(self, /, key: SessionKey, change: indexing.IndexChange, now: int) -> bool:
        """Move an index forward; False, and nothing is changed, where it moved since the plan, or the log is gone."""
        del key, change, now
        return False

    awrite_index = threaded(write_index)

    def scan_logs(
        self, /, scope: indexing.LogScope, query: EventQuery, after: tuple[int, int] = (0, 0)
    ) -> indexing.LogScan:
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
        return indexing.scan_logs(self, scope, query, after)

    ascan_logs = threaded(scan_logs)

    def load_events(self, /, scope: indexing.LogScope, places: Mapping[str, SeqSet]) -> list[indexing.LogSlice]:
        """Rows at some positions of some sessions of a scope; what is gone is left out."""
        return indexing.pick_events(self, scope, places)

    aload_events = threaded(load_events)

    # -- vectors: concrete; a store that keeps none is never behind ------------------------------------------

    def list_vectors(self, /, scope: indexing.LogScope) -> list[VectorPlace]:
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
