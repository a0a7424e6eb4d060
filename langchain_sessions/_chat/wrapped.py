"""What the advisor wraps: where its input holds what, and one call of it with memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from langchain_sessions._chat.call import Call
from langchain_sessions._chat.news import as_messages, message_of, sort_request
from langchain_sessions._chat.outbound import settle
from langchain_sessions._chat.prompt import merge_system
from langchain_sessions._chat.replies import Delivered, ReplyRecorder, consumed_calls
from langchain_sessions._core.edge import require
from langchain_sessions._core.view import call_ids
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from langchain_core.runnables.config import RunnableConfig
    from typing_extensions import Self

    from langchain_sessions._chat.session_memory import SessionMemory
    from langchain_sessions._core.flow import Flow


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapped:
    """A runnable and how it is fed.

    Attributes:
        inner: A chat model or a chain.
        input_key: Where a chain's input holds what the user says; None for a model.
        history_key: Where a chain expects what is remembered; without it `input_key` takes the whole conversation.
        system_key: Where a chain expects what memory writes for its system prompt.
        tools: What was bound to the model after it was wrapped.
    """

    inner: Runnable[Any, Any]
    input_key: str | None = None
    history_key: str | None = None
    system_key: str | None = None
    tools: tuple[Any, ...] = ()

    def check(self, *, writes_system: bool) -> None:
        """Refuse keys that do not fit each other or the memory.

        Raises:
            InvalidInputError: They do not.
        """
        require(self.history_key is None or self.input_key is not None, "input_key", "history_key needs it")
        require(self.system_key is None or self.history_key is not None, "history_key", "system_key needs it")
        require(
            not (self.history_key is not None and writes_system and self.system_key is None),
            "system_key",
            "this memory writes for the system prompt: name the key where the chain's template expects it",
        )

    def with_inner(self, inner: Runnable[Any, Any], tools: Sequence[Any] | None = None) -> Self:
        """The same around another runnable."""
        return replace(self, inner=inner, tools=self.tools if tools is None else tuple(tools))

    def method(self, name: str) -> Callable[..., Runnable[Any, Any]]:
        """A method of a chat model.

        Raises:
            InvalidInputError: What is wrapped is no chat model.
        """
        if not speaks_chat(self.inner):
            raise InvalidInputError("inner", f"{type(self.inner).__name__} is no chat model, so it has no {name}")
        return cast("Callable[..., Runnable[Any, Any]]", getattr(self.inner, name))

    def said(self, value: object) -> list[BaseMessage]:
        """What the user says in an input.

        Raises:
            InvalidInputError: It cannot be found there.
        """
        if self.input_key is None:
            if isinstance(value, Mapping):
                raise InvalidInputError(
                    "input_key", "the input is a dictionary; use memory.wrap(chain, input_key=..., history_key=...)"
                )
            return as_messages(value)
        if not isinstance(value, Mapping) or self.input_key not in value:
            raise InvalidInputError("input_key", f"the input has no key {self.input_key!r}")
        return as_messages(cast("Mapping[str, object]", value)[self.input_key])

    def without_memory(self, value: object) -> object:
        """An input for a call that remembers nothing: keys that a template expects are there, and empty."""
        if self.history_key is None or not isinstance(value, Mapping):
            return value
        empty = {self.history_key: [], **({} if self.system_key is None else {self.system_key: ""})}
        return {**empty, **cast("Mapping[str, object]", value)}

    @property
    def model(self) -> BaseChatModel | None:
        """The chat model that answers, where one is found."""
        return _model_behind(self.inner)

    @property
    def call_tools(self) -> tuple[Any, ...]:
        """The tools that go out with a call, for those who count tokens."""
        return self.tools or _tools_behind(self.inner)


def speaks_chat(runnable: object) -> bool:
    """Whether something offers what a chat model does: a model, a binding, fallbacks, a model to be configured."""
    # Such wrappers are no BaseChatModel; they forward attributes, and LangChain itself tells them by this method.
    return isinstance(runnable, Runnable) and callable(getattr(runnable, "bind_tools", None))


def _model_behind(runnable: Runnable[Any, Any]) -> BaseChatModel | None:
    """The chat model that answers behind bindings, fallbacks and the steps of a chain; None where none is found."""
    if isinstance(runnable, BaseChatModel):
        return runnable
    if isinstance(runnable, RunnableBindingBase):
        return _model_behind(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return _model_behind(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        found = (_model_behind(step) for step in reversed(runnable.steps))
        return next((model for model in found if model is not None), None)
    return None


def _tools_behind(runnable: Runnable[Any, Any]) -> tuple[Any, ...]:
    """The schemas that were bound to the model behind bindings, fallbacks and the steps of a chain."""
    if isinstance(runnable, RunnableBindingBase):
        bound = runnable.kwargs.get("tools")
        # Some providers bind objects of their own, which nobody else can count.
        schemas = [tool for tool in bound if isinstance(tool, dict)] if isinstance(bound, (list, tuple)) else []
        return tuple(schemas) or _tools_behind(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return _tools_behind(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        found = (_tools_behind(step) for step in reversed(runnable.steps))
        return next((tools for tools in found if tools), ())
    return ()


class WrappedCall:
    """A call of what the advisor wrapped: what it is given, and what of its answer is kept. Made by `begin`."""

    def __init__(self, call: Call, wrapped: Wrapped, value: Any) -> None:
        """Nothing was asked of the model yet."""
        self._call = call
        self._wrapped = wrapped
        self._value = value
        self.recorder = ReplyRecorder()
        self.delivered = Delivered(wrapped.input_key)

    @classmethod
    def begin(
        cls, memory: SessionMemory, wrapped: Wrapped, value: Any, run_id: str, config: RunnableConfig
    ) -> Flow[WrappedCall | None]:
        """Store the request; None where the config names no session and that is allowed."""
        address = memory.address(config)
        if address is None:
            return None
        request = sort_request(wrapped.said(value))
        require(request.body, "input", "says nothing: give at least one message that is not a system message")
        model = memory.model_call(
            model=wrapped.model,
            system=None if memory.options.store_system else merge_system(request.system),
            tools=wrapped.call_tools,
        )
        configurable = config.get("configurable") or {}
        call = yield from Call.begin(memory, address, request, run_id=run_id, model=model, configurable=configurable)
        return cls(call, wrapped, value)

    def payload(self) -> Flow[Any]:
        """What the wrapped runnable is given: the whole prompt, or its dictionary with the history filled in."""
        keys = self._wrapped
        if keys.history_key is not None:
            draft = yield from self._call.draft()
            said = [call for message in self._call.news.tail for call in call_ids(message)]
            history = settle([message_of(event) for event in draft.history], taken=said)
            self._call.shown = [*history, *draft.tail]
            filled = {**self._value, keys.history_key: history}
            return filled if keys.system_key is None else {**filled, keys.system_key: draft.instructions}
        prompt = yield from self._call.prompt()
        self.delivered.given = prompt
        return prompt if keys.input_key is None else {**self._value, keys.input_key: prompt}

    def may_retry(self, error: Exception) -> Flow[bool]:
        """Whether the prompt was refused as too long, once, before anything was delivered, and is shorter now."""
        if self.delivered.anything:
            return False
        return (yield from self._call.is_shorter_after(error))

    def was_cut(self) -> Flow[bool]:
        """Whether the window cut the one reply that was made, for the first time, and the prompt is shorter now."""
        if not (yield from self._call.is_shorter_after_cut(self.recorder.only_reply)):
            return False
        self.recorder.forget()
        return True

    def finish(self) -> Flow[None]:
        """All was delivered: store it."""
        said, consumed = self._said()
        self._call.learn(self.recorder)
        yield from self._call.finish(said, consumed=consumed)

    def _said(self) -> tuple[list[BaseMessage], list[str]]:
        """What was answered, and the calls in it that a structured output was made from."""
        if self.delivered.messages:
            return list(self.delivered.messages.values()), []
        reply = self.recorder.reply(self.delivered.outcome(heard=self.recorder.heard))
        return ([], []) if reply is None else self._with_steps(reply)

    def _with_steps(self, reply: AIMessage) -> tuple[list[BaseMessage], list[str]]:
        """A reply behind the steps that led to it, and the calls in it that an output was made from."""
        shown_raw = isinstance(self.delivered.last, BaseMessage)
        return [*self.recorder.steps(reply), reply], [] if shown_raw else consumed_calls(reply)

    def explanation(self, error: BaseException) -> Exception | None:
        """What to raise in place of an error, where that is known; None for the error itself."""
        return self._call.explanation(error)

    def break_off(self, error: BaseException) -> Flow[None]:
        """It ended early: because the reader left, or because something failed."""
        partial = self.recorder.partial()
        if not isinstance(error, GeneratorExit):
            yield from self._call.fail(partial or self.recorder.reply(), error)
            return
        reply = self.recorder.completed() if self.recorder.is_complete else None
        if reply is None or (self._wrapped.input_key is not None and call_ids(reply)):
            yield from self._call.interrupt(partial, steps=self.recorder.steps())
            return
        # All had arrived; the reader just did not ask for the end.
        said, consumed = self._with_steps(reply)
        yield from self._call.finish(said, consumed=consumed)
