"""How to choose: windows over the newest events, turns or tokens, and intervals.

All of them keep whole turns, so a cut that falls into a turn moves to the next one; where there is no next, the
newest turn stays whole, however large it is. The newest system message stays and costs no place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from langchain_sessions._compaction.archivable import is_summary, pinned, split_segments
from langchain_sessions._compaction.plan import CompactionPlan, CompactionRequest
from langchain_sessions._core.edge import check_duration, check_positive, helpful, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions.events import SessionEvent
    from langchain_sessions.turns import Turn


@helpful
@dataclass(frozen=True)
class SlidingWindow:
    """Keeps the newest `max_events` events, or a few less: a window begins with a turn."""

    max_events: int = 20

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_positive(self.max_events, "max_events")

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """Archive all turns but those that fit."""
        segments = _segments(request)
        kept = _fitting([len(segment) for segment in segments], self.max_events)
        return _archive(segments[: len(segments) - kept])


@helpful
@dataclass(frozen=True)
class TurnWindow:
    """Keeps the newest `max_turns` turns, and what was said before the first one."""

    max_turns: int = 10

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_positive(self.max_turns, "max_turns")

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """Archive the oldest turns."""
        turns = [segment for segment in _segments(request) if not segment.is_preamble]
        return _archive(turns[: max(len(turns) - self.max_turns, 0)])


@helpful
@dataclass(frozen=True)
class TokenWindow:
    """Keeps the newest turns that fit into `max_tokens`, beside the summary in force, as the call ahead counts them."""

    max_tokens: int = 4_000

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_positive(self.max_tokens, "max_tokens")

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """Archive what does not fit."""
        segments = _segments(request)
        system = pinned(request.events)
        standing = [event for event in request.events if is_summary(event) or event is system]
        budget = self.max_tokens - request.cost(standing)
        kept = _fitting([request.cost(segment) for segment in segments], budget)
        return _archive(segments[: len(segments) - kept])


@helpful
@dataclass(frozen=True)
class TimeWindow:
    """Keeps the turns of the last days or hours, and always the newest one: `TimeWindow(timedelta(days=7))`.

    A turn is as old as the newest message in it, and what follows a turn that stays stays, too, whatever clocks said.
    """

    max_age: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_duration(self.max_age, "max_age")

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """Archive the turns from before."""
        since = request.now - self.max_age
        segments = _segments(request)
        ages = (max(event.timestamp for event in segment) for segment in segments)
        first = next((at for at, newest in enumerate(ages) if newest >= since), len(segments))
        return _archive(segments[: min(first, max(len(segments) - 1, 0))])


@helpful
@dataclass(frozen=True)
class Interval:
    """Archives every `every` runs, and leaves the newest `overlap` of them in place.

    A run is an invocation, or a turn where invocations are not named. What stays is shown to a summariser as
    context now and archived by the next compaction, so that consecutive summaries share `overlap` runs.
    """

    every: int = 10
    overlap: int = 2

    def __post_init__(self) -> None:
        """Refuse an overlap that would never let anything go."""
        check_positive(self.every, "every")
        require(0 <= self.overlap < self.every, "overlap", "give a number from 0 to less than every")

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """Archive all but the overlap as soon as enough runs are new."""
        runs = _runs(_segments(request))
        left = max(self.overlap, 1)
        # What the last compaction left in place was counted by it already.
        seen = left if request.last_compacted_at is not None else 0
        if len(runs) - seen < self.every:
            return CompactionPlan()
        split = len(runs) - left
        overlap = sum(len(turn) for run in runs[split:] for turn in run) if self.overlap else 0
        plan = _archive([turn for run in runs[:split] for turn in run])
        return CompactionPlan(archive=plan.archive, overlap=overlap)


def _segments(request: CompactionRequest) -> list[Turn]:
    """The segments without the pinned system message."""
    system = pinned(request.events)
    return split_segments((event for event in request.events if event is not system), request.scope)


def _fitting(sizes: Sequence[int], budget: int) -> int:
    """How many of the newest segments fit into a budget; at least one."""
    kept = 0
    for size in reversed(sizes):
        budget -= size
        if budget < 0:
            break
        kept += 1
    return max(kept, 1)


def _archive(segments: Sequence[Turn]) -> CompactionPlan:
    events: list[SessionEvent] = [event for segment in segments for event in segment]
    return CompactionPlan(archive=events)


def _runs(segments: Sequence[Turn]) -> list[list[Turn]]:
    """Adjacent turns of one invocation together; a preamble goes with the first turn."""
    runs: list[list[Turn]] = []
    for segment in segments:
        before = runs[-1][-1] if runs else None
        name = segment.events[0].invocation_id
        same = before is not None and name is not None and before.events[0].invocation_id == name
        if before is not None and (same or before.is_preamble):
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return runs
