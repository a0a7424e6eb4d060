"""Compaction that never loses anything: triggers, strategies and summaries over the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.lazy import Loader, lazy_names

if TYPE_CHECKING:
    from langchain_sessions.compaction._model_summarizer import ModelSummarizer
    from langchain_sessions.compaction._plan import (
        Compaction,
        CompactionPlan,
        CompactionRequest,
        CompactionResult,
        CompactionStrategy,
        CompactionTrigger,
        ModelCall,
        Outcome,
    )
    from langchain_sessions.compaction._prompts import SummaryPrompts
    from langchain_sessions.compaction._strategies import Interval, SlidingWindow, TimeWindow, TokenWindow, TurnWindow
    from langchain_sessions.compaction._structured import ConversationSummary
    from langchain_sessions.compaction._summarize import Summarize
    from langchain_sessions.compaction._summarizer import Summarizer, Summary, SummaryLimits, SummaryTask
    from langchain_sessions.compaction._triggers import (
        ContextUsage,
        Elapsed,
        EventCount,
        TokenCount,
        Trigger,
        TurnCount,
        all_of,
        any_of,
    )
    from langchain_sessions.errors import SummaryError

_PARTS = {
    "_plan": (
        "Compaction",
        "CompactionPlan",
        "CompactionRequest",
        "CompactionResult",
        "CompactionStrategy",
        "CompactionTrigger",
        "ModelCall",
        "Outcome",
    ),
    "_model_summarizer": ("ModelSummarizer",),
    "_prompts": ("SummaryPrompts",),
    "_structured": ("ConversationSummary",),
    "_summarizer": ("Summarizer", "Summary", "SummaryError", "SummaryLimits", "SummaryTask"),
    "_summarize": ("Summarize",),
    "_triggers": (
        "ContextUsage",
        "Elapsed",
        "EventCount",
        "TokenCount",
        "Trigger",
        "TurnCount",
        "all_of",
        "any_of",
    ),
    "_strategies": ("Interval", "SlidingWindow", "TimeWindow", "TokenWindow", "TurnWindow"),
}
__all__ = [
    "Compaction",
    "CompactionPlan",
    "CompactionRequest",
    "CompactionResult",
    "CompactionStrategy",
    "CompactionTrigger",
    "ContextUsage",
    "ConversationSummary",
    "Elapsed",
    "EventCount",
    "Interval",
    "ModelCall",
    "ModelSummarizer",
    "Outcome",
    "SlidingWindow",
    "Summarize",
    "Summarizer",
    "Summary",
    "SummaryError",
    "SummaryLimits",
    "SummaryPrompts",
    "SummaryTask",
    "TimeWindow",
    "TokenCount",
    "TokenWindow",
    "Trigger",
    "TurnCount",
    "TurnWindow",
    "all_of",
    "any_of",
]

__getattr__: Loader = lazy_names(__name__, _PARTS)
