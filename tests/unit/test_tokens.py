"""Counting: the estimate against recorded exact counts, message frames, calibration, no sockets."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from splintr import Tokenizer

from benchmarks.token_data import data
from benchmarks.token_weights import VOCABULARIES as FITTED
from langchain_sessions import (
    CalibratedTokenCounter,
    Calibration,
    EstimatedTokenCounter,
    MediaCosts,
    TextCounter,
    TiktokenCounter,
    TokenCounter,
    best_counter,
)
from langchain_sessions._tokens import tiktoken as our_tiktoken
from langchain_sessions.errors import InvalidInputError, SessionsError, VocabularyMissingError

if TYPE_CHECKING:
    from langchain_sessions._tokens.weights import Vocabulary

TEXTS = Path(__file__).parent / "token_texts"
COUNTS: dict[str, dict[str, int]] = json.loads((TEXTS / "counts.json").read_text(encoding="utf-8"))
VOCABULARIES: tuple[Vocabulary, ...] = ("o200k_base", "cl100k_base")
PIXEL = base64.b64encode(bytes(30_000)).decode()


class Letters(TextCounter):
    """One token per character: makes every expectation a matter of counting."""

    @property
    def exact(self) -> bool:
        return True

    def count_text(self, text: str) -> int:
        return len(text)


def exact_counter(name: str) -> TiktokenCounter:
    try:
        return TiktokenCounter(name)
    except VocabularyMissingError:
        pytest.skip(f"the vocabulary {name} is not on this machine")


def read(category: str) -> str:
    return (TEXTS / f"{category}.txt").read_text(encoding="utf-8")


@pytest.fixture
def no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)


@pytest.fixture
def default_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Point tiktoken itself at the place where our counter looks."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(Path(tempfile.gettempdir(), "data-gym-cache")))


# The estimate


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("category", sorted(COUNTS))
def test_the_estimate_is_within_ten_percent_on_texts_that_were_not_fitted(
    category: str, vocabulary: Vocabulary
) -> None:
    exact = COUNTS[category][vocabulary]
    assert EstimatedTokenCounter(vocabulary).count_text(read(category)) == pytest.approx(exact, rel=0.10)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_recorded_counts_are_those_of_the_vocabulary(vocabulary: Vocabulary) -> None:
    counter = exact_counter(vocabulary)
    assert {category: counter.count_text(read(category)) for category in COUNTS} == {
        category: counts[vocabulary] for category, counts in COUNTS.items()
    }


@given(st.text())
def test_any_text_has_a_positive_estimate_and_only_the_empty_one_has_none(text: str) -> None:
    assert (EstimatedTokenCounter().count_text(text) > 0) == (text != "")


@given(st.text(alphabet="ab A0.\n{你é🙏", max_size=200), st.sampled_from(VOCABULARIES))
def test_repeating_a_text_scales_its_estimate(text: str, vocabulary: Vocabulary) -> None:
    # Fragments may join at the seams, so the bound is loose; what matters is that nothing explodes.
    counter = EstimatedTokenCounter(vocabulary)
    once, often = counter.count_text(text), counter.count_text(text * 50)
    assert often <= 50 * (once + 4)
    assert often >= counter.count_text(text * 10)


@pytest.mark.parametrize("vocabulary", FITTED)
@pytest.mark.parametrize("kind", ["base64", "hashes", "logs", "tables", "emoji", "addresses"])
def test_data_is_estimated_within_a_fifth(kind: str, vocabulary: Vocabulary) -> None:
    texts = data(10)[kind]
    exact = sum(len(Tokenizer.from_pretrained(vocabulary).encode(text)) for text in texts)
    assert sum(map(EstimatedTokenCounter(vocabulary).count_text, texts)) == pytest.approx(exact, rel=0.2)


def test_names_with_humps_are_no_random_data() -> None:
    names = "getUserNameFromAccountId XMLHttpRequestFactory parseInputStream " * 9
    exact = len(Tokenizer.from_pretrained("o200k_base").encode(names))
    assert EstimatedTokenCounter().count_text(names) == pytest.approx(exact, rel=0.25)


def test_lone_surrogates_are_counted_not_refused() -> None:
    assert EstimatedTokenCounter().count_text("broken \ud83d emoji") > 0


def test_an_older_vocabulary_needs_more_tokens_for_chinese() -> None:
    text = read("chinese")
    assert EstimatedTokenCounter("cl100k_base").count_text(text) > 1.3 * EstimatedTokenCounter().count_text(text)


def test_an_unknown_vocabulary_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="o200k_base"):
        EstimatedTokenCounter("gpt2")  # type: ignore[arg-type]


# Messages


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (HumanMessage("12345"), 4 + 5),
        (HumanMessage(""), 4),
        (HumanMessage("12345", name="ada"), 4 + 5 + 3 + 1),
        (HumanMessage(["123", {"type": "text", "text": "45"}]), 4 + 5),
        (ToolMessage("12345", tool_call_id="a-very-long-id"), 4 + 5 + 3),
        (AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "x"}]), 4 + 3 + len('{"a": 1}')),
        (AIMessage("", tool_calls=[{"name": "say", "args": {"a": "é"}, "id": "x"}]), 4 + 3 + len('{"a": "é"}')),
        (
            AIMessage("", invalid_tool_calls=[{"name": "add", "args": '{"a":', "id": "x", "error": None}]),
            4 + 3 + len('{"a":'),
        ),
        (AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}), 4 + 3),
        (AIMessage([{"type": "reasoning", "reasoning": "hmm"}, {"type": "text", "text": "ok"}]), 4 + 5),
        (AIMessage([{"type": "thinking", "thinking": "hmm", "signature": PIXEL}]), 4 + 3),
        (HumanMessage([{"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "42"}]}]), 6),
    ],
)
def test_a_message_costs_its_texts_and_its_frame(message: BaseMessage, expected: int) -> None:
    assert Letters().count_message(message) == expected


def test_a_call_that_is_also_a_content_block_is_counted_once() -> None:
    call = {"name": "add", "args": {"a": 1}, "id": "x"}
    block = {"type": "tool_use", "name": "add", "input": {"a": 1}, "id": "x"}
    plain = AIMessage("", tool_calls=[call])
    assert Letters().count_message(AIMessage([block], tool_calls=[call])) == Letters().count_message(plain)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "tool_result", "content": [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]},
    ],
)
def test_an_image_has_a_fixed_price_whatever_its_length(block: dict[str, object]) -> None:
    message = HumanMessage([block])
    assert Letters().count_message(message) == 4 + 85
    assert Letters(media=MediaCosts(image=765)).count_message(message) == 4 + 765


@pytest.mark.parametrize(
    "block",
    [
        {"type": "file", "base64": PIXEL, "mime_type": "application/pdf"},
        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
        {"type": "video", "url": "https://example.com/clip.mp4"},
    ],
)
def test_a_file_has_a_fixed_price_whatever_its_length(block: dict[str, object]) -> None:
    assert Letters(media=MediaCosts(file=7)).count_message(HumanMessage([block])) == 4 + 7


def test_a_document_with_text_is_counted_by_its_text() -> None:
    block = {"type": "text-plain", "text": "12345", "mime_type": "text/plain"}
    assert Letters().count_message(HumanMessage([block])) == 4 + 5


def test_an_unknown_block_counts_its_words_but_never_its_bytes() -> None:
    block = {"type": "citation", "title": "abc", "nested": [{"page": 12}], "data": PIXEL, "raw": b"1234"}
    total = Letters().count_message(HumanMessage([block]))
    assert total == 4 + len("titleabcnestedpage12raw")


def test_a_prompt_is_the_sum_of_its_parts_and_one_reply_priming() -> None:
    schema = {"type": "function", "function": {"name": "add", "parameters": {}}}
    messages = [HumanMessage("1"), AIMessage("23")]
    total = Letters().count_messages(messages, system="456", tools=[schema])
    assert total.messages == 5 + 6
    assert total.system == 7
    assert total.tools == len(json.dumps(schema, separators=(",", ":")))
    assert total.tokens == total.messages + total.system + total.tools + 3
    assert total.exact
    assert Letters().count_messages([], system=SystemMessage("456")).system == 7


def test_tools_and_their_schemas_cost_the_same() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    of_tool = Letters().count_messages([], tools=[add])
    of_schema = Letters().count_messages([], tools=[convert_to_openai_tool(add)])
    assert of_tool == of_schema
    assert of_tool.tools > 50


@pytest.mark.usefixtures("default_cache")
def test_frames_agree_with_langchain_openai() -> None:
    openai = pytest.importorskip("langchain_openai")
    counter = exact_counter("o200k_base")
    model = openai.ChatOpenAI(model="gpt-4o", api_key="unused")
    messages: list[BaseMessage] = [
        SystemMessage("You are brief."),
        HumanMessage("What is 2 + 2?", name="ada"),
        AIMessage("", tool_calls=[{"name": "add", "args": {"a": 2, "b": 2}, "id": "call_1"}]),
        ToolMessage("4", tool_call_id="call_1"),
        AIMessage("It is 4."),
    ]
    expected = model.get_num_tokens_from_messages(messages)
    assert counter.count_messages(messages).tokens == expected


def test_negative_prices_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="image"):
        MediaCosts(image=-1)


# Vocabularies


@pytest.mark.usefixtures("no_socket")
@pytest.mark.parametrize("damaged", [False, True])
def test_without_permission_a_missing_or_damaged_vocabulary_is_an_error(tmp_path: Path, *, damaged: bool) -> None:
    address = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    cached = tmp_path / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    if damaged:
        cached.write_bytes(b"IQ== 0\n")
    with pytest.raises(VocabularyMissingError, match="allow_download=True") as caught:
        TiktokenCounter("cl100k_base", cache_dir=tmp_path)
    assert isinstance(caught.value, SessionsError)
    assert cached.exists() is damaged
    chosen = best_counter("gpt-4", cache_dir=tmp_path)
    assert isinstance(chosen, EstimatedTokenCounter)
    assert (chosen.exact, chosen.vocabulary) == (False, "cl100k_base")


@pytest.mark.usefixtures("no_socket")
@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_tiktokens_own_settings_say_where_its_cache_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    ranks = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))
    address = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    (tmp_path / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()).write_bytes(ranks)
    known = our_tiktoken._VOCABULARIES["cl100k_base"]
    ours = replace(known, sha256=hashlib.sha256(ranks).hexdigest())
    monkeypatch.setitem(our_tiktoken._VOCABULARIES, "cl100k_base", ours)
    monkeypatch.setenv(variable, str(tmp_path))
    assert TiktokenCounter("cl100k_base").count_text("hello") == 5
    with pytest.raises(VocabularyMissingError):
        TiktokenCounter("o200k_base")
    monkeypatch.setenv(variable, "")
    with pytest.raises(VocabularyMissingError):
        TiktokenCounter("cl100k_base")


@pytest.mark.usefixtures("no_socket")
def test_an_encoding_of_others_needs_permission(tmp_path: Path) -> None:
    with pytest.raises(VocabularyMissingError):
        TiktokenCounter("gpt2", cache_dir=tmp_path)


@pytest.mark.usefixtures("no_socket")
def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no encoding"):
        TiktokenCounter("nonsense", cache_dir=tmp_path, allow_download=True)
    with pytest.raises(InvalidInputError, match="no model"):
        TiktokenCounter(model="claude-9", cache_dir=tmp_path)
    with pytest.raises(InvalidInputError, match="either"):
        TiktokenCounter("o200k_base", model="gpt-4o")
    assert not best_counter("claude-9", cache_dir=tmp_path).exact


def test_a_failed_download_is_our_error_with_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> tiktoken.Encoding:
        raise ConnectionError

    monkeypatch.setattr(tiktoken, "get_encoding", refuse)
    with pytest.raises(VocabularyMissingError) as caught:
        TiktokenCounter("o200k_base", cache_dir=tmp_path, allow_download=True)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert not best_counter(cache_dir=tmp_path, allow_download=True).exact


def test_a_loaded_encoding_is_used_as_it_is() -> None:
    encoding = tiktoken.Encoding(
        "bytes", pat_str=r"\s|\S", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={"<|end|>": 256}
    )
    counter = TiktokenCounter(encoding)
    assert counter.exact
    assert counter.encoding_name == "bytes"
    assert counter.count_text("abé") == 4
    assert counter.count_text("<|end|>") == 7


@pytest.mark.usefixtures("no_socket")
def test_the_best_counter_is_exact_where_the_vocabulary_is_present() -> None:
    exact_counter("o200k_base")
    assert best_counter("gpt-4o").exact
    assert best_counter().count_messages([HumanMessage("hi")]).exact


@pytest.mark.usefixtures("default_cache")
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_vocabulary_read_by_us_cuts_like_tiktoken(vocabulary: Vocabulary) -> None:
    counter = exact_counter(vocabulary)
    reference = tiktoken.get_encoding(vocabulary)
    odd = ["it's  IT'S\r\n\r\n x", "a\t\n \n b   ", "12345678.90", "camelCaseHTTPServer//\n/", " ́é ǅ", "   \n"]
    for text in [*map(read, COUNTS), *odd]:
        assert counter.count_text(text) == len(reference.encode_ordinary(text))


def test_importing_the_package_loads_no_tokenizer() -> None:
    code = "import sys, langchain_sessions._tokens.exact_or_estimated; print('tiktoken' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"


# Calibration


def test_calibration_starts_neutral_and_learns_the_ratio() -> None:
    calibration = Calibration()
    assert calibration.apply(1000) == 1000
    learned = calibration.observe(1000, 1300)
    assert (calibration.ratio, learned.ratio) == (1.0, 1.3)
    assert (learned.apply(1000), learned.apply(0)) == (1300, 0)


def test_a_few_outliers_do_not_move_the_calibration() -> None:
    calibration = Calibration()
    for reported in (1100, 90_000, 1090, 1, 1110, 1100, 50_000):
        calibration = calibration.observe(1000, reported)
    assert calibration.ratio == pytest.approx(1.1)


def test_a_calibration_follows_a_lasting_change() -> None:
    calibration = Calibration()
    for reported in [1000] * 30 + [1500] * 8:
        calibration = calibration.observe(1000, reported)
    assert calibration.ratio == 1.5


@given(st.lists(st.tuples(st.integers(-10, 10**9), st.integers(-10, 10**9)), max_size=40))
def test_a_calibration_stays_bounded(observations: list[tuple[int, int]]) -> None:
    calibration = Calibration()
    for estimated, reported in observations:
        calibration = calibration.observe(estimated, reported)
    assert 0.25 <= calibration.ratio <= 4
    assert Calibration(calibration.ratios) == calibration
    assert calibration.apply(1) >= 1


def test_tiny_prompts_teach_nothing() -> None:
    assert Calibration().observe(20, 60) == Calibration()


@pytest.mark.parametrize("ratios", [(9.0,), (1.0,) * 16])
def test_a_kept_calibration_is_checked(ratios: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInputError, match="ratios"):
        Calibration(ratios)


def test_a_calibrated_counter_learns_from_replies() -> None:
    counter = CalibratedTokenCounter(Letters())
    prompt = [HumanMessage("x" * 93)]
    assert counter.count_messages(prompt).tokens == 100
    usage = {"input_tokens": 150, "output_tokens": 5, "total_tokens": 155}
    kept = counter.observe(AIMessage("ok", usage_metadata=usage), prompt)
    assert counter.count_messages(prompt).tokens == 150
    assert counter.count_text("x" * 100) == 150
    assert not counter.exact
    assert not counter.count_messages(prompt).exact
    counter.observe(AIMessage("no usage"), prompt)
    assert counter.calibration == kept
    assert CalibratedTokenCounter(Letters(), kept).count_text("xx") == 3


def test_every_counter_keeps_the_protocol() -> None:
    counters: list[TokenCounter] = [Letters(), EstimatedTokenCounter(), CalibratedTokenCounter(Letters())]
    for counter in counters:
        assert counter.count_text("") == 0
        one, other = HumanMessage("a message"), AIMessage("another one")
        total = counter.count_messages([one, other])
        assert total.messages == counter.count_message(one) + counter.count_message(other)
        assert total.exact == counter.exact
