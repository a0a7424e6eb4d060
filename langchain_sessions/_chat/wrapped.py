"""What is wrapped: a chat model or a chain, and where its input holds what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from langchain_sessions._chat.news import as_messages
from langchain_sessions._core.edge import require
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from typing_extensions import Self


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
    def call_tools(self) -> tuple[Any, ...]:
        """The tools that go out with a call, for those who count tokens."""
        return self.tools or tools_behind(self.inner)


def speaks_chat(runnable: object) -> bool:
    """Whether something offers what a chat model does: a model, a binding, fallbacks, a model to be configured."""
    # Such wrappers are no BaseChatModel; they forward attributes, and LangChain itself tells them by this method.
    return isinstance(runnable, Runnable) and callable(getattr(runnable, "bind_tools", None))


def model_behind(runnable: Runnable[Any, Any]) -> BaseChatModel | None:
    """The chat model that answers behind bindings, fallbacks and the steps of a chain; None where none is found."""
    if isinstance(runnable, BaseChatModel):
        return runnable
    if isinstance(runnable, RunnableBindingBase):
        return model_behind(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return model_behind(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        found = (model_behind(step) for step in reversed(runnable.steps))
        return next((model for model in found if model is not None), None)
    return None


def tools_behind(runnable: Runnable[Any, Any]) -> tuple[Any, ...]:
    """The schemas that were bound to the model behind bindings, fallbacks and the steps of a chain."""
    if isinstance(runnable, RunnableBindingBase):
        bound = runnable.kwargs.get("tools")
        # Some providers bind objects of their own, which nobody else can count.
        schemas = [tool for tool in bound if isinstance(tool, dict)] if isinstance(bound, (list, tuple)) else []
        return tuple(schemas) or tools_behind(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return tools_behind(runnable.runnable)
    if isinstance(runnable, RunnableSequence):
        found = (tools_behind(step) for step in reversed(runnable.steps))
        return next((tools for tools in found if tools), ())
    return ()
