"""How a transaction is begun and ended."""

from __future__ import annotations

from enum import Enum
from typing import Final


class TransactionKind(Enum):
    """What a transaction has to promise. An operation that writes says how it may be repeated."""

    READ = "read"
    """Statements without a transaction: a log only grows, so its session row says which version is read."""
    WRITE = "write"
    """One transaction. Where its outcome is unknown the caller is told, since it may not be repeated."""
    APPEND = "append"
    """One transaction that may be repeated: what it wrote is recognised."""
    RELAXED = "relaxed"
    """`APPEND` that need not outlive a power cut until the next transaction of another mode has: it does not wait
    for the disk where the database can leave that out."""
    STATEMENT = "statement"
    """One statement that commits itself and may be repeated."""


LONG: Final = (TransactionKind.WRITE, TransactionKind.APPEND, TransactionKind.RELAXED)
"""Those that are begun and committed in so many words, where a server would commit each statement by itself."""
