"""Counting tokens: exact where a vocabulary is on the machine, a script-aware estimate elsewhere.

Importing this package loads no vocabulary, imports no tokenizer and opens no socket.
"""

from langchain_sessions.tokens._base import MediaCosts, TokenCounter, TokenTotal, Tool
from langchain_sessions.tokens._calibration import CalibratedTokenCounter, Calibration
from langchain_sessions.tokens._estimate import EstimatedTokenCounter, TextCounter
from langchain_sessions.tokens._exact import TiktokenCounter, best_counter

__all__ = [
    "CalibratedTokenCounter",
    "Calibration",
    "EstimatedTokenCounter",
    "MediaCosts",
    "TextCounter",
    "TiktokenCounter",
    "TokenCounter",
    "TokenTotal",
    "Tool",
    "best_counter",
]
