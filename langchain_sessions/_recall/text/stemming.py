"""Snowball's stemmers behind a typed door; imported on first use, since a search-free program needs none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from langchain_sessions._recall.text import english
from langchain_sessions._recall.text.languages import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from collections.abc import Callable


def stemmer_languages() -> frozenset[str]:
    """Name the languages that there are stemmers for."""
    library: Any = import_module("snowballstemmer")
    return frozenset(cast("list[str]", library.algorithms()))


def make_stemmer(language: str) -> Callable[[str], str]:
    """Make a stemmer; but for the default language it keeps state while it works: for one thread at a time.

    Raises:
        KeyError: When there is none for the language.
    """
    if language == DEFAULT_LANGUAGE:
        return english.stem
    library: Any = import_module("snowballstemmer")
    return cast("Callable[[str], str]", library.stemmer(language).stemWord)
