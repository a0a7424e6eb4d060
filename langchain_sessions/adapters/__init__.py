"""LangChain and LangGraph on top of the service."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_sessions.adapters.advisor import SessionMemoryAdvisor

_LAZY = {"SessionMemoryAdvisor": "langchain_sessions.adapters.advisor"}

__all__ = ["SessionMemoryAdvisor"]


def __getattr__(name: str) -> Any:
    """Load an adapter on first use."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
