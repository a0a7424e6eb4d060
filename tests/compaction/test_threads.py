"""Compaction of a LangGraph thread: the context shrinks, the graph's own state stays whole."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from langchain_sessions import Compaction, Elapsed, InMemoryStore, Outcome, SessionService, SlidingWindow, Summarize
from langchain_sessions.checkpointer import SessionCheckpointSaver
from tests.compaction.models import ScriptedModel

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

THREAD: RunnableConfig = {"configurable": {"thread_id": "t1"}}


def echo(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [AIMessage(f"heard {state['messages'][-1].text}")]}


def test_a_thread_keeps_its_state_and_shrinks_its_context() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("echo", echo)
    builder.add_edge(START, "echo")
    builder.add_edge("echo", END)
    with SessionService("sqlite://") as service:
        graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
        for n in range(8):
            graph.invoke({"messages": [HumanMessage(f"q{n}")]}, THREAD)
        compaction = Compaction(None, Summarize(ScriptedModel(replies=["ALL OF IT."]), keep_events=4))
        assert len(service.compact("t1", compaction).archived) == 12
        shown = [str(message.text) for message in service.messages("t1")]
        assert shown[1:] == ["ALL OF IT.", "q6", "heard q6", "q7", "heard q7"]
        graph.invoke({"messages": [HumanMessage("q8")]}, THREAD)
        assert len(graph.get_state(THREAD).values["messages"]) == 18
        assert [str(message.text) for message in service.messages("t1")] == [*shown, "q8", "heard q8"]
        assert service.compact("t1", compaction).is_compacted
        assert len(service.messages("t1")) == 6
        assert service.verify("t1") == []


def test_elapsed_goes_by_the_compaction_in_force() -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)
    service = SessionService(InMemoryStore(), clock=lambda: now)
    service.open("s1")
    compaction = Compaction(Elapsed(timedelta(hours=1)), SlidingWindow(2))
    for _ in range(3):
        for n in range(3):
            service.append("s1", [HumanMessage(f"question {n}"), AIMessage("answer")])
        assert service.compact("s1", compaction).outcome is Outcome.NOT_TRIGGERED
        now += timedelta(hours=1)
        assert service.compact("s1", compaction).outcome is Outcome.COMPACTED
    service.rewind("s1", to_seq=2)  # no compaction is in force any more: the session's beginning counts
    service.append("s1", HumanMessage("and now?"))
    assert service.compact("s1", compaction).outcome is not Outcome.NOT_TRIGGERED
