"""Counting tokens: exact where a vocabulary is on the machine, a script-aware estimate elsewhere.

Importing this package loads no vocabulary, imports no tokenizer and opens no socket. Its names are at the top, as those
of all folders; here is what only those need who write a counter of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.lazy import Loader, lazy_names

if TYPE_CHECKING:
    from langchain_sessions.tokens._base import MediaCosts, TokenTotal, Tool
    from langchain_sessions.tokens._calibration import Calibration
    from langchain_sessions.tokens._estimate import TextCounter

_HOMES = {
    "_base": ("MediaCosts", "TokenTotal", "Tool"),
    "_calibration": ("Calibration",),
    "_estimate": ("TextCounter",),
}
__all__ = ["Calibration", "MediaCosts", "TextCounter", "TokenTotal", "Tool"]

__getattr__: Loader = lazy_names(__name__, _HOMES, shares_top=True)
