"""An event query as a predicate of a row: the reference that every SQL translation must equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core import rows as r
from langchain_sessions._core.edge import ascii_lower
from langchain_sessions._core.ledger import LogView, visible_scopes
from langchain_sessions.filters import AnyBranch
from langchain_sessions.stores._values import EventQuery, EventSlice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.rows import EventRow


def matches(row: EventRow, query: EventQuery, view: LogView) -> bool:
    """Whether a row meets every criterion of the query but its window."""
    return (
        (not query.kinds or row.kind in query.kinds)
        and (query.since is None or row.at >= query.since)
        and (query.until is None or row.at <= query.until)
        and (query.synthetic is None or bool(row.flags & r.SYNTHETIC) is query.synthetic)
        and (not query.authors or row.author is None or row.author in query.authors)
        and (query.invocation_id is None or row.invocation_id == query.invocation_id)
        and (query.after_seq is None or row.seq > query.after_seq)
        and (query.before_seq is None or row.seq < query.before_seq)
        and (isinstance(query.branch, AnyBranch) or sees(query.branch, row))
        and (not query.standings or view.standing(row) in query.standings)
        and _holds_keywords(row, query)
        and (query.predicate is None or query.predicate(row))
    )


def sees(viewer: str | None, row: EventRow) -> bool:
    """Whether a viewer on a branch sees the row; what reached the root list everybody sees."""
    return bool(row.flags & r.ROOTED) or row.branch in visible_scopes(viewer)


def compared_text(row: EventRow) -> str | None:
    """What keyword search compares; None where there is no text."""
    if row.folded is not None:
        return row.folded
    return None if row.text is None else ascii_lower(row.text)


def _holds_keywords(row: EventRow, query: EventQuery) -> bool:
    if query.keyword is None and not query.keywords:
        return True
    text = compared_text(row)
    if text is None or (query.keyword is not None and query.keyword not in text):
        return False
    if not query.keywords:
        return True
    found = (word in text for word in query.keywords)
    return all(found) if query.match_all else any(found)


def cut_window(rows: Iterable[EventRow], query: EventQuery, view: LogView) -> EventSlice:
    """The window of the query over rows that meet it, given in log order."""
    found = list(rows)
    total = len(found) if query.with_total else None
    if query.newest:
        found.reverse()
    if query.limit is not None:
        found = found[query.offset : query.offset + query.limit]
    elif query.offset:
        found = found[query.offset :]
    if query.newest:
        found.reverse()
    return EventSlice(found, view, total)
