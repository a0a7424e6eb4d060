"""How much of it: what `make soak` asks for, handed on by the environment."""

from __future__ import annotations

import os

ROUNDS = int(os.environ.get("LANGCHAIN_SESSIONS_KILLS", "2000"))
"""How many processes are killed on each database: appending, archiving, chatting and in a graph, a quarter each."""
OPERATIONS = int(os.environ.get("LANGCHAIN_SESSIONS_OPERATIONS", "100000"))
"""How many operations look-alike users make on each database."""


def apart(url: str, prefix: str, number: int) -> tuple[str, str]:
    """Another place in the same database."""
    return url, f"{prefix}{number}_"
