"""Comparing values of any kind: it cannot raise, and what gives no plain answer is compared by its bytes."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

from pydantic import BaseModel

from langchain_sessions._core.codec.arrays import is_same_array, pack_foreign

_MAX_DEPTH = 200
_PROTOCOL = 4
"""What an object would be taken apart into by `pickle`, which is not asked: its class and what it holds."""
_LEAVES = frozenset({str, int, bool, bytes, bytearray, type(None)})


def is_same(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether two values have the same classes and the same contents all the way down; NaN is the same as NaN."""
    try:
        return one is other or (type(one) is type(other) and depth <= _MAX_DEPTH and _is_alike(one, other, depth + 1))
    except Exception:  # what cannot be compared is not the same
        return False


def _is_alike(one: Any, other: Any, depth: int) -> bool:
    """`is_same` of two values of one class."""
    kind = type(one)
    if kind in _LEAVES:
        return bool(one == other)
    if kind is float:
        return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 - so NaN is told
    if kind is dict:
        return len(one) == len(other) and all(
            key in other and is_same(item, other[key], depth) for key, item in one.items()
        )
    if kind in (list, tuple, deque) or isinstance(one, tuple):
        return len(one) == len(other) and all(is_same(item, its, depth) for item, its in zip(one, other, strict=True))
    if (fields := fields_of(one)) is not None:
        return is_same(fields, fields_of(other), depth)
    if (is_array := is_same_array(one, other)) is not None:
        return is_array
    packed = pack_foreign(one, _itself, _itself)
    if packed is not None:
        return is_same(packed, pack_foreign(other, _itself, _itself), depth)
    return _says_so(one, other) or is_same(one.__reduce_ex__(_PROTOCOL), other.__reduce_ex__(_PROTOCOL), depth)


def _says_so(one: Any, other: Any) -> bool:
    try:
        return (one == other) is True
    except Exception:  # an object may raise anything
        return False


def fields_of(value: Any) -> dict[str, Any] | None:
    """What a model or a dataclass consists of; None for anything else."""
    if issubclass(type(value), BaseModel):  # not asked of the value: some proxies raise
        extra, private = value.__pydantic_extra__, value.__pydantic_private__
        return {**value.__dict__, "$extra": extra or {}, "$private": private or {}}
    if dataclasses.is_dataclass(type(value)):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    attributes: Any = getattr(type(value), "__attrs_attrs__", None)
    return None if attributes is None else {field.name: getattr(value, field.name) for field in attributes}


def _itself(value: Any) -> Any:
    return value
