"""What a run decides by: the live events of its scope, and what they were read at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage

from langchain_sessions._compaction.archivable import is_summary, spoken
from langchain_sessions.events import SessionEvent, Standing

if TYPE_CHECKING:
    from langchain_sessions._compaction.plan import CompactionPlan, CompactionRequest
    from langchain_sessions._core.ledger import Cover, LogView

_FINISHED = (Standing.LIVE, Standing.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class LiveScope:
    """The request with its events, where they stand, and the compaction in force."""

    request: CompactionRequest
    view: LogView
    cover: Cover | None

    @property
    def previous(self) -> str | None:
        """The text of the summary in force."""
        texts = [e.message.text for e in self.request.events if is_summary(e) and isinstance(e.message, AIMessage)]
        return "\n\n".join(str(text) for text in texts) or None

    @property
    def tokens(self) -> int:
        """What the live events count for."""
        return sum(event.tokens for event in self.request.events)

    @property
    def summary_tokens(self) -> int:
        """What the summary in force counts for."""
        return sum(event.tokens for event in self.request.events if is_summary(event))

    def upcoming(self, plan: CompactionPlan) -> tuple[SessionEvent, ...]:
        """The events that follow the last archived one, for orientation."""
        gone = {event.seq for event in plan.archive}
        last = plan.archive[-1].position
        kept = [event for event in spoken(self.request.events) if event.position > last and event.seq not in gone]
        return tuple(kept[: plan.overlap])

    def outweighs(self, plan: CompactionPlan) -> bool:
        """Whether even a summary no longer than the last would save nothing: better to wait than to pay."""
        return 0 < plan_tokens(plan) <= self.summary_tokens

    def is_intact_in(self, fresh: LiveScope, plan: CompactionPlan) -> bool:
        """Whether a summary still says what its range holds: the same events live, on top of the same summary."""
        standing = {event.seq for event in fresh.request.events if event.standing in _FINISHED}
        return self.cover == fresh.cover and all(event.seq in standing for event in plan.archive)


def plan_tokens(plan: CompactionPlan) -> int:
    """What the events count for that a plan archives."""
    return sum(event.tokens for event in plan.archive)
