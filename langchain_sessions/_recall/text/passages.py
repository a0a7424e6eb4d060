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
_SENTENCES: Final = 4
"""From here on a pause is a matter of a character or two."""

_PAUSES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n(?=#{1,6} |```\w)",
        r"(?<=\n```)\n",
        r"\n[^\S\n]*\n",
        r"\n",
        r"(?<=[.!?])\s|[\u3002\uff01\uff1f]",
        r"[}\]],|,[^\S\n]*(?=\")",
        r"[,;:]\s|[\uff0c\uff1b\u3001]",
        r"\s",
    )
)


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
    for number, pause in enumerate(_PAUSES):
        # Where sentences and words end is seldom far; what makes paragraphs may be.
        for first in (max(low, high - _NEAR), low) if number >= _SENTENCES else (low,):
            end = 0
            for match in pause.finditer(text, first, high):
                end = match.end()
            if end > start:
                return end
    return high
