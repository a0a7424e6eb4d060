"""What goes wrong: errors, cancelled calls, readers who leave, prompts that are too long."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import JsonOutputParser
from langgraph.checkpoint.memory import InMemorySaver

from langchain_sessions import Compaction, SlidingWindow, Summarize, SummaryLimits, TurnCount
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import PromptTooLongError
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import Cut, Fail, Hold, Overflow, call
from tests.surface.conftest import Face, logged, question, texts, weather

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from tests.openai_stub.server import OpenAIStub


class BrokenModel(FakeListChatModel):
    """A summariser whose provider is down."""

    def _call(self, *args: Any, **kwargs: Any) -> str:
        raise ConnectionError


async def test_a_failed_turn_is_marked_and_not_replayed(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model)
    stub.script(Fail(), "hello")
    with pytest.raises(Exception, match="429"):
        await face.invoke(chat, "first", config)
    assert logged(ada) == [("human", "first", "failed")]
    await face.invoke(chat, "second", config)
    assert stub.last.texts == ["second"]
    assert texts(ada) == ["second", "hello"]


@pytest.mark.parametrize("question", ["first", HumanMessage("first", id="q1")])
async def test_a_retry_stores_nothing_twice(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
    question: Any,
) -> None:
    chat = memory.wrap(model).with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    stub.script(Fail(), Fail(), "hello")
    await face.invoke(chat, [question], config)
    assert logged(ada) == [("human", "first", "live"), ("ai", "hello", "live")]


async def test_a_reader_who_leaves_early(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model)
    stub.script("one two three four five six", "fine")
    await face.stream(chat, "count", config, take=4)
    kind, text, standing = logged(ada)[-1]
    assert (kind, standing) == ("ai", "interrupted")
    assert text.startswith("one two")
    await face.invoke(chat, "go on", config)
    assert stub.last.roles == ["user", "assistant", "user"]


@pytest.mark.parametrize("host", ["task", "scope"])
async def test_a_host_that_cancels_the_reader(
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
    host: str,
) -> None:
    chat, arrived, release = memory.wrap(model), asyncio.Event(), threading.Event()
    stub.script(Hold("one two three four five six", release, after=3), "fine")

    async def read() -> None:
        async for chunk in chat.astream("count", config):
            if chunk.text:
                arrived.set()

    if host == "task":
        reader = asyncio.ensure_future(read())
        await arrived.wait()
        reader.cancel()
        await asyncio.wait([reader])
    else:
        # As Starlette does it: whatever is awaited inside the scope is cancelled again and again.
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await arrived.wait()
            group.cancel_scope.cancel()
    release.set()
    kind, text, standing = logged(ada)[-1]
    assert (kind, standing) == ("ai", "interrupted")
    assert text.startswith("one")
    await chat.ainvoke("go on", config)
    assert stub.last.roles == ["user", "assistant", "user"]


async def test_a_reader_who_leaves_before_the_first_word(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model)
    await face.stream(chat, "count", config, take=1)
    await face.invoke(chat, "go on", config)
    assert stub.last.texts == ["go on"]
    assert logged(ada)[0] == ("human", "count", "failed")


async def test_a_reader_who_leaves_at_the_last_chunk(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    stub.script("one two three")
    await face.stream(memory.wrap(model), "count", config, take=6)
    assert logged(ada) == [("human", "count", "live"), ("ai", "one two three", "live")]


async def test_a_connection_that_breaks(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model)
    stub.script(Cut("one two three four five six", 4), "hello")
    with pytest.raises(Exception, match=r"(?i)connection|peer"):
        await face.stream(chat, "count", config)
    assert logged(ada) == [("human", "count", "failed"), ("ai", "one two three", "failed")]
    await face.invoke(chat, "again", config)
    assert stub.last.texts == ["again"]


async def test_the_same_question_after_a_broken_stream(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model)
    stub.script(Cut("one two three four five six", 4), "six", "bye")
    with pytest.raises(Exception, match=r"(?i)connection|peer"):
        await face.stream(chat, "count", config)
    await face.invoke(chat, "count", config)
    await face.invoke(chat, "thanks", config)
    assert texts(ada) == ["count", "six", "thanks", "bye"]


async def test_a_parser_that_fails(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chain = memory.wrap(model | JsonOutputParser())
    stub.script("no json", '{"a": 1}')
    with pytest.raises(OutputParserException):
        await face.invoke(chain, "json please", config)
    assert await face.invoke(chain, "json please", config) == {"a": 1}
    assert texts(ada) == ["json please", '{"a": 1}']
    assert ("ai", "no json", "failed") in logged(ada)


async def test_cancelled_calls(
    stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, ada: SessionService, config: RunnableConfig
) -> None:
    chat, release = memory.wrap(model), threading.Event()
    for number in range(4):
        stub.script(Hold("never", release))
        running = asyncio.ensure_future(chat.ainvoke(f"question {number}", config))
        while len(stub.requests) <= number:
            await asyncio.sleep(0.005)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    release.set()
    await chat.ainvoke("at last", config)
    assert stub.last.texts == ["at last"]
    assert [standing for _, _, standing in logged(ada)] == ["failed"] * 4 + ["live", "live"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_overflow_is_compacted_and_tried_once_more(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
    *,
    streamed: bool,
) -> None:
    memory = SessionMemoryAdvisor(sessions, compaction=Compaction(TurnCount(99), SlidingWindow(4)))
    chat = memory.wrap(model)
    for number in range(4):
        await face.invoke(chat, f"question {number}", config)
    stub.script(Overflow(), "fits")
    call_it = face.stream if streamed else face.invoke
    await call_it(chat, "and now", config)
    assert len(stub.requests) == 6
    assert len(stub.last.messages) < len(stub.requests[-2].messages)
    assert texts(ada)[-2:] == ["and now", "fits"]


async def test_an_answer_without_a_word(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    stub.script("", "here")
    chat = memory.wrap(model)
    await face.invoke(chat, "first", config)
    await face.invoke(chat, "second", config)
    assert stub.last.texts == ["second"]
    assert logged(ada)[0] == ("human", "first", "failed")


@pytest.mark.parametrize("saver", [InMemorySaver, SessionCheckpointSaver])
async def test_an_agent_that_answers_without_a_word(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    model: ChatOpenAI,
    thread: RunnableConfig,
    saver: Any,
) -> None:
    agent = create_agent(
        model,
        [weather],
        middleware=[SessionMemoryMiddleware(sessions)],
        checkpointer=saver() if saver is InMemorySaver else saver(sessions),
    )
    stub.script(call("weather", city="Rome"), "", "two", "", "four")
    for text in ("one?", "two?", "three?", "four?"):
        await face.invoke(agent, question(text), thread)
    assert stub.last.texts == ["one?", "sun in Rome", "two?", "two", "four?"]


async def test_an_overflow_of_a_history_that_is_summarised_in_steps(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    """The next step would not make room for the call at hand."""
    ada.open("s1")
    for number in range(40):
        ada.append("s1", [HumanMessage(f"question {number} " + "why " * 50), AIMessage(f"answer {number}")])
    small = SummaryLimits(max_input_tokens=2_500, max_calls=1)
    summarise = Summarize(FakeListChatModel(responses=["They talked."]), keep_events=2, limits=small)
    memory = SessionMemoryAdvisor(sessions, compaction=Compaction(TurnCount(99), summarise), context_window=500)
    stub.script(Overflow(), "fits")
    await face.invoke(memory.wrap(model), "and now", config)
    assert stub.last.texts[-1] == "and now"
    assert ada.get("s1").token_count < 500


async def test_an_overflow_that_stays_is_reported(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model)
    await face.invoke(chat, "hi", config)
    stub.script(Overflow(), Overflow(), "small is fine")
    with pytest.raises(PromptTooLongError, match="running turn") as caught:
        await face.invoke(chat, "huge " * 100, config)
    assert caught.value.parts["running turn"] > 100
    assert "maximum context length" in str(caught.value.__cause__)
    assert "huge" not in str(caught.value)
    assert len(stub.requests) <= 3
    await face.invoke(chat, "small", config)
    assert texts(ada)[-2:] == ["small", "small is fine"]


async def test_a_summariser_that_raises_costs_no_answer(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    summarise = Summarize(BrokenModel(responses=[""]), keep_events=2, overlap=0)
    chat = SessionMemoryAdvisor(sessions, compaction=Compaction(TurnCount(1), summarise)).wrap(model)
    for text in ("one " * 50, "two", "three"):
        await face.invoke(chat, text, config)
    assert texts(ada)[-2:] == ["three", "reply 3"]
    assert len(stub.last.messages) == 5


async def test_calls_that_are_cancelled_at_any_moment(
    stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, ada: SessionService, config: RunnableConfig
) -> None:
    chat, dice = memory.wrap(model), random.Random(7)  # noqa: S311 - a seed makes a scenario
    await chat.ainvoke("hello", config)
    for number in range(10):
        running = asyncio.ensure_future(chat.ainvoke(f"question {number}", config))
        await asyncio.sleep(dice.random() * 0.04)
        running.cancel()
        await asyncio.wait([running])
    await chat.ainvoke("at last", config)
    shown = texts(ada)
    assert (shown[0], shown[-2]) == ("hello", "at last")
    questions = [text for kind, text, _ in logged(ada) if kind == "human"]
    assert questions == sorted(questions, key=lambda text: (text != "hello", text == "at last", text))
    assert "open" not in {standing for _, _, standing in logged(ada)}
    assert ada.verify("s1") == []
