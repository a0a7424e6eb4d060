"""One call of something with memory: what it is given, and what of its answer is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import RunnableConfig, merge_configs

from langchain_sessions._chat import keeping as k
from langchain_sessions._chat.news import sort_request
from langchain_sessions._chat.outbound import settle
from langchain_sessions._chat.overflow import is_cut_by_window
from langchain_sessions._chat.prompt import merge_system
from langchain_sessions._chat.recalling import build, recall
from langchain_sessions._chat.replies import Delivered, ReplyRecorder, consumed_calls
from langchain_sessions._chat.wrapped import Wrapped, model_behind
from langchain_sessions._core.edge import require
from langchain_sessions._core.view import call_ids
from langchain_sessions.compaction.triggers import known_window

if TYPE_CHECKING:
    from langchain_sessions._chat.running import Running
    from langchain_sessions._chat.session_memory import SessionMemory
    from langchain_sessions._core.flow import Flow


def listening(config: RunnableConfig, recorder: ReplyRecorder) -> RunnableConfig:
    """A config whose calls the recorder hears."""
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager):
        return merge_configs(config, {"callbacks": [recorder]})
    heard = callbacks.copy()
    heard.add_handler(recorder, inherit=True)
    return {**config, "callbacks": heard}


class Exchange:
    """One call in progress. Made by `begin`."""

    def __init__(self, memory: SessionMemory, wrapped: Wrapped, value: Any, running: Running) -> None:
        """Nothing was asked of the model yet."""
        self._memory = memory
        self._keeping = memory.keeping
        self._wrapped = wrapped
        self._value = value
        self._running = running
        self._tried = False
        self.recorder = ReplyRecorder()
        self.delivered = Delivered(wrapped.input_key)

    @classmethod
    def begin(
        cls, memory: SessionMemory, wrapped: Wrapped, value: Any, run_id: str, config: RunnableConfig
    ) -> Flow[Exchange | None]:
        """Store the request; None where the config names no session and that is allowed."""
        address = memory.address(config)
        if address is None:
            return None
        request = sort_request(wrapped.said(value))
        require(request.body, "input", "says nothing: give at least one message that is not a system message")
        running = yield from k.begin(
            memory.keeping,
            address,
            request,
            run_id=run_id,
            call=memory.call(
                model=model_behind(wrapped.inner),
                system=None if memory.keeping.store_system else merge_system(request.system),
                tools=wrapped.call_tools,
            ),
            configurable=config.get("configurable") or {},
        )
        return cls(memory, wrapped, value, running)

    def payload(self) -> Flow[Any]:
        """What the wrapped runnable is given: the whole prompt, or its dictionary with the history filled in."""
        keys = self._wrapped
        if keys.history_key is not None:
            draft = yield from recall(self._keeping, self._running)
            said = [call for message in self._running.news.tail for call in call_ids(message)]
            history = settle([event.message for event in draft.history], taken=said)
            filled = {**self._value, keys.history_key: history}
            return filled if keys.system_key is None else {**filled, keys.system_key: draft.instructions}
        prompt = yield from build(self._keeping, self._running)
        self.delivered.given = prompt
        return prompt if keys.input_key is None else {**self._value, keys.input_key: prompt}

    def may_retry(self, error: Exception) -> Flow[bool]:
        """Whether the prompt was refused as too long, once, before anything was delivered, and is shorter now."""
        if self._tried or self.delivered.anything or not self._memory.is_overflow(error):
            return False
        self._tried = True
        return (yield from k.make_room(self._keeping, self._running))

    def was_cut(self) -> Flow[bool]:
        """Whether the window cut the one reply that was made, for the first time, and the prompt is shorter now."""
        reply = self.recorder.only_reply
        if self._tried or reply is None or not is_cut_by_window(reply, known_window(self._running.call)):
            return False
        self._tried = True
        if not (yield from k.make_room(self._keeping, self._running)):
            return False
        self.recorder.forget()
        return True

    def finish(self) -> Flow[None]:
        """All was delivered: store it."""
        said, consumed = self._said()
        for usage in self.recorder.reported:
            self._memory.observe(*usage)
        yield from k.finish(self._keeping, self._running, said, consumed=consumed)

    def _said(self) -> tuple[list[BaseMessage], list[str]]:
        """What was answered, and the calls in it that a structured output was made from."""
        if self.delivered.messages:
            return list(self.delivered.messages.values()), []
        reply = self.recorder.reply(self.delivered.outcome(heard=self.recorder.heard))
        if reply is None:
            return [], []
        shown_raw = isinstance(self.delivered.last, BaseMessage)
        return [*self.recorder.steps(reply), reply], [] if shown_raw else consumed_calls(reply)

    def break_off(self, error: BaseException) -> Flow[None]:
        """It ended early: because the reader left, or because something failed."""
        partial = self.recorder.partial()
        if not isinstance(error, GeneratorExit):
            yield from k.fail(self._keeping, self._running, partial or self.recorder.reply(), error)
            return
        reply = self.recorder.completed() if self.recorder.is_complete else None
        if reply is None or (self._wrapped.input_key is not None and call_ids(reply)):
            yield from k.interrupt(self._keeping, self._running, partial, steps=self.recorder.steps())
            return
        # All had arrived; the reader just did not ask for the end.
        consumed = [] if isinstance(self.delivered.last, BaseMessage) else consumed_calls(reply)
        yield from k.finish(self._keeping, self._running, [*self.recorder.steps(reply), reply], consumed=consumed)
