"""A rewind while the model speaks or a tool works: no view shows an answer to a question that was taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import Field

from langchain_sessions import EventNotFoundError, InvalidInputError, SessionCheckpointSaver, Standing
from langchain_sessions._core.flow import drive
from langchain_sessions._log.append import append_events
from langchain_sessions._log.log import log_of
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.surface.conftest import Face, config_for, logged, question, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig

    from langchain_sessions import SessionService


class Speaking(BaseChatModel):
    """A model that says what it is told, and does something before."""

    replies: list[Any]
    meanwhile: dict[int, Any] = Field(default_factory=dict)
    shown: list[list[str]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "speaking"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        at = len(self.shown)
        self.shown.append([message.text for message in messages])
        self.meanwhile.get(at, bool)()
        said = self.replies[at]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said) if isinstance(said, str) else said)])


def with_thread(config: RunnableConfig) -> RunnableConfig:
    return {"configurable": {**config.get("configurable", {}), "thread_id": "s1"}}


@pytest.mark.parametrize("how", ["advisor", "stream", "middleware", "middleware and saver"])
async def test_an_answer_to_what_was_taken_back_is_told_and_not_kept(
    face: Face, stored: SessionService, how: str
) -> None:
    model = Speaking(replies=["hello", "to nobody", "bye"])
    is_agent = "middleware" in how
    saver = SessionCheckpointSaver(stored) if "saver" in how else None
    agent: Any = create_agent(model, middleware=[SessionMemoryMiddleware(stored)], checkpointer=saver)
    chat: Any = agent if is_agent else SessionMemoryAdvisor(stored).wrap(model)
    config = with_thread(config_for("s1")) if is_agent else config_for("s1")

    async def ask(text: str) -> str:
        if how == "stream":
            return "".join(chunk.text for chunk in await face.stream(chat, text, config))
        # A checkpoint that is stored only after the rewind says question and answer once more.
        options = {"durability": "sync"} if saver else {}
        found = await face.invoke(chat, question(text) if is_agent else text, config, **options)
        return str((found["messages"][-1] if is_agent else found).text)

    assert await ask("hi") == "hello"
    before = stored.get("s1").version
    model.meanwhile[1] = lambda: stored.rewind("s1", to_seq=before)
    assert await ask("never mind") == "to nobody"
    assert texts(stored) == ["hi", "hello"]
    assert [message.text for message in stored.messages("s1")] == ["hi", "hello"]
    assert stored.count("s1").events == 2
    assert await ask("thanks") == "bye"
    assert model.shown[-1] == ["hi", "hello", "thanks"]
    assert texts(stored) == ["hi", "hello", "thanks", "bye"]
    assert stored.verify("s1") == []


@pytest.mark.parametrize("how", ["advisor", "stream", "middleware", "middleware and saver"])
async def test_who_goes_back_to_the_question_while_a_later_call_speaks_sees_the_question(
    face: Face, stored: SessionService, how: str
) -> None:
    """It stands as it was gone back to, is shown to the next call, and is answered where it is sent again."""

    @tool
    def look(city: str) -> str:
        """Look."""
        return f"sun in {city}"

    calls = AIMessage("", tool_calls=[{"name": "look", "args": {"city": "Rome"}, "id": "c1"}])
    model = Speaking(replies=[calls, "to nobody", "sunny", "bye"])
    is_agent = "middleware" in how
    saver = SessionCheckpointSaver(stored) if "saver" in how else None
    agent: Any = create_agent(model, [look], middleware=[SessionMemoryMiddleware(stored)], checkpointer=saver)
    chat: Any = agent if is_agent else SessionMemoryAdvisor(stored).wrap(model)
    config = with_thread(config_for("s1")) if is_agent else config_for("s1")
    asked = HumanMessage("weather?", id="q")

    async def ask(said: Any) -> None:
        if is_agent:
            await face.invoke(chat, {"messages": said}, config, **({"durability": "sync"} if saver else {}))
        elif how == "stream":
            await face.stream(chat, said, config)
        else:
            await face.invoke(chat, said, config)

    def back() -> None:
        question = next(event for event in stored.events("s1") if event.message and event.message.text == "weather?")
        stored.rewind("s1", to_seq=question.seq)

    model.meanwhile[1] = back
    await ask([asked])
    if not is_agent:
        await ask([ToolMessage("sun in Rome", tool_call_id="c1")])
    assert [message.text for message in stored.messages("s1")] == ["weather?"]
    assert stored.count("s1").events == 1
    await ask([asked])
    assert model.shown[-1] == ["weather?"]
    await ask([HumanMessage("thanks")])
    assert model.shown[-1] == ["weather?", "sunny", "thanks"]
    assert [message.text for message in stored.messages("s1")] == ["weather?", "sunny", "thanks", "bye"]
    assert stored.verify("s1") == []


async def test_what_was_taken_back_and_brought_back_is_answered(face: Face, stored: SessionService) -> None:
    model = Speaking(replies=["hello", "here I am", "bye"])
    chat = SessionMemoryAdvisor(stored).wrap(model)

    def there_and_back() -> None:
        stored.rewind("s1", to_seq=2)
        stored.undo_rewind("s1")

    await face.invoke(chat, "hi", config_for("s1"))
    model.meanwhile[1] = there_and_back
    await face.invoke(chat, "where?", config_for("s1"))
    assert texts(stored) == ["hi", "hello", "where?", "here I am"]
    assert stored.verify("s1") == []


@pytest.mark.parametrize("to", ["the turn", "its question"])
async def test_a_tool_whose_call_was_taken_back(face: Face, stored: SessionService, to: str) -> None:
    """The agent goes on. Without its question what it says is nobody's; with it the turn is whole."""

    @tool
    def look(city: str) -> str:
        """Look."""
        stored.rewind("s1", to_seq=before + (to == "its question"))
        return f"sun in {city}"

    calls = AIMessage("", tool_calls=[{"name": "look", "args": {"city": "Rome"}, "id": "c1"}])
    model = Speaking(replies=["hello", calls, "sunny", "bye"])
    agent: Any = create_agent(model, [look], middleware=[SessionMemoryMiddleware(stored)])
    await face.invoke(agent, question("hi"), config_for("s1"))
    before = stored.get("s1").version
    await face.invoke(agent, question("weather?"), config_for("s1"))
    kinds = [message.type for message in stored.messages("s1")]
    assert kinds == ["human", "ai", *(["human", "ai", "tool", "ai"] if to == "its question" else [])]
    assert model.shown[2] == ["hi", "hello", "weather?", "", "sun in Rome"]
    await face.invoke(agent, question("thanks"), config_for("s1"))
    assert len(model.shown[3]) == len(kinds) + 1
    assert [text for _, text, standing in logged(stored) if standing == "live"][-2:] == ["thanks", "bye"]
    assert stored.verify("s1") == []


@pytest.mark.parametrize("how", ["the turn", "the result alone", "a call of none"])
async def test_results_whose_call_is_taken_back_just_before_they_are_stored(
    face: Face, stored: SessionService, how: str
) -> None:
    """As where it was taken back before: the turn is said anew, and a result alone says nothing to a model."""
    back: list[int] = []

    def store(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        if back and any(isinstance(message, ToolMessage) for message in messages):
            stored.rewind("s1", to_seq=back.pop())
        return list(messages)

    calls = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
    model = Speaking(replies=["hello", calls, "sunny", "bye"])
    chat = SessionMemoryAdvisor(stored, store=store).wrap(model)
    await face.invoke(chat, "hi", config_for("s1"))
    before = stored.get("s1").version
    said = await face.invoke(chat, "weather?", config_for("s1"))
    back.append(before)
    result = ToolMessage("sun", tool_call_id="c0" if "none" in how else "c1")
    if how == "the turn":
        await face.invoke(chat, [HumanMessage("weather?"), said, result], config_for("s1"))
        assert texts(stored) == ["hi", "hello", "weather?", "", "sun", "sunny"]
        assert model.shown[-1] == ["hi", "hello", "weather?", "", "sun"]
    else:
        with pytest.raises(InvalidInputError, match=f"'{result.tool_call_id}', or a rewind took it back: send its"):
            await face.invoke(chat, [result], config_for("s1"))
        model.replies.pop(2)
    await face.invoke(chat, "thanks", config_for("s1"))
    assert texts(stored)[-2:] == ["thanks", "bye"]
    assert stored.verify("s1") == []


@pytest.mark.parametrize("how", ["advisor", "stream", "middleware"])
@pytest.mark.parametrize(
    "error", [EventNotFoundError("other", "e9"), ValueError("no")], ids=lambda one: type(one).__name__
)
async def test_what_the_application_does_not_find_is_no_rewind(
    face: Face, stored: SessionService, how: str, error: Exception
) -> None:
    """A model that raises leaves no question in sight, whatever it raises."""

    def fail() -> None:
        raise error

    model = Speaking(replies=["hello", "", "bye"], meanwhile={1: fail})
    agent: Any = create_agent(model, middleware=[SessionMemoryMiddleware(stored)])
    chat: Any = agent if how == "middleware" else SessionMemoryAdvisor(stored).wrap(model)

    async def ask(text: str) -> None:
        said: Any = question(text) if how == "middleware" else text
        call = face.stream if how == "stream" else face.invoke
        await call(chat, said, with_thread(config_for("s1")) if how == "middleware" else config_for("s1"))

    await ask("hi")
    with pytest.raises(type(error)):
        await ask("never mind")
    assert [(text, standing) for _, text, standing in logged(stored) if text == "never mind"] == [
        ("never mind", "failed")
    ]
    await ask("thanks")
    assert model.shown[-1] == ["hi", "hello", "thanks"]


async def test_a_result_of_no_call_opens_no_session(face: Face, stored: SessionService) -> None:
    chat = SessionMemoryAdvisor(stored).wrap(Speaking(replies=["to nobody"]))
    with pytest.raises(InvalidInputError, match="the log has no call 'c1'"):
        await face.invoke(chat, [ToolMessage("sun", tool_call_id="c1")], config_for("s1"))
    assert not list(stored.list_sessions())


@pytest.mark.parametrize("ids", ["none", "the same", "new ones"])
async def test_results_that_are_sent_again_are_answered_again(face: Face, stored: SessionService, ids: str) -> None:
    """As a question is that comes again: it is stored once, and the model is shown the turn up to there."""

    def results() -> list[ToolMessage]:
        sent.append(1)
        named = {"none": None, "the same": "t", "new ones": f"t{len(sent)}-"}[ids]
        return [ToolMessage(f"sun {at}", tool_call_id=f"c{at}", id=named and f"{named}{at}") for at in (1, 2)]

    sent: list[int] = []
    calls = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": f"c{at}"} for at in (1, 2)])
    model = Speaking(replies=[calls, "sunny", calls, "so sunny", "so sunny!", "yes", "bye"])
    chat = SessionMemoryAdvisor(stored).wrap(model)
    await face.invoke(chat, "weather?", config_for("s1"))
    await face.invoke(chat, results(), config_for("s1"))
    if ids != "the same":
        # A provider that counts its calls anew: the same result of another call is another one.
        model.replies[2] = calls.model_copy(update={"id": None})
        await face.invoke(chat, "and now?", config_for("s1"))
        await face.invoke(chat, results(), config_for("s1"))
    else:
        del model.replies[2:4]
    once = model.shown[-1]
    assert once[-2:] == ["sun 1", "sun 2"]
    before = texts(stored)
    await face.invoke(chat, results(), config_for("s1"))
    assert model.shown[-1] == once
    await face.invoke(chat, list(reversed(results())), config_for("s1"))
    assert sorted(model.shown[-1]) == sorted(once)
    assert [text for text in texts(stored) if text][len(before) - before.count("") :] == ["so sunny!", "yes"]
    assert len({event.invocation_id for event in stored.events("s1")}) == (1 if ids == "the same" else 2)
    assert stored.verify("s1") == []


async def test_a_result_alone_finds_a_call_of_long_ago(face: Face, sessions: SessionService) -> None:
    calls = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
    model = Speaking(replies=[calls, "sunny"])
    chat = SessionMemoryAdvisor(sessions, last_n=2).wrap(model)
    await face.invoke(chat, "weather?", config_for("s1"))
    sessions.append("s1", [HumanMessage(f"by the way {at}") for at in range(30)])
    await face.invoke(chat, [ToolMessage("sun", tool_call_id="c1")], config_for("s1"))
    runs = {event.invocation_id for event in sessions.events("s1") if event.message and event.message.type != "human"}
    assert len(runs) == 1


def test_the_log_refuses_an_answer_to_what_was_taken_back(stored: SessionService) -> None:
    """However the store writes it: the fast way, the full way, and where the log was edited besides."""

    def answer(to: int, run: str = "r") -> list[Any]:
        said = AIMessage(f"to {to}")
        return drive(append_events(log_of(stored), "s", said, invocation_id=run, answers=to))

    stored.create("s")
    first = stored.append("s", HumanMessage("one", id="q"))[0].seq
    answer(first)
    stored.edit("s", HumanMessage("one!", id="q"))
    answer(first)
    taken = stored.append("s", HumanMessage("two"))[0].seq
    stored.rewind("s", to_seq=taken - 1)
    for run in ("r", "another"):
        with pytest.raises(EventNotFoundError, match=f"position {taken} to answer"):
            answer(taken, run)
    answer(first)
    assert [event.standing for event in stored.events("s").items if event.seq == taken] == [Standing.REWOUND]
    assert stored.count("s").events == 2
    assert stored.verify("s") == []
