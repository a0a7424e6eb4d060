"""Issue 17, item 6: programs of other libraries over our saver; each runs where its library is installed.

`pip install -r tests/hosts/peers.txt` brings them.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions import SessionCheckpointSaver, SessionService
from langchain_sessions.errors import InvalidInputError

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Scripted(GenericFakeChatModel):
    """Says what it was told to."""

    def bind_tools(self, *args: Any, **options: Any) -> Any:
        return self

    def bind(self, **options: Any) -> Any:
        return self


def scripted(*replies: AIMessage) -> Any:
    return Scripted(messages=iter(replies))


def calling(name: str, call_id: str = "c1", **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": call_id}])


def ask(graph: Any, text: str) -> Any:
    return graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)


def test_item_6_langgraph_supervisor() -> None:
    peer: Any = pytest.importorskip("langgraph_supervisor")
    with SessionService("sqlite://") as sessions:
        worker: Any = create_agent(scripted(AIMessage("2 and 2 is 4")), [], name="math")
        model = scripted(calling("transfer_to_math"), AIMessage("it is 4"), AIMessage("bye"))
        graph = peer.create_supervisor([worker], model=model).compile(checkpointer=SessionCheckpointSaver(sessions))
        ask(graph, "2+2?")
        state = ask(graph, "thanks")
        assert [message.text for message in state["messages"]] == [each.text for each in sessions.messages("t")]
        assert sessions.verify("t") == []


def test_item_6_langgraph_swarm() -> None:
    peer: Any = pytest.importorskip("langgraph_swarm")
    with SessionService("sqlite://") as sessions:
        handoff = peer.create_handoff_tool(agent_name="bob")
        alice: Any = create_agent(scripted(calling("transfer_to_bob")), [handoff], name="alice")
        bob: Any = create_agent(scripted(AIMessage("bob here"), AIMessage("still bob")), [], name="bob")
        swarm = peer.create_swarm([alice, bob], default_active_agent="alice")
        graph = swarm.compile(checkpointer=SessionCheckpointSaver(sessions))
        ask(graph, "hi")
        assert ask(graph, "thanks")["active_agent"] == "bob"
        assert [message.text for message in sessions.messages("t")][-2:] == ["thanks", "still bob"]
        assert sessions.verify("t") == []


def test_item_6_deepagents() -> None:
    peer: Any = pytest.importorskip("deepagents")
    with SessionService("sqlite://") as sessions:
        model = scripted(
            calling("write_file", file_path="/a.txt", content="hello"),
            AIMessage("written"),
            calling("read_file", "c2", file_path="/a.txt"),
            AIMessage("read"),
        )
        agent = peer.create_deep_agent(model=model, checkpointer=SessionCheckpointSaver(sessions))
        ask(agent, "write")
        state = ask(agent, "read")
        assert state["files"]["/a.txt"]["content"] == "hello"
        assert len(state["messages"]) == 8
        assert [each.id for each in sessions.messages("t")] == [each.id for each in state["messages"]]
        assert len(agent.get_state(CONFIG).values["messages"]) == 8
        assert sessions.verify("t") == []


def test_item_6_langmem_summarizes_again_and_again() -> None:
    peer: Any = pytest.importorskip("langmem.short_term")

    class State(MessagesState):
        context: dict[str, Any]
        summarized: list[AnyMessage]

    def play(**options: Any) -> Any:
        with SessionService("sqlite://") as sessions:
            node = peer.SummarizationNode(
                token_counter=count_tokens_approximately,
                model=scripted(*[AIMessage("a summary") for _ in range(20)]),
                max_tokens=60,
                max_tokens_before_summary=40,
                max_summary_tokens=20,
                output_messages_key="summarized",
            )
            builder: Any = StateGraph(State)
            builder.add_node("summarize", node)
            builder.add_node("answer", lambda state: {"messages": [AIMessage("answer " * 5)]})
            builder.add_edge(START, "summarize")
            builder.add_edge("summarize", "answer")
            state: Any = None
            for turn in range(6):
                graph = builder.compile(checkpointer=SessionCheckpointSaver(sessions, **options))
                state = ask(graph, f"question {turn} " * 5)
            return state

    state = play(allow=[peer.RunningSummary])
    assert len(state["messages"]) == 12
    assert isinstance(state["context"]["running_summary"], peer.RunningSummary)
    with pytest.raises(InvalidInputError, match=r"allow=\[RunningSummary\]"):
        play()
