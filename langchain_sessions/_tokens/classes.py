"""The classes of characters: a byte for each, by which the tokens of a text are estimated."""

from __future__ import annotations

from langchain_sessions._tokens.weights import (
    ACCENTED,
    ARABIC,
    CYRILLIC,
    EMOJI,
    EXTENDED,
    GREEK,
    HAN,
    HANGUL,
    HEBREW,
    INDIC,
    KANA,
    SYMBOL,
    WIDE,
)

# Lead bytes of UTF-8 up to and including the first number, from the previous one on.
_LEADS = (
    (0xC2, SYMBOL),
    (0xCD, ACCENTED),
    (0xCF, GREEK),
    (0xD3, CYRILLIC),
    (0xD7, HEBREW),
    (0xDF, ARABIC),
    (0xE0, INDIC),
    (0xE1, EXTENDED),
    (0xE2, SYMBOL),
    (0xE3, KANA),
    (0xE9, HAN),
    (0xED, HANGUL),
    (0xEE, SYMBOL),
    (0xEF, WIDE),
    (0xFF, EMOJI),
)

_FIRST_NOT_ASCII = 0x80


def _class_of(byte: int) -> int:
    char = chr(byte)
    if byte >= _FIRST_NOT_ASCII:
        return next(kind for last, kind in _LEADS if byte <= last)[0]
    if char.isalpha():
        return ord("A" if char.isupper() else "a")
    if char.isdigit():
        return ord("0")
    if char == "\n":
        return ord("\n")
    return ord(" " if char.isspace() else ".")


CLASSES = bytes(map(_class_of, range(256)))
CONTINUATION = bytes(range(_FIRST_NOT_ASCII, 0xC0))
START = b"\0\1"  # in a mask: the first character of a run


def _mask(*classes: bytes) -> bytes:
    """Make the translation that turns these classes into 1 and all others into 0."""
    return bytes(bytes([byte]) in classes for byte in range(256))


DIGITS = _mask(b"0")
# Each word becomes one class, its first letter's, which `bytes.title` makes a capital.
LETTERS = b"a" + ACCENTED + EXTENDED
FIRSTS = bytes.maketrans(LETTERS.upper(), b"AAA")
MASKS = {script: _mask(script) for _, script in _LEADS}
# What is counted of classes, and of these with one for each word: what a blank behind a letter does not belong to.
COUNTED = (b"a", b"A", b" ", b"aA", b"AA", b"a0", b"A0")
COUNTED_OF_WORDS = (b"A", b".", b". ", b" .", b"....", b"0", b"0000", b"\n", b"\n ")
# No class is called so.
NUMBERS, RUNS = b"numbers", b"runs:"
