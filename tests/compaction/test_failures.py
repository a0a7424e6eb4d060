# ruff: noqa: ANN401 - stands in for what users pass, which may be anything
"""Whatever a summariser, a trigger or a strategy does: history stays, the answer comes, the run is recorded."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import (
    Compaction,
    CompactionPlan,
    CompactionResult,
    ConversationSummary,
    EventFilter,
    EventKind,
    Outcome,
    SlidingWindow,
    Summarize,
    Summary,
    SummaryLimits,
)
from tests.compaction.models import HangingModel, ScriptedModel, StrangeSummarizer

if TYPE_CHECKING:
    from langchain_sessions import SessionService
    from tests.compaction.conftest import Faced

BLANK, FAILED = Outcome.SUMMARY_BLANK, Outcome.SUMMARY_FAILED
CALL = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
SURPRISES: list[tuple[Any, Outcome]] = [
    (StrangeSummarizer(""), BLANK),
    (StrangeSummarizer("  \n "), BLANK),
    (StrangeSummarizer(None), BLANK),
    (StrangeSummarizer([]), BLANK),
    (StrangeSummarizer(Summary(text=" ")), BLANK),
    (StrangeSummarizer(42), FAILED),
    (StrangeSummarizer({"summary": "x"}), FAILED),
    (StrangeSummarizer(b"bytes"), FAILED),
    (StrangeSummarizer(object()), FAILED),
    (StrangeSummarizer(Summary(text=3)), FAILED),  # type: ignore[arg-type]
    (StrangeSummarizer(Summary(text="fine", details={"confidence": float("nan")})), FAILED),
    (StrangeSummarizer("x" * 20_000), FAILED),
    (ScriptedModel(replies=[""]), BLANK),
    (ScriptedModel(replies=[CALL]), BLANK),
    (ScriptedModel(replies=[AIMessage([])]), BLANK),
    (ScriptedModel(replies=["y" * 20_000]), FAILED),
    (ScriptedModel(replies=[RuntimeError("the provider is down, key sk-123")]), FAILED),
]


async def outcomes(ada: Faced) -> list[str]:
    page = await ada.events("s1", EventFilter(kinds=frozenset({EventKind.COMPACTION})))
    return [event.metadata["outcome"] for event in page.items]


@pytest.mark.parametrize(("summarizer", "outcome"), SURPRISES)
async def test_what_is_no_summary_never_replaces_history(local: Faced, summarizer: Any, outcome: Outcome) -> None:
    await local.talk("s1", 6)
    texts = await local.texts("s1")
    result = await local.compact("s1", Compaction(None, Summarize(summarizer, keep_events=2)))
    assert result.outcome is outcome
    assert result.archived == ()
    assert result.tokens_after == result.tokens_before
    assert "sk-123" not in str(result.reason)
    assert await local.texts("s1") == texts
    assert await outcomes(local) == [outcome.value]


async def test_a_model_that_raises(ada: Faced) -> None:
    await ada.talk("s1", 6)
    model = ScriptedModel(replies=[RuntimeError("down"), RuntimeError("down")])
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert (result.outcome, result.calls, len(model.prompts)) == (FAILED, 2, 2)
    assert result.reason == "the summariser raised RuntimeError"
    assert len(await ada.texts("s1")) == 12
    assert await outcomes(ada) == ["summary_failed"]
    assert await ada.verify("s1") == []


async def test_a_retry_helps(ada: Faced) -> None:
    await ada.talk("s1", 6)
    model = ScriptedModel(replies=[RuntimeError("down"), "Back again."])
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert (result.outcome, result.summary, result.calls) == (Outcome.COMPACTED, "Back again.", 2)


async def test_a_model_that_hangs_is_left_behind(ada: Faced) -> None:
    await ada.talk("s1", 6)
    model = HangingModel()
    limits = SummaryLimits(timeout=timedelta(milliseconds=50))
    try:
        result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2, limits=limits)))
    finally:
        model.release()
    assert (result.outcome, result.reason) == (FAILED, "no summary within 0.05 seconds")
    assert len(await ada.texts("s1")) == 12


async def test_after_a_failure_the_next_turns_do_not_pay_for_it_again(ada: Faced) -> None:
    await ada.talk("s1", 6)
    model = ScriptedModel(replies=[RuntimeError("down"), "Works."])
    compaction = Compaction(None, Summarize(model, keep_events=2, limits=SummaryLimits(retries=0)))
    assert (await ada.compact("s1", compaction, automatic=True)).outcome is FAILED
    later = await ada.compact("s1", compaction, automatic=True)
    assert (later.outcome, later.reason) == (Outcome.COOLING_DOWN, "a summary was paid for in vain lately")
    assert len(model.prompts) == 1
    assert await outcomes(ada) == ["summary_failed"]
    assert (await ada.compact("s1", compaction)).is_compacted  # by hand nobody waits


async def test_who_makes_way_for_a_run_at_work_waits_for_no_earlier_failure(
    ada: Faced, operator: SessionService
) -> None:
    await ada.talk("s1", 6)
    user, brief = operator.as_user("ada"), SummaryLimits(retries=0, cool_down=timedelta(0))
    heard: list[CompactionResult] = []

    def interfere() -> None:
        heard.append(user.compact("s1", Compaction(None, Summarize(ScriptedModel(), keep_events=2)), automatic=True))

    dead = Compaction(None, Summarize(ScriptedModel(replies=[RuntimeError("down")]), keep_events=2, limits=brief))
    assert (await ada.compact("s1", dead, automatic=True)).outcome is FAILED
    works = Compaction(None, Summarize(ScriptedModel().before_each(interfere), keep_events=2))
    assert (await ada.compact("s1", works, automatic=True)).is_compacted
    assert [result.outcome for result in heard] == [Outcome.LOST_RACE]


async def test_a_summary_that_saves_nothing_is_not_worth_it(ada: Faced) -> None:
    await ada.talk("s1", 3)
    model = ScriptedModel(replies=["word " * 700])
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert result.outcome is Outcome.NOT_WORTH_IT
    assert len(await ada.texts("s1")) == 6
    assert await outcomes(ada) == ["not_worth_it"]


async def test_too_little_to_pay_for_waits(ada: Faced) -> None:
    await ada.talk("s1", 12)
    model = ScriptedModel(replies=["A summary with quite a few words, which weigh more than a short turn does."])
    compaction = Compaction(None, Summarize(model, keep_events=2))
    assert (await ada.compact("s1", compaction, automatic=True)).is_compacted
    await ada.talk("s1", 1, first=12)
    assert (await ada.compact("s1", compaction, automatic=True)).outcome is Outcome.NOT_WORTH_IT
    assert len(model.prompts) == 1
    assert await outcomes(ada) == ["compacted"]
    await ada.talk("s1", 3, first=13)
    assert (await ada.compact("s1", compaction, automatic=True)).is_compacted


async def test_a_little_too_long_is_cut_at_a_sentence(local: Faced) -> None:
    await local.talk("s1", 9)
    model = ScriptedModel(replies=["One sentence. Another one. A third that is too long."])
    limits = SummaryLimits(max_characters=40)
    result = await local.compact("s1", Compaction(None, Summarize(model, keep_events=2, limits=limits)))
    assert result.summary == "One sentence. Another one."


class Broken:
    """Raises wherever it is asked."""

    def is_due(self, request: Any) -> bool:
        raise ZeroDivisionError

    def plan(self, request: Any) -> CompactionPlan:
        raise ZeroDivisionError


@pytest.mark.parametrize("compaction", [Compaction(Broken(), SlidingWindow(2)), Compaction(None, Broken())])
async def test_a_broken_trigger_or_strategy_costs_no_answer(local: Faced, compaction: Compaction) -> None:
    await local.talk("s1", 3)
    result = await local.compact("s1", compaction, automatic=True)
    assert (result.outcome, result.reason) == (Outcome.FAILED, "ZeroDivisionError was raised")
    assert await outcomes(local) == ["failed"]
    with pytest.raises(ZeroDivisionError):
        await local.compact("s1", compaction)


async def test_a_greedy_strategy_cannot_break_anything(local: Faced) -> None:
    class Everything:
        def plan(self, request: Any) -> CompactionPlan:
            return CompactionPlan(archive=[*request.events, *request.events])

    await local.talk("s1", 2)
    await local.append("s1", [HumanMessage("now"), CALL])
    result = await local.compact("s1", Compaction(None, Everything()))
    assert [event.seq for event in result.archived] == [1, 2, 3, 4]


async def test_a_structured_answer_that_does_not_fit(local: Faced) -> None:
    await local.talk("s1", 6)
    for reply in ('{"title": "no summary"}', "no json at all", "[1, 2]", '{"title": 3, "summary": {}}'):
        model = ScriptedModel(replies=[reply])
        how = Summarize(model, keep_events=2, schema=ConversationSummary)
        result = await local.compact("s1", Compaction(None, how))
        assert result.outcome is FAILED, reply
    assert (await local.get("s1")).title is None
    assert len(await local.texts("s1")) == 12


async def test_structured_summaries_have_a_maximal_length(local: Faced) -> None:
    await local.talk("s1", 60)
    schema = {"properties": {"summary": {"type": "string"}, "facts": {"type": "array"}}, "required": ["summary"]}
    reply = '{{"summary": "{}", "facts": ["{}"]}}'.format("A sentence. " * 120, "f" * 300)
    how = Summarize(ScriptedModel(replies=[reply]), keep_events=2, schema=schema)
    result = await local.compact("s1", Compaction(None, how))
    assert result.is_compacted
    assert result.summary is not None
    assert 900 < len(result.summary) <= 1_000


async def test_results_are_told_to_whoever_asked(local: Faced) -> None:
    heard: list[Outcome] = []
    await local.talk("s1", 6)
    compaction = Compaction(None, SlidingWindow(2), on_result=lambda result: heard.append(result.outcome))
    await local.compact("s1", compaction)
    await local.compact("s1", compaction)
    assert heard == [Outcome.COMPACTED, Outcome.NOTHING_TO_DO]


async def test_a_listener_that_raises_costs_no_answer(local: Faced) -> None:
    def complain(result: object) -> None:
        raise ZeroDivisionError

    await local.talk("s1", 6)
    compaction = Compaction(None, SlidingWindow(2), on_result=complain)
    assert (await local.compact("s1", compaction, automatic=True)).is_compacted
    with pytest.raises(ZeroDivisionError):
        await local.compact("s1", compaction)
    assert await outcomes(local) == ["compacted", "nothing_to_do"]
