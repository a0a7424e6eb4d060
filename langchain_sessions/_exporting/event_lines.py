"""The form of our own export: one line that names a session, then one line for each entry of its log.

Messages are in LangChain's JSON; what JSON cannot hold exactly is tagged as in the store.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import message_to_dict

from langchain_sessions._core.codec.values import as_dict, pack
from langchain_sessions._core.rows import EDIT, MARK_NAMES, MARK_SHIFT

if TYPE_CHECKING:
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.session import Session

FORMAT = "langchain-sessions"
NEWEST = 1
_MARK = 7


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
        "author": event.author,
        "branch": event.branch,
        "invocation_id": event.invocation_id,
        "state_delta": pack(dict(event.state_delta)),
        "metadata": pack(dict(event.metadata)),
        "long_running_tool_ids": list(event.long_running_tool_ids),
        "error_code": event.error_code,
        "error_message": event.error_message,
        "grounding": None if event.grounding is None else pack(dict(event.grounding)),
        "synthetic": event.is_synthetic,
        "interrupted": event.is_interrupted,
        "covers": [list(run) for run in event.covers],
        "revision": event.revision,
        "in_thread": event.is_in_thread,
    }


def beginning(session: Session, state: str) -> dict[str, Any]:
    """The line that an import begins a session with: also the state that it began with."""
    line = session_line(session)
    line["session"]["state"] = pack(as_dict(json.loads(state), "state"))
    return line


def happened(event: SessionEvent, row: EventRow) -> dict[str, Any]:
    """The line that an import does an entry again with: also what its row says that decides where others stand."""
    reports = MARK_NAMES.get(row.flags >> MARK_SHIFT & _MARK)
    return {**event_line(event), "is_edit": row.flags & EDIT != 0, "reports": reports}
