"""Python values as JSON: exactly, or with a tag that says what they were.

`pack` turns what JSON cannot hold into `{"$": [tag, payload]}`, and `unpack` turns it back. Nothing that stored
text names is ever imported or called: the tags are a closed list, and whatever is not on it becomes marked text.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import uuid
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.checkpoint.serde.base import SerializerProtocol

_TAG = "$"
_MARK = f'"{_TAG}":['
_MAX_DEPTH = 200
_MAX_TEXT = 10_000
_NAMED_DEPTH = 3
"""Errors name the place of a value down to this depth."""
_MAX_DIGITS_BITS = 10_000

_SIMPLE: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    bytearray: ("bytearray", lambda value: base64.b64encode(value).decode()),
    complex: ("complex", lambda value: [repr(value.real), repr(value.imag)]),
    decimal.Decimal: ("decimal", str),
    uuid.UUID: ("uuid", str),
    dt.datetime: ("datetime", dt.datetime.isoformat),
    dt.date: ("date", dt.date.isoformat),
    dt.time: ("time", dt.time.isoformat),
    dt.timedelta: ("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
}

_RESTORE: dict[str, Callable[[Any], Any]] = {
    "bytes": base64.b64decode,
    "bytearray": lambda payload: bytearray(base64.b64decode(payload)),
    "complex": lambda payload: complex(float(payload[0]), float(payload[1])),
    "decimal": decimal.Decimal,
    "uuid": uuid.UUID,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timedelta": lambda payload: dt.timedelta(*payload),
    "float": float,
    "int": lambda payload: int(payload, 16),
    "text": str,
}


def dump_json(value: Any) -> str:
    """Compact JSON in ASCII, so that every database stores every character."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def load_json(text: str, serde: SerializerProtocol | None = None) -> Any:
    """Read JSON that this module wrote, tags included: `"` is escaped in strings, so none can hold the mark."""
    value = json.loads(text)
    return unpack(value, serde) if _MARK in text else value


def pack(value: Any, serde: SerializerProtocol | None = None, depth: int = 0) -> Any:
    """`value` as something that JSON holds exactly.

    Args:
        value: Any Python value.
        serde: Asked for values that have no tag of their own.
        depth: How deep in the value this is; what nests deeper than a limit becomes marked text.
    """
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() < _MAX_DIGITS_BITS else {_TAG: ["int", hex(value)]}
    if kind is float:
        return value if math.isfinite(value) else {_TAG: ["float", repr(value)]}
    if depth > _MAX_DEPTH:
        return _as_text(value)
    if kind is list:
        return [pack(item, serde, depth + 1) for item in value]
    if kind is dict:
        return _pack_dict(value, serde, depth)
    return _pack_tagged(value, serde, depth)


def _pack_dict(value: dict[Any, Any], serde: SerializerProtocol | None, depth: int) -> Any:
    if _TAG not in value and all(type(key) is str for key in value):
        return {key: pack(item, serde, depth + 1) for key, item in value.items()}
    pairs = [[pack(key, serde, depth + 1), pack(item, serde, depth + 1)] for key, item in value.items()]
    return {_TAG: ["dict", pairs]}


def _pack_tagged(value: Any, serde: SerializerProtocol | None, depth: int) -> Any:
    kind = type(value)
    if kind in _SIMPLE:
        tag, encode = _SIMPLE[kind]
        return {_TAG: [tag, encode(value)]}
    if kind is tuple or kind is set or kind is frozenset:
        return {_TAG: [kind.__name__, [pack(item, serde, depth + 1) for item in value]]}
    if kind is Document:
        fields = {"id": value.id, "metadata": value.metadata, "page_content": value.page_content}
        return {_TAG: ["document", pack(fields, serde, depth + 1)]}
    if serde is not None:
        tag, data = serde.dumps_typed(value)
        return {_TAG: ["serde", [tag, base64.b64encode(data).decode()]]}
    return _as_text(value)


def _as_text(value: Any) -> Any:
    """The marked text form of a value that nothing else holds; it reads back as a string."""
    try:
        text = str(value)
    except Exception:
        text = f"<{type(value).__qualname__}>"
    return {_TAG: ["text", text[:_MAX_TEXT]]}


def unpack(value: Any, serde: SerializerProtocol | None = None) -> Any:
    """Read what `pack` made."""
    if type(value) is list:
        return [unpack(item, serde) for item in value]
    if type(value) is not dict:
        return value
    if _TAG not in value:
        return {key: unpack(item, serde) for key, item in value.items()}
    tag, payload = value[_TAG]
    if tag in _RESTORE:
        return _RESTORE[tag](payload)
    if tag == "dict":
        return {unpack(key, serde): unpack(item, serde) for key, item in payload}
    if tag == "serde":
        return value if serde is None else serde.loads_typed((payload[0], base64.b64decode(payload[1])))
    inner = unpack(payload, serde)
    if tag == "document":
        return Document(**inner)
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](inner)


def require_json(value: Any, field: str, depth: int = 0) -> None:
    """Refuse a caller's value that JSON cannot hold exactly.

    Raises:
        InvalidInputError: Names `field` and the place in it.
    """
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return
    if kind is float:
        if not math.isfinite(value):
            raise InvalidInputError(field, f"{value} is not a JSON number")
        return
    if depth > _MAX_DEPTH:
        raise InvalidInputError(field, "nested too deeply, or circular")
    if kind is list:
        for at, item in enumerate(value):
            require_json(item, f"{field}[{at}]" if depth < _NAMED_DEPTH else field, depth + 1)
        return
    if kind is not dict:
        raise InvalidInputError(field, f"JSON cannot hold a {kind.__name__} exactly")
    for key, item in value.items():
        if type(key) is not str:
            raise InvalidInputError(field, f"a key is a {type(key).__name__}, and JSON keys are strings")
        require_json(item, f"{field}[{key[:40]!r}]" if depth < _NAMED_DEPTH else field, depth + 1)


def dump_exact(value: Any, field: str) -> str:
    """JSON of a caller's value that must survive exactly, such as metadata and state."""
    require_json(value, field)
    try:
        return dump_json(value)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(field, "JSON cannot hold it") from error
