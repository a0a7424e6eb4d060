"""Dates: what an index keeps of them, what a query asks for by them, and the range that it names.

Months are known by their English names and in figures.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.text.numerals import in_figures

if TYPE_CHECKING:
    from datetime import date

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_NUMBER: Final = {name: number for number, name in enumerate(_MONTHS, 1)} | {
    name[:3]: number for number, name in enumerate(_MONTHS, 1)
}

_DAY: Final = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?"
_MONTH: Final = rf"(?P<month>{'|'.join(_MONTHS)}|{'|'.join(name[:3] for name in _MONTHS)})\.?"
_YEAR: Final = r"(?P<year>(?:19|20)[0-9]{2})"
_DATES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_YEAR}-(?P<month>[01]?[0-9])-(?P<day>[0-3]?[0-9])\b",
        rf"{_YEAR}\s*[年년]\s*(?:(?P<month>[01]?[0-9])\s*[月월](?:\s*(?P<day>[0-3]?[0-9])\s*[日号號일])?)?",
        rf"\b{_DAY}(?: of)? {_MONTH},? {_YEAR}\b",
        rf"\b{_MONTH} {_DAY},? {_YEAR}\b",
        rf"\b{_MONTH},? {_YEAR}\b",
        rf"\b(?:in|during|since|of) {_YEAR}\b",
    )
)

# Without the two that are words as well: "march" and "may" are months only beside something that says so.
_LONG: Final = "|".join(name for name in _MONTHS if name not in ("march", "may"))
_PARTS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_DAY}(?: of)? {_MONTH}\b",
        rf"\b{_MONTH} {_DAY}\b",
        rf"\b(?:in|during|since|of|by|before|after|until|till|from|early|mid|late|last|this|next) {_MONTH}\b",
        rf"\b(?P<month>{_LONG})\b",
        rf"\b(?:before|after|until|by|from|spring|summer|autumn|fall|winter|christmas) {_YEAR}\b",
        r"(?<![0-9])(?P<month>1?[0-9])\s*[月월](?:\s*(?P<day>[0-3]?[0-9])\s*[日号號일])?",
    )
)
"""Dates that are not whole: they name no period, but a day, a month or a year all the same."""


def date_terms(day: date) -> tuple[str, ...]:
    """What an index keeps of a date beside the words of an event; no word is written like it."""
    return f"at:{day.day}", f"at:{_MONTHS[day.month - 1]}", f"at:{day.year}"


def asked_dates(query: str) -> list[tuple[str, str]]:
    """The parts of a query that ask for a date, with the terms of such dates.

    A number is a day or a year only beside a month, a year only where it is asked about as one: in "fact 18" or "room
    2023" it is what was said.
    """
    found: dict[tuple[str, str], None] = {}
    plain = _plain(query)
    for pattern in (*_DATES, *_PARTS):
        for match in pattern.finditer(plain):
            named = match.groupdict()
            number = _month_number(named.get("month"))
            if named.get("year"):
                found[named["year"], f"at:{int(named['year'])}"] = None
            if 1 <= number <= len(_MONTHS):
                written = named["month"].lower()
                found[str(number) if written.isdigit() else written, f"at:{_MONTHS[number - 1]}"] = None
            if named.get("day"):
                found[str(int(named["day"])), f"at:{int(named['day'])}"] = None
    return list(found)


def _plain(query: str) -> str:
    """Full-width figures and numerals in characters as plain figures."""
    return query if query.isascii() else in_figures(unicodedata.normalize("NFKC", query))


def _month_number(text: str | None) -> int:
    if not text:
        return 0
    return int(text) if text.isdigit() else _MONTH_NUMBER[text[:3].lower()]
