"""Three views of one thread: what the log, the context and the checkpoint show after everything a graph does."""

from __future__ import annotations

import operator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import InvalidInputError, SessionEndedError, SessionNotFoundError
from langchain_sessions.events import Standing
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import RunnableConfig

    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
ADA: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ada"}}


def put(saver: SessionCheckpointSaver, parent: Any, cid: str, messages: list[BaseMessage]) -> Any:
    """A checkpoint with a list of messages, whatever was in the one before it."""
    held = {"channel_values": {"messages": messages}, "channel_versions": {"messages": cid}}
    checkpoint: Any = {**empty_checkpoint(), "id": cid, **held}
    return saver.put(parent, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {"messages": cid})


def assert_windows(service: SessionService) -> None:
    """The newest messages of the context are the end of it."""
    whole = [message.id for message in service.messages("t")]
    for count in (1, 2, 3, 5, 17, 30):
        assert [message.id for message in service.messages("t", last_n=count)] == whole[-count:], count


def test_a_window_of_a_thread_is_the_end_of_its_list(service: SessionService) -> None:
    """However the graph has put it in order, whatever was edited, and whatever was logged beside it."""
    saver = SessionCheckpointSaver(service)
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    said: list[BaseMessage] = [HumanMessage(f"{number}", id=f"m{number}") for number in range(24)]
    at = put(saver, at, "c1", said)
    service.append("t", [HumanMessage("beside", id="x"), HumanMessage("beside, too", id="y")])
    assert_windows(service)
    at = put(saver, at, "c2", [*said[1:], said[0]])
    assert service.messages("t")[-3].id == "m0"
    assert_windows(service)
    summary = HumanMessage("what was said before", id="summary")
    at = put(saver, at, "c3", [summary, *said[15:]])
    assert_windows(service)
    service.edit("t", AIMessage("edited beside", id="x"))
    changed = [HumanMessage("said better", id=each.id) if number % 3 == 0 else each for number, each in enumerate(said)]
    at = put(saver, at, "c4", [*changed[20:], summary, *changed[8:14]])
    assert_windows(service)
    put(saver, at, "c5", said[::-1])
    assert_windows(service)
    service.append("t", [HumanMessage("at last", id="z")])
    assert_windows(service)
    assert service.verify("t") == []


@pytest.mark.parametrize("count", [66, 3300])
def test_a_thread_may_have_as_many_gaps_as_it_likes(service: SessionService, backend: str, count: int) -> None:
    """SQLite takes no expression that is nested a thousand deep, as an OR of a thousand stretches is."""
    if count > 100 and backend != "sqlite":
        pytest.skip("only SQLite counts them")
    said: list[BaseMessage] = [HumanMessage(f"{number}", id=f"m{number}") for number in range(count)]
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    at = put(SessionCheckpointSaver(service), at, "c1", said)
    left = [each for number, each in enumerate(said) if number % 3]
    at = put(SessionCheckpointSaver(service), at, "c2", left)
    assert [message.id for message in service.messages("t")] == [each.id for each in left]
    assert_windows(service)
    if backend == "sqlite":
        detached = EventFilter(standings={Standing.DETACHED})
        assert service.events("t", where=detached, with_total=True).total == count // 3
    left = [each for group in (1, 0, 2) for each in said[group::3]]
    put(SessionCheckpointSaver(service), at, "c3", left)
    assert [message.id for message in service.messages("t")] == [each.id for each in left]
    assert_windows(service)


def test_a_window_goes_back_behind_what_a_thread_has_left(service: SessionService) -> None:
    service.open("t")
    service.append("t", [HumanMessage("before it", id="before")])
    said: list[BaseMessage] = [HumanMessage(f"{number}", id=f"m{number}") for number in range(24)]
    put(SessionCheckpointSaver(service), {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, "c1", said)
    service.rewind("t", to_seq=20, reset_thread=True)
    service.append("t", [HumanMessage("after it", id="after")])
    assert [message.id for message in service.messages("t")] == ["before", "after"]
    assert_windows(service)


class State(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]
    notes: Annotated[list[Any], operator.add]


def texts(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages]


def log(service: SessionService, thread: str = "t") -> list[tuple[str, str, str | None]]:
    events = service.events(thread, EventFilter()).items
    return [(str(event.message.content), event.standing.value, event.branch) for event in events if event.message]


def state(graph: Any, config: RunnableConfig = ADA) -> list[str]:
    return texts(graph.get_state(config).values.get("messages", []))


def echo(name: str = "model") -> Any:
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{name}: {state['messages'][-1].content}")]}

    return node


def chain(saver: SessionCheckpointSaver, *nodes: tuple[str, Any]) -> Any:
    builder = StateGraph(MessagesState)
    for name, node in nodes:
        builder.add_node(name, node)
    for (name, _), (following, _) in zip([(START, None), *nodes], [*nodes, (END, None)], strict=True):
        builder.add_edge(name, following)
    return builder.compile(checkpointer=saver)


def agree(service: SessionService, graph: Any, config: RunnableConfig = ADA, thread: str = "t") -> list[str]:
    """The context is the head's list, the counters are true, and the log is what it says of itself."""
    shown = texts(service.messages(thread))
    assert shown == state(graph, config)
    assert service.verify(thread) == []
    assert service.count(thread).events == len(shown)
    return shown


def test_a_straight_line(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, ADA)
    assert agree(service, graph) == ["one", "model: one", "two", "model: two"]
    ada = service.as_user("ada")
    assert [session.id for session in ada.list_sessions().items] == ["t"]
    assert [event.id for event in ada.events("t").items] == [m.id for m in graph.get_state(ADA).values["messages"]]
    assert [len(turn.events) for turn in ada.turns("t")] == [2, 2]


def test_a_subgraph_agent(service: SessionService) -> None:
    inner = StateGraph(MessagesState)
    inner.add_node("think", echo("think"))
    inner.add_node("say", echo("say"))
    inner.add_edge(START, "think")
    inner.add_edge("think", "say")
    builder = StateGraph(MessagesState)
    builder.add_node("agent", inner.compile())
    builder.add_node("close", echo("close"))
    builder.add_edge(START, "agent")
    builder.add_edge("agent", "close")
    graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
    # In the durability `async` the subgraph may store the question before the root does.
    graph.invoke({"messages": [HumanMessage("q")]}, ADA, durability="sync")
    assert agree(service, graph) == ["q", "think: q", "say: think: q", "close: say: think: q"]
    assert log(service) == [
        ("q", "live", None),
        ("think: q", "live", "agent"),
        ("say: think: q", "live", "agent"),
        ("close: say: think: q", "live", None),
    ]


def test_a_subgraph_with_a_conversation_of_its_own(service: SessionService) -> None:
    inner = StateGraph(MessagesState)
    inner.add_node("think", echo("think"))
    inner.add_edge(START, "think")
    agent = inner.compile()

    def call(state: MessagesState) -> dict[str, Any]:
        found = agent.invoke({"messages": [HumanMessage("private")]})
        return {"messages": [AIMessage(f"done {len(found['messages'])}")]}

    graph = chain(SessionCheckpointSaver(service), ("outer", call))
    # In the durability `async` the subgraph may store its question before the root does.
    graph.invoke({"messages": [HumanMessage("q")]}, ADA, durability="sync")
    assert agree(service, graph) == ["q", "done 2"]
    assert ("think: private", "live", "outer") in log(service)
    assert texts(service.messages("t", branch="outer")) == ["q", "private", "think: private", "done 2"]


def test_parallel_nodes_are_logged_in_state_order(service: SessionService) -> None:
    builder = StateGraph(MessagesState)
    for name in ("b", "a", "c"):
        builder.add_node(name, echo(name))
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
    graph.invoke({"messages": [HumanMessage("q")]}, ADA)
    assert sorted(agree(service, graph)) == ["a: q", "b: q", "c: q", "q"]
    assert [text for text, _, _ in log(service)] == state(graph)


def test_a_fork_leaves_the_other_line_detached(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    for text in ("one", "two", "three"):
        graph.invoke({"messages": [HumanMessage(text)]}, ADA)
    past = next(s for s in graph.get_state_history(ADA) if not s.next and len(s.values["messages"]) == 2)
    graph.invoke({"messages": [HumanMessage("other")]}, past.config)
    assert agree(service, graph) == ["one", "model: one", "other", "model: other"]
    assert [standing for _, standing, _ in log(service)] == ["live"] * 2 + ["detached"] * 4 + ["live"] * 2
    assert state(graph, past.config) == ["one", "model: one"]
    found = service.events("t", EventFilter(keyword="three")).items
    assert [event.standing.value for event in found] == ["detached", "detached"]


def test_removal_and_removal_of_all(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one", id="h1")]}, ADA)
    graph.update_state(ADA, {"messages": [RemoveMessage(id="h1")]})
    assert agree(service, graph) == ["model: one"]
    assert log(service)[0] == ("one", "detached", None)
    graph.update_state(ADA, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("new")]}, as_node="model")
    assert agree(service, graph) == ["new"]
    assert [standing for _, standing, _ in log(service)] == ["detached", "detached", "live"]


def test_an_edit_by_id_takes_the_place(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one", id="h1")]}, ADA)
    before = graph.get_state(ADA).config
    graph.update_state(ADA, {"messages": [HumanMessage("uno", id="h1")]}, as_node="model")
    assert agree(service, graph) == ["uno", "model: one"]
    assert [(text, standing) for text, standing, _ in log(service)] == [
        ("one", "superseded"),
        ("model: one", "live"),
        ("uno", "live"),
    ]
    assert state(graph, before) == ["one", "model: one"]
    # Going on from before the edit brings the first revision back.
    graph.invoke({"messages": [HumanMessage("two")]}, before)
    assert agree(service, graph) == ["one", "model: one", "two", "model: two"]


def test_a_change_in_place_is_noticed(service: SessionService) -> None:
    def shout(state: MessagesState) -> dict[str, Any]:
        message = state["messages"][0]
        message.content = str(message.content).upper()
        return {"messages": [message]}

    graph = chain(SessionCheckpointSaver(service), ("shout", shout))
    graph.invoke({"messages": [HumanMessage("one")]}, ADA, durability="sync")
    assert agree(service, graph) == ["ONE"]


def test_what_a_reader_changes_is_not_seen_by_the_next(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one", additional_kwargs={"a": {"b": [1]}})]}, ADA)
    message = graph.get_state(ADA).values["messages"][0]
    message.content = "changed"
    message.additional_kwargs["a"]["b"].append(2)
    again = graph.get_state(ADA).values["messages"][0]
    assert (again.content, again.additional_kwargs) == ("one", {"a": {"b": [1]}})


def test_what_was_appended_beside_the_graph_stays(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one")]}, ADA)
    service.as_user("ada").append("t", [HumanMessage("beside")])
    graph.invoke({"messages": [HumanMessage("two")]}, ADA)
    assert texts(service.messages("t")) == ["one", "model: one", "beside", "two", "model: two"]
    assert service.verify("t") == []


def test_an_append_inside_a_node_stores_nothing_twice(service: SessionService) -> None:
    ada = service.as_user("ada")

    def node(state: MessagesState) -> dict[str, Any]:
        reply = AIMessage("reply", id="r1")
        # The graph's first checkpoint may still be on its way.
        ada.open("t")
        ada.append("t", [state["messages"][-1], reply])
        return {"messages": [reply]}

    graph = chain(SessionCheckpointSaver(service), ("model", node))
    graph.invoke({"messages": [HumanMessage("q", id="q1")]}, ADA)
    assert log(service) == [("q", "live", None), ("reply", "live", None)]
    assert agree(service, graph) == ["q", "reply"]


def test_a_failed_task_leaves_nothing_in_the_log(service: SessionService) -> None:
    broken = [True]

    def fails(state: MessagesState) -> dict[str, Any]:
        if broken:
            raise RuntimeError
        return {"messages": [AIMessage("late")]}

    builder = StateGraph(MessagesState)
    for name, node in (("good", echo("good")), ("fails", fails)):
        builder.add_node(name, node)
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": [HumanMessage("q")]}, ADA)
    assert [text for text, _, _ in log(service)] == ["q"]
    broken.clear()
    graph.invoke(None, ADA)
    assert sorted(agree(service, graph)) == ["good: q", "late", "q"]


def test_interrupt_and_resume_in_another_process(open_service: Callable[..., SessionService]) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {interrupt('name?')}")]}

    first = chain(SessionCheckpointSaver(open_service()), ("ask", ask))
    first.invoke({"messages": [HumanMessage("q")]}, ADA)
    assert first.get_state(ADA).interrupts[0].value == "name?"
    service = open_service()
    second = chain(SessionCheckpointSaver(service), ("ask", ask))
    second.invoke(Command(resume="Ada"), ADA)
    assert agree(service, second) == ["q", "you said Ada"]
    assert state(first) == ["q", "you said Ada"]


def test_send_and_lists_that_are_no_messages(service: SessionService) -> None:
    def fan_out(state: State) -> list[Send]:
        return [Send("work", {"messages": state["messages"], "n": n}) for n in range(2)]

    builder: Any = StateGraph(State)
    builder.add_node("start", lambda state: {"notes": [{"x": (1, 2)}, "n" * 200]})
    builder.add_node("work", lambda state: {"messages": [AIMessage(f"w{state['n']}")], "notes": [state["n"]]})
    builder.add_edge(START, "start")
    builder.add_conditional_edges("start", fan_out, ["work"])
    graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
    graph.invoke({"messages": [HumanMessage("q")], "notes": []}, ADA)
    fresh: Any = builder.compile(checkpointer=SessionCheckpointSaver(service)).get_state(ADA)
    assert agree(service, graph) == ["q", "w0", "w1"]
    assert fresh.values["notes"][1:] == ["n" * 200, 0, 1]
    assert len(log(service)) == 3


def test_rewind_hides_checkpoints_and_undo_brings_them_back(service: SessionService) -> None:
    calls: list[str] = []

    def model(state: MessagesState) -> dict[str, Any]:
        calls.append("x")
        return {"messages": [AIMessage(f"{len(calls)}: {state['messages'][-1].content}")]}

    graph = chain(SessionCheckpointSaver(service), ("model", model))
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, ADA)
    whole = state(graph)
    service.rewind("t", to_seq=3)
    assert agree(service, graph) == ["one", "1: one", "two"]
    assert graph.get_state(ADA).next == ("model",)
    service.undo_rewind("t")
    assert agree(service, graph) == whole
    service.rewind("t", to_seq=3)
    # The model is asked again: the reply that was rewound does not come back from a pending write.
    graph.invoke(None, ADA)
    assert agree(service, graph) == ["one", "1: one", "two", "3: two"]
    service.rewind("t", to_seq=2)
    assert agree(service, graph) == ["one", "1: one"]
    graph.invoke({"messages": [HumanMessage("three")]}, ADA)
    assert agree(service, graph) == ["one", "1: one", "three", "4: three"]


def test_a_rewind_before_every_checkpoint_must_be_meant(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one", id="h")]}, ADA)
    with pytest.raises(InvalidInputError, match="reset_thread"):
        service.rewind("t", to_seq=0)
    assert agree(service, graph) == ["one", "model: one"]
    service.rewind("t", to_seq=0, reset_thread=True)
    assert graph.get_state(ADA).values == {}
    assert service.messages("t") == []
    graph.invoke({"messages": [HumanMessage("anew")]}, ADA)
    assert agree(service, graph) == ["anew", "model: anew"]


def test_owners(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("secret")]}, ADA)
    for other in ({"thread_id": "t"}, {"thread_id": "t", "user_id": "grace"}):
        foreign: RunnableConfig = {"configurable": dict(other)}
        with pytest.raises(SessionNotFoundError):
            graph.invoke({"messages": [HumanMessage("x")]}, foreign)
        with pytest.raises(SessionNotFoundError):
            graph.get_state(foreign)
    graces = SessionCheckpointSaver(service.as_user("grace"))
    assert list(graces.list(None)) == []
    graces.delete_for_runs(["any"])
    graces.delete_thread("t")
    graces.prune(["t"], strategy="delete")
    with pytest.raises(SessionNotFoundError):
        graces.copy_thread("t", "mine")
    with pytest.raises(InvalidInputError):
        graces.get_tuple(ADA)
    assert state(graph) == ["secret", "model: secret"]
    assert len(list(SessionCheckpointSaver(service.as_user("ada")).list(None))) == 3


def test_a_deleted_thread_does_not_come_back(service: SessionService) -> None:
    def model(state: MessagesState) -> dict[str, Any]:
        service.delete("t")
        return {"messages": [AIMessage("late")]}

    late = chain(SessionCheckpointSaver(service), ("model", model))
    with pytest.raises(SessionNotFoundError):
        late.invoke({"messages": [HumanMessage("q")]}, ADA, durability="sync")
    assert len(service.list_sessions().items) == 0
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("anew")]}, ADA)
    assert agree(service, graph) == ["anew", "model: anew"]


def test_a_deleted_and_recreated_thread_shows_nothing_old(open_service: Callable[..., SessionService]) -> None:
    service, other = open_service(), open_service()
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("old", id="same")]}, ADA)
    other.delete("t")
    elsewhere = chain(SessionCheckpointSaver(other), ("model", echo()))
    elsewhere.invoke({"messages": [HumanMessage("new", id="same")]}, ADA)
    assert state(graph) == ["new", "model: new"]
    graph.invoke({"messages": [HumanMessage("more")]}, ADA)
    assert agree(other, elsewhere) == ["new", "model: new", "more", "model: more"]


def test_an_ended_session_takes_no_checkpoint(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one")]}, ADA)
    service.end("t")
    with pytest.raises(SessionEndedError):
        graph.invoke({"messages": [HumanMessage("two")]}, ADA)
    service.reopen("t")
    graph.invoke({"messages": [HumanMessage("three")]}, ADA)
    assert agree(service, graph) == ["one", "model: one", "three", "model: three"]


def test_a_fork_of_the_session_is_a_thread(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    for text in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(text)]}, ADA)
    service.fork("t", new_id="whole")
    service.fork("t", at_seq=2, new_id="half")
    for thread, expected in (("whole", 4), ("half", 2)):
        config: RunnableConfig = {"configurable": {"thread_id": thread, "user_id": "ada"}}
        assert len(agree(service, graph, config, thread)) == expected
        graph.invoke({"messages": [HumanMessage("more")]}, config)
        assert len(agree(service, graph, config, thread)) == expected + 2
    assert len(agree(service, graph)) == 4


def test_a_put_without_messages_does_not_move_the_version(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one")]}, ADA)
    version = service.get("t").version
    graph.update_state(ADA, {"messages": []})
    assert service.get("t").version == version == 2


def test_expiry_and_purge_take_checkpoints_along(open_service: Callable[..., SessionService]) -> None:
    now = [datetime(2026, 1, 1, tzinfo=timezone.utc)]
    service = open_service(adapter_time_to_live=timedelta(days=1), clock=lambda: now[0])
    saver = SessionCheckpointSaver(service)
    graph = chain(saver, ("model", echo()))
    graph.invoke({"messages": [HumanMessage("one")]}, ADA)
    now[0] += timedelta(days=2)
    assert graph.get_state(ADA).values == {}
    assert list(saver.list(None)) == []
    assert service.purge_expired() == 1
    graph.invoke({"messages": [HumanMessage("two")]}, ADA)
    assert agree(service, graph) == ["two", "model: two"]


async def test_both_halves_on_one_object(service: SessionService) -> None:
    graph = chain(SessionCheckpointSaver(service), ("model", echo()))
    await graph.ainvoke({"messages": [HumanMessage("one")]}, ADA)
    graph.invoke({"messages": [HumanMessage("two")]}, ADA)
    await graph.ainvoke({"messages": [HumanMessage("three")]}, ADA)
    assert len(agree(service, graph)) == 6
    assert len([s async for s in graph.aget_state_history(ADA)]) == 9
    await service.aclose()
