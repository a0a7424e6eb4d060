"""The form of our own export: one line that names a session, then one line for each entry of its log.

Messages are in LangChain's JSON; what JSON cannot hold exactly is tagged as in the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import message_to_dict

from langchain_sessions._core.codec.values import pack

if TYPE_CHECKING:
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.session import Session

FORMAT = "langchain-sessions"
NEWEST = 1


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
    """The line of an entry."""
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
    }
