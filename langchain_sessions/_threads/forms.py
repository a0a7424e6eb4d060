"""Values of channels in a form that comes back equal, whatever they are made of; what would not is refused.

What is plain goes to the serializer as it is. What it would turn into something else (a tuple into a list, half an
emoji into a question mark) and messages are marked: `{MARK: [what, …]}`. An object is stored as its class's name and
its fields, if its class was allowed by name; it is rebuilt without a call of the class. All else the serializer may
try, and is checked.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import ormsgpack
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, BaseMessageChunk, RemoveMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from langchain_sessions._core.codec.any_message import MessageCodec, assembled
from langchain_sessions._core.codec.same import fields_of, is_same
from langchain_sessions._core.codec.values import dump_json, holds_text, load_json, pack
from langchain_sessions._core.edge import require
from langchain_sessions._threads.allowed import Allowed, is_rebuildable
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from langgraph.checkpoint.serde.base import SerializerProtocol

MARK = "langchain_sessions:form"
_MARK = MARK.encode()
_TAG = "marked:"
PLAIN_TAG = "msgpack"
# With every kindness switched off: what is taken so is given back equal.
STRICT = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
WITH_TAGS = frozenset({type(None), bytes, bytearray})
"""LangGraph's serializer has tags of its own for these, and holds them exactly."""
_PLAIN = frozenset({float, bool, type(None), bytes})
_LEAVES = _PLAIN | {str, int}
_NAMES = frozenset({str, type(None)})
_DOCUMENT = dict(vars(Document("", metadata={}, id=None)))
_COLLECTIONS: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
_BASES: tuple[type, ...] = (dict, list, str, int, float)
# What msgpack holds with a sign; of positive numbers it would take one more.
_MAX_INT_BITS = 63
# Below the depth at which ormsgpack and Python's own recursion give up, whatever the caller's stack is like.
_MAX_DEPTH = 150


class UnstorableError(Exception):
    """A value would not come back equal.

    Attributes:
        problem: What about it, without a word of its content.
    """

    def __init__(self, problem: str) -> None:
        """Say what about it."""
        self.problem = problem
        super().__init__(problem)


class RefusedValueError(InvalidInputError, TypeError):
    """A graph's value cannot be stored; LangGraph's own savers raise a `TypeError` there."""


class ValueForms:
    """A serializer that gives back what it was given, or refuses it.

    Args:
        serde: A LangGraph serializer.
        allowed: Classes that may be rebuilt.

    Attributes:
        is_plain: Whether it is LangGraph's own: what msgpack holds exactly is what it would write.
        cipher: What encrypts, with LangGraph's own serializer that does.
        plain: The same without it.
    """

    def __init__(self, serde: SerializerProtocol, allowed: Allowed) -> None:
        """See the class."""
        self.serde = serde
        self.allowed = allowed
        # Values of other serializers that encrypt stay whole: their bytes are never alike.
        self.cipher = serde.cipher if type(serde) is EncryptedSerializer else None
        self.plain = ValueForms(serde.serde, allowed) if type(serde) is EncryptedSerializer else self
        self._codec = MessageCodec(serde)
        inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        self._is_known = isinstance(inner, JsonPlusSerializer)
        self.is_plain = type(serde) is JsonPlusSerializer

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The bytes of a value, and what they are.

        Raises:
            UnstorableError: It would come back as something else.
        """
        if obj is None or type(obj) is bytes or (type(obj) is bytearray and self._is_known):
            return self.serde.dumps_typed(obj)
        return self._dump(obj, "") or self.dumps_marked(obj)

    def dumps_marked(self, obj: Any, *, holds_messages: bool = False) -> tuple[str, bytes]:
        """The bytes of a value that is not plain, such as one that holds messages.

        Raises:
            UnstorableError: It would come back as something else.
        """
        found = self._marked(obj, holds_messages=holds_messages)
        if found is None:
            raise UnstorableError(self._problem(obj))
        return found

    def _marked(self, value: Any, *, holds_messages: bool = False) -> tuple[str, bytes] | None:
        """The bytes of a value in the first form that gives it back."""
        if self.is_plain and not holds_messages and (data := self._marked_in_c(value)) is not None:
            return _TAG + PLAIN_TAG, data
        # First with as few marks as possible: what the serializer holds by itself stays readable without us.
        for is_eager in (False, True):
            marking = _Marking(self.allowed, self._codec, is_eager=is_eager)
            try:
                marked = marking.of(value, 0)
            except RecursionError:
                break
            found = self._dump(marked, _TAG) or self._dump_checked(marked, _TAG)
            if found is not None:
                return found
        return self._dump_checked(value, "")

    def _marked_in_c(self, value: Any) -> bytes | None:
        """The bytes of plain containers that hold few kinds of objects, such as documents; None for any other value."""
        hook = _Hook(self.allowed)
        try:
            data = ormsgpack.packb(value, default=hook.mark, option=STRICT)
        except (TypeError, ValueError, RecursionError):
            return None
        # Whatever else says the mark might be read as one.
        return data if data.count(_MARK) == hook.marks else None

    def _dump(self, value: Any, tag: str) -> tuple[str, bytes] | None:
        """The bytes of a value that the serializer holds exactly; None for any other."""
        try:
            data = ormsgpack.packb(value, option=STRICT)
        except (TypeError, ValueError, RecursionError):
            return None
        if self.is_plain:
            return tag + PLAIN_TAG, data
        if not self._is_known:
            return None
        inner, data = self.serde.dumps_typed(value)
        return tag + inner, data

    def _dump_checked(self, value: Any, tag: str) -> tuple[str, bytes] | None:
        """The bytes of a value if the serializer gives it back."""
        try:
            inner, data = self.serde.dumps_typed(value)
            return (tag + inner, data) if is_same(self.serde.loads_typed((inner, data)), value) else None
        except Exception:  # a serializer raises anything, and so does what it asks
            return None

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value again.

        Raises:
            InvalidInputError: It holds an object of a class that is not allowed.
        """
        tag, body = data
        if not tag.startswith(_TAG):
            return self.serde.loads_typed(data)
        return self._unmark(self.serde.loads_typed((tag.removeprefix(_TAG), body)))

    # -- reading marks -------------------------------------------------------------------------------------

    def _unmark(self, value: Any) -> Any:
        kind = type(value)
        if kind is list:
            return [item if type(item) in _LEAVES else self._unmark(item) for item in value]
        if kind is not dict:
            return value
        if MARK not in value:
            return {key: item if type(item) in _LEAVES else self._unmark(item) for key, item in value.items()}
        what, *parts = value[MARK]
        return _READ[what](self, parts)

    def _read_message(self, parts: list[Any]) -> Any:
        return self._codec.decode("", _Inline(0, *parts))

    def _read_packed(self, parts: list[Any]) -> Any:
        return load_json(parts[0], self.serde)

    def _read_document(self, parts: list[Any]) -> Any:
        text, metadata, name = parts[0], self._unmark(parts[1]), parts[2]
        if type(text) is not str or type(metadata) is not dict or type(name) not in _NAMES:
            return Document(text, metadata=metadata, id=name)
        # Nothing is left to be checked: a list may hold thousands, of which each call of the class takes some 5 us.
        fields = {**_DOCUMENT, "page_content": text, "metadata": metadata, "id": name}
        return assembled(Document, fields, {"page_content", "metadata", "id"}, None)

    def _read_object(self, parts: list[Any]) -> Any:
        return self.allowed.rebuild(parts[0], self._unmark(parts[1]))

    def _read_send(self, parts: list[Any]) -> Any:
        limit = self._unmark(parts[2])
        return Send(parts[0], self._unmark(parts[1]), **({} if limit is None else {"timeout": limit}))

    def _read_delta(self, parts: list[Any]) -> Any:
        return _DeltaSnapshot(self._unmark(parts[0]))

    def _read_deque(self, parts: list[Any]) -> Any:
        return deque(self._unmark(parts[0]), parts[1])

    def _read_pairs(self, parts: list[Any]) -> Any:
        return dict(self._unmark(parts[0]))

    def _read_tuple(self, parts: list[Any]) -> Any:
        return tuple(self._unmark(parts[0]))

    def _read_set(self, parts: list[Any]) -> Any:
        return set(self._unmark(parts[0]))

    def _read_frozenset(self, parts: list[Any]) -> Any:
        return frozenset(self._unmark(parts[0]))

    # -- what is wrong -------------------------------------------------------------------------------------

    def _problem(self, value: Any) -> str:
        """Why a value would not come back equal: of which classes it holds objects, and what admits them."""
        found: dict[type, Any] = {}
        _collect(value, found, {}, 0)
        strange = [kind for kind, one in found.items() if kind not in self.allowed and not self._is_kept(one)]
        hopeless = [kind for kind in strange if not is_rebuildable(kind)]
        if hopeless:
            return f"holds {_listed(hopeless)}, which cannot be stored"
        if not strange:
            return f"a {type(value).__name__} that nests too deeply, or in itself, or would not come back equal"
        names = ", ".join(kind.__qualname__.rpartition("<locals>.")[2] for kind in strange)
        return (
            f"holds {_listed(strange)}, which would come back as something else; "
            f"name what may be rebuilt: SessionCheckpointSaver(sessions, allow=[{names}])"
        )

    def _is_kept(self, value: Any) -> bool:
        return (self._dump(value, "") or self._marked(value)) is not None


_READ: Mapping[str, Callable[[ValueForms, list[Any]], Any]] = {
    "message": ValueForms._read_message,
    "packed": ValueForms._read_packed,
    "document": ValueForms._read_document,
    "object": ValueForms._read_object,
    "send": ValueForms._read_send,
    "delta": ValueForms._read_delta,
    "deque": ValueForms._read_deque,
    "pairs": ValueForms._read_pairs,
    "tuple": ValueForms._read_tuple,
    "set": ValueForms._read_set,
    "frozenset": ValueForms._read_frozenset,
}


def usable(serde: SerializerProtocol | None) -> SerializerProtocol | None:
    """What a caller gives as a serializer, as it is.

    Raises:
        InvalidInputError: It is none.
    """
    is_one = any(
        callable(getattr(serde, name, None)) for name in ("dumps_typed", "dumps")
    )  # LangGraph takes both kinds
    require(serde is None or is_one, "serde", "give a serializer of LangGraph, such as JsonPlusSerializer()")
    return serde


def admitting(serde: SerializerProtocol, classes: Collection[type | tuple[str, ...]]) -> SerializerProtocol:
    """LangGraph's serializer with more classes, for what was stored before we marked objects; any other as it is."""
    if isinstance(serde, EncryptedSerializer):
        inner = admitting(serde.serde, classes)
        return serde if inner is serde.serde else EncryptedSerializer(serde.cipher, inner)
    return serde.with_msgpack_allowlist(classes) if isinstance(serde, JsonPlusSerializer) and classes else serde


class _Inline(NamedTuple):
    """A message that lies in a value."""

    seq: int
    kind: int
    flags: int
    ident: str
    text: str | None
    body: str | None


class _Hook:
    """Marks what msgpack does not know while it packs, so that nothing that it knows is walked in Python."""

    def __init__(self, allowed: Allowed) -> None:
        """Mark objects of allowed classes, and those of a form of their own."""
        self._allowed = allowed
        self.marks = 0

    def mark(self, value: Any) -> Any:
        """The form of an object, what it holds as it is.

        Raises:
            TypeError: Somebody has to look closer.
        """
        kind = type(value)
        if kind is Document:
            form = ["document", value.page_content, value.metadata, value.id]
        elif kind in _COLLECTIONS:
            form = [_COLLECTIONS[kind], [*value]]
        elif kind is Send:
            form = ["send", value.node, value.arg, _limit_of(value)]
        elif not issubclass(kind, BaseMessage) and (name := self._allowed.name_of(kind)) is not None:
            form = ["object", name, self._allowed.fields_in(value)]
        else:
            raise TypeError
        self.marks += 1
        return {MARK: form}


class _Marking:
    """One way through a value."""

    def __init__(self, allowed: Allowed, codec: MessageCodec, *, is_eager: bool) -> None:
        """Mark objects of allowed classes; eagerly, whatever has a form of its own."""
        self._allowed = allowed
        self._codec = codec
        self._is_eager = is_eager

    def of(self, value: Any, depth: int) -> Any:
        """The value with marks.

        Raises:
            RecursionError: It nests too deeply, or in itself.
        """
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is str:
            return value if value.isascii() or _is_whole(value) else _packed(value)
        if kind is int:
            return value if value.bit_length() <= _MAX_INT_BITS else _packed(value)
        if depth > _MAX_DEPTH:
            raise RecursionError
        if kind is list:
            return [self.of(item, depth + 1) for item in value]
        if kind is dict:
            return self._dict(value, depth)
        if kind in _COLLECTIONS:
            return {MARK: [_COLLECTIONS[kind], [self.of(item, depth + 1) for item in value]]}
        return self._object(value, depth + 1)

    def _dict(self, value: dict[Any, Any], depth: int) -> Any:
        if MARK not in value and all(type(key) is str and (key.isascii() or _is_whole(key)) for key in value):
            return {key: self.of(item, depth + 1) for key, item in value.items()}
        return {MARK: ["pairs", [[self.of(key, depth + 1), self.of(item, depth + 1)] for key, item in value.items()]]}

    def _object(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if issubclass(kind, BaseMessage):
            return self._message(value)
        name = self._allowed.name_of(kind)
        if name is not None:
            return {MARK: ["object", name, self.of(self._allowed.fields_in(value), depth)]}
        if kind is Send:
            return {MARK: ["send", value.node, self.of(value.arg, depth), self.of(_limit_of(value), depth)]}
        if kind is _DeltaSnapshot:
            return {MARK: ["delta", self.of(value.value, depth)]}
        if kind is deque:
            return {MARK: ["deque", [self.of(item, depth) for item in value], value.maxlen]}
        if kind is not Document and is_rebuildable(kind):
            return value
        if kind is Document or self._is_eager or issubclass(kind, float):
            packed = pack(value)
            if not holds_text(packed):
                return {MARK: ["packed", dump_json(packed)]}
        base = next((base for base in _BASES if issubclass(kind, base)), None)
        # A dictionary that counts or remembers its order comes back as the one that it is equal to.
        return value if base is None else self.of(_base_form(value, base), depth)

    def _message(self, message: BaseMessage) -> Any:
        if isinstance(message, RemoveMessage) or (isinstance(message, BaseMessageChunk) and not self._is_eager):
            return message
        kind, flags, ident, text, _, body = self._codec.encode(message)
        return {MARK: ["message", kind, flags, ident or "", text, body]}


def _base_form(value: Any, base: type) -> Any:
    return str.__str__(value) if base is str else base(value)


def _is_whole(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _packed(value: Any) -> Any:
    return {MARK: ["packed", dump_json(pack(value))]}


def _listed(kinds: list[type]) -> str:
    return " and ".join(f"a {kind.__qualname__.rpartition('<locals>.')[2]}" for kind in kinds)


def _collect(value: Any, into: dict[type, Any], seen: dict[int, Any], depth: int) -> None:
    """One object of each class in a value that is neither a container nor plain."""
    kind = type(value)
    if kind in _PLAIN or kind is str or kind is int or id(value) in seen or depth > _MAX_DEPTH:
        return
    seen[id(value)] = value  # held, so that no other object gets its id
    if issubclass(kind, dict):
        inner = [*value, *value.values()]
    elif issubclass(kind, (list, set, frozenset, deque)) or kind is tuple:
        inner = [*value]
    elif issubclass(kind, BaseMessage):
        return
    elif kind is Send:
        inner = [value.arg]
    elif kind is _DeltaSnapshot:
        inner = [value.value]
    else:
        into.setdefault(kind, value)
        inner = [*value] if issubclass(kind, tuple) else [*(fields_of(value) or {}).values()]
    for item in inner:
        _collect(item, into, seen, depth + 1)


def _limit_of(send: Send) -> object:
    """The time limit of a task, which LangGraph before 1.2 does not know."""
    return getattr(send, "timeout", None)
