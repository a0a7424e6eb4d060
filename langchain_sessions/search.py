"""What a search answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.edge import pointing
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.showing import html_of, shortened
from langchain_sessions.page import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions.events import SessionEvent


_REPR_TEXT = 60


@pointing
@dataclass(frozen=True, kw_only=True, slots=True)
class SearchHit:
    """One event that was found.

    Attributes:
        event: The event.
        text: The passage of it that was found: words, tool calls, results, reasoning, names of files. Of a message
            that is no longer than a paragraph or two, all of it.
        score: How well it fits; comparable within one search only. 0 where hits come in time order.
        highlights: Where in `text` the query hit, as (start, end).
        before: Events just before it in the log that meet the filter too, oldest first.
        after: Such events just after it.
        parts: What each reason added to the score: `words`, `author`, `human`, `meaning`, ….
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

    @property
    def why(self) -> Literal["match", "context"]:
        """Whether it fits itself, or stands beside what does: an answer need not hold a word of its question."""
        return "match" if self.highlights or self.parts.get("meaning", 0.0) > 0 else "context"

    def __repr__(self) -> str:
        """Short: how well it fits, where it is and the beginning of the passage."""
        place = f"{self.event.session_id!r} {self.event.seq}"
        return f"<SearchHit {self.score:.2f} {self.why} {place} {shortened(self.text, _REPR_TEXT)!r}>"

    def _repr_html_(self) -> str:
        return html_of("Hit", [self])

    def _shown(self) -> Mapping[str, object]:
        return {
            "score": f"{self.score:.2f}",
            "why": self.why,
            "session": self.event.session_id,
            "seq": self.event.seq,
            "when": f"{self.event.timestamp:%Y-%m-%d %H:%M}",
            "standing": self.event.standing.value,
            "author": self.event.author or (self.event.message and self.event.message.type),
            "text": self.text,
        }


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
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


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
