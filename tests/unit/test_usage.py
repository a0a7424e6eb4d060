"""What a prompt is expected to cost, from what was reported of those before it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_openai import ChatOpenAI
from langchain_xai import ChatXAI
from pydantic import SecretStr

from langchain_sessions._tokens.calibration import Calibration
from langchain_sessions._tokens.families import vocabulary_of
from langchain_sessions._tokens.usage import NO_USAGE, PromptUsage, UsageBook, kind_of_text


def test_before_any_report_an_estimate_is_doubted_and_a_count_is_not() -> None:
    assert NO_USAGE.expect(1_000) == 1_050
    assert NO_USAGE.expect(1_000, is_exact=True) == 1_000


def test_only_the_growth_is_estimated() -> None:
    usage = NO_USAGE.after(8_000, 10_000)
    assert usage.expect(8_000) == 10_000
    assert 10_000 + 125 <= usage.expect(8_100) <= 10_000 + 140


def test_growth_is_taken_at_the_highest_of_the_last_rates() -> None:
    usage = NO_USAGE
    for counted, reported in ((1_000, 1_000), (1_100, 1_100), (1_200, 1_350), (1_300, 1_450), (1_320, 1_900)):
        usage = usage.after(counted, reported)
    assert usage.growths == (1.0, 2.5, 1.0)  # the last growth is too small to tell
    assert usage.expect(1_420) == 1_900 + 250


def test_what_got_shorter_is_scaled() -> None:
    assert NO_USAGE.after(8_000, 12_000).expect(2_000) == pytest.approx(3_090, abs=1)


def test_a_rate_is_that_of_the_newest_prompt_or_of_its_last_growths() -> None:
    assert NO_USAGE.rate == 1
    assert PromptUsage(calibration=Calibration((1.3,))).rate == 1.3
    usage = NO_USAGE.after(8_000, 12_000)
    assert usage.rate == 1.5
    for number in (1, 2, 3):  # what is said now costs more than what was said before
        usage = usage.after(8_000 + 100 * number, 12_000 + 300 * number)
    assert usage.rate == 3
    for number in (4, 5, 6):  # and less
        usage = usage.after(8_000 + 100 * number, 12_900 + 50 * number)
    assert usage.rate == pytest.approx(13_200 / 8_600)


def test_a_model_is_known_from_other_conversations() -> None:
    book = UsageBook()
    for number in range(5):
        book.report("m", "words", f"s{number}", counted=1_000, reported=1_300)
    assert book.usage("m", "words", "new").expect(1_000) == 1_300
    assert book.usage("m", "wide", "new").expect(1_000) == 1_050
    assert book.usage("other", "words", "new").expect(1_000) == 1_050
    assert book.usage("m", "words", "s1").expect(1_000) == 1_300


def test_what_others_add_is_expected_of_the_next_prompt_too() -> None:
    usage = NO_USAGE.after(5_000, 5_000, added=4_000)
    assert usage.expect(1_000) == 5_000
    usage = usage.after(1_100, 1_100, added=0)
    assert usage.added == 4_000  # now and then is reason enough
    usage = usage.after(1_200, 1_200, added=-500).after(1_300, 1_300, added=-500)
    assert usage.added == 0  # what others leave out may come back


@pytest.mark.parametrize(
    ("kind", "counted", "reported", "is_taken"),
    [
        ("words", 12_000, 4_096, False),  # a server that cut the prompt
        ("words", 3_000, 4_000, True),
        ("words", 1_000, 40_000, False),
        ("wide", 1_000, 9_000, True),
        ("code", 60, 350, True),  # what a provider adds itself weighs much in a short prompt
        ("media", 400, 40_000, True),
    ],
)
def test_what_cannot_be_true_of_a_prompt_is_not_learned(
    kind: str, counted: int, reported: int, *, is_taken: bool
) -> None:
    book = UsageBook()
    book.report("m", kind, "s", counted=counted, reported=reported)
    usage = book.usage("m", kind, "s")
    assert (usage.reported == reported, bool(usage.calibration.ratios)) == (is_taken, is_taken)


def test_a_conversation_that_was_not_used_for_long_is_forgotten() -> None:
    book = UsageBook()
    for number in range(1_100):
        book.report("m", "words", number, counted=1_000, reported=2_000)
    assert book.usage("m", "words", 0).reported == 0
    assert book.usage("m", "words", 1_099).reported == 2_000


@given(st.lists(st.tuples(st.integers(-5, 10**7), st.integers(-5, 10**7)), max_size=30), st.integers(0, 10**7))
def test_whatever_was_reported_the_expectation_grows_with_the_prompt(
    reports: list[tuple[int, int]], tokens: int
) -> None:
    book = UsageBook()
    for counted, reported in reports:
        book.report("m", "words", "s", counted=counted, reported=reported)
    usage = book.usage("m", "words", "s")
    assert usage.expect(tokens) >= 0
    beyond = max(tokens, usage.counted)
    assert usage.expect(beyond) <= usage.expect(beyond + 100)


@given(st.floats(0.5, 2), st.lists(st.integers(60, 900), min_size=4, max_size=30))
def test_a_constant_rate_is_never_underestimated(rate: float, turns: list[int]) -> None:
    usage, counted = PromptUsage(calibration=Calibration()), 500
    usage = usage.after(counted, round(counted * rate))
    for turn in turns:
        counted += turn
        assert usage.expect(counted) >= counted * rate - 2 * len(turns)
        usage = usage.after(counted, round(counted * rate))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "words"),
        ("Hello there, how are you today?", "words"),
        ('{"a": [1, 2], "b": {"c": null}}', "code"),
        ("def f(x):\n    return {'a': x[0], 'b': (x, 1)}", "code"),
        ("我想订一张去都灵的火车票。", "wide"),
        ("Привет, как дела?", "wide"),
        ("naïve café, plain words else", "words"),
    ],
)
def test_kinds_of_text(text: str, kind: str) -> None:
    assert kind_of_text(text) == kind


@pytest.mark.parametrize(
    ("name", "vocabulary"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("openai/o3", "o200k_base"),
        ("gpt-4-1106-preview", "cl100k_base"),
        ("gpt-35-turbo", "cl100k_base"),
        ("us.meta.llama3-1-70b-instruct-v1:0", "llama3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen3"),
        ("deepseek-r1:8b", "llama3"),
        ("deepseek-chat", "deepseek_v3"),
        ("mistral-large-2411", "mistral_v1"),
        ("mistral-large-2512", "mistral_v3"),
        ("models/gemini-2.5-pro", "gemma3"),
        ("anthropic.claude-sonnet-4-5-v1:0", "claude"),
        ("grok-4", "unknown"),
        ("ours-v2", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_name_tells_the_vocabulary(name: str | None, vocabulary: str) -> None:
    assert vocabulary_of(SimpleNamespace(model_name=name)) == vocabulary


def test_a_client_and_a_reply_tell_it_where_the_name_does_not() -> None:
    key = SecretStr("k")
    ours = ChatOpenAI(model="ours", api_key=key)
    elsewhere = ChatOpenAI(model="ours", api_key=key, base_url="http://127.0.0.1:9/v1")
    assert vocabulary_of(ours) == "o200k_base"
    assert vocabulary_of(elsewhere) == "unknown"
    assert vocabulary_of(elsewhere, "Qwen/Qwen3-32B") == "qwen3"
    assert vocabulary_of(ChatXAI(model="grok-4", api_key=key)) == "unknown"
