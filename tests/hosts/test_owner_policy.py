"""Issue 17, item 1: whose session a config means is decided in one place, alike for every part that reads configs."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import PrivateAttr

from langchain_sessions import (
    ANYONE,
    InvalidInputError,
    SessionChatMessageHistory,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionNotFoundError,
    SessionService,
    checkpointer_factory,
    create_conversation_search_tool,
    create_cross_session_search_tool,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.runnables import Runnable

pytestmark = pytest.mark.filterwarnings("ignore:.*RunnableWithMessageHistory")
NOBODY = [None, "", "  ", "\t"]


class Paid(BaseChatModel):
    """A model that counts what it was asked."""

    _asked: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "paid"

    @property
    def asked(self) -> int:
        return self._asked

    def _generate(self, messages: list[BaseMessage], *given: Any, **options: Any) -> ChatResult:
        del messages, given, options
        self._asked += 1
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"reply {self._asked}"))])


def _graph(sessions: SessionService, model: Paid, owner: Any) -> Runnable[Any, Any]:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_edge(START, "model")
    graph: Runnable[Any, Any] = builder.compile(checkpointer=SessionCheckpointSaver(sessions, owner=owner))
    return graph


def _agent(sessions: SessionService, model: Paid, owner: Any) -> Runnable[Any, Any]:
    return create_agent(model, middleware=[SessionMemoryMiddleware(sessions, owner=owner)])


def _advised(sessions: SessionService, model: Paid, owner: Any) -> Runnable[Any, Any]:
    return (lambda value: value["messages"]) | SessionMemoryAdvisor(sessions, owner=owner).wrap(model)


def _with_history(sessions: SessionService, model: Paid, owner: Any) -> Runnable[Any, Any]:
    return (lambda value: value["messages"]) | RunnableWithMessageHistory(
        model,
        SessionChatMessageHistory.factory(sessions, session_key="thread_id", user_key="user_id", owner=owner),
        history_factory_config=SessionChatMessageHistory.config_fields("thread_id"),
    )


PARTS = {"saver": _graph, "middleware": _agent, "advisor": _advised, "history": _with_history}


@pytest.fixture(params=PARTS)
def part(request: pytest.FixtureRequest) -> Callable[..., Runnable[Any, Any]]:
    return PARTS[request.param]


@pytest.fixture
def sessions() -> Iterator[SessionService]:
    with SessionService("sqlite://") as opened:
        yield opened


def told(sessions: SessionService, user: str | None, session_id: str, text: str) -> None:
    """Somebody's session with one message."""
    view = sessions.as_user(user)
    view.open(session_id)
    view.append(session_id, HumanMessage(text))


def say(chat: Runnable[Any, Any], text: str, **configurable: Any) -> None:
    chat.invoke({"messages": [HumanMessage(text)]}, {"configurable": configurable})


@pytest.mark.parametrize("blank", NOBODY, ids=repr)
def test_item_1_a_blank_user_is_nobody(part: Any, sessions: SessionService, blank: str | None) -> None:
    chat = part(sessions, model := Paid(), "config")
    say(chat, "one", thread_id="t", user_id=blank)
    say(chat, "two", thread_id="t", user_id=blank)
    assert sessions.get("t").user_id is None
    assert [m.text for m in sessions.as_user(None).messages("t")] == ["one", "reply 1", "two", "reply 2"]
    assert model.asked == 2


@pytest.mark.parametrize("other", [*NOBODY, "grace", "Ada", "ada "], ids=repr)
def test_item_1_what_is_owned_is_missing_for_others(part: Any, sessions: SessionService, other: str | None) -> None:
    told(sessions, "ada", "t", "mine")
    for owner in ("config", lambda config: config["configurable"]["user_id"]):
        chat = part(sessions, model := Paid(), owner)
        with pytest.raises(SessionNotFoundError):
            say(chat, "let me in", thread_id="t", user_id=other)
        assert model.asked == 0
    assert [str(event.message.text) for event in sessions.events("t") if event.message] == ["mine"]


def test_item_1_ids_of_any_type(part: Any, sessions: SessionService) -> None:
    thread = uuid.uuid4()
    say(part(sessions, Paid(), "config"), "hi", thread_id=thread, user_id=7)
    assert [session.id for session in sessions.as_user("7").list_sessions()] == [str(thread)]


def test_item_1_a_host_may_authorise_threads_itself(part: Any, sessions: SessionService) -> None:
    told(sessions, "ada", "hers", "mine")
    chat = part(sessions, Paid(), "ignore")
    for user in ("grace", "", "Grace of the office"):
        say(chat, f"by {user}", thread_id="hers", user_id=user)
        say(chat, f"by {user}", thread_id="new", user_id=user)
    assert sessions.get("hers").user_id == "ada"
    assert sessions.get("new").user_id is None
    assert len(sessions.messages("new")) == 6


def test_item_1_a_function_decides(part: Any, sessions: SessionService) -> None:
    def identity(config: Any) -> Any:
        return (config["configurable"].get("user_id") or "").partition("@")[0] or ANYONE

    chat = part(sessions, Paid(), identity)
    say(chat, "hi", thread_id="t", user_id="ada@office")
    assert sessions.get("t").user_id == "ada"
    say(chat, "the host itself", thread_id="t", user_id="")
    with pytest.raises(SessionNotFoundError):
        say(chat, "let me in", thread_id="t", user_id="grace@office")


@pytest.mark.parametrize(
    "owner",
    ["config", "ignore", lambda _config: None, lambda _config: ANYONE],
    ids=["config", "ignore", "nobody", "anyone"],
)
def test_item_1_a_bound_view_stays_bound(part: Any, sessions: SessionService, owner: Any) -> None:
    told(sessions, "grace", "hers", "mine")
    chat = part(sessions.as_user("ada"), model := Paid(), owner)
    say(chat, "hi", thread_id="t", user_id=None)
    assert sessions.get("t").user_id == "ada"
    with pytest.raises((SessionNotFoundError, InvalidInputError)):
        say(chat, "let me in", thread_id="hers", user_id="grace")
    assert model.asked == 1


@pytest.mark.parametrize("name", ["saver", "middleware", "advisor"])
def test_item_1_the_thread_is_the_session(
    name: str, sessions: SessionService, caplog: pytest.LogCaptureFixture
) -> None:
    chat = PARTS[name](sessions, Paid(), "config")
    with caplog.at_level(logging.WARNING, "langchain_sessions"):
        for text in ("one", "two"):
            say(chat, text, thread_id="t", session_id="s")
        say(chat, "three", thread_id="t", session_id="t")
    assert [session.id for session in sessions.list_sessions()] == ["t"]
    assert len(sessions.messages("t")) == 6
    assert len([record for record in caplog.records if "session_id" in record.getMessage()]) == 1


def test_item_1_a_tool_sees_what_its_config_may_see(sessions: SessionService) -> None:
    told(sessions, "ada", "hers", "The passport is in the drawer.")
    told(sessions, None, "free", "The passport is on the table.")

    def look(tool: Any, **configurable: Any) -> str:
        return str(tool.invoke({"query": "passport"}, {"configurable": configurable}))

    own = create_conversation_search_tool(sessions)
    assert "drawer" in look(own, thread_id="hers", user_id="ada")
    for user in NOBODY:
        assert "table" in look(own, thread_id="free", user_id=user)
        assert look(own, thread_id="hers", user_id=user) == look(own, thread_id="missing", user_id=user)
    assert "drawer" in look(create_conversation_search_tool(sessions, owner="ignore"), thread_id="hers", user_id="x")

    every = create_cross_session_search_tool(sessions)
    assert "drawer" in look(every, user_id="ada")
    for tool in (every, create_cross_session_search_tool(sessions, owner=lambda _config: ANYONE)):
        for user in NOBODY:
            assert look(tool, thread_id="free", user_id=user).startswith("Search is not available")
    bound_to_nobody = create_cross_session_search_tool(sessions.as_user(None))
    assert look(bound_to_nobody, thread_id="free").startswith("Search is not available")
    with pytest.raises(InvalidInputError, match="owner"):
        create_cross_session_search_tool(sessions, owner="ignore")
    bound = create_cross_session_search_tool(sessions.as_user("ada"), owner="ignore")
    assert "drawer" in look(bound, user_id="grace")


@pytest.mark.parametrize(
    "make",
    [
        SessionCheckpointSaver,
        SessionMemoryAdvisor,
        SessionMemoryMiddleware,
        create_conversation_search_tool,
        create_cross_session_search_tool,
        lambda sessions, **options: SessionChatMessageHistory("t", sessions, **options),
    ],
)
def test_item_1_another_word_is_refused(make: Any, sessions: SessionService) -> None:
    with pytest.raises(InvalidInputError, match="owner"):
        make(sessions, owner="conifg")


def test_item_1_the_librarys_own_api_refuses_blank_users(sessions: SessionService) -> None:
    for call in (sessions.as_user, lambda user: SessionChatMessageHistory("t", sessions, user_id=user)):
        with pytest.raises(InvalidInputError, match="user_id"):
            call("")


async def test_item_1_the_factory_reaches_threads_by_their_id(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    with SessionService(url) as sessions:
        told(sessions, "ada", "t", "mine")
    async with checkpointer_factory(url)() as saver:
        for configurable in ({"user_id": ""}, {"user_id": "Ada of the office"}, {}):
            assert await saver.aget_tuple({"configurable": {"thread_id": "t", **configurable}}) is None
    async with checkpointer_factory(url, owner="config")() as saver:
        with pytest.raises(SessionNotFoundError):
            await saver.aget_tuple({"configurable": {"thread_id": "t"}})


def test_item_1_a_thread_that_nothing_ran_in_is_copied_to_nothing(sessions: SessionService) -> None:
    SessionCheckpointSaver(sessions).copy_thread("missing", "copy")
    assert list(sessions.list_sessions()) == []
    told(sessions, "ada", "hers", "mine")
    with pytest.raises(SessionNotFoundError):
        SessionCheckpointSaver(sessions.as_user("grace")).copy_thread("hers", "copy")


def _asking(sessions: SessionService, owner: Any) -> Any:
    """A graph that waits two graphs below."""
    inner: Any = StateGraph(MessagesState)
    inner.add_node("ask", lambda state: {"messages": [AIMessage(interrupt(len(state["messages"])), id="said")]})
    inner.add_edge(START, "ask")
    middle: Any = StateGraph(MessagesState).add_node("inner", inner.compile())
    middle.add_edge(START, "inner")
    outer: Any = StateGraph(MessagesState).add_node("middle", middle.compile(checkpointer=True))
    outer.add_edge(START, "middle")
    return outer.compile(checkpointer=SessionCheckpointSaver(sessions, owner=owner))


def _told(state: Any) -> list[str]:
    """What each graph is about to do, from the outermost on."""
    return [*state.next, *(_told(state.tasks[0].state) if state.tasks and state.tasks[0].state else [])]


@pytest.mark.parametrize("owner", ["config", lambda config: config["configurable"]["user_id"]])
async def test_the_states_of_subgraphs_are_those_of_who_asks_for_them(sessions: SessionService, owner: Any) -> None:
    """LangGraph asks for them by a config of its own, which names no user."""
    graph = _asking(sessions, owner)
    ada: Any = {"configurable": {"thread_id": "t1", "user_id": "ada"}}
    graph.invoke({"messages": "hi"}, ada)
    newest = graph.get_state(ada)
    for config in (ada, newest.config):
        assert _told(graph.get_state(config, subgraphs=True)) == ["middle", "inner", "ask"]
        assert _told(await graph.aget_state(config, subgraphs=True)) == ["middle", "inner", "ask"]
    named = newest.tasks[0].state
    assert graph.get_state(copy.deepcopy(named)).next == ("inner",)
    graph.update_state(graph.get_state(named).config, {"messages": [HumanMessage("said below")]}, as_node="inner")

    # What it knows is the object's; the same text from elsewhere names nobody, and so does a config that says so.
    as_text = json.loads(json.dumps(named))
    nobody = {"configurable": {**named["configurable"], "user_id": ""}}
    root = {"configurable": {"thread_id": named["configurable"]["thread_id"]}}
    for other in (as_text, nobody, root) if owner == "config" else ():
        with pytest.raises(SessionNotFoundError):
            graph.get_state(other)
    bob = {"configurable": {**named["configurable"], "user_id": "bob"}}
    with pytest.raises(SessionNotFoundError):
        graph.get_state(bob)


def by_token(config: Any) -> str:
    """A policy that goes by a key of its own."""
    return str({"t-ada": "ada", "t-bob": "bob"}[config["configurable"]["token"]])


@pytest.mark.parametrize(("owner", "who"), [("config", {"user_id": "ada"}), (by_token, {"token": "t-ada"})])
async def test_the_histories_of_subgraphs_are_those_of_who_asks_for_them(
    sessions: SessionService, owner: Any, who: dict[str, str]
) -> None:
    graph = _asking(sessions, owner)
    ada: Any = {"configurable": {"thread_id": "t1", **who}}
    graph.invoke({"messages": "hi"}, ada)
    newest = next(graph.get_state_history(ada))
    assert graph.get_state(ada).values == newest.values
    for state in (graph.get_state(ada), newest):
        named = state.tasks[0].state
        assert [below.next for below in graph.get_state_history(named)] == [("inner",), ("__start__",)]
        assert [below.next async for below in graph.aget_state_history(named)] == [("inner",), ("__start__",)]
        assert _told(graph.get_state(named, subgraphs=True)) == ["inner", "ask"]
        inner = graph.get_state(named).tasks[0].state
        assert [below.next for below in graph.get_state_history(inner)] == [("ask",), ("__start__",)]


def test_a_policy_is_asked_for_what_langgraph_asks_too(sessions: SessionService) -> None:
    """It may have changed its mind, or speak for whoever is served now."""
    served = ["ada"]
    graph = _asking(sessions, lambda config: served[0] if config["configurable"]["token"] else None)
    ada: Any = {"configurable": {"thread_id": "t1", "token": "t-ada"}}
    graph.invoke({"messages": "hi"}, ada)
    named = graph.get_state(ada).tasks[0].state
    assert graph.get_state(named).next == ("inner",)
    served[0] = "grace"
    for ask in (graph.get_state, lambda config: next(graph.get_state_history(config))):
        with pytest.raises(SessionNotFoundError):
            ask(named)


def test_a_state_is_copied_and_pickled_whatever_says_who_asks(sessions: SessionService) -> None:
    graph = _asking(sessions, lambda config: config["configurable"].get("user_id"))
    ada: Any = {"configurable": {"thread_id": "t1", "user_id": "ada", "client": threading.Lock()}}
    graph.invoke({"messages": "hi"}, ada)
    config = graph.get_state(ada).config
    again = copy.deepcopy(config)
    assert again == config
    assert graph.get_state(again).next == graph.get_state(ada).next
    # What comes out of a file is an id like any other.
    again = pickle.loads(pickle.dumps(config))  # noqa: S301 - made just now
    assert type(again["configurable"]["thread_id"]) is str
