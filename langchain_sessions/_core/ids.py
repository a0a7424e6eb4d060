"""What a name may look like. Checked once, at the edge."""

from __future__ import annotations

from langchain_sessions.errors import InvalidInputError

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
