"""Several processes on one database."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from tests.faults.drills import assert_whole, make_service, message, opened
from tests.faults.processes import append_some, open_fresh, run_at_once

if TYPE_CHECKING:
    from collections.abc import Callable

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
