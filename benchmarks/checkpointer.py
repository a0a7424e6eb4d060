"""The checkpointer beside LangGraph's own in one process: a chat of 2 x 400 characters per turn.

`python -m benchmarks checkpointer`; servers are taken from the environment of the tests, as `make bench` sets it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from benchmarks.checkpointer_cost import cost
from benchmarks.checkpointer_disk import disk, round_trips
from benchmarks.checkpointer_graphs import sqlite_url
from benchmarks.checkpointer_growth import SHORT, growth
from benchmarks.measure import memory_directory, show
from tests.servers.databases import create_database, drop_database


def main() -> None:
    """Print the tables."""
    with memory_directory() as directory, ExitStack() as stack:

        def on_disk(label: str) -> str:
            return sqlite_url(directory, label.replace(" ", "-"))

        sizes = growth("sqlite", on_disk)
        waits = disk(directory)
        for backend in ("postgres", "mariadb"):
            if url := os.environ.get(f"LANGCHAIN_SESSIONS_TEST_{backend.upper()}"):

                def on_server(label: str, url: str = url) -> str:
                    del label
                    made = create_database(url, "bench")
                    stack.callback(drop_database, made)
                    return made

                sizes += growth(backend, on_server)
                waits += round_trips(backend, url, on_server)
        show([("bytes per message", f"at {SHORT} turns", "later", "goal ≤"), *sizes])
        print()
        show([("disk and wire", "here", "goal ≤"), *waits])
        print()
        show([("CPU and reads, SQLite, 1,000 turns", "here", "floor", "ratio", "goal ≤"), *cost(directory)])


if __name__ == "__main__":
    main()
