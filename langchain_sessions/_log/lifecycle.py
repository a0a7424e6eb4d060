"""The life of sessions: created, opened, listed, changed, ended, forked and deleted."""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langchain_sessions._core import message_types as k
from langchain_sessions._core.codec.values import as_dict, dump_exact, dump_mapping
from langchain_sessions._core.cursors import decode_positions, encode_cursor
from langchain_sessions._core.edge import bounded, check_duration, check_id, check_title, require
from langchain_sessions._core.event_encoding import new_record
from langchain_sessions._core.expiry import expiry_columns
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import Anyone
from langchain_sessions._core.state import APP, USER, dump_delta
from langchain_sessions._log.copies import forget_session, forget_user
from langchain_sessions._log.log import new_draft
from langchain_sessions._log.values import UNSET, Removal, Unset
from langchain_sessions.errors import CorruptRowError, SessionNotFoundError
from langchain_sessions.page import Page
from langchain_sessions.stores._values import SessionDraft, SessionQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_sessions._core.rows import SessionHeading, SessionRow
    from langchain_sessions._log.log import Log
    from langchain_sessions.session import Session
    from langchain_sessions.stores._values import SessionSlice

_log = logging.getLogger(__name__)
TOMBSTONE = timedelta(hours=24)
_ON, _BACK = "sessions", "sessions before"
"""The cursors of a list, by where they lead."""


def create_session(
    log: Log,
    session_id: str | None = None,
    *,
    user_id: str | Unset | None = UNSET,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    time_to_live: timedelta | Unset | None = UNSET,
) -> Flow[Session]:
    """`SessionService.create`."""
    ttl = log.time_to_live if isinstance(time_to_live, Unset) else _duration(time_to_live)
    draft = new_draft(log, uuid.uuid4().hex if session_id is None else session_id, user_id, ttl)
    draft = _with_state(draft, state)
    draft = draft._replace(title=check_title(title), metadata=dump_mapping(metadata or {}, "metadata"))
    row = yield from ask(log.store.create_session, draft)
    return log.session_of(row)


def open_session(log: Log, session_id: str, *, user_id: str | Unset | None = UNSET, anew: bool = True) -> Flow[Session]:
    """`SessionService.open`."""
    # The operator opens whatever there is, whoever owns it; only a new one belongs to nobody.
    if isinstance(log.owner, Anyone) and isinstance(user_id, Unset):
        found = yield from ask(log.store.find_session, log.key(session_id), log.now())
        if found is not None:
            return log.session_of(found)
    draft = new_draft(log, session_id, user_id, log.adapter_time_to_live)
    row = yield from ask(log.store.open_session, draft._replace(anew=anew))
    return log.session_of(row)


def get_session(log: Log, session_id: str) -> Flow[Session]:
    """`SessionService.get`."""
    row = yield from ask(log.store.find_session, log.key(session_id), log.now())
    if row is None:
        raise SessionNotFoundError(session_id)
    return log.session_of(row)


def list_sessions(log: Log, *, limit: int = 50, cursor: str | None = None) -> Flow[Page[Session]]:
    """`SessionService.list_sessions`."""
    require(type(limit) is int and limit > 0, "limit", "give a whole number above 0")
    query = SessionQuery(app=log.app, owner=log.owner, now=log.now(), limit=bounded(limit))
    if cursor is not None:
        kind, (updated_at, skey, *_) = decode_positions(cursor, 2, _ON, _BACK)
        place = (updated_at, skey)
        query = replace(query, after=place) if kind == _ON else replace(query, before=place)
    found: SessionSlice = yield from ask(log.store.list_sessions, query)
    if query.before is not None and found.before is None and len(found.rows) < limit:
        # Back at the beginning, where a list begins with a whole page.
        found = yield from ask(log.store.list_sessions, replace(query, before=None))
    listed = (_listed(log, row) for row in found.rows)
    return Page(
        items=tuple(session for session in listed if session is not None),
        next_cursor=None if found.after is None else encode_cursor(_ON, *found.after),
        previous_cursor=None if found.before is None else encode_cursor(_BACK, *found.before),
    )


def _listed(log: Log, row: SessionRow | SessionHeading) -> Session | None:
    try:
        return log.session_of(row)
    except CorruptRowError as error:
        # One damaged row must not hide all other sessions from their owner.
        _log.error("Left out of a list: %s", error)
        return None


def update_session(
    log: Log,
    session_id: str,
    *,
    title: str | Unset | None = UNSET,
    metadata: Mapping[str, Any] | None = None,
    time_to_live: timedelta | Unset | None = UNSET,
) -> Flow[Session]:
    """`SessionService.update`."""
    now = log.now()
    changes: dict[str, Any] = {}
    if not isinstance(title, Unset):
        changes["title"] = check_title(title)
    if metadata is not None:
        changes["metadata"] = dump_mapping(metadata, "metadata")
    if not isinstance(time_to_live, Unset):
        changes |= expiry_columns(_duration(time_to_live), now, slides=log.slides)
    row = yield from ask(log.store.update_session, log.key(session_id), changes, now)
    return log.session_of(row)


def end_session(log: Log, session_id: str) -> Flow[Session]:
    """`SessionService.end`."""
    now = log.now()
    row = yield from ask(log.store.end_session, log.key(session_id), new_record(k.LIFECYCLE, now), now, now)
    return log.session_of(row)


def reopen_session(log: Log, session_id: str) -> Flow[Session]:
    """`SessionService.reopen`."""
    now = log.now()
    row = yield from ask(log.store.end_session, log.key(session_id), new_record(k.LIFECYCLE, now), None, now)
    return log.session_of(row)


def delete_session(log: Log, session_id: str) -> Flow[bool]:
    """`SessionService.delete`."""
    # First the copies: while the session is there, what fails can be tried again.
    yield from forget_session(log, session_id)
    now = log.now()
    until = now + TOMBSTONE // timedelta(microseconds=1)
    return (yield from ask(log.store.delete_session, log.key(session_id), now, until))


def delete_user(log: Log, user_id: str | None = None) -> Flow[Removal]:
    """`SessionService.delete_user`."""
    bound = None if isinstance(log.owner, Anyone) else log.owner
    wanted = check_id(bound if user_id is None else user_id, "user_id")
    require(isinstance(log.owner, Anyone) or wanted == bound, "user_id", "this view is bound to another user")
    yield from forget_user(log, wanted)
    now = log.now()
    until = now + TOMBSTONE // timedelta(microseconds=1)
    gone = yield from ask(log.store.delete_user, log.app, wanted, now, until)
    kept = log.store.remainders
    return Removal(gone.sessions, events=gone.events, state_keys=gone.state_keys, remainders=kept)


def purge_expired(log: Log, *, batch: int = 100, progress: Callable[[int], None] | None = None) -> Flow[int]:
    """`SessionService.purge_expired`."""
    require(type(batch) is int and batch > 0, "batch", "give a whole number above 0")
    total, now, batch = 0, log.now(), bounded(batch)
    while True:
        gone = yield from ask(log.store.purge_expired, log.app, log.owner, now, batch)
        total += gone
        if progress is not None:
            progress(total)
        if gone < batch:
            return total


def fork_session(
    log: Log,
    session_id: str,
    *,
    at_seq: int | None = None,
    new_id: str | None = None,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Flow[Session]:
    """`SessionService.fork`."""
    require(at_seq is None or (type(at_seq) is int and at_seq >= 0), "at_seq", "give a position of the log: 0, 1, 2 …")
    added = as_dict(metadata or {}, "metadata")
    source = yield from get_session(log, session_id)
    draft = new_draft(log, uuid.uuid4().hex if new_id is None else new_id, UNSET, log.time_to_live)
    draft = draft._replace(
        user_id=source.user_id,
        title=source.title if title is None else check_title(title),
        metadata=dump_exact({**source.metadata, **added, "forked_from": source.id}, "metadata"),
    )
    row = yield from ask(log.store.fork_session, log.key(session_id), draft, at_seq)
    return log.session_of(row)


def _duration(ttl: timedelta | None) -> int | None:
    return None if ttl is None else check_duration(ttl, "time_to_live")


def _with_state(draft: SessionDraft, state: Mapping[str, Any] | None) -> SessionDraft:
    """The draft with its initial state, shared keys apart."""
    if not state:
        return draft
    stored = dump_delta(state, "state")
    shared = {key: value for key, value in state.items() if key.startswith((USER, APP))}
    own = {key: value for key, value in json.loads(stored or "{}").items() if key not in shared and value is not None}
    return draft._replace(state=dump_exact(own, "state"), shared_delta=dump_delta(shared, "state"))
