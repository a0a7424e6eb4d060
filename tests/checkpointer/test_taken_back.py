"""What a rewind took back of a thread: said again it is said anew, and what goes on from it stays out of sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions import SessionCheckpointSaver

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def answering(service: SessionService, meanwhile: Callable[[], object] = bool) -> Any:
    """A graph that answers a question under an id that is made of the question's."""

    def model(state: MessagesState) -> dict[str, Any]:
        meanwhile()
        asked = state["messages"][-1]
        return {"messages": [AIMessage(f"re {asked.text}", id=f"re-{asked.id}")]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=SessionCheckpointSaver(service))


def texts(service: SessionService) -> list[str]:
    return [str(message.text) for message in service.messages("t")]


def held(graph: Any) -> list[str]:
    return [message.text for message in graph.get_state(CONFIG).values.get("messages", [])]


def question(text: str) -> Any:
    return {"messages": [HumanMessage(text, id=text)]}


@pytest.mark.parametrize("by", ["warm", "warm, another", "cold"])
async def test_what_was_taken_back_can_be_said_again(open_service: Callable[..., SessionService], by: str) -> None:
    service = open_service()
    graph = answering(service)
    for text in ("one", "two"):
        graph.invoke(question(text), CONFIG)
    # As a client does that goes back and sends its question once more, under the id that it had.
    (service if by == "warm" else open_service()).rewind("t", to_seq=2)
    again = answering(open_service()) if by == "cold" else graph
    assert held(again) == texts(service) == ["one", "re one"]
    await again.ainvoke(question("two"), CONFIG)
    assert held(again) == texts(service) == ["one", "re one", "two", "re two"]
    assert held(answering(open_service())) == held(again)
    standings = [(event.seq, event.standing.value) for event in service.events("t").items if event.message]
    assert standings == [(1, "live"), (2, "live"), (3, "rewound"), (4, "rewound"), (6, "live"), (7, "live")]
    service.undo_rewind("t")
    assert held(again) == texts(service) == ["one", "re one", "two", "re two"]
    assert service.verify("t") == []


def test_what_goes_on_from_it_is_taken_back_with_it(open_service: Callable[..., SessionService]) -> None:
    service, other = open_service(), open_service()
    answering(service).invoke(question("one"), CONFIG)
    graph = answering(service, meanwhile=lambda: other.rewind("t", to_seq=2))
    answer = graph.invoke(question("two"), CONFIG, durability="sync")
    assert answer["messages"][-1].text == "re two"
    assert held(graph) == texts(service) == ["one", "re one"]
    answering(service).invoke(question("three"), CONFIG)
    assert held(graph) == texts(service) == ["one", "re one", "three", "re three"]
    assert service.verify("t") == []
