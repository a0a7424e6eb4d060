"""Snowball's English stemmer (Porter 2, as of Snowball 3.1) in operations on whole strings.

The one that Snowball generates goes letter by letter: 20 to 40 µs a word in Python where this takes 2, and a log has
new words in every message. Words have no apostrophes here: `terms` has taken them off.
"""

from __future__ import annotations

import re
from typing import Final

_TWO: Final = 2
_SHORTEST: Final = 3
_EXCEPTIONS: Final = {
    **{word: word for word in ("andes", "atlas", "bias", "cosmos", "howe", "news", "sky")},
    "early": "earli",
    "gently": "gentl",
    "idly": "idl",
    "only": "onli",
    "singly": "singl",
    "skies": "sky",
    "skis": "ski",
    "ugly": "ugli",
}
_VOWELS: Final = frozenset("aeiouy")
_HAS_VOWEL: Final = re.compile("[aeiouy]")
_CONSONANT_Y: Final = re.compile("([aeiouy])y")
_REGIONS: Final = re.compile("([^aeiouy]*[aeiouy]+[^aeiouy])([^aeiouy]*[aeiouy]+[^aeiouy])?")
_BEGINNINGS: Final = ("arsen", "commun", "emerg", "gener", "inter", "later", "organ", "past", "univers")
_LONG_BEFORE_E: Final = frozenset("aeiouywxY")
_DOUBLES: Final = frozenset(letter * 2 for letter in "bdfgmnprt")
_WITH_E: Final = frozenset(("at", "bl", "iz"))
_WHOLE_BEFORE_ING: Final = frozenset(("even", "cann", "inn", "earr", "herr", "out"))
_WHOLE_BEFORE_EED: Final = frozenset(("succ", "proc", "exc"))
_AFTER: Final = {"li": frozenset("cdeghkmnrt"), "ogi": frozenset("l")}
_ST: Final = frozenset("st")


def _by_end(table: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Suffixes and what stands for them by their last two letters, the longest first: most words end in none."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for row in sorted(table.split("|"), key=lambda row: -len(row.split()[0])):
        suffix, *instead = row.split()
        found[suffix[-2:]] = (*found.get(suffix[-2:], ()), (suffix, "".join(instead)))
    return found


_STEP_2: Final = _by_end(
    """
    anci ance|enci ence|ogi og|li|bli ble|abli able|alli al|fulli ful|lessli less|ousli ous|entli ent|aliti al|
    biliti ble|iviti ive|tional tion|ational ate|alism al|ation ate|ization ize|izer ize|ator ate|iveness ive|
    fulness ful|ousness ous|ogist og
    """
)
_STEP_3: Final = _by_end("icate ic|ative|alize al|iciti ic|ical ic|tional tion|ational ate|ful|ness")
_STEP_4: Final = _by_end("ic|ance|ence|able|ible|ate|ive|ize|iti|al|ism|ion|er|ous|ant|ent|ment|ement")
_SUFFIXED: Final = frozenset((*_STEP_2, *_STEP_3, *_STEP_4))
_CHANGING: Final = frozenset((*_SUFFIXED, "ed", "ng", "ll"))
_CHANGING_LETTERS: Final = frozenset("seyY")
"""How words end of which anything is taken: half of them do not."""


def stem(word: str) -> str:
    """The stem of a word in lower case."""
    # Half of all words end here.
    if (word[-1:] not in _CHANGING_LETTERS and word[-2:] not in _CHANGING) or len(word) < _SHORTEST:
        return word
    known = _EXCEPTIONS.get(word)
    if known is not None:
        return known
    if "y" in word:
        word = _CONSONANT_Y.sub(r"\1Y", f"Y{word[1:]}" if word[0] == "y" else word)
    whole = word
    if word[-1] in "sd":
        word = _without_plural(word)
        if _is_stem(word):
            return word.replace("Y", "y")
    first, second = _regions(whole)
    if word[-1] in "dgy":
        word = _without_ending(word, first)
    if word[-1] in "yY" and word[-2] not in _VOWELS and len(word) >= _SHORTEST:
        word = f"{word[:-1]}i"
    word = _without_suffixes(word, first, second)
    return word.replace("Y", "y")


def _is_stem(word: str) -> bool:
    return word[-1] not in _CHANGING_LETTERS and word[-2:] not in _CHANGING


def _regions(word: str) -> tuple[int, int]:
    """Where the two parts begin that suffixes are taken from; the end of the word where there is none."""
    size = len(word)
    if word.startswith(_BEGINNINGS):
        first = next(len(beginning) for beginning in _BEGINNINGS if word.startswith(beginning))
        match = _REGIONS.match(word, first)
        return first, match.end(1) if match else size
    match = _REGIONS.match(word)
    if match is None:
        return size, size
    second = match.end(2)
    return match.end(1), size if second < 0 else second


def _is_short(word: str) -> bool:
    """Whether it ends in a short syllable: then an "e" that stood behind it is kept, or missed."""
    if len(word) <= _TWO:
        return len(word) == _TWO and word[0] in _VOWELS and word[1] not in _VOWELS
    ends_short = word[-1] not in _LONG_BEFORE_E and word[-2] in _VOWELS and word[-3] not in _VOWELS
    return ends_short or word.endswith("past")


def _without_plural(word: str) -> str:
    if word[-1] == "s":
        if word.endswith("sses"):
            return word[:-2]
        if word.endswith("ies"):
            return word[:-2] if len(word) > _SHORTEST + 1 else word[:-1]
        # "gas" and "this" keep it, "gaps" does not: a vowel must stand before the letter before.
        is_plural = word[-2] not in "su" and _HAS_VOWEL.search(word, 0, len(word) - 2)
        return word[:-1] if is_plural else word
    if word.endswith("ied"):
        return word[:-2] if len(word) > _SHORTEST + 1 else word[:-1]
    return word


def _without_ending(word: str, first: int) -> str:
    """Take `-ed` and `-ing` off, with `-ly` behind them."""
    whole = word.removesuffix("ly")
    if whole.endswith("eed"):
        start = len(whole) - 3
        return whole[:-1] if start >= first and whole[:start] not in _WHOLE_BEFORE_EED else word
    if whole.endswith("ing"):
        left = whole[:-3]
        if whole is word and left in _WHOLE_BEFORE_ING:
            return word
        if whole is word and len(left) == _TWO and left[1] in "yY" and left[0] not in _VOWELS:
            return f"{left[0]}ie"
    elif whole.endswith("ed"):
        left = whole[:-2]
    else:
        return word
    return _repaired(left, first) if _HAS_VOWEL.search(left) else word


def _repaired(left: str, first: int) -> str:
    """What an ending stood behind, as it is written by itself: "hop" of "hopp", "hope" of "hop" of "hoping"."""
    end = left[-2:]
    if end in _WITH_E:
        return f"{left}e"
    if end in _DOUBLES:
        return left if len(left) == _SHORTEST and left[0] in "aeo" else left[:-1]
    return f"{left}e" if len(left) == first and _is_short(left) else left


def _without_suffixes(word: str, first: int, second: int) -> str:
    if word[-2:] in _SUFFIXED:
        word = _without_suffix(word, first, second)
    if word[-1:] == "e":
        start = len(word) - 1
        return word[:-1] if start >= second or (start >= first and not _is_short(word[:-1])) else word
    return word[:-1] if word[-2:] == "ll" and len(word) > second else word


def _without_suffix(word: str, first: int, second: int) -> str:
    end = word[-2:]
    if end in _STEP_2:
        for suffix, instead in _STEP_2[end]:
            if word.endswith(suffix):
                start = len(word) - len(suffix)
                is_after = suffix not in _AFTER or word[start - 1 : start] in _AFTER[suffix]
                word = word[:start] + instead if start >= first and is_after else word
                end = word[-2:]
                break
    if end in _STEP_3:
        for suffix, instead in _STEP_3[end]:
            if word.endswith(suffix):
                start = len(word) - len(suffix)
                word = word[:start] + instead if start >= (second if suffix == "ative" else first) else word
                end = word[-2:]
                break
    for suffix, _ in _STEP_4.get(end, ()):
        if word.endswith(suffix):
            start = len(word) - len(suffix)
            return word[:start] if start >= second and (suffix != "ion" or word[start - 1 : start] in _ST) else word
    return word
