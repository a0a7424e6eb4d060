"""What was answered: the whole reply on every path or the part that arrived, and the steps that led to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from langchain_core.callbacks import (
    BaseCallbackHandler,
    BaseCallbackManager,
)
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration
from langchain_core.runnables.config import merge_configs
from langchain_core.tracers.context import register_configure_hook

from langchain_sessions._chat.news import likeness
from langchain_sessions._chat.overflow import TOO_LONG_CODES
from langchain_sessions._core.view import CUT, call_ids, why_ended

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult
    from langchain_core.runnables import RunnableConfig


_CUT = CUT | TOO_LONG_CODES

# A web host cancels the task of a reader who closed the tab, a terminal interrupts: nothing went wrong with the call.
READER_LEFT: Final = (GeneratorExit, asyncio.CancelledError, KeyboardInterrupt)

_listener: ContextVar[ReplyRecorder | None] = ContextVar("langchain_sessions_listener", default=None)
register_configure_hook(_listener, inheritable=True)


class Heard(NamedTuple):
    """A reply with its tokens as the provider counts them, the prompt that it answered, and what went out beside it."""

    reply: AIMessage
    sent: Sequence[BaseMessage]
    params: Mapping[str, Any]


class ReplyRecorder(BaseCallbackHandler):
    """Keeps the replies of the models below it; runs inline, so that it is up to date when the call returns."""

    run_inline = True

    def __init__(self) -> None:
        """Nothing was said yet."""
        self.reported: list[Heard] = []
        self.asked_last: Sequence[BaseMessage] = ()
        """What a model was asked last, whether or not it answered."""
        self._asked: dict[UUID, tuple[Sequence[BaseMessage], Mapping[str, Any]]] = {}
        self._whole: dict[UUID, AIMessage] = {}
        self._parts: dict[UUID, AIMessageChunk] = {}
        self._results: dict[str, ToolMessage] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Keep what the model is shown, unless a schema goes out with it that is not counted."""
        self.asked_last = messages[0]
        sent: dict[str, Any] = kwargs.get("invocation_params") or {}
        if not sent.get("response_format"):
            self._asked[run_id] = (messages[0], sent)

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
                    self._whole[run_id] = reply = _whole_message(generation.message)
                    if reply.usage_metadata is not None and run_id in self._asked:
                        self.reported.append(Heard(reply, *self._asked.pop(run_id)))
            else:
                self._whole[run_id] = AIMessage(generation.text)
        self._parts.pop(run_id, None)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the part that arrived: it is asked for later."""

    def on_tool_end(self, output: object, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the result of a call."""
        if isinstance(output, ToolMessage):
            self._results[output.tool_call_id] = output

    @property
    def only_reply(self) -> AIMessage | None:
        """The reply, where one model spoke once and nothing was done about it."""
        return next(iter(self._whole.values())) if len(self._whole) == 1 and not self._results else None

    def forget(self) -> None:
        """Nothing was said: it is asked for once more."""
        self.reported.clear()
        self._whole.clear()
        self._parts.clear()

    @property
    def heard(self) -> bool:
        """Whether any model spoke."""
        return bool(self._whole or self._parts)

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

    def steps(self, reply: AIMessage | None = None) -> list[BaseMessage]:
        """The calls that were answered on the way to a reply, each with its results."""
        found: list[BaseMessage] = []
        if not self._results:
            return found
        for message in self._whole.values():
            calls = call_ids(message)
            if message is not reply and calls and all(call in self._results for call in calls):
                found += [message, *(self._results[call] for call in calls)]
        return found

    def words(self) -> AIMessage | None:
        """The words of the newest reply that ended, unless it answers to a schema; its calls nobody will answer."""
        run, reply = next(reversed(self._whole.items()), (None, None))
        is_plain = run in self._asked or any(heard[0] is reply for heard in self.reported)
        # Of what was asked behind it nothing arrived: what came before was no answer to that.
        return _in_words(reply) if is_plain and self._asked.keys() <= self._whole.keys() else None

    def partial(self, *, plain: bool = False) -> AIMessage | None:
        """The words that arrived of a reply that did not end; half a tool call is no call.

        Args:
            plain: Only what answers in words, and not to a schema that went out with the prompt.
        """
        parts = [part for run, part in self._parts.items() if not plain or run in self._asked]
        return _in_words(parts[-1] if parts else None)

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked was answered to the end, though the reader may have left before noticing."""
        return (bool(self._whole) and not self._parts) or any(p.chunk_position == "last" for p in self._parts.values())

    def completed(self) -> AIMessage | None:
        """The reply of a stream that was delivered to its end."""
        last = [part for part in self._parts.values() if part.chunk_position == "last"]
        return _whole_message(last[-1]) if last else self.reply()


class Delivered:
    """What was delivered so far: the last output or chunk, and the messages of a graph's state.

    Args:
        key: Where a state holds its messages; None where no state is expected.
    """

    def __init__(self, key: str | None) -> None:
        """Nothing was delivered yet."""
        self.given: Sequence[BaseMessage] = ()
        self.last: object = None
        self.anything = False
        self.messages: dict[str | int, BaseMessage] = {}
        self._key = key
        self._sum: Any = None

    def note(self, chunk: object) -> None:
        """Take note of an output or a chunk."""
        self.last, self.anything = chunk, True
        if isinstance(chunk, (str, AIMessageChunk)):
            self._sum = chunk if self._sum is None else self._sum + chunk
        elif self._key is not None:
            for message in new_messages(_messages_at(chunk, self._key), self.given):
                self.messages[message.id or id(message)] = message

    def outcome(self, *, heard: bool) -> object:
        """The output as far as it tells more than what a recorder heard."""
        if isinstance(self.last, BaseMessageChunk) and heard:
            return None
        return self.last if self._sum is None or heard else self._sum


def new_messages(state: Sequence[BaseMessage], given: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What a state holds behind what it was given, system messages and removals left out."""
    objects, ids = {id(message) for message in given}, {message.id for message in given if message.id}
    old = [at for at, message in enumerate(state) if id(message) in objects or message.id in ids]
    if not old and len(state) > len(given) > 0:
        last = likeness(given[-1])
        old = [at for at, message in enumerate(state) if likeness(message) == last][:1]
    behind = state[old[-1] + 1 :] if old else state
    whole = (message_chunk_to_message(m) if isinstance(m, BaseMessageChunk) else m for m in behind)
    return [message for message in whole if not isinstance(message, (SystemMessage, RemoveMessage))]


def _messages_at(chunk: object, key: str) -> list[BaseMessage]:
    """The messages in the state, or in the updates of a state, that a graph puts out."""
    if isinstance(chunk, tuple) and chunk:
        chunk = chunk[-1]  # of several stream modes, or of a subgraph
    if not isinstance(chunk, Mapping):
        return []
    values = cast("Mapping[str, object]", chunk)
    if key in values:
        return _as_list(values[key])
    return [m for update in values.values() if isinstance(update, Mapping) for m in _as_list(update.get(key))]


def _as_list(value: object) -> list[BaseMessage]:
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [item for item in value if isinstance(item, BaseMessage)]
    return []


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


def consumed_calls(reply: AIMessage) -> list[str]:
    """The calls of a reply that nobody will answer, since an output was already made from them."""
    return [call["id"] for call in (*reply.tool_calls, *reply.invalid_tool_calls) if call["id"]]


def cut_short(reply: AIMessage) -> bool:
    """Whether something cut a reply: its own limit, or the window."""
    return why_ended(reply) in _CUT


def is_cut_by_window(reply: AIMessage, window: int | None) -> bool:
    """Whether a reply ends because the window was full, rather than because its own limit was reached.

    A provider that truncates says no more than `length`; only together with the reported usage, and a window that is
    known, does that mean that the prompt left no room.
    """
    reason, usage = why_ended(reply), reply.usage_metadata
    if reason in TOO_LONG_CODES:
        return True
    if reason not in _CUT or usage is None or window is None:
        return False
    return usage["input_tokens"] + usage["output_tokens"] >= window


@contextmanager
def listening_below(recorder: ReplyRecorder) -> Iterator[None]:
    """Let a recorder hear the models which are called meanwhile, and what they are really shown.

    Other middleware stands between ours and the model, and may change a prompt behind it.
    """
    _listener.set(recorder)
    try:
        yield
    finally:
        _listener.set(None)


def listening(config: RunnableConfig, recorder: ReplyRecorder) -> RunnableConfig:
    """A config whose calls the recorder hears."""
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager):
        return merge_configs(config, {"callbacks": [recorder]})
    heard = callbacks.copy()
    heard.add_handler(recorder, inherit=True)
    return {**config, "callbacks": heard}


def awaits_results(said: Sequence[BaseMessage]) -> bool:
    """Whether a reply calls tools whose results did not come with it."""
    answered = {message.tool_call_id for message in said if isinstance(message, ToolMessage)}
    return any(call not in answered for message in said for call in call_ids(message))


def _in_words(said: AIMessage | None) -> AIMessage | None:
    """What was said in words, without calls; None where it says nothing."""
    text = "" if said is None else str(said.text)
    return AIMessage(text, id=said.id, name=said.name) if said is not None and text.strip() else None
