"""Where logs are kept: a contract, and the stores that keep it."""

from typing import TYPE_CHECKING

from langchain_sessions._core.lazy import at_the_top

if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
