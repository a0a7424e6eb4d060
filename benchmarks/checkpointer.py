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
from sqlalchemy import create_engine, text

from langchain_sessions.adapters.checkpointer.saver import SessionCheckpointSaver
from langchain_sessions.service import SessionService
from langchain_sessions.stores.sql.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

CONFIG: Any = {"configurable": {"thread_id": "bench"}}
REPEATS = 20


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
    """The input as a message."""
    return HumanMessage(content)


def as_dict(content: str) -> Any:
    """The input as a dict, its usual form."""
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
            cpu = statistics.median(spent)
            print(f"sqlite, {label}: warm CPU/turn {cpu:.2f} ms, written/turn {per_turn / 1024:.0f} KiB")
            if label == "messages":
                reads(service, graph)
        print(f"sqlite, {label}: {file_size(path) / (2 * turns):.0f} B/message at {turns} turns")


def prepared(service: SessionService, count: int) -> Iterator[Any]:
    """Graphs over savers that know nothing yet; compiling them is not what is measured."""
    return iter([graph_over(SessionCheckpointSaver(service)) for _ in range(count)])


def reads(service: SessionService, graph: Any) -> None:
    """Reading warm and cold, and cold turns."""
    cold = prepared(service, 20)
    state = timed(lambda: graph.get_state(CONFIG)), timed(lambda: next(cold).get_state(CONFIG), 5)
    warm_history = timed(lambda: list(graph.get_state_history(CONFIG, limit=10)))
    cold_history = timed(lambda: list(next(cold).get_state_history(CONFIG, limit=10)), 5)
    turn = statistics.median(play(next(cold), 1, human)[0] for _ in range(10))
    print(f"  get_state warm {state[0]:.2f}, cold {state[1]:.2f} ms; cold CPU/turn {turn:.2f} ms")
    print(f"  history(10) warm {warm_history:.2f}, cold {cold_history:.2f} ms")


def floor(turns: int) -> None:
    """A saver that keeps one reference."""
    print(f"null saver: CPU/turn {statistics.median(play(graph_over(NullSaver()), turns, human)[-REPEATS:]):.2f} ms")


def official(folder: Path, turns: int) -> None:
    """LangGraph's SQLite saver, for a few turns: it grows with their square."""
    path = folder / "official.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        spent = statistics.median(play(graph_over(saver), turns, human)[-REPEATS:])
    print(f"SqliteSaver at {turns} turns: {file_size(path) / (2 * turns):.0f} B/message, CPU/turn {spent:.2f} ms")


SIZES = {
    "postgresql": "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
    "AND relnamespace = 'public'::regnamespace",
    "mysql": "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()",
}


class Statements:
    """Counts what is sent to a server: each statement is a round trip."""

    def __init__(self, service: SessionService) -> None:
        """Listen to the drivers' cursors."""
        self.count = 0
        self.service = service
        self._real = Transaction.__init__

    def __enter__(self) -> Self:
        real, tally = self._real, self

        def init(transaction: Transaction, *rest: Any) -> None:
            real(transaction, *rest)
            transaction._cursor = Tally(transaction._cursor, tally)  # noqa: SLF001
            tally.count += 1  # the commit

        Transaction.__init__ = init  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *error: object) -> None:
        Transaction.__init__ = self._real  # type: ignore[method-assign]


class Tally:
    """A cursor that counts."""

    def __init__(self, cursor: Any, statements: Statements) -> None:
        """Count for somebody."""
        self.cursor = cursor
        self.statements = statements

    def __getattr__(self, name: str) -> Any:
        if name.startswith("execute"):
            self.statements.count += 1
        return getattr(self.cursor, name)


def server(url: str, turns: int) -> None:
    """Size and statements on a database server."""
    with SessionService(url, create_schema=True) as service:
        graph = graph_over(SessionCheckpointSaver(service))
        spent = statistics.median(play(graph, turns, human)[-REPEATS:])
        with Statements(service) as statements:
            play(graph, REPEATS, human)
    engine = create_engine(url)
    with engine.connect() as connection:
        size = connection.execute(text(SIZES[engine.dialect.name])).scalar_one()
    engine.dispose()
    print(f"{engine.dialect.name}: {int(size) / (2 * turns):.0f} B/message at {turns} turns, CPU/turn {spent:.2f} ms")
    print(f"  statements and commits per turn: {statements.count / REPEATS:.1f}")


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
