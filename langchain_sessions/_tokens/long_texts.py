"""Long texts that were counted lately: one that is edited is mostly what it was before.

What two texts begin and end with alike is counted once. They are taken apart in front of a blank behind a letter:
nothing that is counted reaches over such a place, so that the sum is what counting the whole would find.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

from langchain_sessions._core.alike import common_end, common_start

LONG = 4_096
"""From so many characters on a text is compared with those before it."""
_MOST_KEPT = 4
_LONGEST_KEPT = 2_000_000
_SOME = 64
_TRIES = 16
_ARTICLE = " the"


class Tally:
    """What was counted of some classes, asked as they are themselves.

    Attributes:
        size: How many there are.
        counts: How often some stand behind each other.
    """

    __slots__ = ("counts", "size")
    size: int
    counts: dict[bytes, int]

    def __init__(self, size: int, counts: dict[bytes, int]) -> None:
        """Keep what was counted."""
        self.size = size
        self.counts = counts

    def __len__(self) -> int:
        return self.size

    def __contains__(self, what: object) -> bool:
        return isinstance(what, (bytes, int)) and self.count(what) > 0

    def count(self, what: bytes | int, /) -> int:
        """How often some classes stand behind each other."""
        return self.counts.get(what if isinstance(what, bytes) else bytes([what]), 0)

    def moved(self, less: Tally, more: Tally) -> Tally:
        """The same without what was counted of one part, and with what was counted of another one."""
        own, gone, new = self.counts.get, less.counts.get, more.counts.get
        counts = {what: own(what, 0) - gone(what, 0) + new(what, 0) for what in {**self.counts, **more.counts}}
        return Tally(self.size - less.size + more.size, counts)


Counts: TypeAlias = bytes | Tally
"""Classes, or what was counted of them: asked alike."""


class Measure(NamedTuple):
    """What is counted of a text.

    Attributes:
        classes: Its classes.
        short: The same with one for each word.
        said: How often it says "the".
        blanks: How many blanks it has: of the classes, tabs count as such too.
    """

    classes: Tally
    short: Tally
    said: int
    blanks: int


class Measuring(Protocol):
    """Counts a part of a text, and is told whether that begins with it."""

    def __call__(self, part: str, *, is_first: bool) -> Measure: ...


class LongTexts:
    """The last few long texts, with what was counted of those that others were like."""

    def __init__(self, count: Measuring) -> None:
        """None was counted yet."""
        self._count = count
        self._kept: tuple[tuple[str, Measure | None], ...] = ()

    def __reduce__(self) -> tuple[type[LongTexts], tuple[Measuring]]:
        """Texts of conversations do not travel with a counter."""
        return LongTexts, (self._count,)

    def measure(self, text: str) -> Measure | None:
        """What is counted of a text that is mostly like one of the last; None for any other."""
        kept = self._kept  # other threads put theirs in its place
        near = next((each for each in kept if _may_be_alike(each[0], text)), None)
        measure = None if near is None else self._measured_by(*near, text)
        if len(text) <= _LONGEST_KEPT:
            self._kept = ((text, measure), *[each for each in kept if each is not near][: _MOST_KEPT - 1])
        return measure

    def _measured_by(self, other: str, measure: Measure | None, text: str) -> Measure | None:
        """What is counted of a text, by what was counted of another one."""
        first = common_start(other, text)
        last = common_end(other, text, min(len(other), len(text)) - first)
        start, rest = _cut_within(text, first), len(text) - _cut_behind(text, len(text) - last)
        if 2 * (start + rest) < len(text):
            return None
        whole = self._count(other, is_first=True) if measure is None else measure
        less = self._count(other[start : len(other) - rest], is_first=start == 0)
        more = self._count(text[start : len(text) - rest], is_first=start == 0)
        classes, short = whole.classes.moved(less.classes, more.classes), whole.short.moved(less.short, more.short)
        said, blanks = whole.said - less.said + more.said, whole.blanks - less.blanks + more.blanks
        return Measure(classes, short, said, blanks)


def _may_be_alike(one: str, other: str) -> bool:
    return one[:_SOME] == other[:_SOME] or one[-_SOME:] == other[-_SOME:]


def _cut_within(text: str, end: int) -> int:
    """The last place before another one where a text may be taken apart; 0 where there is none near."""
    for _ in range(_TRIES):
        end = text.rfind(" ", 0, end)
        if end <= 0 or _is_between_words(text, end):
            return max(end, 0)
    return 0


def _cut_behind(text: str, start: int) -> int:
    """The first place behind another one where a text may be taken apart; its end where there is none near."""
    start += len(_ARTICLE)
    for _ in range(_TRIES):
        start = text.find(" ", start)
        if start < 0:
            break
        if _is_between_words(text, start):
            return start
        start += 1
    return len(text)


def _is_between_words(text: str, at: int) -> bool:
    """Whether a blank stands behind a letter that words are written with, and behind no article."""
    before = text[at - 1]
    return before.isascii() and before.isalpha() and text[max(0, at - len(_ARTICLE)) : at] != _ARTICLE
