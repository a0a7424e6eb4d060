"""The life of a store: what it is made of, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from langchain_sessions._core.twins import threaded


class Store(ABC):
    """The part of the contract that has nothing to do with what is kept."""

    waits: ClassVar[bool] = True
    """Whether a method may wait for a disk or a server. Where none does, the async half calls it on the loop."""

    @abstractmethod
    def create_schema(self, /) -> None:
        """Create or upgrade what the store keeps its rows in. Idempotent, safe when many processes do it at once.

        Raises:
            SchemaVersionError: The database is newer than this release.
        """

    @threaded(create_schema)
    def acreate_schema(self) -> None:
        """Async `create_schema`."""

    @abstractmethod
    def close(self, /) -> None:
        """Release what the store opened itself; finish nothing, lose nothing."""

    @threaded(close)
    def aclose(self) -> None:
        """Async `close`."""
