"""A graph that talks, and processes that run it: until they are killed, or beside others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions.checkpointer import SessionCheckpointSaver
from tests.faults.drills import make_service

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from langgraph.checkpoint.base import BaseCheckpointSaver

CONFIG: Any = {"configurable": {"thread_id": "t", "user_id": "ada"}}


def talking(saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph of two nodes, each of which says something about the question."""

    def says(name: str) -> Any:
        def node(state: MessagesState) -> dict[str, Any]:
            asked = [message for message in state["messages"] if message.type == "human"][-1]
            return {"messages": [AIMessage(f"{name} of {asked.id}", id=f"{asked.id}-{name}")]}

        return node

    builder = StateGraph(MessagesState)
    builder.add_node("think", says("think"))
    builder.add_node("say", says("say"))
    builder.add_edge(START, "think")
    builder.add_edge("think", "say")
    return builder.compile(checkpointer=saver)


def ask(graph: Any, name: str, **options: Any) -> None:
    """One turn."""
    graph.invoke({"messages": [HumanMessage(f"question {name} " + "x" * 40, id=name)]}, CONFIG, **options)


def talk_until_killed(url: str, prefix: str, label: str, durability: str, said: Connection) -> None:
    """Ask without end; says each question's id once its turn is over."""
    service = make_service(url, table_prefix=prefix, synchronous="FULL")
    graph = talking(SessionCheckpointSaver(service))
    number = 0
    while True:
        ask(graph, f"{label}-{number}", durability=durability)
        said.send(f"{label}-{number}")
        number += 1


def update_some(url: str, prefix: str, label: str, count: int) -> None:
    """Update the state a number of times, whatever others do meanwhile."""
    service = make_service(url, table_prefix=prefix)
    graph = talking(SessionCheckpointSaver(service))
    for number in range(count):
        graph.update_state(CONFIG, {"messages": [HumanMessage("x", id=f"{label}-{number}")]}, as_node="say")
    service.close()
