"""What of a message is text: what keyword search compares, on every database alike."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Where providers without content blocks put what a model thought: keys of `additional_kwargs`."""
_MAX_DEPTH = 20
"""What nests deeper is no longer something that a person searches for."""


def searchable_text(message: BaseMessage) -> str:
    """Everything that was said or done in words: text, reasoning, tool names, arguments and results."""
    parts: list[str] = []
    content = message.content
    if isinstance(content, str):
        parts.append(content)
    else:
        for block in content:
            parts.extend([block] if isinstance(block, str) else _block_text(block))
    if isinstance(message, AIMessage):
        for field in REASONING_FIELDS:
            parts.extend(_words(message.additional_kwargs.get(field)))
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            parts.append(str(call["name"] or ""))
            parts.extend(_words(call["args"]))
    return "\n".join(part for part in parts if part)


_BLOCK_TEXT = ("text", "reasoning", "thinking", "refusal", "title", "file_name", "filename", "name")


def _block_text(block: dict[Any, Any]) -> list[str]:
    """The words of one content block; pictures, sounds and ids are none."""
    found = [value for key in _BLOCK_TEXT if isinstance(value := block.get(key), str)]
    for key in ("summary", "content", "input", "args"):
        if key in block:
            found.extend(_words(block[key]))
    return found


def _words(value: Any, within: tuple[int, ...] = ()) -> list[str]:
    """The strings and numbers inside a JSON-like value, with the keys of its objects; what is in itself ends there."""
    kind = type(value)  # not asked of the value: some proxies raise
    if issubclass(kind, str):
        return [value]
    if issubclass(kind, (int, float)) and kind is not bool:
        return [str(value)]
    if len(within) > _MAX_DEPTH or id(value) in within:
        return []
    path = (*within, id(value))
    if issubclass(kind, dict):
        return [word for key, item in value.items() for word in (*_words(key, path), *_words(item, path))]
    if issubclass(kind, (list, tuple)):
        return [word for item in value for word in _words(item, path)]
    return []
