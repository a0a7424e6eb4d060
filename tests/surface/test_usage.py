"""What providers report of their tokens corrects what triggers decide by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from langchain_sessions import Compaction, TokenCount, TurnWindow
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.surface.conftest import Face, weather

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_sessions import SessionService

WORDS = "some words that make a prompt of more than fifty tokens " * 8


class Dear(BaseChatModel):
    """A model whose vocabulary takes three tokens where we count one."""

    sessions: Any

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        counted = self.sessions.tokens.count_messages(messages, tools=kwargs.get("tools", ())).tokens
        usage: Any = {"input_tokens": 3 * counted, "output_tokens": 1, "total_tokens": 3 * counted + 1}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("yes", usage_metadata=usage))])

    @property
    def _llm_type(self) -> str:
        return "dear"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)


def memory_options(limit: int) -> dict[str, Any]:
    return {"compaction": Compaction(TokenCount(limit), TurnWindow(max_turns=1))}


@pytest.mark.parametrize("limit", [700, 2_000])
@pytest.mark.parametrize("kind", ["model", "chain", "agent"])
async def test_a_model_that_counts_more(
    face: Face, sessions: SessionService, ada: SessionService, thread: RunnableConfig, kind: str, limit: int
) -> None:
    """Two turns are about 280 of our tokens, and 840 of the model's."""
    model = Dear(sessions=sessions)
    chat: Any
    value: Any = WORDS
    if kind == "agent":
        chat = create_agent(model, [weather], middleware=[SessionMemoryMiddleware(sessions, **memory_options(limit))])
        value = {"messages": WORDS}
    elif kind == "chain":
        prompt = ChatPromptTemplate([MessagesPlaceholder("history"), ("human", "{question}")])
        memory = SessionMemoryAdvisor(sessions, **memory_options(limit))
        chat = memory.wrap(prompt | model, input_key="question", history_key="history")
        value = {"question": WORDS}
    else:
        chat = SessionMemoryAdvisor(sessions, **memory_options(limit)).wrap(model)
    for _ in range(3):
        await face.invoke(chat, value, thread)
    compacted = len(ada.messages("s1")) < 6
    assert compacted == (limit == 700)
