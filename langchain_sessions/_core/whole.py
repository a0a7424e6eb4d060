"""Texts as they can be sent: in every encoding, which halves of surrogate pairs are not, and no longer than asked."""

from __future__ import annotations

import re
from typing import TypeVar, cast

Value = TypeVar("Value")

DEEPEST = 100
"""So far a value may nest that goes out: what is below goes without its inside, before any encoder gives up."""
TOO_DEEP = "(nested too deeply)"

_CLIPPED = re.compile(r" \[… \d+ characters …\] ")
_MARK_LENGTH = 40


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
    """A long text without its middle, saying how much is missing; one that was clipped so stays as it is."""
    if len(text) <= cap or (len(text) <= cap + _MARK_LENGTH and _CLIPPED.search(text)):
        return text
    tail = cap // 3
    return f"{text[: cap - tail]} [… {len(text) - cap} characters …] {text[len(text) - tail :]}"


def whole_value(value: Value, cap: int | None = None) -> Value:
    """A value as JSON knows them, its texts whole and its nesting bounded; the same object where that is so.

    Args:
        value: The value.
        cap: How long each text in it may be, keys aside.
    """
    return value if _is_whole(value, cap, DEEPEST) else cast("Value", _made_whole(value, cap, DEEPEST))


def _told(text: str, cap: int | None) -> str:
    whole = whole_text(text)
    return whole if cap is None else clip(whole, cap)


def _is_whole(value: object, cap: int | None, depth: int) -> bool:
    if isinstance(value, str):
        return _told(value, cap) is value
    if not isinstance(value, (dict, list, tuple)):
        return True
    if depth == 0:
        return False
    if isinstance(value, dict):
        keys_whole = all(_is_whole(key, None, depth - 1) for key in value)
        return keys_whole and all(_is_whole(item, cap, depth - 1) for item in value.values())
    return all(_is_whole(item, cap, depth - 1) for item in value)


def _made_whole(value: object, cap: int | None, depth: int) -> object:
    if isinstance(value, str):
        return _told(value, cap)
    if not isinstance(value, (dict, list, tuple)):
        return value
    if depth == 0:
        return TOO_DEEP
    if isinstance(value, dict):
        return {_made_whole_key(key, depth): _made_whole(item, cap, depth - 1) for key, item in value.items()}
    return [_made_whole(item, cap, depth - 1) for item in value]


def _made_whole_key(key: object, depth: int) -> object:
    """A tuple stays one, since a list is no key."""
    made = _made_whole(key, None, depth - 1)
    return tuple(cast("list[object]", made)) if isinstance(made, list) else made
