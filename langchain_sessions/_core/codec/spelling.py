"""The text of a value that nests deeper than recursion goes: its parts one behind the other, as Python writes them."""

from __future__ import annotations

from typing import Any, NamedTuple

_LONGEST = 1_000_000
"""Characters: what holds itself has no end."""


class _Written(NamedTuple):
    """What goes into the text as it is."""

    text: str


def spelled(value: Any) -> str:
    """A value in words, its bottom too; of one that holds itself the beginning."""
    waiting: list[Any] = [value]
    text: list[str] = []
    length = 0
    while waiting and length < _LONGEST:
        part = waiting.pop()
        if type(part) is _Written:
            text.append(part.text)
            length += len(part.text)
        elif type(part) in (list, tuple, dict):
            waiting += reversed(_opened(part))
        else:
            waiting.append(_Written(_leaf(part)))
    return "".join(text)[:_LONGEST]


def _opened(part: Any) -> list[Any]:
    """What a container consists of, in the order of its text."""
    first, last = ("{", "}") if type(part) is dict else ("[", "]") if type(part) is list else ("(", ")")
    inside: list[Any] = []
    for item in part:
        inside += [_Written(", ")] if inside else []
        inside += [item, _Written(": "), part[item]] if type(part) is dict else [item]
    return [_Written(first), *inside, _Written(last)]


def _leaf(part: Any) -> str:
    try:
        return repr(part)
    except Exception:
        return f"<{type(part).__qualname__}>"
