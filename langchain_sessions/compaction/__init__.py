"""Compaction that never loses anything: triggers, strategies and summaries over the log."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_sessions.compaction.base import (
        Compaction,
        CompactionPlan,
        CompactionRequest,
        CompactionResult,
        CompactionStrategy,
        CompactionTrigger,
        ModelCall,
        Outcome,
    )
    from langchain_sessions.compaction.model_summarizer import ModelSummarizer
    from langchain_sessions.compaction.prompts import SummaryPrompts
    from langchain_sessions.compaction.structured import ConversationSummary
    from langchain_sessions.compaction.summarizer import (
        Summarizer,
        Summary,
        SummaryError,
        SummaryLimits,
        SummaryTask,
    )
    from langchain_sessions.compaction.summarizing import Summarize
    from langchain_sessions.compaction.triggers import (
        ContextUsage,
        Elapsed,
        EventCount,
        TokenCount,
        Trigger,
        TurnCount,
        all_of,
        any_of,
    )
    from langchain_sessions.compaction.windows import Interval, SlidingWindow, TokenWindow, TurnWindow

_PARTS = {
    "base": (
        "Compaction",
        "CompactionPlan",
        "CompactionRequest",
        "CompactionResult",
        "CompactionStrategy",
        "CompactionTrigger",
        "ModelCall",
        "Outcome",
    ),
    "model_summarizer": ("ModelSummarizer",),
    "prompts": ("SummaryPrompts",),
    "structured": ("ConversationSummary",),
    "summarizer": ("Summarizer", "Summary", "SummaryError", "SummaryLimits", "SummaryTask"),
    "summarizing": ("Summarize",),
    "triggers": (
        "ContextUsage",
        "Elapsed",
        "EventCount",
        "TokenCount",
        "Trigger",
        "TurnCount",
        "all_of",
        "any_of",
    ),
    "windows": ("Interval", "SlidingWindow", "TokenWindow", "TurnWindow"),
}
_HOMES = {name: f"langchain_sessions.compaction.{part}" for part, names in _PARTS.items() for name in names}

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
    "TokenCount",
    "TokenWindow",
    "Trigger",
    "TurnCount",
    "TurnWindow",
    "all_of",
    "any_of",
]


def __getattr__(name: str) -> object:
    """Load a part on first use: a service that never compacts pays nothing for it."""
    if name in _HOMES:
        found: object = getattr(import_module(_HOMES[name]), name)
        return found
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
