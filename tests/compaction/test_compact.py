"""What a compaction does to a session, on every backend and through both faces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions import (
    Compaction,
    ConversationSummary,
    EventFilter,
    EventKind,
    Interval,
    NewEvent,
    Outcome,
    SessionNotFoundError,
    SlidingWindow,
    Standing,
    Summarize,
    TurnCount,
)
from tests.compaction.models import ScriptedModel

if TYPE_CHECKING:
    from langchain_sessions import SessionService
    from tests.compaction.conftest import Faced

RECORDS = EventFilter(kinds=frozenset({EventKind.COMPACTION}))
SHADOW = "Summarise our conversation so far."


async def all_events(ada: Faced, **criteria: Any) -> list[Any]:
    page = await ada.events("s1", EventFilter(**criteria))
    return list(page.items)


async def test_a_window_archives_and_loses_nothing(ada: Faced) -> None:
    for n in range(5):
        await ada.append("s1", HumanMessage(f"note {n}"))
    result = await ada.compact("s1", Compaction(None, SlidingWindow(2)))
    assert result.outcome is Outcome.COMPACTED
    assert [event.seq for event in result.archived] == [1, 2, 3]
    assert all(event.standing is Standing.ARCHIVED for event in result.archived)
    assert await ada.texts("s1") == ["note 3", "note 4"]
    log = await all_events(ada, kinds=frozenset({EventKind.MESSAGE}))
    assert [event.message.text for event in log] == [f"note {n}" for n in range(5)]
    assert [event.standing for event in log] == [Standing.ARCHIVED] * 3 + [Standing.LIVE] * 2
    assert [event.seq for event in await all_events(ada, keyword="note 1")] == [2]
    assert await ada.verify("s1") == []


async def test_a_summary_stands_in_the_place_of_what_it_covers(ada: Faced) -> None:
    await ada.talk("s1", 8)
    model = ScriptedModel(replies=["They asked and answered six times."])
    result = await ada.compact("s1", Compaction(TurnCount(5), Summarize(model, keep_events=4)))
    assert result.outcome is Outcome.COMPACTED
    assert (result.calls, result.summary) == (1, "They asked and answered six times.")
    assert await ada.texts("s1") == [SHADOW, result.summary, "question 6", "answer 6", "question 7", "answer 7"]
    context = await ada.context("s1")
    question, answer = context.events[:2]
    assert question.timestamp == answer.timestamp
    assert question.is_synthetic
    assert answer.is_synthetic
    assert question.covers == answer.covers == ((1, 12),)
    assert answer.metadata["source"] == "Summarize"
    assert context.tokens == result.tokens_after
    counters = await ada.count("s1")
    assert counters.tokens == result.tokens_after
    assert counters.turns == 2
    assert result.tokens_saved == result.tokens_before - result.tokens_after > 0


async def test_every_run_leaves_a_record(ada: Faced) -> None:
    await ada.talk("s1", 6)
    compaction = Compaction(TurnCount(5), Summarize(ScriptedModel(), keep_events=4))
    result = await ada.compact("s1", compaction)
    await ada.compact("s1", compaction, force=True)
    done, idle = await all_events(ada, kinds=RECORDS.kinds)
    assert done.seq == result.record
    assert done.covers == ((1, 8),)
    expected = {
        "outcome": "compacted",
        "strategy": "Summarize",
        "trigger": "TurnCount",
        "where": "before",
        "archived": 8,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "calls": 1,
    }
    assert expected.items() <= done.metadata.items()
    assert idle.metadata["outcome"] == "nothing_to_do"
    assert (await ada.compact("s1", compaction)).outcome is Outcome.NOT_TRIGGERED
    assert len(await all_events(ada, kinds=RECORDS.kinds)) == 2


async def test_a_second_summary_folds_the_first_one_in(ada: Faced) -> None:
    await ada.append("s1", [HumanMessage("hello"), AIMessage("hi")])
    model = ScriptedModel(replies=["FIRST summary.", "SECOND summary."])
    compaction = Compaction(None, Summarize(model, keep_events=2, overlap=1))
    await ada.talk("s1", 2)
    await ada.compact("s1", compaction)
    await ada.talk("s1", 2, first=2)
    await ada.compact("s1", compaction)
    _, request = model.prompts[1]
    assert "FIRST summary." in request.text
    assert SHADOW not in request.text
    for line in ("question 1", "answer 1", "question 2", "answer 2"):
        assert line in request.text
    before, upcoming = request.text.split("for orientation only", 1)
    assert "question 3" in upcoming
    assert "question 3" not in before
    assert "answer 3" not in request.text
    assert await ada.texts("s1") == [SHADOW, "SECOND summary.", "question 3", "answer 3"]
    summaries = [event for event in await all_events(ada) if event.is_synthetic and event.message.type == "ai"]
    assert [event.covers for event in summaries] == [((1, 4),), ((1, 6), (10, 11))]
    assert [event.standing for event in summaries] == [Standing.ARCHIVED, Standing.LIVE]


async def test_nothing_new_means_no_call(ada: Faced) -> None:
    await ada.talk("s1", 4)
    model = ScriptedModel()
    compaction = Compaction(None, Summarize(model, keep_events=2, overlap=1))
    await ada.compact("s1", compaction)
    texts = await ada.texts("s1")
    assert (await ada.compact("s1", compaction, force=True)).outcome is Outcome.NOTHING_TO_DO
    assert len(model.prompts) == 1
    assert await ada.texts("s1") == texts


async def test_a_rewind_into_the_range_restores_it(ada: Faced) -> None:
    await ada.talk("s1", 3)
    original = await ada.texts("s1")
    compaction = Compaction(None, Summarize(ScriptedModel(replies=["ONE.", "TWO."]), keep_events=2, overlap=1))
    await ada.compact("s1", compaction)
    narrow = await ada.texts("s1")
    version = (await ada.get("s1")).version
    await ada.talk("s1", 2, first=3)
    await ada.compact("s1", compaction)
    assert await ada.texts("s1") == [SHADOW, "TWO.", "question 4", "answer 4"]
    await ada.rewind("s1", to_seq=version)  # into the range of the wider one: the narrower comes back
    assert await ada.texts("s1") == narrow
    await ada.undo_rewind("s1")
    assert await ada.texts("s1") == [SHADOW, "TWO.", "question 4", "answer 4"]
    await ada.rewind("s1", to_seq=4)  # to just behind what the first one covers: it is still in force
    assert await ada.texts("s1") == [SHADOW, "ONE."]
    await ada.rewind("s1", to_seq=2)  # into the range of both
    assert await ada.texts("s1") == original[:2]
    assert await ada.verify("s1") == []


async def test_rewound_events_are_not_shown_to_the_summariser(ada: Faced) -> None:
    await ada.talk("s1", 3)
    await ada.append("s1", HumanMessage("the secret plan"))
    await ada.rewind("s1", to_seq=6)
    await ada.talk("s1", 2, first=3)
    model = ScriptedModel()
    await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2, overlap=1)))
    assert "secret" not in model.shown
    assert "question 2" in model.shown


async def test_branches_are_compacted_apart(ada: Faced) -> None:
    await ada.talk("s1", 3)
    for branch in ("orch", "orch.writer"):
        for n in range(3):
            await ada.append("s1", [HumanMessage(f"{branch} asks {n}"), AIMessage(f"{branch} says {n}")], branch=branch)
    model = ScriptedModel(replies=["The writer wrote."])
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)), branch="orch.writer")
    assert result.scope == "orch.writer"
    assert len(result.archived) == 4
    assert "question 0" not in model.shown
    assert "orch asks" not in model.shown
    assert "The writer wrote." in await ada.texts("s1", branch="orch.writer")
    for viewer in (None, "orch", "orch.reader"):
        assert "The writer wrote." not in await ada.texts("s1", branch=viewer)
    assert len(await ada.texts("s1", branch="orch")) == 12
    await ada.compact("s1", Compaction(None, Summarize(ScriptedModel(replies=["ROOT."]), keep_events=2)))
    for viewer in (None, "orch", "orch.writer"):
        assert "ROOT." in await ada.texts("s1", branch=viewer)
    assert await ada.verify("s1") == []


async def test_a_branch_that_holds_no_human_is_compacted_too(ada: Faced) -> None:
    for n in range(4):
        call = AIMessage("", tool_calls=[{"name": "look", "args": {"n": n}, "id": f"c{n}"}])
        await ada.append(
            "s1", [call, ToolMessage("found", tool_call_id=f"c{n}"), AIMessage(f"done {n}")], branch="orch.worker"
        )
    result = await ada.compact("s1", Compaction(None, SlidingWindow(3)), branch="orch.worker")
    assert len(result.archived) == 9


async def test_the_running_turn_and_its_open_call_stay(ada: Faced) -> None:
    await ada.talk("s1", 2)
    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
    await ada.append("s1", [HumanMessage("look it up"), call])
    result = await ada.compact("s1", Compaction(None, SlidingWindow(1)))
    assert len(result.archived) == 4
    await ada.append("s1", ToolMessage("found", tool_call_id="c1"))
    assert [message.type for message in await ada.messages("s1")] == ["human", "ai", "tool"]


async def test_an_open_invocation_stays_and_another_cannot_see_it(ada: Faced) -> None:
    await ada.talk("s1", 3)
    async with ada.service.invocation("s1") as run:
        await run.aappend([HumanMessage("running question")])
        result = await ada.compact("s1", Compaction(None, SlidingWindow(1)), invocation_id=run.id)
        assert len(result.archived) == 6
        assert [m.text for m in await ada.messages("s1", invocation_id=run.id)] == ["running question"]


async def test_an_open_long_running_call_keeps_its_place(ada: Faced) -> None:
    call = AIMessage("", tool_calls=[{"name": "approve", "args": {}, "id": "c1"}])
    await ada.append("s1", [HumanMessage("book it"), NewEvent(message=call, long_running_tool_ids=("c1",))])
    await ada.talk("s1", 3)
    compaction = Compaction(None, Summarize(ScriptedModel(), keep_events=2, overlap=1))
    result = await ada.compact("s1", compaction)
    assert [event.seq for event in result.archived] == [3, 4, 5, 6]
    await ada.append("s1", ToolMessage("approved", tool_call_id="c1"))
    assert [message.type for message in await ada.messages("s1")] == ["human", "ai", "tool", *["human", "ai"] * 2]
    await ada.talk("s1", 3, first=3)
    result = await ada.compact("s1", compaction)  # answered: the pair goes together
    assert {1, 2} <= {event.seq for event in result.archived}
    assert "approve" not in str(await ada.messages("s1"))


async def test_the_newest_system_message_stays_and_replaces_older_ones(ada: Faced) -> None:
    await ada.append("s1", SystemMessage("old rules"))
    await ada.talk("s1", 2)
    await ada.append("s1", SystemMessage("new rules"))
    await ada.talk("s1", 3, first=2)
    await ada.compact("s1", Compaction(None, SlidingWindow(2)))
    assert await ada.texts("s1") == ["new rules", "question 4", "answer 4"]


async def test_intervals(ada: Faced) -> None:
    compaction = Compaction(None, Summarize(ScriptedModel(), window=Interval(every=3, overlap=1)))
    sizes = []
    for n in range(8):
        await ada.talk("s1", 1, first=n)
        sizes.append(len((await ada.compact("s1", compaction, automatic=True)).archived))
    assert sizes == [0, 0, 4, 0, 0, 6, 0, 0]


async def test_structured_summaries_reach_the_session(ada: Faced) -> None:
    await ada.update("s1", metadata={"ticket": 7})
    await ada.talk("s1", 4)
    fields: dict[str, Any] = {
        "title": "Asking and\nanswering",
        "keywords": ["question", "answer"],
        "summary": "They talked.",
        "key_points": ["Four questions."],
        "key_facts": ["Ada is 36."],
        "sentiment": "neutral",
        "confidence": 0.9,
    }
    model = ScriptedModel(replies=[ConversationSummary(**fields).model_dump_json()])
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2, schema=ConversationSummary)))
    assert result.summary == "They talked.\n\nKey points:\n- Four questions.\n\nKey facts:\n- Ada is 36."
    session = await ada.get("s1")
    assert session.title == result.title == "Asking and answering"
    assert session.metadata["keywords"] == ["question", "answer"]
    assert session.metadata["ticket"] == 7
    summary = (await ada.context("s1")).events[1]
    assert summary.metadata["summary"] == {
        name: fields[name] for name in ("key_points", "key_facts", "sentiment", "confidence")
    }


async def test_a_title_of_the_users_own_stays(ada: Faced) -> None:
    await ada.talk("s1", 4)
    model = ScriptedModel(replies=['{"title": "One", "summary": "a"}', '{"title": "Two", "summary": "b"}'])
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "summary": {"type": "string"}}}
    compaction = Compaction(None, Summarize(model, keep_events=2, schema=schema))
    await ada.compact("s1", compaction)
    assert (await ada.get("s1")).title == "One"
    await ada.talk("s1", 2, first=4)
    await ada.compact("s1", compaction)
    assert (await ada.get("s1")).title == "Two"
    await ada.update("s1", title="My own")
    await ada.talk("s1", 2, first=6)
    await ada.compact("s1", compaction)
    assert (await ada.get("s1")).title == "My own"


async def test_the_same_prompt_after_a_restart(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 6)
    await ada.compact("s1", Compaction(None, Summarize(ScriptedModel(), keep_events=2)))
    first = await ada.messages("s1")
    assert await operator.as_user("ada").amessages("s1") == first


async def test_a_stranger_finds_nothing_to_compact(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 6)
    with pytest.raises(SessionNotFoundError):
        await operator.as_user("grace").acompact("s1", Compaction(None, SlidingWindow(2)))
    with pytest.raises(SessionNotFoundError):
        await operator.as_user("grace").acompact("s1", Compaction(None, SlidingWindow(2)), automatic=True)
    assert len(await ada.texts("s1")) == 12


async def test_facts_survive_five_compactions(ada: Faced) -> None:
    model = ScriptedModel()
    compaction = Compaction(None, Summarize(model, keep_events=6))
    for round_ in range(5):
        for n in range(6):
            fact = round_ * 6 + n
            await ada.append("s1", [HumanMessage(f"fact-{fact:03d} holds"), AIMessage("noted")])
        assert (await ada.compact("s1", compaction)).is_compacted
    for fact in range(30):
        assert len(await all_events(ada, keyword=f"fact-{fact:03d}", synthetic=False)) == 1
    archived = [
        event for event in await all_events(ada) if event.standing is Standing.ARCHIVED and not event.is_synthetic
    ]
    assert all(event.message.text in model.shown for event in archived)
