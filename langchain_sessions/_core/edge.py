"""The edge of the library: what callers may give, its stored form, and what stored bytes may raise."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from dataclasses import FrozenInstanceError, is_dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache, wraps
from inspect import iscoroutinefunction, isfunction
from os import urandom
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from langchain_sessions._core.twins import told_alike
from langchain_sessions.errors import CorruptRowError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")
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


def check_positive(value: object, field: str) -> None:
    """Refuse what is no number above 0.

    Raises:
        InvalidInputError: It is none.
    """
    require(isinstance(value, (int, float)) and value > 0, field, "give a number above 0")


MOST: Final = 2**62 - 1
"""The largest number that is asked of a store: every driver takes it, and no position or count comes near."""


def bounded(number: int, least: int = 0) -> int:
    """What means the same as a whole number among positions and counts, and is one that every driver takes."""
    return max(least, min(number, MOST))


def check_kind(value: object, kind: type, field: str, example: str) -> None:
    """Refuse what is neither None nor a `kind`.

    Raises:
        InvalidInputError: It is something else; `example` is what to write.
    """
    if value is not None and not isinstance(value, kind):
        given = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise InvalidInputError(field, f"write {example}, not {given}")


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


def told(function: F) -> F:
    """Stands over what people call: who gives it wrong arguments is told the right ones."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            _tell(error, function, args)
            raise

    @wraps(function)
    async def twin(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except TypeError as error:
            _tell(error, function, args)
            raise

    return cast("F", twin if iscoroutinefunction(function) else call)


def told_methods(cls: type[T]) -> type[T]:
    """Stands over a class whose methods people call: each is `told`, under the name of the caller's class.

    Async methods have the text of their twins.
    """
    for name, method in [*vars(told_alike(cls)).items()]:
        if isfunction(method) and not name.startswith("_"):
            setattr(cls, name, told(method))
    return cls


def helpful(cls: type[T]) -> type[T]:
    """Stands over a class that people type: its constructor is `told`, and an attribute that is not there as well.

    Async methods have the text of their twins.
    """
    if "__init__" in vars(cls):
        made: Any = cls
        made.__init__ = told(made.__init__)
    return pointing(told_alike(cls))


def pointing(cls: type[T]) -> type[T]:
    """Stands over a class of values: who asks for an attribute that is not there is told what stands for it."""
    found: Callable[[object, str], Any] = vars(cls).get("__getattr__", object.__getattribute__)

    def missing(self: object, name: str) -> Any:
        try:
            return found(self, name)
        except AttributeError:
            if name.startswith("_") or hasattr(cls, name):  # asked by a program; or a property raised: that is the news
                raise
        from langchain_sessions._core.telling import attribute_told  # noqa: PLC0415 - for those who mistyped

        raise AttributeError(attribute_told(type(self), name), name=name)

    made: Any = cls
    made.__getattr__ = missing
    if is_dataclass(cls) and made.__dataclass_params__.frozen:
        made.__setattr__ = _refuse
    return cls


def _refuse(value: object, name: str, _given: object) -> None:
    from langchain_sessions._core.telling import assignment_told  # noqa: PLC0415 - for those who mistook it

    raise FrozenInstanceError(assignment_told(type(value), name))


class _Elsewhere:
    """A name that other libraries have on a class: asked for, it says what to write. For `hasattr` it is not there."""

    def __init__(self, told: str) -> None:
        self._told = told

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        raise AttributeError(self._told)


def has_no(name: str, write: str) -> Callable[[type[T]], type[T]]:
    """Stands over a class on which other libraries have, or look for, a `name`: says what to `write` instead."""

    def decorate(cls: type[T]) -> type[T]:
        setattr(cls, name, _Elsewhere(f"{cls.__name__} has no {name!r}. Write {write}"))
        return cls

    return decorate


def made_by(write: str) -> Callable[[type[T]], type[T]]:
    """Stands over a class that other libraries make by `from_conn_string`: `helpful`, and says what to `write`."""
    return lambda cls: helpful(has_no("from_conn_string", write)(cls))


def _tell(error: TypeError, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raise what a wrong call is told; nothing where the error came from within the function."""
    at = error.__traceback__
    if at is None or at.tb_next is not None:
        return
    from langchain_sessions._core.telling import call_told  # noqa: PLC0415 - for those who mistyped

    raise TypeError(call_told(error, function, args)) from None


MAX_ID = 255


def check_id(value: object, field: str) -> str:
    """A usable id, its text as it is: ids are compared exactly and never changed.

    Raises:
        InvalidInputError: It is no string, blank, longer than 255 characters, or has characters that not every
            database can compare.
    """
    if type(value) is not str:
        if not isinstance(value, str):
            known = ", such as its id" if hasattr(value, "user_id") else ""
            raise InvalidInputError(field, f"give a string{known}, not {type(value).__name__}")
        value = str.__str__(value)  # the text alone: drivers look at the class
    # Databases pad or trim blanks in their own ways, and a blank id is mostly a variable that was never set.
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
# Longer ones would leave the years that `datetime` has.
_LONGEST = timedelta(days=365_000)


def new_id() -> str:
    """A name that nothing else has: 96 bits by chance, at a third of what a UUID costs.

    Nearly every message bears one, in its row and in an index, so that each character is paid for twice.
    """
    return urandom(12).hex()


def utc_now() -> datetime:
    """The present, aware."""
    return datetime.now(timezone.utc)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 of an aware datetime, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC datetime of some microseconds since 1970."""
    return EPOCH + micros * _MICROSECOND


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
# The end of the last private plane, which no text of the world uses.
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


def ascii_lower(text: str) -> str:
    """Lower case of A to Z alone, which is what all databases agree on."""
    # Bytes lower these alone, in a tenth of the time that looking up each character takes.
    if text.isascii():
        return text.lower()
    return text.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")


def digest_of(app: str, session_id: str) -> str:
    """The name of a tombstone: nothing of the id can be read from it."""
    return hashlib.sha256(f"{len(app)}:{app}{session_id}".encode()).hexdigest()


# -- ids of checkpoints as bytes --------------------------------------------------------------------------------

_LENGTH = 16
LONGEST = _LENGTH + 1 + 4 * MAX_ID
"""Bytes of the longest id: a character is at most four."""
_DIGITS = "0123456789abcdef"
_NIBBLES = 2 * _LENGTH
_CHARACTERS = 36
_DASHES = (8, 13, 18, 23)
_LEAST = "00000000-0000-0000-0000-000000000001"
"""What is less stands before all that is short: in its place, no bytes were left that are less than none."""
_ABOVE, _BELOW = 0x40, 0x80
"""How an id stands beside the bytes that it begins with: it follows all UUIDs that begin as it does up to some digit,
those first that have more digits in common; or it stands before such, those first that have fewer."""


@lru_cache(256)
def uuid_bytes(name: str) -> bytes | None:
    """A UUID in its usual form as its bytes; None for any other text."""
    # Of a checkpoint it is asked four times: of itself, and as the parent of the next.
    if len(name) != _CHARACTERS or name[8:24:5] != "----":
        return None
    digits = name.replace("-", "")
    try:
        short = bytes.fromhex(digits)
    except ValueError:
        return None
    # In capitals, or with blanks, it would come back as another text.
    # With more dashes than four, there are fewer digits.
    return short if len(short) == _LENGTH and short.hex() == digits else None


def packed_id(name: str) -> bytes:
    """An id as bytes that sort as ids do by code points, since threads are read in the order of theirs.

    A UUID in its usual form is its 16 bytes, any other id its text behind those of a UUID that it stands beside.
    """
    short = uuid_bytes(name)
    return short if short is not None and any(short) else _beside(name) + name.encode()


def unpacked_id(packed: bytes | memoryview) -> str:
    """The id of which `packed_id` or `uuid_bytes` made bytes.

    Raises:
        CorruptRowError: They were altered.
    """
    try:
        text = packed.hex()
        if len(text) == _NIBBLES:
            return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
        if len(text) > _NIBBLES:
            return bytes(packed[_LENGTH + 1 :]).decode()
    except (AttributeError, UnicodeDecodeError):
        pass  # a text, or bytes of none
    problem = "The id of a checkpoint is altered; checkpoints of other threads can be read."
    raise CorruptRowError(problem)


def _beside(name: str) -> bytes:
    """The UUID behind which an id stands, and a byte that tells it from others that stand behind the same."""
    if name < _LEAST:
        return bytes(_LENGTH + 1)
    common, at = "", 0
    while len(common) < _NIBBLES:
        # A dash and the digit behind it are one step.
        start = at + 1 if at in _DASHES and name[at : at + 1] == "-" else at
        digit = name[start : start + 1]
        if (at in _DASHES) != (start > at) or digit not in _DIGITS or not digit:
            break
        common, at = common + digit, start + 1
    else:
        return _after(common, len(common))
    dash = "-" if at in _DASHES else ""
    rest = name[at:]
    # The greatest digit with which a UUID goes on that is less than the id.
    less = [digit for digit in _DIGITS if dash + digit < rest]
    if less:
        return _after(common + less[-1], len(common))
    before = int(common.ljust(_NIBBLES, "0"), 16) - 1
    return before.to_bytes(_LENGTH, "big") + bytes([_BELOW + len(common)])


def _after(begin: str, common: int) -> bytes:
    return bytes.fromhex(begin.ljust(_NIBBLES, "f")) + bytes([_ABOVE + _NIBBLES - common])
