"""Cursors of pages: opaque texts that name a place, checked when they come back."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from langchain_sessions._core.edge import MOST
from langchain_sessions.errors import InvalidInputError


def encode_cursor(kind: str, *place: object) -> str:
    """An opaque cursor of a kind that points to a place."""
    text = json.dumps([kind, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: str) -> tuple[str, list[Any]]:
    """The kind and the place of a cursor.

    Raises:
        InvalidInputError: It is not a cursor of one of these kinds.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        kind, *place = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (AttributeError, TypeError, ValueError, binascii.Error) as error:
        raise InvalidInputError(
            "cursor", "not a cursor that this library made; give page.next_cursor as it is"
        ) from error
    if kind not in kinds:
        raise InvalidInputError("cursor", "it belongs to another kind of page")
    return kind, place


def decode_positions(cursor: str, least: int, *kinds: str) -> tuple[str, list[int]]:
    """The kind and the place of a cursor whose place is at least so many whole numbers, None as 0.

    Raises:
        InvalidInputError: It is not such a cursor.
    """
    kind, place = decode_cursor(cursor, *kinds)
    numbers = [0 if part is None else part for part in place]
    if len(numbers) < least or not all(type(part) is int and 0 <= part <= MOST for part in numbers):
        raise InvalidInputError("cursor", "not a cursor that this library made; give page.next_cursor as it is")
    return kind, numbers
