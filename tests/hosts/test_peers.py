"""Issue 17, item 6: programs of other libraries over our saver, whose answers must be `InMemorySaver`'s.

`make test-peers` brings the libraries, runs these, and the libraries' own tests over our saver; elsewhere each runs
where its library is installed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from langchain_sessions import SessionCheckpointSaver, SessionService
from langchain_sessions.errors import InvalidInputError
from tests.hosts.beside import SaverBeside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Scripted(GenericFakeChatModel):
    """Says what it was told to."""

    def bind_tools(self, *args: Any, **options: Any) -> Any:
        return self

    def bind(self, **options: Any) -> Any:
        return self


class Profile(BaseModel):
    """What is known of somebody."""

    name: str
    likes: list[str]


class ProfileState(MessagesState, total=False):
    """A conversation, and what it tells of somebody."""

    profile: Profile


def scripted(*replies: AIMessage) -> Any:
    return Scripted(messages=iter(replies))


def calling(tool: str, call_id: str = "c1", /, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": call_id}])


@contextmanager
def saving(**options: Any) -> Iterator[SaverBeside]:
    """A saver; at the end its thread must be what `InMemorySaver` has."""
    saver = SaverBeside(**options)
    yield saver
    assert saver.compared
    assert saver.finish() == ["t"]


def texts(messages: Iterable[Any]) -> list[str]:
    return [message.text for message in messages]


def ask(graph: Any, text: str) -> Any:
    return graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)


def test_item_6_langgraph_supervisor() -> None:
    peer: Any = pytest.importorskip("langgraph_supervisor")
    with saving() as saver:
        worker: Any = create_agent(scripted(AIMessage("2 and 2 is 4")), [], name="math")
        model = scripted(calling("transfer_to_math"), AIMessage("it is 4"), AIMessage("bye"))
        graph = peer.create_supervisor([worker], model=model).compile(checkpointer=saver)
        ask(graph, "2+2?")
        state = ask(graph, "thanks")
        assert texts(state["messages"])[-2:] == ["thanks", "bye"]
        assert texts(state["messages"]) == texts(saver.sessions.messages("t"))


def test_item_6_langgraph_swarm() -> None:
    peer: Any = pytest.importorskip("langgraph_swarm")
    with saving() as saver:
        handoff = peer.create_handoff_tool(agent_name="bob")
        alice: Any = create_agent(scripted(calling("transfer_to_bob")), [handoff], name="alice")
        bob: Any = create_agent(scripted(AIMessage("bob here"), AIMessage("still bob")), [], name="bob")
        graph = peer.create_swarm([alice, bob], default_active_agent="alice").compile(checkpointer=saver)
        ask(graph, "hi")
        state = ask(graph, "thanks")
        assert state["active_agent"] == "bob"
        assert texts(state["messages"])[-2:] == ["thanks", "still bob"]
        assert texts(state["messages"]) == texts(saver.sessions.messages("t"))


def test_item_6_deepagents() -> None:
    """Its messages and files lie in delta channels; a sub-agent has a thread of its own within."""
    peer: Any = pytest.importorskip("deepagents")
    with saving() as saver:
        model = scripted(
            calling("write_file", file_path="/a.txt", content="hello"),
            AIMessage("written"),
            calling("task", "c2", description="look it up", subagent_type="general-purpose"),
            AIMessage("the worker's report"),
            AIMessage("looked up"),
            calling("read_file", "c3", file_path="/a.txt"),
            AIMessage("read"),
        )
        agent = peer.create_deep_agent(model=model, checkpointer=saver)
        ask(agent, "write")
        ask(agent, "look it up")
        state = ask(agent, "read")
        assert state["files"]["/a.txt"]["content"] == "hello"
        assert len(state["messages"]) == 12
        log = saver.sessions.messages("t")
        assert [each.id for each in log] == [each.id for each in state["messages"]]
        assert [each.id for each in agent.get_state(CONFIG).values["messages"]] == [each.id for each in log]
        assert "the worker's report" in saver.sessions.search("worker report", session_id="t")[0].text


def test_item_6_trustcall() -> None:
    """A profile that is patched turn by turn."""
    peer: Any = pytest.importorskip("trustcall")
    patch = [{"op": "add", "path": "/likes/-", "value": "milk"}]
    model = scripted(
        calling("Profile", name="Ada", likes=["tea"]),
        calling("PatchDoc", "c2", json_doc_id="Profile", planned_edits="add milk", patches=patch),
    )
    extractor = peer.create_extractor(model, tools=[Profile], tool_choice="Profile")

    def extract(state: ProfileState) -> dict[str, Any]:
        known = state.get("profile")
        existing = {"existing": {"Profile": known.model_dump()}} if known else {}
        found = extractor.invoke({"messages": state["messages"], **existing})
        return {"profile": found["responses"][0], "messages": found["messages"][-1:]}

    builder: Any = StateGraph(ProfileState)
    builder.add_node("extract", extract)
    builder.add_edge(START, "extract")
    with saving(allow=[Profile]) as saver:
        graph = builder.compile(checkpointer=saver)
        ask(graph, "I am Ada and like tea.")
        state = ask(graph, "And milk.")
        assert state["profile"] == Profile(name="Ada", likes=["tea", "milk"])
        assert graph.get_state(CONFIG).values["profile"] == state["profile"]
        said = [event.message for event in saver.sessions.events("t") if event.message]
        assert [each.id for each in said] == [each.id for each in state["messages"]]


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
