"""Search over what a graph stored, on every backend: live, removed, edited, compacted; each hit says which."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolCall
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send

from langchain_sessions import EventFilter, NewEvent, SessionCheckpointSaver, create_conversation_search_tool
from langchain_sessions.events import Standing
from langchain_sessions.testing.archiving import archive

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from langchain_sessions import SessionService

pytestmark = pytest.mark.backends("sqlite", "postgres", "mariadb")

CONFIG: Any = {"configurable": {"thread_id": "t1", "user_id": "ada"}}


def graph_over(service: SessionService) -> CompiledStateGraph[Any, Any, Any, Any]:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"noted: {state['messages'][-1].text}", id=f"a{len(state['messages'])}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.set_entry_point("answer")
    return builder.compile(checkpointer=SessionCheckpointSaver(service))


def standings(service: SessionService, query: str, **options: Any) -> dict[str, Standing]:
    page = service.as_user("ada").search(query, session_id="t1", **options)
    return {hit.text: hit.event.standing for hit in page if hit.highlights}


def test_what_a_graph_removed_is_found_and_labelled(service: SessionService) -> None:
    graph = graph_over(service)
    graph.invoke({"messages": [HumanMessage("the kettle is red", id="h1")]}, CONFIG)
    graph.invoke({"messages": [HumanMessage("the pan is blue", id="h2")]}, CONFIG)
    assert standings(service, "kettle") == {
        "the kettle is red": Standing.LIVE,
        "noted: the kettle is red": Standing.LIVE,
    }
    graph.update_state(CONFIG, {"messages": [RemoveMessage(id="h1")]})
    for mode in ("ranked", "literal"):
        found = standings(service, "kettle", mode=mode)
        assert found == {"the kettle is red": Standing.DETACHED, "noted: the kettle is red": Standing.LIVE}
    answer = json.loads(create_conversation_search_tool(service).invoke({"query": "kettle"}, CONFIG))
    assert {result["text"]: result.get("standing") for result in answer["results"] if "kettle" in result["text"]} == {
        "the kettle is red": "detached",
        "noted: the kettle is red": None,
    }


def test_an_edit_in_a_graph_hides_what_it_replaced(service: SessionService) -> None:
    graph = graph_over(service)
    graph.invoke({"messages": [HumanMessage("the kettle is red", id="h1")]}, CONFIG)
    graph.update_state(CONFIG, {"messages": [HumanMessage("the kettle is green", id="h1")]})
    assert set(standings(service, "kettle")) == {"the kettle is green", "noted: the kettle is red"}
    every = EventFilter(standings=frozenset(Standing))
    assert standings(service, "kettle", where=every)["the kettle is red"] is Standing.SUPERSEDED


def test_what_was_compacted_beside_a_graph_is_found(service: SessionService) -> None:
    graph = graph_over(service)
    graph.invoke({"messages": [HumanMessage("the kettle is red", id="h1")]}, CONFIG)
    graph.invoke({"messages": [HumanMessage("something else", id="h2")]}, CONFIG)
    ada = service.as_user("ada")
    context = ada.context("t1")
    first = [event.seq for event in context.events][:2]
    archive(ada, "t1", first, base=context, summary=[NewEvent(message=AIMessage("They spoke of a kettle."))])
    found = standings(service, "kettle")
    assert found["the kettle is red"] is Standing.ARCHIVED
    assert found["They spoke of a kettle."] is Standing.LIVE
    assert set(standings(service, "kettle", where=EventFilter(archived=True))) == {
        "the kettle is red",
        "noted: the kettle is red",
    }
    (summary,) = [hit for hit in ada.search("kettle", session_id="t1") if hit.event.is_synthetic]
    assert [event.seq for event in summary.covered] == first


@pytest.mark.parametrize("sealed", [False, True])
def test_a_call_that_waits_keeps_no_private_argument(service: SessionService, *, sealed: bool) -> None:
    arguments = {"query": "kettle", "inner_thought": "zzsecret"}
    call = ToolCall(name="conversation_search", args=arguments, id="c1", type="tool_call")

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", tool_calls=[call], id="a1")]}

    def to_tools(state: MessagesState) -> list[Send]:
        return [Send("tools", [call])]

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_node("tools", ToolNode([create_conversation_search_tool(service)]))
    builder.set_entry_point("ask")
    builder.add_conditional_edges("ask", to_tools, ["tools"])
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16) if sealed else None
    saver = SessionCheckpointSaver(service, serde=serde)
    graph = builder.compile(checkpointer=saver, interrupt_before=["tools"])
    graph.invoke({"messages": [HumanMessage("the kettle is red", id="h1")]}, CONFIG)
    waiting = saver.get_tuple(CONFIG)
    assert "kettle" in repr(waiting)
    assert "zzsecret" not in repr(list(saver.list(CONFIG))) + repr(waiting)
    answer = graph.invoke(None, CONFIG)["messages"][-1]
    assert answer.type == "tool"
    assert call["args"] == arguments
