"""The part of a service that is about sessions: created, opened, listed, changed, ended, forked and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._core.edge import told_methods
from langchain_sessions._core.flow import adrive, drive
from langchain_sessions._log import lifecycle, verify
from langchain_sessions._log.values import UNSET, Unset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from langchain_sessions._log.log import Log
    from langchain_sessions._log.values import Removal
    from langchain_sessions.page import Page
    from langchain_sessions.session import Session


@told_methods
class SessionMethods:
    """The methods of `SessionService` that are about sessions. Each is a workflow of `lifecycle`, run in two ways."""

    _log: Log

    def create(
        self,
        session_id: str | None = None,
        *,
        user_id: str | Unset | None = UNSET,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        time_to_live: timedelta | Unset | None = UNSET,
    ) -> Session:
        """Create a session.

        Args:
            session_id: Its id; by default a new one.
            user_id: Its owner, on the operator's service. A bound view creates for its own user.
            title: What a list shows.
            metadata: The caller's own data.
            state: Initial state; `user:` and `app:` keys reach further, `temp:` keys are dropped.
            time_to_live: How long it lives, None for ever; by default the service's.

        Raises:
            SessionExistsError: The id is taken, by whomever; nothing was changed.
            InvalidInputError: A value cannot be used.
        """
        return drive(
            lifecycle.create_session(
                self._log,
                session_id,
                user_id=user_id,
                title=title,
                metadata=metadata,
                state=state,
                time_to_live=time_to_live,
            )
        )

    async def acreate(
        self,
        session_id: str | None = None,
        *,
        user_id: str | Unset | None = UNSET,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        time_to_live: timedelta | Unset | None = UNSET,
    ) -> Session:
        """Async `create`."""
        return await adrive(
            lifecycle.create_session(
                self._log,
                session_id,
                user_id=user_id,
                title=title,
                metadata=metadata,
                state=state,
                time_to_live=time_to_live,
            )
        )

    def open(self, session_id: str, *, user_id: str | Unset | None = UNSET, anew: bool = True) -> Session:
        """The session of an id, created if there is none. Atomic: of many callers one creates.

        Args:
            session_id: Its id.
            user_id: Its owner, on the operator's service; by default whoever owns it, else nobody.
            anew: Whether an id that was deleted lately may start anew. A late write passes False.

        Raises:
            SessionNotFoundError: It belongs to somebody else, or was deleted lately and `anew` is False.
        """
        return drive(lifecycle.open_session(self._log, session_id, user_id=user_id, anew=anew))

    async def aopen(self, session_id: str, *, user_id: str | Unset | None = UNSET, anew: bool = True) -> Session:
        """Async `open`."""
        return await adrive(lifecycle.open_session(self._log, session_id, user_id=user_id, anew=anew))

    def get(self, session_id: str) -> Session:
        """The session of an id, without its events.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        return drive(lifecycle.get_session(self._log, session_id))

    async def aget(self, session_id: str) -> Session:
        """Async `get`."""
        return await adrive(lifecycle.get_session(self._log, session_id))

    def list_sessions(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """Sessions of this view, newest activity first, without loading events.

        One whose row cannot be read is left out, and an error is logged that names it.

        Args:
            limit: How many at most.
            cursor: The `next_cursor` or `previous_cursor` of an earlier page. Who goes back to the beginning gets the
                page that the list begins with now.

        Raises:
            InvalidInputError: The cursor is not one of this method, or the limit is not above 0.
        """
        return drive(lifecycle.list_sessions(self._log, limit=limit, cursor=cursor))

    async def alist_sessions(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """Async `list_sessions`."""
        return await adrive(lifecycle.list_sessions(self._log, limit=limit, cursor=cursor))

    def update(
        self,
        session_id: str,
        *,
        title: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | None = None,
        time_to_live: timedelta | Unset | None = UNSET,
    ) -> Session:
        """Change what a session says about itself; its log is not touched.

        Args:
            session_id: The session.
            title: The new title.
            metadata: Keys to set; a key with None is removed, others stay.
            time_to_live: How long it lives from now on; None for ever.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        return drive(
            lifecycle.update_session(self._log, session_id, title=title, metadata=metadata, time_to_live=time_to_live)
        )

    async def aupdate(
        self,
        session_id: str,
        *,
        title: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | None = None,
        time_to_live: timedelta | Unset | None = UNSET,
    ) -> Session:
        """Async `update`."""
        return await adrive(
            lifecycle.update_session(self._log, session_id, title=title, metadata=metadata, time_to_live=time_to_live)
        )

    def end(self, session_id: str) -> Session:
        """End a session: it can be read and searched, but takes no events until `reopen`. Idempotent.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        return drive(lifecycle.end_session(self._log, session_id))

    async def aend(self, session_id: str) -> Session:
        """Async `end`."""
        return await adrive(lifecycle.end_session(self._log, session_id))

    def reopen(self, session_id: str) -> Session:
        """Let an ended session take events again. Idempotent.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        return drive(lifecycle.reopen_session(self._log, session_id))

    async def areopen(self, session_id: str) -> Session:
        """Async `reopen`."""
        return await adrive(lifecycle.reopen_session(self._log, session_id))

    def delete(self, session_id: str) -> bool:
        """Remove a session with everything that it holds: events, state, index, checkpoints. False if there is none.

        A late write cannot bring it back; `create` starts anew. What a `LongTermMemory` of this service keeps of it
        goes first; where that fails, nothing is removed.
        """
        return drive(lifecycle.delete_session(self._log, session_id))

    async def adelete(self, session_id: str) -> bool:
        """Async `delete`."""
        return await adrive(lifecycle.delete_session(self._log, session_id))

    def delete_user(self, user_id: str | None = None) -> Removal:
        """Remove all sessions of a user and the user's `user:` state; how many sessions there were, and what else.

        What a `LongTermMemory` of this service keeps of them goes first, as for `delete`. The result also names what
        the database itself goes on keeping, such as dead rows, statistics and logs, and the statements that clear it.

        Args:
            user_id: Whose, on the operator's service; a bound view removes its own.
        """
        return drive(lifecycle.delete_user(self._log, user_id))

    async def adelete_user(self, user_id: str | None = None) -> Removal:
        """Async `delete_user`."""
        return await adrive(lifecycle.delete_user(self._log, user_id))

    def purge_expired(self, *, batch: int = 100, progress: Callable[[int], None] | None = None) -> int:
        """Remove expired sessions for good, a batch per transaction; how many.

        Args:
            batch: How many per transaction.
            progress: Told the total after each batch.
        """
        return drive(lifecycle.purge_expired(self._log, batch=batch, progress=progress))

    async def apurge_expired(self, *, batch: int = 100, progress: Callable[[int], None] | None = None) -> int:
        """Async `purge_expired`."""
        return await adrive(lifecycle.purge_expired(self._log, batch=batch, progress=progress))

    def fork(
        self,
        session_id: str,
        *,
        at_seq: int | None = None,
        new_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """A new session of the same owner with a copy of the log up to a position, hidden events included.

        `user:` and `app:` state is shared, not copied. The fork's metadata names its source.

        Args:
            session_id: The source.
            at_seq: The last position to copy; by default all.
            new_id: The fork's id; by default a new one.
            title: The fork's title; by default the source's.
            metadata: Added to the source's metadata.

        Raises:
            SessionNotFoundError: There is no source for this view.
            SessionExistsError: The new id is taken.
            EventNotFoundError: The source has no such position.
        """
        return drive(
            lifecycle.fork_session(self._log, session_id, at_seq=at_seq, new_id=new_id, title=title, metadata=metadata)
        )

    async def afork(
        self,
        session_id: str,
        *,
        at_seq: int | None = None,
        new_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """Async `fork`."""
        return await adrive(
            lifecycle.fork_session(self._log, session_id, at_seq=at_seq, new_id=new_id, title=title, metadata=metadata)
        )

    def verify(self, session_id: str) -> list[str]:
        """Build everything that is derived from the log of a session anew; a line for each thing that differs.

        An embedder is asked again for a few texts only, and where it does not answer they are not compared.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(verify.verify_session(self._log, session_id))

    async def averify(self, session_id: str) -> list[str]:
        """Async `verify`."""
        return await adrive(verify.verify_session(self._log, session_id))
