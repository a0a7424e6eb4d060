"""The contract about logs: what is appended to them, how they are read, and what changes where events stand."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from langchain_sessions._core.twins import threaded
from langchain_sessions.stores.sessions import SessionRecords

if TYPE_CHECKING:
    from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, SessionKey
    from langchain_sessions.stores.values import (
        AppendBatch,
        Appended,
        ArchivePlan,
        ContextSlice,
        EventQuery,
        EventSlice,
        RewindPlan,
        Rewound,
        ScopeMeasure,
        StateRows,
    )


class SessionLogs(SessionRecords):
    """What a store does with logs. `SessionStore` is the whole contract."""

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

        Loads the live part only: what is archived costs nothing.

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
