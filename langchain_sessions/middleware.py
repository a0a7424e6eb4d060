"""Memory for `create_agent`: the model sees the compacted view, the graph's state stays as it is."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import Command

from langchain_sessions._chat.address import config_of_run
from langchain_sessions._chat.asides import tell_apart
from langchain_sessions._chat.call import Call
from langchain_sessions._chat.graph_state import state_of
from langchain_sessions._chat.news import sort_request
from langchain_sessions._chat.replies import READER_LEFT, ReplyRecorder, listening_below
from langchain_sessions._chat.session_memory import SessionMemory
from langchain_sessions._chat.store_run import fail_tool, keep_result
from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.twins import told_alike

_Asked = TypeVar("_Asked")
_Answered = TypeVar("_Answered")
_ModelResult = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
_ToolResult = ToolMessage | Command[Any]


class _Step(Generic[_Asked, _Answered]):
    """A handler of either face as one object with two faces."""

    def __init__(self, handler: Callable[[_Asked], Any]) -> None:
        self._handler = handler

    def run(self, request: _Asked) -> _Answered:
        return cast("_Answered", self._handler(request))

    async def arun(self, request: _Asked) -> _Answered:
        return cast("_Answered", await self._handler(request))


@told_alike
class SessionMemoryMiddleware(SessionMemory, AgentMiddleware[AgentState[Any], Any, Any]):
    """Keeps the conversation of an agent in a session and shows the model the compacted view of it.

    It works around the model and the tools only, so that it adds no step and no checkpoint to the graph, and it never
    changes the graph's state. The session is the thread, the user `configurable["user_id"]`. The options are those
    of `SessionMemory`.
    """

    # -- the model -----------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> _ModelResult:
        """Show the model the compacted view; store what is new and the reply."""
        return drive(self._model_call(request, _Step(handler)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> _ModelResult:
        """Async `wrap_model_call`."""
        return await adrive(self._model_call(request, _Step(handler)))

    def _model_call(
        self, request: ModelRequest[Any], step: _Step[ModelRequest[Any], _ModelResult]
    ) -> Flow[_ModelResult]:
        config = config_of_run(request.runtime)
        address = self.address(config)
        if address is None:
            return (yield from ask(step.run, request))
        runs = self.graph_runs.of(_writer(request.runtime))
        held: Sequence[BaseMessage] = request.state.get("messages", ())
        said, asides = tell_apart(request.messages, held)
        # A system message is no part of what is said: where it stands in a list, it is the request's.
        spoken = [message for message in said if not isinstance(message, SystemMessage)]
        system = [message for message in request.messages if isinstance(message, SystemMessage)]
        if request.system_message is not None:
            system.insert(0, request.system_message)
        call = yield from Call.begin(
            self,
            address,
            sort_request([*system, *spoken]),
            run_id=uuid.uuid4().hex,
            model=self.model_call(
                model=request.model,
                system=None if self.options.store_system else request.system_message,
                tools=tuple(request.tools),
            ),
            configurable=cast("Mapping[str, Any]", config.get("configurable") or {}),
            state=state_of(config, held, runs),
            asides=asides,
        )
        runs.add(call.invocation_id)
        recorder = ReplyRecorder()
        try:
            with listening_below(recorder):
                response = yield from _asked(call, request, step)
        except GraphBubbleUp:
            raise  # the graph waits for somebody; the run goes on later
        except BaseException as error:
            yield from _break_off(call, recorder, error)
            explained = call.explanation(error, recorder)
            if explained is not None:
                raise explained from error
            raise
        said, ended = _said(response)
        call.learn(recorder)
        # What came along with a reply goes back to the model, unless it is what the agent was asked for.
        goes_on = not ended and any(isinstance(message, ToolMessage) for message in said)
        yield from call.finish(said, ended=ended, goes_on=goes_on)
        return response

    # -- tools ---------------------------------------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolResult]
    ) -> _ToolResult:
        """Store the result of a tool beside its call."""
        return drive(self._tool_call(request, _Step(handler)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_ToolResult]]
    ) -> _ToolResult:
        """Async `wrap_tool_call`."""
        return await adrive(self._tool_call(request, _Step(handler)))

    def _tool_call(self, request: ToolCallRequest, step: _Step[ToolCallRequest, _ToolResult]) -> Flow[_ToolResult]:
        address = self.address(request.runtime.config)
        call_id = request.tool_call["id"]
        try:
            result = yield from ask(step.run, request)
        except GraphBubbleUp:
            raise  # the tool waits for somebody; the run goes on later
        except BaseException:
            if address is not None and call_id is not None:
                yield from fail_tool(self.options, address, call_id)
            raise
        if address is not None and call_id is not None:
            ends = _ends_turn(request)
            results = _results(result, call_id)
            calling = yield from keep_result(self.options, address, results, call_id, ends_turn=ends)
            if calling is not None:
                self.graph_runs.of(_writer(request.runtime)).add(calling)
        return result


_OUTSIDE: Final[Any] = Runtime().stream_writer
"""What writes a stream where no graph runs."""


def _writer(runtime: Runtime[Any] | ToolRuntime[Any, Any]) -> object | None:
    """What writes the stream of a graph's run: the same in all its nodes and tools, and in no other run."""
    return None if runtime.stream_writer is _OUTSIDE else runtime.stream_writer


def _asked(call: Call, request: ModelRequest[Any], step: _Step[ModelRequest[Any], _ModelResult]) -> Flow[_ModelResult]:
    """What is answered; a prompt that turns out to be too long is compacted once."""
    shown = yield from _shown(call, request)
    try:
        response = yield from ask(step.run, shown)
    except Exception as error:
        if not (yield from call.is_shorter_after(error)):
            raise
    else:
        said, _ = _said(response)
        if not (yield from call.is_shorter_after_cut(said[0] if said else None)):
            return response
    shown = yield from _shown(call, request)
    return (yield from ask(step.run, shown))


def _break_off(call: Call, recorder: ReplyRecorder, error: BaseException) -> Flow[None]:
    """It ended early: because the reader left, or because something failed. What arrived is kept, as by the advisor."""
    arrived = recorder.partial(plain=True)
    # Who leaves as the last word arrives has read all of it.
    if isinstance(error, READER_LEFT) and (read := arrived or recorder.words()):
        yield from call.interrupt(read)
        return
    refused = error.ai_message if isinstance(error, StructuredOutputError) else None
    yield from call.fail(arrived or refused, error)


def _shown(call: Call, request: ModelRequest[Any]) -> Flow[ModelRequest[Any]]:
    """The request with the compacted view in place of the state's messages."""
    prompt: list[Any] = yield from call.prompt()
    if prompt and isinstance(prompt[0], SystemMessage):
        return request.override(system_message=prompt[0], messages=prompt[1:])
    return request.override(system_message=None, messages=prompt)


def _said(response: _ModelResult) -> tuple[list[BaseMessage], bool]:
    """The reply in a response with results that came along, and whether a structured output ends the turn."""
    if isinstance(response, ExtendedModelResponse):
        response = response.model_response
    if isinstance(response, AIMessage):
        return [_named(response)], False
    reply = [message for message in response.result if isinstance(message, AIMessage)][:1]
    results = [message for message in response.result if isinstance(message, ToolMessage)]
    return [_named(message) for message in (*reply, *results)], response.structured_response is not None


def _ends_turn(request: ToolCallRequest) -> bool:
    """Whether the agent answers with what a tool returns: it does where each tool of the reply is such a one."""
    if request.tool is None or not request.tool.return_direct:
        return False
    state = request.state if isinstance(request.state, Mapping) else {}
    said = cast("Mapping[str, Sequence[BaseMessage]]", state).get("messages", ())
    reply = next((message for message in reversed(said) if isinstance(message, AIMessage)), None)
    # LangGraph tells of the other tools from 1.1 on; before, a turn that goes on is gone on with in a run of its own.
    others = {tool.name for tool in getattr(request.runtime, "tools", ()) if not tool.return_direct}
    return reply is None or others.isdisjoint(call["name"] for call in reply.tool_calls)


def _results(result: _ToolResult, call_id: str) -> list[BaseMessage]:
    """The results in what a tool returned, whether bare or in an update of the state."""
    if isinstance(result, ToolMessage):
        return [_named(result)]
    update = result.update
    messages = cast("Mapping[str, Any]", update).get("messages", ()) if isinstance(update, Mapping) else ()
    return [_named(m) for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == call_id]


_Message = TypeVar("_Message", bound=BaseMessage)


def _named(message: _Message) -> _Message:
    """The message with an id: the graph would give it one anyway, and the log needs the same."""
    if message.id is None:
        message.id = str(uuid.uuid4())
    return message


if TYPE_CHECKING:
    from langgraph.prebuilt import ToolRuntime
else:
    __getattr__ = at_the_top(__name__)
