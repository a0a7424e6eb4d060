# ruff: noqa: ANN401, S311 - graphs and savers are of LangGraph, and the same chat is played each time
"""Where the bytes of a chat are: what each table and index takes per message, on every database that is there.

A chat of 2 x 400 characters of a real vocabulary per turn over `MessagesState`, empty tables included:

    python -m tests.servers run -- python -m benchmarks.room --turns 1000
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState
from sqlalchemy import create_engine, make_url
from sqlalchemy import text as sql

from benchmarks.checkpointer_graphs import CONFIG, OURS, size, sqlite_url
from benchmarks.measure import memory_directory, show
from benchmarks.workload_graphs import one_node, text
from tests.servers.databases import connection, create_database, drop_database

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS = {"postgres": "LANGCHAIN_SESSIONS_TEST_POSTGRES", "mariadb": "LANGCHAIN_SESSIONS_TEST_MARIADB"}
_PARTS = {
    "sqlite": "SELECT name, sum(pgsize) FROM dbstat GROUP BY name",
    "postgresql": "SELECT relname, pg_relation_size(oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0)"
    " FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')",
    "mysql": "SELECT concat(i.table_name, ' ', i.index_name), stat_value * IF(row_format = 'Compressed', 8192, 16384)"
    " FROM mysql.innodb_index_stats i JOIN information_schema.tables t"
    " ON t.table_schema = database() AND t.table_name = i.table_name"
    " WHERE database_name = database() AND stat_name = 'size'",
}


def chat(saver: Any, turns: int) -> None:
    """A chat whose model answers at once, in words."""
    draw = random.Random(3)

    def answer(state: Any) -> Any:
        del state
        return {"messages": [AIMessage(text(400, draw))]}

    graph = one_node(MessagesState.__annotations__, answer).compile(checkpointer=saver)
    for _ in range(turns):
        graph.invoke({"messages": [HumanMessage(text(400, draw))]}, CONFIG)


def parts(url: str) -> Iterator[tuple[str, int]]:
    """What each table and index takes."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(str(make_url(url).database))) as connection:
            try:
                yield from connection.execute(_PARTS["sqlite"]).fetchall()
            except sqlite3.OperationalError:
                return  # built without the virtual table that tells
        return
    engine = create_engine(url)
    with engine.connect() as connection:
        for name, taken in connection.execute(sql(_PARTS[engine.dialect.name])):
            yield str(name), int(taken)
    engine.dispose()


def measure(url: str, turns: int, least: float) -> list[tuple[str, ...]]:
    """The rows of a database."""
    with OURS.open(url) as saver:
        chat(saver, turns)
    taken = size(url) / (2 * turns)
    rows = [(make_url(url).get_backend_name(), "all", f"{taken:,.0f}")]
    found = sorted(((count / (2 * turns), name) for name, count in parts(url)), reverse=True)
    rows += [("", name, f"{count:,.0f}") for count, name in found if count >= least]
    if url.startswith("postgresql"):
        with connection(url) as conn:
            conn.execute(sql("VACUUM FULL"))
        rows.insert(1, ("", "all, after VACUUM FULL", f"{size(url) / (2 * turns):,.0f}"))
    rows.append(("", "the others", f"{sum(count for count, _ in found if count < least):,.0f}"))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--least", type=float, default=10, help="bytes per message below which a part is not named")
    given = parser.parse_args()
    rows: list[tuple[str, ...]] = [("database", "table or index", "bytes per message")]
    with memory_directory() as directory:
        rows += measure(sqlite_url(directory, "room"), given.turns, given.least)
        for variable in SERVERS.values():
            if os.environ.get(variable):
                url = create_database(os.environ[variable], "room")
                rows += measure(url, given.turns, given.least)
                drop_database(url)
    show(rows)


if __name__ == "__main__":
    main()
