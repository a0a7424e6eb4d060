"""Several processes on one database."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from langchain_sessions._core import locks
from langchain_sessions._core.once import kept
from langchain_sessions.checkpointer import SessionCheckpointSaver
from tests.faults.drills import assert_whole, make_service, message, opened
from tests.faults.processes import append_some, open_fresh, run_at_once

if TYPE_CHECKING:
    from collections.abc import Callable

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
on_databases = pytest.mark.backends("files", "sqlite", "postgres", "mariadb")


@on_databases
def test_processes_append_to_one_session(database_url: str, table_prefix: str) -> None:
    """C01 with processes."""
    _append_from_processes(database_url, table_prefix, processes=4, appends=20)


@pytest.mark.soak
@on_databases
def test_eight_processes_append_sixty_each(database_url: str, table_prefix: str) -> None:
    _append_from_processes(database_url, table_prefix, processes=8, appends=60)


@on_databases
def test_processes_open_a_fresh_database_at_once(fresh_database: Callable[[], str]) -> None:
    """C11."""
    _open_fresh(fresh_database, rounds=1, processes=4)


@pytest.mark.soak
@on_databases
def test_eight_processes_open_a_fresh_database_five_times(fresh_database: Callable[[], str]) -> None:
    _open_fresh(fresh_database, rounds=5, processes=8)


def _append_from_processes(url: str, prefix: str, processes: int, appends: int) -> None:
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        service.open("s")
        run_at_once(append_some, *((url, prefix, f"p{number}", appends) for number in range(processes)))
        ids = assert_whole(service, "s")
        assert len(ids) == processes * appends
        for process in range(processes):
            own = [name for name in ids if name.startswith(f"p{process}-")]
            assert own == [f"p{process}-{number}" for number in range(appends)], "each one's appends are in its order"


def _open_fresh(fresh_database: Callable[[], str], rounds: int, processes: int) -> None:
    for _ in range(rounds):
        url = fresh_database()
        run_at_once(open_fresh, *[(url, "App_")] * processes)
        with opened(make_service(url, table_prefix="App_")) as (service,):
            assert [session.id for session in service.list_sessions().items] == ["s"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@on_databases
def test_a_forked_child_shares_no_connection(database_url: str, table_prefix: str) -> None:
    with opened(make_service(database_url, table_prefix=table_prefix)) as (service,):
        service.open("s")
        service.append("s", message("parent-0"))
        service.messages("s")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for number in range(5):
                    service.append("s", message(f"child-{number}"))
                status = 0 if len(service.messages("s")) > 5 else 2
            finally:
                os._exit(status)
        for number in range(1, 6):
            service.append("s", message(f"parent-{number}"))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(assert_whole(service, "s")) == 11


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.backends("sqlite")
def test_a_fork_in_the_middle_of_a_write_does_not_stop_the_child(database_url: str) -> None:
    """SQLite notes locks in the memory of the process: a child copied with one held would wait for it for ever."""
    with opened(make_service(database_url)) as (service,):
        service.open("s")
        enough = threading.Event()

        def write() -> None:
            while not enough.is_set():
                service.append("s", message(secrets.token_hex(8)))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(5):
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        signal.alarm(30)  # it would wait for longer, and then fail
                        service.append("s", message(f"child-{number}"))
                        status = 0
                    finally:
                        os._exit(status)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            enough.set()
            writer.join()
        assert {f"child-{number}" for number in range(5)} <= set(assert_whole(service, "s"))


def _in_child(work: Callable[[], object]) -> int:
    """The status of a child that does something; one that hangs is ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # What hangs outside of Python hears of no handler of Python's.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(40)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _checkpoint(saver: SessionCheckpointSaver, number: int) -> None:
    made = empty_checkpoint()
    made["id"] = str(uuid6())
    made["channel_values"] = {"messages": [message(f"m{number}")]}
    made["channel_versions"] = {"messages": 1}
    config = saver.put(THREAD, made, {"source": "loop", "step": number}, {"messages": 1})
    saver.put_writes(config, [("topic", number)], "task")
    saver.get_tuple(THREAD)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.backends("memory", "files", "sqlite")
def test_item_3_a_child_does_not_wait_for_threads_that_are_not_there(database_url: str) -> None:
    """Whoever stood in a queue or held a lock when the process forked is in the parent only."""
    with opened(make_service(database_url)) as (service,):
        saver = SessionCheckpointSaver(service)
        enough = threading.Event()

        def write() -> None:
            number = 0
            while not enough.is_set():
                number += 1
                _checkpoint(saver, number)

        writers = [threading.Thread(target=write) for _ in range(3)]
        for writer in writers:
            writer.start()
        try:
            for number in range(6):
                assert _in_child(partial(_checkpoint, saver, number)) == 0
        finally:
            enough.set()
            for writer in writers:
                writer.join()
        assert service.verify("t") == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.backends("memory", "files", "sqlite")
def test_item_3_a_child_has_workers_of_its_own(database_url: str) -> None:
    with opened(make_service(database_url)) as (service,):
        service.open("s")

        async def many(name: str) -> None:
            await asyncio.gather(*(service.aappend("s", message(f"{name}-{number}")) for number in range(8)))

        asyncio.run(many("parent"))  # all threads are begun, and idle
        assert _in_child(lambda: asyncio.run(many("child"))) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_item_3_a_lock_that_nobody_gives_back_is_free_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.05)
    lock, turn = locks.new_lock(), locks.new_turn()
    held, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with turn, lock:
            held.set()
            enough.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    try:
        assert _in_child(lambda: lock.acquire(timeout=30) or os._exit(3)) == 0
        assert lock.locked(), "in the parent it is held"
    finally:
        enough.set()
        holder.join()


class _Slow:
    """Something whose value takes as long to work out as somebody else likes."""

    def __init__(self, entered: threading.Event, enough: threading.Event) -> None:
        self._entered, self._enough = entered, enough

    @kept
    def value(self) -> str:
        self._entered.set()
        self._enough.wait(60)
        return "worked out"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_a_value_that_another_thread_was_working_out() -> None:
    """`functools.cached_property` locks its whole class before Python 3.12."""
    entered, enough, set_already = threading.Event(), threading.Event(), threading.Event()
    set_already.set()
    slow = _Slow(entered, enough)
    worker = threading.Thread(target=lambda: slow.value)
    worker.start()
    entered.wait(60)
    try:
        assert _in_child(lambda: _Slow(threading.Event(), set_already).value == "worked out" or os._exit(3)) == 0
    finally:
        enough.set()
        worker.join()
