"""Sources that hold more than one library's tables, or are damaged here and there: what can be read is taken over."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions import SessionService, import_threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionService]:
    with SessionService(f"sqlite:///{tmp_path / 'here.db'}") as service:
        yield service


def human(said: str) -> str:
    return json.dumps({"type": "human", "data": {"content": said, "type": "human"}})


def table(path: Path, name: str, *rows: tuple[str, Any]) -> None:
    conn = sqlite3.connect(path)
    with conn:
        conn.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)")
        conn.executemany(f"INSERT INTO {name} (session_id, message) VALUES (?, ?)", rows)
    conn.close()


def said(sessions: SessionService, name: str) -> list[str]:
    return [str(event.message.text) for event in sessions.events(name) if event.message is not None]


def test_all_tables_of_a_database_come_over(sessions: SessionService, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    conn = sqlite3.connect(path, check_same_thread=False)
    builder: Any = StateGraph(MessagesState)
    node = builder.add_node("a", lambda _: {"messages": [AIMessage("good day")]})
    graph = node.add_edge(START, "a").compile(checkpointer=SqliteSaver(conn))
    graph.invoke({"messages": [HumanMessage("hello")]}, {"configurable": {"thread_id": "t1"}})
    conn.close()
    table(path, "a_chat", ("a1", human("one")), ("both", human("first")))
    table(path, "b_chat", ("b1", human("two")), ("both", human("second")), ("t1", human("third")))
    told = import_threads(sessions, path, dry_run=True)
    report = import_threads(sessions, path)
    assert (report.threads, report.messages, report.unowned, report.problem_count) == (4, 5, 4, 2)
    # A prediction counts what is there, also what an id that is taken leaves out.
    assert (told.threads, told.messages, told.checkpoints) == (6, 7, report.checkpoints)
    assert [said(sessions, name) for name in ("t1", "a1", "b1", "both")] == [
        ["hello", "good day"],
        ["one"],
        ["two"],
        ["first"],
    ]
    assert {(each.thread, each.problem.partition(";")[0]) for each in report.problems} == {
        ("both", "the table a_chat has a conversation of this id"),
        ("t1", "the table checkpoints has a conversation of this id"),
    }
    again = import_threads(sessions, path)
    assert (again.unchanged, again.messages, again.problem_count) == (4, 0, 2)


def test_rows_behind_a_bad_one_come_over(sessions: SessionService, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    rows: list[tuple[str, Any]] = [("s", human(f"row {n}")) for n in range(1, 11)]
    rows[3] = ("s", "{broken")
    table(path, "message_store", *rows)
    with sqlite3.connect(path) as conn:  # text that is not UTF-8 fails the statement, not only the row
        conn.execute("UPDATE message_store SET message = CAST(x'ff22' AS TEXT) WHERE id = 7")
    conn.close()
    report = import_threads(sessions, path)
    assert (report.threads, report.unchanged, report.messages) == (1, 0, 8)
    assert [each.problem.partition(":")[0] for each in report.problems] == ["row 4", "row 7"]
    assert said(sessions, "s") == [f"row {n}" for n in (1, 2, 3, 5, 6, 8, 9, 10)]
    again = import_threads(sessions, path)
    assert (again.threads, again.messages, again.problem_count) == (1, 0, 2)


def test_lines_behind_a_bad_one_come_over(sessions: SessionService, tmp_path: Path) -> None:
    path = tmp_path / "loose.jsonl"
    lines = [json.dumps({"role": "user", "content": f"line {n}"}).encode() for n in range(1, 11)]
    lines[3], lines[5], lines[6] = b'{"role": "user", "content": "\xff"}', b"[" * 100_000, b'{"role": 5}'
    path.write_bytes(b"\n".join(lines))
    report = import_threads(sessions, path)
    assert (report.threads, report.messages) == (1, 7)
    assert [each.problem.partition(":")[0] for each in report.problems] == [
        "line 4 is not UTF-8",
        "line 6 is not JSON",
        "line 7",
    ]
    first = tmp_path / "first.jsonl"
    first.write_bytes(b'{"role": "user", "content": "\xff"}\n' + lines[0])
    assert import_threads(sessions, first).messages == 1
    whole = tmp_path / "whole.json"
    whole.write_bytes(b'[{"role": "user", "content": "\xff"}, ' + lines[0] + b"]")
    report = import_threads(sessions, whole)
    assert (report.messages, [each.problem for each in report.problems]) == (1, ["message 1 is not UTF-8"])


def test_loose_lines_are_not_held_in_memory(sessions: SessionService, tmp_path: Path) -> None:
    path = tmp_path / "loose.jsonl"
    chat = {"id": "named", "messages": [{"role": "user", "content": "among them"}]}
    loose = [{"role": "user", "content": f"line {n}"} for n in range(3)]
    path.write_text("\n".join(json.dumps(each) for each in (*loose[:2], chat, loose[2])), encoding="utf-8")
    report = import_threads(sessions, path)
    assert (report.threads, report.messages, report.problem_count) == (2, 4, 0)
    assert [event.id for event in sessions.events("loose")] == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("text", "thread", "problem"),
    [
        ('{"messages": [{"role": "user", "content": "hello"}], "id": "s", "metadata": "x"}', "s", "its metadata is no"),
        ('{"messages": [{"role": "user", "content": "hello"}], "id": "s", "metadata": [1]}', "s", "its metadata is no"),
        ('{"langchain-sessions": 1, "session": [1]}', "", "a line begins a session without an id"),
        ('{"langchain-sessions": 1, "session": {"id": "s", "metadata": 5, "title": 5}}', "s", "its metadata is no"),
        ("[1, 2]", "odd", "message 1: it is no message"),
        ('{"a": [null]}', "a", "message 1: it is no message"),
        ('{"a": 1}', "a", "it is no list of messages"),
        ("[" * 100_000, "odd", "the file is not JSON from message 1 on"),
    ],
)
def test_odd_files_are_problems(sessions: SessionService, tmp_path: Path, text: str, thread: str, problem: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    report = import_threads(sessions, path)
    assert report.problem_count
    assert report.problems[0].thread == thread
    assert report.problems[0].problem.startswith(problem)
    assert report.messages == ("hello" in text)


def test_whose_a_session_is_that_stands_in_the_way(sessions: SessionService, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "hello"}], "id": "s"}', encoding="utf-8")
    assert import_threads(sessions, path, user_from="metadata.usr_id").unowned == 1
    [problem] = import_threads(sessions, path, user="ada").problems
    assert "nobody's: import it without a user" in problem.problem
    sessions.delete("s")
    assert import_threads(sessions, path, user="ada").unowned == 0
    [problem] = import_threads(sessions, path).problems
    assert "somebody else's" in problem.problem


def adk(path: Path, actions: Any) -> None:
    """A database of ADK's old schema, whose actions were pickled."""
    conn = sqlite3.connect(path)
    with conn:
        conn.execute("CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT)")
        conn.execute("CREATE TABLE app_states (app_name TEXT, state TEXT)")
        conn.execute("CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT)")
        conn.execute(
            "CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT,"
            " author TEXT, actions BLOB, branch TEXT, timestamp TEXT, content TEXT, error_code TEXT,"
            " error_message TEXT)"
        )
        conn.execute("INSERT INTO sessions VALUES ('app', 'ada', 's', '{\"room\": \"blue\"}')")
        contents = [json.dumps({"role": "user", "parts": [{"text": f"said {n}"}]}) for n in range(3)]
        for at, content in enumerate([*contents, '{"parts": [5]}', None]):
            error = ("429", "too many") if content is None else (None, None)
            row = (f"e{at}", actions, f"2025-01-01 10:00:0{at}", content, *error)
            conn.execute(
                "INSERT INTO events VALUES (?, 'app', 'ada', 's', 'run', 'user', ?, NULL, ?, ?, ?, ?)",
                row,
            )
    conn.close()


@pytest.mark.parametrize("actions", [None, b"\x80\x04K\x01.", '{"state_delta": {"at": 1}}'])
def test_the_old_schema_of_adk(sessions: SessionService, tmp_path: Path, actions: Any) -> None:
    adk(tmp_path / "adk.db", actions)
    report = import_threads(sessions, tmp_path / "adk.db")
    problems = [each.problem.partition(",")[0] for each in report.problems]
    pickled = ["its actions are pickled"] if isinstance(actions, bytes) else []
    assert problems == ["event e3: it is no event of this form", *pickled]
    assert said(sessions, "s") == ["said 0", "said 1", "said 2"]
    events = list(sessions.events("s"))
    assert {event.invocation_id for event in events[:4]} == {"run"}
    assert [(event.error_code, event.error_message) for event in events if event.error_code] == [("429", "too many")]
    assert sessions.state("s") == {"room": "blue", **({"at": 1} if isinstance(actions, str) else {})}


def test_batches_of_adk_are_in_order(sessions: SessionService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("langchain_sessions._importing.histories._BATCH", 2)
    adk(tmp_path / "adk.db", None)
    import_threads(sessions, tmp_path / "adk.db")
    assert said(sessions, "s") == ["said 0", "said 1", "said 2"]
