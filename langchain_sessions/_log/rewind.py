"""Changing where events stand: rewinds and compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core import message_types as k
from langchain_sessions._core.edge import check_optional_id, require
from langchain_sessions._core.event_encoding import new_record
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._log.values import RewindResult
from langchain_sessions.stores._values import RewindPlan

if TYPE_CHECKING:
    from langchain_sessions._log.log import Log


def rewind_session(
    log: Log,
    session_id: str,
    *,
    before_invocation: str | None = None,
    to_seq: int | None = None,
    reset_thread: bool = False,
) -> Flow[RewindResult]:
    """`SessionService.rewind`."""
    one = (before_invocation is None) != (to_seq is None)
    require(one, "to_seq", "give either before_invocation or to_seq")
    require(to_seq is None or (type(to_seq) is int and to_seq >= 0), "to_seq", "give a position of the log: 0, 1, 2 …")
    name = check_optional_id(before_invocation, "before_invocation")
    return (yield from _go_back(log, session_id, name, to_seq, undo=False, reset_thread=reset_thread))


def undo_rewind(log: Log, session_id: str) -> Flow[RewindResult]:
    """`SessionService.undo_rewind`."""
    return (yield from _go_back(log, session_id, None, None, undo=True, reset_thread=False))


def _go_back(
    log: Log, session_id: str, before_invocation: str | None, to_seq: int | None, *, undo: bool, reset_thread: bool
) -> Flow[RewindResult]:
    now = log.now()
    plan = RewindPlan(
        record=new_record(k.REWIND, now),
        now=now,
        to_seq=to_seq,
        before_invocation=before_invocation,
        undo=undo,
        reset_thread=reset_thread,
    )
    done = yield from ask(log.store.rewind_events, log.key(session_id), plan)
    return RewindResult(seq=done.record.seq, to_seq=done.to_seq, kept_keys=done.kept_keys)
