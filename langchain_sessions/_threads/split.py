"""Taking the messages out of a value, and putting them back; copies of what a message holds.

A value of any shape becomes a *skeleton*, in which marks stand where messages were, and the list of these messages.
The skeleton goes through the serializer; the messages go to the log. Only plain containers are walked: what the
walk does not know stays whole, and whatever stays whole is stored whole.

Likewise what a model says to itself in a call is kept out of checkpoints: a graph that waits for its tools holds the
call.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import ormsgpack
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Overwrite, Send

from langchain_sessions._core.codec.any_message import assembled
from langchain_sessions._core.codec.private_arguments import PRIVATE_ARGUMENT, without_private, without_private_argument
from langchain_sessions._core.message_types import CODES
from langchain_sessions._threads.forms import STRICT, WITH_TAGS

MARK = "langchain_sessions:ref"
_SIGN = b"\xc1"
"""MessagePack never has it where a value begins."""
_REFERENCE, _SHORT = b"\x81\xb6langchain_sessions:ref\x93", _SIGN + b"\1"
KNOWN = frozenset(CODES)
LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_WALKED = frozenset({str, list, dict, tuple, Send, Overwrite, _DeltaSnapshot})
_LIST, _ONE, _TEXT = 0, 1, 2
MIN_TEXT = 32
"""Shorter strings are not worth a reference."""


class Split(NamedTuple):
    """A value without its messages. `is_list`: it was a list of messages and nothing else."""

    skeleton: Any
    references: list[BaseMessage | str]
    is_list: bool


class _MarkInValueError(Exception):
    """The value holds our own mark; it is stored whole."""


def is_event(message: object) -> bool:
    """Whether a value may stand in the log: a whole message, not an instruction to a reducer."""
    kind = type(message)  # not asked of the value: some proxies raise
    if kind in KNOWN:
        return True
    return issubclass(kind, BaseMessage) and not issubclass(kind, (BaseMessageChunk, RemoveMessage))


def is_message_list(value: object) -> bool:
    """Whether a value is a list of messages and nothing else."""
    # The first test runs in C and serves nearly every list.
    return type(value) is list and (set(map(type, value)) <= KNOWN or all(map(is_event, value)))


Wanted = Callable[[Any], bool]


class Apart(NamedTuple):
    """A value without the messages that are stored: `seqs` says where they are, None without any."""

    skeleton: Any
    seqs: list[int] | None
    has_others: bool
    """Whether messages that are not stored are left in."""
    is_list: bool = False
    """It was a list of stored messages and nothing else."""


def apart(
    value: Any, position: Callable[[BaseMessage], int | None] | None, texts: Mapping[str, int] = MappingProxyType({})
) -> Apart:
    """Take out what is stored: messages whose `position` is known (None: of none), and texts of some."""
    resolved: dict[int, int] = {}
    has_others = False

    def wanted(item: Any) -> bool:
        nonlocal has_others
        if type(item) is str:
            return item in texts
        if id(item) in resolved:
            return True
        seq = None if position is None else position(item)
        if seq is None:
            has_others = True
        else:
            resolved[id(item)] = seq
        return seq is not None

    parts = split(value, wanted)
    if parts is None:
        return Apart(value, None, has_others)
    seqs = [texts[item] if type(item) is str else resolved[id(item)] for item in parts.references]
    return Apart(parts.skeleton, seqs, has_others, parts.is_list)


def split(value: Any, wanted: Wanted) -> Split | None:
    """Take out what `wanted` says yes to; None where there is nothing, or the value holds the mark itself.

    Args:
        value: Any value.
        wanted: Asked for each message, and for each string that might be a message's text.
    """
    if type(value) in LEAVES:
        return None
    references: list[BaseMessage | str] = []
    try:
        skeleton = _walk(value, wanted, references)
    # Stored whole it costs more room, and comes back as it was.
    except (_MarkInValueError, RecursionError):
        return None
    if not references:
        return None
    is_list = type(value) is list and type(skeleton) is dict and skeleton.get(MARK, [None])[0] == _LIST
    return Split(skeleton, references, is_list)


def plain_bytes(value: Any) -> bytes | None:
    """A value of plain containers of plain values, as most are, in bytes: there is no message in it to be taken out.

    Asked in C, a hundredth of a walk. None for any other, and for what LangGraph's serializer has a tag for.
    """
    if type(value) in WITH_TAGS:
        return None
    try:
        return ormsgpack.packb(value, option=STRICT)
    except (TypeError, ValueError, RecursionError):
        return None


def _walk(value: Any, wanted: Wanted, into: list[BaseMessage | str]) -> Any:
    kind = type(value)
    if kind is str:
        if len(value) >= MIN_TEXT and wanted(value):
            into.append(value)
            return {MARK: [_TEXT, len(into) - 1]}
        return value
    if kind in LEAVES:
        return value
    if issubclass(kind, BaseMessage):
        if is_event(value) and wanted(value):
            into.append(value)
            return {MARK: [_ONE, len(into) - 1]}
        return value
    if kind is list:
        return _walk_list(value, wanted, into)
    if kind is dict:
        if MARK in value:
            raise _MarkInValueError
        return {key: _walk(item, wanted, into) for key, item in value.items()}
    if kind is tuple:
        return tuple(_walk(item, wanted, into) for item in value)
    # Subclasses go this way too: rebuilt as plain containers they would come back as something else.
    return _walk_wrapper(value, wanted, into)


def _walk_list(value: list[Any], wanted: Wanted, into: list[BaseMessage | str]) -> Any:
    if value and is_message_list(value) and all(map(wanted, value)):
        into.extend(value)
        return {MARK: [_LIST, len(into) - len(value), len(value)]}
    if not any(map(_is_walked, set(map(type, value)))):
        return value  # a thousand documents are of one class
    return [_walk(item, wanted, into) for item in value]


def _is_walked(kind: type) -> bool:
    return kind in _WALKED or issubclass(kind, BaseMessage)


def _walk_wrapper(value: Any, wanted: Wanted, into: list[BaseMessage | str]) -> Any:
    """The containers of LangGraph itself; any other object stays whole."""
    kind = type(value)
    if kind is Send:
        return with_argument(value, _walk(value.arg, wanted, into))
    if kind is Overwrite:
        return dataclasses.replace(value, value=_walk(value.value, wanted, into))
    if kind is _DeltaSnapshot:
        return _DeltaSnapshot(_walk(value.value, wanted, into))
    return value


def with_argument(send: Send, argument: Any) -> Send:
    """The same with another argument. A copy: LangGraph before 1.2 knows no time limit of it."""
    other = copy.copy(send)
    other.arg = argument
    return other


def join(skeleton: Any, messages: Sequence[BaseMessage], text_of: Callable[[int], str]) -> Any:
    """Put messages back where their marks stand.

    Args:
        skeleton: What `split` made.
        messages: The messages, in the order of the references.
        text_of: The text at the place of a reference.
    """
    kind = type(skeleton)
    if kind in LEAVES or isinstance(skeleton, BaseMessage):
        return skeleton
    if kind is dict:
        mark = skeleton.get(MARK)
        if mark is None:
            return {key: join(item, messages, text_of) for key, item in skeleton.items()}
        if mark[0] == _LIST:
            return list(messages[mark[1] : mark[1] + mark[2]])
        return messages[mark[1]] if mark[0] == _ONE else text_of(mark[1])
    if kind is list:
        return [join(item, messages, text_of) for item in skeleton]
    if kind is tuple:
        return tuple(join(item, messages, text_of) for item in skeleton)
    if kind is Send:
        return with_argument(skeleton, join(skeleton.arg, messages, text_of))
    if kind is Overwrite:
        return dataclasses.replace(skeleton, value=join(skeleton.value, messages, text_of))
    if kind is _DeltaSnapshot:
        return _DeltaSnapshot(join(skeleton.value, messages, text_of))
    return skeleton


# -- what a model says to itself in a call ---------------------------------------------------------------------

_PRIVATE = PRIVATE_ARGUMENT.encode()


def size_of(content: object) -> int:
    """How long a text is; all else is of one size."""
    return len(content) if isinstance(content, str) else -1


def may_be_private(tag: str, data: bytes) -> bool:
    """Whether a serialized value may hold such an argument; of one that is encrypted nobody can tell."""
    return _PRIVATE in data or "+" in tag


def without_private_calls(value: Any) -> Any:
    """A value without the private argument of the calls in it; itself where there is none."""
    kind = type(value)
    if kind is dict:
        call = without_private_argument(value)
        found = {key: without_private_calls(item) for key, item in call.items()}
        return value if call is value and _are_same(found.values(), value.values()) else found
    if kind is list or kind is tuple:
        items = [without_private_calls(item) for item in value]
        return value if _are_same(items, value) else kind(items)
    if isinstance(value, AIMessage):
        return without_private(value)
    if kind is Send:
        argument = without_private_calls(value.arg)
        return value if argument is value.arg else with_argument(value, argument)
    if kind is Overwrite:
        inner = without_private_calls(value.value)
        return value if inner is value.value else dataclasses.replace(value, value=inner)
    return value


def _are_same(found: Any, given: Any) -> bool:
    return all(one is other for one, other in zip(found, given, strict=True))


def snapshot(value: Any) -> Any:
    """A copy of a value that shares what cannot change."""
    kind = type(value)
    # Copied whole, then what nests, of which there is little: this runs for each message that says more than a text.
    if kind is dict:
        copied = value.copy()
        for key, item in value.items():
            if type(item) not in LEAVES:
                copied[key] = snapshot(item)
        return copied
    if kind is list:
        return [item if type(item) in LEAVES else snapshot(item) for item in value]
    if kind in LEAVES:
        return value
    if kind is tuple:
        return tuple(snapshot(item) for item in value)
    try:
        return copy.deepcopy(value)
    except Exception:  # an object may refuse to be copied, in any way
        return value


def held(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message, copied but for what nests deeper than we go, or in itself."""
    try:
        return cast("dict[str, Any]", snapshot(fields))
    except RecursionError:
        return dict(fields)


def clone_message(message: BaseMessage) -> BaseMessage:
    """A copy of a message that nobody else holds. Each field is read once."""
    fields, extra = held(dict(message.__dict__)), held(message.__pydantic_extra__ or {})
    return assembled(type(message), fields, set(message.__pydantic_fields_set__), extra)


def brief_skeleton(data: bytes) -> bytes:
    """A value in which messages are references, without the word that says so."""
    if _REFERENCE not in data:
        return data
    short = _SIGN + data.replace(_REFERENCE, _SHORT)
    # A text may hold the bytes of the short word: then it stays as it is.
    return short if whole_skeleton(short) == data else data


def whole_skeleton(data: bytes) -> bytes:
    """What `brief_skeleton` was given."""
    return data[1:].replace(_SHORT, _REFERENCE) if data[:1] == _SIGN else data
