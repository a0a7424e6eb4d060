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
- Nothing but `delete_session`, `delete_user` and `purge_expired` removes an event, and nothing but `blank_events`
  changes what one says.
- A call whose answer got lost may have happened. An append may be repeated, since its ids say what it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_sessions._core.twins import threaded
from langchain_sessions.stores._opening_and_closing import Store
from langchain_sessions.stores._recall import IndexStore, VectorStore
from langchain_sessions.stores._threads import ThreadStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._core.matching import EventQuery
    from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, Owner, SessionKey, SessionRow
    from langchain_sessions.stores._erasing import Blanked, BlankPlan, Remainder, UserRemoved
    from langchain_sessions.stores._values import (
        AppendBatch,
        Appended,
        ArchivePlan,
        ContextSlice,
        EventSlice,
        RewindPlan,
        Rewound,
        ScopeMeasure,
        SessionDraft,
        SessionQuery,
        SessionSlice,
        StateRows,
    )


class LogStore(ABC):
    """Sessions and their logs: what is appended, how it is read, and what changes where events stand."""

    waits: ClassVar[bool] = True

    # -- sessions ------------------------------------------------------------------------------------------

    @abstractmethod
    def create_session(self, /, draft: SessionDraft) -> SessionRow:
        """Create a session. An expired session of the same owner under that id is deleted first.

        Raises:
            SessionExistsError: The id is taken, by whomever.
        """

    @threaded(create_session)
    def acreate_session(self) -> None:
        """Async `create_session`."""

    @abstractmethod
    def open_session(self, /, draft: SessionDraft) -> SessionRow:
        """The draft's session, created if there is none. Atomic: of many callers one creates.

        Raises:
            SessionNotFoundError: It belongs to another owner, or was deleted lately and `draft.anew` is not set.
        """

    @threaded(open_session)
    def aopen_session(self) -> None:
        """Async `open_session`."""

    @abstractmethod
    def find_session(self, /, key: SessionKey, now: int) -> SessionRow | None:
        """The session, or None when there is none for this key."""

    @threaded(find_session)
    def afind_session(self) -> None:
        """Async `find_session`."""

    @abstractmethod
    def list_sessions(self, /, query: SessionQuery) -> SessionSlice:
        """Headings of sessions by newest activity: no events and no state. Crosses sessions.

        A page behind a place, or the one before it: the nearest sessions to it, newest first as well.

        Reads no more than it returns, but for a bounded look-ahead. A session is in a list as soon as the call that
        created or changed it has returned; one that changes while pages are read may be on two of them or, by moving
        to the front, on none that is still to come.
        """

    @threaded(list_sessions)
    def alist_sessions(self) -> None:
        """Async `list_sessions`."""

    @abstractmethod
    def update_session(self, /, key: SessionKey, changes: Mapping[str, Any], now: int) -> SessionRow:
        """Set columns of a session: title, expires_at, renewal, renewal_grain, metadata.

        `metadata` is a JSON object whose keys are merged into the stored one; null deletes.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(update_session)
    def aupdate_session(self) -> None:
        """Async `update_session`."""

    @abstractmethod
    def end_session(self, /, key: SessionKey, record: EventRow, ended_at: int | None, now: int) -> SessionRow:
        """End (or with None reopen) a session and append the record; nothing changes when it is so already.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(end_session)
    def aend_session(self) -> None:
        """Async `end_session`."""

    @abstractmethod
    def delete_session(self, /, key: SessionKey, now: int, tombstone_until: int) -> bool:
        """Remove a session with everything that it holds; leave a tombstone. False when there is none."""

    @threaded(delete_session)
    def adelete_session(self) -> None:
        """Async `delete_session`."""

    @abstractmethod
    def delete_user(self, /, app: str, user_id: str, now: int, tombstone_until: int) -> UserRemoved:
        """Remove all sessions of a user and the user's state; how much there was. Crosses sessions.

        Each session goes as a whole; a call that was cut short is repeated and removes the rest. Sessions created
        meanwhile may stay.
        """

    @threaded(delete_user)
    def adelete_user(self) -> None:
        """Async `delete_user`."""

    @abstractmethod
    def purge_expired(self, /, app: str, owner: Owner, now: int, limit: int) -> int:
        """Remove at most `limit` expired sessions and forget old tombstones; how many. Crosses sessions.

        Nobody can tell when: an expired session reads as missing at once.
        """

    @threaded(purge_expired)
    def apurge_expired(self) -> None:
        """Async `purge_expired`."""

    @abstractmethod
    def fork_session(self, /, key: SessionKey, draft: SessionDraft, at_seq: int | None) -> SessionRow:
        """Copy a log up to a position, hidden entries and checkpoints included, into a new session. Crosses sessions.

        The target is there once all of it is; a call that was cut short leaves none that anybody sees.

        Raises:
            SessionNotFoundError: There is no source for this key.
            SessionExistsError: The target's id is taken.
            EventNotFoundError: The source has no such position.
        """

    @threaded(fork_session)
    def afork_session(self) -> None:
        """Async `fork_session`."""

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
            EventNotFoundError: `replaces_only` is set and there is no such message, or what it answers was rewound.
        """

    @threaded(append_events)
    def aappend_events(self) -> None:
        """Async `append_events`."""

    @abstractmethod
    def find_events(self, /, key: SessionKey, query: EventQuery, now: int) -> EventSlice:
        """Rows that meet the query, in log order.

        Never loads more rows than it returns, unless a predicate forces it to look.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(find_events)
    def afind_events(self) -> None:
        """Async `find_events`."""

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
        said_only: bool = False,  # noqa: FBT001, FBT002 - given in order, as all are
    ) -> ContextSlice:
        """The message rows that stand in a viewer's context, the newest `last_n` of them, as `context_rows` makes them.

        Loads the live part only: what is archived costs nothing, nor does what is older than a window. With
        `said_only` messages are all that is made of the rows, which then need not say when and of how many tokens.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(load_context)
    def aload_context(self) -> None:
        """Async `load_context`."""

    @abstractmethod
    def rewind_events(self, /, key: SessionKey, plan: RewindPlan) -> Rewound:
        """Hide what came after a position and restore the session's state of then; append a record.

        Raises:
            SessionNotFoundError: There is none for this key.
            EventNotFoundError: There is no such position or invocation, or nothing to undo.
        """

    @threaded(rewind_events)
    def arewind_events(self) -> None:
        """Async `rewind_events`."""

    @abstractmethod
    def archive_events(self, /, key: SessionKey, plan: ArchivePlan) -> tuple[EventRow, ...] | None:
        """Commit a compaction: archive the covered rows and put the summaries in their place.

        Returns:
            The appended rows: the record, then the summaries. None, and nothing is changed, when a rewind, an
            edit or another compaction touched the range since it was planned.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(archive_events)
    def aarchive_events(self) -> None:
        """Async `archive_events`."""

    @abstractmethod
    def append_record(self, /, key: SessionKey, record: EventRow, now: int) -> EventRow:
        """Append one entry that is no message and changes no standing; allowed on an ended session.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(append_record)
    def aappend_record(self) -> None:
        """Async `append_record`."""

    @abstractmethod
    def blank_events(self, /, key: SessionKey, plan: BlankPlan) -> Blanked:
        """Overwrite what some messages said, and every copy of it that the store keeps; append a record.

        Each event keeps its position and where it stands; counters follow. In the same transaction the log's index
        and every shelf that holds a copy of it go, to be built again by the next search; so do the vectors of these
        events; and what the thread's checkpoints and writes hold of their words is overwritten (`overwrite_thread`).
        Who read before and writes later writes nothing of it back: an index moves from its generation, a shelf from
        newer logs than the record, vectors of overwritten events are left out. Allowed on an ended session. Where
        nothing is left to overwrite, nothing changes.

        Raises:
            SessionNotFoundError: There is none for this key.
            EventNotFoundError: There is no such message or position.
            InvalidInputError: A position holds no message.
        """

    @threaded(blank_events)
    def ablank_events(self) -> None:
        """Async `blank_events`."""

    @abstractmethod
    def count_live(self, /, key: SessionKey, scope: str | None, now: int) -> Counters:
        """How many events, turns and tokens are live in one branch scope, from counters.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(count_live)
    def acount_live(self) -> None:
        """Async `count_live`."""

    @abstractmethod
    def measure_scope(self, /, key: SessionKey, scope: str | None, now: int) -> ScopeMeasure:
        """The session and the counters of one scope, in at most two statements and without a body.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(measure_scope)
    def ameasure_scope(self) -> None:
        """Async `measure_scope`."""

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

    @threaded(lease_scope)
    def alease_scope(self) -> None:
        """Async `lease_scope`."""

    @abstractmethod
    def find_invocation(self, /, key: SessionKey, invocation_id: str, now: int) -> InvocationRow | None:
        """How far an invocation got; None when the session has none of that id."""

    @threaded(find_invocation)
    def afind_invocation(self) -> None:
        """Async `find_invocation`."""

    @abstractmethod
    def load_state(self, /, key: SessionKey, now: int) -> StateRows:
        """The session's state and the shared state of its user and app. Crosses sessions.

        Whoever appended a `user:` or `app:` value reads it as soon as the append has returned; of two writers of one
        key the last wins.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(load_state)
    def aload_state(self) -> None:
        """Async `load_state`."""

    @abstractmethod
    def load_shared(self, /, app: str, user_id: str | None) -> StateRows:
        """The shared state of an app and, where one is named, of a user, without a session. Crosses sessions."""

    @threaded(load_shared)
    def aload_shared(self) -> None:
        """Async `load_shared`."""

    @abstractmethod
    def change_shared(self, /, app: str, user_id: str | None, delta: str, now: int) -> StateRows:
        """Write the `user:` and `app:` keys of a delta; the state after it. Crosses sessions.

        Of two writers of one key the last wins, whether it wrote from a session or without one.

        Raises:
            InvalidInputError: It has `user:` keys, and no user is named.
        """

    @threaded(change_shared)
    def achange_shared(self) -> None:
        """Async `change_shared`."""

    @abstractmethod
    def verify_session(self, /, key: SessionKey, now: int) -> list[str]:
        """Rebuild every derived value of a session from its log; a line for each that differs.

        Raises:
            SessionNotFoundError: There is none for this key.
        """

    @threaded(verify_session)
    def averify_session(self) -> None:
        """Async `verify_session`."""


class SessionStore(Store, LogStore, ThreadStore, IndexStore, VectorStore):
    """The whole contract. See the module for the rules that hold for every method."""

    @property
    def remainders(self) -> tuple[Remainder, ...]:
        """What goes on to be kept of what was removed, by the engine itself, and what clears it."""
        return ()
