"""Processes among several: started from a server that has imported everything once, so that each costs nothing."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

from tests.faults.drills import archive_some, make_service, message

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__, "tests.migrations.steps"])


def append_until_killed(url: str, prefix: str, label: str, archive_every: int, said: Connection) -> None:
    """Append without end, archiving now and then; says each id once its append has returned."""
    service = make_service(url, table_prefix=prefix, synchronous="FULL")
    service.open("s")
    said.send("ready")
    number = 0
    while True:
        name = f"{label}-{number}"
        service.append("s", message(name))
        said.send(name)
        number += 1
        if archive_every and number % archive_every == 0:
            archive_some(service, "s")


def append_some(url: str, prefix: str, label: str, count: int) -> None:
    """Append a number of messages."""
    service = make_service(url, table_prefix=prefix)
    for number in range(count):
        service.append("s", message(f"{label}-{number}"))
    service.close()


def open_fresh(url: str, prefix: str) -> None:
    """Create the tables and a session."""
    service = make_service(url, table_prefix=prefix)
    service.create_schema()
    service.open("s")
    service.close()


def run_at_once(target: Callable[..., None], *arguments: tuple[Any, ...]) -> None:
    """Run processes at once, one for each set of arguments, and expect that all succeed."""
    start = CONTEXT.Barrier(len(arguments))
    running = [CONTEXT.Process(target=_when_all_are_there, args=(start, target, given)) for given in arguments]
    for process in running:
        process.start()
    for process in running:
        process.join(100)
    assert [process.exitcode for process in running] == [0] * len(running)


def _when_all_are_there(start: Any, target: Callable[..., None], given: tuple[Any, ...]) -> None:
    start.wait(60)
    target(*given)
