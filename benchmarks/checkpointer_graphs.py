"""The chat that is measured, and the savers that keep it: ours, LangGraph's own, and one that keeps nothing."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import create_engine, make_url, text

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

CONFIG: Any = {"configurable": {"thread_id": "bench"}}
_SIZES = {
    "postgresql": "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
    "AND relnamespace = 'public'::regnamespace",
    "mysql": "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()",
}


class NullSaver(BaseCheckpointSaver[Any]):
    """Stores nothing but one reference: the floor."""

    last: Any = None

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """The last one."""
        del config
        found: CheckpointTuple | None = self.last
        return found

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Keep it until the next."""
        del new_versions
        place = {**CONFIG["configurable"], "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}
        self.last = CheckpointTuple({"configurable": place}, checkpoint, metadata, config, [])
        return {"configurable": place}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Drop them."""


class Contender(NamedTuple):
    """A saver: how it is opened on a database, and how much room that takes."""

    name: str
    open: Callable[[str], AbstractContextManager[Any]]
    grows: bool = False


@contextlib.contextmanager
def _ours(url: str) -> Iterator[SessionCheckpointSaver]:
    with SessionService(url, create_schema=True) as service:
        yield SessionCheckpointSaver(service)


@contextlib.contextmanager
def _official_sqlite(url: str) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(make_url(url).database)) as saver:
        # As ours: every commit reaches the disk.
        saver.conn.execute("PRAGMA synchronous=FULL")
        yield saver


@contextlib.contextmanager
def _official_postgres(url: str) -> Iterator[Any]:
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - only where the server is there

    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with PostgresSaver.from_conn_string(plain) as saver:
        saver.setup()
        yield saver


OURS = Contender("ours", _ours)
OFFICIAL = {
    "sqlite": Contender("SqliteSaver", _official_sqlite, grows=True),
    "postgres": Contender("PostgresSaver", _official_postgres, grows=True),
}


def size(url: str) -> int:
    """How many bytes a database takes."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with contextlib.closing(sqlite3.connect(str(parsed.database))) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
            return pages * int(connection.execute("PRAGMA page_size").fetchone()[0])
    engine = create_engine(url)
    with engine.connect() as connection:
        if engine.dialect.name == "mysql":
            for name in connection.execute(text("SHOW TABLES")).scalars().all():
                connection.execute(text(f"ANALYZE TABLE `{name}`"))
        found = int(connection.execute(text(_SIZES[engine.dialect.name])).scalar_one() or 0)
    engine.dispose()
    return found


def graph_over(saver: Any) -> Any:
    """A chat whose model answers at once."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(letters(len(state["messages"])))]})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def letters(number: int) -> str:
    """400 characters that differ from turn to turn."""
    return (f"{number:08} lorem ipsum dolor sit amet " * 12)[:400]


def human(content: str) -> Any:
    """The input as a message."""
    return HumanMessage(content)


def as_dict(content: str) -> Any:
    """The input as a dict, its usual form."""
    return {"role": "user", "content": content}


def play(graph: Any, turns: int, made: Callable[[str], Any] = human) -> list[float]:
    """Some turns; the CPU milliseconds of each."""
    spent = []
    for turn in range(turns):
        begin = time.process_time()
        graph.invoke({"messages": [made(letters(turn))]}, CONFIG)
        spent.append((time.process_time() - begin) * 1000)
    return spent


def sqlite_url(directory: Path, name: str) -> str:
    """The URL of a file."""
    return f"sqlite:///{directory / name}.db"
