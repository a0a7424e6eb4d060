"""Processes among several: started from a server that has imported everything once, so that each costs nothing."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage

from langchain_sessions import Compaction, SessionMemoryAdvisor, TurnCount, TurnWindow
from tests.faults.drills import archive_some, make_service, message
from tests.servers import databases
from tests.surface.strict_rules import InsistingModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.faults.warmed"])
CHAT: Any = {"configurable": {"session_id": "s"}}


def killed(seconds: float, target: Callable[..., None], *arguments: Any) -> list[str]:
    """What a process said it had done before it was killed, `seconds` after it first said so.

    The first argument is the URL of its database, which has let go of the process when this returns.
    """
    listener, said = CONTEXT.Pipe(duplex=False)
    url = str(arguments[0])
    before = _connected(url)
    process = CONTEXT.Process(target=target, args=(*arguments, said))
    process.start()
    said.close()
    done = [listener.recv()]
    time.sleep(seconds)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "it failed before it was killed"
    with suppress(EOFError):
        while True:
            done.append(listener.recv())
    listener.close()
    limit = time.monotonic() + 60
    while not _connected(url) <= before:
        assert time.monotonic() < limit, "the server still works for a process that is gone"
        time.sleep(0.005)
    return done


def _connected(url: str) -> set[int]:
    return set() if url.startswith(("file:", "sqlite:")) else databases.others(url)


def append_until_killed(url: str, prefix: str, label: str, archive_every: int, said: Connection) -> None:
    """Append without end, archiving now and then; says each id once its append has returned."""
    service = make_service(url, table_prefix=prefix, synchronous="FULL")
    service.open("s")
    number = 0
    while True:
        name = f"{label}-{number}"
        service.append("s", message(name))
        said.send(name)
        number += 1
        if archive_every and number % archive_every == 0:
            archive_some(service, "s")


def chatting(service: Any, compacts_after: int = 0) -> Any:
    """A model with memory; where asked to, it archives all but the newest turns now and then."""
    compaction = Compaction(TurnCount(compacts_after), TurnWindow(max_turns=2)) if compacts_after else None
    return SessionMemoryAdvisor(service, compaction=compaction).wrap(InsistingModel())


def chat_until_killed(url: str, prefix: str, label: str, how: tuple[str, int], said: Connection) -> None:
    """Ask without end, by a face, archiving after some turns; says each question's id once it was answered."""
    face, compacts_after = how
    service = make_service(url, table_prefix=prefix, synchronous="FULL")
    chat = chatting(service, compacts_after)

    async def ask_on() -> None:
        number = 0
        while True:
            asked = [HumanMessage(f"question {label}-{number}", id=f"{label}-{number}")]
            if face == "sync":
                chat.invoke(asked, CHAT)
            else:
                await chat.ainvoke(asked, CHAT)
            said.send(f"{label}-{number}")
            number += 1

    asyncio.run(ask_on())


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
