"""Coming over and going out by the command, and what it says to people and to programs."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from typer.testing import CliRunner, Result

from langchain_sessions import SessionService, __version__
from langchain_sessions.cli._commands import app

if TYPE_CHECKING:
    from pathlib import Path

FAMILY = "👩‍👩‍👧"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with a long conversation."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with SessionService(url) as sessions:
        ada = sessions.as_user("ada")
        ada.create("s1", title="Lisbon")
        for n in range(4):
            said = [HumanMessage(f"question {n} \x1b[31m{FAMILY}"), AIMessage(f"answer {n} " + "word " * 30)]
            ada.append("s1", said)
        sessions.create("s2")
    return url


def run(*words: str, width: int = 120) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": str(width), "TERM": "dumb"})


def theirs(path: Path) -> str:
    """A database of the official saver."""
    conn = sqlite3.connect(path, check_same_thread=False)
    builder: Any = StateGraph(MessagesState)
    answer = builder.add_node("a", lambda _: {"messages": [AIMessage("good day")]})
    graph: Any = answer.add_edge(START, "a").compile(checkpointer=SqliteSaver(conn))
    for name in ("t1", "t2"):
        config = {"configurable": {"thread_id": name}, "metadata": {"user_id": f"user of {name}"}}
        graph.invoke({"messages": [HumanMessage("hello")]}, config)
    conn.close()
    return str(path)


def test_one_command(tmp_path: Path) -> None:
    source, url = theirs(tmp_path / "theirs.db"), f"sqlite:///{tmp_path / 'new.db'}"
    predicted = run("import", source, "--url", url, "--dry-run")
    assert (predicted.exit_code, "about 2 threads" in predicted.output) == (0, True), predicted.output
    assert not (tmp_path / "new.db").exists()
    done = run("import", source, "--url", url, "--user-from", "metadata.user_id")
    assert (done.exit_code, "2 threads (0 unchanged)" in done.output, "4 messages" in done.output) == (0, True, True)
    assert (
        "2 threads (2 unchanged), 0 checkpoints, 0 messages"
        in run("import", source, "--url", url, "--user-from", "metadata.user_id").output
    )
    listed = json.loads(run("list", "--json", "--url", url).output)
    assert {(each["id"], each["user_id"]) for each in listed} == {("t1", "user of t1"), ("t2", "user of t2")}
    assert "good day" in run("show", "t1", "--url", url).output


def test_what_is_left_out_is_told_and_counts(tmp_path: Path) -> None:
    source, url = theirs(tmp_path / "theirs.db"), f"sqlite:///{tmp_path / 'new.db'}"
    with sqlite3.connect(source) as conn:
        conn.execute("UPDATE checkpoints SET type = 'pickle' WHERE thread_id = 't1'")
    conn.close()
    done = run("--url", url, "import", source)
    assert done.exit_code == 3
    assert "not imported: t1 " in done.output
    assert "pickle" in done.output


def test_export_and_import_are_the_way_back(url: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    assert run("export", "--url", url, "--to", str(file)).exit_code == 0
    assert run("export", "--url", url, "--to", str(file)).exit_code == 1
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert run("import", str(file), "--url", other).exit_code == 0
    shown = [run("show", "s1", "--jsonl", "--url", each).output for each in (url, other)]
    assert shown[0] == shown[1]
    assert run("export", "s1", "--format", "markdown", "--url", url).output.startswith("# Lisbon\n")
    for words in (["export", "none"], ["export", "--format", "csv"]):
        refused = run(*words, "--url", url)
        assert (refused.exit_code, refused.output.count("\n")) == (1, 1), refused.output


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mistyped.db'}"
    for words in (["list"], ["show", "s"], ["stats"], ["doctor"], ["export"], ["tail", "s"], ["migrate", "--plan"]):
        refused = run("--url", url, *words)
        assert (refused.exit_code, "no such file" in refused.output) == (1, True), refused.output
    missing = run("import", str(tmp_path / "none.db"), "--url", f"sqlite:///{tmp_path / 'x.db'}", "--dry-run")
    assert (missing.exit_code, "no such file" in missing.output) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_compact_archives_the_older_turns(url: str) -> None:
    assert run("compact", "s1", "--keep", "1", "--url", url).output.startswith("compacted: ")
    assert "question 0" not in run("show", "s1", "--context", "--url", url).output
    assert "question 0" in run("show", "s1", "--url", url).output
    assert run("compact", "none", "--url", url).exit_code == 1


def test_the_command_works_on_a_folder_of_files(tmp_path: Path) -> None:
    source, url = theirs(tmp_path / "theirs.db"), (tmp_path / "chat").as_uri()
    refused = run("--url", url, "list")
    assert (refused.exit_code, "no such file" in refused.output, (tmp_path / "chat").exists()) == (1, True, False)
    assert "2 threads (0 unchanged)" in run("import", source, "--url", url, "--user", "ada").output
    assert "good day" in run("show", "t1", "--url", url).output
    for words in (["stats"], ["doctor"], ["verify", "t1"], ["rewind", "t1", "--to", "1"], ["migrate", "--plan"]):
        done = run(*words, "--url", url)
        assert done.exit_code == 0, (words, done.output, done.exception)


def test_a_conversation_is_readable_at_any_width(url: str) -> None:
    for width in (40, 120):
        shown = run("show", "s1", "--url", url, width=width).output
        assert max(len(line.rstrip()) for line in shown.splitlines()) <= width
        assert FAMILY in shown
        assert "\x1b" not in shown
        assert [shown.count(who) for who in ("user  ", "assistant  ")] == [4, 4]


def test_what_happened_to_the_log_is_one_line(url: str) -> None:
    assert "as it was at 4" in run("rewind", "s1", "--to", "4", "--url", url).output
    shown = run("show", "s1", "--url", url).output
    assert shown.count("── rewind") == 1
    assert "rewound" in shown
    assert "question 3" not in run("show", "s1", "--context", "--url", url).output
    copy = run("fork", "s1", "--at", "2", "--as", "copy", "--url", url)
    assert copy.output == "copy\n"
    assert len(run("show", "copy", "--jsonl", "--url", url).output.splitlines()) == 2
    assert run("rewind", "s1", "--to", "99", "--url", url).exit_code == 1


def test_looking_for_programs(url: str) -> None:
    assert run("--version").output == f"langchain-sessions {__version__}\n"
    [found] = json.loads(run("stats", "--json", "--url", url).output)
    assert (found["sessions"], found["users"], found["live_messages"]) == (2, 1, 8)
    assert found["bytes"] > 0
    assert found["biggest"][0]["id"] == "s1"
    assert "biggest" not in run("stats", "--url", url).output
    hits = [json.loads(line) for line in run("search", "question", "--jsonl", "--url", url).output.splitlines()]
    assert {hit["session_id"] for hit in hits} == {"s1"}
    assert json.loads(run("--json", "--url", url, "search", "xylophone", "--literal").output) == []
    [health] = json.loads(run("doctor", "--json", "--url", url).output)
    assert (health["problems"], health["langchain-sessions"]) == ([], __version__)
    assert "steps to take: none" in run("migrate", "--plan", "--url", url).output
    ends = run("tail", "s1", "-n", "1", "--url", url).output
    assert ("answer 3" in ends, "answer 2" in ends) == (True, False)
