"""Issue 17, item 7: a wrapped model speaks LangChain's third protocol of events as the raw one does."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import SessionMemoryAdvisor, SessionService

pytestmark = [
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
    pytest.mark.skipif(not hasattr(GenericFakeChatModel, "_chat_model_stream_v3"), reason="a later langchain-core"),
]
CONFIG: Any = {"configurable": {"session_id": "s"}}


def model() -> Any:
    return GenericFakeChatModel(messages=iter([AIMessage("hello there"), AIMessage("hello again")]))


def kinds(events: list[Any]) -> list[Any]:
    return [event.get("event", event.get("type")) for event in events]


def test_item_7_a_stream_of_events() -> None:
    raw = kinds(list(model().stream_events([HumanMessage("hi")], version="v3")))
    with SessionService("sqlite://") as sessions:
        chat: Any = SessionMemoryAdvisor(sessions).wrap(model())
        stream = chat.stream_events([HumanMessage("hi")], CONFIG, version="v3")
        assert kinds(list(stream)) == raw
        assert stream.output.text == "hello there"
        assert chat.stream_events("and?", CONFIG, version="v3").output.text == "hello again"
        assert [message.text for message in sessions.messages("s")] == ["hi", "hello there", "and?", "hello again"]


async def test_item_7_an_async_stream_of_events() -> None:
    async with SessionService("sqlite://") as sessions:
        chat: Any = SessionMemoryAdvisor(sessions).wrap(model())
        stream = await chat.astream_events([HumanMessage("hi")], CONFIG, version="v3")
        assert len([event async for event in stream]) > 3
        assert [message.text for message in await sessions.amessages("s")] == ["hi", "hello there"]


def test_item_7_the_earlier_protocol_goes_on() -> None:
    with SessionService("sqlite://") as sessions:
        chat: Any = SessionMemoryAdvisor(sessions).wrap(model() | (lambda message: message.text))
        with pytest.raises(NotImplementedError):
            chat.stream_events([HumanMessage("hi")], CONFIG, version="v3")
