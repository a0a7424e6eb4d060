"""The query language: ranked words, "a phrase", AND, OR, -not, prefix*. No string raises in it.

One that is blank, or a list of more than `MOST_TERMS`, is answered by a hint: see `what_is_wrong`.

A query that holds no word at all (`%`, `"`, `::`) is looked up literally. Phrases and prefixes cannot be answered from
stems, so an index only narrows them down and `QueryMatcher` decides on the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.text.dates import asked_dates
from langchain_sessions._recall.text.runs import Runs
from langchain_sessions._recall.text.terms import is_dense, split_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from langchain_sessions._recall.text.terms import TermMaker

LONGEST_QUERY: Final = 10_000
"""Characters of a query that are read; what follows is ignored."""

MOST_CLAUSES: Final = 64
"""Clauses of a query that are read: a pasted page is searched by its first words, not by ten thousand."""

MOST_GROUPS: Final = 256
"""Units that are ranked by: scripts without blanks make many of a single clause."""

_MOST_DATES: Final = 16

HINT: Final = 'Say what to look for: words, a "phrase", prefix*, AND, OR, -not.'
"""What a query is told that asks for nothing."""

MOST_TERMS: Final = 20
"""Terms in a list, between commas or operators. A sentence is one term, however long."""

_SEPARATORS: Final = ",;\uff0c\uff1b\u3001"
_LIST: Final = re.compile(r"[,;\uff0c\uff1b\u3001]|\b(?:AND|OR)\b")
_QUOTES: Final = '"\u201c\u201d'
_PIECE: Final = re.compile(
    r"(?P<minus>(?<![^\s(])-(?=[^\s-]))?"
    rf"(?:[{_QUOTES}](?P<phrase>[^{_QUOTES}]*)(?:[{_QUOTES}]|$)|(?P<word>[^\s(){_QUOTES}]+))"
)


class QueryKind(Enum):
    """How the text of a query is meant."""

    RANKED = "ranked"
    """Words and operators; the best first."""
    LITERAL = "literal"
    """One substring, case ignored, no character special; in time order."""
    PATTERN = "pattern"
    """A regular expression compiled by the application, never by a user or a model; in time order."""


class ClauseKind(Enum):
    """What a clause asks of an event."""

    WORD = "word"
    PHRASE = "phrase"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One word, phrase or prefix of a query.

    Attributes:
        kind: What is asked.
        words: Folded words as `split_words` gives them; a phrase is their run, a prefix the last one's beginning.
        groups: Index terms, one group of alternatives per unit; empty for function words.
    """

    kind: ClauseKind
    words: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query as understood.

    Attributes:
        text: What was asked, as given.
        mode: How it is meant.
        ranked: Clauses that add to the score; any of them is enough where `required` is empty.
        required: An event must satisfy one clause of each of these groups.
        excluded: An event must satisfy none of these.
        literal: The case-folded substring of a literal query.
        pattern: The compiled expression of a pattern query.
    """

    text: str
    mode: QueryKind = QueryKind.RANKED
    ranked: tuple[Clause, ...] = ()
    required: tuple[tuple[Clause, ...], ...] = ()
    excluded: tuple[Clause, ...] = ()
    literal: str = ""
    pattern: re.Pattern[str] | None = None

    @property
    def is_blank(self) -> bool:
        """Whether nothing was asked: every event matches, in time order."""
        return self.mode is QueryKind.LITERAL and not self.literal

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The groups of index terms to rank by, each once; a term that ends in `*` stands for all that begin so."""
        groups = dict.fromkeys(chain.from_iterable(clause.groups for clause in self.ranked))
        return tuple(groups)[:MOST_GROUPS]


def what_is_wrong(text: str) -> str | None:
    """Say why a query asks for nothing that can be looked for, and what to write instead; None where it does."""
    terms = [term for term in _LIST.split(text[:LONGEST_QUERY]) if term.strip()]
    if not "".join(text.split()).strip(_SEPARATORS):
        return HINT
    if len(terms) > MOST_TERMS:
        return f"That is a list of {len(terms)} terms. Give at most {MOST_TERMS}, or ask in a sentence."
    return None


def literal_key(text: str) -> str:
    """Fold text for literal comparison: case only; every other character counts."""
    return text.casefold()


def literal_query(text: str) -> Query:
    """Ask for a substring: case ignored, every other character as it is, surrounding blanks too."""
    return Query(text=text, mode=QueryKind.LITERAL, literal=literal_key(text))


def pattern_query(pattern: re.Pattern[str]) -> Query:
    """Ask by a compiled regular expression.

    Only application code may offer this: an expression from a user or a model can take hours to answer.
    """
    return Query(text=pattern.pattern, mode=QueryKind.PATTERN, pattern=pattern)


@dataclass(slots=True)
class _Piece:
    clause: Clause
    excluded: bool
    operator: str = ""  # what stood before it: "", "AND" or "OR"


def parse_query(text: str, maker: TermMaker) -> Query:
    """Read a query; whatever the text, it means something and nothing raises.

    `AND` and `OR` are operators in capitals between two operands, otherwise words. `OR` binds its operands into one
    group, `AND` makes what stands on both sides obligatory, as quotes and `prefix*` are. `-word` and `NOT word`
    exclude. An opening quote without a closing one reaches to the end. Parentheses are blanks.
    """
    pieces = _read_pieces(text[:LONGEST_QUERY], maker)
    if not any(piece.clause.words for piece in pieces):
        return literal_query(text.strip())
    wanted = [piece for piece in pieces if not piece.excluded]
    _leave_function_words(wanted, maker.function_words(text[:LONGEST_QUERY]))
    ranked = _dated([piece.clause for piece in wanted], asked_dates(text[:LONGEST_QUERY])[:_MOST_DATES])
    required = _required_groups(wanted)
    if wanted and not required and not any(clause.groups for clause in ranked):
        # Nothing but function words ("who are you"): no index knows them, so they are looked up as they stand.
        words = tuple(chain.from_iterable(clause.words for clause in ranked))
        required = ((Clause(kind=ClauseKind.PHRASE, words=words, groups=()),),)
    excluded = tuple(piece.clause for piece in pieces if piece.excluded)
    return Query(text=text, ranked=ranked, required=required, excluded=excluded)


def _leave_function_words(pieces: list[_Piece], function_words: Collection[str]) -> None:
    """Rank by no word that carries no topic in the language of the query, where others are left."""
    left = [
        piece
        for piece in pieces
        if piece.clause.kind is ClauseKind.WORD
        and not piece.operator
        and function_words
        and not frozenset(piece.clause.words).difference(function_words)
    ]
    if any(piece.clause.groups for piece in pieces if piece not in left):
        for piece in left:
            piece.clause = replace(piece.clause, groups=())


def _dated(clauses: list[Clause], dates: Iterable[tuple[str, str]]) -> tuple[Clause, ...]:
    """Let the dates of a query find what was said then, beside what says them and is rarer."""
    if not clauses:
        return ()
    return (*clauses, *(Clause(kind=ClauseKind.WORD, words=(word,), groups=((term,),)) for word, term in dates))


def _read_pieces(text: str, maker: TermMaker) -> list[_Piece]:
    pieces: list[_Piece] = []
    operator = ""
    for match in _PIECE.finditer(text):
        if len(pieces) >= MOST_CLAUSES:
            break
        word, phrase = match["word"], match["phrase"]
        if word in ("AND", "OR", "NOT") and not match["minus"] and _has_operand(text, match.end()):
            operator = word if pieces or word == "NOT" else ""
            continue
        clause = _phrase(phrase, maker) if word is None else _word(word, maker)
        if clause.words:
            excluded = operator == "NOT" or match["minus"] is not None
            pieces.append(_Piece(clause, excluded, "" if operator == "NOT" else operator))
            operator = ""
    return pieces


def _has_operand(text: str, position: int) -> bool:
    return any(map(str.isalnum, text[position:]))


def _phrase(text: str, maker: TermMaker) -> Clause:
    return Clause(kind=ClauseKind.PHRASE, words=tuple(split_words(text)), groups=maker.query_terms(text))


def _word(text: str, maker: TermMaker) -> Clause:
    words = tuple(split_words(text))
    groups = maker.query_terms(text)
    if len(text) > 1 and text.endswith("*") and text[-2].isalnum():
        return Clause(kind=ClauseKind.PREFIX, words=words, groups=_prefix_groups(words[-1], groups))
    return Clause(kind=ClauseKind.WORD, words=words, groups=groups)


def _prefix_groups(prefix: str, groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Widen the last group to what words with this beginning may be indexed under.

    A stem may be shorter than the prefix ("organ" for "organiz*"), so its last letters are optional; the matcher then
    drops what does not begin with the whole prefix.
    """
    if is_dense(prefix):
        return groups
    # Not below three letters, which begin too many words.
    shorter = (prefix[:length] for length in range(len(prefix) - 1, max(2, len(prefix) - 4), -1))
    return (*groups[:-1], tuple(dict.fromkeys(chain((prefix + "*",), *groups[-1:], shorter))))


def _required_groups(pieces: list[_Piece]) -> tuple[tuple[Clause, ...], ...]:
    """Turn operators into groups: each needs one of its clauses. A lone ranked word is in none."""
    groups: list[tuple[bool, list[Clause]]] = []
    for piece in pieces:
        obligatory = piece.operator == "AND" or piece.clause.kind is not ClauseKind.WORD
        if piece.operator == "OR" and groups:
            groups[-1] = (True, [*groups[-1][1], piece.clause])
            continue
        if piece.operator == "AND" and groups:
            groups[-1] = (True, groups[-1][1])
        groups.append((obligatory, [piece.clause]))
    return tuple(tuple(clauses) for needed, clauses in groups if needed)


class QueryMatcher:
    """Decides on the text of an event whether a query admits it; ranking is not its business.

    Args:
        query: What is asked.
        maker: The maker whose terms the query was made with.
    """

    def __init__(self, query: Query, maker: TermMaker) -> None:
        self._query = query
        self._maker = maker

    @property
    def needs_text(self) -> bool:
        """Whether an index alone cannot decide: something is required, excluded or literal."""
        query = self._query
        return query.mode is not QueryKind.RANKED or bool(query.required or query.excluded)

    def accepts(self, text: str) -> bool:
        """Whether an event of this text satisfies everything that is required and nothing that is excluded."""
        query = self._query
        if query.pattern is not None:
            return query.pattern.search(text) is not None
        if query.mode is QueryKind.LITERAL:
            return query.literal in literal_key(text)
        if not query.required and not query.excluded:
            return True
        asked = chain(chain.from_iterable(query.required), query.excluded)
        terms = frozenset(self._maker.terms(text) if any(map(_is_by_term, asked)) else ())
        runs = Runs(text)
        return all(any(_holds(clause, runs, terms) for clause in group) for group in query.required) and not any(
            _holds(clause, runs, terms) for clause in query.excluded
        )


def _is_by_term(clause: Clause) -> bool:
    return clause.kind is ClauseKind.WORD and bool(clause.groups) and len(clause.words) == 1


def _holds(clause: Clause, runs: Runs, terms: Collection[str]) -> bool:
    if _is_by_term(clause):
        return any(term in terms for term in clause.groups[0])
    return runs.hold(clause.words, is_prefix=clause.kind is ClauseKind.PREFIX)
