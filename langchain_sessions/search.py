"""What a search is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.checks import require
from langchain_sessions._core.ids import check_branch
from langchain_sessions.filters import ANY_BRANCH, AnyBranch
from langchain_sessions.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from langchain_sessions.events import SessionEvent

_ROLES = {
    "human": 1, "user": 1, "ai": 2, "assistant": 2, "system": 3, "tool": 4, "chat": 5, "function": 6, "other": 7,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchFilter:
    """Which events a search may return; each criterion that is given must be met.

    Attributes:
        roles: Message types (`human` or `user`, `ai` or `assistant`, `tool`, `system`, …); empty for all.
        authors: Who said it: the event's author, else the message's name, or the role of a `ChatMessage` where that is
            a name; empty for all.
        branch: What a viewer on this branch sees (None is root); `ANY_BRANCH` for everything.
        since: At this instant or later.
        until: At this instant or earlier.
        tools: Calls of these tools and their results; empty for everything.
        without_tools: Not what only calls one of these tools, nor their results.
        archived: Only what a compaction archived (True), only the rest (False), or both (None).
        synthetic: Only what a compaction made (True), only what was said (False), or both (None).
        failed: Only messages of invocations that failed (True), only the rest (False), or both (None).
        include_rewound: Also what a rewind went back before.
        include_superseded: Also revisions that an edit replaced.
    """

    roles: frozenset[str] = frozenset()
    authors: frozenset[str] = frozenset()
    branch: str | AnyBranch | None = ANY_BRANCH
    since: datetime | None = None
    until: datetime | None = None
    tools: frozenset[str] = frozenset()
    without_tools: frozenset[str] = frozenset()
    archived: bool | None = None
    synthetic: bool | None = None
    failed: bool | None = None
    include_rewound: bool = False
    include_superseded: bool = False

    def __post_init__(self) -> None:
        """Normalise and refuse what has no meaning."""
        for name in ("roles", "authors", "tools", "without_tools"):
            values: Iterable[str] = getattr(self, name)
            require(not isinstance(values, str), name, "give a collection of strings, not one string")
            object.__setattr__(self, name, frozenset(values))
        unknown = self.roles - _ROLES.keys()
        require(not unknown, "roles", f"unknown: {', '.join(sorted(map(str, unknown)))}")
        if not isinstance(self.branch, AnyBranch):
            check_branch(self.branch)
        for name in ("since", "until"):
            moment: datetime | None = getattr(self, name)
            require(moment is None or moment.tzinfo is not None, name, "give an aware datetime, for example in UTC")

    @property
    def kinds(self) -> frozenset[int]:
        """The roles as stored; empty for all."""
        return frozenset(_ROLES[role] for role in self.roles)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchHit:
    """One event that was found.

    Attributes:
        event: The event.
        text: What of it can be found: words, tool calls, results, reasoning, names of files.
        score: How well it fits; comparable within one search only. 0 where hits come in time order.
        highlights: Where in `text` the query hit, as (start, end).
        before: Events just before it in the log that meet the filter too, oldest first.
        after: Such events just after it.
        parts: What each reason added to the score: `words`, `author`, `question`, `answer`, `time`, `meaning`, ….
        words: The words of `text` that were hit, lower case.
        covered: From a summary: the first of the events that it stands for; `event.covers` names all of them.
    """

    event: SessionEvent
    text: str
    score: float = 0.0
    highlights: tuple[tuple[int, int], ...] = ()
    before: tuple[SessionEvent, ...] = ()
    after: tuple[SessionEvent, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    words: tuple[str, ...] = ()
    covered: tuple[SessionEvent, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchPage(Page[SearchHit]):
    """Hits of a search and the way on.

    `total` counts what can be paged to. A ranked search ranks a bounded number of events in full: where that bound
    was reached, `is_total_exact` is False and there may be more that fit less.

    Attributes:
        is_total_exact: Whether `total` counts everything that fits.
        is_relaxed: No event holds a phrase of the query that stands beside other words; these hold the words alone.
        nearest: Where no word was found: words of the logs that are written most like those of the query.
        hint: What to do about a query that was refused: one that asks for nothing, or a list of too many terms.
        semantic: Where an embedder is used: whether meaning counted for all that was said (`full`), not for what is not
            embedded yet (`partial`), or not at all, since the embedder did not answer (`unavailable`).
    """

    is_total_exact: bool = True
    is_relaxed: bool = False
    nearest: tuple[str, ...] = ()
    hint: str | None = None
    semantic: Literal["full", "partial", "unavailable"] | None = None

    @property
    def passages(self) -> tuple[tuple[SessionEvent, ...], ...]:
        """The hits with their neighbours, overlapping ones merged, in the order of their best hits."""
        passages: list[dict[int, SessionEvent]] = []
        for hit in self.items:
            own = {event.seq: event for event in (*hit.before, hit.event, *hit.after)}
            touched = [
                other
                for other in passages
                if next(iter(other.values())).session_id == hit.event.session_id
                and not (max(other) < min(own) - 1 or min(other) > max(own) + 1)
            ]
            if touched:
                touched[0].update(own)
                for other in touched[1:]:
                    touched[0].update(other)
                    passages.remove(other)
            else:
                passages.append(own)
        return tuple(tuple(event for _, event in sorted(passage.items())) for passage in passages)
