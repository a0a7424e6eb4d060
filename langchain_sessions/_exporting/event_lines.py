"""The form of our own export: one line that names a session, then one line for each entry of its log.

Messages are in LangChain's JSON; what JSON cannot hold exactly is tagged as in the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import message_to_dict

from langchain_sessions._core.codec.values import as_dict, pack, unpack
from langchain_sessions._core.rows import EDIT, MARK_NAMES, MARK_SHIFT
from langchain_sessions.events import NewEvent, SessionEvent

if TYPE_CHECKING:
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.session import Session

FORMAT = "langchain-sessions"
NEWEST = 1
_MARK = 7
_SHOWN: Final = {each.name for each in fields(SessionEvent)}
_SAID: Final = tuple(
    each.name for each in fields(NewEvent) if each.name in _SHOWN and each.name not in {"id", "message", "timestamp"}
)
"""What a caller may say of an event beside its message, and finds in it again: what a line has under the same name."""


def session_line(session: Session) -> dict[str, Any]:
    """The line that names a session."""
    ends = {"expires_at": session.expires_at, "ended_at": session.ended_at}
    return {
        FORMAT: NEWEST,
        "session": {
            "id": session.id,
            "app": session.app,
            "user_id": session.user_id,
            "title": session.title,
            "metadata": pack(dict(session.metadata)),
            "created_at": session.created_at.isoformat(),
            "updated_at": session.updated_at.isoformat(),
            **{name: at and at.isoformat() for name, at in ends.items()},
        },
    }


def event_line(event: SessionEvent) -> dict[str, Any]:
    """The line of an entry: what callers see of it."""
    return {
        "seq": event.seq,
        "id": event.id,
        "kind": event.kind.value,
        "standing": event.standing.value,
        "timestamp": event.timestamp.isoformat(),
        "message": None if event.message is None else pack(message_to_dict(event.message)),
        **{name: _line_value(getattr(event, name)) for name in _SAID},
        "synthetic": event.is_synthetic,
        "interrupted": event.is_interrupted,
        "covers": [list(run) for run in event.covers],
        "revision": event.revision,
        "in_thread": event.is_in_thread,
    }


def _line_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return pack(dict(value))
    return list(value) if isinstance(value, tuple) else value


def said_in(line: Mapping[str, Any]) -> dict[str, Any]:
    """What a line says of an event beside its message, as `NewEvent` takes it; an older line may lack some of it."""
    found = {name: unpack(line[name]) for name in _SAID if name in line}
    lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
    return {name: value for name, value in (found | lists).items() if value not in (None, {}, ())}


def beginning(session: Session, state: str) -> dict[str, Any]:
    """The line that an import begins a session with: also the state that it began with."""
    line = session_line(session)
    line["session"]["state"] = pack(as_dict(json.loads(state), "state"))
    return line


def happened(event: SessionEvent, row: EventRow) -> dict[str, Any]:
    """The line that an import does an entry again with: also what its row says that decides where others stand."""
    reports = MARK_NAMES.get(row.flags >> MARK_SHIFT & _MARK)
    return {**event_line(event), "is_edit": row.flags & EDIT != 0, "reports": reports}
