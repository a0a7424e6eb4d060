"""Issue 17, items 10 and 11: each letter of the list that has no home elsewhere."""

from __future__ import annotations

import contextlib
import copy
import json
import sqlite3
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import create_engine

from langchain_sessions import (
    ANY_BRANCH,
    Compaction,
    EventFilter,
    EventKind,
    InMemoryStore,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionService,
    TokenCount,
    TurnCount,
    TurnWindow,
    create_conversation_search_tool,
)
from langchain_sessions.errors import (
    CorruptRowError,
    InvalidInputError,
    ServiceClosedError,
    SessionsError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

METHODS: dict[str, Callable[[SessionService], Any]] = {
    "append": lambda sessions: sessions.append("x", HumanMessage("more")),
    "compact": lambda sessions: sessions.compact("x", Compaction(TurnCount(1), TurnWindow(max_turns=1)), force=True),
    "context": lambda sessions: sessions.context("x"),
    "count": lambda sessions: sessions.count("x"),
    "events": lambda sessions: sessions.events("x"),
    "fork": lambda sessions: sessions.fork("x"),
    "get": lambda sessions: sessions.get("x"),
    "list_sessions": lambda sessions: sessions.list_sessions(),
    "messages": lambda sessions: sessions.messages("x"),
    "rewind": lambda sessions: sessions.rewind("x", to_seq=1),
    "search": lambda sessions: sessions.search("hello", session_id="x"),
    "turns": lambda sessions: sessions.turns("x"),
    "verify": lambda sessions: sessions.verify("x"),
    "delete": lambda sessions: sessions.delete("x"),
}


def written(path: Path) -> str:
    """A database with a session `x`, and another one beside it."""
    url = f"sqlite:///{path}"
    with SessionService(url) as sessions:
        for name in ("x", "other"):
            sessions.create(session_id=name)
            sessions.append(name, [HumanMessage("hello"), AIMessage("hi"), HumanMessage("again"), AIMessage("yes")])
    return url


def tampered(path: Path, sql: str, *values: Any) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(sql, values)
    connection.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/chat.db"])
def test_item_11a_a_closed_service_refuses_every_call(url: str, tmp_path: Path) -> None:
    sessions = SessionService(url.format(tmp_path))
    sessions.create(session_id="x")
    view = sessions.as_user("ada")
    sessions.close()
    for act in METHODS.values():
        with pytest.raises(ServiceClosedError):
            act(sessions)
    with pytest.raises(ServiceClosedError):
        view.create()
    with pytest.raises(ServiceClosedError):
        SessionCheckpointSaver(sessions).get_tuple({"configurable": {"thread_id": "x"}})


def test_item_11c_what_is_no_compaction_is_refused_at_once() -> None:
    wrong: Any = TokenCount(10)
    swapped: tuple[Any, Any] = (TurnWindow(max_turns=2), TurnCount(2))
    url: Any = "sqlite://"
    with SessionService("sqlite://") as sessions:
        for make in (
            lambda: SessionMemoryAdvisor(sessions, compaction=wrong),
            lambda: Compaction(*swapped),
            lambda: SessionMemoryAdvisor(url),
            lambda: SessionCheckpointSaver(url),
        ):
            with pytest.raises(InvalidInputError, match=r"Compaction\(|SessionService\("):
                make()


def test_item_11d_a_record_of_unknown_kind_is_kept_and_returned(tmp_path: Path) -> None:
    url = written(tmp_path / "chat.db")
    with SessionService(url) as sessions:
        sessions.end("x")
    tampered(tmp_path / "chat.db", "UPDATE events SET kind = 77 WHERE seq = 5")
    with SessionService(url) as sessions:
        assert [event.kind for event in sessions.events("x")][4:] == [EventKind.UNKNOWN]
        assert len(sessions.messages("x")) == 4


@pytest.mark.parametrize("position", [10**15, 2**63 - 1, -5])
@pytest.mark.parametrize("name", sorted({*METHODS} - {"get", "list_sessions", "search", "delete"}))
@pytest.mark.timeout(60)
def test_item_11e_an_absurd_position_ends_in_bounded_time(tmp_path: Path, name: str, position: int) -> None:
    url = written(tmp_path / "chat.db")
    tampered(tmp_path / "chat.db", "UPDATE sessions SET last_seq = ? WHERE id = 'x'", position)
    refused = pytest.raises(CorruptRowError, match="'x'") if name in ("append", "fork", "rewind") else None
    with SessionService(url) as sessions:
        with refused or contextlib.suppress(CorruptRowError):
            METHODS[name](sessions)
        assert len(sessions.messages("other")) == 4


def test_item_11e_a_damaged_ledger_is_a_corrupt_row_for_compact_too(tmp_path: Path) -> None:
    url = written(tmp_path / "chat.db")
    tampered(tmp_path / "chat.db", "UPDATE sessions SET ledger = 'garbage' WHERE id = 'x'")
    with SessionService(url) as sessions, pytest.raises(CorruptRowError):
        METHODS["compact"](sessions)


def test_item_11g_the_filter_that_is_merged_in_wins() -> None:
    both = EventFilter(match="all", keywords=("a",)), EventFilter(match="any", keywords=("b",))
    assert both[0].merge(both[1]).match == "any"
    assert both[1].merge(both[0]).match == "all"


def test_item_11i_a_time_to_live_begins_when_the_session_is_there() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with SessionService("sqlite://", clock=lambda: now) as sessions:
        session = sessions.create(time_to_live=timedelta(hours=1))
    assert session.expires_at == session.created_at + timedelta(hours=1)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite://chat.db", "sqlite:///chat.db"),
        ("postgres://ada:secret@localhost/chat", "postgresql://"),
        ("postgresql+psycopg://ada:secret@127.0.0.1:1/chat", "127.0.0.1:1"),
    ],
)
def test_item_11j_a_url_that_cannot_be_used_says_what_was_meant(url: str, named: str) -> None:
    with pytest.raises((InvalidInputError, StoreUnavailableError, SessionsError)) as caught:
        SessionService(url, create_schema=False).create()
    assert named in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
def test_item_11k_what_is_removed_of_a_user_is_told_and_what_the_engine_keeps(
    backend: str, database_url: str, table_prefix: str
) -> None:
    database: Any = InMemoryStore() if backend == "memory" else database_url
    with SessionService(database, table_prefix=table_prefix, create_schema=True) as sessions:
        ada = sessions.as_user("ada")
        ada.create("s1", state={"user:lang": "de", "app:theme": "dark"})
        ada.append("s1", [HumanMessage("hello"), AIMessage("hi")])
        gone = ada.delete_user()
        assert (gone, gone.events, gone.state_keys) == (1, 2, 1)
        assert copy.copy(gone).remainders == gone.remainders
        statements = [statement for remainder in gone.remainders for statement in remainder.clear]
        assert bool(gone.remainders) == (backend != "memory")
        if backend == "sqlite":
            assert "VACUUM" in statements
        if backend in ("postgres", "mariadb"):
            assert any(f"{table_prefix}events" in statement for statement in statements)
            _run_all(database_url, [each for each in statements if table_prefix in each])


def _run_all(url: str, statements: list[str]) -> None:
    """They are statements that this server takes."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement).close()
    engine.dispose()


def test_item_11l_sessions_scroll_both_ways() -> None:
    with SessionService("sqlite://") as sessions:
        for number in range(7):
            sessions.create(session_id=f"s{number}")
        first = sessions.list_sessions(limit=3)
        second = sessions.list_sessions(limit=3, cursor=first.next_cursor)
        back = sessions.list_sessions(limit=3, cursor=second.previous_cursor)
    assert [each.id for each in back] == [each.id for each in first]
    assert not {each.id for each in first} & {each.id for each in second}


def test_item_11p_state_of_a_user_and_an_app_needs_no_session() -> None:
    """On every store and both faces: `StateSuite.test_shared_state_needs_no_session`."""
    with SessionService("sqlite://") as sessions:
        ada = sessions.as_user("ada")
        ada.update_shared_state({"user:lang": "de", "app:theme": "dark"})
        assert ada.shared_state() == {"user:lang": "de", "app:theme": "dark"}
        assert sessions.as_user("grace").shared_state() == {"app:theme": "dark"}


def test_item_11q_a_thread_id_that_is_too_long_is_refused_before_a_node_runs() -> None:
    ran: list[int] = []

    def work(state: MessagesState) -> dict[str, Any]:
        ran.append(len(state["messages"]))
        return {}

    with SessionService("sqlite://") as sessions:
        builder = StateGraph(MessagesState)
        builder.add_node("work", work)
        builder.add_edge(START, "work")
        graph: Any = builder.compile(checkpointer=SessionCheckpointSaver(sessions))
        with pytest.raises(InvalidInputError, match=r"thread_id.*255"):
            graph.invoke({"messages": [HumanMessage("x")]}, {"configurable": {"thread_id": "t" * 256}})
    assert ran == []


def test_item_10_the_search_tool_sees_what_its_agent_sees() -> None:
    config: Any = {"configurable": {"thread_id": "s"}}
    with SessionService("sqlite://") as sessions:
        sessions.create(session_id="s")
        sessions.append("s", HumanMessage("a report is due"))
        for worker in ("orch.one", "orch.two"):
            sessions.append("s", AIMessage(f"the report of {worker}"), branch=worker)
        found = {
            branch: json.loads(
                create_conversation_search_tool(sessions, branch=branch).invoke({"query": "report"}, config)
            )
            for branch in (None, "orch.one", ANY_BRANCH)
        }
        literal = create_conversation_search_tool(sessions, mode="literal", branch="orch.two")
        (only,) = json.loads(literal.invoke({"query": "REPORT of orch"}, config))["results"]
        wrong: Any = "fuzzy"
        with pytest.raises(InvalidInputError, match="mode"):
            create_conversation_search_tool(sessions, mode=wrong)
    texts = {branch: [result["text"] for result in answer["results"]] for branch, answer in found.items()}
    assert texts[None] == ["a report is due"]
    assert texts["orch.one"] == ["a report is due", "the report of orch.one"]
    assert len(texts[ANY_BRANCH]) == 3
    assert {result["why"] for answer in found.values() for result in answer["results"]} <= {"match", "context"}
    assert only["text"].endswith("orch.two")
