"""What stands in a message beside plain words, as every provider takes it: blocks, media, and values of arguments."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.messages import HumanMessage

from langchain_sessions._chat.names import CALL_BLOCKS, block_with_taken_name
from langchain_sessions._core.codec.text import searchable_text
from langchain_sessions._core.view import is_thought
from langchain_sessions._core.whole import whole_text, whole_value

if TYPE_CHECKING:
    from collections.abc import Collection

Value = TypeVar("Value")

_TEXTS = frozenset({"text", "input_text", "output_text"})
_MEDIA = frozenset(
    {
        *(
            "image",
            "image_url",
            "input_image",
            "audio",
            "audio_url",
            "input_audio",
            "video",
            "video_url",
            "input_video",
        ),
        *("file", "input_file", "document", "media", "text-plain", "computer_screenshot"),
    }
)
_NESTED = frozenset(
    {"source", "image_url", "audio_url", "video_url", "input_audio", "file", "s3Location", "s3_location"}
)
_DATA = frozenset({"base64", "data", "bytes", "file_data", "file_id", "fileId", "text", "content"})
_ADDRESSES = frozenset(
    {"url", "uri", "image_url", "audio_url", "video_url", "file_url", "file_uri", "fileUri", "source"}
)
# Bedrock's own blocks have no type.
_NATIVE = frozenset({"image", "document", "video", "cachePoint", "guardContent"})
# A thought that is not to be read.
_WITH_BYTES = frozenset({"reasoning_content"})
# What one provider's client alone takes in a question, by what it cannot be without.
_OWN: dict[str, tuple[str, ...]] = {
    "search_result": ("source", "title", "content"),
    "container_upload": ("file_id",),
    "guard_content": ("text",),
    "mcp_approval_response": ("approval_request_id",),
    "non_standard": ("value",),
    "cache_point": (),
}
_FETCHED = re.compile(r"(?:https?|gs|s3)://[^\s/]|data:[^,]*,\s*\S", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")
# A longer beginning would tell no more.
_LOOKED_AT = 128


def sendable(value: Value, *, keeps_bytes: bool = False) -> Value:
    """A value as JSON knows them, which has no infinite numbers and nothing but texts; itself where it is one.

    Args:
        value: The value.
        keeps_bytes: Leave bytes as they are, for clients that take media so.
    """
    known = whole_value(value)
    return known if _is_json(known, keeps_bytes) else cast("Value", _as_json(known, keeps_bytes))


def _is_json(value: object, keeps_bytes: bool) -> bool:  # noqa: FBT001
    if value is None or isinstance(value, (str, int)):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        held: dict[Any, Any] = value
        return all(map(_is_key, held)) and all(_is_json(item, keeps_bytes) for item in held.values())
    if isinstance(value, (list, tuple)):
        return all(_is_json(item, keeps_bytes) for item in cast("list[Any]", value))
    return keeps_bytes and isinstance(value, bytes)


def _is_key(key: object) -> bool:
    return key is None or isinstance(key, (str, int)) or (isinstance(key, float) and math.isfinite(key))


def _as_json(value: object, keeps_bytes: bool) -> object:  # noqa: FBT001
    if _is_json(value, keeps_bytes):
        return value
    if isinstance(value, float):
        return None
    if isinstance(value, dict):
        held: dict[Any, Any] = value
        return {
            key if _is_key(key) else whole_text(str(key)): _as_json(item, keeps_bytes) for key, item in held.items()
        }
    if isinstance(value, (list, tuple)):
        return [_as_json(item, keeps_bytes) for item in cast("list[Any]", value)]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else whole_text(str(value))


def whole_blocks(content: list[Any], asked: Collection[str] | None = None) -> list[Any]:
    """The blocks that say something, as they can be sent; the same object where all are so.

    Args:
        content: The blocks of a message.
        asked: The ids of its calls: a block of a call that is none of them nobody would answer. None where a block
            can be no call of the message.
    """
    called: set[object] = set()
    kept: list[Any] = []
    for block in content:
        whole = _whole_block(block, asked)
        if whole is None or _is_repeated(whole, called):
            continue
        kept.append(whole)
    if asked is not None and not asked:
        # A reply that was cut in a thought: what it was to lead to is missing, and providers ask for it.
        while len(kept) > 1 and is_thought(kept[-1]):
            kept.pop()
    same = len(kept) == len(content) and all(a is b for a, b in zip(content, kept, strict=True))
    return content if same else kept


def _whole_block(block: str | dict[Any, Any], asked: Collection[str] | None) -> str | dict[Any, Any] | None:
    """A block that says something; None where it does not."""
    if isinstance(block, str):
        return _words(block) if block.strip() else None
    kind = block.get("type")
    if not (isinstance(kind, str) or kind is None):
        kind = ""
    if kind in _TEXTS or (kind is None and "text" in block):
        return _whole_text_block(block)
    if kind in _MEDIA and _is_dangling(block):
        return _words(f"[{str(kind).removeprefix('input_').removesuffix('_url')} left out]")
    if (asked is None or not kind) and not _is_asked_with(block):
        # A call, a result or a thought within a question, as another provider's record has it: what it says in words.
        return _in_words(block)
    if kind not in CALL_BLOCKS:
        return sendable(block, keeps_bytes=kind is None or kind in _MEDIA or kind in _WITH_BYTES)
    is_answered = asked is None or block.get("call_id", block.get("id")) in asked
    return block_with_taken_name(sendable(block)) if is_answered else None


def _is_repeated(block: str | dict[Any, Any], called: set[object]) -> bool:
    """Whether a block is a call that a message holds already, in the same form; notes what it calls."""
    if isinstance(block, str) or block.get("type") not in CALL_BLOCKS:
        return False
    call = (block["type"], block.get("call_id", block.get("id")))
    if call[1] and call in called:
        return True
    called.add(call)
    return False


def _whole_text_block(block: dict[str, Any]) -> dict[str, Any] | None:
    text = block.get("text")
    if text is None or not str(text).strip():
        return None
    if block.get("type") != "text" or not isinstance(text, str):
        # Clients look for the one, and servers for the other; OpenAI's own names of it nobody else takes.
        block = {**block, "type": "text", "text": str(text)}
    return sendable(block)


def _in_words(block: dict[str, Any]) -> dict[str, Any]:
    """What a block says, as far as it does."""
    kind = block.get("type")
    said = searchable_text(HumanMessage([block]))
    return _words(said if said.strip() else f"[{kind if kind and isinstance(kind, str) else 'part'} left out]")


def _words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": whole_text(text)}


def _is_asked_with(block: dict[str, Any]) -> bool:
    """Whether a block can stand in a question or a result: media, or what the client of one provider knows there."""
    kind = block.get("type")
    if kind is None:
        return not _NATIVE.isdisjoint(block)
    return isinstance(kind, str) and (kind in _MEDIA or (kind in _OWN and all(map(block.get, _OWN[kind]))))


def _is_dangling(block: dict[str, Any]) -> bool:
    """Whether a block of media has nothing behind it, or something that only the one who wrote it can reach."""
    holders, addresses, has_data = [block], list[str](), False
    while holders:
        holder = holders.pop()
        for key, value in holder.items():
            if isinstance(value, dict):
                holders += [cast("dict[str, Any]", value)] if key in _NESTED else []
            elif isinstance(value, str) and value and key in _ADDRESSES:
                addresses.append(value)
            elif isinstance(value, (str, bytes, list)) and value:
                # LangChain's blocks have an id of their own, which names nothing but where it is said to.
                has_data = has_data or key in _DATA or (key == "id" and holder.get("source_type") == "id")
    if not all(map(_is_fetched, addresses)):
        return True
    return not (addresses or has_data)


def _is_fetched(address: str) -> bool:
    """Whether a provider can reach an address, or it is the data itself, as some servers take it there."""
    return bool(_FETCHED.match(address) or _BASE64.fullmatch(address[:_LOOKED_AT]))
