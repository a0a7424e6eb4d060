"""Ids that mean something else already: of providers and clients that count anew, of messages on another branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import StructuredTool

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import call
from tests.surface.conftest import Face, config_for, logged, question, texts

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub


@pytest.mark.parametrize("said", [["one", "two", "three"], ["yes", "yes", "yes"]])
async def test_a_provider_that_gives_every_reply_the_same_id(
    face: Face, stored: SessionService, said: list[str]
) -> None:
    model = FakeMessagesListChatModel(responses=[AIMessage(text, id="reply") for text in said])
    chat = SessionMemoryAdvisor(stored).wrap(model)
    for number in range(3):
        await face.invoke(chat, f"question {number}", config_for("s1"))
    expected = [text for number in range(3) for text in (f"question {number}", said[number])]
    messages = await stored.amessages("s1") if face.name == "async" else stored.messages("s1")
    assert [str(message.text) for message in messages] == expected


async def test_a_client_that_numbers_questions_anew(
    face: Face, stub: OpenAIStub, ada: SessionService, model: ChatOpenAI, config: RunnableConfig
) -> None:
    chat = SessionMemoryAdvisor(ada).wrap(model)
    for text in ("first", "second"):
        await face.invoke(chat, [HumanMessage(text, id="1")], config)
    assert stub.last.texts == ["first", "reply 1", "second"]
    assert texts(ada) == ["first", "reply 1", "second", "reply 2"]


async def test_numbered_anew_in_a_loop(
    face: Face, stub: OpenAIStub, ada: SessionService, model: ChatOpenAI, thread: RunnableConfig
) -> None:
    look = StructuredTool.from_function(lambda: "found", name="look", description="Look.")
    agent: Any = create_agent(model, [look], middleware=[SessionMemoryMiddleware(ada)])
    stub.script("one", call("look"), "two")
    for text in ("first", "second"):
        await face.invoke(agent, {"messages": [HumanMessage(text, id="1")]}, thread)
    assert stub.last.texts == ["first", "one", "second", "", "found"]
    assert [text for _, text, _ in logged(ada)] == ["first", "one", "second", "", "found", "two"]


async def test_the_same_request_again_is_still_stored_once(
    face: Face, stub: OpenAIStub, ada: SessionService, model: ChatOpenAI, config: RunnableConfig
) -> None:
    chat = SessionMemoryAdvisor(ada).wrap(model)
    asked: list[BaseMessage] = [HumanMessage("first", id="1")]
    reply = await face.invoke(chat, asked, config)
    stub.allow_repeats = True
    await face.invoke(chat, [*asked, reply, HumanMessage("second", id="2")], config)
    assert texts(ada) == ["first", "reply 1", "second", "reply 2"]


async def test_a_helper_sees_its_own_questions_beside_a_checkpointer(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    """The checkpointer logs what the helper's subgraph holds first, on the branch of the tools."""
    face.needs_config_in_tasks()
    memory = SessionMemoryMiddleware(sessions)
    helper: Any = create_agent(model, middleware=[memory.on_branch("helper")])

    def ask(q: str) -> str:
        """Ask somebody."""
        state: dict[str, Any] = helper.invoke(question(q))
        return str(state["messages"][-1].text)

    async def aask(q: str) -> str:
        """Ask somebody."""
        state: dict[str, Any] = await helper.ainvoke(question(q))
        return str(state["messages"][-1].text)

    tool = StructuredTool.from_function(ask, aask, name="ask")
    agent: Any = create_agent(model, [tool], middleware=[memory], checkpointer=SessionCheckpointSaver(sessions))
    stub.allow_repeats = True
    stub.script(
        call("ask", q="little one"), "helped", "done", call("ask", q="little two"), "helped again", "done again"
    )
    for text in ("big one", "big two"):
        await face.invoke(agent, question(text), thread)
    helped = [message["content"] for message in stub.requests[4].messages]
    assert helped[-3:] == ["little one", "helped", "little two"]
    asked = {"little one", "little two"}
    assert asked <= set(texts(ada, branch="helper"))
    assert not asked & set(texts(ada))
