"""Snowball's stemmers behind a typed door; imported on first use, since a search-free program needs none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from langchain_sessions._recall.text import english
from langchain_sessions._recall.text.languages import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def stemmer_languages() -> frozenset[str]:
    """Name the languages that there are stemmers for."""
    library: Any = import_module("snowballstemmer")
    return frozenset(cast("list[str]", library.algorithms()))


class _Word(Protocol):
    """A word of a list of Snowball's: what it leads to, on what condition, and the next shorter one that it holds."""

    s: str
    substring_i: int
    result: int
    method: Callable[[object], bool] | None


class _Quick:
    """Looks for endings and beginnings by name, longest first: Snowball's own way halves a list of them in Python.

    It stands before a stemmer's class, and finds what that finds.
    """

    current: str
    cursor: int
    limit: int
    limit_backward: int

    def find_among(self, known: Sequence[_Word]) -> int:
        """Which of some words the text goes on with: the longest whose condition holds."""
        at, text = self.cursor, self.current
        most = self.limit - at
        words, lengths = _named(known)
        for length in lengths:
            if length <= most and (found := words.get(text[at : at + length])) is not None:
                return self._first(known, found, at, 1)
        return 0

    def find_among_b(self, known: Sequence[_Word]) -> int:
        """The same of what the text has before."""
        at, text = self.cursor, self.current
        most = at - self.limit_backward
        words, lengths = _named(known)
        for length in lengths:
            if length <= most and (found := words.get(text[at - length : at])) is not None:
                return self._first(known, found, at, -1)
        return 0

    def _first(self, known: Sequence[_Word], found: _Word, at: int, way: int) -> int:
        """The first whose condition holds, of a word and those shorter ones that it holds."""
        while True:
            there = at + way * len(found.s)
            self.cursor = there
            if found.method is None:
                return found.result
            if found.method(self):
                self.cursor = there
                return found.result
            if found.substring_i < 0:
                return 0
            found = known[found.substring_i]


_tables: dict[int, tuple[Sequence[_Word], dict[str, _Word], list[int]]] = {}


def _named(known: Sequence[_Word]) -> tuple[dict[str, _Word], list[int]]:
    """Words by name, and how long they are, from the longest on. Each stemmer's lists live as long as its class."""
    table = _tables.get(id(known))
    if table is None or table[0] is not known:
        words = {word.s: word for word in known}
        table = _tables[id(known)] = known, words, sorted({*map(len, words)}, reverse=True)
    return table[1], table[2]


def make_stemmer(language: str) -> Callable[[str], str]:
    """Make a stemmer; but for the default language it keeps state while it works: for one thread at a time.

    Raises:
        KeyError: When there is none for the language.
    """
    if language == DEFAULT_LANGUAGE:
        return english.stem
    library: Any = import_module("snowballstemmer")
    stemmer = library.stemmer(language)
    made = type(stemmer)
    # Where PyStemmer is installed it is a class in C.
    if all(callable(getattr(made, name, None)) for name in ("find_among", "find_among_b", "set_current")):
        stemmer = type(made.__name__, (_Quick, made), {})()
    return cast("Callable[[str], str]", stemmer.stemWord)
