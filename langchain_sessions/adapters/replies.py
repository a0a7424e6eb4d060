"""What a model said, seen from its callbacks: the whole reply on every path, or the part that arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult


class ReplyRecorder(BaseCallbackHandler):
    """Keeps the replies of the models below it; runs inline, so that it is up to date when the call returns."""

    run_inline = True

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._whole: dict[UUID, AIMessage] = {}
        self._parts: dict[UUID, AIMessageChunk] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """A call begins; nothing to keep."""

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Keep what arrived."""
        message = getattr(chunk, "message", None)
        if isinstance(message, AIMessageChunk):
            before = self._parts.get(run_id)
            self._parts[run_id] = message if before is None else before + message

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the whole reply."""
        for generation in response.generations[0][:1] if response.generations else ():
            if isinstance(generation, ChatGeneration):
                if isinstance(generation.message, AIMessage):
                    self._whole[run_id] = _whole_message(generation.message)
            else:
                self._whole[run_id] = AIMessage(generation.text)
        self._parts.pop(run_id, None)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the part that arrived: it is asked for later."""

    def reply(self, output: object = None) -> AIMessage | None:
        """The reply behind an output: the raw message where the output is something made from it."""
        said = list(self._whole.values())
        shown = _message_in(output)
        if shown is not None:
            return next((message for message in reversed(said) if message.id and message.id == shown.id), shown)
        if isinstance(output, str) and output:
            same = next((message for message in reversed(said) if str(message.text) == output), None)
            return same or (said[-1] if said else AIMessage(output))
        return said[-1] if said else None

    def partial(self) -> AIMessage | None:
        """The words that arrived of a reply that did not end; half a tool call is no call."""
        if not self._parts:
            return None
        chunk = next(reversed(self._parts.values()))
        text = str(chunk.text)
        return AIMessage(text, id=chunk.id, name=chunk.name) if text.strip() else None

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked was answered to the end, though the reader may have left before noticing."""
        return (bool(self._whole) and not self._parts) or any(p.chunk_position == "last" for p in self._parts.values())

    def completed(self) -> AIMessage | None:
        """The reply of a stream that was delivered to its end."""
        last = [part for part in self._parts.values() if part.chunk_position == "last"]
        return _whole_message(last[-1]) if last else self.reply()


def _whole_message(message: AIMessage) -> AIMessage:
    return cast("AIMessage", message_chunk_to_message(message)) if isinstance(message, AIMessageChunk) else message


def _message_in(output: object) -> AIMessage | None:
    """The reply in an output: itself, the raw part of a structured output, or the last of a list."""
    if isinstance(output, AIMessage):
        return _whole_message(output)
    if isinstance(output, Mapping):
        values = cast("Mapping[str, object]", output)
        return _message_in(values.get("raw"))
    if isinstance(output, Sequence) and not isinstance(output, (str, bytes)) and output:
        items = cast("Sequence[object]", output)
        return _message_in(items[-1])
    return None


def consumed_calls(reply: AIMessage, output: object) -> list[str]:
    """The calls of a reply that nobody will answer, since the output was already made from them."""
    if isinstance(output, AIMessage):
        return []
    return [call["id"] for call in (*reply.tool_calls, *reply.invalid_tool_calls) if call["id"]]
