"""What of a message is charged for: the texts of its content and its calls, and media by the piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

_MAX_PRINTED = 10_000
"""The codec keeps so many characters of what has no form of its own."""

_IMAGES = frozenset({"image", "image_url", "input_image"})
_FILES = frozenset({"audio", "input_audio", "video", "file", "input_file", "document", "media"})
_CALLS = frozenset({"tool_call", "tool_call_chunk", "tool_use", "function_call"})
# Never shown to a model as text: bytes, provider bookkeeping, signatures.
_HIDDEN = frozenset({"base64", "data", "file_data", "signature", "encrypted_content", "extras", "id", "index"})


@dataclass(frozen=True)
class Media:
    """What is no text: an image or another file."""

    is_image: bool


_IMAGE = Media(is_image=True)
_FILE = Media(is_image=False)


def holds_media(content: Iterable[str | dict[str, Any]]) -> bool:
    """Whether some part of a content is priced by the piece and not by its text."""
    return any(isinstance(part, Media) for part in texts_and_media(content, skip_calls=True))


def texts_and_media(content: Iterable[str | dict[str, Any]], *, skip_calls: bool) -> list[str | Media]:
    """`_content_parts`; of blocks that cannot be walked, such as one that is in itself, their text as it is stored."""
    try:
        return list(_content_parts(content, skip_calls=skip_calls))
    except Exception:  # noqa: BLE001 - whatever an object raises that is asked for its text
        return [_printed(content)]


def _printed(value: object) -> str:
    try:
        return str(value)[:_MAX_PRINTED]
    except Exception:  # noqa: BLE001 - as above
        return ""


def _content_parts(content: Iterable[str | dict[str, Any]], *, skip_calls: bool) -> Iterator[str | Media]:
    for block in content:
        if isinstance(block, str):
            yield block
        elif not (skip_calls and block.get("type") in _CALLS):
            yield from _block_parts(block)


def _block_parts(block: Mapping[str, Any]) -> Iterator[str | Media]:
    kind = block.get("type")
    text = block.get("text")
    if kind in _IMAGES:
        yield _IMAGE
    elif isinstance(text, str):
        yield text
    elif kind in _FILES or kind == "text-plain":
        yield _FILE
    elif kind in ("reasoning", "thinking") and isinstance(thought := block.get(kind), str):
        yield thought
    elif kind == "tool_result":
        yield from _value_parts(block.get("content"))
    else:
        yield from _value_parts({key: value for key, value in block.items() if key != "type"})


def _value_parts(value: object) -> Iterator[str | Media]:
    """Walk a block of unknown shape: what can be text counts as text, bytes never do."""
    if isinstance(value, str):
        yield _FILE if value.startswith("data:") and ";base64," in value[:128] else value
    elif isinstance(value, Mapping):
        block = cast("Mapping[str, Any]", value)
        if "type" in block:
            yield from _block_parts(block)
            return
        for key, item in block.items():
            if key not in _HIDDEN:
                yield str(key)
                yield from _value_parts(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value):
            yield from _value_parts(item)
    elif value is not None and not isinstance(value, (bytes, bytearray)):
        yield str(value)


def call_texts(message: AIMessage) -> Iterator[str]:
    """The names and the arguments of what a message calls."""
    for call in message.tool_calls:
        yield call["name"]
        try:
            yield json.dumps(call["args"], ensure_ascii=False, default=str)
        except Exception:  # noqa: BLE001 - keys that JSON does not know, a list in itself, an object that raises
            yield _printed(call["args"])
    for broken in message.invalid_tool_calls:
        yield broken["name"] or ""
        yield broken["args"] or ""
    legacy = message.additional_kwargs.get("function_call")
    if isinstance(legacy, dict) and not message.tool_calls:
        asked = cast("dict[str, object]", legacy)
        yield str(asked.get("name") or "")
        yield str(asked.get("arguments") or "")
