"""Growth and cost of the checkpointer beside LangGraph's own: a chat of 2 x 400 characters per turn.

Run `python benchmarks/checkpointer.py [turns]`; with BENCH_POSTGRES or BENCH_MARIADB set to the URL of an empty
database, that one is measured too. CPU is process time, the median of the last 20 turns.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import text

from langchain_sessions.adapters.checkpointer.saver import SessionCheckpointSaver
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG: Any = {"configurable": {"thread_id": "bench"}}
REPEATS = 20


class NullSaver(BaseCheckpointSaver[Any]):
    """Stores nothing but one reference: the floor."""

    last: Any = None

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        del config
        return self.last

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        del new_versions
        place = {**CONFIG["configurable"], "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}
        self.last = CheckpointTuple({"configurable": place}, checkpoint, metadata, config, [])
        return {"configurable": place}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Drop them."""


def graph_over(saver: Any) -> Any:
    """A chat whose model answers at once."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(letters(len(state["messages"])))]})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def letters(number: int) -> str:
    """400 characters that differ from turn to turn."""
    return (f"{number:08} lorem ipsum dolor sit amet " * 12)[:400]


def play(graph: Any, turns: int, made: Callable[[str], Any]) -> list[float]:
    """Some turns; the CPU milliseconds of each."""
    spent = []
    for turn in range(turns):
        begin = time.process_time()
        graph.invoke({"messages": [made(letters(turn))]}, CONFIG)
        spent.append((time.process_time() - begin) * 1000)
    return spent


def timed(act: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median wall milliseconds."""
    spent = []
    for _ in range(repeats):
        begin = time.perf_counter()
        act()
        spent.append((time.perf_counter() - begin) * 1000)
    return statistics.median(spent)


def human(content: str) -> Any:
    return HumanMessage(content)


def as_dict(content: str) -> Any:
    return {"role": "user", "content": content}


def file_size(path: Path) -> int:
    """The size of a database after its log was written back."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size


def written() -> int:
    """Bytes that this process has handed to the kernel for writing."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def sqlite(folder: Path, turns: int) -> None:
    """Size, bytes written and reading times on SQLite."""
    for label, made in (("messages", human), ("dicts", as_dict)):
        path = folder / f"{label}.db"
        with SessionService(f"sqlite:///{path}") as service:
            graph = graph_over(SessionCheckpointSaver(service))
            play(graph, turns - REPEATS, made)
            before = written()
            spent = play(graph, REPEATS, made)
            per_turn = (written() - before) / REPEATS
            print(
                f"sqlite, {label}: warm CPU/turn {statistics.median(spent):.2f} ms, written/turn {per_turn / 1024:.0f} KiB"
            )
            if label == "messages":
                reads(service, graph)
        print(f"sqlite, {label}: {file_size(path) / (2 * turns):.0f} B/message at {turns} turns")


def reads(service: SessionService, graph: Any) -> None:
    """Reading warm and cold, and cold turns."""
    fresh = lambda: graph_over(SessionCheckpointSaver(service))  # noqa: E731
    state = timed(lambda: graph.get_state(CONFIG)), timed(lambda: fresh().get_state(CONFIG), 5)
    history = (
        timed(lambda: list(graph.get_state_history(CONFIG, limit=10))),
        timed(lambda: list(fresh().get_state_history(CONFIG, limit=10)), 5),
    )
    cold = statistics.median(play(fresh(), 1, human)[0] for _ in range(10))
    print(
        f"  get_state warm {state[0]:.2f} cold {state[1]:.2f} ms; history(10) warm {history[0]:.2f} cold {history[1]:.2f} ms"
    )
    print(f"  cold CPU/turn {cold:.2f} ms")


def floor(turns: int) -> None:
    """A saver that keeps one reference."""
    print(f"null saver: CPU/turn {statistics.median(play(graph_over(NullSaver()), turns, human)[-REPEATS:]):.2f} ms")


def official(folder: Path, turns: int) -> None:
    """LangGraph's SQLite saver, for a few turns: it grows with their square."""
    path = folder / "official.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        spent = statistics.median(play(graph_over(saver), turns, human)[-REPEATS:])
    print(f"SqliteSaver at {turns} turns: {file_size(path) / (2 * turns):.0f} B/message, CPU/turn {spent:.2f} ms")


def server(url: str, turns: int) -> None:
    """Size on a database server."""
    with SessionService(url, create_schema=True) as service:
        graph = graph_over(SessionCheckpointSaver(service))
        spent = statistics.median(play(graph, turns, human)[-REPEATS:])
        engine: Any = service.store._engines.sync  # type: ignore[attr-defined] # noqa: SLF001
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                query = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'"
            else:
                query = "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()"
            size = connection.execute(text(query)).scalar_one()
    print(
        f"{url.split(':', maxsplit=1)[0]}: {int(size) / (2 * turns):.0f} B/message at {turns} turns, CPU/turn {spent:.2f} ms"
    )


def main() -> None:
    """Measure everything that is there."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    # In memory, where there is room: the disk is not what is compared.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory) as name:
        folder = Path(name)
        floor(turns)
        sqlite(folder, turns)
        official(folder, min(turns, 200))
    for variable in ("BENCH_POSTGRES", "BENCH_MARIADB"):
        if url := os.environ.get(variable):
            server(url, turns)


if __name__ == "__main__":
    main()
