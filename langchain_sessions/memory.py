"""Memory for any chat model or chain: `memory.wrap(model)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from langchain_core.runnables import Runnable
from typing_extensions import override

from langchain_sessions._chat.chat_with_memory import ChatWithMemory, Out
from langchain_sessions._chat.session_memory import SessionMemory, Wrapped, speaks_chat
from langchain_sessions._core.edge import has_no, helpful, require, told_methods
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions.errors import BareAdvisorError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

_WANTED = "give a chat model or a chain, such as wrap(ChatOpenAI(model='…'))"


@has_no("wrap_tool_call", "create_agent(model, middleware=[SessionMemoryMiddleware(sessions)])")
@helpful
@told_methods
class SessionMemoryAdvisor(SessionMemory, Runnable[Any, Any]):
    """Keeps the conversation of a chat model or a chain in a session.

    `memory.wrap(model)` is the model with memory: it opens the session that the config names, shows the model what
    was said so far, stores what is new in the request and the reply, each exactly once, and compacts when it is time.
    `memory | model` is the same. The options are those of `SessionMemory`.
    """

    def wrap(
        self,
        inner: Runnable[Any, Out],
        *,
        input_key: str | None = None,
        history_key: str | None = None,
        system_key: str | None = None,
    ) -> ChatWithMemory[Out]:
        """A model, a chain or an agent with memory.

        Args:
            inner: A chat model, or a chain.
            input_key: Where a chain's input dictionary holds what the user says.
            history_key: Where a chain expects the history. Without it, `input_key` receives the whole conversation.
            system_key: Where a chain's template expects what the modes of this memory write for the system prompt.
        """
        require(isinstance(inner, Runnable), "inner", f"{_WANTED}, not {type(inner).__name__}")
        wrapped = Wrapped(inner=inner, input_key=input_key, history_key=history_key, system_key=system_key)
        return ChatWithMemory(self, wrapped)

    @override
    def __or__(self, other: Any) -> Any:
        """`memory | model` is `memory.wrap(model)`."""
        return self.wrap(other) if speaks_chat(other) else super().__or__(other)

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> NoReturn:
        """Refuse: an advisor is no step of a chain.

        Raises:
            BareAdvisorError: Always.
        """
        raise BareAdvisorError


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
