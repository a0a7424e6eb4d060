"""The whole contract over an engine that can do very little; see `engine` for what that is."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, ClassVar, Concatenate, ParamSpec, TypeVar

from langchain_sessions._core.flow import Flow, adrive, drive, stands_for
from langchain_sessions._core.threads import WAITERS
from langchain_sessions._core.twins import finish, told_alike
from langchain_sessions.stores._base import SessionStore
from langchain_sessions.stores._partitioned import (
    archiving,
    forks,
    index,
    log,
    overwriting,
    removing,
    rewinding,
    sessions,
    shared_state,
    shelves,
    thread_reads,
    thread_upkeep,
    threads,
    vectors,
    verifying,
)
from langchain_sessions.stores._partitioned.access import Partitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.stores._erasing import Remainder
    from langchain_sessions.stores.engine import PartitionEngine

P = ParamSpec("P")
T = TypeVar("T")


def _runs(
    operation: Callable[Concatenate[Partitions, P], Flow[T]],
) -> Callable[[Callable[[PartitionMethods], None]], Callable[Concatenate[PartitionMethods, P], T]]:
    """Declares both methods of an operation on partitions."""

    @wraps(operation)
    def method(self: PartitionMethods, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(operation(self.partitions, *args, **kwargs))

    @wraps(operation)
    async def twin(self: PartitionMethods, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if not self.waits:
            return drive(operation(self.partitions, *args, **kwargs))
        if self.engine.is_async:
            return await finish(adrive(operation(self.partitions, *args, **kwargs)))
        # One hop for the whole call, not one for each thing that it asks of the engine.
        return await finish(WAITERS.arun(partial(method, self, *args, **kwargs)))

    return stands_for(method, twin)


@told_alike
class PartitionMethods:
    """Every method of the contract over partitions; a store is this and the contract."""

    waits: ClassVar[bool]

    def __init__(self, engine: PartitionEngine) -> None:
        """See the class."""
        self.engine: PartitionEngine = engine
        self.partitions: Partitions = Partitions(engine)
        self.waits: bool = engine.waits  # type: ignore[misc]

    def __repr__(self) -> str:
        """Short: over which engine."""
        return f"<{type(self).__name__} of {type(self.engine).__name__}>"

    def create_schema(self) -> None:
        """Create what the engine keeps partitions in."""
        self.engine.create_schema()

    async def acreate_schema(self) -> None:
        """Async `create_schema`."""
        await self.engine.acreate_schema()

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    async def aclose(self) -> None:
        """Async `close`."""
        await self.engine.aclose()

    @property
    def remainders(self) -> tuple[Remainder, ...]:
        """What the engine goes on keeping."""
        return self.engine.remainders

    @_runs(sessions.create_session)
    def create_session(self) -> None: ...
    @_runs(sessions.open_session)
    def open_session(self) -> None: ...
    @_runs(sessions.find_session)
    def find_session(self) -> None: ...
    @_runs(sessions.list_sessions)
    def list_sessions(self) -> None: ...
    @_runs(sessions.update_session)
    def update_session(self) -> None: ...
    @_runs(sessions.end_session)
    def end_session(self) -> None: ...
    @_runs(removing.delete_session)
    def delete_session(self) -> None: ...
    @_runs(removing.delete_user)
    def delete_user(self) -> None: ...
    @_runs(removing.purge_expired)
    def purge_expired(self) -> None: ...
    @_runs(forks.fork_session)
    def fork_session(self) -> None: ...

    @_runs(log.append_events)
    def append_events(self) -> None: ...
    @_runs(log.append_record)
    def append_record(self) -> None: ...
    @_runs(log.find_events)
    def find_events(self) -> None: ...
    @_runs(log.load_context)
    def load_context(self) -> None: ...
    @_runs(log.count_live)
    def count_live(self) -> None: ...
    @_runs(log.measure_scope)
    def measure_scope(self) -> None: ...
    @_runs(log.lease_scope)
    def lease_scope(self) -> None: ...
    @_runs(log.find_invocation)
    def find_invocation(self) -> None: ...
    @_runs(rewinding.rewind_events)
    def rewind_events(self) -> None: ...
    @_runs(archiving.archive_events)
    def archive_events(self) -> None: ...
    @_runs(overwriting.blank_events)
    def blank_events(self) -> None: ...
    @_runs(verifying.verify_session)
    def verify_session(self) -> None: ...
    @_runs(shared_state.load_state)
    def load_state(self) -> None: ...
    @_runs(shared_state.load_shared)
    def load_shared(self) -> None: ...
    @_runs(shared_state.change_shared)
    def change_shared(self) -> None: ...

    @_runs(threads.commit_threads)
    def commit_threads(self) -> None: ...
    @_runs(thread_reads.find_checkpoints)
    def find_checkpoints(self) -> None: ...
    @_runs(thread_reads.load_lineage)
    def load_lineage(self) -> None: ...
    @_runs(thread_reads.list_root_checkpoints)
    def list_root_checkpoints(self) -> None: ...
    @_runs(thread_reads.find_runs)
    def find_runs(self) -> None: ...
    @_runs(thread_upkeep.prune_checkpoints)
    def prune_checkpoints(self) -> None: ...

    @_runs(index.load_index)
    def load_index(self) -> None: ...
    @_runs(index.find_index)
    def find_index(self) -> None: ...
    @_runs(index.load_chunks)
    def load_chunks(self) -> None: ...
    @_runs(index.write_index)
    def write_index(self) -> None: ...
    @_runs(shelves.write_shelf)
    def write_shelf(self) -> None: ...
    @_runs(index.scan_logs)
    def scan_logs(self) -> None: ...
    @_runs(index.load_events)
    def load_events(self) -> None: ...
    @_runs(vectors.list_vectors)
    def list_vectors(self) -> None: ...
    @_runs(vectors.find_vectors)
    def find_vectors(self) -> None: ...
    @_runs(vectors.load_vectors)
    def load_vectors(self) -> None: ...
    @_runs(vectors.write_vectors)
    def write_vectors(self) -> None: ...


class PartitionedStore(PartitionMethods, SessionStore):
    """Sessions in partitions of an engine: logs, threads, index and vectors.

    Every change reads the head of its session, decides, and commits what it decided if the head is still the same;
    else it decides anew. So writers of one session take turns, and writers of different ones never meet.

    Args:
        engine: Keeps the partitions. It is closed with the store.
    """
