"""The command, as somebody types it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from typer.testing import CliRunner, Result

from langchain_sessions import SessionService, schema_sql
from langchain_sessions.cli._app import app
from langchain_sessions.cli._target import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with what ada said, and grace."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with SessionService(url) as sessions:
        ada = sessions.as_user("ada")
        ada.create("s1", title="Lisbon")
        ada.append("s1", [HumanMessage("The passport is in the \x1b[31mblue drawer."), AIMessage("Noted.")])
        sessions.as_user("grace").create("s2")
    return url


@pytest.fixture
def run(url: str) -> Callable[..., Result]:
    """Run the command on that database."""

    def typed(*words: str, answer: str | None = None) -> Result:
        return CliRunner().invoke(app, ["--url", url, *words], input=answer, env={"COLUMNS": "120"})

    return typed


def test_looking(run: Callable[..., Result]) -> None:
    listed = run("list")
    assert (listed.exit_code, "Lisbon" in listed.output, "s2" in listed.output) == (0, True, True)
    assert "s2" not in run("--user", "ada", "list").output
    assert "--after" in run("list", "--limit", "1").output
    for shown in (
        run("show", "s1"),
        run("show", "--log", "s1"),
        run("search", "passport"),
        run("search", "passport", "--session", "s1"),
    ):
        assert "blue drawer" in shown.output
        assert "\x1b" not in shown.output
    assert "passport" not in run("show", "s1", "--last", "1").output
    assert "Nothing found" in run("search", "xylophone", "--literal").output


def test_looking_after(run: Callable[..., Result], url: str) -> None:
    assert run("verify", "s1").exit_code == 0
    assert "2 indexed" in run("reindex").output
    assert "0 removed" in run("purge").output
    with SessionService(url) as sessions:
        sessions.append("s1", HumanMessage("my mail is ada@example.org", id="m9"))
    assert run("blank", "s1", "m9", answer="n\n").exit_code == 1
    assert "1 overwritten" in run("blank", "s1", "m9", "--yes").output
    assert "ada@example.org" not in run("show", "s1", "--log").output
    assert run("delete", "s1", answer="n\n").exit_code == 1
    assert "deleted" in run("delete", "s1", "--yes").output
    with SessionService(url) as sessions:
        assert [session.id for session in sessions.list_sessions()] == ["s2"]


def test_a_problem_is_told_in_a_line(run: Callable[..., Result], tmp_path: Path) -> None:
    for words in (["--user", "grace", "show", "s1"], ["show", "none"], ["schema", "oracle"]):
        refused = run(*words)
        assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    empty = CliRunner().invoke(app, ["--url", f"sqlite:///{tmp_path / 'other.db'}", "list"])
    assert (empty.exit_code, "no such file" in empty.output, "init" in empty.output) == (1, True, True)
    (tmp_path / "empty.db").touch()
    bare = CliRunner().invoke(app, ["--url", f"sqlite:///{tmp_path / 'empty.db'}", "list"])
    assert (bare.exit_code, "langchain-sessions init" in bare.output, bare.output.count("\n")) == (1, True, 1)


def test_the_schema(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("schema", "postgresql").output.strip() == schema_sql("postgresql").strip()
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert CliRunner().invoke(app, ["--url", other, "init"]).exit_code == 0
    assert CliRunner().invoke(app, ["--url", other, "list"]).exit_code == 0


def test_without_its_extra() -> None:
    code = "import sys; sys.modules['typer'] = None; from langchain_sessions.cli.entry import main; main()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert (found.returncode, found.stderr.strip()) == (
        1,
        "The command needs its extra: pip install 'langchain-sessions[cli]'",
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("cassandra://one:9042,two:9042/chat", "cassandra://one:9042,two:9042/chat"),
        ("cassandra://ada:s3cret@one:9042,two:9042/chat", "cassandra://ada:***@one:9042,two:9042/chat"),
        ("postgresql://ada:s3c@ret@one/chat", "postgresql://ada:***@one/chat"),
        ("nonsense://ada:s3cret@one:port/chat", "nonsense://ada:***@one:port/chat"),
    ],
)
def test_a_url_of_several_hosts_is_a_target_and_its_password_is_not_shown(url: str, shown: str) -> None:
    target = Target(url, None, "default", "", "table")
    assert (target.file, target.shown) == (None, shown)
