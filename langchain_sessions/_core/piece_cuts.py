"""Where a value is cut into parts: where its own bytes say so, so that behind a change the old cuts are found again."""

from __future__ import annotations

import re
from typing import NamedTuple

from langchain_sessions._core.piece_rows import LONGEST

_AT_ONCE = 2048
_DIGITS = bytes(
    48 + (0xCC51160E9309BD71937B5DEC185A9C85DD8B59D4CC404A79F17F32A8CBDAC159 >> place & 1)
    for place in range(255, -1, -1)
)
"""A digit for each byte, drawn so that texts, code, numbers and noise are all cut about equally often."""


class Rule(NamedTuple):
    """Where a value is cut: no shorter than this, and behind a pattern, a digit for each byte."""

    shortest: int
    behind: re.Pattern[bytes]


# Once in 2 048 places: parts of about 3 KB, of which a change stores what is different.
IN_CLEAR = Rule(1024, re.compile(b"00101101111"))
# Once in 512: a part that is sealed is stored whole, since nobody without the key could do so later.
SEALED = Rule(512, re.compile(b"010011011"))


def end_of_part(data: bytes, start: int, rule: Rule) -> int:
    """Where the part of a value ends that begins at a place."""
    length, size = len(rule.behind.pattern), len(data)
    if size - start <= rule.shortest:
        return size
    at, longest = start + rule.shortest - length, min(start + LONGEST, size)
    while True:
        # Some at a time, so that little is turned into digits behind the end.
        stop = min(at + _AT_ONCE, longest)
        # Of two digits alone, an expression finds them in half the time that `bytes.find` takes.
        found = rule.behind.search(data[at:stop].translate(_DIGITS))
        if found is not None:
            return at + found.end()
        if stop == longest:
            return longest
        at = stop - length + 1
