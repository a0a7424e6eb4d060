"""Issue 17, item 4: saver and middleware write one log, in any order, and the graph's newest revision stands."""

from __future__ import annotations

import operator
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from langchain_sessions import EventFilter, InvocationStatus, NewEvent, SessionCheckpointSaver, SessionService, Standing
from langchain_sessions._chat.address import Address
from langchain_sessions._chat.store_run import append_all, store_messages
from langchain_sessions._core.flow import drive
from langchain_sessions.memory import SessionMemoryAdvisor

if TYPE_CHECKING:
    from collections.abc import Callable

RAW, REDACTED, REPLY = "my mail is ada@example.com", "my mail is [REDACTED]", "noted"
SAVER: tuple[tuple[str, ...], ...] = ((RAW,), (REDACTED,), (REDACTED, REPLY))
MEMORY = ((REDACTED, InvocationStatus.OPEN), (REPLY, InvocationStatus.DONE))
ORDERS = list(combinations(range(len(SAVER) + len(MEMORY)), len(MEMORY)))


def message(text: str) -> BaseMessage:
    return AIMessage(text, id="r") if text == REPLY else HumanMessage(text, id="q")


class Writers:
    """A graph whose saver lags behind, and the memory of its model, on one thread."""

    def __init__(self, sessions: SessionService) -> None:
        self.sessions = sessions
        self.saver = SessionCheckpointSaver(sessions)
        self.config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        self.step = 0

    def put(self, *texts: str) -> None:
        self.step += 1
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": [message(text) for text in texts]}
        checkpoint["channel_versions"] = {"messages": self.step}
        metadata: Any = {"source": "loop", "step": self.step}
        self.config = self.saver.put(self.config, checkpoint, metadata, {"messages": self.step})

    def keep(self, text: str, status: InvocationStatus) -> None:
        self.sessions.open("t")
        events = [NewEvent(message=message(text))]
        drive(append_all(Address(self.sessions, "t"), events, invocation_id="q", invocation_status=status))


@pytest.mark.parametrize("turns_of_memory", ORDERS)
def test_item_4_every_order_of_saver_and_middleware(service: SessionService, turns_of_memory: tuple[int, ...]) -> None:
    writers = Writers(service)
    puts = iter([lambda texts=texts: writers.put(*texts) for texts in SAVER])
    keeps = iter([lambda each=each: writers.keep(*each) for each in MEMORY])
    acts: list[Callable[[], None]] = [next(keeps if n in turns_of_memory else puts) for n in range(5)]
    for act in acts:
        act()
    stands = {str(event.message.text): event.standing for event in service.events("t") if event.message}
    assert stands.pop(RAW, Standing.SUPERSEDED) is Standing.SUPERSEDED
    assert stands == {REDACTED: Standing.LIVE, REPLY: Standing.LIVE}
    assert [each.text for each in service.messages("t")] == [REDACTED, REPLY]
    assert not any(
        "example" in (hit.event.message or AIMessage("")).text for hit in service.search("mail", session_id="t")
    )
    old = service.events("t", EventFilter(standings=frozenset({Standing.SUPERSEDED}))).items
    assert all(event.superseded_by is not None for event in old)
    assert service.verify("t") == []
    assert service.count("t").events == 2
    found = writers.saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert found is not None
    assert [each.text for each in found.checkpoint["channel_values"]["messages"]] == [REDACTED, REPLY]


@pytest.mark.parametrize("saver_first", [True, False])
@pytest.mark.parametrize("branch", [None, "orch.helper"])
def test_item_4_the_task_of_a_sub_agent_is_logged_once(
    service: SessionService, branch: str | None, *, saver_first: bool
) -> None:
    """Its saver logs it for the subgraph's branch, its memory for the agent's."""
    writers = Writers(service)
    writers.put(RAW)
    options = SessionMemoryAdvisor(service, branch=branch).options
    writers.config["configurable"]["checkpoint_ns"] = "tools:1"
    writers.config["configurable"].pop("checkpoint_id")

    def kept() -> None:
        task = [HumanMessage("a task", id="task")]
        drive(store_messages(options, Address(service, "t"), task, InvocationStatus.DONE, invocation_id="task"))

    def put() -> None:
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": [HumanMessage("a task", id="task")]}
        checkpoint["channel_versions"] = {"messages": 1}
        writers.saver.put(writers.config, checkpoint, {"source": "loop", "step": 1}, {"messages": 1})

    for act in (put, kept) if saver_first else (kept, put):
        act()
    kept()
    tasks = [event for event in service.events("t") if event.message and event.message.text == "a task"]
    live = [event for event in tasks if event.standing is Standing.LIVE]
    assert [(event.branch, event.message and event.message.id) for event in live] == [(branch, "task")]
    assert {event.standing for event in tasks} <= {Standing.LIVE, Standing.SUPERSEDED}
    assert [each.text for each in service.messages("t", branch=branch)][-1] == "a task"
    assert service.verify("t") == []


@pytest.mark.backends("memory", "sqlite")
def test_item_4_what_was_replaced_is_for_the_operator(service: SessionService) -> None:
    strict = service
    strict._log = _hiding(service)
    ada = strict.as_user("ada")
    ada.create(session_id="s")
    ada.append("s", HumanMessage(RAW, id="q"))
    ada.edit("s", HumanMessage(REDACTED, id="q"))
    superseded = EventFilter(standings=frozenset({Standing.SUPERSEDED}))
    said = [[event.message.text for event in view.events("s") if event.message] for view in (strict, ada)]
    assert said == [[RAW, REDACTED], [REDACTED]]
    assert len(strict.events("s", superseded).items) == 1
    assert ada.events("s", superseded).items == ()
    for where in (None, superseded, EventFilter(standings=frozenset(Standing))):
        hits = ada.search("mail ada", session_id="s", where=where)
        assert not any("example" in str(hit) for hit in hits)
    assert len(strict.search("mail", session_id="s", where=superseded).items) == 1


def _hiding(service: SessionService) -> Any:
    from dataclasses import replace  # noqa: PLC0415

    return replace(service._log, hide_superseded=True)


class Hooked(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    llm_input_messages: list[AnyMessage]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_a_hook_cut_for_the_model_is_no_revision_of_what_was_said(
    service: SessionService, durability: Any
) -> None:
    """LangGraph's `pre_model_hook` gives the model copies of messages under their ids, in a channel beside them."""

    def cut(state: Hooked) -> dict[str, Any]:
        return {
            "llm_input_messages": [m.model_copy(update={"content": f"cut {m.text[:3]}"}) for m in state["messages"]]
        }

    def answer(state: Hooked) -> dict[str, Any]:
        return {"messages": [AIMessage(f"so {state['llm_input_messages'][-1].text}")]}

    builder: Any = StateGraph(Hooked)
    builder.add_node("cut", cut).add_node("answer", answer).add_edge(START, "cut").add_edge("cut", "answer")
    config: Any = {"configurable": {"thread_id": "t"}}
    for text in ("one", "two"):
        graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
        graph.invoke({"messages": [HumanMessage(text)]}, config, durability=durability)
    state = builder.compile(checkpointer=SessionCheckpointSaver(service)).get_state(config).values
    assert [m.text for m in state["llm_input_messages"]] == ["cut one", "cut so ", "cut two"]
    assert [m.text for m in service.messages("t")] == [m.text for m in state["messages"]]
    assert [event.message.text for event in service.events("t") if event.message] == [m.text for m in state["messages"]]
    assert service.verify("t") == []


def test_two_messages_of_one_id_that_come_at_once_are_counted_once(service: SessionService) -> None:
    """A channel that is no list of messages alone: the second one takes the place of the first."""

    class Mixed(TypedDict):
        messages: Annotated[list[Any], operator.add]

    said = {"messages": [AIMessage("one", id="a"), AIMessage("two", id="a"), "no message"]}
    builder: Any = StateGraph(Mixed)
    builder.add_node("say", lambda _: said).add_edge(START, "say")
    graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
    assert graph.invoke({"messages": []}, {"configurable": {"thread_id": "t"}}) == said
    assert [event.standing for event in service.events("t")] == [Standing.SUPERSEDED, Standing.LIVE]
    assert service.verify("t") == []
