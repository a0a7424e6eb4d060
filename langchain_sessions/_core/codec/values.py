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
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from langchain_sessions._core.codec.arrays import is_foreign, pack_foreign, unpack_foreign
from langchain_sessions._core.codec.spelling import spelled
from langchain_sessions._core.edge import is_storable
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.checkpoint.serde.base import SerializerProtocol

TAG = "$"
_MARK = f'"{TAG}":['
_MAX_DEPTH = 200
_MAX_TEXT = 10_000
_TOP = 2
"""What nests too deeply, or in itself, takes another form as a whole at this depth: a field of a message, or a part."""
_NAMED_DEPTH = 3
"""Errors name the place of a value down to this depth."""
_MAX_DIGITS_BITS = 10_000
_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two characters of Python that JSON joins to one: an emoji whose halves came in two chunks of a stream."""

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

_BASES: tuple[type, ...] = (str, int, float, dict, list, tuple)

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
    "json": json.loads,
    "text": str,
    "halves": lambda payload: base64.b64decode(payload).decode("utf-8", "surrogatepass"),
}


def _is_exact(text: str) -> bool:
    """Whether JSON gives back the very characters."""
    return text.isascii() or _SPLIT_PAIR.search(text) is None


# For each text that it writes `json` makes an encoder, and functions around it, which take twice as long as a short
# text. Around what it reads it looks for blanks, of which there are none where it was written here.
_make: Any = getattr(json.encoder, "c_make_encoder", None)  # not every Python has one
_read: Callable[[str, int], tuple[Any, int]] = cast("Any", json.JSONDecoder()).scan_once


def _writer(*, in_ascii: bool) -> Callable[[Any], str]:
    plain = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=in_ascii)
    if _make is None:  # pragma: no cover
        return plain.encode
    spell = json.encoder.encode_basestring_ascii if in_ascii else json.encoder.encode_basestring
    # Threads share it: it notes nowhere what it has begun.
    encode = _make(None, plain.default, spell, None, ":", ",", False, False, False)  # noqa: FBT003 - in its own order
    return lambda value: "".join(encode(value, 0))


dump_json: Callable[[Any], str] = _writer(in_ascii=True)
"""Compact JSON in ASCII, so that every database stores every character; of a value that holds itself nowhere."""
dump_as_it_is: Callable[[Any], str] = _writer(in_ascii=False)
"""The same with characters as they are."""


def read_json(text: str) -> Any:
    """What `json.loads` reads.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        value, end = _read(text, 0)
        if end == len(text):
            return value
    except (StopIteration, ValueError, TypeError):
        pass
    return json.loads(text)  # with blanks around it, or none: which of them, and where, is said there


def dump_readably(value: Any) -> str:
    """Compact JSON that leaves characters as they are where every database stores them: Chinese is half as long so."""
    text = dump_as_it_is(value)
    return text if is_storable(text) else dump_json(value)


def load_json(text: str, serde: SerializerProtocol | None = None) -> Any:
    """Read JSON that this module wrote, tags included: `"` is escaped in strings, so none can hold the mark."""
    value = read_json(text)
    return unpack(value, serde) if _MARK in text else value


def pack(value: Any, serde: SerializerProtocol | None = None, depth: int = 0) -> Any:
    """`value` as something that JSON holds exactly.

    Args:
        value: Any Python value.
        serde: Asked for values that have no tag of their own.
        depth: How deep in the value this is.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return value if _is_exact(value) else _as_halves(value)
    if kind is int:
        return value if value.bit_length() < _MAX_DIGITS_BITS else {TAG: ["int", hex(value)]}
    if kind is float:
        return value if math.isfinite(value) else {TAG: ["float", repr(value)]}
    if depth > _TOP:
        return _pack_container(value, serde, depth)
    try:
        return _pack_container(value, serde, depth)
    except RecursionError:
        return _pack_call(value, serde) if depth == _TOP and _is_call(value) else _as_nested(value)


def _is_call(value: Any) -> bool:
    return type(value) is dict and type(value.get("args")) is dict and "name" in value


def _pack_call(call: dict[str, Any], serde: SerializerProtocol | None) -> Any:
    """A tool call one of whose arguments nests too deeply: it stays one, whoever reads the message looks at its id."""
    pairs = [(key, _alone(item, serde)) for key, item in call["args"].items()]
    are_names = all(type(key) is str and _is_exact(key) and key != TAG for key, _ in pairs)
    args = dict(pairs) if are_names else {TAG: ["dict", [[_alone(key, serde), item] for key, item in pairs]]}
    return {key: args if key == "args" else _alone(item, serde) for key, item in call.items()}


def _alone(value: Any, serde: SerializerProtocol | None) -> Any:
    try:
        return pack(value, serde, _TOP + 1)
    except RecursionError:
        return _as_nested(value)


def _pack_container(value: Any, serde: SerializerProtocol | None, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise RecursionError
    kind = type(value)
    if kind is list:
        return [pack(item, serde, depth + 1) for item in value]
    if kind is dict:
        return _pack_dict(value, serde, depth)
    return _pack_tagged(value, serde, depth)


def _as_nested(value: Any) -> Any:
    """What nests deeper than we go, as JSON in a string where that is exact."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # it notices what holds itself
        if json.loads(text) == value:
            return {TAG: ["json", text]}
    except Exception:  # whatever an object raises that is asked what it is, or compared
        return _as_text(value)
    return _as_text(value)


def _pack_dict(value: dict[Any, Any], serde: SerializerProtocol | None, depth: int) -> Any:
    if TAG not in value and all(type(key) is str and _is_exact(key) for key in value):
        return {key: pack(item, serde, depth + 1) for key, item in value.items()}
    pairs = [[pack(key, serde, depth + 1), pack(item, serde, depth + 1)] for key, item in value.items()]
    return {TAG: ["dict", pairs]}


def _pack_tagged(value: Any, serde: SerializerProtocol | None, depth: int) -> Any:
    kind = type(value)
    if kind in _SIMPLE:
        tag, encode = _SIMPLE[kind]
        return {TAG: [tag, encode(value)]}
    if kind is tuple or kind is set or kind is frozenset:
        return {TAG: [kind.__name__, [pack(item, serde, depth + 1) for item in value]]}
    from langchain_core.documents import Document  # noqa: PLC0415 - what no plain message holds

    if kind is Document:
        fields = {"id": value.id, "metadata": value.metadata, "page_content": value.page_content}
        return {TAG: ["document", pack(fields, serde, depth + 1)]}
    foreign = pack_foreign(value, lambda inner: pack(inner, serde, depth + 1), lambda inner: unpack(inner, serde))
    if foreign is not None:
        return {TAG: foreign}
    # A serializer makes plain arrays of numpy's others, without their masks.
    is_known = kind.__module__.partition(".")[0] != "numpy"
    if is_known and serde is not None and (tagged := _by_serde(value, serde)) is not None:
        return tagged
    base = next((base for base in _BASES if issubclass(kind, base)), None)
    return _as_text(value) if base is None else pack(_plain(value, base), serde, depth)


def _by_serde(value: Any, serde: SerializerProtocol) -> Any:
    """What a serializer makes of a value; None where it refuses it."""
    try:
        tag, data = serde.dumps_typed(value)
    except Exception:  # whatever an object raises that is asked what it holds
        return None
    return {TAG: ["serde", [tag, base64.b64encode(data).decode()]]}


def _plain(value: Any, base: type) -> Any:
    """The value as its built-in class, to which it is equal: a member of a `StrEnum`, a number of numpy."""
    return str.__str__(value) if base is str else base(value)


def _as_halves(text: str) -> Any:
    return {TAG: ["halves", base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()]}


def _as_text(value: Any) -> Any:
    """The marked text form of a value that nothing else holds; it reads back as a string."""
    try:
        text = str(value)
    except RecursionError:
        return {TAG: ["text", spelled(value)]}
    except Exception:
        text = f"<{type(value).__qualname__}>"
    # How deep `str` goes differs from one Python to the next.
    is_deep = len(text) > _MAX_TEXT and type(value) in (dict, list, tuple)
    return {TAG: ["text", spelled(value) if is_deep else text[:_MAX_TEXT]]}


def unpack(value: Any, serde: SerializerProtocol | None = None) -> Any:
    """Read what `pack` made."""
    if type(value) is list:
        return [unpack(item, serde) for item in value]
    if type(value) is not dict:
        return value
    if TAG not in value:
        return {key: unpack(item, serde) for key, item in value.items()}
    tag, payload = value[TAG]
    if tag in _RESTORE:
        return _RESTORE[tag](payload)
    if tag == "dict":
        return {unpack(key, serde): unpack(item, serde) for key, item in payload}
    if tag == "serde":
        return _unpack_by_serde(value, serde)
    if is_foreign(tag):
        return _unpack_foreign(value, serde)
    inner = unpack(payload, serde)
    if tag == "document":
        from langchain_core.documents import Document  # noqa: PLC0415 - as above

        return Document(**inner)
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](inner)


def _unpack_by_serde(value: dict[str, Any], serde: SerializerProtocol | None) -> Any:
    tag, data = value[TAG][1]
    if serde is None:
        if "+" in tag:  # encrypted
            return value
        try:
            from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer  # noqa: PLC0415 - an extra's
        except ImportError:
            return value
        serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    return serde.loads_typed((tag, base64.b64decode(data)))


def holds_text(packed: Any) -> bool:
    """Whether something in a packed value had no form of its own, and is text that says what it was."""
    if type(packed) is list:
        return any(map(holds_text, packed))
    if type(packed) is not dict:
        return False
    if TAG in packed:
        tag, payload = packed[TAG]
        return tag == "text" or holds_text(payload)
    return any(map(holds_text, packed.values()))


def _unpack_foreign(value: dict[str, Any], serde: SerializerProtocol | None) -> Any:
    tag, payload = value[TAG]
    try:
        return unpack_foreign(tag, payload, lambda inner: unpack(inner, serde))
    except ImportError:
        # What is readable without the library stays readable.
        return value


def require_json(value: Any, field: str, depth: int = 0) -> None:
    """Refuse a caller's value that JSON cannot hold exactly.

    Raises:
        InvalidInputError: Names `field` and the place in it.
    """
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return
    if kind is str or kind is float:
        _require_exact(value, field)
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
        _require_exact(key, field)
        require_json(item, f"{field}[{key[:40]!r}]" if depth < _NAMED_DEPTH else field, depth + 1)


def _require_exact(value: str | float, field: str) -> None:
    if not isinstance(value, str):
        if not math.isfinite(value):
            raise InvalidInputError(field, f"{value} is not a JSON number")
    elif not _is_exact(value):
        raise InvalidInputError(field, "JSON would join the halves of a surrogate pair")


def as_dict(value: object, field: str) -> dict[str, Any]:
    """A caller's mapping as a dictionary of our own.

    Raises:
        InvalidInputError: It is none.
    """
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InvalidInputError(field, f"give a mapping, not {type(value).__name__}")
    return dict(value)


def dump_exact(value: Any, field: str) -> str:
    """JSON of a caller's value that must survive exactly, such as metadata and state."""
    require_json(value, field)
    try:
        return dump_json(value)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(field, "JSON cannot hold it") from error


def dump_mapping(value: object, field: str) -> str:
    """`dump_exact` of what has to be a mapping."""
    return dump_exact(as_dict(value, field), field)
