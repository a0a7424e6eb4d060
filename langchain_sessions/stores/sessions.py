"""The contract about sessions: their rows, without what was said in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_sessions._core.twins import threaded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._core.rows import EventRow, Owner, SessionKey, SessionRow
    from langchain_sessions.stores.values import SessionDraft, SessionQuery, SessionSlice


class SessionRecords(ABC):
    """What a store does with sessions. `SessionStore` is the whole contract."""

    waits: ClassVar[bool] = True
    """Whether a method may wait for a disk or a server. Where none does, the async half calls it on the loop."""

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
        """Headings of sessions by newest activity: no events and no state. Crosses partitions.

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
