"""Whether words stand in a text one after the other: what phrases, prefixes and exclusions ask of each candidate.

A text in ASCII is not split into words for it: at a megabyte that takes a tenth of a second, and a page may ask of
fifty. It is brought into a form in which words have one blank between them, and the run is looked up there.
"""

from __future__ import annotations

import re
from typing import Final

from langchain_sessions._recall.text.terms import LONGEST_TERM, plain_word, split_words, with_plain_marks, words_apart

# What begins with a figure is looked for by its figure, and what stands before it then: the other way takes twice as
# long, since every letter is looked at.
_FIRST: Final = rb"[0-9](?<![a-z0-9][0-9])"
_NUMBER: Final = re.compile(_FIRST + rb"[0-9]{0,2}(?:,[0-9]{3})+(?![0-9])")
_IN_FIGURES: Final = _FIRST + rb"(?:[0-9]*(?:st|nd|rd|th)|(?<=0)[0-9])(?![a-z0-9])"
"""Words that `split_words` writes in another way: ordinals, and figures behind a zero."""
_FIGURES: Final = re.compile(_IN_FIGURES)
_CLITICS_AND_FIGURES: Final = re.compile(rb"[a-z0-9]+(?:'[a-z0-9]+)+|" + _IN_FIGURES)


class Runs:
    """The words of a text, to look runs up in."""

    def __init__(self, text: str) -> None:
        """Take a text as it was written."""
        self._text = text
        self._plain = _plain_form(text)
        self._split: str | None = None

    def hold(self, words: tuple[str, ...], *, is_prefix: bool) -> bool:
        """Whether words, as `split_words` gives them, stand in the text in a row; the last one may go on."""
        run = " ".join(words)
        run = f" {run}" if is_prefix else f" {run} "
        # The plain form has long words whole, of which only the beginning is kept.
        if self._plain is not None and max(map(len, words), default=0) < LONGEST_TERM:
            return run.isascii() and run.encode() in self._plain
        if self._split is None:
            self._split = f" {' '.join(split_words(self._text))} "
        return run in self._split


def _plain_form(text: str) -> bytes | None:
    """Words in lower case with a blank before and behind each; None for what is not in ASCII."""
    text = with_plain_marks(text)
    if not text.isascii():
        return None
    data = text.lower().encode()
    if b"," in data and _NUMBER.search(data):
        if b"'" in data:
            return None  # whether a number begins behind an apostrophe is a matter for the expression
        data = _NUMBER.sub(lambda found: found[0].replace(b",", b"") + b" ", data)
    others = _CLITICS_AND_FIGURES if b"'" in data else _FIGURES
    data = others.sub(lambda found: plain_word(found[0].decode()).encode(), data)
    data = b" %b " % words_apart(data.replace(b"'", b" "))
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data
