"""Twelve workloads side by side: ours and LangGraph's own savers, with and without `DeltaChannel`, in one run.

CPU is that of the client above a saver that stores nothing, the best of some rounds; bytes stored are those of the
database at the end; bytes written are what the process handed to the kernel (SQLite) or the server's WAL (PostgreSQL).
Each of ours stands beside the smaller figure of the official saver of the same database:

    python -m tests.servers run -- python -m benchmarks.workloads --json workloads.json --draw
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from sqlalchemy import create_engine, text

from benchmarks.checkpointer_graphs import OFFICIAL, OURS, size, sqlite_url
from benchmarks.figures import FIGURES, draw
from benchmarks.measure import memory_directory, show
from benchmarks.workload_graphs import WORKLOADS, Workload, files_graph, files_input
from tests.servers.databases import create_database, drop_database

if TYPE_CHECKING:
    from collections.abc import Callable

GOALS = {"cpu": 1.0, "stored": 0.5, "written": 1.0}
UNITS = {"cpu": "CPU s", "stored": "MB stored", "written": "MB written"}
SERVERS = {"postgres": "LANGCHAIN_SESSIONS_TEST_POSTGRES"}


class KeepsNothing(BaseCheckpointSaver[Any]):
    """Holds the last checkpoint of each thread and namespace: the floor."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        super().__init__()
        self._last: dict[tuple[str, str], CheckpointTuple] = {}

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """The last one."""
        place = config["configurable"]
        return self._last.get((place["thread_id"], place.get("checkpoint_ns", "")))

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Keep it until the next."""
        del new_versions
        given = config["configurable"]
        name = (given["thread_id"], given.get("checkpoint_ns", ""))
        place = {"configurable": {"thread_id": name[0], "checkpoint_ns": name[1], "checkpoint_id": checkpoint["id"]}}
        self._last[name] = CheckpointTuple(place, checkpoint, metadata, config, [])
        return place

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Drop them."""


class Cost(NamedTuple):
    """What a workload cost."""

    cpu: float
    stored: float
    written: float


def _cpu(graph: Any, workload: Workload) -> float:
    gc.collect()
    begin = time.process_time()
    workload.play(graph, "bench")
    return time.process_time() - begin


def _floor(workload: Workload, rounds: int) -> float:
    return min(_cpu(workload.build(delta=False).compile(checkpointer=KeepsNothing()), workload) for _ in range(rounds))


def written_so_far(url: str) -> int:
    """Bytes that were written so far."""
    if url.startswith("sqlite"):
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(fields["wchar"])
    engine = create_engine(url)
    with engine.connect() as connection:
        found = int(connection.execute(text("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")).scalar_one())
    engine.dispose()
    return found


def _cost(contender: Any, workload: Workload, fresh: Callable[[], str], *, delta: bool, rounds: int) -> Cost:
    found: list[Cost] = []
    for _ in range(rounds):
        url = fresh()
        with contender.open(url) as saver:
            graph = workload.build(delta=delta).compile(checkpointer=saver)
            saver.get_tuple({"configurable": {"thread_id": "nobody"}})  # opens it, and makes its tables
            empty, begin = size(url), written_so_far(url)
            cpu = _cpu(graph, workload)
            if url.startswith("sqlite"):
                size(url)  # what is in the WAL reaches the file
            written = written_so_far(url) - begin
            found.append(Cost(cpu, (size(url) - empty) / 1e6, written / 1e6))
        if not url.startswith("sqlite"):
            drop_database(url)
    return min(found)


def measured(backend: str, fresh: Callable[[], str], wanted: list[Workload], rounds: int) -> list[dict[str, Any]]:
    """What each workload cost whom."""
    rows: list[dict[str, Any]] = []
    for workload in wanted:
        floor = _floor(workload, rounds)
        costs = {
            "ours": _cost(OURS, workload, fresh, delta=False, rounds=rounds),
            "theirs": _cost(OFFICIAL[backend], workload, fresh, delta=False, rounds=rounds),
            "theirs, delta": _cost(OFFICIAL[backend], workload, fresh, delta=True, rounds=rounds),
        }
        row = {"workload": workload.name, "backend": backend, "floor": floor}
        for who, cost in costs.items():
            row[who] = cost._replace(cpu=max(0.0, cost.cpu - floor))._asdict()
        for what, goal in GOALS.items():
            best = min(row["theirs"][what], row["theirs, delta"][what])
            row[f"{what} ratio"] = row["ours"][what] / best if best else None
            row[f"{what} met"] = row["ours"][what] <= goal * best
        rows.append(row)
        print(f"  {backend}: {workload.name}", flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The rows for people: ours / theirs / theirs with delta channels, and an asterisk where a goal is missed."""
    head = ("workload", "database", "null CPU s", *(f"{unit}: ours/theirs/delta" for unit in UNITS.values()))
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        cells = []
        for what in GOALS:
            figures = "/".join(f"{row[who][what]:.2f}" for who in ("ours", "theirs", "theirs, delta"))
            ratio = row[f"{what} ratio"]
            cells.append(f"{figures} ({'-' if ratio is None else f'{ratio:.2f}'}){'' if row[f'{what} met'] else ' *'}")
        lines.append((row["workload"], row["backend"], f"{row['floor']:.2f}", *cells))
    return lines


def markdown(rows: list[dict[str, Any]]) -> str:
    """The rows as a page shows them: ours beside the smaller of theirs, in bold where a goal is missed."""
    lines = ["| workload | database | " + " | ".join(UNITS.values()) + " |", "|---" * (2 + len(UNITS)) + "|"]
    for row in rows:
        cells = [row["workload"], {"sqlite": "SQLite", "postgres": "PostgreSQL"}[row["backend"]]]
        for what in GOALS:
            mine, best = row["ours"][what], min(row["theirs"][what], row["theirs, delta"][what])
            mark = "" if row[f"{what} met"] else "**"
            cells.append(f"{mark}{mine:.2f}{mark} / {best:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def steps(backend: str, contender: Any, fresh: Callable[[], str], *, delta: bool) -> list[float]:
    """KB stored by each turn of the deep agent's files."""
    url, found = fresh(), list[float]()
    with contender.open(url) as saver:
        graph = files_graph(delta=delta).compile(checkpointer=saver)
        for turn in range(21):
            graph.invoke(files_input(turn), {"configurable": {"thread_id": "bench"}})
            found.append(size(url) / 1e3)
    if backend != "sqlite":
        drop_database(url)
    return [after - before for before, after in itertools.pairwise(found)]


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", help="workloads whose name holds this")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument("--draw", action="store_true", help="the bytes of each turn of the deep agent's files")
    parser.add_argument("--read", help="print the figures of such a file as a table of Markdown, and run nothing")
    asked = parser.parse_args()
    if asked.read:
        print(markdown(json.loads(Path(asked.read).read_text())["rows"]))
        return
    wanted = [each for each in WORKLOADS if not asked.only or asked.only in each.name]
    with memory_directory() as directory:
        count = iter(range(10_000))
        fresh = {"sqlite": lambda: sqlite_url(directory, f"w{next(count)}")}
        for backend, variable in SERVERS.items():
            server = os.environ.get(variable)
            if server:
                fresh[backend] = lambda server=server: create_database(server, "bench")
        rows = [row for backend, make in fresh.items() for row in measured(backend, make, wanted, asked.rounds)]
        show(table(rows))
        series: dict[str, list[float]] = {}
        if asked.draw:
            for backend, make in fresh.items():
                for name, contender, delta in (
                    ("ours", OURS, False),
                    (OFFICIAL[backend].name, OFFICIAL[backend], False),
                    (f"{OFFICIAL[backend].name}, delta", OFFICIAL[backend], True),
                ):
                    series[f"{name} ({backend})"] = steps(backend, contender, make, delta=delta)
            (FIGURES / "files.json").write_text(json.dumps(series) + "\n")
            draw()
    if asked.json:
        Path(asked.json).write_text(json.dumps({"rows": rows, "files": series}, indent=1))


if __name__ == "__main__":
    main()
