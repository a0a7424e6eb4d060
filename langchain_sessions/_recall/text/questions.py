"""Whether a message asks: by its mark, or by the particle at its end in languages that have one and leave marks out."""

from __future__ import annotations

import re
from typing import Final

_MARKS: Final = "?\uff1f\u061f\u037e\u2049\u2047"
_TAIL: Final = 40
_AFTER_LAST_WORD: Final = re.compile(r"[\W_]*\Z")
_PARTICLES: Final = "[吗嗎]|[了过過][没沒]有?|ですか|ますか|でしたか|ましたか|나요|까요|습니까"
_ASKING: Final = re.compile(rf"(?:{_PARTICLES})[\W_]*\Z")


def is_question(text: str) -> bool:
    """Whether a text ends in a question mark of any script, or in a particle that asks; emoji may follow."""
    end = text[-_TAIL:].rstrip()
    if end.isascii():
        if "?" not in end or end[-1].isalnum():
            return False
    elif _ASKING.search(end):
        return True
    match = _AFTER_LAST_WORD.search(end)
    return match is not None and any(mark in match[0] for mark in _MARKS)
