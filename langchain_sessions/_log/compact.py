"""Compacting a log when it is asked for: now, or beside the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask

if TYPE_CHECKING:
    from langchain_sessions._log.log import Log
    from langchain_sessions.compaction._plan import Compaction, CompactionResult, ModelCall


def compact_log(
    log: Log,
    session_id: str,
    compaction: Compaction,
    *,
    branch: str | None = None,
    invocation_id: str | None = None,
    force: bool = False,
    call: ModelCall | None = None,
    automatic: bool = False,
) -> Flow[CompactionResult]:
    """`SessionService.compact`."""
    from langchain_sessions.compaction._plan import check_compaction
    from langchain_sessions.compaction._run import compact_session

    check_compaction(compaction)
    return (
        yield from compact_session(
            log,
            session_id,
            compaction,
            branch=branch,
            invocation_id=invocation_id,
            force=force,
            call=call,
            automatic=automatic,
        )
    )


def compact_later(
    log: Log, session_id: str, compaction: Compaction, *, branch: str | None = None, call: ModelCall | None = None
) -> Flow[bool]:
    """`SessionService.compact_later`."""

    def run() -> Flow[CompactionResult]:
        return compact_log(log, session_id, compaction, branch=branch, call=call, automatic=True)

    return (yield from ask(log.background.start, (log.app, session_id, branch), run))
