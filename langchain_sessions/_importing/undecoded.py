"""A serializer that decodes what is known to be safe, and carries everything else as the bytes that it was.

A checkpoint of another saver is one piece of msgpack in which messages and objects of an application's own classes lie
side by side. The messages have to be seen, since each is stored once; the classes must not be loaded, since nobody
allowed them. What this serializer cannot know becomes the extension that it was read from, and is written back as the
same bytes. The graph that knows the class finds what the old saver would have given it.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import ormsgpack
from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langchain_sessions._core.message_types import CLASSES

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

_CACHED_BYTES = 32_000_000
_METHOD_AT = 3


class NotDecodedError(Exception):
    """A value is in a form that is not read: its type says which. Nothing of it was loaded."""

    def __init__(self, tag: str) -> None:
        """Name the form."""
        super().__init__(f"serialized as {tag!r}, which is never loaded")


class UndecodedSerializer(JsonPlusSerializer):
    """LangGraph's serializer in its strict mode, but nothing is lost of what it would not decode."""

    def __init__(self) -> None:
        """Nothing but LangGraph's own list of safe types is decoded."""
        super().__init__(allowed_msgpack_modules=None, __unpack_ext_hook__=self._revive)
        self._strict = JsonPlusSerializer(allowed_msgpack_modules=None)
        self._known: dict[tuple[int, bytes], Any] = {}
        self._known_bytes = 0
        self._kept = 0

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, with extensions where it holds classes that nobody allowed.

        Raises:
            NotDecodedError: It is pickled, or in no form of LangGraph's.
        """
        tag, body = data
        if tag == "json":
            return self._unpacked(ormsgpack.packb(_json(body), option=ormsgpack.OPT_NON_STR_KEYS))
        if tag not in {"null", "bytes", "bytearray", "msgpack"}:
            raise NotDecodedError(tag)
        return super().loads_typed(data)

    def _unpacked(self, body: bytes) -> Any:
        return ormsgpack.unpackb(body, ext_hook=self._revive, option=ormsgpack.OPT_NON_STR_KEYS)

    def _revive(self, code: int, data: bytes) -> Any:
        """One extension. Equal bytes give the same object: a conversation is the same list with one more, again."""
        place = (code, data)
        if place in self._known:
            return self._known[place]
        before = self._kept
        value = self._decoded(code, data)
        if self._kept != before and not isinstance(value, BaseMessage):
            # A container that holds something unknown is carried whole; a message is an event with that inside.
            value = ormsgpack.Ext(code, data) if code != EXT_DELTA_SNAPSHOT else value
        if isinstance(value, (BaseMessage, ormsgpack.Ext)):
            if self._known_bytes > _CACHED_BYTES:
                self._known.clear()
                self._known_bytes = 0
            self._known[place] = value
            self._known_bytes += len(data)
        return value

    def _decoded(self, code: int, data: bytes) -> Any:
        if code == EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(self._unpacked(data))
        before = self._kept
        parts = self._parts(data)
        if parts is None or not _is_safe(code, parts):
            return self._keep(code, data)
        if code == EXT_PYDANTIC_V2 and parts[0].startswith("langchain_core.messages."):
            return _message(parts) or self._keep(code, data)
        if self._kept != before:
            return self._keep(code, data)
        revived = self._strict.loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, data))))
        return self._keep(code, data) if revived is None else revived

    def _parts(self, data: bytes) -> Any:
        """Module, name and what follows; None for an extension of another form."""
        try:
            parts = self._unpacked(data)
        except ValueError:
            return None
        fits = type(parts) is list and len(parts) >= _METHOD_AT and all(type(name) is str for name in parts[:2])
        return parts if fits else None

    def _keep(self, code: int, data: bytes) -> ormsgpack.Ext:
        self._kept += 1
        return ormsgpack.Ext(code, data)


def importing_serde(serde: SerializerProtocol | None) -> SerializerProtocol:
    """The serializer that reads and writes like another one, and decodes no class that nobody allowed.

    An encrypting one keeps its cipher. One of an application's own is used as it is: only it knows its form.
    """
    if isinstance(serde, EncryptedSerializer):
        return EncryptedSerializer(serde.cipher, importing_serde(serde.serde))
    if serde is None or isinstance(serde, JsonPlusSerializer):
        return UndecodedSerializer()
    return serde


def _is_safe(code: int, parts: Any) -> bool:
    if code == EXT_METHOD_SINGLE_ARG:
        return len(parts) > _METHOD_AT and (parts[0], parts[1], parts[_METHOD_AT]) in SAFE_MSGPACK_METHODS
    return 0 <= code <= EXT_PYDANTIC_V2 and code != EXT_PYDANTIC_V1 and (parts[0], parts[1]) in SAFE_MSGPACK_TYPES


def _message(parts: Any) -> Any:
    """A message as LangGraph revives it; None where its fields fit no message."""
    kind = getattr(importlib.import_module(parts[0]), parts[1])
    try:
        return kind(**parts[2])
    except (TypeError, ValueError):
        return None


def _json(body: bytes) -> Any:
    """A value of LangGraph's older form: a constructor in JSON becomes the extension that says the same today."""
    return json.loads(body, object_hook=_constructor)


def _constructor(value: dict[str, Any]) -> Any:
    if value.get("type") != "constructor" or value.get("lc") not in {1, 2} or not isinstance(value.get("id"), list):
        return value
    *module, name = value["id"]
    args, kwargs, method = value.get("args") or [], value.get("kwargs") or {}, value.get("method")
    place = ".".join(module)
    if value["lc"] == 1:
        return _pack(EXT_PYDANTIC_V2, *_message_home(place, name), kwargs, "model_validate_json")
    if isinstance(method, str) and len(args) == 1:
        return _pack(EXT_METHOD_SINGLE_ARG, place, name, args[0], method)
    if kwargs:
        return _pack(EXT_CONSTRUCTOR_KW_ARGS, place, name, kwargs)
    return _pack(EXT_CONSTRUCTOR_POS_ARGS, place, name, args)


def _pack(code: int, *parts: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb(list(parts), option=ormsgpack.OPT_NON_STR_KEYS))


_REVIVED: tuple[type[BaseMessage], ...] = (*CLASSES.values(), RemoveMessage)
_HOMES = {cls.__name__: cls.__module__ for cls in _REVIVED}


def _message_home(place: str, name: str) -> tuple[str, str]:
    """Where a class is today that LangChain serialized under its public path."""
    whole = name.removesuffix("Chunk")
    if place.startswith("langchain") and whole in _HOMES:
        return _HOMES[whole], name
    return place, name
