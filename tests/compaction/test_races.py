"""Compactions beside other writers: nothing is lost, one of many applies, and none waits for a quiet moment."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import (
    Compaction,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EventCount,
    EventFilter,
    EventKind,
    Outcome,
    SlidingWindow,
    Standing,
    Summarize,
    TurnCount,
)
from langchain_sessions._log.log import log_of
from tests.compaction.models import ScriptedModel

if TYPE_CHECKING:
    from langchain_sessions import SessionService
    from tests.compaction.conftest import Faced

SHADOW = "Summarise our conversation so far."


async def test_what_is_appended_while_the_summariser_runs_stays(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 5)
    model = ScriptedModel().before_each(lambda: void(operator.as_user("ada").append("s1", HumanMessage("meanwhile"))))
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert result.is_compacted
    assert result.is_rebased
    assert await ada.texts("s1") == [SHADOW, "They talked.", "question 4", "answer 4", "meanwhile"]
    assert "meanwhile" not in model.shown


def void(_: object) -> None:
    """Nothing of it."""


async def test_an_edit_of_what_is_being_summarised_wins(ada: Faced, operator: SessionService) -> None:
    await ada.append("s1", [HumanMessage("my pin is 1234", id="m1"), AIMessage("noted")])
    await ada.talk("s1", 3)
    user = operator.as_user("ada")
    model = ScriptedModel().before_each(lambda: void(user.edit("s1", HumanMessage("my pin is secret", id="m1"))))
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert result.outcome is Outcome.LOST_RACE
    assert (await ada.texts("s1"))[0] == "my pin is secret"
    assert len(await ada.texts("s1")) == 8


async def test_a_rewind_of_what_is_being_summarised_wins(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 5)
    model = ScriptedModel().before_each(lambda: void(operator.as_user("ada").rewind("s1", to_seq=4)))
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert result.outcome is Outcome.LOST_RACE
    assert len(await ada.texts("s1")) == 4


async def test_of_two_compactors_exactly_one_applies(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 5)
    user = operator.as_user("ada")
    other: list[CompactionResult] = []

    def interfere() -> None:
        other.append(user.compact("s1", Compaction(None, Summarize(ScriptedModel(replies=["OTHER."]), keep_events=2))))

    model = ScriptedModel().before_each(interfere)
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)))
    assert (result.outcome, other[0].outcome) == (Outcome.LOST_RACE, Outcome.COMPACTED)
    assert (await ada.texts("s1"))[1] == "OTHER."
    kinds = frozenset({EventKind.COMPACTION})
    records = (await ada.events("s1", EventFilter(kinds=kinds))).items
    assert [record.metadata["outcome"] for record in records] == ["compacted", "lost_race"]


async def test_a_run_that_nobody_asked_for_makes_way(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 5)
    user, idle = operator.as_user("ada"), ScriptedModel()
    other: list[CompactionResult] = []

    def interfere() -> None:
        other.append(user.compact("s1", Compaction(None, Summarize(idle, keep_events=2)), automatic=True))

    model = ScriptedModel().before_each(interfere)
    result = await ada.compact("s1", Compaction(None, Summarize(model, keep_events=2)), automatic=True)
    assert (result.outcome, other[0].outcome) == (Outcome.COMPACTED, Outcome.LOST_RACE)
    assert idle.prompts == []


async def test_eight_compactors_at_once(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 10)
    user = operator.as_user("ada")
    start = threading.Barrier(8, timeout=20)
    compaction = Compaction(None, Summarize(ScriptedModel().before_each(lambda: void(start.wait())), keep_events=2))
    with ThreadPoolExecutor(8) as pool:
        results = [run.result() for run in [pool.submit(user.compact, "s1", compaction) for _ in range(8)]]
    assert sorted(result.outcome.value for result in results) == ["compacted", *["lost_race"] * 7]
    assert len(await ada.texts("s1")) == 4
    assert await ada.verify("s1") == []


async def test_compactions_get_through_beside_four_writers(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 5)
    user = operator.as_user("ada")
    compaction = Compaction(EventCount(20), Summarize(ScriptedModel(), keep_events=6))
    done = threading.Event()

    def write(writer: int) -> None:
        for n in range(40):
            user.append("s1", [HumanMessage(f"w{writer}-{n}"), AIMessage("ok")])

    def compact() -> list[CompactionResult]:
        results: list[CompactionResult] = []
        while not done.is_set():
            results.append(user.compact("s1", compaction))
            done.wait(0.005)
        return [*results, user.compact("s1", compaction)]

    with ThreadPoolExecutor(5) as pool:
        compactor = pool.submit(compact)
        for writer in [pool.submit(write, n) for n in range(4)]:
            writer.result()
        done.set()
        outcomes = [result.outcome for result in compactor.result()]
    assert Outcome.COMPACTED in outcomes
    assert set(outcomes) <= {Outcome.COMPACTED, Outcome.NOT_TRIGGERED}
    events = (await ada.events("s1", EventFilter(kinds=frozenset({EventKind.MESSAGE}), synthetic=False))).items
    assert len(events) == 10 + 4 * 40 * 2
    texts = {event.message.text for event in events}
    assert all(f"w{writer}-{n}" in texts for writer in range(4) for n in range(40))
    shown = [event for event in (await ada.context("s1")).events if not event.is_synthetic]
    assert [event.seq for event in shown] == [event.seq for event in events if event.standing is Standing.LIVE]
    assert await ada.verify("s1") == []


async def test_one_background_run_of_a_scope_at_a_time(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 5)
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        leave.wait(10)

    heard: list[CompactionResult] = []
    compaction = Compaction(
        TurnCount(2),
        Summarize(ScriptedModel().before_each(wait), keep_events=2),
        where="background",
        on_result=heard.append,
    )
    assert await ada.compact_later("s1", compaction)
    await asyncio.to_thread(entered.wait, 10)
    assert not await ada.compact_later("s1", compaction)
    assert len(await ada.texts("s1")) == 10  # nobody waits for it
    leave.set()
    assert await log_of(ada.service).background.adrain(timedelta(seconds=10).total_seconds())
    assert [result.outcome for result in heard] == [Outcome.COMPACTED]
    assert len(await ada.texts("s1")) == 4


async def test_two_processes_do_not_pay_for_the_same_summary(ada: Faced, operator: SessionService) -> None:
    """Another service over the same store stands for another process."""
    await ada.talk("s1", 5)
    store = log_of(operator).store
    now = log_of(operator).now()
    assert store.lease_scope(log_of(ada.service).key("s1"), None, "elsewhere", now, now + 60_000_000)
    model = ScriptedModel()
    heard: list[CompactionResult] = []
    compaction = Compaction(None, Summarize(model, keep_events=2), where="background", on_result=heard.append)
    await ada.compact_later("s1", compaction)
    await log_of(ada.service).background.adrain(10)
    assert [result.outcome for result in heard] == [Outcome.LOST_RACE]
    assert model.prompts == []
    store.lease_scope(log_of(ada.service).key("s1"), None, "elsewhere", now, now)  # given back
    await ada.compact_later("s1", compaction)
    await log_of(ada.service).background.adrain(10)
    assert heard[-1].is_compacted


async def test_whoever_gets_the_lease_late_looks_again_before_paying(ada: Faced, operator: SessionService) -> None:
    """Another run loads, pays, commits and gives the lease back between this run's choice and its lease."""
    await ada.talk("s1", 5)
    user, model = operator.as_user("ada"), ScriptedModel()
    how = Summarize(ScriptedModel(replies=["OTHER."]), keep_events=2)

    class Slow:
        def plan(self, request: CompactionRequest) -> CompactionPlan:
            plan = Summarize(model, keep_events=2).plan(request)
            if not any(event.is_synthetic for event in request.events):
                assert user.compact("s1", Compaction(None, how), automatic=True).is_compacted
            return plan

    result = await ada.compact("s1", Compaction(None, Slow()), automatic=True)
    assert result.outcome is Outcome.NOTHING_TO_DO
    assert model.prompts == []


async def test_a_lease_ends_by_itself(ada: Faced, operator: SessionService) -> None:
    store, key, now = log_of(operator).store, log_of(ada.service).key("s1"), log_of(operator).now()
    assert store.lease_scope(key, None, "one", now, now + 10)
    assert not store.lease_scope(key, None, "two", now + 9, now + 20)
    assert store.lease_scope(key, "orch", "two", now, now + 20)
    assert store.lease_scope(key, None, "one", now + 9, now + 30)
    assert not store.lease_scope(key, None, "two", now + 29, now + 40)
    assert store.lease_scope(key, None, "two", now + 30, now + 40)
    assert await store.alease_scope(key, None, "three", now + 40, now + 41)


async def test_closing_waits_for_what_runs(ada: Faced, operator: SessionService) -> None:
    await ada.talk("s1", 5)
    compaction = Compaction(None, SlidingWindow(2), where="background")
    heard: list[CompactionResult] = []
    gate = threading.Event()
    model = ScriptedModel().before_each(lambda: void(gate.wait(10)))
    slow = Compaction(None, Summarize(model, keep_events=2), where="background", on_result=heard.append)
    assert await ada.compact_later("s1", slow)
    threading.Timer(0.05, gate.set).start()
    if ada.face == "async":
        await operator.aclose()
    else:
        await asyncio.to_thread(log_of(operator).background.drain, close=True)
    assert [result.outcome for result in heard] == [Outcome.COMPACTED]
    assert not await ada.compact_later("s1", compaction)


async def test_a_cancelled_run_gives_its_lease_back(ada: Faced) -> None:
    await ada.talk("s1", 5)
    entered, leave = asyncio.Event(), asyncio.Event()

    class Slow:
        async def asummarize(self, task: object) -> str:
            entered.set()
            await leave.wait()
            return "never"

        def summarize(self, task: object) -> str:
            raise NotImplementedError

    compaction = Compaction(None, Summarize(Slow(), keep_events=2))
    run = asyncio.create_task(ada.service.acompact("s1", compaction, automatic=True))
    await entered.wait()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert run.cancelled()
    after = Compaction(None, Summarize(ScriptedModel(), keep_events=2))
    assert (await ada.compact("s1", after, automatic=True)).is_compacted
