"""One budget: what a prompt counts for as it goes out, and what models reported of the prompts before it."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_core.messages import SystemMessage
from langchain_core.tracers.context import register_configure_hook

from langchain_sessions._chat.replies import ReplyRecorder
from langchain_sessions.tokens._usage import UsageBook, kind_of_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions.compaction._plan import ModelCall
    from langchain_sessions.tokens import TokenCounter, Tool

_log = logging.getLogger(__name__)

_REPLY = 3  # as `TokenCounter.count_messages` counts the opening of a reply
_TOOLS = 256

_listener: ContextVar[ReplyRecorder | None] = ContextVar("langchain_sessions_listener", default=None)
register_configure_hook(_listener, inheritable=True)


@contextmanager
def listening_below() -> Iterator[ReplyRecorder]:
    """A recorder that hears the models which are called meanwhile, and what they are really shown.

    Other middleware stands between ours and the model, and may change a prompt behind it.
    """
    recorder = ReplyRecorder()
    _listener.set(recorder)
    try:
        yield recorder
    finally:
        _listener.set(None)


class PromptBudget:
    """Counts the prompts of one memory, and learns from what was reported of them. Safe to share between threads."""

    def __init__(self, counter: TokenCounter) -> None:
        """Count with `counter`."""
        self._counter = counter
        self._book = UsageBook()
        self._tools: dict[int, tuple[Tool, int]] = {}

    def count(self, prompt: Sequence[BaseMessage], tools: Sequence[Tool], known: Mapping[int, int]) -> int:
        """What a prompt counts for.

        Args:
            prompt: The messages as they go out.
            tools: The tools that are offered.
            known: What messages count for that were counted before, by the identity of the object.
        """
        messages = sum(known.get(id(message)) or self._counter.count_message(message) for message in prompt)
        return messages + sum(map(self._count_tool, tools)) + _REPLY

    def _count_tool(self, tool: Tool) -> int:
        # Making a schema costs far more than counting it, and the same tools come with every call.
        found = self._tools.get(id(tool))
        if found is not None and found[0] is tool:
            return found[1]
        tokens = self._counter.count_messages((), tools=[tool]).tools
        if len(self._tools) >= _TOOLS:
            self._tools.clear()
        self._tools[id(tool)] = (tool, tokens)
        return tokens

    def measured(
        self, call: ModelCall, conversation: Hashable, prompt: Sequence[BaseMessage], tokens: int
    ) -> ModelCall:
        """A call with what its prompt counts for, and what is known of its model."""
        usage = self._book.usage(_name_of(call), _kind_of(prompt), conversation)
        return replace(call, prompt_tokens=tokens, usage=usage)

    def learn(
        self, call: ModelCall, conversation: Hashable, shown: Sequence[BaseMessage], recorder: ReplyRecorder
    ) -> None:
        """Take in what was reported of a prompt, unless it was changed on its way to the model."""
        if call.prompt_tokens is None:
            return
        for reply, sent in recorder.reported:
            if reply.usage_metadata is not None and _carries(sent, shown):
                self._book.report(
                    _name_of(call),
                    _kind_of(shown),
                    conversation,
                    counted=call.prompt_tokens,
                    reported=reply.usage_metadata["input_tokens"],
                )
                return
        if recorder.reported:
            _log.debug("A prompt was changed on its way to the model: nothing is learned from its reply.")


def _name_of(call: ModelCall) -> str:
    """What tells the vocabulary of a model, as far as it can be told."""
    model = call.model
    named = getattr(model, "model_name", None) or getattr(model, "model", None) or getattr(model, "model_id", None)
    return f"{type(model).__name__}:{named}"


def _kind_of(prompt: Sequence[BaseMessage]) -> str:
    spoken = [message for message in prompt if not isinstance(message, SystemMessage)]
    return kind_of_text("\n".join(str(message.text)[:500] for message in spoken[-4:]))


def _carries(sent: Sequence[BaseMessage], shown: Sequence[BaseMessage]) -> bool:
    """Whether all that we showed went out as it was, in order; a chain's template may have added to it."""
    left = iter(sent)
    return all(
        any(one is ours or (one.type == ours.type and one.content == ours.content) for one in left)
        for ours in shown
        if not isinstance(ours, SystemMessage)
    )
