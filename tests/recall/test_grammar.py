"""The query language: what each form means, and that no string is wrong in it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_sessions._recall.text.grammar import (
    MOST_CLAUSES,
    MOST_GROUPS,
    ClauseKind,
    QueryKind,
    QueryMatcher,
    literal_query,
    parse_query,
    pattern_query,
)
from langchain_sessions._recall.text.highlights import find_spans, snippet
from langchain_sessions._recall.text.terms import TermMaker

MAKER = TermMaker()
NOISE = st.text(
    alphabet=st.sampled_from("\"\u201c\u201d-*%_\\()[]{}:^~+?!&|/<>=;'`@#$,. \t\n\x00aAéß北京ไ한ANDORNOT\ud800😀")
)


def accepts(query: str, text: str) -> bool:
    return QueryMatcher(parse_query(query, MAKER), MAKER).accepts(text)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ('"blue kettle"', "the Blue  KETTLE sings", True),
        ('"blue kettle"', "the kettle is blue", False),
        ('"to be or not"', "To be, or not to be", True),
        ('"café noir"', "un cafe noir", True),
        ('"去了北京"', "我昨天去了北京", True),
        ('"去北京"', "我昨天去了北京", False),
        ('"blue', "a blue door", True),
        ("\u201cblue kettle\u201d", "a kettle, blue", False),
        ("kettle AND blue", "blue kettles", True),
        ("kettle AND blue", "green kettle", False),
        ("kettle OR pot", "a pot", True),
        ("kettle OR pot", "a cup", False),
        ("kettle OR pot AND blue", "blue pot", True),
        ("kettle OR pot AND blue", "green pot", False),
        ("kettle -blue", "green kettle", True),
        ("kettle -blue", "blue kettle", False),
        ("kettle NOT blue", "blue kettle", False),
        ('kettle -"blue door"', "kettle by the blue door", False),
        ('kettle -"blue door"', "blue kettle by the door", True),
        ("-blue", "green", True),
        ("-blue", "blue", False),
        ("organiz*", "the organization met", True),
        ("organiz*", "an organ played", False),
        ("happ*", "such happiness", True),
        ("北*", "我去了北京", True),
        ("self-care AND x", "x: self care", True),
        ("well-known AND x", "x, known well", False),
        ("kettle", "anything: ranking decides", True),
    ],
)
def test_operators_decide_on_the_text(query: str, text: str, expected: bool) -> None:  # noqa: FBT001
    assert accepts(query, text) is expected


@pytest.mark.parametrize("text", ["AND", "OR", "NOT", "AND OR", "kettle AND", "OR kettle"])
def test_an_operator_without_operands_is_a_word(text: str) -> None:
    query = parse_query(text, MAKER)
    assert query.excluded == ()
    assert query.ranked


def test_lower_case_and_inner_hyphens_are_no_operators() -> None:
    query = parse_query("salt and pepper or well-being - really", MAKER)
    assert query.required == ()
    assert query.excluded == ()
    assert [group[0] for group in query.groups] == ["salt", "pepper", "well", "realli"]


@pytest.mark.parametrize("text", ["%", "_", "\\", "*", "'", "--", "::", "%_%", "?!", "😀", "();", "-", "* *"])
def test_a_query_without_words_is_literal(text: str) -> None:
    query = parse_query(text, MAKER)
    assert query.mode is QueryKind.LITERAL
    assert QueryMatcher(query, MAKER).accepts(f"before {text} after")
    assert not QueryMatcher(query, MAKER).accepts("nothing of the kind")


@pytest.mark.parametrize("text", ["", " ", "\n\t", '"', '""', "( )"])
def test_nothing_asked_is_blank_or_literal(text: str) -> None:
    query = parse_query(text, MAKER)
    assert query.mode is QueryKind.LITERAL
    assert query.is_blank == (not text.strip())


def test_function_words_alone_are_looked_up_as_they_stand() -> None:
    query = parse_query("who are you", MAKER)
    assert query.groups == ()
    assert QueryMatcher(query, MAKER).accepts("So, who are you?")
    assert not QueryMatcher(query, MAKER).accepts("you are who")


@pytest.mark.parametrize(
    ("literal", "text", "expected"),
    [
        ("100%", "it is 100% sure", True),
        ("100%", "it is 1000 sure", False),
        ("a_b", "A_B", True),
        ("a_b", "axb", False),
        ("c:\\temp", "C:\\TEMP\\x", True),
        ("GROSS", "groß", True),
        ("é", "e", False),
    ],
)
def test_literal_mode_takes_every_character_as_it_is(literal: str, text: str, expected: bool) -> None:  # noqa: FBT001
    query = literal_query(literal)
    assert QueryMatcher(query, MAKER).accepts(text) is expected
    assert bool(find_spans(text, query, MAKER)) is expected


def test_a_pattern_comes_compiled_from_code() -> None:
    query = pattern_query(re.compile(r"order-\d{3}"))
    assert query.mode is QueryKind.PATTERN
    assert QueryMatcher(query, MAKER).accepts("your order-123 is here")
    assert find_spans("your order-123", query, MAKER) == ((5, 14),)


def test_prefixes_reach_shorter_stems() -> None:
    (clause,) = parse_query("organiz*", MAKER).ranked
    assert clause.kind is ClauseKind.PREFIX
    assert clause.groups[0][0] == "organiz*"
    assert "organ" in clause.groups[0]


def test_long_queries_are_bounded() -> None:
    assert len(parse_query("kettle " * 100_000, MAKER).ranked) <= MOST_CLAUSES
    assert len(parse_query("".join(map(chr, range(0x4E00, 0x5E00))), MAKER).groups) == MOST_GROUPS
    assert parse_query('"' * 100_000, MAKER).mode is QueryKind.LITERAL


@settings(max_examples=10_000, deadline=None)
@given(query=st.one_of(st.text(), NOISE), text=st.one_of(st.text(max_size=40), NOISE))
def test_no_string_ever_raises(query: str, text: str) -> None:
    parsed = parse_query(query, MAKER)
    QueryMatcher(parsed, MAKER).accepts(text)
    spans = find_spans(text, parsed, MAKER)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert list(spans) == sorted(spans)
    snippet(text, spans, width=10)


@settings(max_examples=300, deadline=None)
@given(text=st.text(min_size=1), start=st.integers(0, 30), size=st.integers(1, 30))
def test_every_substring_of_a_text_is_found_literally(text: str, start: int, size: int) -> None:
    part = text[start % len(text) :][:size]
    assert QueryMatcher(literal_query(part), MAKER).accepts(text)


def test_highlights_show_the_words_as_written() -> None:
    text = "Ada bought Kettles; 我去了北京 in the CAFÉ"
    query = parse_query("buy kettle 北京 cafe", MAKER)
    assert [text[start:end] for start, end in find_spans(text, query, MAKER)] == ["bought", "Kettles", "北京", "CAFÉ"]


def test_a_snippet_shows_the_first_hit() -> None:
    text = "padding " * 100 + "the kettle" + " padding" * 100
    shown = snippet(text, find_spans(text, parse_query("kettle", MAKER), MAKER), width=80)
    assert "kettle" in shown
    assert len(shown) <= 82


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("Welke kleur hebben de hekken van de buurman?", ["kleur", "hekken", "buurman"]),
        ("Wanneer zijn de afspraken bij de tandarts?", ["afspraken", "tandarts"]),
        ("die wer das", ["die", "wer", "das"]),
        ("the men of der Spiegel", ["men", "der", "spiegel"]),
    ],
)
def test_function_words_of_the_language_of_the_query_are_not_ranked_by(query: str, left: list[str]) -> None:
    assert [clause.words[0] for clause in parse_query(query, MAKER).ranked if clause.groups] == left


def test_function_words_of_other_languages_are_no_topic_where_the_language_is_set() -> None:
    english = TermMaker("english")
    assert all(clause.groups for clause in parse_query("de hekken van de buurman", english).ranked)
