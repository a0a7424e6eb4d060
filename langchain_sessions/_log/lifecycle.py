"""The life of sessions: created, opened, listed, changed, ended, forked and deleted."""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langchain_sessions._core import rows as r
from langchain_sessions._core.checks import UNREADABLE, require
from langchain_sessions._core.codec.values import as_dict, dump_exact, dump_mapping
from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions._core.ids import check_id, check_optional_id, check_title
from langchain_sessions._core.rows import Anyone
from langchain_sessions._core.state import APP, USER, dump_delta
from langchain_sessions._core.times import check_duration
from langchain_sessions.errors import CorruptRowError, SessionNotFoundError, SessionsError
from langchain_sessions.page import Page, decode_positions, encode_cursor
from langchain_sessions.stores.values import SessionDraft, SessionQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_sessions._core.rows import SessionHeading, SessionRow
    from langchain_sessions.session import Session

from langchain_sessions._log.binding import Bound
from langchain_sessions._log.values import UNSET, Unset

_log = logging.getLogger(__name__)
TOMBSTONE = timedelta(hours=24)

_HOUR = 3_600_000_000


class Sessions(Bound):
    """The life of sessions: created, opened, listed, changed, ended, forked and deleted."""

    def _create(
        self,
        session_id: str | None = None,
        *,
        user_id: str | Unset | None = UNSET,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        time_to_live: timedelta | Unset | None = UNSET,
    ) -> Flow[Session]:
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
        ttl = self._time_to_live if isinstance(time_to_live, Unset) else _duration(time_to_live)
        draft = self._draft(uuid.uuid4().hex if session_id is None else session_id, user_id, ttl)
        draft = _with_state(draft, state)
        draft = replace(draft, title=check_title(title), metadata=dump_mapping(metadata or {}, "metadata"))
        row = yield from ask(self.store.create_session, draft)
        return self.session_of(row)

    create, acreate = faces(_create)

    def _open(self, session_id: str, *, user_id: str | Unset | None = UNSET, anew: bool = True) -> Flow[Session]:
        """The session of an id, created if there is none. Atomic: of many callers one creates.

        Args:
            session_id: Its id.
            user_id: Its owner, on the operator's service; by default whoever owns it, else nobody.
            anew: Whether an id that was deleted lately may start anew. A late write passes False.

        Raises:
            SessionNotFoundError: It belongs to somebody else, or was deleted lately and `anew` is False.
        """
        if isinstance(self._owner, Anyone) and isinstance(user_id, Unset):
            found = yield from ask(self.store.find_session, self.key(session_id), self.now())
            if found is not None:
                return self.session_of(found)
        draft = self._draft(session_id, user_id, self._adapter_time_to_live)
        row = yield from ask(self.store.open_session, replace(draft, anew=anew))
        return self.session_of(row)

    open, aopen = faces(_open)

    def adapter_draft(self, session_id: str) -> SessionDraft:
        """How an adapter opens a session of this view.

        Raises:
            InvalidInputError: The id cannot be one.
        """
        return self._draft(session_id, UNSET, self._adapter_time_to_live)

    def _draft(self, session_id: str, user_id: str | Unset | None, ttl: int | None) -> SessionDraft:
        owner = self._new_owner(user_id)
        now = self.now()
        draft = SessionDraft(app=self.app, id=check_id(session_id, "session_id"), user_id=owner, now=now)
        if ttl is None:
            return draft
        if not self._slides:
            return replace(draft, expires_at=now + ttl)
        return replace(draft, expires_at=now + ttl, renewal=ttl, renewal_grain=min(_HOUR, ttl // 4))

    def _new_owner(self, user_id: str | Unset | None) -> str | None:
        """Who owns a session that this view creates."""
        if isinstance(self._owner, Anyone):
            owner = None if isinstance(user_id, Unset) else check_optional_id(user_id, "user_id")
        else:
            owner = self._owner
            same = isinstance(user_id, Unset) or user_id == owner
            require(same, "user_id", "this view is bound to another user")
        require(owner is not None or not self._require_user, "user_id", "this service requires a user")
        return owner

    def _get(self, session_id: str) -> Flow[Session]:
        """The session of an id, without its events.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        row = yield from ask(self.store.find_session, self.key(session_id), self.now())
        if row is None:
            raise SessionNotFoundError(session_id)
        return self.session_of(row)

    get, aget = faces(_get)

    def _list_sessions(self, *, limit: int = 50, after: str | None = None) -> Flow[Page[Session]]:
        """Sessions of this view, newest activity first, without loading events.

        One whose row cannot be read is left out, and an error is logged that names it.

        Args:
            limit: How many at most.
            after: The `next_cursor` of an earlier page.

        Raises:
            InvalidInputError: The cursor is not one of this method, or the limit is not above 0.
        """
        require(type(limit) is int and limit > 0, "limit", "give a whole number above 0")
        place = None if after is None else tuple(decode_positions(after, 2, "sessions")[1])
        query = SessionQuery(app=self.app, owner=self._owner, now=self.now(), limit=limit, after=place)
        found = yield from ask(self.store.list_sessions, query)
        cursor = None if found.after is None else encode_cursor("sessions", *found.after)
        listed = (self._listed(row) for row in found.rows)
        return Page(items=tuple(session for session in listed if session is not None), next_cursor=cursor)

    list_sessions, alist_sessions = faces(_list_sessions)

    def _listed(self, row: SessionRow | SessionHeading) -> Session | None:
        try:
            return self.session_of(row)
        except CorruptRowError as error:
            _log.error("Left out of a list: %s", error)
            return None

    def _update(
        self,
        session_id: str,
        *,
        title: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | None = None,
        time_to_live: timedelta | Unset | None = UNSET,
    ) -> Flow[Session]:
        """Change what a session says about itself; its log is not touched.

        Args:
            session_id: The session.
            title: The new title.
            metadata: Keys to set; a key with None is removed, others stay.
            time_to_live: How long it lives from now on; None for ever.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        now = self.now()
        changes: dict[str, Any] = {}
        if not isinstance(title, Unset):
            changes["title"] = check_title(title)
        if metadata is not None:
            changes["metadata"] = dump_mapping(metadata, "metadata")
        if not isinstance(time_to_live, Unset):
            ttl = _duration(time_to_live)
            slides = self._slides and ttl is not None
            changes["expires_at"] = None if ttl is None else now + ttl
            changes["renewal"] = ttl if slides else None
            changes["renewal_grain"] = min(_HOUR, ttl // 4) if slides and ttl is not None else None
        row = yield from ask(self.store.update_session, self.key(session_id), changes, now)
        return self.session_of(row)

    update, aupdate = faces(_update)

    def _end(self, session_id: str) -> Flow[Session]:
        """End a session: it can be read and searched, but takes no events until `reopen`. Idempotent.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        now = self.now()
        row = yield from ask(self.store.end_session, self.key(session_id), self._record(r.LIFECYCLE, now), now, now)
        return self.session_of(row)

    end, aend = faces(_end)

    def _reopen(self, session_id: str) -> Flow[Session]:
        """Let an ended session take events again. Idempotent.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        now = self.now()
        row = yield from ask(self.store.end_session, self.key(session_id), self._record(r.LIFECYCLE, now), None, now)
        return self.session_of(row)

    reopen, areopen = faces(_reopen)

    def _delete(self, session_id: str) -> Flow[bool]:
        """Remove a session with everything that it holds: events, state, index, checkpoints. False if there is none.

        A late write cannot bring it back; `create` starts anew.
        """
        now = self.now()
        until = now + TOMBSTONE // timedelta(microseconds=1)
        return (yield from ask(self.store.delete_session, self.key(session_id), now, until))

    delete, adelete = faces(_delete)

    def _delete_user(self, user_id: str | None = None) -> Flow[int]:
        """Remove all sessions of a user and the user's `user:` state; how many sessions there were.

        Args:
            user_id: Whose, on the operator's service; a bound view removes its own.
        """
        bound = None if isinstance(self._owner, Anyone) else self._owner
        wanted = check_id(bound if user_id is None else user_id, "user_id")
        require(isinstance(self._owner, Anyone) or wanted == bound, "user_id", "this view is bound to another user")
        now = self.now()
        until = now + TOMBSTONE // timedelta(microseconds=1)
        return (yield from ask(self.store.delete_user, self.app, wanted, now, until))

    delete_user, adelete_user = faces(_delete_user)

    def _purge_expired(self, *, batch: int = 100, progress: Callable[[int], None] | None = None) -> Flow[int]:
        """Remove expired sessions for good, a batch per transaction; how many.

        Args:
            batch: How many per transaction.
            progress: Told the total after each batch.
        """
        require(type(batch) is int and batch > 0, "batch", "give a whole number above 0")
        total, now = 0, self.now()
        while True:
            gone = yield from ask(self.store.purge_expired, self.app, self._owner, now, batch)
            total += gone
            if progress is not None:
                progress(total)
            if gone < batch:
                return total

    purge_expired, apurge_expired = faces(_purge_expired)

    def _fork(
        self,
        session_id: str,
        *,
        at_seq: int | None = None,
        new_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Flow[Session]:
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
        require(at_seq is None or (type(at_seq) is int and at_seq >= 0), "at_seq", "give a position of the log")
        added = as_dict(metadata or {}, "metadata")
        source = yield from self._get(session_id)
        draft = replace(
            self._draft(uuid.uuid4().hex if new_id is None else new_id, UNSET, self._time_to_live),
            user_id=source.user_id,
            title=source.title if title is None else check_title(title),
            metadata=dump_exact({**source.metadata, **added, "forked_from": source.id}, "metadata"),
        )
        row = yield from ask(self.store.fork_session, self.key(session_id), draft, at_seq)
        return self.session_of(row)

    fork, afork = faces(_fork)

    def _verify(self, session_id: str) -> Flow[list[str]]:
        """Build everything that is derived from the log of a session anew; a line for each thing that differs.

        An embedder is asked again for a few texts only, and where it does not answer they are not compared.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        key = self.key(session_id)
        found = yield from ask(self.store.verify_session, key, self.now())
        if self._search_settings is not None:
            try:
                found += yield from self._indexer().verify(key)
            except (CorruptRowError, *UNREADABLE) as error:
                if isinstance(error, SessionsError) and not isinstance(error, CorruptRowError):
                    raise
                found.append("the index, or what it is made of, cannot be read")
        if (embedder := self._embedder()) is not None:
            found += yield from self._vector_checker(embedder).verify(key)
        return found

    verify, averify = faces(_verify)


def _duration(ttl: timedelta | None) -> int | None:
    return None if ttl is None else check_duration(ttl, "time_to_live")


def _with_state(draft: SessionDraft, state: Mapping[str, Any] | None) -> SessionDraft:
    """The draft with its initial state, scoped keys apart."""
    if not state:
        return draft
    stored = dump_delta(state, "state")
    scoped = {key: value for key, value in state.items() if key.startswith((USER, APP))}
    own = {key: value for key, value in json.loads(stored or "{}").items() if key not in scoped and value is not None}
    return replace(draft, state=dump_exact(own, "state"), scoped_delta=dump_delta(scoped, "state"))
