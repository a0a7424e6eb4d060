"""Going through several logs a bounded stretch at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.rows import SessionRow

SCANNED_AT_ONCE: Final = 4096
"""About how many events one step of a scan goes through."""


class Stretch(NamedTuple):
    """What one step of a scan reads: whole sessions, or positions of one that are above `low` and up to `high`."""

    sessions: list[SessionRow]
    low: int
    high: int
    after: tuple[int, int] | None


def next_stretch(sessions: Iterable[SessionRow], after: tuple[int, int]) -> Stretch | None:
    """The next step of a scan over sessions in the order of their keys; None where nothing is left.

    Args:
        sessions: All sessions of the scope.
        after: Key and position up to which was read.
    """
    left = [session for session in sorted(sessions) if (session.skey, session.last_seq) > after]
    if not left:
        return None
    first = left[0]
    low = after[1] if first.skey == after[0] else 0
    high = min(first.last_seq, low + SCANNED_AT_ONCE)
    taken = 1
    size = high - low
    while not low and high == first.last_seq and taken < len(left) and size + left[taken].last_seq <= SCANNED_AT_ONCE:
        size += left[taken].last_seq
        taken += 1
    last = left[taken - 1]
    if taken > 1:
        high = max(session.last_seq for session in left[:taken])
    more = taken < len(left) or (taken == 1 and high < first.last_seq)
    reached = (last.skey, high if taken == 1 else last.last_seq)
    return Stretch(left[:taken], low, high, reached if more else None)
