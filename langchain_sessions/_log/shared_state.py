"""State of a user and of an app, read and written without a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._core.edge import UNREADABLE, check_optional_id, require
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import Anyone
from langchain_sessions._core.state import APP, TEMP, USER, dump_delta, merged_view
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._log.log import Log
    from langchain_sessions.stores._values import StateRows


def load_shared(log: Log, user_id: str | None) -> Flow[dict[str, Any]]:
    """`SessionService.shared_state`."""
    log.check_open()
    owner = _owner(log, user_id)
    return _merged((yield from ask(log.store.load_shared, log.app, owner)))


def change_shared(log: Log, changes: Mapping[str, Any], user_id: str | None) -> Flow[dict[str, Any]]:
    """`SessionService.update_shared_state`."""
    owner, now = _owner(log, user_id), log.now()
    delta = dump_delta(changes, "changes")
    for key in changes:
        is_shared = isinstance(key, str) and key.startswith((USER, APP, TEMP))
        require(is_shared, "changes", f"{key!r} is state of one session: begin it with {USER!r} or {APP!r}")
        require(owner is not None or not key.startswith(USER), "user_id", f"{key!r} needs a user: name one")
    if delta is None:
        return (yield from load_shared(log, user_id))
    return _merged((yield from ask(log.store.change_shared, log.app, owner, delta, now)))


def _owner(log: Log, user_id: str | None) -> str | None:
    wanted = check_optional_id(user_id, "user_id")
    if isinstance(log.owner, Anyone):
        return wanted
    require(wanted in (None, log.owner), "user_id", "this view is bound to another user")
    return log.owner


def _merged(found: StateRows) -> dict[str, Any]:
    try:
        return merged_view(found.session, found.user, found.app)
    except UNREADABLE as error:
        problem = "Shared state cannot be read; sessions can."
        raise CorruptRowError(problem) from error
