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


def narrowed(values: array[int]) -> bytes:
    """Numbers of four bytes as numbers of two, of which each keeps the lower: an array of those is slow to fill."""
    data = to_bytes(values)
    narrow = bytearray(2 * len(values))
    narrow[::2], narrow[1::2] = data[::4], data[1::4]
    return bytes(narrow)
