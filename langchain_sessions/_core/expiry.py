"""When a session is over, and when its time is renewed: the one place that decides it.

The same in SQL is `_sql/log/expiry_in_sql.py`, and nothing else has to know a rule: what is over reads as missing from
then on, and a purge removes it. `Session.expires_at` tells the column of that name, a time that somebody set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_sessions._core.rows import SessionRow

_HOUR = 3_600_000_000


def over_at(session: SessionRow) -> int | None:
    """From when on a session is over; None for one that never is."""
    return session.expires_at


def is_expired(session: SessionRow, now: int) -> bool:
    """Whether a session is not there any more."""
    end = over_at(session)
    return end is not None and end <= now


def expiry_columns(ttl: int | None, now: int, *, slides: bool) -> dict[str, Any]:
    """The columns of a session that lives so many microseconds from now on, or for ever.

    Args:
        ttl: The time to live; None for ever.
        now: The present.
        slides: Whether what is appended renews it.
    """
    if ttl is None:
        return {"expires_at": None, "renewal": None, "renewal_grain": None}
    if not slides:
        return {"expires_at": now + ttl, "renewal": None, "renewal_grain": None}
    # A sliding time is renewed seldom: the expiry is indexed, and each renewal writes that index.
    return {"expires_at": now + ttl, "renewal": ttl, "renewal_grain": min(_HOUR, ttl // 4)}


def renewed(expires_at: int, renewal: int, grain: int, now: int) -> int | None:
    """The new end of a sliding time to live; None as long as too little of it has passed."""
    due = now + renewal
    return due if due - expires_at >= grain else None
