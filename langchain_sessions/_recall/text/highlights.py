"""Where in a text a query hit, and the stretch of text worth showing."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.text.grammar import ClauseKind, QueryKind
from langchain_sessions._recall.text.languages import BASE_FORMS
from langchain_sessions._recall.text.terms import TOKEN, is_dense, normalize, split_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_sessions._recall.text.grammar import Query
    from langchain_sessions._recall.text.terms import TermMaker

Span = tuple[int, int]
_IRREGULAR: Final = frozenset(chain.from_iterable(BASE_FORMS.values()))
"""The words whose terms may begin with another letter."""


def find_spans(text: str, query: Query, maker: TermMaker, *, limit: int = 100) -> tuple[Span, ...]:
    """Find what a query hit in a text, as it was written.

    Args:
        text: The text as shown.
        query: The query as parsed.
        maker: The maker whose terms the query was made with.
        limit: How many spans to return at most.

    Returns:
        Non-empty (start, end) pairs in order, none overlapping.
    """
    if query.pattern is not None:
        spans: Iterable[Span] = (match.span() for match in query.pattern.finditer(text))
    elif query.mode is QueryKind.LITERAL:
        spans = _literal_spans(text, query.literal)
    else:
        spans = _word_spans(text, query, maker)
    return tuple(islice(_merge(spans), limit))


def snippet(text: str, spans: tuple[Span, ...], *, width: int = 240) -> str:
    """Cut the stretch of a text that shows its first hit, ellipses where something was left out."""
    if len(text) <= width:
        return text
    start = max(0, min(spans[0][0] - width // 4, len(text) - width)) if spans else 0
    end = start + width
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def _literal_spans(text: str, literal: str) -> Iterator[Span]:
    if not literal:
        return
    # Folding may lengthen a text ("ß" becomes "ss"), so offsets are taken back through a map.
    folded = text.casefold()
    origin: Sequence[int] = range(len(text) + 1)
    if len(folded) != len(text):
        origin = [*chain.from_iterable([at] * len(one.casefold()) for at, one in enumerate(text)), len(text)]
    found = folded.find(literal)
    while found >= 0:
        end = found + len(literal)
        yield origin[found], origin[end - 1] + 1
        found = folded.find(literal, end)


def _word_spans(text: str, query: Query, maker: TermMaker) -> Iterator[Span]:
    wanted = frozenset(chain.from_iterable(query.groups))
    # Function words are what was meant only where there is nothing else.
    words = frozenset(() if wanted else chain.from_iterable(clause.words for clause in query.ranked))
    prefixes = tuple(clause.words[-1] for clause in query.ranked if clause.kind is ClauseKind.PREFIX)
    terms = maker.terms_of_tokens(text)
    initials = frozenset(term[0] for term in chain(wanted, words, prefixes) if term)
    for match in TOKEN.finditer(text):
        token = match[0]
        units: Sequence[str]
        if token.isascii():
            word = token.lower()
            if word[0] not in initials and word not in _IRREGULAR and word.isalpha():
                continue  # most words: not worth a stem
            units = (word,)
        elif is_dense(token):
            yield from _dense_spans(token, match.start(), wanted)
            continue
        else:
            units = TOKEN.findall(normalize(token))
        if any(not wanted.isdisjoint(terms[unit]) for unit in units) or (
            (words or prefixes) and _begins(split_words(token), words, prefixes)
        ):
            yield match.span()


def _begins(found: list[str], words: frozenset[str], prefixes: tuple[str, ...]) -> bool:
    return not words.isdisjoint(found) or (bool(prefixes) and any(word.startswith(prefixes) for word in found))


def _dense_spans(token: str, start: int, wanted: frozenset[str]) -> Iterator[Span]:
    is_normal = normalize(token) == token
    if is_normal and not any(term in token for term in wanted):
        return
    for at in range(len(token)):
        for size in (2, 1):
            piece = token[at : at + size]
            if (piece if is_normal else normalize(piece)) in wanted and at + size <= len(token):
                yield start + at, start + at + size
                break


def _merge(spans: Iterable[Span]) -> Iterator[Span]:
    last: Span | None = None
    for start, end in spans:
        if start == end:
            continue
        if last is not None and start <= last[1]:
            last = (last[0], max(last[1], end))
            continue
        if last is not None:
            yield last
        last = (start, end)
    if last is not None:
        yield last
