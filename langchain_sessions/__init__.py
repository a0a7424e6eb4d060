"""One append-only event log per conversation, and every kind of memory as a view of it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_sessions.context import Context
from langchain_sessions.errors import (
    EventConflictError,
    EventNotFoundError,
    InvalidInputError,
    SealedEventError,
    SessionEndedError,
    SessionExistsError,
    SessionNotFoundError,
    SessionsError,
    StaleSessionError,
    StoreError,
    StoreUnavailableError,
)
from langchain_sessions.events import EventKind, InvocationStatus, NewEvent, SessionEvent, Standing
from langchain_sessions.filters import ANY_BRANCH, EventFilter
from langchain_sessions.page import Page
from langchain_sessions.service import RewindResult, SessionService
from langchain_sessions.service.invocation import Invocation
from langchain_sessions.session import Session
from langchain_sessions.turns import Turn

if TYPE_CHECKING:
    from langchain_sessions.adapters.search_tool import (
        create_conversation_search_tool,
        create_cross_session_search_tool,
    )
    from langchain_sessions.recall.hits import SearchFilter, SearchHit, SearchPage
    from langchain_sessions.recall.ranking import RankingWeights
    from langchain_sessions.recall.settings import SearchSettings
    from langchain_sessions.stores.memory.store import MemoryStore
    from langchain_sessions.stores.sql.schema import schema_sql
    from langchain_sessions.stores.sql.store import SqlStore

__version__ = "0.1.0"

_LAZY = {
    "MemoryStore": "langchain_sessions.stores.memory.store",
    "RankingWeights": "langchain_sessions.recall.ranking",
    "SearchFilter": "langchain_sessions.recall.hits",
    "SearchHit": "langchain_sessions.recall.hits",
    "SearchPage": "langchain_sessions.recall.hits",
    "SearchSettings": "langchain_sessions.recall.settings",
    "SqlStore": "langchain_sessions.stores.sql.store",
    "create_conversation_search_tool": "langchain_sessions.adapters.search_tool",
    "create_cross_session_search_tool": "langchain_sessions.adapters.search_tool",
    "schema_sql": "langchain_sessions.stores.sql.schema",
}

__all__ = [
    "ANY_BRANCH",
    "Context",
    "EventConflictError",
    "EventFilter",
    "EventKind",
    "EventNotFoundError",
    "InvalidInputError",
    "Invocation",
    "InvocationStatus",
    "MemoryStore",
    "NewEvent",
    "Page",
    "RankingWeights",
    "RewindResult",
    "SealedEventError",
    "SearchFilter",
    "SearchHit",
    "SearchPage",
    "SearchSettings",
    "Session",
    "SessionEndedError",
    "SessionEvent",
    "SessionExistsError",
    "SessionNotFoundError",
    "SessionService",
    "SessionsError",
    "SqlStore",
    "StaleSessionError",
    "Standing",
    "StoreError",
    "StoreUnavailableError",
    "Turn",
    "create_conversation_search_tool",
    "create_cross_session_search_tool",
    "schema_sql",
]


def __getattr__(name: str) -> Any:
    """Load parts that not everybody needs on first use."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
