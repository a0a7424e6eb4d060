"""What a run writes: its record, the synthetic turn of a summary, and what of it the session shows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions._compaction.prompts import SHADOW_PROMPT
from langchain_sessions._core import message_types as k
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._compaction.plan import CompactionPlan
    from langchain_sessions._compaction.summarizer import Summary
    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.session import Session

GENERATED_TITLE = "generated_title"
"""Session metadata: the title that a summary gave, so that a title of the user's own is never replaced."""
KEYWORDS = "keywords"
"""Session metadata: the newest summary's keywords."""


def record_row(encoder: EventEncoder, scope: str | None, details: Mapping[str, Any], now: int) -> EventRow:
    """The record of a run; what is None in its details is left out."""
    known = {name: value for name, value in details.items() if value is not None}
    return encoder.row(NewEvent(metadata=known), now)._replace(kind=k.COMPACTION, branch=scope)


def summary_rows(
    encoder: EventEncoder, scope: str | None, plan: CompactionPlan, summary: Summary | None, *, source: str, now: int
) -> tuple[EventRow, ...]:
    """The synthetic turn: a shadow question and the summary as its answer, at the same instant."""
    if summary is None:
        return ()
    origin = {"synthetic": True, "source": source}
    details = {**origin, "summary": dict(summary.details)} if summary.details else origin
    turn = (
        NewEvent(message=HumanMessage(plan.shadow or SHADOW_PROMPT), metadata=origin, synthetic=True),
        NewEvent(message=AIMessage(summary.text), metadata=details, synthetic=True),
    )
    return tuple(encoder.row(replace(event, branch=scope), now) for event in turn)


def session_changes(session: Session, summary: Summary, *, is_sealed: bool) -> dict[str, Any]:
    """The title and the keywords that a structured summary gives a session.

    A title that somebody else gave stays. Where messages are sealed nothing is given: a title is readable.
    """
    if is_sealed:
        return {}
    changes: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    if summary.keywords:
        metadata[KEYWORDS] = list(summary.keywords)
    if summary.title is not None and session.title in (None, session.metadata.get(GENERATED_TITLE)):
        changes["title"] = metadata[GENERATED_TITLE] = summary.title
    if metadata:
        changes["metadata"] = json.dumps(metadata)
    return changes
