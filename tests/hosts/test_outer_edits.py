"""Issue 17, items 4 to 6: what a middleware before ours makes of a request is shown in that call, and never stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as lc
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_sessions import (
    Compaction,
    EventFilter,
    SessionCheckpointSaver,
    SessionMemoryMiddleware,
    SessionService,
    Standing,
    TurnCount,
    TurnWindow,
)
from tests.hosts.test_neighbours import ORDERS, SAVERS, Strict, clearing, weather

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import RunnableConfig

QUESTIONS = ("hi", "weather?", "thanks", "weather?", "bye")
CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}
CLEARED, SUNNY = "[cleared]", "sunny in Paris"


class Changing(AgentMiddleware[Any, Any, Any]):
    """Changes the messages of each call."""

    def __init__(self, change: Callable[[list[Any]], list[Any]]) -> None:
        self.change = change

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(messages=self.change(list(request.messages))))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=self.change(list(request.messages))))


def agent_of(model: Strict, chain: list[Any], saver: str, sessions: SessionService) -> Any:
    savers = {
        "SessionCheckpointSaver": SessionCheckpointSaver(sessions),
        "InMemorySaver": InMemorySaver(),
        "none": None,
    }
    return create_agent(model, [weather], middleware=chain, checkpointer=savers[saver])


def converse(chain: list[Any], saver: str, sessions: SessionService, questions: tuple[str, ...] = QUESTIONS) -> Strict:
    model = Strict()
    agent = agent_of(model, chain, saver, sessions)
    for question in questions:
        agent.invoke({"messages": [HumanMessage(question)]}, CONFIG)
    return model


def logged(sessions: SessionService) -> list[BaseMessage]:
    events = sessions.events("t")
    return [event.message for event in events if event.message and event.standing is not Standing.SUPERSEDED]


def assert_never_stored(text: str, sessions: SessionService) -> None:
    """No event says it, superseded revisions included."""
    said = [
        event.message.text
        for event in sessions.events("t", EventFilter(standings=frozenset(Standing)))
        if event.message
    ]
    assert said
    assert text not in said


def texts(messages: list[BaseMessage]) -> list[str]:
    return [message.text for message in messages if message.type != "system"]


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_cleared_for_a_call_is_logged_whole(order: str, saver: str) -> None:
    with SessionService("sqlite://") as sessions:
        chain = [clearing(), SessionMemoryMiddleware(sessions)]
        model = converse(chain if order == "before" else chain[::-1], saver, sessions)
        results = [message.text for message in logged(sessions) if isinstance(message, ToolMessage)]
        assert results == [SUNNY, SUNNY]
        assert_never_stored(CLEARED, sessions)
        assert sessions.verify("t") == []
    # Without a state that holds earlier turns, who stands before ours has seen only the turn at hand.
    sees_all = saver != "none" or order == "behind"
    assert (SUNNY in texts(model.prompts[-1])) is not sees_all
    assert any(CLEARED in texts(prompt) for prompt in model.prompts)


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ending", ["continue", "end"])
def test_what_a_limit_answered_is_logged_whole_though_it_is_cleared(ending: Any, order: str, saver: str) -> None:
    """The limit's results never pass our tools, so the log has them of the state alone: `[cleared]` stood for them."""
    with SessionService("sqlite://") as sessions:
        chain = [clearing(), SessionMemoryMiddleware(sessions)]
        limit = lc.ToolCallLimitMiddleware(run_limit=0, exit_behavior=ending)
        model = converse([limit, *(chain if order == "before" else chain[::-1])], saver, sessions)
        results = [message.text for message in logged(sessions) if isinstance(message, ToolMessage)]
        assert len(results) == 2 or (ending == "end" and saver == "none")  # which nobody told us of
        assert all("limit exceeded" in text for text in results)
        assert_never_stored(CLEARED, sessions)
    assert model.prompts


@pytest.mark.parametrize("saver", SAVERS)
def test_an_added_message_is_shown_in_its_place_and_never_stored(saver: str) -> None:
    def reminded(messages: list[Any]) -> list[Any]:
        return [*messages[:-1], HumanMessage("the date is today"), messages[-1], HumanMessage("be brief")]

    with SessionService("sqlite://") as sessions:
        model = converse([Changing(reminded), SessionMemoryMiddleware(sessions)], saver, sessions, ("hi", "bye"))
        assert texts(logged(sessions)) == ["hi", "answer 1", "bye", "answer 2"]
    said = "\n".join(texts(model.prompts[-1]))
    assert said.split("\n")[-3:] == ["the date is today", "bye", "be brief"]
    assert said.count("the date is today") == 1
    assert "hi" in said


@pytest.mark.parametrize("saver", SAVERS)
def test_a_changed_question_is_shown_changed_and_stored_as_it_was_said(saver: str) -> None:
    def louder(messages: list[Any]) -> list[Any]:
        return [m.model_copy(update={"content": m.text.upper()}) if m.type == "human" else m for m in messages]

    with SessionService("sqlite://") as sessions:
        model = converse([Changing(louder), SessionMemoryMiddleware(sessions)], saver, sessions, ("hi", "bye"))
        assert texts(logged(sessions)) == ["hi", "answer 1", "bye", "answer 2"]
    first = "hi" if saver == "none" else "HI"  # which nobody but the log holds
    assert texts(model.prompts[-1]) == [first, "answer 1", "BYE"]


@pytest.mark.parametrize("saver", ["SessionCheckpointSaver", "InMemorySaver"])
def test_what_is_left_out_of_a_call_is_not_brought_back_by_the_log(saver: str) -> None:
    with SessionService("sqlite://") as sessions:
        chain = [Changing(lambda messages: messages[-1:]), SessionMemoryMiddleware(sessions)]
        model = converse(chain, saver, sessions, ("hi", "how are you", "bye"))
        assert texts(logged(sessions)) == ["hi", "answer 1", "how are you", "answer 2", "bye", "answer 3"]
    assert [texts(prompt) for prompt in model.prompts] == [["hi"], ["how are you"], ["bye"]]


def test_a_summary_made_for_a_call_stands_for_what_it_left_out() -> None:
    def summarized(messages: list[Any]) -> list[Any]:
        summary = HumanMessage("SUMMARY", additional_kwargs={"lc_source": "summarization"})
        return [summary, *messages[-2:]] if len(messages) > 2 else messages

    with SessionService("sqlite://") as sessions:
        chain = [Changing(summarized), SessionMemoryMiddleware(sessions)]
        model = converse(chain, "InMemorySaver", sessions, ("hi", "how are you", "bye"))
        assert "SUMMARY" not in texts(logged(sessions))
    assert texts(model.prompts[-1]) == ["SUMMARY", "answer 2", "bye"]


def test_a_system_message_among_the_messages_is_part_of_the_system_prompt() -> None:
    with SessionService("sqlite://") as sessions:
        chain = [Changing(lambda messages: [*messages, SystemMessage("be brief")]), SessionMemoryMiddleware(sessions)]
        model = converse(chain, "InMemorySaver", sessions, ("hi", "bye"))
    assert [message.text for message in model.prompts[-1]] == ["be brief", "hi", "answer 1", "bye"]


@pytest.mark.parametrize("saver", SAVERS)
def test_what_was_compacted_away_does_not_come_back_with_an_edit(saver: str) -> None:
    def reminded(messages: list[Any]) -> list[Any]:
        return [HumanMessage("the rules"), *(m.model_copy(update={"name": "x"}) for m in messages)]

    with SessionService("sqlite://") as sessions:
        memory = SessionMemoryMiddleware(sessions, compaction=Compaction(TurnCount(3), TurnWindow(max_turns=1)))
        model = converse([Changing(reminded), memory], saver, sessions, ("a", "b", "c", "d", "e"))
        assert [m.text for m in logged(sessions) if isinstance(m, HumanMessage)] == ["a", "b", "c", "d", "e"]
    shown = "\n".join(texts(model.prompts[-1])).split("\n")
    assert shown.count("the rules") == 1
    assert "a" not in shown


@pytest.mark.parametrize("saver", SAVERS)
async def test_the_async_face_does_the_same(saver: str) -> None:
    with SessionService("sqlite://") as sessions:
        model = Strict()
        chain = [lc.ToolCallLimitMiddleware(run_limit=0), clearing(), SessionMemoryMiddleware(sessions)]
        agent = agent_of(model, chain, saver, sessions)
        for question in QUESTIONS:
            await agent.ainvoke({"messages": [HumanMessage(question)]}, CONFIG)
        assert_never_stored(CLEARED, sessions)
    assert any(CLEARED in texts(prompt) for prompt in model.prompts)


class Mumbling(Strict):
    """Makes a call of which nobody can read the arguments."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Any:
        result = super()._generate(messages, *args, **options)
        if messages[-1].text == "weather?":
            broken = {"name": "weather", "args": "{", "id": "broken", "error": "no JSON", "type": "invalid_tool_call"}
            result.generations[0].message = AIMessage("", invalid_tool_calls=[broken])
        return result


def test_results_that_the_agent_gives_to_unreadable_calls_are_said() -> None:
    """`create_agent` puts them into each request and into no state."""
    with SessionService("sqlite://") as sessions:
        agent = agent_of(Mumbling(), [SessionMemoryMiddleware(sessions)], "InMemorySaver", sessions)
        for question in ("hi", "weather?", "bye"):
            agent.invoke({"messages": [HumanMessage(question)]}, CONFIG)
        assert [message.type for message in logged(sessions)] == ["human", "ai", "human", "ai", "tool", "human", "ai"]
