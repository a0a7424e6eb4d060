"""The advisor on every backend: a conversation, a tool loop, a failure, a retry, a compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_sessions import Compaction, EventFilter, SlidingWindow, Standing, TurnCount
from langchain_sessions.memory import SessionMemoryAdvisor
from tests.openai_stub.replies import Fail, call
from tests.surface.conftest import Face, config_for, logged, texts

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub


async def test_a_conversation(face: Face, stub: OpenAIStub, stored: SessionService, model: ChatOpenAI) -> None:
    config = config_for("s1")
    chat = SessionMemoryAdvisor(stored).wrap(model)
    stub.script("hello", call("weather", city="Rome"), "sunny", Fail(), "again", "bye")
    await face.invoke(chat, "hi", config)
    asked = HumanMessage("weather?")
    reply = await face.invoke(chat, asked, config)
    again = AIMessage(reply.content, tool_calls=reply.tool_calls)
    await face.stream(chat, [asked, again, ToolMessage("sun", tool_call_id=reply.tool_calls[0]["id"])], config)
    with pytest.raises(Exception, match="429"):
        await face.invoke(chat, "fails", config)
    await face.invoke(chat, "fails", config)
    await face.invoke(chat, "thanks", config)
    assert texts(stored) == ["hi", "hello", "weather?", "", "sun", "sunny", "fails", "again", "thanks", "bye"]
    assert {standing for _, _, standing in logged(stored)} == {"live"}
    assert stored.verify("s1") == []


async def test_a_compaction(face: Face, stub: OpenAIStub, stored: SessionService, model: ChatOpenAI) -> None:
    compaction = Compaction(TurnCount(2), SlidingWindow(2))
    chat = SessionMemoryAdvisor(stored, compaction=compaction, branch="orch.writer").wrap(model)
    for number in range(4):
        await face.invoke(chat, f"question {number}", config_for("s1"))
    assert len(stub.last.messages) < 7
    assert len(logged(stored)) == 8
    assert texts(stored) == []
    assert stored.verify("s1") == []


@pytest.mark.parametrize("named", [True, False])
async def test_a_question_that_was_logged_before_its_run(
    face: Face, stub: OpenAIStub, stored: SessionService, model: ChatOpenAI, *, named: bool
) -> None:
    """A graph's checkpoint or the application logged it: it fails and comes back with the run that answers it."""
    chat = SessionMemoryAdvisor(stored).wrap(model)
    failed = EventFilter(standings=frozenset({Standing.FAILED}))
    question = HumanMessage("question", id="q" * 250 if named else None)
    stored.open("s1")
    stored.append("s1", question)
    stub.script(Fail(), "hello", "answer", "bye")
    with pytest.raises(Exception, match="429"):
        await face.invoke(chat, question, config_for("s1"))
    assert [event.message.text for event in stored.events("s1", failed) if event.message] == ["question"]
    assert (texts(stored), stored.count("s1").turns) == ([], 0)
    await face.invoke(chat, "another", config_for("s1"))
    assert stub.last.texts == ["another"]
    if named:
        # Without an id nothing tells this question from the same words said again.
        await face.invoke(chat, question, config_for("s1"))
        assert texts(stored) == ["question", "answer", "another", "hello"]
        assert len(stored.events("s1", failed)) == 0
        await face.invoke(chat, "thanks", config_for("s1"))
        assert stub.last.texts == ["question", "answer", "another", "hello", "thanks"]
    assert stored.verify("s1") == []
