"""A model with memory in the form of a model: for LangChain's third protocol of events, which only models speak."""

from __future__ import annotations

from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from langchain_core.messages import BaseMessage


class SpeakingModel(BaseChatModel):
    """One call of a model with memory.

    Attributes:
        chat: The model with memory.
        given: The config of the call.
    """

    chat: Any
    given: Any

    @property
    def _llm_type(self) -> str:
        return "chat-with-memory"

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.chat.invoke(messages, self.given))])

    @override
    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        with closing(self.chat.stream(messages, self.given)) as chunks:
            for chunk in chunks:
                yield ChatGenerationChunk(message=chunk)

    @override
    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with aclosing(self.chat.astream(messages, self.given)) as chunks:
            async for chunk in chunks:
                yield ChatGenerationChunk(message=chunk)
