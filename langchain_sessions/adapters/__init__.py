"""LangChain and LangGraph on top of the service."""

from __future__ import annotations

from importlib import import_module, util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_sessions.adapters.advisor import BareAdvisorError, SessionMemoryAdvisor
    from langchain_sessions.adapters.chat import ChatWithMemory
    from langchain_sessions.adapters.checkpointer.saver import SessionCheckpointSaver
    from langchain_sessions.adapters.history import SessionChatMessageHistory
    from langchain_sessions.adapters.keeping import ReplyNotStoredError
    from langchain_sessions.adapters.long_term import LongTermMemory
    from langchain_sessions.adapters.memory import SessionMemory
    from langchain_sessions.adapters.middleware import SessionMemoryMiddleware
    from langchain_sessions.adapters.modes import MemoryMode, SummaryAsFact, SystemPromptMemory
    from langchain_sessions.adapters.search_tool import (
        create_conversation_search_tool,
        create_cross_session_search_tool,
    )

_LAZY = {
    "BareAdvisorError": "advisor",
    "ChatWithMemory": "chat",
    "LongTermMemory": "long_term",
    "MemoryMode": "modes",
    "ReplyNotStoredError": "keeping",
    "SessionChatMessageHistory": "history",
    "SessionCheckpointSaver": "checkpointer.saver",
    "SessionMemory": "memory",
    "SessionMemoryAdvisor": "advisor",
    "SessionMemoryMiddleware": "middleware",
    "SummaryAsFact": "modes",
    "SystemPromptMemory": "modes",
    "create_conversation_search_tool": "search_tool",
    "create_cross_session_search_tool": "search_tool",
}
_EXTRAS = {"SessionMemoryMiddleware": ("langchain", "agents")}

__all__ = [
    "BareAdvisorError",
    "ChatWithMemory",
    "LongTermMemory",
    "MemoryMode",
    "ReplyNotStoredError",
    "SessionChatMessageHistory",
    "SessionCheckpointSaver",
    "SessionMemory",
    "SessionMemoryAdvisor",
    "SessionMemoryMiddleware",
    "SummaryAsFact",
    "SystemPromptMemory",
    "create_conversation_search_tool",
    "create_cross_session_search_tool",
]


def __getattr__(name: str) -> Any:
    """Load an adapter on first use; say what to install where that is missing."""
    if name not in _LAZY:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    if name in _EXTRAS and util.find_spec(_EXTRAS[name][0]) is None:
        from langchain_sessions.errors import MissingDependencyError  # noqa: PLC0415 - only where something is missing

        raise MissingDependencyError(name, _EXTRAS[name][1])
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
