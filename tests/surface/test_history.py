"""The chat message history: complete, and right where the runnable around it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from langchain_sessions import Compaction, EventFilter, SessionNotFoundError, SessionService, SlidingWindow, Standing
from langchain_sessions.history import SessionChatMessageHistory
from tests.surface.conftest import Face, texts
from tests.surface.strict_rules import violations

if TYPE_CHECKING:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_openai import ChatOpenAI

    from tests.openai_stub.server import OpenAIStub

pytestmark = pytest.mark.filterwarnings("ignore:.*RunnableWithMessageHistory")


async def read(face: Face, history: BaseChatMessageHistory) -> list[str]:
    messages = history.messages if face.name == "sync" else await history.aget_messages()
    return [str(message.text) for message in messages]


async def add(face: Face, history: BaseChatMessageHistory, *messages: BaseMessage) -> None:
    if face.name == "sync":
        history.add_messages(messages)
    else:
        await history.aadd_messages(messages)


async def clear(face: Face, history: BaseChatMessageHistory) -> None:
    if face.name == "sync":
        history.clear()
    else:
        await history.aclear()


async def test_ids_that_mean_something_else_and_who_speaks(face: Face, stored: SessionService) -> None:
    history = SessionChatMessageHistory("s1", stored, author="helper", human="Ada")
    for text in ("one", "two"):
        await add(face, history, HumanMessage(f"question {text}", id="q"), AIMessage(text, id="a"))
    assert await read(face, history) == ["question one", "one", "question two", "two"]
    assert [event.author for event in await stored.aevents("s1")] == ["Ada", "helper"] * 2


async def test_what_is_added_is_read(face: Face, stored: SessionService) -> None:
    history = SessionChatMessageHistory("s1", stored)
    assert await read(face, history) == []
    said: list[BaseMessage] = [
        HumanMessage("hi"),
        AIMessage(
            "",
            tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c1"}],
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        ),
        ToolMessage("42", tool_call_id="c1", artifact={"rows": [1]}, status="error"),
        AIMessage("done"),
    ]
    await add(face, history, *said)
    assert history.messages == said
    assert SessionChatMessageHistory("s1", stored).messages == said
    await add(face, history, AIMessageChunk(content="streamed"), AIMessage(""))
    assert type(history.messages[-1]) is AIMessage
    assert (await read(face, history))[-1] == "streamed"


ASKED: Any = {"name": "look", "args": {}, "id": "c1"}


@pytest.mark.parametrize(
    "said",
    [
        [HumanMessage(""), AIMessage("k")],
        [HumanMessage("a"), AIMessage("", tool_calls=[ASKED]), ToolMessage("r", tool_call_id="c1"), HumanMessage("b")],
        [AIMessage("Welcome!"), HumanMessage("a"), AIMessage("k")],
        [HumanMessage("a"), AIMessage([{"type": "thinking", "thinking": "hm"}]), HumanMessage("b"), AIMessage("k")],
        [HumanMessage("a"), AIMessage([{"type": "tool_use", "id": "c1", "name": "l", "input": {}}, "k"])],
        [ChatMessage(content="a", role="user"), AIMessage("k")],
    ],
)
def test_what_no_provider_takes_is_said_differently(said: list[BaseMessage], sessions: SessionService) -> None:
    history = SessionChatMessageHistory("s1", sessions)
    history.add_messages(said)
    assert violations([*history.messages, HumanMessage("q")]) == []


def test_two_answers_in_a_row_stay_two(sessions: SessionService) -> None:
    history = SessionChatMessageHistory("s1", sessions)
    history.add_messages([HumanMessage(""), AIMessage("one"), AIMessage("two")])
    assert [message.text for message in history.messages[1:]] == ["one", "two"]


async def test_clear_rewinds(face: Face, stored: SessionService) -> None:
    history = SessionChatMessageHistory("s1", stored)
    await clear(face, history)
    await add(face, history, HumanMessage("hi"))
    await clear(face, history)
    assert await read(face, history) == []
    assert [event.standing for event in stored.events("s1", EventFilter(keyword="hi"))] == [Standing.REWOUND]
    await add(face, history, HumanMessage("anew"))
    assert await read(face, history) == ["anew"]


async def test_clear_may_delete(face: Face, stored: SessionService) -> None:
    history = SessionChatMessageHistory("s1", stored, clear_mode="delete")
    await add(face, history, HumanMessage("hi"))
    await clear(face, history)
    with pytest.raises(SessionNotFoundError):
        stored.get("s1")
    assert await read(face, history) == []


async def test_a_foreign_session_raises(face: Face, ada: SessionService, sessions: SessionService) -> None:
    ada.create("s1")
    for user in ("grace", None):
        with pytest.raises(SessionNotFoundError):
            await read(face, SessionChatMessageHistory("s1", sessions, user_id=user))


async def test_windows_and_choices(face: Face, ada: SessionService) -> None:
    whole = SessionChatMessageHistory("s1", ada)
    await add(face, whole, HumanMessage("u1"), AIMessage("a1"), HumanMessage("u2"), AIMessage("a2"))
    assert await read(face, SessionChatMessageHistory("s1", ada, last_n=3)) == ["u2", "a2"]
    only_questions = SessionChatMessageHistory("s1", ada, select=lambda m: [x for x in m if x.type == "human"])
    assert await read(face, only_questions) == ["u1", "u2"]
    await add(face, whole, SystemMessage("old"), SystemMessage("new"))
    assert await read(face, whole) == ["new", "u1", "a1", "u2", "a2"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_with_a_runnable(
    face: Face, stub: OpenAIStub, model: ChatOpenAI, sessions: SessionService, ada: SessionService, *, streamed: bool
) -> None:
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")])
    factory = SessionChatMessageHistory.factory(sessions, session_key="conversation_id", user_key="user_id")
    chain = RunnableWithMessageHistory(
        prompt | model,
        factory,
        input_messages_key="question",
        history_messages_key="history",
        history_factory_config=SessionChatMessageHistory.config_fields("conversation_id"),
    )
    call = face.stream if streamed else face.invoke
    for question in ("hi", "and"):
        await call(chain, {"question": question}, {"configurable": {"conversation_id": "s1", "user_id": "ada"}})
    assert stub.last.texts == ["Be brief.", "hi", "reply 1", "and"]
    assert texts(ada) == ["hi", "reply 1", "and", "reply 2"]
    assert not any(isinstance(message, AIMessageChunk) for message in ada.messages("s1"))


async def test_one_key(face: Face, stub: OpenAIStub, model: ChatOpenAI, ada: SessionService) -> None:
    chain = RunnableWithMessageHistory(model, SessionChatMessageHistory.factory(ada))
    for question in ("hi", "and"):
        await face.invoke(chain, [HumanMessage(question)], {"configurable": {"session_id": "s1"}})
    assert stub.last.texts == ["hi", "reply 1", "and"]


async def test_a_history_that_changes_during_the_call(face: Face, ada: SessionService) -> None:
    """Upstream slices by the length at the end: compaction made it repeat, a second tab made it lose messages."""
    ada.open("s1")
    ada.append("s1", [m for n in range(3) for m in (HumanMessage(f"old {n}"), AIMessage(f"reply {n}"))])

    def model(messages: list[BaseMessage]) -> AIMessage:
        ada.compact("s1", Compaction(None, SlidingWindow(2)))
        ada.append("s1", [HumanMessage("other tab"), AIMessage("other reply")])
        return AIMessage("reply")

    chain = RunnableWithMessageHistory(RunnableLambda(model), SessionChatMessageHistory.factory(ada))
    await face.invoke(chain, [HumanMessage("new")], {"configurable": {"session_id": "s1"}})
    assert texts(ada)[-4:] == ["other tab", "other reply", "new", "reply"]
    everything = [str(e.message.text) for e in ada.events("s1") if e.message is not None and not e.is_synthetic]
    assert len(everything) == len(set(everything)) == 10


async def test_two_runs_at_once(face: Face, stored: SessionService) -> None:
    """The log has them as they came; every view of it, and compaction, takes a question with its answer."""
    stored.open("s1")
    with stored.invocation("s1") as slow:
        slow.append(HumanMessage("slow question"))
        with stored.invocation("s1") as quick:
            quick.append([HumanMessage("quick question"), AIMessage("quick answer")])
        slow.append(AIMessage("slow answer"))
    logged = ["slow question", "quick question", "quick answer", "slow answer"]
    assert [str(e.message.text) for e in stored.events("s1") if e.message is not None] == logged
    told = ["slow question", "slow answer", "quick question", "quick answer"]
    assert texts(stored) == told
    assert [str(m.text) for m in stored.context("s1")] == told
    assert await read(face, SessionChatMessageHistory("s1", stored)) == told
    # A window is made of the newest, whatever run they belong to.
    assert await read(face, SessionChatMessageHistory("s1", stored, last_n=3)) == logged[1:]
    stored.compact("s1", Compaction(None, SlidingWindow(2)))
    assert texts(stored) == ["quick question", "quick answer"]
    assert stored.verify("s1") == []
