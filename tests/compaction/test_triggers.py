# ruff: noqa: ANN401 - stands in for what users pass, which may be anything
from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from langchain_core.messages import SystemMessage

from langchain_sessions import (
    CompactionRequest,
    ContextUsage,
    Elapsed,
    EstimatedTokenCounter,
    EventCount,
    ModelCall,
    Session,
    TokenCount,
    TurnCount,
    all_of,
    any_of,
)
from langchain_sessions._core.rows import Counters
from langchain_sessions.errors import InvalidInputError
from tests.compaction.models import ScriptedModel

NOON = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)
SESSION = Session(
    id="s1", app="default", user_id="ada", title=None, created_at=NOON, updated_at=NOON, expires_at=None, ended_at=None
)
TOOL = {"name": "look", "description": "Looks things up. " * 20, "parameters": {"type": "object", "properties": {}}}


def request(**given: Any) -> CompactionRequest:
    counters = Counters(given.pop("events", 0), given.pop("turns", 0), given.pop("tokens", 0))
    return CompactionRequest(
        **{
            "session": SESSION,
            "scope": None,
            "counters": counters,
            "now": NOON,
            "counter": EstimatedTokenCounter(),
            **given,
        }
    )


def test_turns_fire_above_and_tokens_and_events_at_the_number() -> None:
    assert not TurnCount(3).is_due(request(turns=3))
    assert TurnCount(3).is_due(request(turns=4))
    assert not TokenCount(100).is_due(request(tokens=99))
    assert TokenCount(100).is_due(request(tokens=100))
    assert not EventCount(5).is_due(request(events=4))
    assert EventCount(5).is_due(request(events=5))


def test_system_prompt_and_tool_schemas_count() -> None:
    call = ModelCall(system=SystemMessage("Be kind. " * 30), tools=[TOOL])
    overhead = request(call=call).overhead_tokens
    assert overhead > 100
    assert TokenCount(100 + overhead).is_due(request(tokens=100, call=call))
    assert not TokenCount(101 + overhead).is_due(request(tokens=100, call=call))


@pytest.mark.parametrize(
    ("trigger", "call", "window"),
    [
        (ContextUsage(context_window=1_000), ModelCall(context_window=2_000), 1_000),
        (ContextUsage(), ModelCall(context_window=2_000), 2_000),
        (ContextUsage(), ModelCall(model=ScriptedModel(profile={"max_input_tokens": 3_000})), 3_000),
        (ContextUsage(model=ScriptedModel(profile={"max_input_tokens": 4_000})), ModelCall(), 4_000),
        (ContextUsage(), ModelCall(model=ScriptedModel(profile={})), 8_192),
        (ContextUsage(), ModelCall(model=ScriptedModel()), 8_192),
        (ContextUsage(), ModelCall(), 8_192),
    ],
)
def test_the_window_is_what_was_said_else_what_the_model_says_else_small(
    trigger: ContextUsage, call: ModelCall, window: int
) -> None:
    assert trigger.window(request(call=call)) == window
    limit = -(-window * 6 // 10)
    assert trigger.is_due(request(events=2, tokens=limit, call=call))
    assert not trigger.is_due(request(events=2, tokens=limit - 1, call=call))


def test_no_fraction_means_every_turn() -> None:
    assert ContextUsage(0).is_due(request(events=1, tokens=1))
    assert not ContextUsage(0).is_due(request())


def test_elapsed_counts_from_the_compaction_in_force_else_from_the_beginning() -> None:
    hour = timedelta(hours=1)
    assert Elapsed(hour).is_due(request(events=1, now=NOON + hour))
    assert not Elapsed(hour).is_due(request(events=1, now=NOON + hour, last_compacted_at=NOON + hour / 2))
    assert not Elapsed(hour).is_due(request(now=NOON + hour))


def test_triggers_combine() -> None:
    few, many = TurnCount(100), TurnCount(1)
    state = request(turns=5)
    assert (few | many).is_due(state)
    assert any_of(few, many).is_due(state)
    assert not (few & many).is_due(state)
    assert all_of(many, EventCount(1)).is_due(request(turns=5, events=1))


def test_combinations_ask_no_further_than_they_must() -> None:
    class Never:
        def is_due(self, request: CompactionRequest) -> bool:
            raise AssertionError

    assert (TurnCount(1) | Never()).is_due(request(turns=5))
    assert not (TurnCount(9) & Never()).is_due(request(turns=5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TurnCount(0),
        lambda: TokenCount(0),
        lambda: EventCount(-1),
        lambda: ContextUsage(60),
        lambda: ContextUsage(0.5, context_window=0),
        lambda: Elapsed(timedelta(0)),
        any_of,
        all_of,
    ],
)
def test_nonsense_is_refused(make: Any) -> None:
    with pytest.raises(InvalidInputError):
        make()
