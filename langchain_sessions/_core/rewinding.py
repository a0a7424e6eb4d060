"""Where a rewind leads: decided alike by every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions.errors import EventNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._core.rows import Mark, SessionRow
    from langchain_sessions.stores._values import RewindPlan


def rewind_target(
    session: SessionRow, plan: RewindPlan, marks: Iterable[Mark], hidden: SeqSet, first: int | None
) -> int:
    """The position to go back to.

    Args:
        session: Whose log it is.
        plan: What was asked for.
        marks: All marks of the log.
        hidden: What is rewound already.
        first: The first event in sight of the invocation that the plan names; None where there is none.

    Raises:
        EventNotFoundError: The log has no such position, no such invocation, or no rewind to undo.
    """
    if plan.undo:
        return _undone_target(session.id, marks, hidden)
    if plan.before_invocation is not None:
        if first is None:
            raise EventNotFoundError(session.id, f"invocation {plan.before_invocation!r}")
        return first - 1
    target = plan.to_seq or 0
    if target > session.last_seq:
        raise EventNotFoundError(session.id, f"position {target}")
    return target


def _undone_target(session_id: str, marks: Iterable[Mark], hidden: SeqSet) -> int:
    """Where to go back to in order to undo the newest rewind that stands and that is not an undoing itself.

    Raises:
        EventNotFoundError: There is none.
    """
    rewinds = {mark.seq: int(mark.data) for mark in marks if mark.kind == "rewind"}
    # Whoever goes back to just before a rewind undoes it; undoing again reaches the one before.
    found = [seq for seq, target in rewinds.items() if seq not in hidden and target + 1 not in rewinds]
    if not found:
        raise EventNotFoundError(session_id, "rewind to undo")
    return max(found) - 1
