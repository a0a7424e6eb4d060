"""Whether words stand in a text one after the other: what phrases, prefixes and exclusions ask of each candidate.

A text in ASCII is not split into words for it: at a megabyte that takes a tenth of a second, and a page may ask of
fifty. It is brought into a form in which words have one blank or more between them, and the run is looked up there.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from langchain_sessions._recall.text.terms import LONGEST_TERM, plain_word, split_words, with_plain_marks, words_apart

_NUMBER: Final = re.compile(rb"(?<![a-z0-9])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])")
_WITH_CLITIC: Final = re.compile(rb"[a-z0-9]+(?:'[a-z0-9]+)+")
_PADDED: Final = re.compile("0[0-9]")
_NO_MORE: Final = "(?![a-z0-9])"


class Runs:
    """The words of a text, to look runs up in."""

    def __init__(self, text: str) -> None:
        """Take a text as it was written."""
        self._text = text
        self._plain = _plain_form(text)
        self._split: str | None = None

    def hold(self, words: tuple[str, ...], *, is_prefix: bool) -> bool:
        """Whether words, as `split_words` gives them, stand in the text in a row; the last one may go on."""
        if self._plain is not None and words:
            expression = _expression(words, is_prefix)
            return expression is not None and expression.search(self._plain) is not None
        if self._split is None:
            self._split = f" {' '.join(split_words(self._text))} "
        run = " ".join(words)
        return (f" {run}" if is_prefix else f" {run} ") in self._split


def _plain_form(text: str) -> bytes | None:
    """Words in lower case with blanks between them, one before the first; None for what is not in ASCII."""
    text = with_plain_marks(text)
    if not text.isascii():
        return None
    data = text.lower().encode()
    if b"," in data and _NUMBER.search(data):
        if b"'" in data:
            return None  # whether a number begins behind an apostrophe is a matter for the expression
        data = _NUMBER.sub(lambda found: found[0].replace(b",", b"") + b" ", data)
    if b"'" in data:
        data = _WITH_CLITIC.sub(lambda found: plain_word(found[0].decode()).encode(), data)
        data = data.replace(b"'", b" ")
    return b" " + words_apart(data)


@lru_cache(maxsize=64)
def _expression(words: tuple[str, ...], is_prefix: bool) -> re.Pattern[bytes] | None:  # noqa: FBT001 - hashed
    """What finds a run in the plain form; None where no text in ASCII holds it."""
    if not all(word.isascii() and word.isalnum() for word in words):
        return None
    *first, last = words
    parts = [*map(_whole, first), _begun(last) if is_prefix else _whole(last)]
    return re.compile("".join(f" {' *' if at else ''}{part}" for at, part in enumerate(parts)).encode())


def _whole(word: str) -> str:
    """A word as texts have it: `1` is written `01` and `1st` too, and long ones are kept by their beginning."""
    if len(word) >= LONGEST_TERM:
        return f"{word}[a-z0-9]*"
    if not word.isdigit():
        return word + _NO_MORE
    if _PADDED.fullmatch(word):
        return f"{word}(?:st|nd|rd|th){_NO_MORE}"
    padded = "0?" if len(word) == 1 else ""
    return f"(?:{padded}{word}|{word}(?:st|nd|rd|th)){_NO_MORE}"


def _begun(word: str) -> str:
    """What words begin with, of which none is written with a zero before it but a single figure."""
    if not word.isdigit():
        return word
    if _PADDED.fullmatch(word):
        return f"{word}(?=[a-z0-9])"
    if word == "0":
        return f"0(?![1-9]{_NO_MORE})"
    return f"(?:{word}|0{word}{_NO_MORE})" if len(word) == 1 else word
