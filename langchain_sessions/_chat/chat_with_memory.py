"""A model or a chain that remembers: what `SessionMemoryAdvisor.wrap` returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, BaseCallbackManager, CallbackManagerForChainRun
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs
from typing_extensions import override

from langchain_sessions._chat.wrapped import WrappedCall
from langchain_sessions._core.edge import require
from langchain_sessions._core.flow import Flow, adrive, ask, drive

if TYPE_CHECKING:
    from langchain_sessions._chat.replies import ReplyRecorder
    from langchain_sessions._chat.session_memory import SessionMemory
    from langchain_sessions._chat.wrapped import Wrapped

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
        return f"{type(self).__name__}({self.wrapped.inner!r})"

    @property
    @override
    def InputType(self) -> Any:
        return self.wrapped.inner.InputType

    @property
    @override
    def OutputType(self) -> Any:
        return self.wrapped.inner.OutputType

    # -- what a chat model offers --------------------------------------------------------------------------

    def _around(self, inner: Runnable[Any, Any], tools: Sequence[Any] | None = None) -> ChatWithMemory[Any]:
        return ChatWithMemory(self.memory, self.wrapped.with_inner(inner, tools), self._config)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ChatWithMemory[Out]:
        """The same with tools bound to the model. Calls and results are stored in pairs."""
        return self._around(self.wrapped.method("bind_tools")(tools, **kwargs), tools)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> ChatWithMemory[Any]:
        """The same with structured output, by any method. The raw message is what is stored."""
        return self._around(self.wrapped.method("with_structured_output")(schema, **kwargs))

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
        return merge_configs(self._config, config) if self._config else config

    def _answer(self, value: Any, manager: _Manager, config: RunnableConfig, kwargs: dict[str, Any]) -> Flow[Any]:
        """One call from the request to the stored reply."""
        inner = self.wrapped.inner
        call = yield from self._begin(value, manager, config)
        if call is None:
            return (yield from ask(inner.invoke, self.wrapped.without_memory(value), config, **kwargs))
        heard = _listening(config, call.recorder)
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

    def _stream(
        self, inputs: Iterator[Any], run_manager: CallbackManagerForChainRun, config: RunnableConfig, **kwargs: Any
    ) -> Iterator[Any]:
        value, inner = _joined(list(inputs)), self.wrapped.inner
        call = drive(self._begin(value, run_manager, config))
        if call is None:
            yield from inner.stream(self.wrapped.without_memory(value), config, **kwargs)
            return
        heard = _listening(config, call.recorder)
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
            async for chunk in inner.astream(self.wrapped.without_memory(value), config, **kwargs):
                yield chunk
            return
        heard = _listening(config, call.recorder)
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


def _listening(config: RunnableConfig, recorder: ReplyRecorder) -> RunnableConfig:
    """A config whose calls the recorder hears."""
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager):
        return merge_configs(config, {"callbacks": [recorder]})
    heard = callbacks.copy()
    heard.add_handler(recorder, inherit=True)
    return {**config, "callbacks": heard}
