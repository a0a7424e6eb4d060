"""How much two values begin and end with alike: found by comparing in C, whatever their size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST = 1 << 16
_FEW = 256
"""So many bytes are sooner compared as one number than by halves."""


def common_start(one: AnyStr, other: AnyStr, start: int = 0, begin: int = 0) -> int:
    """How many bytes, or characters, two values begin with alike, or go on with from a place of each."""
    size, at = min(len(one) - start, len(other) - begin), 0
    if size <= 0:
        return 0
    step, least = _first_step(size), 0
    begins: Callable[..., bool] = one.startswith
    there: Any = other
    if isinstance(other, bytes):
        # A part of this is no copy.
        there, least = memoryview(other), _FEW
    while at < size and step > least:
        if begins(there[begin + at : begin + at + step], start + at):
            at += step
        else:
            step //= 2
    if at < size and isinstance(one, bytes):
        at += _alike(one[start + at : start + at + 2 * _FEW], bytes(there[begin + at : begin + at + 2 * _FEW]))
    return min(at, size)


def common_end(one: AnyStr, other: AnyStr, most: int) -> int:
    """How many bytes, or characters, two values end with alike, at most so many."""
    if most <= 0:
        return 0
    here, end, at = len(one), len(other), 0
    step, least = _first_step(most), 0
    ends: Callable[..., bool] = one.endswith
    there: Any = other
    if isinstance(other, bytes):
        there, least = memoryview(other), _FEW
    while at < most and step > least:
        if ends(there[max(0, end - at - step) : end - at], 0, here - at):
            at += step
        else:
            step //= 2
    if at < most and isinstance(one, bytes):
        first = one[max(0, here - at - 2 * _FEW) : here - at]
        at += _alike(first[::-1], bytes(there[max(0, end - at - 2 * _FEW) : end - at])[::-1])
    return min(at, most)


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes two few begin with alike."""
    size = min(len(one), len(other))
    different = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return size - (different.bit_length() + 7) // 8


def _first_step(size: int) -> int:
    """How much to compare at once: a power of two, no more than it takes."""
    return min(1 << (size - 1).bit_length(), _MOST)


def same_first(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items two lists begin with alike. Those that are the same object take least."""
    most, at = min(len(one), len(other)), 0
    step = 1 << most.bit_length()
    while step:
        if at + step <= most and one[at : at + step] == other[at : at + step]:
            at += step
        else:
            step //= 2
    return at


def same_last(one: Sequence[object], other: Sequence[object], most: int) -> int:
    """How many items two lists end with alike, at most so many."""
    here, there, at = len(one), len(other), 0
    step = 1 << most.bit_length()
    while step:
        if at + step <= most and one[here - at - step : here - at] == other[there - at - step : there - at]:
            at += step
        else:
            step //= 2
    return at
