"""Numbers written in Chinese characters, where something is counted or dated: 三月五号 is 3月5号."""

from __future__ import annotations

import re
from typing import Final

_WRITTEN: Final = ("〇零", "一", "二两兩", "三", "四", "五", "六", "七", "八", "九")
_DIGITS: Final = {character: value for value, characters in enumerate(_WRITTEN) for character in characters}
_UNITS: Final = {"十": 10, "百": 100, "千": 1000}
_LARGE: Final = {"万": 10_000, "萬": 10_000}
_NUMERAL: Final = "〇零一二两兩三四五六七八九十百千万萬"
_COUNTED: Final = re.compile(
    rf"(?!一[^月日号號{_NUMERAL}])([{_NUMERAL}]{{1,9}})(?=个?[年月日号號点點岁歲天周週次只隻块塊元斤米本条條杯层層楼樓分秒届屆人位件张張公个個小時时])"
)


def figures_in(text: str) -> list[str]:
    """The numbers of a text that stand before what they count, in figures."""
    return [str(value) for numeral in _COUNTED.findall(text) if (value := value_of(numeral)) is not None]


def in_figures(text: str) -> str:
    """The text with these numbers in figures."""
    return _COUNTED.sub(lambda match: match[0] if (value := value_of(match[1])) is None else str(value), text)


def value_of(numeral: str) -> int | None:
    """What a numeral says; None where it is no number: 一二三十 is none."""
    if not any(character in _UNITS or character in _LARGE for character in numeral):
        return int("".join(str(_DIGITS[character]) for character in numeral))
    total = section = 0
    digit: int | None = None
    for character in numeral:
        if character in _DIGITS:
            if digit:
                return None
            digit = _DIGITS[character]
        elif character in _UNITS:
            section += (1 if digit is None else digit) * _UNITS[character]
            digit = None
        else:
            total += (section + (digit or 0)) * _LARGE[character]
            section, digit = 0, None
    return total + section + (digit or 0)
