"""What it costs to come over: a file that `SqliteSaver` made, of the size that is asked for, imported by the command.

    python -m benchmarks.coming_over --megabytes 1000

The file is made by the real saver under real graphs. The import runs in a process of its own, so that its memory and
its time are its own; afterwards every thread's newest state is compared with the old saver's.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions import SessionCheckpointSaver, SessionService

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

_TURNS = 200
_TEXT = "the ferry leaves at nine and the folder with the tickets lies in the blue drawer by the window"
_WORDS = _TEXT.split()
_MEGABYTE = 1_000_000


def _said(turn: int, who: int) -> str:
    return " ".join(_WORDS[(turn * 7 + who * 3 + at * (1 + turn % 5)) % len(_WORDS)] for at in range(70))


def _graph(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(_said(len(state["messages"]), 1), id=f"a{len(state['messages'])}")]}

    built: Any = StateGraph(MessagesState)
    built.add_node("answer", answer)
    return built.add_edge(START, "answer").compile(checkpointer=saver)


def _at(thread: int) -> RunnableConfig:
    return {"configurable": {"thread_id": f"thread-{thread}"}, "metadata": {"user_id": ("ada", "grace")[thread % 2]}}


def make(path: Path, size: int) -> int:
    """Fill a file through the saver that it is of; how many threads it holds."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA synchronous=OFF")
    saver = SqliteSaver(connection)
    graph, thread = _graph(saver), 0
    while path.exists() is False or path.stat().st_size < size:
        for turn in range(_TURNS):
            graph.invoke({"messages": [HumanMessage(_said(turn, 0), id=f"h{turn}")]}, _at(thread))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        thread += 1
    connection.close()
    return thread


def bring(source: Path, target: Path) -> dict[str, Any]:
    """Import a file by the command, and what that took."""
    command = [sys.executable, "-c", "from langchain_sessions.cli.entry import main; main()"]
    options = ["--url", f"sqlite:///{target}", "--user-from", "metadata.user_id", "--json"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    told = subprocess.run(  # noqa: S603 - our own command
        [*command, "import", str(source), *options], stdout=subprocess.PIPE, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads(told.stdout)
    return {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_megabytes": round(after.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / _MEGABYTE),
        "bytes_before": source.stat().st_size,
        "bytes_after": sum(each.stat().st_size for each in target.parent.glob(f"{target.name}*")),
        **{name: report[name] for name in ("threads", "checkpoints", "messages")},
    }


def same(source: Path, target: Path, threads: int) -> int:
    """How many threads' newest states are what they were."""
    connection = sqlite3.connect(source, check_same_thread=False)
    old = _graph(SqliteSaver(connection))
    with SessionService(f"sqlite:///{target}") as sessions:
        new = _graph(SessionCheckpointSaver(sessions, owner="ignore"))
        found = sum(old.get_state(_at(each)).values == new.get_state(_at(each)).values for each in range(threads))
    connection.close()
    return found


def main() -> None:
    """Make, import, compare, print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--megabytes", type=int, default=1000)
    size = asked.parse_args().megabytes * _MEGABYTE
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "old.db", Path(folder) / "new.db"
        threads = make(source, size)
        print(json.dumps({**bring(source, target), "same": same(source, target, threads)}, indent=2))


if __name__ == "__main__":
    main()
