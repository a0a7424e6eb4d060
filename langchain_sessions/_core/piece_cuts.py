"""Where a value is cut into parts: where its own bytes say so, so that behind a change the old cuts are found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core.piece_rows import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS = bytes(
    48 + (0xCC51160E9309BD71937B5DEC185A9C85DD8B59D4CC404A79F17F32A8CBDAC159 >> place & 1)
    for place in range(255, -1, -1)
)
"""A digit for each byte, drawn so that texts, code, numbers and noise are all cut about equally often."""


class Rule(NamedTuple):
    """Where a value is cut: no shorter than this, and behind a pattern, a digit for each byte."""

    shortest: int
    behind: bytes


# Once in 2 048 places: parts of about 3 KB, of which a change stores what is different.
IN_CLEAR = Rule(1024, b"00101101111")
# Once in 512: a part that is sealed is stored whole, since nobody without the key could do so later.
SEALED = Rule(512, b"010011011")


def cut_where_they_say(data: bytes, rule: Rule, *, is_last: bool) -> Iterable[bytes]:
    """Bytes of a value, cut where they say so; what stands at their end is left, where the value goes on."""
    digits = data.translate(_DIGITS)
    start, size, behind = 0, len(data), len(rule.behind)
    while size - start > (rule.shortest if is_last else LONGEST):
        longest = min(start + LONGEST, size)
        found = digits.find(rule.behind, start + rule.shortest - behind, longest)
        end = longest if found < 0 else found + behind
        yield data[start:end]
        start = end
    if is_last and (start < size or not size):
        yield data[start:]
