"""What a source gives: threads of checkpoints, and histories of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_sessions.events import NewEvent

BROKEN = "\0"
"""The key under which an element of a file says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """What one task wrote to one channel, as it is serialized."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    tag: str
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as it is serialized.

    Attributes:
        namespace: The graph or subgraph that it is of.
        id: Its id; ids of a thread are ordered in time.
        parent: The checkpoint that it came from.
        body: The checkpoint; its channels' values may lie apart.
        metadata: Decoded where the source keeps it as JSON, else serialized.
        values: Serialized values of channels that lie apart.
        writes: What its tasks wrote, in the order in which a run applies it.
    """

    namespace: str
    id: str
    parent: str | None
    body: tuple[str, bytes] | Mapping[str, Any]
    metadata: tuple[str, bytes] | Mapping[str, Any]
    values: Mapping[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])
    writes: Sequence[StoredWrite] = ()


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """Where a checkpoint is in its thread."""

    namespace: str
    id: str


class SourceError(Exception):
    """Something of a source cannot be read. It says what, never which text."""


@runtime_checkable
class ThreadSource(Protocol):
    """A saver's threads."""

    def threads(self) -> Iterator[str]:
        """The ids of the threads.

        Raises:
            SourceError: No more of them can be listed.
        """
        ...

    def checkpoints(self, thread_id: str) -> Sequence[CheckpointName]:
        """The checkpoints of a thread, oldest first.

        Raises:
            SourceError: They cannot be listed.
        """
        ...

    def checkpoint(self, thread_id: str, named: CheckpointName) -> StoredCheckpoint:
        """One of them.

        Raises:
            SourceError: It cannot be read.
        """
        ...

    def count(self) -> int:
        """How many checkpoints it holds; 0 where that cannot be read."""
        ...

    def size(self) -> int | None:
        """How many bytes it takes; None where nobody knows."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True, slots=True)
class History:
    """A conversation that was stored as messages: its id, its owner if known, and its events in order.

    Among the events stands, where one cannot be read, what is wrong with it: those after it are read all the same.

    Attributes:
        head: Of our own export what it says of the session; the events are its lines then, as they are.
    """

    id: str
    user_id: str | None
    metadata: Mapping[str, Any]
    events: Iterable[NewEvent | SourceError | Mapping[str, Any]]
    title: str | None = None
    head: Mapping[str, Any] | None = None


@runtime_checkable
class HistorySource(Protocol):
    """Stored conversations."""

    def histories(self) -> Iterator[History]:
        """One after the other. Events are read while they are taken.

        Raises:
            SourceError: No more of them can be read.
        """
        ...

    def count(self) -> int | None:
        """How many messages it holds; None where only reading all of them would tell."""
        ...

    def size(self) -> int | None:
        """How many bytes it takes; None where nobody knows."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
