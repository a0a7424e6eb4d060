"""What of an event can be found: its words, tool calls, results, reasoning and file names; never ids or bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from langchain_sessions._core.message_types import speaker_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from langchain_core.messages import BaseMessage

_DEEPEST: Final = 32
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Bytes written as text are nobody's words. An order number or a digest in a message is: it was said.
_SHORTEST_BLOB: Final = 160
_SEVERAL: Final = 2
_BLOB: Final = re.compile(
    r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=]*"
    rf"|(?<![\w+/=-])(?=[A-Za-z+/=_-]*[0-9])[A-Za-z0-9+/=_-]{{{_SHORTEST_BLOB},}}"
)
_TEXT_FIELDS: Final = ("text", "reasoning", "thinking", "refusal", "transcript", "caption", "alt", "title", "summary")
_NAME_FIELDS: Final = ("filename", "file_name", "name")
_ID_FIELDS: Final = frozenset({"id", "tool_call_id", "call_id", "index", "type", "signature", "encrypted_content"})
_BYTES_FIELDS: Final = frozenset({"data", "base64", "url", "file_data", "file_id", "image_url", "input_audio"})
# A question: marks of any script, or the particle at its end in languages that have one and leave marks out.


class Document(NamedTuple):
    """The searchable side of one event.

    Attributes:
        text: Everything that is shown and highlighted as found.
        author: Who said it, or None where nobody is known.
        timestamp: When.
        is_human: Whether a human said it.
    """

    text: str
    author: str | None
    timestamp: datetime
    is_human: bool = False


def make_document(message: BaseMessage, *, author: str | None, timestamp: datetime) -> Document:
    """Make the searchable side of a message.

    Args:
        message: Any message, of any provider's shape.
        author: Who said it; whom the message names when None.
        timestamp: When it was said.
    """
    text = searchable_text(message)
    return Document(
        text=text,
        author=author or speaker_of(message),
        timestamp=timestamp,
        is_human=message.type == "human",
    )


def searchable_text(message: BaseMessage) -> str:
    """Collect the words of a message, one line per part, in the order in which they were said.

    Text and reasoning, names and arguments of tool calls, results of tools as the model saw them (not their artifact),
    names of attached files. Not: ids, signatures, addresses of images, bytes.
    """
    extra, kind = message.additional_kwargs, message.type
    parts = [*(_reasoning(extra) if extra else ()), *_content(message.content)]
    if kind == "ai":
        for call in (*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())):
            parts.extend(_tool_call(call))
    elif kind == "tool" and message.name:
        # Which tool a result is of is as good a word for it as any in it.
        parts.insert(0, _spread(message.name))
    return plain_text("\n".join([part for part in dict.fromkeys(parts) if part and not part.isspace()]))


def plain_text(text: str) -> str:
    """What of a message's text is words: `searchable_text` of a message that holds nothing else."""
    if text.isspace():
        return ""
    return _BLOB.sub(" ", text) if _may_hold_bytes(text) else text


def _may_hold_bytes(text: str) -> bool:
    """Whether to look for bytes written as text: in most texts a blank stands in every few dozen characters."""
    if "base64," in text:
        return True
    at = 0
    while at + _SHORTEST_BLOB <= len(text):
        blank = text.rfind(" ", at, at + _SHORTEST_BLOB)
        if blank >= 0:
            at = blank + 1
            continue
        words = text[at : at + _SHORTEST_BLOB].split(None, 1)
        if len(words) < _SEVERAL:
            return True
        at += _SHORTEST_BLOB - len(words[1])
    return False


def _content(content: str | list[str | dict[str, Any]]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content:
        yield from (block,) if isinstance(block, str) else _block(block, _DEEPEST)


def _block(block: Mapping[str, Any], depth: int) -> Iterator[str]:
    kind = block.get("type")
    if kind in ("tool_use", "tool_call", "function_call", "input_json_delta", "tool_call_chunk"):
        return  # the same call stands in tool_calls, parsed
    if kind == "non_standard" and isinstance(block.get("value"), dict) and depth:
        yield from _block(block["value"], depth - 1)
        return
    for field in _TEXT_FIELDS:
        yield from _strings(block.get(field), depth)
    for field in _NAME_FIELDS:
        if isinstance(block.get(field), str):
            yield block[field]
    for field in ("metadata", "extras", "file", "source", "content", "output"):
        inner: object = block.get(field)
        if isinstance(inner, dict) and depth:
            yield from _block(cast("dict[str, Any]", inner), depth - 1)
        elif field in ("content", "output"):
            yield from _strings(block.get(field), depth)


def _reasoning(extra: Mapping[str, Any]) -> Iterator[str]:
    for field in ("reasoning_content", "reasoning"):
        yield from _strings(extra.get(field), _DEEPEST)


def _tool_call(call: Mapping[str, Any]) -> Iterator[str]:
    yield _spread(str(call.get("name") or ""))
    arguments = call.get("args")
    if isinstance(arguments, dict):
        for name, value in cast("dict[str, object]", arguments).items():
            yield " ".join((_spread(str(name)), *_strings(value, _DEEPEST)))
    else:
        yield from _strings(arguments, _DEEPEST)


def _strings(value: object, depth: int) -> Iterator[str]:
    """Walk a value of any shape and yield what reads as words."""
    if isinstance(value, str):
        yield value
    # Before numbers: True is one to Python, and nobody looks for it.
    elif isinstance(value, (bool, bytes)) or value is None or not depth:
        return
    elif isinstance(value, (int, float)):
        yield str(value)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            if name not in _ID_FIELDS and name not in _BYTES_FIELDS:
                yield from _strings(inner, depth - 1)
    elif isinstance(value, (list, tuple)):
        for inner in cast("Sequence[object]", value):
            yield from _strings(inner, depth - 1)


def _spread(name: str) -> str:
    """Write an identifier as words beside itself: `bookFlight` is found by "book" and by "bookFlight"."""
    spread = _CAMEL.sub(" ", name)
    return name if spread == name else f"{name} {spread}"
