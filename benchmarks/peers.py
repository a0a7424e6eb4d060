"""What chat histories of other libraries do with the same messages, and what an append costs them.

Each library is asked where it is installed; what is not installed is left out. The answers stand in
docs/comparison.md, under "As chat history".

    pip install langchain-community langchain-postgres openai-agents
    python -m tests.servers run -- python -m benchmarks.peers
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
import uuid
import warnings
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from benchmarks.measure import show
from langchain_sessions import SessionChatMessageHistory, SessionService
from tests.servers import databases
from tests.servers.environment import server_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

APPENDS = 400
CALL = AIMessage("", tool_calls=[{"name": "look", "args": {"where": "drawer"}, "id": "c1"}], id="a1")
HARD: dict[str, BaseMessage] = {
    "a tool call": CALL,
    "an artifact": ToolMessage("found", tool_call_id="c1", artifact={"page": 1}, id="t1"),
    "NUL": HumanMessage("a\0b", id="h1"),
    "half a surrogate": HumanMessage("a\ud800b", id="h2"),
}


class Peer(NamedTuple):
    """A history as it is written to and read from; `open` begins another session each time."""

    name: str
    package: str
    open: Callable[[str], Any]
    add: Callable[[Any, BaseMessage], object]
    read: Callable[[Any], list[Any]]
    is_message: bool = True
    recover: Callable[[], object] = lambda: None


def _add(history: Any, message: BaseMessage) -> object:
    return history.add_messages([message])


def _messages(history: Any) -> list[Any]:
    return list(history.messages)


@contextlib.contextmanager
def peers(folder: Path, server: str | None) -> Iterator[list[Peer]]:
    """Who is installed."""
    found: list[Peer] = []
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(SessionService(f"sqlite:///{folder / 'ours.db'}"))
        found.append(_ours("ours, SQLite", ours))
        with contextlib.suppress(ImportError):
            found.append(_community(f"sqlite:///{folder / 'community.db'}", "SQLite"))
        with contextlib.suppress(ImportError):
            found.append(_agents(folder / "agents.db"))
        if server is not None:
            service = stack.enter_context(SessionService(server))
            service.create_schema()
            found.append(_ours("ours, PostgreSQL", service))
            with contextlib.suppress(ImportError):
                found.append(_community(server, "PostgreSQL"))
            with contextlib.suppress(ImportError):
                found.append(_postgres(server, stack))
        yield found


def _ours(name: str, sessions: SessionService) -> Peer:
    def another(session: str) -> Any:
        history = SessionChatMessageHistory(session, sessions)
        sessions.as_user(None).open(session)
        return history

    def stored(history: Any) -> list[Any]:
        """The log: what a model is to see of it is mended for strict providers."""
        return [event.message for event in sessions.events(history.session_id) if event.message is not None]

    return Peer(name, "langchain-sessions", another, _add, stored)


def _community(url: str, where: str) -> Peer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_community.chat_message_histories import SQLChatMessageHistory
        from sqlalchemy import create_engine

    engine = create_engine(url)
    return Peer(
        f"SQLChatMessageHistory, {where}",
        "langchain-community",
        lambda session: SQLChatMessageHistory(session, connection=engine),
        _add,
        _messages,
    )


def _postgres(url: str, stack: contextlib.ExitStack) -> Peer:
    import psycopg
    from langchain_postgres import PostgresChatMessageHistory

    connection = stack.enter_context(psycopg.connect(url.replace("+psycopg", "")))
    PostgresChatMessageHistory.create_tables(connection, "chat_history")

    def another(session: str) -> Any:
        name = str(uuid.uuid5(uuid.NAMESPACE_OID, session))
        return PostgresChatMessageHistory("chat_history", name, sync_connection=connection)

    return Peer(
        "PostgresChatMessageHistory", "langchain-postgres", another, _add, _messages, recover=connection.rollback
    )


def _agents(path: Path) -> Peer:
    from agents import SQLiteSession

    loop = asyncio.new_event_loop()

    def add(session: Any, message: BaseMessage) -> object:
        item = {"role": "user", "content": str(message.content)}
        if isinstance(message, AIMessage) and message.tool_calls:
            call = message.tool_calls[0]
            item = {"type": "function_call", "name": call["name"], "call_id": str(call["id"]), "arguments": "{}"}
        return loop.run_until_complete(session.add_items([item]))

    def read(session: Any) -> list[Any]:
        return loop.run_until_complete(session.get_items())

    return Peer("SQLiteSession", "openai-agents", lambda name: SQLiteSession(name, path), add, read, is_message=False)


# -- what is asked ---------------------------------------------------------------------------------------------


def retried(peer: Peer) -> str:
    """How often a message is stored that is sent twice."""
    history = peer.open("retried")
    for _ in range(2):
        peer.add(history, HumanMessage("Where is it?", id="q1"))
    return f"{len(peer.read(peer.open('retried')))} times"


def lossy(peer: Peer) -> str:
    """What does not come back equal, or is refused."""
    if not peer.is_message:
        return "keeps items of its own kind"
    lost = []
    for name, message in HARD.items():
        session = f"hard {name}"
        try:
            peer.add(peer.open(session), message)
            back = peer.read(peer.open(session))
        except Exception as error:  # noqa: BLE001 - a stranger's refusal is an answer
            lost.append(f"{name} ({type(error).__name__})")
            peer.recover()
            continue
        if back != [message]:
            lost.append(name)
    return ", ".join(lost) or "nothing"


def cost(peer: Peer) -> str:
    """Milliseconds of CPU of this process for one append to a session that grows; waiting is not in it."""
    history = peer.open("cost")
    for number in range(20):
        peer.add(history, HumanMessage(f"warm {number}"))
    best = min(_spent(peer, history, part) for part in range(4))
    return f"{best:.2f} ms"


def _spent(peer: Peer, history: Any, part: int) -> float:
    before = time.process_time()
    for number in range(APPENDS // 4):
        peer.add(history, HumanMessage(f"message {part} {number}"))
    return (time.process_time() - before) * 1000 / (APPENDS // 4)


def main() -> None:
    """Ask all of them."""
    server = server_url("postgres")
    own = None if server is None else databases.create_database(str(server), "peers")
    rows: list[tuple[str, ...]] = [("", "version", "sent twice, stored", "does not come back", "CPU of an append")]
    try:
        with tempfile.TemporaryDirectory() as folder, peers(Path(folder), own) as found:
            for peer in found:
                version = metadata.version(peer.package) if peer.package != "langchain-sessions" else "here"
                rows.append((peer.name, version, retried(peer), lossy(peer), cost(peer)))
    finally:
        if own is not None:
            databases.drop_database(own)
    show(rows)


if __name__ == "__main__":
    main()
