"""Counting tokens: exact where a vocabulary is on the machine, a script-aware estimate elsewhere.

Importing this package loads no vocabulary, imports no tokenizer and opens no socket.
"""

from typing import TYPE_CHECKING

from langchain_sessions._core.lazy import at_the_top
from langchain_sessions.tokens._base import MediaCosts, TokenCounter, TokenTotal, Tool
from langchain_sessions.tokens._calibration import CalibratedTokenCounter, Calibration
from langchain_sessions.tokens._choosing import best_counter
from langchain_sessions.tokens._estimate import EstimatedTokenCounter, TextCounter
from langchain_sessions.tokens._exact import TiktokenCounter
from langchain_sessions.tokens._wheels import LocalTokenizer

__all__ = [
    "CalibratedTokenCounter",
    "Calibration",
    "EstimatedTokenCounter",
    "LocalTokenizer",
    "MediaCosts",
    "TextCounter",
    "TiktokenCounter",
    "TokenCounter",
    "TokenTotal",
    "Tool",
    "best_counter",
]


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
