"""The edge of the library: what callers may give, its stored form, and what stored bytes may raise."""

from __future__ import annotations

import re
import struct
import zlib
from datetime import datetime, timedelta, timezone
from os import urandom
from typing import Any, TypeVar

from langchain_sessions.errors import InvalidInputError

T = TypeVar("T")
UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
    zlib.error,
)
"""What Python raises over stored values that are not what was written. A boundary makes a `CorruptRowError` of it."""


def require(condition: object, field: str, problem: str) -> None:
    """Raise `InvalidInputError` for `field` unless `condition` holds."""
    if not condition:
        raise InvalidInputError(field, problem)


def built(cls: type[T], fields: dict[str, Any]) -> T:
    """An instance of a frozen dataclass without slots, past its constructor.

    That sets every field by itself through the guard against changes: half the cost of an append's answer. What
    `fields` leaves out has the default that the class holds; so a field with a default factory must be in it. The
    instance keeps `fields`.
    """
    made = _new(cls)
    _set(made, "__dict__", fields)
    return made


_new, _set = object.__new__, object.__setattr__


MAX_ID = 255


def check_id(value: object, field: str) -> str:
    """A usable id, returned as it is: ids are compared exactly and never changed.

    Raises:
        InvalidInputError: It is no string, blank, longer than 255 characters, or has characters that not every
            database can compare.
    """
    if not isinstance(value, str):
        raise InvalidInputError(field, f"give a string, not {type(value).__name__}")
    if not value or value.isspace():
        raise InvalidInputError(field, "must not be blank")
    if len(value) > MAX_ID:
        raise InvalidInputError(field, f"has {len(value)} characters; at most {MAX_ID} are allowed")
    if "\0" in value:
        raise InvalidInputError(field, "must not hold a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(field, "holds half of a surrogate pair") from error
    return value


def check_optional_id(value: object, field: str) -> str | None:
    """`check_id` for a value that may be None."""
    return None if value is None else check_id(value, field)


def check_branch(value: object, field: str = "branch") -> str | None:
    """A usable branch: a dotted path without empty segments; None is root.

    Raises:
        InvalidInputError: It is not.
    """
    if value is None:
        return None
    branch = check_id(value, field)
    if not all(branch.split(".")):
        raise InvalidInputError(field, "is a dotted path without empty segments, such as orch.researcher")
    return branch


def check_title(value: object) -> str | None:
    """A usable title.

    Raises:
        InvalidInputError: It is no string, or has characters that not every database stores.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInputError("title", f"give a string, not {type(value).__name__}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInputError("title", "holds a character that cannot be stored")
    return value


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST = timedelta(days=365_000)


def new_id() -> str:
    """A name that nothing else has: as random as a UUID's, and a third of its cost."""
    return urandom(16).hex()


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


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PRIVATE = 0x10F000


def fold(text: str) -> str:
    """Case-folded text in characters that every database stores: NUL and half pairs move to a private plane."""
    folded = text.casefold()
    if _UNSTORABLE.search(folded) is None:
        return folded
    return _UNSTORABLE.sub(lambda found: chr(_PRIVATE + (ord(found[0]) & 0xFFF)), folded)


def folded_column(text: str, searchable: str) -> str | None:
    """What to store for keyword search; None where the ASCII lower case of `text` compares alike."""
    if searchable is text and text.isascii():
        return None
    folded = fold(searchable)
    # Databases differ in how they lower other letters, so the short cut holds only where there are none to lower.
    return None if searchable is text and folded == text.lower() == ascii_lower(text) else folded


def is_storable(text: str) -> bool:
    """Whether every database holds the text as it is."""
    if text.isascii():
        return "\0" not in text
    return _UNSTORABLE.search(text) is None


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def ascii_lower(text: str) -> str:
    """Lower case of A to Z alone, which is what all databases agree on."""
    return text.translate(_ASCII_LOWER)
