"""Every name in generated SQL is quoted: what is a word of SQL differs between databases (TiDB refuses `until`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState, StateGraph
from sqlalchemy import create_engine, event

from langchain_sessions import Compaction, SessionCheckpointSaver, SessionService, SlidingWindow
from langchain_sessions._sql.tables.schema import build_tables, schema_sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection
    from pathlib import Path

_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|'(?:[^']|'')*'")
# Words of SQL itself, some of which are names of ours, too.
_SQL = {"data", "key", "text", "value", "values", "version"}


def names() -> set[str]:
    metadata = build_tables("t_").metadata
    found = {column.name for table in metadata.tables.values() for column in table.columns}
    return {*found, *metadata.tables} - _SQL


def bare(statement: str, known: Collection[str]) -> set[str]:
    """The names of ours that stand unquoted in a statement."""
    return set(re.findall(r"[a-z_]+", _QUOTED.sub(" ", statement))) & set(known)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "mariadb"])
def test_names_in_ddl_are_quoted(dialect: str) -> None:
    assert bare(schema_sql(dialect, "t_"), names()) == set()


def test_names_in_statements_are_quoted(tmp_path: Path) -> None:
    """Of all that a session and a thread do, as the driver gets it."""
    engine = create_engine(f"sqlite:///{tmp_path}/names.db")
    seen: set[str] = set()
    event.listen(engine, "connect", lambda driver, _: _trace(driver, seen))
    service = SessionService(engine, table_prefix="t_")
    ada = service.as_user("ada")
    ada.create("s", state={"user:k": 1})
    ada.append("s", [HumanMessage("hi", id="a"), AIMessage("ho", id="b")], state_delta={"app:k": 1})
    for number in range(12):
        ada.append("s", [HumanMessage(f"q{number}"), AIMessage(f"a{number}")], branch=None, invocation_id=f"r{number}")
    ada.compact("s", Compaction(when=None, how=SlidingWindow(2)))
    ada.rewind("s", to_seq=20)
    ada.fork("s", at_seq=6)
    assert ada.search("q3", session_id="s").items
    ada.list_sessions(limit=1)
    saver = SessionCheckpointSaver(service)
    graph = StateGraph(MessagesState).add_node("n", lambda state: {"messages": [AIMessage("x")]})
    compiled = graph.add_edge("__start__", "n").compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    for _ in range(2):
        compiled.invoke({"messages": [HumanMessage("y")]}, config)  # type: ignore[call-overload]
    assert [*compiled.get_state_history(config)]  # type: ignore[arg-type]
    saver.delete_thread("t")
    ada.delete("s")
    service.purge_expired()
    ada.delete_user()
    engine.dispose()
    known = names()
    assert len(seen) > 40
    assert (
        sorted({(statement[:200], str(bare(statement, known))) for statement in seen if bare(statement, known)}) == []
    )


def _trace(driver: sqlite3.Connection, seen: set[str]) -> None:
    catalogue = ("sqlite_master", "pragma_")
    driver.set_trace_callback(lambda said: seen.add(said) if not any(each in said for each in catalogue) else None)
