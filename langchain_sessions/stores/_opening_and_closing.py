"""The life of a store: what it is made of, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from langchain_sessions._core.twins import threaded


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreDescription:
    """What a store tells of itself; None for what it does not know, or does not have.

    Attributes:
        driver: What it speaks through.
        package: The package that the driver comes in.
        server: The database and its version.
        schema: The version of the schema that is there.
        newest_schema: The version that this release works on; None where there are no numbered steps.
        bytes: How much room its rows take, with what is kept beside them.
    """

    driver: str | None = None
    package: str | None = None
    server: str | None = None
    schema: int | None = None
    newest_schema: int | None = None
    bytes: int | None = None


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

    def describe(self, /) -> StoreDescription:
        """What the store tells of itself, for whoever looks after it. Changes nothing, whatever schema is there."""
        return StoreDescription()

    @threaded(describe)
    def adescribe(self) -> None:
        """Async `describe`."""

    @abstractmethod
    def close(self, /) -> None:
        """Release what the store opened itself; finish nothing, lose nothing."""

    @threaded(close)
    def aclose(self) -> None:
        """Async `close`."""
