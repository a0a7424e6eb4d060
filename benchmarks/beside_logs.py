"""Histories that a user would pick instead, and what an append, a turn and the last messages cost with each.

A session is filled to some length, and then every library does the same in turn: a round of one beside a round of the
others, so that a busy machine disturbs all alike. What is not installed is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_sessions import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.kernel_counts import KernelCounts

ROUNDS = 5
_SECONDS = 0.06
"""About how long a round of one library takes."""
_LONGEST_FILL = 10.0
"""A library that would need more seconds of CPU to be filled to the next length is followed no further."""


class History(NamedTuple):
    """A library: `open` a session by name, `add` some messages to it at once, read the last 20. Async where it is."""

    name: str
    open: Callable[[str], Any]
    add: Callable[[Any, list[BaseMessage]], Any]
    last: Callable[[Any], Any]
    is_async: bool = False
    batch: int = 100
    """How many it is given at once while it is filled."""


def said(number: int) -> BaseMessage:
    """A message of 400 characters."""
    text = (f"{number:08} lorem ipsum dolor sit amet " * 12)[:400]
    return AIMessage(text) if number % 2 else HumanMessage(text)


# -- the libraries ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def on_sqlite(folder: Path) -> Iterator[list[History]]:
    """What keeps histories in a file."""
    with contextlib.ExitStack() as stack:
        found = [_ours(stack.enter_context(SessionService(f"sqlite:///{folder / 'ours.db'}")))]
        with contextlib.suppress(ImportError):
            found.append(_community(f"sqlite:///{folder / 'community.db'}"))
        with contextlib.suppress(ImportError):
            found.append(_agents(folder / "agents.db"))
        with contextlib.suppress(ImportError):
            found.append(_adk(f"sqlite+aiosqlite:///{folder / 'adk.db'}"))
        yield found


@contextlib.contextmanager
def on_postgres(url: str) -> Iterator[list[History]]:
    """What keeps them on a server."""
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(SessionService(url, create_schema=True, table_prefix="ours_"))
        found = [_ours(service), _ours_async(service)]
        with contextlib.suppress(ImportError):
            found.append(_community(url))
        with contextlib.suppress(ImportError):
            found.append(_langchain_postgres(url, stack))
        with contextlib.suppress(ImportError):
            found.append(_adk(url.replace("+psycopg", "+asyncpg")))
        yield found


def _ours(service: SessionService) -> History:
    ada = service.as_user("ada")

    def another(name: str) -> Any:
        ada.open(name)
        return name

    return History("ours", another, ada.append, lambda name: ada.messages(name, last_n=20))


def _ours_async(service: SessionService) -> History:
    ada = service.as_user("grace")

    async def another(name: str) -> Any:
        await ada.aopen(f"async {name}")
        return f"async {name}"

    return History("ours, async", another, ada.aappend, lambda name: ada.amessages(name, last_n=20), is_async=True)


def _community(url: str) -> History:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_community.chat_message_histories import SQLChatMessageHistory
        from sqlalchemy import create_engine
    engine = create_engine(url)
    return History(
        "SQLChatMessageHistory",
        lambda name: SQLChatMessageHistory(name, connection=engine),
        lambda history, messages: history.add_messages(messages),
        lambda history: history.messages[-20:],
    )


def _langchain_postgres(url: str, stack: contextlib.ExitStack) -> History:
    import psycopg
    from langchain_postgres import PostgresChatMessageHistory

    connection = stack.enter_context(psycopg.connect(url.replace("+psycopg", "")))
    PostgresChatMessageHistory.create_tables(connection, "chat_history")

    def another(name: str) -> Any:
        key = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        return PostgresChatMessageHistory("chat_history", key, sync_connection=connection)

    return History(
        "langchain-postgres",
        another,
        lambda history, messages: history.add_messages(messages),
        lambda history: history.messages[-20:],
    )


def _agents(path: Path) -> History:
    from agents import SQLiteSession

    async def another(name: str) -> Any:
        return SQLiteSession(name, path)

    def add(session: Any, messages: list[BaseMessage]) -> Any:
        roles = {"human": "user", "ai": "assistant"}
        return session.add_items([{"role": roles[each.type], "content": each.content} for each in messages])

    return History("openai-agents", another, add, lambda session: session.get_items(20), is_async=True)


def _adk(url: str) -> History:
    from google.adk.events import Event
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.genai import types

    service = DatabaseSessionService(url)
    few = GetSessionConfig(num_recent_events=20)

    async def another(name: str) -> Any:
        return await service.create_session(app_name="bench", user_id="ada", session_id=name)

    async def add(session: Any, messages: list[BaseMessage]) -> None:
        for message in messages:
            role = "model" if message.type == "ai" else "user"
            content = types.Content(role=role, parts=[types.Part(text=str(message.content))])
            await service.append_event(session, Event(author=role, content=content))

    def last(session: Any) -> Any:
        return service.get_session(app_name="bench", user_id="ada", session_id=session.id, config=few)

    return History("google-adk", another, add, last, is_async=True, batch=20)


# -- what is measured ------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """What one call costs, in a session of some length."""

    where: str
    what: str
    name: str
    length: int
    cpu_us: float
    wall_us: float
    bytes_written: float
    fsyncs: float
    packets: float


class _Side:
    """A library at work: its session, and how many messages are in it."""

    def __init__(self, history: History, loop: asyncio.AbstractEventLoop) -> None:
        self.history = history
        self.length = 0
        self.is_out = False
        self._loop = loop
        self._session = self._done(history.open, str(uuid.uuid4()))

    def _done(self, call: Callable[..., Any], *args: Any) -> Any:
        found = call(*args)
        return self._loop.run_until_complete(found) if self.history.is_async else found

    def fill(self, length: int) -> None:
        """Bring the session to a length, unless that takes too long."""
        begin, first = time.process_time(), self.length
        while self.length < length:
            size = min(self.history.batch, length - self.length)
            self._done(self.history.add, self._session, [said(self.length + at) for at in range(size)])
            self.length += size
            spent = time.process_time() - begin
            if spent / (self.length - first) * (length - first) > _LONGEST_FILL and spent > 1:
                self.is_out = True
                return

    def run(self, what: str, times: int) -> None:
        """Do something some times: one event loop's run where it is asynchronous."""
        size = {"append": 1, "turn of four": 4}.get(what)
        messages = [] if size is None else [[said(at) for at in range(size)] for _ in range(times)]

        def once(at: int) -> Any:
            return self.history.last(self._session) if size is None else self.history.add(self._session, messages[at])

        async def many() -> None:
            for at in range(times):
                await once(at)

        if self.history.is_async:
            self._loop.run_until_complete(many())
        else:
            for at in range(times):
                once(at)
        self.length += times * (size or 0)


WHAT = ("append", "turn of four", "last 20")


def measure(where: str, histories: list[History], lengths: tuple[int, ...], kernel: KernelCounts) -> list[Measured]:
    """Every library at every length that it reaches."""
    loop = asyncio.new_event_loop()
    found: list[Measured] = []
    try:
        sides = [_Side(history, loop) for history in histories]
        for length in lengths:
            for side in sides:
                if not side.is_out:
                    side.fill(length)
            here = [side for side in sides if not side.is_out]
            for what in WHAT:
                found += _interleaved(where, what, length, here, kernel)
    finally:
        loop.close()
    return found


def _interleaved(where: str, what: str, length: int, sides: list[_Side], kernel: KernelCounts) -> list[Measured]:
    times: dict[str, int] = {}
    for side in sides:
        side.run(what, 1)
        begin = time.perf_counter()
        side.run(what, 2)
        # At most a tenth of the session is added while it is looked at, and at least two calls make a round.
        most = max(2, min(200, length // 10 // ROUNDS)) if what != "last 20" else 200
        times[side.history.name] = max(2, min(most, int(_SECONDS / max(1e-6, (time.perf_counter() - begin) / 2))))
    rounds: dict[str, list[tuple[float, ...]]] = {side.history.name: [] for side in sides}
    for _ in range(ROUNDS):
        for side in sides:
            name = side.history.name
            before, wall, cpu = kernel.read(), time.perf_counter(), time.process_time()
            side.run(what, times[name])
            spent = (time.process_time() - cpu, time.perf_counter() - wall)
            counted = [now - then for now, then in zip(kernel.read(), before, strict=True)]
            rounds[name].append(tuple(each / times[name] for each in (*spent, *counted)))
    told: list[Measured] = []
    for name, each in rounds.items():
        cpu_seconds, wall_seconds, *counts = (sorted(column)[len(column) // 2] for column in zip(*each, strict=True))
        spent = (round(cpu_seconds * 1e6, 1), round(wall_seconds * 1e6, 1))
        told.append(Measured(where, what, name, length, *spent, *(round(count, 2) for count in counts)))
    return told
