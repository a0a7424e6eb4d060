# ruff: noqa: ANN401 - configs are what LangChain takes
"""Every public call whose cost may not grow with the rest of a log, each on sessions that it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from langchain_sessions import (
    Compaction,
    EventFilter,
    EventKind,
    InvocationStatus,
    NewEvent,
    SessionChatMessageHistory,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionService,
    SlidingWindow,
    TokenCount,
    create_conversation_search_tool,
)
from langchain_sessions._log.log import log_of

Act = Callable[[int], object]


class BrokenModel(FakeListChatModel):
    """Fails whatever it is asked."""

    def _call(self, *args: Any, **kwargs: Any) -> str:
        raise ConnectionError("gone")


def said(number: int, **named: Any) -> BaseMessage:
    """Something to append."""
    return (AIMessage if number % 2 else HumanMessage)(f"And then, {number}, the boats came home.", **named)


def grow(service: SessionService, live: int, others: int) -> None:
    """A log of so many live events of ada's, with a little of everything at its end, among sessions of others."""
    for at in range(others):
        service.create(f"other {at}", user_id=f"user {at % 50}")
    ada = service.as_user("ada")
    ada.create("s", state={"mood": "calm"})
    for first in range(0, live, 500):
        numbers = range(first, min(first + 500, live))
        ada.append("s", [NewEvent(message=said(at, id=f"m{at}"), state_delta=_delta(at)) for at in numbers])
    call = {"name": "weather", "args": {"city": "Bergen"}, "id": "call"}
    turn = [HumanMessage("Is it going to rain?", id="q"), AIMessage("", id="a", tool_calls=[call])]
    ada.append("s", [*turn, ToolMessage("It is.", tool_call_id="call", id="r")], invocation_id="asked")
    ada.append("s", said(0), invocation_id="broken", invocation_status=InvocationStatus.FAILED)
    ada.edit("s", HumanMessage("Is it going to snow?", id="q"))
    ada.append("s", said(1, id="taken back"))
    ada.rewind("s", to_seq=live + 5)
    ada.reindex("s")


def _delta(number: int) -> dict[str, int] | None:
    """Now and then something changes that is remembered."""
    return {"step": number} if number % 10 == 0 else None


def _config(session_id: str = "s") -> Any:
    return {"configurable": {"session_id": session_id, "thread_id": session_id, "user_id": "ada"}}


def _appends(**how: Any) -> Callable[[SessionService], Act]:
    return lambda service: lambda at: service.as_user("ada").append("s", said(at), **how)


def _runs(status: InvocationStatus) -> Callable[[SessionService], Act]:
    def ready(service: SessionService) -> Act:
        ada = service.as_user("ada")
        opened = InvocationStatus.OPEN
        for at in range(4):
            ada.append("s", [said(0), said(1)], invocation_id=f"run {at}", invocation_status=opened)
        return lambda at: ada.append("s", said(at), invocation_id=f"run {at}", invocation_status=status)

    return ready


def _rewinds(service: SessionService) -> Act:
    ada = service.as_user("ada")
    for at in range(8):
        ada.append("s", [said(0), said(1)], invocation_id=f"run {at}", state_delta={"step": at})
    return lambda at: ada.rewind("s", before_invocation=f"run {7 - at}")


def _rewinds_what_was_never_set(service: SessionService) -> Act:
    ada = service.as_user("ada")
    for at in range(8):
        ada.append("s", [said(0), said(1)], invocation_id=f"run {at}", state_delta={f"new {at}": at, "mood": "wild"})
    return lambda at: ada.rewind("s", before_invocation=f"run {7 - at}")


def _undoes(service: SessionService) -> Act:
    ada = service.as_user("ada")
    for at in range(8):
        ada.append("s", [said(0), said(1)], invocation_id=f"run {at}", state_delta={"step": at})
        ada.rewind("s", before_invocation=f"run {at}")
    return lambda _: ada.undo_rewind("s")


def _handles(service: SessionService) -> Act:
    ada = service.as_user("ada")

    def run(at: int) -> None:
        with ada.invocation("s", f"handled {at}") as run:
            run.append(said(0))
            run.state["step"] = at
            run.context(last_n=20)
            run.append(said(1))

    return run


def _edits(service: SessionService) -> Act:
    ada = service.as_user("ada")
    return lambda at: ada.edit("s", HumanMessage(f"Is it going to snow, {at}?", id="q"))


def _reads(read: Callable[[SessionService], object]) -> Callable[[SessionService], Act]:
    return lambda service: lambda _: read(service.as_user("ada"))


def _pages(service: SessionService) -> Act:
    ada = service.as_user("ada")
    newest = ada.events("s", EventFilter(last_n=20))
    return lambda _: ada.events("s", cursor=newest.previous_cursor)


def _advises(model: FakeListChatModel, **how: Any) -> Callable[[SessionService], Act]:
    def ready(service: SessionService) -> Act:
        chat = SessionMemoryAdvisor(service, last_n=20, **how).wrap(model)

        def ask(at: int) -> None:
            try:
                chat.invoke(f"And now, {at}?", _config())
            except ConnectionError:
                assert isinstance(model, BrokenModel)

        return ask

    return ready


def _streams(service: SessionService) -> Act:
    chat = SessionMemoryAdvisor(service, last_n=20).wrap(_model())
    return lambda at: list(chat.stream(f"And now, {at}?", _config()))


def _awaits(service: SessionService) -> Act:
    chat = SessionMemoryAdvisor(service, last_n=20).wrap(_model())
    return lambda at: asyncio.run(chat.ainvoke(f"And now, {at}?", _config()))


def _agents(service: SessionService) -> Act:
    agent = create_agent(_model(), middleware=[SessionMemoryMiddleware(service, last_n=20)])
    return lambda at: agent.invoke({"messages": [HumanMessage(f"And now, {at}?")]}, _config())


def _histories(service: SessionService) -> Act:
    history = SessionChatMessageHistory("s", service.as_user("ada"), last_n=20)

    def turn(at: int) -> None:
        assert history.messages
        history.add_messages([said(at * 2), said(at * 2 + 1)])

    return turn


def _searches(service: SessionService) -> Act:
    tool = create_conversation_search_tool(service)
    return lambda _: tool.invoke({"query": "rain"}, _config())


def _not_due(service: SessionService) -> Act:
    ada = service.as_user("ada")
    compaction = Compaction(TokenCount(10**9), SlidingWindow(20))
    return lambda _: ada.compact("s", compaction)


def _not_due_later(service: SessionService) -> Act:
    ada = service.as_user("ada")
    compaction = Compaction(TokenCount(10**9), SlidingWindow(20))
    running = log_of(service).background

    def act(_: int) -> object:
        begun = ada.compact_later("s", compaction)
        running.drain(60)  # what it does on its thread counts, too, whenever that begins
        return begun

    return act


def _blanks(service: SessionService) -> Act:
    ada = service.as_user("ada")
    for at in range(4):
        ada.append("s", said(at, id=f"secret {at}"))
    return lambda at: ada.blank("s", f"secret {at}")


class Thread:
    """A graph's thread of four messages on the long log, and the calls of a saver on it."""

    def __init__(self, service: SessionService) -> None:
        self.saver = SessionCheckpointSaver(service)
        self.messages = [said(at, id=f"said in a thread {at}") for at in range(4)]
        self.config: Any = _config()
        self.config["configurable"]["checkpoint_ns"] = ""
        self.put(0)

    def put(self, at: int) -> None:
        """The next checkpoint."""
        self.messages = [*self.messages, said(at, id=f"put in a thread {at} {len(self.messages)}")][-4:]
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": self.messages}
        version = f"{len(self.messages) + at:032}"
        checkpoint["channel_versions"] = {"messages": version}
        put: Any = self.saver.put(self.config, checkpoint, {"source": "loop", "step": at}, {"messages": version})
        self.config = {"configurable": {**put["configurable"], "user_id": "ada"}}

    def put_writes(self, at: int) -> None:
        """What a task of its next step writes."""
        self.saver.put_writes(self.config, [("messages", [said(at, id=f"written {at}")])], f"task {at}")

    def get(self) -> None:
        """The newest checkpoint."""
        assert self.saver.get_tuple(_config()) is not None

    def list(self) -> None:
        """The newest one as a list."""
        assert [*self.saver.list(_config(), limit=1)]


def _threads(act: Callable[[Thread, int], object]) -> Callable[[SessionService], Act]:
    def ready(service: SessionService) -> Act:
        thread = Thread(service)
        return lambda at: act(thread, at)

    return ready


def _model() -> FakeListChatModel:
    return FakeListChatModel(responses=["Fair weather, I think."])


OF_GRAPHS: dict[str, Callable[[SessionService], Act]] = {
    "a step of a graph": _threads(Thread.put),
    "what a task of a graph writes": _threads(Thread.put_writes),
    "a graph's newest checkpoint": _threads(lambda thread, _: thread.get()),
    "a list of checkpoints": _threads(lambda thread, _: thread.list()),
}
"""They make the log a graph's thread, which can be rewound to a checkpoint alone."""

CALLS: dict[str, Callable[[SessionService], Act]] = {
    "append a message": _appends(),
    "append with an id": lambda service: lambda at: service.as_user("ada").append("s", said(at, id=f"new {at}")),
    "append what is stored": lambda service: lambda _: service.as_user("ada").append("s", said(50, id="m50")),
    "append 40": lambda service: lambda at: service.as_user("ada").append("s", [said(n) for n in range(40)]),
    "append with state": lambda service: (
        lambda at: service.as_user("ada").append("s", said(at), state_delta={"step": at})
    ),
    "append with the state of a user": _appends(state_delta={"user:name": "Ada", "app:motd": "hello"}),
    "append on a branch": _appends(branch="weather"),
    "append at a version": lambda service: (
        lambda at: service.as_user("ada").append(
            "s", said(at), expected_version=service.as_user("ada").get("s").version
        )
    ),
    "a run opens": lambda service: (
        lambda at: service.as_user("ada").append(
            "s", said(at), invocation_id=f"new run {at}", invocation_status=InvocationStatus.OPEN
        )
    ),
    **{f"a run is {status.value}": _runs(status) for status in InvocationStatus if status is not InvocationStatus.OPEN},
    "a handle of a run": _handles,
    "edit": _edits,
    "rewind": _rewinds,
    "rewind of what was never set before": _rewinds_what_was_never_set,
    "undo_rewind": _undoes,
    "messages": _reads(lambda ada: ada.messages("s", last_n=20)),
    "messages of a branch": _reads(lambda ada: ada.messages("s", last_n=20, branch="weather.now")),
    "context": _reads(lambda ada: ada.context("s", last_n=20)),
    "events": _reads(lambda ada: ada.events("s", EventFilter(last_n=20))),
    "a page of events": _pages,
    "events of a kind": _reads(
        lambda ada: ada.events("s", EventFilter(last_n=3, kinds=frozenset({EventKind.MESSAGE})))
    ),
    "events that stand": _reads(lambda ada: ada.events("s", EventFilter.active().merge(EventFilter(last_n=20)))),
    "get": _reads(lambda ada: ada.get("s")),
    "open": _reads(lambda ada: ada.open("s")),
    "state": _reads(lambda ada: ada.state("s")),
    "count": _reads(lambda ada: ada.count("s")),
    "list_sessions": _reads(lambda ada: ada.list_sessions()),
    "update": lambda service: lambda at: service.as_user("ada").update("s", title=f"Boats {at}"),
    "end and reopen": _reads(lambda ada: (ada.end("s"), ada.reopen("s"))),
    "create": lambda service: lambda at: service.as_user("ada").create(f"new {at}"),
    "compact, which is not due": _not_due,
    "compact_later, which is not due": _not_due_later,
    "blank": _blanks,
    "shared_state": _reads(lambda ada: ada.shared_state()),
    "update_shared_state": lambda service: (
        lambda at: service.as_user("ada").update_shared_state({"user:name": f"Ada {at}"})
    ),
    **OF_GRAPHS,
    "search for something rare": _reads(lambda ada: ada.search("rain", session_id="s")),
    "the search tool": _searches,
    "advisor": _advises(_model()),
    "advisor that fails": _advises(BrokenModel(responses=[""])),
    "advisor that compacts when due": _advises(_model(), compaction=Compaction(TokenCount(10**9), SlidingWindow(20))),
    "advisor, streamed": _streams,
    "advisor, awaited": _awaits,
    "middleware": _agents,
    "history": _histories,
}
"""What is not here grows with the log by its nature: reads without a window, the state of a graph, which LangGraph asks
for whole, `fork`, exports, `verify`, `reindex`, `delete`, `delete_user` and `purge_expired`; and so do a compaction
that is due, by what it archives, and filters that no index serves, by what they look through.

Some of what happened to a log is read with every call: which edits took the place of what, fourteen bytes each
(`test_edits.py`). A rewind reads the marks of its log.
What lies within a window's stretch and does not stand, such as a run that others have open, the database looks at and
leaves out."""
