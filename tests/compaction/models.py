# ruff: noqa: ANN401 - stands in for what users pass, which may be anything
"""Chat models that do what a test tells them, and remember what they were shown."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.callbacks import CallbackManagerForLLMRun


class ScriptedModel(BaseChatModel):
    """Answers with its replies in turn, the last one again and again; an exception among them is raised."""

    replies: list[Any] = Field(default_factory=lambda: ["They talked."])
    profile: Any = None
    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _before: Callable[[], None] | None = PrivateAttr(default=None)

    @property
    def prompts(self) -> list[list[BaseMessage]]:
        """What it was shown, call by call."""
        return self._prompts

    @property
    def shown(self) -> str:
        """Everything that it was shown, as one text."""
        return "\n".join(str(message.text) for prompt in self._prompts for message in prompt)

    def before_each(self, act: Callable[[], None]) -> ScriptedModel:
        """Do something while the model is being called."""
        self._before = act
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._prompts.append(messages)
        if self._before is not None:
            self._before()
        reply = self.replies[min(len(self._prompts), len(self.replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        message = reply if isinstance(reply, BaseMessage) else AIMessage(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


class HangingModel(ScriptedModel):
    """Does not answer before the test lets it."""

    _gate: threading.Event = PrivateAttr(default_factory=threading.Event)

    def release(self) -> None:
        """Let it answer."""
        self._gate.set()

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        self._gate.wait(30)
        return super()._generate(*args, **kwargs)


class StrangeSummarizer:
    """Returns whatever it was given, summary or not."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def summarize(self, task: Any) -> Any:
        return self.answer

    async def asummarize(self, task: Any) -> Any:
        return self.answer
