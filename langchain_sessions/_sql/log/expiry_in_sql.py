"""Sessions whose time is over, in SQL: the criteria of `_core.expiry`, for every statement that looks for sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, case, or_

from langchain_sessions._sql.driver.transaction import param

if TYPE_CHECKING:
    from langchain_sessions._sql.tables.schema import Tables


def over_at(tables: Tables) -> ColumnElement[Any]:
    """From when on a session is over; NULL for one that never is."""
    return tables.sessions.c.expires_at


def is_there(tables: Tables, now: str = "k_now") -> ColumnElement[bool]:
    """Whether a session is not over at the time that a value names."""
    end = over_at(tables)
    return or_(end.is_(None), end > param(now))


def is_over(tables: Tables) -> ColumnElement[bool]:
    """Whether a session's time is over."""
    end = over_at(tables)
    # The index holds only rows that have one.
    return and_(end.is_not(None), end <= param("k_now"))


def renewed(tables: Tables, now: ColumnElement[Any]) -> ColumnElement[Any]:
    """The end of a session after an append, where its time slides."""
    s = tables.sessions.c
    due = now + s.renewal
    return case((due - s.expires_at >= s.renewal_grain, due), else_=s.expires_at)
