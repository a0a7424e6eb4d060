"""Texts as they can be sent: in every encoding, which halves of surrogate pairs are not, and no longer than asked."""

from __future__ import annotations

from typing import TypeVar, cast

Value = TypeVar("Value")


def whole_text(text: str) -> str:
    """The text with halves that belong together joined and lone ones marked; the same object where it is whole."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clip(text: str, cap: int) -> str:
    """A long text without its middle, saying how much is missing."""
    if len(text) <= cap:
        return text
    tail = cap // 3
    return f"{text[: cap - tail]} [… {len(text) - cap} characters …] {text[len(text) - tail :]}"


def whole_value(value: Value) -> Value:
    """A value as JSON knows them with every text in it whole; the same object where all are."""
    return value if _is_whole(value) else cast("Value", _made_whole(value))


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return whole_text(value) is value
    if isinstance(value, dict):
        return all(map(_is_whole, value)) and all(map(_is_whole, value.values()))
    return not isinstance(value, list) or all(map(_is_whole, value))


def _made_whole(value: object) -> object:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {_made_whole(key): _made_whole(item) for key, item in value.items()}
    return [_made_whole(item) for item in value] if isinstance(value, list) else value
