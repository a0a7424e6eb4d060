"""Issue 17, item 3: async calls on SQLite run in threads of the service's own, few of them, which end with it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions import (
    Compaction,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionService,
    SlidingWindow,
    create_conversation_search_tool,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

BLOCKING = 24
PATIENCE = 60.0
NAME = "langchain-sessions"


_others: WeakSet[threading.Thread] = WeakSet()


@pytest.fixture(autouse=True)
def others() -> None:
    """Threads of services that other tests have left to the end of the process are none of ours."""
    _others.update(threading.enumerate())


def ours() -> list[str]:
    """The threads that are the library's, made since the test began."""
    return [each.name for each in threading.enumerate() if each.name.startswith(NAME) and each not in _others]


@pytest.fixture(params=["file", "memory"])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionService]:
    url = f"sqlite:///{tmp_path}/chat.db" if request.param == "file" else "sqlite://"
    async with SessionService(url) as opened:
        yield opened
    assert await _gone(), ours()


async def _gone() -> bool:
    """Whether our threads are over; a thread that was told to end does so in a moment."""
    for _ in range(200):
        if not ours():
            return True
        await asyncio.sleep(0.01)
    return False


class Async(BaseChatModel):
    """A model that needs no thread to answer."""

    @property
    def _llm_type(self) -> str:
        return "async"

    def _generate(self, messages: list[BaseMessage], *given: Any, **options: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *given: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"{len(messages)} so far"))])


def config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "user_id": "ada"}}


def graph_with(node: Any, sessions: SessionService) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("work", node)
    builder.add_edge(START, "work")
    return builder.compile(checkpointer=SessionCheckpointSaver(sessions))


async def quick(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(f"{len(state['messages'])} so far")]}


async def test_item_3_no_call_waits_for_the_executor_of_the_loop(sessions: SessionService) -> None:
    release = threading.Event()
    pool = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(pool)
    held = loop.run_in_executor(None, release.wait)
    try:
        await asyncio.wait_for(_everything(sessions), PATIENCE)
    finally:
        release.set()
        await held


async def _everything(sessions: SessionService) -> None:
    ada = sessions.as_user("ada")
    await ada.acreate("s")
    await ada.aappend("s", [HumanMessage("Where is my passport?"), AIMessage("In the drawer.")])
    assert len(await ada.amessages("s")) == 2
    assert len(await ada.aevents("s")) == 2
    assert (await ada.asearch("passport", session_id="s")).items
    await ada.acompact("s", Compaction(None, SlidingWindow(2)))
    await ada.arewind("s", to_seq=1)
    await ada.afork("s", new_id="copy")
    assert await ada.averify("s") == []
    chat = SessionMemoryAdvisor(sessions).wrap(Async())
    assert (await chat.ainvoke("hi", config("chat"))).text == "1 so far"
    assert [chunk.text async for chunk in chat.astream("and again", config("chat"))] == ["3 so far"]
    look = create_conversation_search_tool(sessions)
    assert "my passport" in await look.ainvoke({"query": "passport"}, config("copy"))
    graph = graph_with(quick, sessions)
    await graph.ainvoke({"messages": [HumanMessage("hi")]}, config("t"))
    assert [state async for state in graph.aget_state_history(config("t"))]
    await graph.aupdate_state(config("t"), {"messages": [HumanMessage("by hand")]})
    await graph.checkpointer.acopy_thread("t", "u")
    await graph.checkpointer.aprune(["u"])
    await graph.checkpointer.adelete_thread("u")
    assert await ada.adelete("s")
    await sessions.aclose()


async def test_item_3_a_quick_graph_beside_blocking_nodes(sessions: SessionService) -> None:
    release = threading.Event()

    def slow(state: MessagesState) -> dict[str, Any]:
        release.wait(PATIENCE)
        return {"messages": [AIMessage("at last")]}

    slow_graph, quick_graph = graph_with(slow, sessions), graph_with(quick, sessions)
    question = {"messages": [HumanMessage("hi")]}
    waiting = [asyncio.create_task(slow_graph.ainvoke(question, config(f"slow-{at}"))) for at in range(BLOCKING)]
    try:
        for turn in range(3):
            await asyncio.wait_for(quick_graph.ainvoke(question, config("quick")), PATIENCE / 2)
            assert not any(task.done() for task in waiting), turn
    finally:
        release.set()
    assert [len(done["messages"]) for done in await asyncio.gather(*waiting)] == [2] * BLOCKING


async def test_item_3_sync_nodes_that_wait_for_an_async_graph(sessions: SessionService) -> None:
    loop = asyncio.get_running_loop()
    inner = graph_with(quick, sessions)

    def delegate(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        thread = {"configurable": {"thread_id": f"inner-{(config.get('configurable') or {})['thread_id']}"}}
        asked = asyncio.run_coroutine_threadsafe(inner.ainvoke({"messages": [HumanMessage("inner")]}, thread), loop)
        return {"messages": asked.result(PATIENCE)["messages"][-1:]}

    outer = graph_with(delegate, sessions)
    question = {"messages": [HumanMessage("hi")]}
    calls = [outer.ainvoke(question, config(f"{at}")) for at in range(BLOCKING)]
    done = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
    assert [answer["messages"][-1].text for answer in done] == ["1 so far"] * BLOCKING


async def test_item_3_the_threads_are_few(sessions: SessionService) -> None:
    seen: set[str] = set()

    async def talk(at: int) -> None:
        await sessions.aopen(f"s{at}")
        for turn in range(3):
            await sessions.aappend(f"s{at}", HumanMessage(f"{turn}"))
            seen.update(ours())

    await asyncio.gather(*(talk(at) for at in range(60)))
    assert 0 < len(seen) <= 4
    assert len((await sessions.alist_sessions(limit=100)).items) == 60


def test_item_3_a_synchronous_close_ends_them_too(tmp_path: Path) -> None:
    sessions = SessionService(f"sqlite:///{tmp_path}/chat.db")
    asyncio.run(sessions.aopen("s"))
    assert ours()
    sessions.close()
    assert not ours()
