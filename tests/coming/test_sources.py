"""Sources that are locked, of another release, ours, or too large to be read for a prediction."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from sqlalchemy import create_engine, text

from langchain_sessions import InvalidInputError, SessionService, import_threads
from langchain_sessions._importing import prediction, savers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langgraph.checkpoint.base import BaseCheckpointSaver

REDUCE: Any = _messages_delta_reducer


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(REDUCE, snapshot_frequency=4)]


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionService]:
    with SessionService(f"sqlite:///{tmp_path / 'here.db'}") as service:
        yield service


def talk(saver: BaseCheckpointSaver[Any], threads: int, turns: int, state: Any = MessagesState) -> None:
    builder: Any = StateGraph(state)
    said = builder.add_node("a", lambda _: {"messages": [AIMessage("good day " * 20)]})
    graph = said.add_edge(START, "a").compile(checkpointer=saver)
    for n in range(threads):
        for _ in range(turns):
            config: Any = {"configurable": {"thread_id": f"t{n}"}}
            graph.invoke({"messages": [HumanMessage("hello there " * 10)]}, config)


def test_a_locked_source_is_told_so(sessions: SessionService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "theirs.db"
    conn = sqlite3.connect(path, check_same_thread=False)
    talk(SqliteSaver(conn), 1, 1)
    conn.execute("PRAGMA journal_mode = DELETE")
    conn.execute("BEGIN EXCLUSIVE")
    # Five seconds are what a user waits; a test need not.
    real = create_engine
    monkeypatch.setattr(
        "langchain_sessions._importing.opening.create_engine",
        lambda url, **options: real(url, connect_args={"timeout": 0.1}, **options),
    )
    with pytest.raises(InvalidInputError, match="another process has locked it"):
        import_threads(sessions, path)
    conn.rollback()
    assert import_threads(sessions, path).threads == 1
    conn.close()


def test_layouts_of_other_releases_are_named(sessions: SessionService, tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "old.db")
    old.execute("CREATE TABLE checkpoints (thread_id, thread_ts, parent_ts, checkpoint, metadata)")
    old.execute("CREATE TABLE writes (thread_id, thread_ts, task_id, idx, channel, type, value)")
    old.close()
    with pytest.raises(InvalidInputError, match=r"checkpoints is of a release that is not known here: .*checkpoint_id"):
        import_threads(sessions, tmp_path / "old.db")


def test_a_database_of_ours_is_no_source(sessions: SessionService, tmp_path: Path) -> None:
    for prefix in ("", "mine_"):
        url = f"sqlite:///{tmp_path / 'ours.db'}"
        with SessionService(url, table_prefix=prefix) as ours:
            ours.create("s1")
        for _ in range(2):
            with pytest.raises(InvalidInputError, match="langchain-sessions itself: `export`"):
                import_threads(sessions, url)
            engine = create_engine(url)
            with engine.begin() as connection:  # a newer one is told the same
                connection.execute(text(f"INSERT OR REPLACE INTO {prefix}schema_versions VALUES (99, 0)"))
            engine.dispose()
        (tmp_path / "ours.db").unlink()


@pytest.mark.parametrize("state", [MessagesState, Delta])
def test_a_prediction_reads_few_checkpoints_and_is_near(
    sessions: SessionService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Any
) -> None:
    path = tmp_path / "theirs.db"
    conn = sqlite3.connect(path, check_same_thread=False)
    talk(SqliteSaver(conn), 3, 50, state)
    read: list[Any] = []
    one = savers.SqliteThreads.checkpoint

    def counted(*given: Any) -> Any:
        read.append(given)
        return one(*given)

    monkeypatch.setattr(savers.SqliteThreads, "checkpoint", counted)
    told = import_threads(sessions, path, dry_run=True)
    assert len(read) < 3 * 2 * 12 + 10
    assert not sessions.list_sessions().items
    done = import_threads(sessions, path)
    conn.close()
    assert (told.threads, told.checkpoints, told.problems) == (3, done.checkpoints, ())
    assert done.bytes_after is not None
    assert told.bytes_after is not None
    assert 0.7 < told.messages / done.messages < 1.4
    assert 0.6 < told.bytes_after / done.bytes_after < 1.7


def test_histories_are_predicted_from_a_sample(sessions: SessionService, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)"))
        row = '{"type": "human", "data": {"content": "what was said, and then more of it", "type": "human"}}'
        rows = [{"session": f"s{n % 4}", "message": row} for n in range(4000)]
        connection.execute(text("INSERT INTO message_store (session_id, message) VALUES (:session, :message)"), rows)
    engine.dispose()
    told = import_threads(sessions, url, dry_run=True)
    assert 4 * prediction.MOST < 4000
    assert (told.threads, told.messages) == (4, 4000)
    done = import_threads(sessions, url)
    assert (done.threads, done.messages) == (4, 4000)
    assert told.bytes_after is not None
    assert done.bytes_after is not None
    assert 0.6 < told.bytes_after / done.bytes_after < 1.7


def test_memory_is_predicted_too(sessions: SessionService) -> None:
    saver = InMemorySaver()
    talk(saver, 15, 12)
    told = import_threads(sessions, saver, dry_run=True)
    assert (told.threads, told.checkpoints) == (15, 15 * 12 * 3)
    assert 0.7 < told.messages / (15 * 24) < 1.4
