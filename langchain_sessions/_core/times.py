"""Times as data: aware UTC datetimes outside, microseconds inside."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from langchain_sessions.errors import InvalidInputError

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST = timedelta(days=365_000)


def utc_now() -> datetime:
    """The present, aware."""
    return datetime.now(timezone.utc)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 of an aware datetime, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC datetime of some microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def check_aware(moment: object, field: str) -> datetime:
    """An aware datetime, as it is.

    Raises:
        InvalidInputError: It has no time zone, is no datetime, or no year of UTC.
    """
    if not isinstance(moment, datetime):
        raise InvalidInputError(field, "give a datetime")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidInputError(field, "has no time zone; give an aware datetime, for example in UTC")
    if not _FIRST <= moment <= _LAST:
        raise InvalidInputError(field, "lies outside the years 1 to 9999 of UTC")
    return moment


def check_duration(duration: object, field: str) -> int:
    """A positive duration in microseconds.

    Raises:
        InvalidInputError: It is no timedelta, not above zero, or longer than a thousand years.
    """
    if not isinstance(duration, timedelta) or duration <= timedelta(0):
        raise InvalidInputError(field, "give a timedelta above zero")
    if duration > _LONGEST:
        raise InvalidInputError(field, "give at most a thousand years; None is for ever")
    return duration // _MICROSECOND
