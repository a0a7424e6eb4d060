"""What looks after a database: numbers, versions, tables, and errors that say what to type."""

from __future__ import annotations

import io
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from rich.console import Console
from typer.testing import CliRunner, Result
from wcwidth import iter_graphemes, wcwidth

from langchain_sessions import Compaction, SessionService, TurnWindow
from langchain_sessions.cli._app import app
from langchain_sessions.cli._conversation import paged, spoken

if TYPE_CHECKING:
    from collections.abc import Mapping

FROZEN = Path(__file__).parents[1] / "migrations" / "frozen"
COMPLETE = "_LANGCHAIN_SESSIONS_COMPLETE"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A session of ten turns, whose seven oldest are archived; another that nobody owns."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with SessionService(url) as sessions:
        ada = sessions.as_user("ada")
        ada.create("s1", title="Lisbon")
        ada.append("s1", [each for n in range(10) for each in (HumanMessage(f"q{n}"), AIMessage(f"a{n}"))])
        for keep in (6, 3):
            ada.compact("s1", Compaction(None, TurnWindow(keep)))
        sessions.create("s2")
    return url


def run(*words: str, said: str | None = None, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=said, env={"COLUMNS": "100", "TERM": "dumb", **(env or {})})


def changed(url: str, *statements: str) -> None:
    conn = sqlite3.connect(url.removeprefix("sqlite:///"))
    with conn:
        for statement in statements:
            conn.execute(statement)
    conn.close()


def test_stats_say_how_it_grows_and_what_compaction_saved(url: str) -> None:
    [told] = json.loads(run("stats", "--json", "--url", url).output)
    with SessionService(url) as sessions:
        before, after = 10 * 14, sessions.get("s1").token_count
    assert told["compaction"] == {"runs": 2, "archived": 14, "tokens": before - after}
    assert told["growth"]["day"] == told["growth"]["month"] == {"sessions": 2, "entries": 22}
    micros = int((time.time() - 10 * 86400) * 1_000_000)
    changed(
        url,
        f"UPDATE sessions SET created_at = {micros}",
        f"UPDATE events SET at = {micros} WHERE seq <= 5",
    )
    [told] = json.loads(run("--url", url, "stats", "--json").output)
    assert told["growth"]["week"] == {"sessions": 0, "entries": 17}
    assert told["growth"]["month"] == {"sessions": 2, "entries": 22}
    shown = run("stats", "--url", url).output
    assert "last week: 0 new sessions, 17 entries" in shown
    assert "compaction: 2 in force, 14 entries archived" in shown
    run("rewind", "s1", "--to", "20", "--url", url)
    assert "compaction: 0 in force" in run("stats", "--url", url).output


def test_a_doctor_names_versions_and_what_would_be_migrated(url: str, tmp_path: Path) -> None:
    well = run("doctor", "--url", url)
    for each in (
        "sqlite3 of Python",
        f"sqlite {sqlite3.sqlite_version}",
        "steps to take: none",
        "sessions: 2",
        "0 problems",
    ):
        assert each in well.output, each
    changed(url, "UPDATE sessions SET live_events = 99 WHERE id = 's1'")
    ill = run("doctor", "--url", url, "--json")
    assert ill.exit_code == 1
    assert json.loads(ill.output)[0]["problems"][0].startswith("s1: ")
    assert run("verify", "s1", "--url", url, "--json").exit_code == 1
    changed(url, "DELETE FROM schema_versions")
    assert "init" in run("doctor", "--url", url).output


def test_an_older_database_is_planned_and_migrated(tmp_path: Path) -> None:
    frozen = next(each for each in sorted(FROZEN.rglob("*.db")))
    file = tmp_path / "old.db"
    shutil.copy(frozen, file)
    url = f"sqlite:///{file}"
    refused = run("list", "--url", url)
    assert (refused.exit_code, "`langchain-sessions migrate`" in refused.output) == (1, True)
    looked = run("doctor", "--url", url)
    assert (looked.exit_code, "1 problems" in looked.output) == (1, True)
    before = file.read_bytes()
    planned = json.loads(run("migrate", "--plan", "--url", url, "--json").output)
    assert planned["steps"]
    assert file.read_bytes() == before
    assert "steps taken: 2" in run("migrate", "--url", url).output
    assert run("list", "--url", url).exit_code == 0
    assert "steps taken: none" in run("migrate", "--url", url).output


def test_a_newer_database_is_left_alone(url: str, tmp_path: Path) -> None:
    changed(url, "INSERT INTO schema_versions VALUES (99, 0)")
    file = tmp_path / "chat.db"
    before = file.read_bytes()
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"role": "user", "content": "hello"}\n')
    for words in (
        ["list"],
        ["doctor"],
        ["migrate"],
        ["migrate", "--plan"],
        ["init"],
        ["import", str(chat)],
        ["export"],
    ):
        refused = run(*words, "--url", url)
        assert (refused.exit_code, refused.output.count("\n")) == (1, 1), (words, refused.output)
        assert "pip install --upgrade langchain-sessions" in refused.output
    assert file.read_bytes() == before


def test_errors_say_what_to_type(url: str) -> None:
    for words, way in (
        (["show", "none"], "`langchain-sessions list`"),
        (["fork", "s1", "--as", "s2"], "is taken"),
        (["list", "--limit", "0"], "--limit: "),
        (["list", "--after", "nonsense"], "--after: "),
        (["list", "--user", " "], "--user: "),
        (["list", "--prefix", "a-b"], "--prefix: "),
        (["export", "--format", "csv"], "--format: "),
        (["rewind", "s1", "--to", "-1"], "--to: "),
        (["list", "--url", "oracle://h/d"], "oracle"),
        (["list", "--url", "nonsense"], "--url: "),
    ):
        refused = run("--url", url, *words)
        assert (refused.exit_code, refused.output.count("\n")) == (1, 1), (words, refused.output, refused.exception)
        assert way in refused.output, (words, refused.output)
        for call in ("()", "create_schema", "open("):
            assert call not in refused.output
    for words in (["nonsense"], ["show"], ["show", "s1", "--nonsense"], ["list", "--limit", "x"]):
        assert run(*words).exit_code == 2


def test_options_stand_before_the_command_or_after_it(url: str) -> None:
    for words in (
        ["--url", url, "--jsonl", "list"],
        ["list", "--url", url, "--jsonl"],
        [f"--url={url}", "list", "--jsonl"],
        ["list", "--jsonl", f"--url={url}", "--limit", "5"],
    ):
        assert [json.loads(line)["id"] for line in run(*words).output.splitlines()] == ["s2", "s1"]


def test_everything_that_reads_answers_programs(url: str) -> None:
    for words in (
        ["list"],
        ["show", "s1"],
        ["show", "s1", "--context"],
        ["show", "s1", "--log"],
        ["tail", "s1"],
        ["search", "q1"],
        ["stats"],
        ["doctor"],
        ["verify", "s1"],
        ["migrate", "--plan"],
        ["schema", "sqlite"],
    ):
        told = run(*words, "--json", "--url", url)
        assert (told.exit_code, bool(json.loads(told.output))) == (0, True), (words, told.output)
        told = run(*words, "--jsonl", "--url", url)
        assert all(isinstance(json.loads(line), dict) for line in told.output.splitlines()), words


def test_shells_complete() -> None:
    for shell, asked in (
        ("bash", {"COMP_WORDS": "langchain-sessions sta", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "langchain-sessions sta"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "langchain-sessions sta", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ):
        told = subprocess.run(
            [sys.executable, "-c", "from langchain_sessions.cli.entry import main; main()"],
            env={COMPLETE: f"complete_{shell}", "PYTHONPATH": ":".join(sys.path), **asked},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "stats" in told.stdout, (shell, told)


def test_joined_pictures_stay_whole_at_any_width() -> None:
    pictures = "👩‍👩‍👧🇩🇪👍🏽❤️" * 20
    with SessionService("sqlite://") as sessions:
        sessions.create("s")
        sessions.append("s", HumanMessage("x" + pictures + "\n\n  and text " + pictures))
        for width, in_pager in product((11, 40), (False, True)):
            told = io.StringIO()
            console = Console(file=told, width=width)
            for piece in spoken(sessions.events("s"), width, in_pager=in_pager):
                console.print(piece)
            lines = told.getvalue().splitlines()
            # less counts each part of a picture, and breaks lines by that.
            assert not in_pager or all(sum(max(wcwidth(each), 0) for each in line) <= width for line in lines)
            found = [each for each in iter_graphemes(told.getvalue()) if not each.isascii()]
            assert found == list(iter_graphemes(pictures)) * 2


@pytest.mark.skipif(sys.platform == "win32", reason="a pager of its own")
def test_the_readers_own_pager_is_used(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    with SessionService(url) as sessions:
        monkeypatch.setenv("PAGER", f"{sys.executable} -c \"import sys; open('{kept}', 'w').write(sys.stdin.read())\"")
        paged(Console(width=60), spoken(sessions.events("s1"), 60))
        assert kept.read_text().count("q0") == 1
        # One that closes early is no error.
        monkeypatch.setenv("PAGER", "true")
        paged(Console(width=60), (piece for _ in range(2000) for piece in spoken(sessions.events("s1"), 60)))


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_tail_follows_until_it_is_broken_off(url: str) -> None:
    command = [sys.executable, "-u", "-c", "from langchain_sessions.cli.entry import main; main()"]
    with subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--url", url, "tail", "s1", "-f", "-n", "1", "--json"], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["kind"] == "compaction"
        with SessionService(url) as sessions:
            sessions.append("s1", HumanMessage("what came"))
        assert json.loads(following.stdout.readline())["message"]["data"]["content"] == "what came"
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 0
