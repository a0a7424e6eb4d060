"""Which events of a log are wanted: one value for every criterion, on every store alike."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.edge import bounded, check_aware, check_branch, helpful, require
from langchain_sessions._core.message_types import TYPES
from langchain_sessions._core.showing import brief
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import EventKind, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet
    from datetime import datetime


class AnyBranch(Enum):
    """The type of `ANY_BRANCH`."""

    ANY = "any"


ANY_BRANCH = AnyBranch.ANY
"""No branch criterion: events of every branch."""


@helpful
@dataclass(frozen=True, kw_only=True, slots=True)
class EventFilter:
    """Criteria that an event must all meet; first the criteria, then `last_n` or the page.

    `events` and `search` take the same filter. What a search leaves out by itself, what was rewound and what an edit
    replaced, it finds where `standings` asks for it; its window is its own.

    Attributes:
        since: At this instant or later.
        until: At this instant or earlier.
        roles: Messages of any of these (`user` or `human`, `assistant` or `ai`, `system`, `tool`, …); empty for all.
        kinds: Any of these kinds of entry; empty for all.
        standings: Any of these standings; empty for all.
        archived: Only what a compaction archived (True), only the rest (False), or both (None).
        synthetic: Only what a compaction made (True), only what was said (False), or both (None).
        keyword: Literal text that occurs, whatever its case; blank for none.
        keywords: Several of them.
        match: Whether one of `keywords` is enough (`any`, as None), or `all` have to occur.
        pattern: A regular expression that is found in the text. For code only; no tool passes one on.
        branch: What a viewer on this branch sees (None is root); `ANY_BRANCH` for everything.
        authors: Who said it: the event's author, else the message's name, or the role of a `ChatMessage` where that is
            a name; any of these, empty for all.
        tools: Calls of any of these tools and their results; empty for everything.
        without_tools: Not what only calls one of these tools, nor their results.
        invocation_id: Of this run.
        after_seq: Later in the log than this position.
        before_seq: Earlier in the log than this position.
        last_n: The newest n that meet the criteria, oldest first. Not together with a page.
        page: Which page of `page_size`, from 0; page 0 where only a size is given.
        page_size: How many a page holds.
    """

    since: datetime | None = None
    until: datetime | None = None
    roles: AbstractSet[str] = frozenset()
    kinds: AbstractSet[EventKind] = frozenset()
    standings: AbstractSet[Standing] = frozenset()
    archived: bool | None = None
    synthetic: bool | None = None
    keyword: str | None = None
    keywords: tuple[str, ...] = ()
    match: Literal["any", "all"] | None = None
    pattern: re.Pattern[str] | None = None
    branch: str | AnyBranch | None = ANY_BRANCH
    authors: AbstractSet[str] = frozenset()
    tools: AbstractSet[str] = frozenset()
    without_tools: AbstractSet[str] = frozenset()
    invocation_id: str | None = None
    after_seq: int | None = None
    before_seq: int | None = None
    last_n: int | None = None
    page: int | None = None
    page_size: int | None = None

    def __repr__(self) -> str:
        """Short: what was given."""
        return brief(self)

    def __post_init__(self) -> None:
        """Normalise and refuse what has no meaning."""
        set_ = object.__setattr__
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None:
                check_aware(moment, name)
        for name in ("roles", "authors", "tools", "without_tools"):
            set_(self, name, frozenset(_strings(getattr(self, name), name)))
        unknown = self.roles - TYPES.keys()
        require(not unknown, "roles", f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(TYPES)}")
        set_(self, "roles", frozenset(TYPES[name] for name in self.roles))
        for name in ("archived", "synthetic"):
            require(getattr(self, name) in (True, False, None), name, "give True, False or None")
        if not isinstance(self.branch, AnyBranch):
            check_branch(self.branch)
        for name, kind in (("kinds", EventKind), ("standings", Standing)):
            chosen: frozenset[object] = frozenset(getattr(self, name))
            require(all(isinstance(each, kind) for each in chosen), name, f"give members of {kind.__name__}")
            set_(self, name, chosen)
        for name in ("keyword", "invocation_id"):
            word = getattr(self, name)
            require(word is None or isinstance(word, str), name, "give a string")
        require(self.pattern is None or isinstance(self.pattern, re.Pattern), "pattern", "give a compiled pattern")
        set_(self, "keyword", self.keyword if self.keyword is not None and self.keyword.strip() else None)
        set_(self, "keywords", tuple(word for word in _strings(self.keywords, "keywords") if word.strip()))
        require(self.match in ("any", "all", None), "match", "give 'any' or 'all'")
        self._check_window()

    def _check_window(self) -> None:
        for name in ("last_n", "page", "page_size", "after_seq", "before_seq"):
            number = getattr(self, name)
            require(number is None or type(number) is int, name, "give a whole number")
        require(self.last_n is None or self.last_n > 0, "last_n", "give a number above 0")
        require(self.page_size is None or self.page_size > 0, "page_size", "give a number above 0")
        require(self.page is None or self.page >= 0, "page", "pages are counted from 0")
        require(
            self.page is None or self.page_size is not None,
            "page_size",
            "a page needs a size, such as EventFilter(page=2, page_size=20)",
        )
        require(self.last_n is None or self.page_size is None, "last_n", "give either last_n or a page, not both")

    def merge(self, other: EventFilter) -> EventFilter:
        """This filter with the criteria that `other` sets in place of its own; exclusions add up.

        A window of `other` (last_n or page) replaces the window of this filter.
        """
        changes: dict[str, object] = {}
        for item in fields(self):
            value = getattr(other, item.name)
            if value != item.default:
                changes[item.name] = value
        if other.last_n is not None:
            changes |= {"page": None, "page_size": None}
        elif other.page_size is not None:
            changes["last_n"] = None
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def limit(self) -> int | None:
        """How many events are wanted at most."""
        return self.last_n if self.last_n is not None else self.page_size

    @property
    def offset(self) -> int:
        """How many matching events come before the page."""
        return bounded((self.page or 0) * (self.page_size or 0))

    @property
    def is_newest_first(self) -> bool:
        """Whether the window is counted from the end of the log."""
        return self.last_n is not None

    @classmethod
    def active(cls) -> EventFilter:
        """Messages that are not archived, rewound, superseded or failed."""
        return cls(kinds=frozenset({EventKind.MESSAGE}), standings=frozenset({Standing.LIVE, Standing.INTERRUPTED}))

    @classmethod
    def real_only(cls) -> EventFilter:
        """Messages that somebody said."""
        return cls(kinds=frozenset({EventKind.MESSAGE}), synthetic=False)


def _strings(values: Iterable[str], name: str) -> Iterable[str]:
    if isinstance(values, str):
        raise InvalidInputError(name, "give a collection of strings, not one string")
    strings = tuple(values)
    if not all(isinstance(value, str) for value in strings):
        raise InvalidInputError(name, "give a collection of strings")
    return strings
