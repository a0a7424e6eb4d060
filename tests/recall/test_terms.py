"""Terms: what the same idea written differently has in common, in every script."""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_sessions._recall.text.english import stem
from langchain_sessions._recall.text.stemming import make_stemmer, stemmer_languages
from langchain_sessions._recall.text.terms import LONGEST_TERM, TermMaker, fold_accents, normalize, split_words
from langchain_sessions.errors import InvalidInputError

_TEXTS = Path(__file__).parents[1] / "unit" / "token_texts" / "languages.txt"
WORDS = sorted(set(_TEXTS.read_text(encoding="utf-8").lower().split()))[::4]


def finds(query: str, text: str, *, language: str = "auto") -> bool:
    """Whether every unit of a query is among the terms of a text."""
    maker = TermMaker(language)
    terms = set(maker.terms(text))
    groups = maker.query_terms(query)
    return bool(groups) and all(not terms.isdisjoint(group) for group in groups)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("running", "She runs every day"),
        ("run", "I ran a race"),
        ("buy", "We bought a kettle"),
        ("child", "the children slept"),
        ("PASSPORT", "my passport is new"),
        ("cafe", "das Café am Platz"),
        ("café", "the cafe was shut"),
        ("Ada", "Ada's notebook"),
        ("don't panic", "DON\u2019T PANIC"),
        ("naive", "a na\u00efve plan"),
        ("naive", "a nai\u0308ve plan"),
        ("STRASSE", "in der Straße"),
        ("1000", "it cost 1,000 crowns"),
        ("8", "on the 8th of May"),
        ("2023-05-08", "08/05/2023"),
        ("file name", "file_name=x"),
        ("\uff21\uff24\uff21", "ada"),  # full-width letters
        ("北京", "我昨天去了北京。"),
        ("东京", "他从东京回来"),
        ("東京", "今日は東京に行きました"),
        ("コーヒー", "ｺｰﾋｰを飲む"),
        ("서울", "오늘 서울에 갔어요"),
        ("กรุงเทพ", "ฉันไปกรุงเทพเมื่อวาน"),
        ("القاهرة", "ذهبت إلى القاهرة"),
        ("كتاب", "كِتَاب"),
        ("किताब", "मैं किताबें पढ़ रहा था"),
        ("книга", "мы купили книги"),
        ("Häuser", "Wir haben ein Haus in Berlin und es ist nicht klein"),
        ("voiture", "Nous avons vu les voitures rouges dans la rue avec toi"),
        ("homme", "l'homme qui marche"),
        ("ΟΔΟΣ", "οδος"),
    ],
)
def test_the_same_word_written_otherwise_is_found(query: str, text: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [("北京", "南京"), ("cat", "concatenate"), ("किताब", "कल"), ("8", "18"), ("organ", "orange")],
)
def test_other_words_are_not_found(query: str, text: str) -> None:
    assert not finds(query, text)


def test_an_accented_word_keeps_its_exact_form_beside_the_folded_one() -> None:
    maker = TermMaker()
    assert maker.terms("résumé") == ["resum", "résumé"]
    assert set(maker.terms("resume")) < set(maker.terms("résumé"))


def test_function_words_leave_no_terms() -> None:
    assert TermMaker().terms("What is it that you are?") == []
    assert TermMaker("german").terms("Was ist das und wer sind die?") == []


def test_the_language_of_a_text_is_guessed_from_its_function_words() -> None:
    text = "Ich habe gestern mit meinen Freunden in den Bergen gewandert und es war schön"
    assert TermMaker().terms(text) == TermMaker("german").terms(text)
    assert "wandert" not in TermMaker("english").terms(text)


def test_an_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match=r"language: no stemmer for 'klingon'; use 'auto' or one of .*english"):
        TermMaker("klingon")


def test_words_keep_everything_in_order_for_phrases() -> None:
    assert split_words("To be, or not to BE: café 北京") == ["to", "be", "or", "not", "to", "be", "cafe", "北", "京"]


def test_vowel_signs_stay_and_optional_points_go() -> None:
    assert fold_accents("किताब") == "किताब"
    assert fold_accents("كِتَاب") == "كتاب"
    assert normalize("ﬁnd Ⅻ") == "find xii"


def test_a_monstrous_word_is_cut_and_not_remembered() -> None:
    maker = TermMaker(cache_size=10)
    (term,) = maker.terms("x" * 1_000_000)
    assert term == "x" * LONGEST_TERM
    assert maker.query_terms("x" * 1_000_000) == ((term,),)


def test_a_full_cache_starts_anew_and_changes_no_answer() -> None:
    small, large = TermMaker("english", cache_size=2), TermMaker("english")
    text = "several different words are running through a tiny cache, several times"
    assert small.terms(text) == large.terms(text) == small.terms(text)


def test_threads_share_a_maker() -> None:
    maker, reference = TermMaker(cache_size=50), TermMaker()
    texts = [f"walking dogs number{n} barked {n} times near houses{n}" for n in range(200)]
    expected = [reference.terms(text) for text in texts]
    results: list[list[list[str]]] = []

    def work() -> None:
        results.append([maker.terms(text) for text in texts])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_the_fingerprint_tells_makers_apart() -> None:
    assert TermMaker().fingerprint == TermMaker().fingerprint
    assert TermMaker("english").fingerprint != TermMaker("german").fingerprint


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        line.split()
        for line in """
        skies sky|dying die|news news|caresses caress|ties tie|cries cri|gas gas|gaps gap|kiwis kiwi|bus bus|agreed agre
        |succeed succeed|feed feed|hopping hop|hoping hope|added add|egging egg|luxuriated luxuri|evening evening
        |outing outing|say say|by by|cry cri|youth youth|boyish boyish|relational relat|organization organiz
        |generously generous|communism communism|biologist biolog|apologize apolog|badly bad|vietnamization vietnam
        |hopefulness hope|electricity electr|adoption adopt|replacement replac|controll control|rate rate|past past
        |pasted paste|university universiti|universe univers|later later|lately late|eying eye|a a|ok ok
        """.replace("\n", " ").split("|")
    ],
)
def test_english_is_stemmed_by_the_rules(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


ENDINGS = "|s|es|ed|ing|ingly|edly|eed|ly|ies|y|ational|ization|iveness|ousli|ement|ment|er|ance|ion|ful|ness|ll|ative"


@pytest.mark.skipif(not version("snowballstemmer").startswith("3.1"), reason="another version has other rules")
@given(st.text(alphabet="aeiouybcdglnrstwx", min_size=1, max_size=8), st.sampled_from(ENDINGS.split("|")))
def test_english_is_stemmed_as_snowball_does(beginning: str, ending: str) -> None:
    generated = import_module("snowballstemmer.english_stemmer").EnglishStemmer()
    assert stem(beginning + ending) == generated.stemWord(beginning + ending)


@pytest.mark.parametrize("language", sorted(stemmer_languages() - {"english"}))
def test_other_languages_are_stemmed_as_snowball_does(language: str) -> None:
    theirs, ours = import_module("snowballstemmer").stemmer(language).stemWord, make_stemmer(language)
    assert [*map(ours, WORDS)] == [*map(theirs, WORDS)]


def test_typographic_marks_change_no_word() -> None:
    maker = TermMaker()
    plain = "it's 5'8 tall, 1,000 feet of 'rock'n'roll' dogs' stuff"
    typeset = plain.replace("'", "\u2019").replace(" of ", "\u00a0of \u2014 \u201c") + "\u201d\u2026 \u2022"
    assert maker.terms(plain) == maker.terms(typeset) == maker.terms("5 8 tall 1000 feet rock dog stuff")
