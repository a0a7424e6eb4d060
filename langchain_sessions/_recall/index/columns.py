"""Arrays of numbers as bytes, little-endian on every machine."""

from __future__ import annotations

import sys
from array import array
from typing import Any


def to_bytes(values: array[Any]) -> bytes:
    """The bytes of an array."""
    if sys.byteorder == "big":  # pragma: no cover - stored little-endian
        values.byteswap()
    return values.tobytes()


def from_bytes(code: str, data: bytes) -> array[Any]:
    """The array of a type code whose bytes these are."""
    values = array(code, data)
    if sys.byteorder == "big":  # pragma: no cover - stored little-endian
        values.byteswap()
    return values
