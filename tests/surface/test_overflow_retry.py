"""A prompt that a provider finds too long is compacted once and asked once more, whoever the provider is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import Compaction, SlidingWindow, TurnCount
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import Refuse, Truncated
from tests.surface.conftest import Face, logged, question, texts
from tests.surface.overflow_answers import OTHERS, OVERFLOWS, Answer

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub

WINDOW = 1_000


def talked(ada: SessionService) -> None:
    ada.open("s1")
    for number in range(4):
        ada.append("s1", [HumanMessage(f"question {number}"), AIMessage(f"answer {number}")])


def remembering(sessions: SessionService, model: ChatOpenAI, kind: str, **options: Any) -> Any:
    """A model with memory that compacts on overflow alone."""
    options = {"compaction": Compaction(TurnCount(99), SlidingWindow(2)), "context_window": WINDOW, **options}
    if kind == "advisor":
        return SessionMemoryAdvisor(sessions, **options).wrap(model)
    return create_agent(model, middleware=[SessionMemoryMiddleware(sessions, **options)])


def asking(kind: str, text: str) -> Any:
    return text if kind == "advisor" else question(text)


@pytest.mark.parametrize("kind", ["advisor", "middleware"])
@pytest.mark.parametrize("answer", OVERFLOWS[::9], ids=lambda answer: f"{answer.provider}: {answer.about}")
async def test_it_is_compacted_and_asked_once_more(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    answer: Answer,
    kind: str,
) -> None:
    talked(ada)
    stub.script(answer.answer, "fits")
    await face.invoke(remembering(sessions, model, kind), asking(kind, "and now"), thread)
    assert len(stub.requests) == 2
    assert len(stub.last.messages) < len(stub.requests[0].messages)
    assert texts(ada)[-2:] == ["and now", "fits"]


@pytest.mark.parametrize("kind", ["advisor", "middleware"])
@pytest.mark.parametrize("answer", OTHERS[::5], ids=lambda answer: f"{answer.provider}: {answer.about}")
async def test_nothing_else_costs_a_compaction(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    answer: Answer,
    kind: str,
) -> None:
    talked(ada)
    stub.script(answer.answer)
    with pytest.raises(Exception):  # noqa: B017, PT011 - each client raises what it likes
        await face.invoke(remembering(sessions, model, kind), asking(kind, "and now"), thread)
    assert len(stub.requests) == 1
    assert {standing for _, _, standing in logged(ada)} == {"live", "failed"}


@pytest.mark.parametrize("kind", ["advisor", "middleware"])
async def test_a_predicate_of_ones_own(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    kind: str,
) -> None:
    talked(ada)
    stub.script(Refuse(400, '{"error": {"message": "E-4711"}}'), "fits")
    chat = remembering(sessions, model, kind, is_overflow=lambda error: "E-4711" in str(error))
    await face.invoke(chat, asking(kind, "and now"), thread)
    assert texts(ada)[-2:] == ["and now", "fits"]


@pytest.mark.parametrize("kind", ["advisor", "middleware"])
async def test_a_predicate_that_fails_does_not_hide_the_error(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    kind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(error: Exception) -> bool:
        raise ValueError(str(error))

    talked(ada)
    stub.script(Refuse(400, '{"error": {"message": "E-4711"}}'))
    with pytest.raises(Exception, match="E-4711"):
        await face.invoke(remembering(sessions, model, kind, is_overflow=fails), asking(kind, "and now"), thread)
    assert "is_overflow raised ValueError" in caplog.text
    assert "E-4711" not in caplog.text


@pytest.mark.parametrize("kind", ["advisor", "middleware"])
async def test_a_reply_that_the_window_cut_is_asked_for_once_more(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    kind: str,
) -> None:
    talked(ada)
    stub.script(Truncated("half an ans", WINDOW - 3, 3), "a whole answer")
    await face.invoke(remembering(sessions, model, kind), asking(kind, "and now"), thread)
    assert len(stub.last.messages) < len(stub.requests[0].messages)
    assert texts(ada)[-2:] == ["and now", "a whole answer"]
    assert "half an ans" not in [text for _, text, _ in logged(ada)]


@pytest.mark.parametrize("kind", ["advisor", "middleware"])
@pytest.mark.parametrize("spent", [(100, 300), (WINDOW - 3, 3)], ids=["its own limit", "twice"])
async def test_a_reply_that_stays_cut_is_delivered(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    kind: str,
    spent: tuple[int, int],
) -> None:
    talked(ada)
    stub.script(Truncated("half", *spent), Truncated("half again", *spent))
    await face.invoke(remembering(sessions, model, kind), asking(kind, "and now"), thread)
    assert texts(ada)[-1] == ("half again" if sum(spent) >= WINDOW else "half")
    assert len(stub.requests) == 1 + (sum(spent) >= WINDOW)


async def test_a_streamed_reply_that_was_cut_is_delivered_once(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
) -> None:
    talked(ada)
    stub.script(Truncated("half", WINDOW, 0))
    chunks = await face.stream(remembering(sessions, model, "advisor"), "and now", thread)
    assert "".join(str(chunk.text) for chunk in chunks) == "half"
    assert len(stub.requests) == 1
