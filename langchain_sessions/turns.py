"""Turns: one human message and what follows it, within one branch scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.showing import html_of
from langchain_sessions.events import EventKind, SessionEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One human message that was really said, and the events up to the next one.

    Attributes:
        events: The events of the turn in context order; the human message first, except in a preamble.
        branch: The scope of the turn.
        is_preamble: The events before the first human message: greetings, system messages, summaries.
    """

    events: tuple[SessionEvent, ...]
    branch: str | None = None
    is_preamble: bool = False

    def __iter__(self) -> Iterator[SessionEvent]:
        """Over the events."""
        return iter(self.events)

    def __len__(self) -> int:
        """How many events it has."""
        return len(self.events)

    def __repr__(self) -> str:
        """Short: how much it holds, and where it begins."""
        scope = "" if self.branch is None else f" of {self.branch}"
        what = "preamble" if self.is_preamble else "turn"
        return f"<Turn{scope}: {what} of {len(self.events)} events from {self.events[0]!r}>"

    def _repr_html_(self) -> str:
        return html_of(f"Turn of {len(self.events)} events", self.events)

    @property
    def first_seq(self) -> int:
        """The seq of its first event."""
        return self.events[0].seq

    @property
    def tokens(self) -> int:
        """What its messages count for."""
        return sum(event.tokens for event in self.events)


def starts_turn(event: SessionEvent) -> bool:
    """Whether somebody spoke: a human message that no compaction made."""
    return event.message is not None and event.message.type == "human" and not event.is_synthetic


def split_turns(events: Iterable[SessionEvent], branch: str | None = None) -> list[Turn]:
    """Group the message events of one scope into turns; what precedes the first is a preamble.

    Args:
        events: Events in context order; records and events of other scopes are left out.
        branch: The scope; None is root.
    """
    groups: list[list[SessionEvent]] = [[]]
    for event in events:
        if event.kind is not EventKind.MESSAGE or event.scope != branch:
            continue
        if starts_turn(event):
            groups.append([])
        groups[-1].append(event)
    preamble, *spoken = groups
    turns = [Turn(events=tuple(preamble), branch=branch, is_preamble=True)] if preamble else []
    return turns + [Turn(events=tuple(group), branch=branch) for group in spoken]


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
