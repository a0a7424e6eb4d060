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


def _words(value: Any, depth: int = 0) -> list[str]:
    """The strings and numbers inside a JSON-like value, with the keys of its objects."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [str(value)]
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, dict):
        return [word for key, item in value.items() for word in (str(key), *_words(item, depth + 1))]
    if isinstance(value, (list, tuple)):
        return [word for item in value for word in _words(item, depth + 1)]
    return []
