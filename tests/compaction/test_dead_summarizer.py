# ruff: noqa: ANN401 - stands in for what users pass, which may be anything
"""A summariser that is dead does not switch compaction off, and what it missed is summarised when it is back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_sessions import (
    Compaction,
    ConversationSummary,
    EventFilter,
    EventKind,
    InMemoryStore,
    ModelCall,
    Outcome,
    SessionMemoryAdvisor,
    SessionService,
    Summarize,
    TokenCount,
    TurnWindow,
)
from langchain_sessions._compaction import fallback
from langchain_sessions._compaction.fallback import LastResort
from langchain_sessions._compaction.summarizer import whole_sentences
from tests.compaction.models import ScriptedModel
from tests.openai_stub.replies import Fail, Say, Truncated
from tests.openai_stub.server import OpenAIStub

if TYPE_CHECKING:
    from tests.compaction.conftest import Faced

DOWN = RuntimeError("the provider is down")
NARROW = ModelCall(context_window=60)


def summarising(*replies: Any, **options: Any) -> tuple[ScriptedModel, Compaction]:
    model = ScriptedModel(replies=list(replies))
    return model, Compaction(TokenCount(20), Summarize(model, keep_events=2, **options))


async def records(ada: Faced) -> list[dict[str, Any]]:
    page = await ada.events("s1", EventFilter(kinds=frozenset({EventKind.COMPACTION})))
    return [dict(event.metadata) for event in page.items]


async def test_while_the_prompt_fits_the_history_stays(ada: Faced) -> None:
    await ada.talk("s1", 6)
    before = await ada.texts("s1")
    _, compaction = summarising(DOWN)
    result = await ada.compact("s1", compaction, automatic=True, call=ModelCall(context_window=10_000))
    assert result.outcome is Outcome.SUMMARY_FAILED
    assert await ada.texts("s1") == before


async def test_what_would_not_fit_is_archived_and_summarised_later(ada: Faced) -> None:
    await ada.talk("s1", 6)
    _, dead = summarising(DOWN)
    result = await ada.compact("s1", dead, automatic=True, call=NARROW)
    assert result.outcome is Outcome.ARCHIVED
    assert result.is_compacted
    assert result.summary is None
    assert result.reason == "the summariser raised RuntimeError"
    assert await ada.texts("s1") == ["question 5", "answer 5"]
    assert (await records(ada))[-1]["pending"] == [[1, 10]]
    # It failed lately, so it is not asked again, but the conversation goes on.
    await ada.talk("s1", 6, first=6)
    model, compaction = summarising("They talked.")
    result = await ada.compact("s1", compaction, automatic=True, call=NARROW)
    assert result.outcome is Outcome.ARCHIVED
    assert model.prompts == []
    assert await ada.texts("s1") == ["question 11", "answer 11"]
    # Somebody asks for a summary, and it holds all that went by without one.
    await ada.talk("s1", 2, first=12)
    result = await ada.compact("s1", compaction, force=True)
    assert result.outcome is Outcome.COMPACTED
    for number in range(13):
        assert f"question {number}\n" in model.shown
    assert model.shown.count("question 3\n") == 1
    assert "pending" not in (await records(ada))[-1]
    assert (await ada.texts("s1"))[1:] == ["They talked.", "question 13", "answer 13"]
    assert await ada.verify("s1") == []


async def test_however_much_is_pending_a_run_reads_a_bounded_part(ada: Faced, monkeypatch: pytest.MonkeyPatch) -> None:
    await ada.talk("s1", 6)
    _, dead = summarising(DOWN)
    await ada.compact("s1", dead, automatic=True, call=NARROW)
    assert (await records(ada))[-1]["pending"] == [[1, 10]]
    monkeypatch.setattr(fallback, "_MOST_PENDING", 4)
    await ada.talk("s1", 2, first=6)
    model, compaction = summarising("They talked.", "They talked on.")
    await ada.compact("s1", compaction, force=True)
    assert "question 1\n" in model.shown
    assert "question 2\n" not in model.shown
    assert (await records(ada))[-1]["pending"] == [[5, 10]]
    await ada.talk("s1", 2, first=8)
    await ada.compact("s1", compaction, force=True)
    assert "question 3\n" in model.shown
    assert (await records(ada))[-1]["pending"] == [[9, 10]]


async def test_a_summary_in_force_stays_while_its_successor_is_missing(ada: Faced) -> None:
    await ada.talk("s1", 4)
    model, compaction = summarising("They talked of trains.", DOWN, DOWN, "They talked of trains and ships.")
    await ada.compact("s1", compaction, force=True)
    await ada.talk("s1", 12, first=4)
    result = await ada.compact("s1", compaction, automatic=True, call=NARROW, force=True)
    assert result.outcome is Outcome.ARCHIVED
    assert (await ada.texts("s1"))[1:] == ["They talked of trains.", "question 15", "answer 15"]
    await ada.talk("s1", 2, first=16)
    await ada.compact("s1", compaction, force=True)
    last = str(model.prompts[-1][-1].text)
    assert "They talked of trains." in last
    assert "question 2\n" not in last
    assert all(f"question {number}\n" in last for number in range(3, 17))


async def test_a_rewind_into_what_was_archived_brings_it_back(ada: Faced) -> None:
    await ada.talk("s1", 6)
    _, dead = summarising(DOWN)
    await ada.compact("s1", dead, automatic=True, call=NARROW)
    await ada.rewind("s1", to_seq=6)
    assert (await ada.texts("s1"))[-1] == "answer 2"
    model, compaction = summarising("They talked.")
    await ada.compact("s1", compaction, force=True)
    assert model.shown.count("question 0\n") == 1


@pytest.mark.parametrize("last_resort", [False, True])
async def test_what_is_pending_stays_so_where_more_goes_without_a_summary(ada: Faced, *, last_resort: bool) -> None:
    await ada.talk("s1", 6)
    _, dead = summarising(DOWN)
    await ada.compact("s1", dead, automatic=True, call=NARROW)
    await ada.talk("s1", 3, first=6)
    how = LastResort(None) if last_resort else TurnWindow(1)
    result = await ada.compact("s1", Compaction(None, how), force=True)
    assert result.outcome is (Outcome.ARCHIVED if last_resort else Outcome.COMPACTED)
    record = (await records(ada))[-1]
    assert record["outcome"] == result.outcome.value
    # What a strategy lets go of without a summary is not meant to have one; the last resort is.
    first, last = record["pending"][0][0], record["pending"][-1][1]
    assert (first, last > 11) == (1, last_resort)
    await ada.talk("s1", 2, first=9)
    model, compaction = summarising("They talked.")
    await ada.compact("s1", compaction, force=True)
    assert [f"question {n}\n" in model.shown for n in range(10)] == [n < 5 or last_resort or n >= 8 for n in range(10)]
    assert "pending" not in (await records(ada))[-1]


async def test_the_last_resort_summarises_as_the_strategy_would(ada: Faced) -> None:
    await ada.talk("s1", 6)
    model = ScriptedModel(replies=["They talked."])
    keeps_all = Summarize(model, keep_events=50)
    assert (await ada.compact("s1", Compaction(None, keeps_all))).outcome is Outcome.NOTHING_TO_DO
    result = await ada.compact("s1", Compaction(None, LastResort(keeps_all)))
    assert result.outcome is Outcome.COMPACTED
    assert (await ada.texts("s1"))[1:] == ["They talked.", "question 5", "answer 5"]
    assert all(f"question {n}\n" in model.shown for n in range(5))
    assert "pending" not in (await records(ada))[-1]


class Answering(BaseChatModel):
    """Answers, and keeps how long its prompts were."""

    lengths: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model
    service: Any

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.lengths.append(self.service.tokens.count_messages(messages).tokens)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("noted " * 20))])

    @property
    def _llm_type(self) -> str:
        return "answering"


def test_six_hundred_turns_with_a_dead_summariser() -> None:
    """The prompt stays within the window, and all facts are found."""
    with SessionService(InMemoryStore()) as service:
        model = Answering(service=service)
        compaction = Compaction(TokenCount(4_000), Summarize(ScriptedModel(replies=[DOWN]), keep_events=10))
        chat = SessionMemoryAdvisor(service, compaction=compaction, context_window=5_000).wrap(model)
        for number in range(600):
            fact = f"fact-{number:03}" if number % 6 == 0 else "nothing"
            chat.invoke(f"{fact}: " + "words of no weight " * 10, {"configurable": {"session_id": "s1"}})
        assert len(model.lengths) == 600
        assert max(model.lengths) < 5_000
        assert len([n for n in range(0, 600, 6) if service.search(f"fact-{n:03}", session_id="s1").items]) == 100
        assert service.verify("s1") == []


SUMMARY = {
    "title": "Trains",
    "keywords": ["trains"],
    "summary": "They chose a train.",
    "key_points": list[str](),
    "key_facts": list[str](),
    "sentiment": "neutral",
    "confidence": 0.9,
}


class Local(ScriptedModel):
    """A local model: its structured output is a parser that fails on its own words."""

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **kwargs: Any) -> Any:
        assert include_raw

        def answer(messages: Any) -> dict[str, Any]:
            raw = self.invoke(messages)
            return {"raw": raw, "parsed": None, "parsing_error": ValueError("no JSON")}

        return RunnableLambda(answer)


@pytest.mark.parametrize(
    "said",
    [
        json.dumps(SUMMARY),
        f"```json\n{json.dumps(SUMMARY, indent=1)}\n```",
        f"Sure! Here is the summary:\n\n{json.dumps(SUMMARY)}",
        AIMessage("", tool_calls=[{"name": "ConversationSummary", "args": SUMMARY, "id": "c"}]),
        json.dumps(SUMMARY)[:-1] + ",}",
        json.dumps([SUMMARY]),
        json.dumps({"ConversationSummary": SUMMARY}),
        AIMessage("", tool_calls=[{"name": "f", "args": {"ConversationSummary": SUMMARY}, "id": "c"}]),
        f'The schema {{"type": "object"}} gives: {json.dumps(SUMMARY)}\nas asked.',
    ],
    ids=["bare", "fenced", "with words", "a call", "a comma", "a list", "a frame", "a framed call", "an echo"],
)
async def test_structured_output_is_read_from_the_raw_text(local: Faced, said: Any) -> None:
    await local.talk("s1", 6)
    summarise = Summarize(Local(replies=[said]), keep_events=2, schema=ConversationSummary)
    result = await local.compact("s1", Compaction(None, summarise))
    assert result.outcome is Outcome.COMPACTED
    assert (result.summary, result.title, result.keywords) == ("They chose a train.", "Trains", ("trains",))


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("no JSON at all", Outcome.SUMMARY_FAILED), ("{broken", Outcome.SUMMARY_FAILED), ("", Outcome.SUMMARY_BLANK)],
)
async def test_raw_text_that_is_no_summary_is_none(local: Faced, said: str, outcome: Outcome) -> None:
    await local.talk("s1", 6)
    summarise = Summarize(Local(replies=[said]), keep_events=2, schema=ConversationSummary)
    assert (await local.compact("s1", Compaction(None, summarise))).outcome is outcome


CUT_IN_SUMMARY = '{"title": "Trains", "keywords": ["trains"], "summary": "Ada chose the 9:40. Then she as'
CUT_BEHIND_IT = '{"title": "Trains", "keywords": ["trains"], "summary": "Ada chose the 9:40", "key_points": ["She pre'


@pytest.mark.parametrize("schema", [ConversationSummary, {"type": "object", "properties": {"summary": {}}}])
@pytest.mark.parametrize("said", [CUT_IN_SUMMARY, CUT_BEHIND_IT])
async def test_a_structured_summary_that_was_cut_off_is_used_as_far_as_it_goes(
    local: Faced, said: str, schema: Any
) -> None:
    await local.talk("s1", 6)
    reply = AIMessage(said, response_metadata={"finish_reason": "length"})
    result = await local.compact(
        "s1", Compaction(None, Summarize(Local(replies=[reply]), keep_events=2, schema=schema))
    )
    assert (result.summary or "").startswith("Ada chose the 9:40")
    assert "she as" not in (result.summary or "")
    assert "cut" in (result.reason or "")
    assert (result.title, result.keywords) == ("Trains", ("trains",))


async def test_a_structured_summary_that_was_cut_off_before_it_began_is_none(local: Faced) -> None:
    await local.talk("s1", 6)
    reply = AIMessage('{"title": "Trains", "keyw', response_metadata={"finish_reason": "length"})
    summarise = Summarize(Local(replies=[reply]), keep_events=2, schema=ConversationSummary)
    assert (await local.compact("s1", Compaction(None, summarise))).outcome is Outcome.SUMMARY_FAILED


CUT_REPLIES: tuple[dict[str, Any], ...] = (
    {"finish_reason": "length"},
    {"finish_reason": "MAX_TOKENS"},
    {"stop_reason": "max_tokens"},
    {"stop_reason": "model_context_window_exceeded"},
    {"done_reason": "length"},
    {"stopReason": "max_tokens"},  # Bedrock Converse
    {"stopReason": "model_context_window_exceeded"},
    {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},  # OpenAI Responses
)


@pytest.mark.parametrize("told", CUT_REPLIES, ids=str)
async def test_a_summary_that_was_cut_off_is_used_up_to_its_last_sentence(local: Faced, told: dict[str, Any]) -> None:
    await local.talk("s1", 6)
    reply = AIMessage("Ada chose the 9:40. It costs 3.5 euros! Then she as", response_metadata=told)
    result = await local.compact("s1", Compaction(None, Summarize(ScriptedModel(replies=[reply]), keep_events=2)))
    assert result.summary == "Ada chose the 9:40. It costs 3.5 euros!"
    assert "cut" in (result.reason or "")
    assert "cut" in (await records(local))[-1]["reason"]


@pytest.mark.parametrize(
    "told", [{"status": "completed"}, {"stopReason": "end_turn"}, {"status": "incomplete"}], ids=str
)
async def test_a_summary_that_came_to_its_end_keeps_its_last_words(local: Faced, told: dict[str, Any]) -> None:
    await local.talk("s1", 6)
    reply = AIMessage("Ada chose the 9:40. It costs 3.5 euros", response_metadata=told)
    result = await local.compact("s1", Compaction(None, Summarize(ScriptedModel(replies=[reply]), keep_events=2)))
    assert (result.summary, result.reason) == ("Ada chose the 9:40. It costs 3.5 euros", None)


async def test_a_summary_that_was_cut_off_in_its_first_sentence_is_none(local: Faced) -> None:
    await local.talk("s1", 6)
    reply = AIMessage("Ada ch", response_metadata={"finish_reason": "length"})
    model = ScriptedModel(replies=[reply])
    result = await local.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert result.outcome is Outcome.SUMMARY_FAILED


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One. Two", "One."),
        ("One.\nTwo", "One."),
        ("- one\n- two\n- thr", "- one\n- two"),
        ("It is 3.5", ""),
        ("他买了票。然后", "他买了票。"),
        ("他说「好。」然后", "他说「好。」"),
        ('She said "I go." Then', 'She said "I go."'),
        ("She said “I go home.” Then", "She said “I go home.”"),
        ("(She left.) Then", "(She left.)"),
        ("वह जाती है। फिर वह", "वह जाती है।"),
        ("", ""),
    ],
)
def test_whole_sentences(text: str, kept: str) -> None:
    assert whole_sentences(text) == kept
    assert whole_sentences(HumanMessage(text).text) == kept


@pytest.mark.parametrize(
    ("said", "reason", "outcome", "summary"),
    [
        ("<think>hm. ok.</think>Ada likes trains.", "stop", Outcome.COMPACTED, "Ada likes trains."),
        ("hm. ok.\n</think>\n\nAda likes trains.", "stop", Outcome.COMPACTED, "Ada likes trains."),
        ("<think>hm. ok.</think>Ada likes trains. She w", "length", Outcome.COMPACTED, "Ada likes trains."),
        ("<think>The user wants. I should", "length", Outcome.SUMMARY_BLANK, None),
        ("<think>The user wants.", "stop", Outcome.SUMMARY_BLANK, None),
    ],
)
async def test_what_a_summariser_thought_aloud_is_no_summary(
    local: Faced, said: str, reason: str, outcome: Outcome, summary: str | None
) -> None:
    await local.talk("s1", 6)
    reply = AIMessage(said, response_metadata={"finish_reason": reason})
    result = await local.compact("s1", Compaction(None, Summarize(ScriptedModel(replies=[reply]), keep_events=2)))
    assert (result.outcome, result.summary) == (outcome, summary)


async def test_a_summary_that_was_cut_off_far_too_late_is_used_as_far_as_it_fits(local: Faced) -> None:
    await local.talk("s1", 90)
    reply = AIMessage("Ada likes trains. " * 1000, response_metadata={"finish_reason": "length"})
    result = await local.compact("s1", Compaction(None, Summarize(ScriptedModel(replies=[reply]), keep_events=2)))
    assert result.outcome is Outcome.COMPACTED
    assert 3_900 < len(result.summary or "") <= 4_000
    assert (result.summary or "").endswith("Ada likes trains.")


AS_TEXT = json.dumps(SUMMARY)


@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize(
    "said",
    [
        Truncated(CUT_IN_SUMMARY, 10, 5),
        Truncated(AS_TEXT, 10, 5),
        Say(f"Sure, {{here}}:\n```json\n{AS_TEXT}\n```"),
        Say(f"<think>The {{user}} wants {{}}.</think>\n{AS_TEXT}"),
        Say(AS_TEXT),
    ],
    ids=["cut", "whole", "fenced", "thought", "bare"],
)
async def test_what_the_client_raised_about_is_read(local: Faced, face: str, said: Any, *, responses: bool) -> None:
    """OpenAI's client parses structured output itself, before anybody can read the text."""
    local.face = face
    await local.talk("s1", 6)
    with OpenAIStub(may_quote=True) as stub:
        stub.script(said)
        model = ChatOpenAI(
            model="m", base_url=stub.base_url, api_key=SecretStr("k"), max_retries=0, use_responses_api=responses
        )
        result = await local.compact(
            "s1", Compaction(None, Summarize(model, keep_events=2, schema=ConversationSummary))
        )
        assert len(stub.requests) == 1
    cut = isinstance(said, Truncated) and said.text == CUT_IN_SUMMARY
    assert result.outcome is Outcome.COMPACTED
    assert result.summary == ("Ada chose the 9:40." if cut else "They chose a train.")
    assert ("cut" in (result.reason or "")) is cut


@pytest.mark.parametrize("said", [Fail(status=500, code="server_error"), Say("no JSON"), Say(" ")])
async def test_an_error_without_a_summary_stays_one(local: Faced, said: Any) -> None:
    await local.talk("s1", 6)
    with OpenAIStub(may_quote=True) as stub:
        stub.script(said, said)
        model = ChatOpenAI(model="m", base_url=stub.base_url, api_key=SecretStr("k"), max_retries=0)
        result = await local.compact(
            "s1", Compaction(None, Summarize(model, keep_events=2, schema=ConversationSummary))
        )
    assert result.outcome is Outcome.SUMMARY_FAILED


async def test_a_response_that_is_read_by_waiting_is_left_alone(local: Faced) -> None:
    class Response:
        content = object()  # a stream

        async def json(self) -> Any:
            """As that of aiohttp, which hangs on other clients' errors."""

    class RefusedError(Exception):
        response = Response()

    class Refusing(ScriptedModel):
        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            def refuse(messages: Any) -> Any:
                raise RefusedError

            return RunnableLambda(refuse)

    await local.talk("s1", 6)
    summarise = Summarize(Refusing(replies=[]), keep_events=2, schema=ConversationSummary)
    assert (await local.compact("s1", Compaction(None, summarise))).outcome is Outcome.SUMMARY_FAILED
