"""Time in words: whether a text speaks of it, whether a query asks for it, and the range that a query names.

These are hints for ranking, in the languages that cost a line each; a language without its line loses the hint only.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime, timedelta, timezone
from typing import Final

from langchain_sessions._recall.text.numerals import in_figures

_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_NUMBER: Final = {name: number for number, name in enumerate(_MONTHS, 1)} | {
    name[:3]: number for number, name in enumerate(_MONTHS, 1)
}

TIME_WORDS: Final = f"""
yesterday today tonight tomorrow ago last next since recently week weekend month year morning afternoon evening spring
summer autumn winter monday tuesday wednesday thursday friday saturday sunday {" ".join(_MONTHS).replace("may ", "")}
day days gestern heute letzte letzten letztes nächste nächsten woche jahr hier demain dernier dernière prochain semaine
année ayer hoy mañana pasado pasada próximo próxima semana año ieri oggi domani settimana anno ontem hoje amanhã ano
gisteren vandaag morgen jaar вчера сегодня завтра неделя год месяц أمس اليوم غدا أسبوع سنة कल आज साल महीने
昨天 今天 明天 前天 后天 後天 昨晚 今晚 早上 上午 中午 下午 晚上 凌晨 去年 今年 明年 前年
上周 下周 这周 上週 下週 上个 下个 个月 星期 周末 週末 昨日 今日 明日
先週 来週 先月 来月 来年 週間 어제 오늘 내일 지난 다음 작년 주말 วาน วันนี้ พรุ่ง {" ".join(map(str, range(1900, 2100)))}
"""
"""Words by which a text says when; an index compares terms with theirs, which is faster than any pattern."""

_QUESTION: Final = re.compile(
    r"\b(?:when|how (?:long|soon|recently)|what (?:year|month|day|date|time|week)|"
    r"(?:which|in what|on what) (?:year|month|day|date|week)|how many (?:days|weeks|months|years)|"
    r"wann|seit wann|quand|cuándo|quando|wanneer|когда|متى|कब)\b"
    r"|什么时[候间]|什麼時[候間]|[何几][时時]|哪一?[天年月]|哪个月|哪個月|几[月号点天年]|幾[月號點天年]|多久|多长时间|多長時間"
    r"|(?:星期|周|礼拜)几|いつ|何[月年日]|何曜日|언제|며칠|몇\s?[년월일]|무슨\s?요일|เมื่อไหร่|เมื่อไร|วันไหน",
    re.IGNORECASE,
)
_MONTH_IN_FIGURES: Final = re.compile(r"(?<![0-9])(1?[0-9])\s*[月월]")

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


def asks_when(query: str) -> bool:
    """Whether a query wants a time as its answer."""
    return _QUESTION.search(query) is not None


def date_words(day: date) -> str:
    """Spell a date as people write it: what an index adds to the text of an event."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def months_in_figures(query: str) -> list[str]:
    """Name the months that a query writes as 5月 or 5월, as `date_words` spells them."""
    numbers = (int(figure) for figure in _MONTH_IN_FIGURES.findall(_plain(query)))
    return [_MONTHS[number - 1] for number in numbers if 1 <= number <= len(_MONTHS)]


def date_range(query: str) -> tuple[datetime, datetime] | None:
    """Find the day, month or year that a query names with its year.

    Returns:
        The first instant in and the first instant after it, in UTC; None when no full date is named.
    """
    query = _plain(query)
    for pattern in _DATES:
        match = pattern.search(query)
        if match:
            found = match.groupdict()
            return _range(int(found["year"]), _month_number(found.get("month")), int(found.get("day") or 0))
    return None


def _plain(query: str) -> str:
    """Full-width figures and numerals in characters as plain figures."""
    return query if query.isascii() else in_figures(unicodedata.normalize("NFKC", query))


def _month_number(text: str | None) -> int:
    if not text:
        return 0
    return int(text) if text.isdigit() else _MONTH_NUMBER[text[:3].lower()]


def _range(year: int, month: int, day: int) -> tuple[datetime, datetime] | None:
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=timezone.utc)
    except ValueError:  # the 31st of June is nobody's day
        return None
    if day:
        return start, start + timedelta(days=1)
    if month:
        return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=timezone.utc)
    return start, datetime(year + 1, 1, 1, tzinfo=timezone.utc)
