"""Session rows: made of a draft, and changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions._core.rows import SessionRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions.stores.values import SessionDraft

ACTIVITY_GRAIN: Final = 60_000_000
"""Activity is indexed to the minute: an indexed time that moves with every append defeats PostgreSQL's HOT."""


def new_session_row(skey: int, draft: SessionDraft) -> SessionRow:
    """The row of a session that was just created."""
    return SessionRow(
        skey=skey,
        app=draft.app,
        id=draft.id,
        user_id=draft.user_id,
        title=draft.title,
        metadata=draft.metadata,
        initial_state=draft.state,
        state=draft.state,
        created_at=draft.now,
        updated_at=draft.now,
        activity=draft.now,
        expires_at=draft.expires_at,
        renewal=draft.renewal,
        renewal_grain=draft.renewal_grain,
        ended_at=None,
        last_seq=0,
        live_events=0,
        live_turns=0,
        live_tokens=0,
        aliased=0,
        ledger=None,
        head_id=None,
        head_runs=None,
    )


def merged_changes(session: SessionRow, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that an update sets; the keys of `metadata` are merged into the stored ones, None deletes."""
    values = dict(changes)
    if "metadata" in values:
        merged = {**json.loads(session.metadata), **json.loads(values["metadata"])}
        kept = {key: value for key, value in merged.items() if value is not None}
        values["metadata"] = json.dumps(kept, separators=(",", ":"))
    return values


def moved(session: SessionRow, count: int, now: int) -> dict[str, Any]:
    """The columns of a session row that every change of its log moves."""
    changes: dict[str, Any] = {"last_seq": session.last_seq + count, "updated_at": now}
    if session.activity <= now - ACTIVITY_GRAIN:
        changes["activity"] = now
    if session.renewal is not None and session.renewal_grain is not None and session.expires_at is not None:
        due = now + session.renewal
        if due - session.expires_at >= session.renewal_grain:
            changes["expires_at"] = due
    return changes
