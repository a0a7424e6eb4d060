"""The contract that every store keeps.

A store holds logs. It assigns positions, keeps identities unique, counts what is live and changes where events
stand; it knows nothing of messages, models or prompts. What it has to do comes as small classes: `LogStore`,
`ThreadStore`, `IndexStore` and `VectorStore`; a `SessionStore` is all of them. `values` are what is passed.

The synchronous half is abstract. The asynchronous half is supplied: `ax` runs `x` in a worker thread, and a call
that is cancelled finishes first. A store with native async I/O overrides it; one that waits for nothing clears `waits`.

Rules that hold for every method:

- A method is atomic per session: it happens as a whole or not at all, and whoever reads afterwards sees it. All but
  those marked *crosses sessions* touch one session only, so that an engine may keep each on a machine of its own.
- A method that crosses sessions is atomic for each of them and says when the rest is visible. It may be repeated:
  a second call does what the first, cut short, did not.
- Functions that are passed in (`AppendBatch.same`, `EventQuery.predicate`, what decides a checkpoint or what to prune)
  are pure. A store may call them more than once, each time with what it has just read.
- A key names app, session and owner. A session of another owner, an expired one and one that does not exist are
  the same: `SessionNotFoundError`, or the method's empty answer.
- Every change of a log moves `last_seq`. Positions are 1, 2, 3 … without a gap, assigned where they are stored.
- Nothing but `delete_session`, `delete_user` and `purge_expired` removes an event.
- A call whose answer got lost may have happened. An append may be repeated, since its ids say what it is.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.twins import threaded
from langchain_sessions.stores._life import Store
from langchain_sessions.stores._threads import ThreadStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, Owner, SessionKey, SessionRow
    from langchain_sessions.stores._values import (
        AppendBatch,
        Appended,
        ArchivePlan,
        ContextSlice,
        EventQuery,
        EventSlice,
        IndexChange,
        IndexPlace,
        IndexQuery,
        IndexRead,
        LogScan,
        LogScope,
        LogSlice,
        RewindPlan,
        Rewound,
        ScopeMeasure,
        SessionDraft,
        SessionQuery,
        SessionSlice,
        StateRows,
        StoredChunk,
        VectorChange,
        VectorPlace,
    )


class LogStore(Store):
    """Sessions and their logs: what is appended, how it is read, and what changes where events stand."""

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
        """Headings of sessions by newest activity: no events and no state. Crosses sessions.

        Reads no more than it returns, but for a bounded look-ahead. A session is in a list as soon as the call that
        created or changed it has returned; one that changes while pages are read may be on two of them or, by moving
        to the front, on none that is still to come.
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
        """Remove all sessions of a user and the user's state; how many sessions. Crosses sessions.

        Each session goes as a whole; a call that was cut short is repeated and removes the rest. Sessions created
        meanwhile may stay.
        """

    adelete_user = threaded(delete_user)

    @abstractmethod
    def purge_expired(self, /, app: str, owner: Owner, now: int, limit: int) -> int:
        """Remove at most `limit` expired sessions and forget old tombstones; how many. Crosses sessions.

        Nobody can tell when: an expired session reads as missing at once.
        """

    apurge_expired = threaded(purge_expired)

    @abstractmethod
    def fork_session(self, /, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> SessionRow:
        """Copy a log up to a position, hidden entries and checkpoints included, into a new session. Crosses sessions.

        The target is there once all of it is; a call that was cut short leaves none that anybody sees.

        Raises:
            SessionNotFoundError: There is no source for this key.
            SessionExistsError: The target's id is taken.
            EventNotFoundError: The source has no such position.
        """

    afork_session = threaded(fork_session)

    @abstractmethod
    def append_events(self, /, key: SessionKey, batch: AppendBatch) -> Appended:
        """Append a batch: all of it or nothing.

        Idempotent by event id among the standing events: the same message returns the stored row, another one
        raises. A row whose message is stored under another event id replaces it (an edit) or, when equal, is
        returned. State deltas of new rows take effect with them; `user:` and `app:` keys, which
        cross sessions, before the call returns.

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
        """The message rows that stand in a viewer's context, the newest `last_n` of them, as `context_rows` makes them.

        Loads the live part only: what is archived costs nothing, nor does what is older than a window.

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
            edit or another compaction touched the range since it was planned.

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

    @abstractmethod
    def load_state(self, /, key: SessionKey, now: int) -> StateRows:
        """The session's state and the scoped state of its user and app. Crosses sessions.

        Whoever appended a `user:` or `app:` value reads it as soon as the append has returned; of two writers of one
        key the last wins.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    aload_state = threaded(load_state)

    @abstractmethod
    def verify_session(self, /, key: SessionKey, now: int) -> list[str]:
        """Rebuild every derived value of a session from its log; a line for each that differs.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    averify_session = threaded(verify_session)


class IndexStore(Store):
    """What recall keeps beside logs: chunks of an index that lags behind, is deleted with its log and can be rebuilt.

    A store does not know what is in a chunk.
    """

    @abstractmethod
    def load_index(self, /, query: IndexQuery) -> IndexRead:
        """What a search needs of the index, and the events after it; or whose index has to catch up first.

        Each log as of one moment. Crosses sessions where the scope holds several.

        Raises:
            SessionNotFoundError: The scope names one session and there is none.
        """

    aload_index = threaded(load_index)

    @abstractmethod
    def find_index(self, /, key: SessionKey, fingerprint: str, now: int) -> IndexPlace:
        """How far the index of a log goes. Without an index: to its end.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    afind_index = threaded(find_index)

    @abstractmethod
    def load_chunks(
        self, /, key: SessionKey, place: IndexPlace, numbers: Sequence[int], now: int
    ) -> list[tuple[StoredChunk, dict[str, bytes]]] | None:
        """Whole chunks of an index with their buckets; None where the index is no longer as `place` says."""

    aload_chunks = threaded(load_chunks)

    @abstractmethod
    def write_index(self, /, key: SessionKey, change: IndexChange, now: int) -> bool:
        """Move an index forward; False, and nothing is changed, where it moved since the plan, or the log is gone."""

    awrite_index = threaded(write_index)

    @abstractmethod
    def scan_logs(self, /, scope: LogScope, query: EventQuery, after: tuple[int, int] = (0, 0)) -> LogScan:
        """Rows that meet a query in the next stretch of the logs of a scope, in the order of their keys.

        A scan goes through a bounded number of events per call. Logs without a row are left out where there are
        several. Crosses sessions.

        Args:
            scope: Which logs.
            query: Criteria; without a window.
            after: What the call before returned.

        Raises:
            SessionNotFoundError: The scope names one session and there is none.
        """

    ascan_logs = threaded(scan_logs)

    @abstractmethod
    def load_events(self, /, scope: LogScope, places: Mapping[str, SeqSet]) -> list[LogSlice]:
        """Rows at some positions of some sessions of a scope; what is gone is left out. Crosses sessions."""

    aload_events = threaded(load_events)


class VectorStore(Store):
    """A vector per event for the semantic part of recall, kept beside the log and deleted with it.

    A store does not know what is in a vector, nor whose embedder made it.
    """

    @abstractmethod
    def list_vectors(self, /, scope: LogScope) -> list[VectorPlace]:
        """How far the vectors of every log of a scope go, in the order of their keys. Crosses sessions."""

    alist_vectors = threaded(list_vectors)

    @abstractmethod
    def find_vectors(self, /, key: SessionKey, now: int) -> VectorPlace:
        """How far the vectors of a log go.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    afind_vectors = threaded(find_vectors)

    @abstractmethod
    def load_vectors(self, /, scope: LogScope, places: Mapping[VectorPlace, SeqSet]) -> dict[tuple[int, int], bytes]:
        """Vectors at some positions of some logs of a scope, by session key and position. Crosses sessions.

        What is not there, or belongs to another set by now, is left out.
        """

    aload_vectors = threaded(load_vectors)

    @abstractmethod
    def write_vectors(self, /, key: SessionKey, change: VectorChange, now: int) -> bool:
        """Add vectors to a log; False, and nothing is changed, where they moved since the plan, or the log is gone."""

    awrite_vectors = threaded(write_vectors)


class SessionStore(LogStore, ThreadStore, IndexStore, VectorStore):
    """The whole contract. See the module for the rules that hold for every method."""
