# ruff: noqa: ANN401 - stands in for what users pass, which may be anything
"""What a compaction costs, in statements and in steps of the database's own machine: no clock is asked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import create_engine, event
from sqlalchemy.pool import StaticPool

from langchain_sessions import (
    Compaction,
    ContextUsage,
    Elapsed,
    EventCount,
    Outcome,
    SessionService,
    SlidingWindow,
    Summarize,
    TokenCount,
    TurnCount,
)
from tests.compaction.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_sessions import CompactionTrigger

_IDLE = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")


class Meter:
    """What SQLite did: its statements, and the steps of its virtual machine."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.steps = 0

    def attach(self, connection: Any, record: Any) -> None:
        connection.set_trace_callback(self._statement)
        connection.set_progress_handler(self._step, 10)

    def _statement(self, text: str) -> None:
        if not text.startswith(_IDLE):
            self.statements.append(text)

    def _step(self) -> int:
        self.steps += 1
        return 0

    def of(self, act: Callable[[], Any]) -> tuple[list[str], int]:
        """The statements and the steps of one act."""
        self.statements, self.steps = [], 0
        act()
        return self.statements, self.steps


@pytest.fixture
def metered(tmp_path: Path) -> Iterator[tuple[SessionService, Meter]]:
    meter = Meter()
    engine = create_engine(f"sqlite:///{tmp_path}/chat.db", poolclass=StaticPool)
    event.listen(engine, "connect", meter.attach)
    service = SessionService(engine, create_schema=True)
    service.open("s1")
    service.append("s1", [HumanMessage("hello"), AIMessage("hi")])
    yield service, meter
    service.close()
    engine.dispose()


def fill(service: SessionService, turns: int, branch: str | None = None) -> None:
    for start in range(0, turns, 250):
        batch = [
            m for n in range(start, min(start + 250, turns)) for m in (HumanMessage(f"q {n}"), AIMessage(f"a {n}"))
        ]
        service.append("s1", batch, branch=branch)


@pytest.mark.parametrize("branch", [None, "orch"])
@pytest.mark.parametrize(
    "trigger",
    [
        TurnCount(10**6),
        EventCount(10**6),
        TokenCount(10**9),
        ContextUsage(1.0, context_window=10**9),
        Elapsed(timedelta(days=9)),
        TurnCount(10**6) | (EventCount(10**6) & Elapsed(timedelta(days=9))),
    ],
)
def test_deciding_not_to_compact(
    metered: tuple[SessionService, Meter], trigger: CompactionTrigger, branch: str | None
) -> None:
    service, meter = metered
    fill(service, 1_000, branch)
    compaction = Compaction(trigger, SlidingWindow(20))
    assert service.compact("s1", compaction, branch=branch).outcome is Outcome.NOT_TRIGGERED
    statements, steps = meter.of(lambda: service.compact("s1", compaction, branch=branch))
    assert len(statements) <= 2
    assert not any("body" in text or "folded" in text for text in statements)
    fill(service, 1_000, branch)
    _, later = meter.of(lambda: service.compact("s1", compaction, branch=branch))
    assert later <= steps + 5


def test_a_window_costs_what_it_holds_whatever_the_age_of_the_log(metered: tuple[SessionService, Meter]) -> None:
    service, meter = metered
    compaction = Compaction(None, SlidingWindow(20))
    costs = []
    for _ in range(12):
        fill(service, 100)
        costs.append(meter.of(lambda: service.compact("s1", compaction))[1])
    assert max(costs[2:]) <= 1.2 * min(costs[1:])


def test_a_hundred_compactions_do_not_slow_down_the_context(metered: tuple[SessionService, Meter]) -> None:
    service, meter = metered
    compaction = Compaction(None, Summarize(ScriptedModel(), keep_events=20))
    first = 0
    for n in range(100):
        fill(service, 50)
        assert service.compact("s1", compaction).is_compacted
        if n == 0:
            _, first = meter.of(lambda: service.messages("s1"))
    assert service.get("s1").version > 10_000
    assert first > 0
    statements, last = meter.of(lambda: service.messages("s1"))
    assert last <= 1.2 * first
    assert len(statements) <= 4
    assert len(service.messages("s1")) == 22
