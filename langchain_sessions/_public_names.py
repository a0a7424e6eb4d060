"""What can be imported from the top: the one list of it.

A name is written three times, here and nowhere else: for type checkers, for Python, which loads its module when it is
first asked for, and for who imports everything. A test compares the three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from langchain_sessions._chat.address import OwnerPolicy
    from langchain_sessions._chat.chat_with_memory import ChatWithMemory
    from langchain_sessions._chat.overflow import is_context_overflow
    from langchain_sessions._chat.session_memory import SessionMemory
    from langchain_sessions._compaction.model_summarizer import ModelSummarizer
    from langchain_sessions._compaction.plan import (
        Compaction,
        CompactionPlan,
        CompactionRequest,
        CompactionResult,
        CompactionStrategy,
        CompactionTrigger,
        ModelCall,
        Outcome,
    )
    from langchain_sessions._compaction.prompts import SummaryPrompts
    from langchain_sessions._compaction.strategies import Interval, SlidingWindow, TimeWindow, TokenWindow, TurnWindow
    from langchain_sessions._compaction.structured import ConversationSummary
    from langchain_sessions._compaction.summarize import Summarize
    from langchain_sessions._compaction.summarizer import Summarizer, Summary, SummaryLimits, SummaryTask
    from langchain_sessions._compaction.triggers import (
        ContextUsage,
        Elapsed,
        EventCount,
        TokenCount,
        Trigger,
        TurnCount,
        all_of,
        any_of,
    )
    from langchain_sessions._core.rows import ANYONE, Counters
    from langchain_sessions._core.view import Context
    from langchain_sessions._log.values import BlankResult, Removal, RewindResult
    from langchain_sessions._recall.rank.ranking import RankingWeights
    from langchain_sessions._recall.settings import SearchSettings
    from langchain_sessions._sql.store import SqlStore
    from langchain_sessions._sql.tables.schema import schema_sql
    from langchain_sessions._tokens.base import MediaCosts, TokenCounter, TokenTotal
    from langchain_sessions._tokens.calibration import CalibratedTokenCounter, Calibration
    from langchain_sessions._tokens.estimate import EstimatedTokenCounter, TextCounter
    from langchain_sessions._tokens.exact_or_estimated import best_counter
    from langchain_sessions._tokens.tiktoken import TiktokenCounter
    from langchain_sessions._tokens.wheels import LocalTokenizer
    from langchain_sessions.checkpointer import SessionCheckpointSaver, checkpointer_factory
    from langchain_sessions.errors import (
        BareAdvisorError,
        CommitUnknownError,
        CorruptRowError,
        EmbeddingError,
        EventConflictError,
        EventNotFoundError,
        HeadConflictError,
        InvalidInputError,
        MissingDependencyError,
        PromptTooLongError,
        ReplyNotStoredError,
        SchemaError,
        SchemaMissingError,
        SchemaVersionError,
        SealedEventError,
        ServiceClosedError,
        SessionEndedError,
        SessionExistsError,
        SessionNotFoundError,
        SessionsError,
        StalePlanError,
        StaleSessionError,
        StoreError,
        StoreUnavailableError,
        SummaryError,
        SyncNotAvailableError,
        UnsupportedDatabaseError,
        VocabularyMissingError,
    )
    from langchain_sessions.events import EventKind, InvocationStatus, NewEvent, SessionEvent, Standing
    from langchain_sessions.exporting import ExportForm, export_sessions
    from langchain_sessions.filters import ANY_BRANCH, AnyBranch, EventFilter
    from langchain_sessions.history import SessionChatMessageHistory
    from langchain_sessions.importing import (
        ImportProblem,
        ImportProgress,
        ImportReport,
        OwnerOf,
        aimport_threads,
        import_threads,
    )
    from langchain_sessions.invocation import Invocation
    from langchain_sessions.long_term import LongTermMemory
    from langchain_sessions.memory import SessionMemoryAdvisor
    from langchain_sessions.middleware import SessionMemoryMiddleware
    from langchain_sessions.modes import MemoryMode, PromptDraft, SummaryAsFact, SystemPromptMemory
    from langchain_sessions.page import Page
    from langchain_sessions.search import SearchHit, SearchPage
    from langchain_sessions.service import SessionService
    from langchain_sessions.session import Session
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._memory import InMemoryStore
    from langchain_sessions.stores._partitioned.store import PartitionedStore
    from langchain_sessions.stores.engine import PartitionEngine
    from langchain_sessions.tools import create_conversation_search_tool, create_cross_session_search_tool
    from langchain_sessions.turns import Turn, split_turns, starts_turn

HOMES: Final = {
    "_chat.address": ("OwnerPolicy",),
    "_chat.chat_with_memory": ("ChatWithMemory",),
    "_chat.overflow": ("is_context_overflow",),
    "_chat.session_memory": ("SessionMemory",),
    "_core.rows": ("ANYONE", "Counters"),
    "_core.view": ("Context",),
    "_log.values": ("BlankResult", "Removal", "RewindResult"),
    "_recall.rank.ranking": ("RankingWeights",),
    "_recall.settings": ("SearchSettings",),
    "_sql.store": ("SqlStore",),
    "_sql.tables.schema": ("schema_sql",),
    "checkpointer": ("SessionCheckpointSaver", "checkpointer_factory"),
    "_compaction.model_summarizer": ("ModelSummarizer",),
    "_compaction.plan": (
        "Compaction",
        "CompactionPlan",
        "CompactionRequest",
        "CompactionResult",
        "CompactionStrategy",
        "CompactionTrigger",
        "ModelCall",
        "Outcome",
    ),
    "_compaction.prompts": ("SummaryPrompts",),
    "_compaction.structured": ("ConversationSummary",),
    "_compaction.summarize": ("Summarize",),
    "_compaction.summarizer": ("Summarizer", "Summary", "SummaryLimits", "SummaryTask"),
    "_compaction.triggers": (
        "ContextUsage",
        "Elapsed",
        "EventCount",
        "TokenCount",
        "Trigger",
        "TurnCount",
        "all_of",
        "any_of",
    ),
    "_compaction.strategies": ("Interval", "SlidingWindow", "TimeWindow", "TokenWindow", "TurnWindow"),
    "errors": (
        "BareAdvisorError",
        "CommitUnknownError",
        "CorruptRowError",
        "EmbeddingError",
        "EventConflictError",
        "EventNotFoundError",
        "HeadConflictError",
        "InvalidInputError",
        "MissingDependencyError",
        "PromptTooLongError",
        "ReplyNotStoredError",
        "SchemaError",
        "SchemaMissingError",
        "SchemaVersionError",
        "SealedEventError",
        "ServiceClosedError",
        "SessionEndedError",
        "SessionExistsError",
        "SessionNotFoundError",
        "SessionsError",
        "StalePlanError",
        "StaleSessionError",
        "StoreError",
        "StoreUnavailableError",
        "SummaryError",
        "SyncNotAvailableError",
        "UnsupportedDatabaseError",
        "VocabularyMissingError",
    ),
    "events": ("EventKind", "InvocationStatus", "NewEvent", "SessionEvent", "Standing"),
    "exporting": ("ExportForm", "export_sessions"),
    "filters": ("ANY_BRANCH", "AnyBranch", "EventFilter"),
    "history": ("SessionChatMessageHistory",),
    "importing": ("ImportProblem", "ImportProgress", "ImportReport", "OwnerOf", "aimport_threads", "import_threads"),
    "invocation": ("Invocation",),
    "long_term": ("LongTermMemory",),
    "memory": ("SessionMemoryAdvisor",),
    "middleware": ("SessionMemoryMiddleware",),
    "modes": ("MemoryMode", "PromptDraft", "SummaryAsFact", "SystemPromptMemory"),
    "page": ("Page",),
    "search": ("SearchHit", "SearchPage"),
    "service": ("SessionService",),
    "session": ("Session",),
    "stores._base": ("SessionStore",),
    "stores._partitioned.store": ("PartitionedStore",),
    "stores.engine": ("PartitionEngine",),
    "stores._memory": ("InMemoryStore",),
    "_tokens.base": ("MediaCosts", "TokenCounter", "TokenTotal"),
    "_tokens.calibration": ("CalibratedTokenCounter", "Calibration"),
    "_tokens.exact_or_estimated": ("best_counter",),
    "_tokens.estimate": ("EstimatedTokenCounter", "TextCounter"),
    "_tokens.tiktoken": ("TiktokenCounter",),
    "_tokens.wheels": ("LocalTokenizer",),
    "tools": ("create_conversation_search_tool", "create_cross_session_search_tool"),
    "turns": ("Turn", "split_turns", "starts_turn"),
}
"""The names by the module that defines them."""

__all__ = [
    "ANYONE",
    "ANY_BRANCH",
    "AnyBranch",
    "BareAdvisorError",
    "BlankResult",
    "CalibratedTokenCounter",
    "Calibration",
    "ChatWithMemory",
    "CommitUnknownError",
    "Compaction",
    "CompactionPlan",
    "CompactionRequest",
    "CompactionResult",
    "CompactionStrategy",
    "CompactionTrigger",
    "Context",
    "ContextUsage",
    "ConversationSummary",
    "CorruptRowError",
    "Counters",
    "Elapsed",
    "EmbeddingError",
    "EstimatedTokenCounter",
    "EventConflictError",
    "EventCount",
    "EventFilter",
    "EventKind",
    "EventNotFoundError",
    "ExportForm",
    "HeadConflictError",
    "ImportProblem",
    "ImportProgress",
    "ImportReport",
    "InMemoryStore",
    "Interval",
    "InvalidInputError",
    "Invocation",
    "InvocationStatus",
    "LocalTokenizer",
    "LongTermMemory",
    "MediaCosts",
    "MemoryMode",
    "MissingDependencyError",
    "ModelCall",
    "ModelSummarizer",
    "NewEvent",
    "Outcome",
    "OwnerOf",
    "OwnerPolicy",
    "Page",
    "PartitionEngine",
    "PartitionedStore",
    "PromptDraft",
    "PromptTooLongError",
    "RankingWeights",
    "Removal",
    "ReplyNotStoredError",
    "RewindResult",
    "SchemaError",
    "SchemaMissingError",
    "SchemaVersionError",
    "SealedEventError",
    "SearchHit",
    "SearchPage",
    "SearchSettings",
    "ServiceClosedError",
    "Session",
    "SessionChatMessageHistory",
    "SessionCheckpointSaver",
    "SessionEndedError",
    "SessionEvent",
    "SessionExistsError",
    "SessionMemory",
    "SessionMemoryAdvisor",
    "SessionMemoryMiddleware",
    "SessionNotFoundError",
    "SessionService",
    "SessionStore",
    "SessionsError",
    "SlidingWindow",
    "SqlStore",
    "StalePlanError",
    "StaleSessionError",
    "Standing",
    "StoreError",
    "StoreUnavailableError",
    "Summarize",
    "Summarizer",
    "Summary",
    "SummaryAsFact",
    "SummaryError",
    "SummaryLimits",
    "SummaryPrompts",
    "SummaryTask",
    "SyncNotAvailableError",
    "SystemPromptMemory",
    "TextCounter",
    "TiktokenCounter",
    "TimeWindow",
    "TokenCount",
    "TokenCounter",
    "TokenTotal",
    "TokenWindow",
    "Trigger",
    "Turn",
    "TurnCount",
    "TurnWindow",
    "UnsupportedDatabaseError",
    "VocabularyMissingError",
    "aimport_threads",
    "all_of",
    "any_of",
    "best_counter",
    "checkpointer_factory",
    "create_conversation_search_tool",
    "create_cross_session_search_tool",
    "export_sessions",
    "import_threads",
    "is_context_overflow",
    "schema_sql",
    "split_turns",
    "starts_turn",
]
