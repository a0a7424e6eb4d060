"""What was said in threads is found: on the head's line, beside it, and after long conversations at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions.checkpointer import SessionCheckpointSaver

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")


def config(thread: str, user: str = "ada") -> Any:
    return {"configurable": {"thread_id": thread, "user_id": user}}


def graph_over(service: SessionService) -> Any:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("noted")]})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=SessionCheckpointSaver(service))


def say(graph: Any, text: str, where: Any) -> None:
    graph.invoke({"messages": [HumanMessage(text)]}, where)


def found(view: SessionService, query: str, **options: Any) -> list[tuple[str, str, str]]:
    page = view.search(query, **options)
    return sorted((hit.event.session_id, hit.text, hit.event.standing.value) for hit in page if hit.highlights)


def test_threads_are_searched_by_their_owners_alone(service: SessionService) -> None:
    graph = graph_over(service)
    say(graph, "My passport is in the drawer.", config("t1"))
    say(graph, "A passport costs sixty.", config("t2"))
    say(graph, "The passport of grace.", config("t3", "grace"))
    ada = service.as_user("ada")
    assert [thread for thread, _, _ in found(ada, "passport")] == ["t1", "t2"]
    assert [thread for thread, _, _ in found(ada, "passport", session_id="t2")] == ["t2"]


def test_what_forks_and_removals_leave_is_found_and_labelled(service: SessionService) -> None:
    graph = graph_over(service)
    say(graph, "The passport is red.", config("t"))
    before = graph.get_state(config("t")).config
    say(graph, "The passport is blue.", config("t"))
    say(graph, "The passport is green.", before)
    ada = service.as_user("ada")
    assert found(ada, "passport") == [
        ("t", "The passport is blue.", "detached"),
        ("t", "The passport is green.", "live"),
        ("t", "The passport is red.", "live"),
    ]
    first = graph.get_state(config("t")).values["messages"][0]
    graph.update_state(config("t"), {"messages": [RemoveMessage(id=first.id)]})
    assert ("t", "The passport is red.", "detached") in found(ada, "passport")
    graph.update_state(config("t"), {"messages": [HumanMessage("The passport is gone.", id=first.id)]}, as_node="model")
    assert ("t", "The passport is gone.", "live") in found(ada, "passport")


def test_long_threads_keep_their_index_as_they_grow(service: SessionService) -> None:
    graph = graph_over(service)
    many = [HumanMessage(f"Small talk number {number}") for number in range(300)]
    for _ in range(2):
        graph.invoke({"messages": [message.model_copy() for message in many]}, config("t"))
    # The checkpoint that brought the log over 512 events brought the index along.
    assert service.reindex("t") < 100
    assert service.verify("t") == []
    assert found(service.as_user("ada"), "number 299")
