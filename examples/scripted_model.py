"""A chat model for people without a key: it says what a script says, calls tools, streams and reports tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from langchain_sessions import EstimatedTokenCounter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.runnables import Runnable


class ScriptedChatModel(BaseChatModel):
    """Answers with its lines in turn; a line that is a dictionary calls the tool that it names."""

    lines: list[Any]
    _at: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _next(self, prompt: Sequence[BaseMessage]) -> AIMessage:
        line = self.lines[min(self._at, len(self.lines) - 1)]
        self._at += 1
        counter = EstimatedTokenCounter()
        spent = counter.count_messages(prompt).tokens
        if isinstance(line, dict):
            call = {"name": line["tool"], "args": line["args"], "id": f"call_{self._at}"}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage(str(line))
        said = counter.count_message(reply)
        reply.usage_metadata = {"input_tokens": spent, "output_tokens": said, "total_tokens": spent + said}
        return reply

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - a script knows its end
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - nothing to report before the end
        **kwargs: Any,  # noqa: ARG002 - whatever is bound to a model
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - a script knows its end
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the base class reports chunks
        **kwargs: Any,  # noqa: ARG002 - whatever is bound to a model
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._next(messages)
        if reply.tool_calls:
            calls = [
                tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=0)
                for c in reply.tool_calls
            ]
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=calls))
        for at, word in enumerate(str(reply.text).split(" ")):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word if at == 0 else f" {word}"))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=reply.usage_metadata))

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """A script needs no schemas."""
        return self.bind(tools=[getattr(tool, "name", str(tool)) for tool in tools], **kwargs)
