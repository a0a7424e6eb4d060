"""Checks at the edge: what callers may give, and what stored bytes may raise."""

from __future__ import annotations

import struct
import zlib

from langchain_sessions.errors import InvalidInputError

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
