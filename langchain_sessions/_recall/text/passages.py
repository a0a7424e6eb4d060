"""A long text as passages: what of it is ranked, shown and embedded on its own.

A cut falls where a reader would pause: before a heading or a block of code, between paragraphs, lines, sentences,
members of JSON, clauses, words; in a line without any of these, anywhere.
"""

from __future__ import annotations

import re
from typing import Final

LENGTH: Final = 700
"""Characters of a passage, about: a paragraph or two."""

MOST_PASSAGES: Final = 128
"""Of one event; those of a longer text are longer."""

_SHORTEST: Final = 0.4
_WHOLE: Final = 1.5
UNCUT: Final = int(_WHOLE * LENGTH)
"""Characters of the longest text that is one passage."""
_LOOK: Final = 2000
_NEAR: Final = 200
# What stands before the last one is taken first, and given back from its end: these do not lap over each other, so that
# it is the same as if all of them had been looked at, of which a text has one for each word.
_BEFORE: Final = r"(?s:.*)(?:%s)"
_LINES: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(pattern), needles)
    for pattern, needles in (
        (r"\n(?=#{1,6} |```\w)", ("\n#", "\n```")),
        (r"(?<=\n```)\n", ("\n```",)),
        (r"\n[^\S\n]*\n", ("\n",)),
        (r"\n", ("\n",)),
    )
)
_MEMBER: Final = re.compile(r"[}\]],|,[^\S\n]*(?=\")")
_WORDS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (re.compile(_BEFORE % r"(?<=[.!?])\s|[\u3002\uff01\uff1f]"), tuple(".!?\u3002\uff01\uff1f")),
    (_MEMBER, (",",)),
    (re.compile(_BEFORE % r"[,;:]\s|[\uff0c\uff1b\u3001]"), tuple(",;:\uff0c\uff1b\u3001")),
    (re.compile(_BEFORE % r"\s"), ("",)),
)
"""Pauses, the best first, and what a text holds one of where there is one, which is found sooner."""
_LONGEST_BEFORE: Final = 4
"""Characters that a pause looks back."""


def split_passages(text: str) -> list[tuple[int, int]]:
    """Cut a text into passages; an event that is no longer than one and a half is one.

    Returns:
        Start and end of each: together they are the whole text. At least one, at most `MOST_PASSAGES`.
    """
    if len(text) <= UNCUT:
        return [(0, len(text))]
    # Were every cut as early as it may be, there would be no more than `MOST_PASSAGES`.
    length = max(LENGTH, int(len(text) / (_SHORTEST * MOST_PASSAGES)) + 1)
    found: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > _WHOLE * length:
        end = _cut(text, start, length)
        found.append((start, end))
        start = end
    found.append((start, len(text)))
    return found


def _cut(text: str, start: int, length: int) -> int:
    """Where the passage that begins at a place ends: the last of the best pauses that are in reach."""
    high = start + length
    # A longer passage is cut near its end too: nobody looks for a pause through a megabyte.
    low = max(start + int(_SHORTEST * length), high - _LOOK)
    is_there = text[max(low - _LONGEST_BEFORE, 0) : high].__contains__
    for pause, needles in _LINES:
        if any(map(is_there, needles)) and (end := _last_of(pause, text, low, high)) > start:
            return end
    near = max(low, high - _NEAR)
    for pause, needles in _WORDS:
        if any(map(is_there, needles)):
            # Where sentences and words end is seldom far; what makes paragraphs may be.
            for first in (near, low):
                if pause is _MEMBER:
                    end = _last_of(pause, text, first, high)
                else:
                    end = found.end() if (found := pause.match(text, first, high)) is not None else 0
                if end > start:
                    return end
    return high


def _last_of(pause: re.Pattern[str], text: str, first: int, high: int) -> int:
    """Where the last of some pauses ends; 0 where there is none."""
    end = 0
    for match in pause.finditer(text, first, high):
        end = match.end()
    return end
