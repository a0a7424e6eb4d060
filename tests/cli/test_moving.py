"""Coming over and going out by the command, and what it says to people and to programs."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from typer.testing import CliRunner, Result

from langchain_sessions import SessionService, __version__
from langchain_sessions.cli._app import app

COMMAND = (sys.executable, "-c", "from langchain_sessions.cli.entry import main; main()")
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
    assert re.search(r"^── rewind at (\d+) of 5-(\d+)$", shown, re.MULTILINE)
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


def test_a_key_opens_a_source_and_a_wrong_one_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("Crypto")
    path, url = tmp_path / "sealed.db", f"sqlite:///{tmp_path / 'new.db'}"
    conn = sqlite3.connect(path, check_same_thread=False)
    sealed = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    builder: Any = StateGraph(MessagesState)
    answer = builder.add_node("a", lambda _: {"messages": [AIMessage("good day")]})
    graph = answer.add_edge(START, "a").compile(checkpointer=SqliteSaver(conn, serde=sealed))
    graph.invoke({"messages": [HumanMessage("hello")]}, {"configurable": {"thread_id": "t1"}})
    conn.close()
    for name, key in (("WRONG", "fedcba9876543210"), ("SHORT", "abc"), ("RIGHT", "0123456789abcdef")):
        monkeypatch.setenv(name, key)
    for options, why in (
        ([], "--key-from: the source is encrypted, and give"),
        (["--key-from", "WRONG"], "--key-from: the source is encrypted, and this is not its key"),
        (["--key-from", "SHORT"], "16, 24 or 32 bytes"),
        (["--key-from", "NOWHERE"], "there is no variable NOWHERE"),
    ):
        refused = run("import", str(path), "--url", url, *options)
        assert (refused.exit_code, why in refused.stderr) == (1, True), refused.output
        assert len(refused.stderr.splitlines()) == 1
        assert not (tmp_path / "new.db").exists()
    done = run("import", str(path), "--url", url, "--key-from", "RIGHT", "--json")
    assert (done.exit_code, json.loads(done.stdout)["messages"]) == (0, 2), done.output


LIMITED = """
import resource, sys
from langchain_sessions.cli.entry import main
resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d))
main()
"""


def full(limit: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The command where no file may grow beyond a limit, as on a disk that is full."""
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", LIMITED % (limit, limit), *words], capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_full_disk_is_one_line_and_nothing_half_done(url: str, tmp_path: Path) -> None:
    with SessionService(url) as sessions:
        sessions.append("s1", HumanMessage(secrets.token_hex(100_000)))  # which no packing makes small
    file = tmp_path / "all.jsonl"
    refused = full(50_000, "export", "--url", url, "--to", str(file))
    assert (refused.returncode, refused.stderr.count("\n"), file.exists()) == (1, 1, False), refused
    assert "File too large" in refused.stderr
    assert run("export", "--url", url, "--to", str(file)).exit_code == 0
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert run("init", "--url", other).exit_code == 0
    refused = full(100_000, "import", str(file), "--url", other)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused
    assert "the same command goes on" in refused.stderr
    assert run("doctor", "--url", other).exit_code == 0
    assert "2 threads" in run("import", str(file), "--url", other).output
    shown = [run("show", "s1", "--jsonl", "--url", each).output for each in (url, other)]
    assert shown[0] == shown[1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_behind_standard_output_is_one_line(url: str) -> None:
    with Path("/dev/full").open("w") as disk:
        done = subprocess.run(  # noqa: S603 - our own command
            [*COMMAND, "export", "--url", url], stdout=disk, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "standard output (No space left on device)" in done.stderr


def test_a_target_in_use_is_one_line(url: str, tmp_path: Path) -> None:
    busy = sqlite3.connect(url.removeprefix("sqlite:///"))
    busy.execute("BEGIN EXCLUSIVE")
    source = theirs(tmp_path / "theirs.db")
    for words in (["import", source], ["rewind", "s1", "--to", "2"], ["fork", "s1"]):
        refused = run(*words, "--url", f"{url}?timeout=0.2")
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1), (words, refused.output)
        assert "locked by another process" in refused.stderr
    busy.close()


def test_a_reader_that_has_seen_enough_is_no_error(url: str) -> None:
    with subprocess.Popen(  # noqa: S603 - our own command
        [*COMMAND, "export", "--url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as writing:
        assert writing.stdout is not None
        assert writing.stderr is not None
        writing.stdout.readline()
        writing.stdout.close()
        assert "Traceback" not in writing.stderr.read()


def test_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    source = theirs(tmp_path / "theirs.db")
    url, before = f"sqlite:///{source}", Path(source).read_bytes()
    for words in (["import", source], ["init"]):
        refused = run(*words, "--url", url)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1), refused.output
        assert "a table 'checkpoints' of another program" in refused.stderr
        assert "--prefix" in refused.stderr
    assert Path(source).read_bytes() == before
    done = run("import", source, "--url", url, "--prefix", "chat_", "--user", "ada")
    assert (done.exit_code, "2 threads (0 unchanged)" in done.output) == (0, True), done.output
    assert "good day" in run("show", "t1", "--url", url, "--prefix", "chat_").output
