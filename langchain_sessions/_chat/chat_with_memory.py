"""A model or a chain that remembers: what `SessionMemoryAdvisor.wrap` returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs
from typing_extensions import override

from langchain_sessions._chat.address import merged
from langchain_sessions._chat.call import Call
from langchain_sessions._chat.filling import added_by_template, fill, fill_alone
from langchain_sessions._chat.news import sort_request
from langchain_sessions._chat.prompt import merge_system
from langchain_sessions._chat.replies import READER_LEFT, Delivered, ReplyRecorder, consumed_calls, listening
from langchain_sessions._chat.session_memory import Wrapped, speaks_chat
from langchain_sessions._chat.speaking import SpeakingModel
from langchain_sessions._core.edge import require
from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.view import call_ids

if TYPE_CHECKING:
    from langchain_core.runnables import ConfigurableField

    from langchain_sessions._chat.session_memory import SessionMemory

Out = TypeVar("Out")

_Manager = CallbackManagerForChainRun | AsyncCallbackManagerForChainRun
_Workflow = Callable[[Any, _Manager, RunnableConfig, dict[str, Any]], Flow[Any]]


class _Body:
    """The body of a call as LangChain runs it: it looks at the parameters of a body each time, so they stand here."""

    __signature__ = Signature(
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("input", "run_manager", "config")]
    )

    def __init__(self, driver: Callable[[Flow[Any]], Any], body: _Workflow) -> None:
        self._driver = driver
        self._body = body

    def __call__(self, value: Any, run_manager: _Manager, config: RunnableConfig, **kwargs: Any) -> Any:
        return self._driver(self._body(value, run_manager, config, kwargs))


class ChatWithMemory(Runnable[Any, Out]):
    """A chat model or a chain whose conversation is kept.

    It takes what the wrapped one takes and returns what that returns; the session is named by the config. Made by
    `SessionMemoryAdvisor.wrap`.
    """

    def __init__(self, memory: SessionMemory, wrapped: Wrapped, config: RunnableConfig | None = None) -> None:
        """See `SessionMemoryAdvisor.wrap`."""
        wrapped.check(writes_system=any(mode.uses_system for mode in memory.options.modes))
        self.memory = memory
        self.wrapped = wrapped
        self._config: RunnableConfig = config or {}
        self.name: str | None = type(memory).__name__

    def __repr__(self) -> str:
        """Short: what is wrapped."""
        return f"{type(self).__name__}({self.wrapped.inner!r:.80})"

    @property
    @override
    def InputType(self) -> Any:
        return self.wrapped.inner.InputType

    @property
    @override
    def OutputType(self) -> Any:
        return self.wrapped.inner.OutputType

    @property
    @override
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        return self.wrapped.inner.config_specs

    # -- what a chat model offers --------------------------------------------------------------------------

    def _around(self, inner: Runnable[Any, Any], tools: Sequence[Any] | None = None) -> ChatWithMemory[Any]:
        return ChatWithMemory(self.memory, self.wrapped.with_inner(inner, tools), self._config)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ChatWithMemory[Out]:
        """The same with tools bound to the model. Calls and results are stored in pairs."""
        return self._around(self.wrapped.method("bind_tools")(tools, **kwargs), tools)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> ChatWithMemory[Any]:
        """The same with structured output, by any method. The raw message is what is stored."""
        return self._around(self.wrapped.method("with_structured_output")(schema, **kwargs))

    def configurable_fields(self, **kwargs: Any) -> ChatWithMemory[Out]:
        """The same with fields of the model that a config may set."""
        return self._around(self.wrapped.method("configurable_fields")(**kwargs))

    def configurable_alternatives(self, which: ConfigurableField, **kwargs: Any) -> ChatWithMemory[Out]:
        """The same with other models that a config may choose; one that has memory itself answers with this one."""
        bare = {name: each.wrapped.inner if isinstance(each, ChatWithMemory) else each for name, each in kwargs.items()}
        return self._around(self.wrapped.method("configurable_alternatives")(which, **bare))

    @override
    def bind(self, **kwargs: Any) -> ChatWithMemory[Out]:
        return self._around(self.wrapped.inner.bind(**kwargs))

    @override
    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> ChatWithMemory[Out]:
        merged = merge_configs(self._config, config, cast("RunnableConfig", kwargs))
        return ChatWithMemory(self.memory, self.wrapped, merged)

    # -- calls ---------------------------------------------------------------------------------------------

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Out:
        return self._call_with_config(_Body(drive, self._answer), input, self._configured(config), **kwargs)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Out:
        return await self._acall_with_config(_Body(adrive, self._answer), input, self._configured(config), **kwargs)

    def _configured(self, config: RunnableConfig | None) -> RunnableConfig | None:
        return merged(self._config, config)

    def _answer(self, value: Any, manager: _Manager, config: RunnableConfig, kwargs: dict[str, Any]) -> Flow[Any]:
        """One call from the request to the stored reply."""
        inner = self.wrapped.inner
        call = yield from self._begin(value, manager, config)
        if call is None:
            return (yield from ask(inner.invoke, fill_alone(self.wrapped, value), config, **kwargs))
        heard = listening(config, call.recorder)
        try:
            output = yield from self._asked(call, heard, kwargs)
        except BaseException as error:
            yield from call.break_off(error)
            _raise_explained(call, error)
            raise
        call.delivered.note(output)
        yield from call.finish()
        return output

    def _asked(self, call: WrappedCall, heard: RunnableConfig, kwargs: dict[str, Any]) -> Flow[Any]:
        """What is answered; a prompt that turns out to be too long is compacted once."""
        invoke = self.wrapped.inner.invoke
        try:
            output = yield from ask(invoke, (yield from call.payload()), heard, **kwargs)
        except Exception as error:
            if not (yield from call.may_retry(error)):
                raise
        else:
            if not (yield from call.was_cut()):
                return output
        return (yield from ask(invoke, (yield from call.payload()), heard, **kwargs))

    def _begin(self, value: Any, manager: _Manager, config: RunnableConfig) -> Flow[WrappedCall | None]:
        return (yield from WrappedCall.begin(self.memory, self.wrapped, value, str(manager.run_id), config))

    # -- streams -------------------------------------------------------------------------------------------

    @override
    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Out]:
        yield from self.transform(iter([input]), config, **kwargs)

    @override
    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Out]:
        async def given() -> AsyncIterator[Any]:
            yield input

        async with aclosing(self.atransform(given(), config, **kwargs)) as chunks:
            async for chunk in chunks:
                yield chunk

    @override
    def transform(self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Out]:
        yield from self._transform_stream_with_config(input, self._stream, self._configured(config), **kwargs)

    @override
    async def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Out, None]:
        chunks = self._atransform_stream_with_config(input, self._astream, self._configured(config), **kwargs)
        async with aclosing(cast("Any", chunks)) as closed_in_time:
            async for chunk in closed_in_time:
                yield chunk

    # -- LangChain's third protocol of events ----------------------------------------------------------------

    @override
    def stream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        if self._speaks_third(kwargs):
            return SpeakingModel(chat=self, given=config).stream_events(input, config, **kwargs)
        return super().stream_events(input, config, **kwargs)

    @override
    def astream_events(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        if self._speaks_third(kwargs):
            return SpeakingModel(chat=self, given=config).astream_events(input, config, **kwargs)
        return super().astream_events(input, config, **kwargs)

    def _speaks_third(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether the third protocol is asked for, which only models speak, of a model."""
        return kwargs.get("version") == "v3" and speaks_chat(self.wrapped.inner)

    def _stream(
        self, inputs: Iterator[Any], run_manager: CallbackManagerForChainRun, config: RunnableConfig, **kwargs: Any
    ) -> Iterator[Any]:
        value, inner = _joined(list(inputs)), self.wrapped.inner
        call = drive(self._begin(value, run_manager, config))
        if call is None:
            yield from inner.stream(fill_alone(self.wrapped, value), config, **kwargs)
            return
        heard = listening(config, call.recorder)
        try:
            while True:
                payload = drive(call.payload())
                try:
                    with closing(cast("Any", inner.stream(payload, heard, **kwargs))) as chunks:
                        for chunk in chunks:
                            call.delivered.note(chunk)
                            yield chunk
                    break
                except Exception as error:
                    if not drive(call.may_retry(error)):
                        raise
        except BaseException as error:
            drive(call.break_off(error))
            _raise_explained(call, error)
            raise
        drive(call.finish())

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        value, inner = _joined([part async for part in inputs]), self.wrapped.inner
        call = await adrive(self._begin(value, run_manager, config))
        if call is None:
            async for chunk in inner.astream(fill_alone(self.wrapped, value), config, **kwargs):
                yield chunk
            return
        heard = listening(config, call.recorder)
        try:
            while True:
                payload = await adrive(call.payload())
                try:
                    async with aclosing(cast("Any", inner.astream(payload, heard, **kwargs))) as chunks:
                        async for chunk in chunks:
                            call.delivered.note(chunk)
                            yield chunk
                    break
                except Exception as error:
                    if not await adrive(call.may_retry(error)):
                        raise
        except BaseException as error:
            await adrive(call.break_off(error))
            _raise_explained(call, error)
            raise
        await adrive(call.finish())


def _raise_explained(call: WrappedCall, error: BaseException) -> None:
    explained = call.explanation(error)
    if explained is not None:
        raise explained from error


def _joined(parts: list[Any]) -> Any:
    """A streamed input as one value."""
    require(parts, "input", "is empty")
    value = parts[0]
    for part in parts[1:]:
        value = value + part
    return value


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
        added = added_by_template(wrapped, value) if wrapped.history_key is not None else ()
        call = yield from Call.begin(
            memory, address, request, run_id=run_id, model=model, configurable=configurable, added=added
        )
        return cls(call, wrapped, value)

    def payload(self) -> Flow[Any]:
        """What the wrapped runnable is given: the whole prompt, or its dictionary with the history filled in."""
        wrapped = self._wrapped
        if wrapped.history_key is not None:
            draft = yield from self._call.draft()
            value, self._call.shown = fill(wrapped, self._value, draft, self._call.options.max_characters)
            return value
        prompt = yield from self._call.prompt()
        self.delivered.given = prompt
        return prompt if wrapped.input_key is None else {**self._value, wrapped.input_key: prompt}

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
        return self._call.explanation(error, self.recorder)

    def break_off(self, error: BaseException) -> Flow[None]:
        """It ended early: because the reader left, or because something failed."""
        partial = self.recorder.partial()
        if not isinstance(error, READER_LEFT):
            yield from self._call.fail(partial or self.recorder.reply(), error)
            return
        reply = self.recorder.completed() if self.recorder.is_complete else None
        if reply is None or (self._wrapped.input_key is not None and call_ids(reply)):
            yield from self._call.interrupt(partial, steps=self.recorder.steps())
            return
        # All had arrived; the reader just did not ask for the end.
        said, consumed = self._with_steps(reply)
        yield from self._call.finish(said, consumed=consumed)
