"""Ranking: what moves an event up, and that the shortlist loses nothing that matters."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions._recall.index.postings import EntryMaker, Segment, search_segments
from langchain_sessions._recall.rank.company import Home, Span, spans_of
from langchain_sessions._recall.rank.ranking import RankingWeights, TermStatistics
from langchain_sessions._recall.rank.shortlisting import highest
from langchain_sessions._recall.text.dates import asked_dates
from langchain_sessions._recall.text.documents import make_document
from langchain_sessions._recall.text.grammar import parse_query
from langchain_sessions._recall.text.terms import TermMaker

if TYPE_CHECKING:
    from langchain_sessions._recall.rank.many_logs import Found

MAKER = TermMaker()
ENTRIES = EntryMaker(MAKER)
MAY = datetime(2023, 5, 8, 12, tzinfo=timezone.utc)
FILLER = ["The weather is mild.", "Lunch was fine.", "The train was late.", "Some music played.", "A quiet evening."]


def segment(*turns: str, start: datetime = MAY, step: timedelta = timedelta()) -> Segment:
    """Build a segment: "ada: text" is said by ada, and by a human; everyone else is an assistant."""
    result = Segment()
    for number, turn in enumerate(turns):
        author, _, text = turn.rpartition(": ")
        message = HumanMessage(text) if author == "ada" else AIMessage(text)
        result.add(ENTRIES.entry(make_document(message, author=author or None, timestamp=start + number * step)))
    return result


def search(query: str, *segments: Segment, **options: object) -> list[Found]:
    weights = options.pop("weights", RankingWeights())
    return search_segments(segments, parse_query(query, MAKER), MAKER, weights=weights, **options)  # type: ignore[arg-type]


def places(found: list[Found]) -> list[tuple[int, int]]:
    return [(one.segment, one.index) for one in found]


def test_rare_words_weigh_more_than_common_ones() -> None:
    found = search("kettle weather", segment(*FILLER * 3, "weather " * 3, *FILLER, "kettle", *FILLER))
    assert places(found)[0] == (0, 21)


def test_an_answer_is_found_by_the_words_of_its_question() -> None:
    found = search("cat name", segment(*FILLER, "ada: What is the name of your cat?", "bob: Luna.", *FILLER))
    assert places(found)[:2] == [(0, 5), (0, 6)]


def test_neighbours_do_not_reach_into_another_session() -> None:
    found = search("kettle", segment("kettle"), segment("Luna."))
    assert places(found) == [(0, 0)]


def test_the_author_named_comes_first_and_the_name_is_no_word() -> None:
    talk = segment("ada: I like tea", *FILLER, "grace: I like tea", *FILLER, "bob: ada ada ada")
    found = search("What does Grace like? tea", talk)
    assert places(found)[0] == (0, 6)
    assert "author" in found[0].ranked.parts


def test_a_name_in_a_script_without_blanks_is_a_name_only_as_a_whole() -> None:
    talk = segment("小明: 我喜欢茶", *FILLER, "大海: 我喜欢茶", *FILLER)
    assert places(search("小明喜欢什么?", talk))[0] == (0, 0)
    assert all("author" not in one.ranked.parts for one in search("小海喜欢什么?", talk))


def test_a_month_in_figures_finds_its_date() -> None:
    talk = segment(*["我们又见面了"] * 12, step=timedelta(days=31))
    assert places(search("7月8日", talk, weights=replace(RankingWeights(), reach=0)))[0] == (0, 2)


def test_a_name_alone_finds_what_was_said_by_and_to_its_bearer() -> None:
    talk = segment("ada: hello", "bob: say hi to Grace", "grace: thanks")
    assert places(search("grace", talk))[:2] == [(0, 2), (0, 1)]


def test_the_date_is_part_of_the_text_and_a_period_pulls() -> None:
    talk = segment(*["We met again."] * 12, step=timedelta(days=31))
    assert places(search("What happened in July 2023?", talk, weights=replace(RankingWeights(), reach=0)))[0] == (0, 2)


def test_a_number_that_is_also_the_day_is_what_was_said() -> None:
    said = [f"fact-{number}- is here" for number in range(200)]
    talk = segment(*said, start=MAY.replace(day=18))
    assert places(search("fact-18-", talk))[0] == (0, 18)
    assert places(search("fact 18", talk))[0] == (0, 18)


def test_what_was_said_on_a_day_is_found_by_the_day() -> None:
    talk = segment(*["We met again."] * 28, step=timedelta(days=1))
    for query in ("What happened on 18 May?", "on May 18th", "2023-05-18"):
        assert places(search(query, talk, weights=replace(RankingWeights(), reach=0)))[0] == (0, 10)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("on 8 May 2023", {("8", "at:8"), ("may", "at:may"), ("2023", "at:2023")}),
        ("June 3rd", {("june", "at:june"), ("3", "at:3")}),
        ("in march", {("march", "at:march")}),
        ("the summer 2022", {("2022", "at:2022")}),
        ("5月18日", {("5", "at:may"), ("18", "at:18")}),
        ("三月五号", {("3", "at:march"), ("5", "at:5")}),
        ("fact-18-", set()),
        ("room 2023", set()),
        ("may I march on", set()),
        ("version 3.5 of 18 items", set()),
    ],
)
def test_what_asks_for_a_date(query: str, found: set[tuple[str, str]]) -> None:
    assert set(asked_dates(query)) == found


def test_a_long_answer_does_not_drown_the_message_beside_it() -> None:
    answer = "Budgets need care. " + "Spending, saving and planning are habits that grow slowly. " * 80
    talk = segment(*FILLER, "ada: My budget for the kitchen is 900.", f"bob: {answer}", *FILLER, "The kitchen is new.")
    assert places(search("kitchen budget", talk))[0] == (0, 5)


def test_an_event_is_ranked_by_its_best_passage() -> None:
    filler = "The committee spoke about other things for a while and came to no result at all.\n\n" * 12
    talk = segment(*FILLER, f"bob: {filler}The kettle of grace is blue.\n\n{filler}", *FILLER, "The kettle.")
    found = search("blue kettle", talk)
    assert places(found)[0] == (0, 5)
    assert found[0].ranked.passage > 0


def test_a_query_that_says_i_means_the_human() -> None:
    talk = segment("bob: a passport is a document", *FILLER, "ada: a passport is a document", *FILLER)
    for query in ("where is my passport", "Wo ist denn mein passport und was ist das", "我的 passport"):
        found = search(query, talk)
        assert places(found)[0] == (0, 6)
        assert found[0].ranked.parts["human"] > 0
    assert all("human" not in one.ranked.parts for one in search("where is your passport", talk))


def test_an_exclamation_is_not_likelier_meant_than_a_sentence() -> None:
    talk = segment(*FILLER, "A kettle!", *FILLER, "The kettle stands beside the red stove there.", *FILLER)
    words = {one.index: one.ranked.parts["words"] for one in search("kettle", talk)}
    assert words[11] == pytest.approx(words[5], rel=0.02)


def test_a_day_that_is_asked_for_leads_over_its_number() -> None:
    turns = [
        f"{who}: {text}"
        for number in range(60)
        for who, text in (("ada", f"Is museum {number} open on Sundays?"), ("bob", f"Museum {number} opens at ten."))
    ]
    museums = segment(*turns, start=MAY, step=timedelta(hours=12))
    june = {(0, 2 * 26), (0, 2 * 26 - 1)}  # the 3rd of June, from noon on the 8th of May
    for query in ("What was said on 3 June?", "3 June 2023", "what did we say on June 3rd", "said on 2023-06-03"):
        assert set(places(search(query, museums))[:2]) == june, query


def test_what_a_human_said_gains_where_assistants_talk_at_length() -> None:
    advice = "bob: " + "Plan the kitchen with care, and measure what you buy before you buy it. " * 8
    said = "My passport is in the drawer."
    chat = segment("ada: Where do I begin?", advice, *FILLER, f"bob: {said}", advice, *FILLER, f"ada: {said}", advice)
    [first, second] = search("passport drawer", chat)[:2]
    assert (first.index, second.index) == (14, 7)
    assert first.ranked.parts["human"] > 0
    friends = segment("ada: Where do I begin?", *FILLER, f"bob: {said}", *FILLER, f"ada: {said}")
    assert all("human" not in one.ranked.parts for one in search("passport drawer", friends))


def test_an_event_among_others_that_fit_comes_first() -> None:
    hint = "The kettle is new."
    alone = segment(*FILLER, hint, *FILLER)
    among = segment("We looked at stoves.", *FILLER, hint, *FILLER, "A stove of copper.", *FILLER)
    found = search("kettle stove", alone, among)
    assert [place for place in places(found) if place in ((0, 5), (1, 6))] == [(1, 6), (0, 5)]
    assert found[0].ranked.parts["session"] > 0
    without = search("kettle stove", alone, among, weights=replace(RankingWeights(), session=0))
    assert all("session" not in one.ranked.parts for one in without)


def test_the_only_session_gains_nothing_by_itself() -> None:
    assert all("session" not in one.ranked.parts for one in search("kettle", segment("kettle", *FILLER, "kettle")))


def test_a_filter_leaves_events_out_but_not_their_words() -> None:
    talk = segment(*FILLER, "kettle?", "Luna.", *FILLER)
    found = search("kettle", talk, admits=lambda _, index: index != 5)
    assert places(found)[0] == (0, 6)
    assert (0, 5) not in places(found)


def test_meaning_is_added_by_its_distance_from_the_mean() -> None:
    talk = segment("kettle one", *FILLER, "kettle two", *FILLER)
    found = search("kettle", talk, cosine=lambda _, index: 0.9 if index == 6 else 0.1)
    assert places(found)[0] == (0, 6)
    assert sum(one.ranked.parts["meaning"] for one in found) == pytest.approx(0.0, abs=1e-9)


def test_an_event_is_as_near_in_meaning_at_the_end_of_a_session_as_in_its_midst() -> None:
    alone, midst = segment("kettle one"), segment(*FILLER, "kettle two", *FILLER)
    found = search(
        "kettle", alone, midst, segment("kettle three"), cosine=lambda number, _: 0.1 if number == 2 else 0.6
    )
    gains = {each.segment: each.ranked.parts["meaning"] for each in found if each.index in (0, 5)}
    assert gains[0] == pytest.approx(gains[1])
    assert gains[2] < 0 < gains[0]


def test_an_event_of_a_word_tells_less_of_its_neighbours_meaning_than_a_sentence() -> None:
    said = "We looked for it in all the shops of the old town and by the harbour."
    talk = segment(*FILLER, "kettle one", "Yes.", *FILLER * 2, "kettle two", said, *FILLER)
    found = search("kettle", talk, cosine=lambda _, index: 0.9 if index in (6, 18) else 0.3)
    gains = {each.index: each.ranked.parts["meaning"] for each in found}
    assert gains[17] > gains[5] + 0.1


def test_a_model_whose_cosines_lie_close_together_counts_too() -> None:
    talk = segment(*(f"kettle {number}" for number in range(300)))

    def gains(narrow: float) -> list[float]:
        def cosine(_: int, index: int) -> float:
            return 0.8 + narrow * math.sin(index)

        found = search("kettle", talk, cosine=cosine, weights=replace(RankingWeights(), reach=0))
        return [each.ranked.parts["meaning"] for each in found if "meaning" in each.ranked.parts]

    assert max(gains(0.03)) > 0.5 * max(gains(0.15))


def test_the_score_is_the_sum_of_its_parts_and_bounded() -> None:
    for one in search("kettle tea", segment("kettle tea " * 50, *FILLER, "tea")):
        assert one.ranked.score == pytest.approx(sum(one.ranked.parts.values()))
        assert one.ranked.parts["words"] <= 4 * (1 + RankingWeights().saturation)


@pytest.mark.parametrize("query", ["absent", "", "%", "who are you", "-kettle"])
def test_nothing_to_rank_by_finds_nothing(query: str) -> None:
    assert search(query, segment("kettle")) == []


def test_an_empty_scope_finds_nothing() -> None:
    assert search("kettle") == []
    assert search("kettle", Segment(), segment("tea"), Segment()) == []


def test_a_prefix_stands_for_all_words_that_begin_so() -> None:
    found = search("kett*", segment("ketten", *FILLER, "kettle", *FILLER, "pan"))
    assert {(0, 0), (0, 6)} <= set(places(found))


def test_statistics_never_weigh_below_zero() -> None:
    assert all(weight >= 0 for weight in TermStatistics(events=2, frequencies=(0, 1, 2, 5)).weights())


def test_the_shortlist_finds_what_a_full_ranking_finds() -> None:
    chance = random.Random(7)  # noqa: S311 - a corpus, no secret
    words = [f"word{number}" for number in range(60)]
    talks = [segment(*(" ".join(chance.choices(words, k=8)) for _ in range(400))) for _ in range(10)]
    needle = segment(*FILLER, "ada: word1 word2 word3 word4 together?", "bob: Here it is.", *FILLER)
    query = "word1 word2 word3 word4"
    full = search(query, *talks, needle, candidates=10_000)
    short = search(query, *talks, needle, candidates=100)
    assert (10, 5) in places(short)[:3]
    assert len(set(places(short)[:10]) & set(places(full)[:10])) >= 7
    assert len(short) <= 100


@settings(max_examples=100, deadline=None)
@given(
    turns=st.lists(st.lists(st.sampled_from(["tea", "kettle", "pan", "ada"]), max_size=6).map(" ".join), max_size=30),
    query=st.sampled_from(["tea", "kettle pan", "ada tea", "When was tea?"]),
    cut=st.integers(0, 30),
)
def test_ranking_is_the_same_however_the_scope_is_laid_out(turns: list[str], query: str, cut: int) -> None:
    first, second = turns[:cut], turns[cut:]
    one = search(query, segment(*first), segment(*second))
    other = search(query, segment(*second), segment(*first))
    scores = {(found.segment, found.index): round(found.ranked.score, 9) for found in one}
    assert scores == {(1 - found.segment, found.index): round(found.ranked.score, 9) for found in other}


def test_a_log_that_ends_before_what_is_looked_at_counts_for_nothing() -> None:
    home = Home(0, (0, 14), (10, 10), (10, 10))
    near = bytes(2) + b"\xff" * 10
    assert [*spans_of(home, 0, range(12, 24), near)] == [Span((0, 14), 10, 2, 12)]


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 12))
def test_the_highest_are_those_that_sorting_puts_first(scores: list[int], most: int) -> None:
    held = sorted((at for at, score in enumerate(scores) if score), key=lambda at: -scores[at])
    assert highest(most, scores) == sorted(held[:most])
