"""A model or a chain that remembers: what `SessionMemoryAdvisor.wrap` returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import merge_configs
from typing_extensions import override

from langchain_sessions._flow import Flow, adrive, ask, drive
from langchain_sessions.adapters import keeping as k
from langchain_sessions.adapters.addressing import address_of, require_address
from langchain_sessions.adapters.recalling import build, recall
from langchain_sessions.adapters.replies import ReplyRecorder, consumed_calls
from langchain_sessions.adapters.requests import as_messages, sort_request
from langchain_sessions.compaction.base import ModelCall
from langchain_sessions.errors import InvalidInputError, require

if TYPE_CHECKING:
    from langchain_sessions.adapters.advisor import SessionMemoryAdvisor
    from langchain_sessions.adapters.running import Running

_Managers = CallbackManagerForChainRun | AsyncCallbackManagerForChainRun


class ChatWithMemory(Runnable[Any, Any]):
    """A chat model or a chain whose conversation is kept.

    It takes what the wrapped one takes and returns what that returns; the session is named by the config. Made by
    `SessionMemoryAdvisor.wrap`.
    """

    def __init__(
        self,
        memory: SessionMemoryAdvisor,
        inner: Runnable[Any, Any],
        *,
        input_key: str | None = None,
        history_key: str | None = None,
        tools: Sequence[Any] = (),
        config: RunnableConfig | None = None,
    ) -> None:
        """Wrap `inner`; see `SessionMemoryAdvisor.wrap`."""
        require(history_key is None or input_key is not None, "input_key", "history_key needs it")
        writes_system = any(mode.uses_system for mode in memory.keeping.modes)
        require(
            not (history_key is not None and writes_system),
            "history_key",
            "this memory writes the system prompt, which a chain makes itself; wrap the model inside the chain instead",
        )
        self.memory = memory
        self.inner = inner
        self.input_key = input_key
        self.history_key = history_key
        self._tools = tuple(tools)
        self._config: RunnableConfig = config or {}
        self.name = memory.name or type(memory).__name__

    def __repr__(self) -> str:
        """Short: what is wrapped."""
        return f"{type(self).__name__}({self.inner!r})"

    @property
    @override
    def InputType(self) -> Any:
        return self.inner.InputType

    @property
    @override
    def OutputType(self) -> Any:
        return self.inner.OutputType

    # -- what a chat model offers --------------------------------------------------------------------------

    def _with(
        self,
        inner: Runnable[Any, Any],
        *,
        tools: Sequence[Any] | None = None,
        config: RunnableConfig | None = None,
    ) -> ChatWithMemory:
        return ChatWithMemory(
            self.memory,
            inner,
            input_key=self.input_key,
            history_key=self.history_key,
            tools=self._tools if tools is None else tools,
            config=self._config if config is None else config,
        )

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ChatWithMemory:
        """The same with tools bound to the model. Calls and results are stored in pairs."""
        return self._with(self._method("bind_tools")(tools, **kwargs), tools=tools)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> ChatWithMemory:
        """The same with structured output, by any method. The raw message is what is stored."""
        return self._with(self._method("with_structured_output")(schema, **kwargs))

    @override
    def bind(self, **kwargs: Any) -> ChatWithMemory:
        return self._with(self.inner.bind(**kwargs))

    @override
    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> ChatWithMemory:
        return self._with(self.inner, config=merge_configs(self._config, config, cast("RunnableConfig", kwargs)))

    def _method(self, name: str) -> Callable[..., Runnable[Any, Any]]:
        if chat_model(self.inner) is None:
            raise InvalidInputError("inner", f"{type(self.inner).__name__} is no chat model, so it has no {name}")
        return cast("Callable[..., Runnable[Any, Any]]", getattr(self.inner, name))

    # -- calls ---------------------------------------------------------------------------------------------

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self._call_with_config(self._invoke, input, self._configured(config), **kwargs)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return await self._acall_with_config(self._ainvoke, input, self._configured(config), **kwargs)

    def _configured(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(self._config, config)

    def _invoke(
        self, value: Any, run_manager: CallbackManagerForChainRun, config: RunnableConfig, **kwargs: Any
    ) -> Any:
        return drive(self._answer(value, run_manager, config, kwargs))

    async def _ainvoke(
        self, value: Any, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig, **kwargs: Any
    ) -> Any:
        return await adrive(self._answer(value, run_manager, config, kwargs))

    def _answer(self, value: Any, manager: _Managers, config: RunnableConfig, kwargs: dict[str, Any]) -> Flow[Any]:
        """One call from the request to the stored reply."""
        running = yield from self._begin(value, manager, config)
        if running is None:
            return (yield from ask(self.inner.invoke, value, config, **kwargs))
        recorder = ReplyRecorder()
        listening = merge_configs(config, {"callbacks": [recorder]})
        keeping = self.memory.keeping
        try:
            try:
                payload = yield from self._payload(value, running)
                output = yield from ask(self.inner.invoke, payload, listening, **kwargs)
            except Exception as error:
                if not k.is_overflow(error) or not (yield from k.make_room(keeping, running)):
                    raise
                payload = yield from self._payload(value, running)
                output = yield from ask(self.inner.invoke, payload, listening, **kwargs)
        except BaseException as error:
            yield from k.fail(keeping, running, recorder.partial() or recorder.reply(), error)
            raise
        reply = recorder.reply(output)
        yield from k.finish(keeping, running, reply, consumed=() if reply is None else consumed_calls(reply, output))
        return output

    # -- streams -------------------------------------------------------------------------------------------

    @override
    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        yield from self.transform(iter([input]), config, **kwargs)

    @override
    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        async def given() -> AsyncIterator[Any]:
            yield input

        async with aclosing(self.atransform(given(), config, **kwargs)) as chunks:
            async for chunk in chunks:
                yield chunk

    @override
    def transform(self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        yield from self._transform_stream_with_config(input, self._stream, self._configured(config), **kwargs)

    @override
    async def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        chunks = self._atransform_stream_with_config(input, self._astream, self._configured(config), **kwargs)
        async with aclosing(cast("Any", chunks)) as closed_in_time:
            async for chunk in closed_in_time:
                yield chunk

    def _stream(
        self, inputs: Iterator[Any], run_manager: CallbackManagerForChainRun, config: RunnableConfig, **kwargs: Any
    ) -> Iterator[Any]:
        value = _joined(list(inputs))
        running = drive(self._begin(value, run_manager, config))
        if running is None:
            yield from self.inner.stream(value, config, **kwargs)
            return
        recorder, last = ReplyRecorder(), _Delivered()
        listening = merge_configs(config, {"callbacks": [recorder]})
        try:
            while True:
                payload = drive(self._payload(value, running))
                try:
                    with closing(cast("Any", self.inner.stream(payload, listening, **kwargs))) as chunks:
                        for chunk in chunks:
                            last.note(chunk)
                            yield chunk
                    break
                except Exception as error:
                    if not last.may_retry(error) or not drive(k.make_room(self.memory.keeping, running)):
                        raise
        except BaseException as error:
            drive(self._broken_off(running, recorder, last, error))
            raise
        drive(self._finish_stream(running, recorder, last))

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        value = _joined([part async for part in inputs])
        running = await adrive(self._begin(value, run_manager, config))
        if running is None:
            async for chunk in self.inner.astream(value, config, **kwargs):
                yield chunk
            return
        recorder, last = ReplyRecorder(), _Delivered()
        listening = merge_configs(config, {"callbacks": [recorder]})
        try:
            while True:
                payload = await adrive(self._payload(value, running))
                try:
                    async with aclosing(cast("Any", self.inner.astream(payload, listening, **kwargs))) as chunks:
                        async for chunk in chunks:
                            last.note(chunk)
                            yield chunk
                    break
                except Exception as error:
                    if not last.may_retry(error) or not await adrive(k.make_room(self.memory.keeping, running)):
                        raise
        except BaseException as error:
            await adrive(self._broken_off(running, recorder, last, error))
            raise
        await adrive(self._finish_stream(running, recorder, last))

    def _finish_stream(self, running: Running, recorder: ReplyRecorder, last: _Delivered) -> Flow[None]:
        reply = recorder.reply(None if last.is_message else last.chunk)
        consumed = () if reply is None or last.is_message else consumed_calls(reply, last.chunk)
        yield from k.finish(self.memory.keeping, running, reply, consumed=consumed)

    def _broken_off(
        self, running: Running, recorder: ReplyRecorder, last: _Delivered, error: BaseException
    ) -> Flow[None]:
        """The stream ended early: because the reader left, or because something failed."""
        keeping = self.memory.keeping
        if not isinstance(error, GeneratorExit):
            yield from k.fail(keeping, running, recorder.partial() or recorder.reply(), error)
            return
        if recorder.is_complete and (reply := recorder.completed()) is not None:
            # All had arrived; the reader just did not ask for the end.
            consumed = () if last.is_message else consumed_calls(reply, last.chunk)
            yield from k.finish(keeping, running, reply, consumed=consumed)
            return
        yield from k.interrupt(keeping, running, recorder.partial())

    # -- the request ---------------------------------------------------------------------------------------

    def _begin(self, value: Any, manager: _Managers, config: RunnableConfig) -> Flow[Running | None]:
        """Store the request; None where the config names no session and that is allowed."""
        memory = self.memory
        if memory.on_missing_session == "skip":
            address = address_of(memory.sessions, config)
            if address is None:
                return None
        else:
            address = require_address(memory.sessions, config)
        return (
            yield from k.begin(
                memory.keeping,
                address,
                sort_request(self._said(value)),
                run_id=str(manager.run_id),
                call=ModelCall(model=chat_model(self.inner), tools=self._tools, context_window=memory.context_window),
                configurable=config.get("configurable") or {},
            )
        )

    def _said(self, value: Any) -> list[BaseMessage]:
        if self.input_key is None:
            if isinstance(value, Mapping):
                raise InvalidInputError(
                    "input_key", "the input is a dictionary; use memory.wrap(chain, input_key=..., history_key=...)"
                )
            return as_messages(value)
        if not isinstance(value, Mapping) or self.input_key not in value:
            raise InvalidInputError("input_key", f"the input has no key {self.input_key!r}")
        return as_messages(value[self.input_key])

    def _payload(self, value: Any, running: Running) -> Flow[Any]:
        """What the wrapped runnable is given: the whole prompt, or its dictionary with the history filled in."""
        if self.history_key is not None:
            draft = yield from recall(self.memory.keeping, running)
            return {**value, self.history_key: [event.message for event in draft.history]}
        prompt = yield from build(self.memory.keeping, running)
        return prompt if self.input_key is None else {**value, self.input_key: prompt}


class _Delivered:
    """What a stream has delivered so far: its last chunk."""

    def __init__(self) -> None:
        self.chunk: object = None
        self._tried = False
        self._any = False

    def note(self, chunk: object) -> None:
        self.chunk = chunk
        self._any = True

    @property
    def is_message(self) -> bool:
        return isinstance(self.chunk, BaseMessage)

    def may_retry(self, error: Exception) -> bool:
        """Whether the prompt was refused as too long, once, before anything was delivered."""
        first, self._tried = not self._tried, True
        return first and not self._any and k.is_overflow(error)


def _joined(parts: list[Any]) -> Any:
    """A streamed input as one value."""
    require(parts, "input", "is empty")
    value = parts[0]
    for part in parts[1:]:
        value = value + part
    return value


def chat_model(runnable: Runnable[Any, Any]) -> BaseChatModel | None:
    """The chat model behind a runnable and its bindings; None where it is something else."""
    while isinstance(runnable, RunnableBindingBase):
        runnable = runnable.bound
    return runnable if isinstance(runnable, BaseChatModel) else None
