"""Issue 17, items 4 to 6: what a graph's state holds beside the log, and what the log holds beside the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as lc
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_sessions import (
    Compaction,
    SessionCheckpointSaver,
    SessionMemoryMiddleware,
    SessionService,
    Standing,
    TurnCount,
    TurnWindow,
)
from tests.hosts.test_neighbours import Strict, weather

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def sessions() -> Iterator[SessionService]:
    with SessionService("sqlite://") as service:
        yield service


@pytest.fixture(params=["SessionCheckpointSaver", "InMemorySaver"])
def saver(request: pytest.FixtureRequest, sessions: SessionService) -> Any:
    return InMemorySaver() if request.param == "InMemorySaver" else SessionCheckpointSaver(sessions)


def agent_of(
    sessions: SessionService, saver: Any, *others: Any, tools: Any = (weather,), **options: Any
) -> tuple[Any, Strict]:
    model = Strict()
    chain = [*others, SessionMemoryMiddleware(sessions, **options)]
    return create_agent(model, list(tools), middleware=chain, checkpointer=saver), model


def say(agent: Any, *questions: str) -> None:
    for question in questions:
        agent.invoke({"messages": question}, CONFIG)


def last(model: Strict) -> list[str]:
    return [message.text for message in model.prompts[-1]]


def busy(sessions: SessionService) -> None:
    """Somebody else says a lot on the same session."""
    for number in range(8):
        sessions.append("t", [HumanMessage(f"else {number}"), AIMessage(f"so {number}")])


def test_item_6_what_a_state_holds_is_shown_once_however_much_others_said_since(
    sessions: SessionService, saver: Any
) -> None:
    agent, model = agent_of(sessions, saver)
    say(agent, "one", "two")
    busy(sessions)
    say(agent, "three")
    assert last(model)[:4] == ["one", "answer 1", "two", "answer 2"]
    assert len(last(model)) == 4 + 16 + 1


def test_item_6_what_was_compacted_stays_away_however_much_others_said_since(
    sessions: SessionService, saver: Any
) -> None:
    agent, model = agent_of(sessions, saver)
    say(agent, "one", "two")
    busy(sessions)
    sessions.compact("t", Compaction(TurnCount(1), TurnWindow(max_turns=2)), force=True)
    say(agent, "three")
    assert last(model) == ["else 6", "so 6", "else 7", "so 7", "three"]


def test_item_6_a_turn_goes_on_though_others_said_a_lot_meanwhile(sessions: SessionService, saver: Any) -> None:
    @tool("weather")
    def slow(city: str) -> str:
        """The weather."""
        busy(sessions)
        return f"sunny in {city}"

    agent, model = agent_of(sessions, saver, tools=[slow])
    say(agent, "hi", "weather?")
    assert last(model) == ["hi", "answer 1", "weather?", "", "sunny in Paris"]
    say(agent, "weather?")
    assert last(model)[-3:] == ["weather?", "", "sunny in Paris"]
    assert {event.standing.value for event in sessions.events("t")} == {"live"}
    asked = [message for message in sessions.messages("t") if message.type == "tool"]
    assert len(asked) == 2


def test_item_6_what_was_rewound_is_not_shown_from_a_state_that_holds_it(sessions: SessionService) -> None:
    agent, model = agent_of(sessions, InMemorySaver())
    say(agent, "one", "two", "three")
    sessions.rewind("t", to_seq=2)
    say(agent, "four")
    assert last(model) == ["one", "answer 1", "four"]
    sessions.rewind("t", to_seq=0)
    say(agent, "five")
    assert last(model) == ["five"]
    say(agent, "six")
    assert last(model) == ["five", "answer 5", "six"]


def no_more_models() -> Any:
    return lc.ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")


def no_more_tools() -> Any:
    return lc.ToolCallLimitMiddleware(tool_name="weather", thread_limit=0, exit_behavior="end")


@pytest.mark.parametrize(("limit", "ending"), [(no_more_models, "sunny in Paris"), (no_more_tools, "limit exceeded")])
def test_item_6_a_turn_that_a_limit_ends_is_remembered(
    sessions: SessionService, saver: Any, limit: Any, ending: str
) -> None:
    agent, model = agent_of(sessions, saver, limit())
    say(agent, "hi", "weather?", "thanks")
    for question in ("thanks", "bye"):
        prompt = last(model)
        assert prompt[:4] == ["hi", "answer 1", "weather?", ""]
        assert ending in prompt[4]
        assert "limit" in prompt[5]
        assert prompt[-1] == question
        say(agent, "bye")
    events = [event for event in sessions.events("t") if event.message is not None]
    assert {event.standing for event in events} == {Standing.LIVE}
    assert len(events) == len(agent.get_state(CONFIG).values["messages"])
    assert sessions.verify("t") == []
