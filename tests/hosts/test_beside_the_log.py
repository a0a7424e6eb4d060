"""Issue 17, items 4 to 6: what a graph's state holds beside the log, and what the log holds beside the state."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as lc
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

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


@pytest.fixture(params=["SessionCheckpointSaver", "InMemorySaver"])
def saver_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


@pytest.mark.parametrize("limit", [no_more_models, no_more_tools])
def test_item_6_a_turn_that_a_limit_ended_stands_though_nobody_goes_on_for_days(saver_name: str, limit: Any) -> None:
    """Its run was idle for longer than `invocation_timeout` when somebody came back: only the thread knows its end."""
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with SessionService("sqlite://", clock=lambda: now) as sessions:
        saver: Any = InMemorySaver() if saver_name == "InMemorySaver" else SessionCheckpointSaver(sessions)
        agent, model = agent_of(sessions, saver, limit())
        for question in ("hi", "weather?", "thanks", "bye"):
            say(agent, question)
            now += timedelta(days=1)
        state = [message.id for message in agent.get_state(CONFIG).values["messages"]]
        assert [message.id for message in sessions.messages("t")] == state
        assert last(model)[2] == "weather?"
        assert {event.standing for event in sessions.events("t") if event.message} == {Standing.LIVE}
        assert sessions.verify("t") == []


class Apology(lc.AgentMiddleware):
    """Answers in place of a model that fails."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ConnectionError:
            return AIMessage("sorry")


def test_item_6_a_turn_whose_model_failed_stands_where_somebody_answered(sessions: SessionService, saver: Any) -> None:
    agent, model = agent_of(sessions, saver, Apology())
    model.failures = 1
    say(agent, "one", "two")
    assert last(model) == ["one", "sorry", "two"]
    assert [message.text for message in sessions.messages("t")] == ["one", "sorry", "two", "answer 2"]
    assert sessions.verify("t") == []


class Note(lc.AgentMiddleware):
    """Says more about a result than the tool did."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = handler(request)
        return result.model_copy(update={"content": f"note: {result.content}"})


def test_item_6_of_a_turn_that_a_limit_ended_every_result_stands_as_the_state_has_it(
    sessions: SessionService, saver: Any
) -> None:
    """One of two results never passed ours, and the other in other words."""

    class Both(Strict):
        def _generate(self, messages: Any, *given: Any, **options: Any) -> Any:
            result = super()._generate(messages, *given, **options)
            for call in list(getattr(result.generations[0].message, "tool_calls", ())):
                result.generations[0].message.tool_calls.append({**call, "id": f"{call['id']}b"})  # type: ignore[attr-defined]
            return result

    model = Both()
    tools_limit = lc.ToolCallLimitMiddleware(tool_name="weather", run_limit=1)
    chain: list[Any] = [Note(), tools_limit, no_more_models(), SessionMemoryMiddleware(sessions)]
    agent: Any = create_agent(model, [weather], middleware=chain, checkpointer=saver)
    say(agent, "weather?", "thanks")
    state = [(message.id, message.text) for message in agent.get_state(CONFIG).values["messages"]]
    assert sorted((m.id, m.text) for m in sessions.messages("t")) == sorted(state)
    assert [text for text in last(model) if "note" in text] == ["note: sunny in Paris"]
    assert any(text.startswith("Tool call limit") for text in last(model))
    assert sessions.verify("t") == []


class Guard(lc.AgentMiddleware):
    """Refuses some questions itself, before a model is asked."""

    @lc.hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        del runtime
        if "bad" not in state["messages"][-1].text:
            return None
        return {"messages": [AIMessage("not that")], "jump_to": "end"}


class Cache(lc.AgentMiddleware):
    """Answers what was asked before."""

    @lc.hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        del runtime
        if "known" not in state["messages"][-1].text:
            return None
        return {"messages": [AIMessage("as before")], "jump_to": "end"}


QUESTIONS = ("hi", "bad one", "known one", "weather?", "a question")


@pytest.mark.parametrize("seed", range(8))
def test_item_6_what_was_answered_is_logged_whoever_answered(sessions: SessionService, saver: Any, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seed makes a scenario
    others: list[Any] = [Guard(), Cache()]
    if chance.random() < 0.5:
        others += [no_more_models(), lc.ToolCallLimitMiddleware(tool_name="weather", thread_limit=1)]
    chance.shuffle(others)
    agent, _ = agent_of(sessions, saver, *others)
    for _ in range(7):
        say(agent, chance.choice(QUESTIONS))
        if chance.random() < 0.2:
            sessions.append("t", [HumanMessage("beside"), AIMessage("it")])
    say(agent, "thanks")
    held = [message.id for message in agent.get_state(CONFIG).values["messages"]]
    logged = [event.message.id for event in sessions.events("t") if event.message and event.message.id]
    assert [one for one in logged if one in held] == held
    assert len(set(logged)) == len(logged)
    assert {event.standing for event in sessions.events("t") if event.message} == {Standing.LIVE}
    assert sessions.verify("t") == []


def test_item_6_a_guards_answers_are_found_and_shown(sessions: SessionService) -> None:
    agent, model = agent_of(sessions, InMemorySaver(), Guard(), Cache(), human="ada", author="bot")
    say(agent, "bad ferry", "known harbour", "hi")
    for _ in range(2):
        said = ["bad ferry", "not that", "known harbour", "as before", "hi"]
        assert last(model)[:5] == said
        say(agent, "and?")
    found = sessions.search("ferry", session_id="t").items[0].event
    assert (found.author, found.seq) == ("ada", 1)
    sessions.rewind("t", to_seq=2)
    say(agent, "again")
    assert last(model) == ["bad ferry", "not that", "again"]


def test_item_6_few_shots_of_a_graph_that_keeps_no_thread_are_not_logged(sessions: SessionService) -> None:
    agent, model = agent_of(sessions, None)
    examples = [HumanMessage("2 + 2"), AIMessage("4")]
    for question in ("3 + 3", "4 + 4"):
        agent.invoke({"messages": [*examples, HumanMessage(question)]}, CONFIG)
    assert last(model) == ["2 + 2", "4", "3 + 3", "answer 1", "4 + 4"]
    assert len([event for event in sessions.events("t") if event.message]) == 4


def test_item_6_a_state_is_known_however_long_ago_it_was_said(sessions: SessionService) -> None:
    agent, model = agent_of(sessions, InMemorySaver())
    say(agent, "one", "two")
    for number in range(60):
        sessions.append("t", [AIMessage("so") if at % 2 else HumanMessage(f"else {number}") for at in range(20)])
    size = len(sessions.events("t"))
    say(agent, "three")
    assert last(model)[:4] == ["one", "answer 1", "two", "answer 2"]
    assert last(model).count("one") == 1
    assert len(sessions.events("t")) == size + 2
    sessions.rewind("t", to_seq=2)
    for number in range(60):
        sessions.append("t", [AIMessage("so") if at % 2 else HumanMessage(f"then {number}") for at in range(10)])
    say(agent, "four")
    assert "two" not in last(model)
    assert last(model)[-1] == "four"


class Facts(lc.AgentMiddleware):
    """Says something between a tool's result and the answer, as people do who look things up."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        del runtime
        return {"messages": [HumanMessage("facts")]} if state["messages"][-1].type == "tool" else None


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_ours", [True, False])
async def test_item_6_what_is_said_in_the_middle_of_a_turn_does_not_end_it(
    service: SessionService, *, is_ours: bool, is_first: bool, is_async: bool
) -> None:
    model, ours = Strict(), SessionMemoryMiddleware(service)
    chain: Any = [Facts(), ours] if is_first else [ours, Facts()]
    saver: Any = SessionCheckpointSaver(service) if is_ours else InMemorySaver()
    agent: Any = create_agent(model, [weather], middleware=chain, checkpointer=saver)

    async def ask(question: str) -> None:
        given = {"messages": question}
        await agent.ainvoke(given, CONFIG) if is_async else agent.invoke(given, CONFIG)

    await ask("weather?")
    turn = ["weather?", "sunny in Paris", "facts"]  # no provider takes a question right behind a result
    assert last(model) == turn
    await ask("thanks")
    later = [text for text in last(model) if text]
    # What a checkpoint logged in the middle of a run stands behind that run.
    assert later in ([*turn, "answer 2", "thanks"], *([[*turn[:2], "answer 2", "facts", "thanks"]] if is_ours else []))
    said = [event for event in service.events("t") if event.message]
    assert [event.standing for event in said] == [Standing.LIVE] * 7
    assert len({event.invocation_id for event in said if isinstance(event.message, AIMessage)}) == 2
    assert service.verify("t") == []


def test_item_6_what_is_said_when_a_turn_goes_on_does_not_end_it(sessions: SessionService, saver: Any) -> None:
    """Somebody agreed to a call, perhaps days later: the tool acts in another run of the graph."""
    model, ours = Strict(), SessionMemoryMiddleware(sessions)
    asks = lc.HumanInTheLoopMiddleware({"weather": True})
    agent = create_agent(model, [weather], middleware=[Facts(), ours, asks], checkpointer=saver)
    say(agent, "weather?")
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert last(model) == ["weather?", "sunny in Paris", "facts"]
    assert {event.standing for event in sessions.events("t") if event.message} == {Standing.LIVE}


def test_item_6_siblings_on_branches_share_one_list(sessions: SessionService) -> None:
    """Two agents of one graph, each on a branch of the session, over another library's saver."""
    models = {name: Strict() for name in ("left", "right")}
    builder: Any = StateGraph(MessagesState)
    for name, model in models.items():
        ours = SessionMemoryMiddleware(sessions, branch=name)
        builder.add_node(name, create_agent(model, [weather], middleware=[ours], name=name))
    builder.add_node("between", lambda _: {"messages": [HumanMessage("and you?")]})
    builder.add_edge(START, "left").add_edge("left", "between").add_edge("between", "right")
    graph = builder.compile(checkpointer=InMemorySaver())
    for question in ("one", "two"):
        graph.invoke({"messages": question}, CONFIG)
    state = [message.text for message in graph.get_state(CONFIG).values["messages"]]
    for name in models:
        branches = [event.branch for event in sessions.events("t") if event.message and event.branch == name]
        assert branches, name
    logged = [event.message.id for event in sessions.events("t") if event.message and event.message.id]
    assert len(set(logged)) == len(logged), "nothing is logged twice"
    assert len(state) == 8
    assert {event.branch for event in sessions.events("t") if event.message} <= {None, "left", "right"}
    for name, model in models.items():
        prompt = [message.text for message in model.prompts[-1]]
        # What a sibling stored on its branch is shown while it is new; later turns of it are the sibling's.
        assert prompt.count("two") == 1, name
        assert prompt.count("one") == (name == "left"), name
