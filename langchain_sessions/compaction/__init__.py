"""Compaction that never loses anything: triggers, strategies and summaries over the log.

Its names are at the top; what is asked for them here gets them, but type checkers know one door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.lazy import Loader, lazy_names

if TYPE_CHECKING:
    from langchain_sessions.compaction._triggers import Trigger

__all__ = ["Trigger"]

__getattr__: Loader = lazy_names(__name__, {"_triggers": ("Trigger",)}, shares_top=True)
