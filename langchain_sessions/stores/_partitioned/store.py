"""The whole contract over an engine that can do very little; see `engine` for what that is."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from langchain_sessions._core.flow import Flow, adrive, drive
from langchain_sessions._core.twins import finish
from langchain_sessions.stores._base import SessionStore
from langchain_sessions.stores._partitioned import (
    forks,
    index,
    log,
    scoped,
    sessions,
    standing,
    thread_reads,
    thread_upkeep,
    threads,
)
from langchain_sessions.stores._partitioned.access import Partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from langchain_sessions.stores.engine import PartitionEngine

P = ParamSpec("P")
T = TypeVar("T")


def _pair(
    operation: Callable[Concatenate[Partitions, P], Flow[T]],
) -> tuple[
    Callable[Concatenate[PartitionedStore, P], T],
    Callable[Concatenate[PartitionedStore, P], Coroutine[Any, Any, T]],
]:
    """Both methods of an operation on partitions."""

    @wraps(operation)
    def method(self: PartitionedStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(operation(self.partitions, *args, **kwargs))

    @wraps(operation)
    async def twin(self: PartitionedStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if not self.waits:
            return drive(operation(self.partitions, *args, **kwargs))
        if self.engine.is_async:
            return await finish(adrive(operation(self.partitions, *args, **kwargs)))
        # One hop for the whole call, not one for each thing that it asks of the engine.
        return await finish(asyncio.to_thread(method, self, *args, **kwargs))

    twin.__name__ = f"a{operation.__name__}"
    return method, twin


class PartitionedStore(SessionStore):
    """Sessions in partitions of an engine: logs, threads, index and vectors.

    Every change reads the head of its session, decides, and commits what it decided if the head is still the same;
    else it decides anew. So writers of one session take turns, and writers of different ones never meet.

    Args:
        engine: Keeps the partitions. It is closed with the store.
    """

    def __init__(self, engine: PartitionEngine) -> None:
        """See the class."""
        self.engine = engine
        self.partitions = Partitions(engine)
        self.waits = engine.waits  # type: ignore[misc]

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

    create_session, acreate_session = _pair(sessions.create_session)
    open_session, aopen_session = _pair(sessions.open_session)
    find_session, afind_session = _pair(sessions.find_session)
    list_sessions, alist_sessions = _pair(sessions.list_sessions)
    update_session, aupdate_session = _pair(sessions.update_session)
    end_session, aend_session = _pair(sessions.end_session)
    delete_session, adelete_session = _pair(sessions.delete_session)
    delete_user, adelete_user = _pair(sessions.delete_user)
    purge_expired, apurge_expired = _pair(sessions.purge_expired)
    fork_session, afork_session = _pair(forks.fork_session)

    append_events, aappend_events = _pair(log.append_events)
    append_record, aappend_record = _pair(log.append_record)
    find_events, afind_events = _pair(log.find_events)
    load_context, aload_context = _pair(log.load_context)
    count_live, acount_live = _pair(log.count_live)
    measure_scope, ameasure_scope = _pair(log.measure_scope)
    lease_scope, alease_scope = _pair(log.lease_scope)
    find_invocation, afind_invocation = _pair(log.find_invocation)
    rewind_events, arewind_events = _pair(standing.rewind_events)
    archive_events, aarchive_events = _pair(standing.archive_events)
    verify_session, averify_session = _pair(standing.verify_session)
    load_state, aload_state = _pair(scoped.load_state)

    commit_threads, acommit_threads = _pair(threads.commit_threads)
    find_checkpoints, afind_checkpoints = _pair(thread_reads.find_checkpoints)
    load_lineage, aload_lineage = _pair(thread_reads.load_lineage)
    list_root_checkpoints, alist_root_checkpoints = _pair(thread_reads.list_root_checkpoints)
    find_runs, afind_runs = _pair(thread_reads.find_runs)
    prune_checkpoints, aprune_checkpoints = _pair(thread_upkeep.prune_checkpoints)

    @property
    def waits_on_loop(self) -> bool:
        """Whether the async half awaits the engine itself, on the loop."""
        return self.engine.is_async

    load_index, aload_index = _pair(index.load_index)
    find_index, afind_index = _pair(index.find_index)
    load_chunks, aload_chunks = _pair(index.load_chunks)
    write_index, awrite_index = _pair(index.write_index)
    scan_logs, ascan_logs = _pair(index.scan_logs)
    load_events, aload_events = _pair(index.load_events)
    list_vectors, alist_vectors = _pair(index.list_vectors)
    find_vectors, afind_vectors = _pair(index.find_vectors)
    load_vectors, aload_vectors = _pair(index.load_vectors)
    write_vectors, awrite_vectors = _pair(index.write_vectors)
