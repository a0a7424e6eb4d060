"""A compaction's commit without a compaction: what the suites archive by."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_sessions._core import message_types as k
from langchain_sessions._core.event_encoding import new_record
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._log.log import Log, log_of
from langchain_sessions.stores._values import ArchivePlan
from langchain_sessions.testing.faces import run_flow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._core.view import Context
    from langchain_sessions.events import NewEvent, SessionEvent
    from langchain_sessions.service import SessionService


def archive(
    service: SessionService,
    session_id: str,
    covered: Iterable[int],
    *,
    base: Context,
    summary: Sequence[NewEvent] = (),
    details: Mapping[str, Any] | None = None,
) -> list[SessionEvent] | None:
    """Archive events of one branch scope and put a summary in their place.

    Args:
        service: The service, or what `faced` made of it.
        session_id: The session.
        covered: Positions of standing events of the scope `base.branch`.
        base: The context that they were chosen from.
        summary: Events that stand for them; without any, the summary in force stays.
        details: What the record says about it.

    Returns:
        The record and the summary events; None when the range was touched since `base` was read.
    """
    flow = archiving(log_of(service), session_id, covered, base=base, summary=summary, details=details)
    return run_flow(service, flow)


def archiving(
    log: Log,
    session_id: str,
    covered: Iterable[int],
    *,
    base: Context,
    summary: Sequence[NewEvent] = (),
    details: Mapping[str, Any] | None = None,
) -> Flow[list[SessionEvent] | None]:
    """The workflow of `archive`, for whoever drives it on a face of their own."""
    now = log.now()
    record = new_record(k.COMPACTION, now)
    if details:
        extra = {"metadata": log.encoder.seal(dict(details), "details")}
        record = record._replace(extra=json.dumps(extra, separators=(",", ":")))
    plan = ArchivePlan(
        scope=base.branch,
        covered=SeqSet.of(covered),
        base_record=base.compaction,
        record=record,
        now=now,
        summaries=tuple(log.encoder.row(replace(event, synthetic=True), now) for event in summary),
        idle_before=log.idle_before(now),
    )
    rows = yield from ask(log.store.archive_events, log.key(session_id), plan)
    return None if rows is None else [log.encoder.event(session_id, row, None) for row in rows]
