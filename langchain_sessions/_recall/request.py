"""One search as it is asked, and the cursor by which its pages follow each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from langchain_sessions._core.cursors import decode_cursor, encode_cursor
from langchain_sessions._core.edge import require
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from langchain_sessions.stores._values import SearchedLogs

MOST_HITS: Final = 1000
MOST_NEIGHBOURS: Final = 50

Order = Literal["relevance", "time"]
SearchMode = Literal["ranked", "literal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """One search, checked.

    Attributes:
        text: The query, or a compiled expression.
        searched: Which logs.
        where: Which events.
        mode: Whether the text is a query or a literal substring.
        order: The best first, or the oldest first.
        limit: Hits per page.
        page: Which page, from 0, and what is negative means 0; not together with a cursor.
        cursor: Where an earlier page ended.
        neighbours: How many events to show on each side of a hit.
        recency: What an event of now gains; half of it is left after 30 days.
    """

    text: str | re.Pattern[str]
    searched: SearchedLogs
    where: EventFilter
    mode: SearchMode = "ranked"
    order: Order = "relevance"
    limit: int = 10
    page: int = 0
    cursor: str | None = None
    neighbours: int = 1
    recency: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        asked = self.text if isinstance(self.text, str) else getattr(self.text, "pattern", None)
        require(isinstance(asked, str), "query", "give a text, or an expression compiled from one")
        require(self.mode in ("ranked", "literal"), "mode", "give 'ranked' or 'literal'")
        require(self.order in ("relevance", "time"), "order", "give 'relevance' or 'time'")
        require(
            type(self.limit) is int and 0 < self.limit <= MOST_HITS,
            "limit",
            f"give a whole number from 1 to {MOST_HITS}; pages hold the rest",
        )
        require(type(self.page) is int, "page", "give a whole number; pages are counted from 0")
        object.__setattr__(self, "page", max(0, self.page))
        known = isinstance(self.recency, (int, float)) and math.isfinite(self.recency)
        require(known, "recency", "give a number; 0 ranks old and new alike")
        wanted = "write EventFilter(…), such as EventFilter(roles={'human'})"
        require(isinstance(self.where, EventFilter), "where", f"{wanted}, not {type(self.where).__name__}")
        require(self.cursor is None or not self.page, "cursor", "give either a cursor or a page")
        require(
            self.where.limit is None,
            "where",
            "a search has limit= and page= of its own; leave out last_n and page_size",
        )
        require(type(self.recency) in (int, float), "recency", "give a number; 0 for none")
        require(
            type(self.neighbours) is int and 0 <= self.neighbours <= MOST_NEIGHBOURS,
            "neighbours",
            f"give a whole number from 0 to {MOST_NEIGHBOURS}",
        )


def shown_before(cursor: str | None) -> frozenset[tuple[int, int]]:
    """What earlier pages showed."""
    if cursor is None:
        return frozenset()
    _, place = decode_cursor(cursor, "ranked")
    try:
        return frozenset((int(skey), int(seq)) for skey, *seqs in place for seq in seqs)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("cursor", "not a cursor that this library made") from error


def remember(shown: Iterable[tuple[int, int]]) -> str:
    """A cursor that knows what was shown, so that appends in between neither repeat a hit nor skip one."""
    by_session: dict[int, list[int]] = {}
    for skey, seq in sorted(shown):
        by_session.setdefault(skey, [skey]).append(seq)
    return encode_cursor("ranked", *by_session.values())
