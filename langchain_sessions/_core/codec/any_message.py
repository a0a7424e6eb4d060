"""Messages of any class as rows and back, without loss: which classes there are says `_core.message_types`.

A plain message needs no JSON at all: its text is one column and its id another. Whatever else a message carries
goes into `body`, as JSON of the fields that differ from their defaults. With an encrypting serializer the whole
message goes through it, and nothing readable is stored beside.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from langchain_core.messages import BaseMessage, BaseMessageChunk, ChatMessage
from pydantic import BaseModel

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.private_arguments import without_private
from langchain_sessions._core.codec.same import is_same
from langchain_sessions._core.codec.templates import AS_ANSWER, AS_BARE, SIZES, form_of, template_of
from langchain_sessions._core.codec.text import REASONING_FIELDS, searchable_text
from langchain_sessions._core.codec.values import dump_json, dump_readably, load_json, pack, unpack
from langchain_sessions._core.edge import UNREADABLE, folded_column, is_storable
from langchain_sessions._core.message_types import CLASSES, CODES, imported_class
from langchain_sessions._core.view import said_values
from langchain_sessions.errors import CorruptRowError, SealedEventError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langchain_sessions._core.message_types import StoredMessage
    from langchain_sessions._core.rows import EventRow

_MAX_ID = 255
_UNKNOWN: Final = object()
_NO_ID = r.NO_MESSAGE_ID
_CLASS = "$class"
_EXTRA = "$extra"

EncodedMessage = tuple[int, int, str | None, str | None, str | None, str | None]
"""The columns of one message: kind, flags, ident, text, folded and body. Bare, since every message pays for a name."""

Model = TypeVar("Model", bound=BaseModel)
# Pydantic keeps a model in these slots; setting them directly takes a third of the time of `model_construct`.
_new = object.__new__
_set_fields, _set_names, _set_extra, _set_private = (
    cast("Any", BaseModel.__dict__[name]).__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
_read: Callable[[str, int], tuple[Any, int]] = cast("Any", json.JSONDecoder()).scan_once
"""What `json.loads` asks for a value: what was stored has no blanks around it, and nothing else is after it."""
_MARKED: Final = '"$'
"""So begins whatever says in a body that a value is no plain JSON; a value of somebody's that does is no harm."""
_UNFIT: Final = (*UNREADABLE, StopIteration)


def assembled(cls: type[Model], fields: dict[str, Any], names: set[str], extra: dict[str, Any] | None) -> Model:
    """A message, or another model without private attributes, of valid parts that it takes over: see their names."""
    message = _new(cls)
    _set_fields(message, fields)
    _set_names(message, names)
    _set_extra(message, extra)
    _set_private(message, None)
    return message


def is_empty(fields: Mapping[str, Any], form: int, called: str) -> bool:
    """Whether a message of this form certainly has nothing else than a content and an id."""
    if len(fields) != SIZES.get(form):
        return False
    try:
        given, meta = fields["additional_kwargs"], fields["response_metadata"]
        # Values of other classes are not asked: an array answers with an array.
        if type(given) is not dict or given or type(meta) is not dict or meta:
            return False
        if fields["name"] is not None or fields["type"] is not called:
            return False
        if form == AS_BARE:
            return True
        calls, broken = fields["tool_calls"], fields["invalid_tool_calls"]
        is_list = type(calls) is list and type(broken) is list
        return is_list and not calls and not broken and fields["usage_metadata"] is None
    except KeyError:
        return False


class _Opened(NamedTuple):
    """A sealed message after it was unsealed."""

    seq: int
    ident: str
    kind: int
    flags: int
    text: str | None
    body: str | None


class MessageCodec:
    """Turns messages into columns and back.

    Args:
        serde: A LangGraph serializer. Values without a JSON form go through it; when it encrypts, whole messages do.
        encrypts: Whether `serde` encrypts.
    """

    def __init__(self, serde: SerializerProtocol | None = None, *, encrypts: bool = False) -> None:
        """See the class."""
        self.serde = serde
        self.encrypts = encrypts
        self._templates = {cls: template_of(cls) for cls in CODES}
        self._empty = {cls: (each.fields.copy, each.dicts, each.lists) for cls, each in self._templates.items()}
        self._forms = {cls: form_of(cls) for cls in CODES}
        self._of_kind = {kind: (cls, *self._forms[cls]) for kind, cls in CLASSES.items()}

    def encode(self, message: BaseMessage) -> EncodedMessage:
        """The columns of a message. Never refuses one for its content; chunks become whole messages."""
        kind = CODES.get(type(message), 0)
        fields = message.__dict__  # pydantic looks through its classes for each field that is asked for
        if kind == k.AI and (fields.get("tool_calls") or fields.get("invalid_tool_calls")):
            message = without_private(message)
            fields = message.__dict__
        elif not kind:
            if isinstance(message, BaseMessageChunk):
                # It brings along what every provider's blocks look like, and whom to ask what a file is.
                from langchain_core.messages import message_chunk_to_message  # noqa: PLC0415

                message = message_chunk_to_message(message)
            message = without_private(message)
            kind = CODES.get(type(message), 0)
            if not kind:
                return self._encode_other(message)
            fields = message.__dict__
        # An id that is read twice may differ: LangGraph assigns ids on another thread while a message is stored.
        message_id = fields.get("id")
        named = ident_of(message_id)
        cls = type(message)
        rest = {} if is_empty(fields, *self._forms[cls]) else _besides(fields, self._templates[cls].fields)
        if named[1] & r.DIGEST_ID:
            rest["id"] = message_id
        extra = message.__pydantic_extra__
        if extra:
            rest[_EXTRA] = extra
        return self._columns(message, fields["content"], kind, named, rest)

    def _columns(
        self, message: BaseMessage, content: Any, kind: int, named: tuple[str | None, int], rest: dict[str, Any]
    ) -> EncodedMessage:
        ident, flags = named
        if not rest and type(content) is str and content.isascii() and "\0" not in content and not self.encrypts:
            return kind, flags, ident, content, None, None  # nearly always: every database searches it as it is
        text = content if type(content) is str and is_storable(content) else None
        if text is None:
            rest["content"] = content
        if self.encrypts:
            sealed = self.seal_text(dump_json([text, pack(rest, self.serde)]))
            return kind, flags | r.SEALED, ident, None, None, sealed
        plain = text is not None and not (rest and kind == k.AI and _says_more(rest))
        searchable = text if plain and text is not None else searchable_text(message)
        body = dump_readably(pack(rest, self.serde)) if rest else None
        is_itself = text is not None and searchable is text and text.isascii()
        folded = None if is_itself else folded_column(text or "", searchable)
        return kind, flags, ident, text, folded, body

    def _encode_other(self, message: BaseMessage) -> EncodedMessage:
        """A class of somebody's own: its base decides the kind, its name tells whom to give it back to."""
        cls = type(message)
        named = ident_of(message.id)
        rest: dict[str, Any] = {name: value for name, value in message.__dict__.items() if name != "content"}
        if not named[1] & r.DIGEST_ID:
            rest.pop("id", None)
        if message.__pydantic_extra__:
            rest[_EXTRA] = message.__pydantic_extra__
        rest[_CLASS] = [cls.__module__, cls.__qualname__]
        kind = next((code for known, code in CODES.items() if isinstance(message, known)), k.OTHER)
        return self._columns(message, message.content, kind, named, rest)

    def decode(self, session_id: str, row: StoredMessage) -> BaseMessage:
        """The message of a row, a new object every time.

        Raises:
            SealedEventError: It was encrypted and this codec has no key for it.
            CorruptRowError: The row cannot be read.
        """
        cls = CLASSES.get(row.kind)
        text, flags = row.text, row.flags
        try:
            if type(text) is str and cls is not None and row.body is None:
                return assembled(cls, self._fields(cls, row), {"content"}, {})
            if flags & r.SEALED:
                text, rest = unpack(self.unseal_text(session_id, row.seq, row.body or ""), self.serde)
                return self._build_any(cls, _Opened(row.seq, row.ident, row.kind, row.flags, text, None), rest)
            rest = load_json(row.body or "{}", self.serde)
            return self._build_any(cls, row, rest)
        except UNREADABLE as error:
            if row.body is None and type(text) is str and type(flags) is int:
                raise  # a text as it is: there was nothing to decode, so it is a mistake of ours
            problem = unreadable(session_id, row.seq, error)
        # Not within the block: what pydantic and json raise quotes what was said.
        raise CorruptRowError(problem)

    def _build_any(self, cls: type[BaseMessage] | None, row: StoredMessage, rest: dict[str, Any]) -> BaseMessage:
        if _CLASS not in rest and cls is not None:
            return self._build(cls, row, rest)
        module, name = rest.pop(_CLASS, ["", ""])
        own = imported_class(module, name)
        if own is not None:
            fields = {"content": row.text, **rest}
            if row.flags & r.DIGEST_ID == 0:
                fields["id"] = None if row.flags & r.NO_MESSAGE_ID else row.ident
            fields.update(fields.pop(_EXTRA, {}))
            return own.model_validate(fields)
        return self._build_stranger(cls, row, rest)

    def _build_stranger(self, cls: type[BaseMessage] | None, row: StoredMessage, rest: dict[str, Any]) -> BaseMessage:
        """A message whose class is not loaded: its base class, else a chat message that says its type.

        Fields that the base does not have stay readable as extra fields.
        """
        cls = cls or ChatMessage
        known = self._templates[cls].fields
        strange = {name: value for name, value in rest.items() if name not in known and name not in (_EXTRA, "content")}
        rest = {name: value for name, value in rest.items() if name in known or name == "content"}
        if cls is ChatMessage:
            rest["role"] = str(rest.pop("type", "unknown"))
        else:
            rest.pop("type", None)
        rest[_EXTRA] = strange
        return self._build(cls, row, rest)

    def _build(self, cls: type[BaseMessage], row: StoredMessage, rest: dict[str, Any]) -> BaseMessage:
        """Build without validation: the values came out of a validated message of this class."""
        fields = self._fields(cls, row)
        extra: dict[str, Any] = rest.pop(_EXTRA, None) or {}
        fields.update(rest)
        if not isinstance(fields["content"], (str, list)):
            problem = "a message has a text or blocks"
            raise TypeError(problem)
        return assembled(cls, fields, {"content", *rest}, extra)

    def _fields(self, cls: type[BaseMessage], row: StoredMessage) -> dict[str, Any]:
        """The fields of a message of which a row says no more than its text and its id."""
        copied, dicts, lists = self._empty[cls]
        fields: dict[str, Any] = copied()
        for name in dicts:
            fields[name] = {}
        for name in lists:
            fields[name] = []
        fields.update(content=row.text, id=None if row.flags & _NO_ID else row.ident)
        return fields

    def seal_text(self, text: str) -> str:
        """Some text as it may be stored by a codec that encrypts."""
        assert self.serde is not None
        tag, data = self.serde.dumps_typed(text)
        return f"{tag}:{base64.b64encode(data).decode()}"

    def unseal_text(self, session_id: str, seq: int, sealed: str) -> Any:
        """The JSON value whose text was sealed.

        Raises:
            SealedEventError: This codec has no key for it.
        """
        if self.serde is None or not self.encrypts:
            raise SealedEventError(session_id, seq)
        tag, _, data = sealed.partition(":")
        try:
            return json.loads(self.serde.loads_typed((tag, base64.b64decode(data))))
        except Exception as error:
            raise SealedEventError(session_id, seq) from error

    def same(self, stored: EventRow, new: EventRow) -> bool:
        """`repeats`; what cannot be read is none that is known."""
        try:
            return self.repeats("", stored, new)
        except CorruptRowError:
            return False

    def repeats(self, session_id: str, stored: EventRow, new: EventRow) -> bool:
        """Whether two rows hold the same message; authors, branches and metadata may differ.

        Raises:
            SealedEventError: The stored one was encrypted and this codec has no key for it.
            CorruptRowError: It is not what was written, so nobody can tell.
        """
        if stored.kind != new.kind:
            return False
        if stored.flags & r.SEALED or new.flags & r.SEALED:
            return self.decode(session_id, stored) == self.decode(session_id, new)
        if stored.text == new.text and stored.body == new.body:
            return True
        if stored.text is None or (stored.text == new.text and stored.body is not None):
            self.decode(session_id, stored)
        return stored.text == new.text and json.loads(stored.body or "{}") == json.loads(new.body or "{}")

    def decode_all(self, session_id: str, rows: Sequence[EventRow]) -> list[BaseMessage]:
        """The messages of many rows."""
        made, left = self.cast(said_values(rows))
        for at in left:
            made[at] = self.decode(session_id, rows[at])
        return made

    def cast(
        self, rows: Iterable[tuple[Any, ...]], held: tuple[list[dict[str, Any]], list[dict[str, Any]]] | None = None
    ) -> tuple[list[BaseMessage], list[int]]:
        """The messages of rows of `SAID` columns, and which of them are for `decode`: those stand there as None.

        Nearly all hold a text, an id and what plain JSON says besides. They are made here, with no call for each part.
        `held` is given the fields of each that is made, and its extra fields, of which there are none.
        """
        made, extras = held or ([], [])
        messages: list[Any] = []
        left: list[int] = []
        of_kind = self._of_kind
        fields: dict[str, Any]
        for _, ident, kind, flags, _, text, body in rows:
            try:
                cls, form, called = of_kind[kind]
                named = None if flags & _NO_ID else ident
                said = None if body is None and type(text) is str else _said_in(body or "", flags, text)
            except _UNFIT:
                left.append(len(messages))
                messages.append(None)
                continue
            if form:
                fields = {
                    "content": text,
                    "additional_kwargs": {},
                    "response_metadata": {},
                    "type": called,
                    "name": None,
                    "id": named,
                }
                if form == AS_ANSWER:
                    fields["tool_calls"], fields["invalid_tool_calls"], fields["usage_metadata"] = [], [], None
            else:
                copied, dicts, lists = self._empty[cls]
                fields = copied()
                for name in dicts:
                    fields[name] = {}
                for name in lists:
                    fields[name] = []
                fields["content"] = text
                fields["id"] = named
            message = _new(cls)
            if said:
                fields.update(said)
                _set_names(message, {"content", *said})
            else:
                _set_names(message, {"content"})
            extra: dict[str, Any] = {}
            _set_fields(message, fields)
            _set_extra(message, extra)
            _set_private(message, None)
            messages.append(message)
            made.append(fields)
            extras.append(extra)
        return messages, left


def _said_in(body: str, flags: int, text: str | None) -> dict[str, Any]:
    """What plain JSON says of a message beside its text; where it says more, or cannot be read, one of `_UNFIT`."""
    if _MARKED in body or flags & r.SEALED:
        raise ValueError
    said: dict[str, Any]
    said, end = _read(body, 0)
    content: object = said.get("content", text)
    if end != len(body) or (type(content) is not str and type(content) is not list):
        raise ValueError
    return said


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal, as Python has it where it has an answer."""
    try:
        return bool(one == other)
    except Exception:  # an array answers with an array, and an object may raise anything
        return is_same(one, other)


def same_message(one: BaseMessage, other: BaseMessage) -> bool:
    """Whether two messages have the same class and equal fields."""
    return (
        type(one) is type(other)
        and equal(one.__dict__, other.__dict__)
        and equal(one.__pydantic_extra__ or {}, other.__pydantic_extra__ or {})
    )


def unreadable(session_id: str, seq: int, error: Exception) -> str:
    """What is wrong with an event that is not what was written."""
    session = f"session {session_id!r}" if session_id else "a session"
    return f"Event {seq} of {session} cannot be read ({type(error).__name__}); the other events can."


def digest(*parts: str | int | None) -> str:
    """A fixed-length id derived from some parts."""
    text = "\x1f".join("" if part is None else str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def ident_of(message_id: Any) -> tuple[str | None, int]:
    """The identity column of a message id: itself where every database can key by it, else a digest."""
    if message_id is None:
        return None, r.NO_MESSAGE_ID
    text = str(message_id)
    if 0 < len(text) <= _MAX_ID and is_storable(text):
        return text, 0
    return f"sha256:{digest(text)}", r.DIGEST_ID


def _besides(fields: Mapping[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    """What of a message has no column of its own and is not as in an empty one."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        default = template.get(name, _UNKNOWN)
        # Values of other classes are not asked: an array answers with an array.
        if value is default or (type(value) is type(default) and value == default):
            continue
        if name not in ("content", "id"):
            found[name] = value
    return found


def _says_more(rest: dict[str, Any]) -> bool:
    """Whether words of an answer stand elsewhere than in its content."""
    if rest.get("tool_calls") or rest.get("invalid_tool_calls"):
        return True
    extra = rest.get("additional_kwargs") or {}
    return any(field in extra for field in REASONING_FIELDS)
