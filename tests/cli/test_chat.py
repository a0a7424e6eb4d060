"""`chat`: a model that remembers, at a terminal and in a pipe, against a provider on this machine."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import types
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from langchain_sessions import SessionService
from langchain_sessions.cli._app import app
from tests.openai_stub.replies import Hold, Refuse, Say
from tests.openai_stub.server import OpenAIStub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = ("--model", "openai:gpt-4o-mini")


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIStub]:
    pytest.importorskip("langchain_openai")
    with OpenAIStub(allow_repeats=True) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-local")
        yield stub


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with SessionService(url) as sessions:
        sessions.create_schema()
    return url


def run(*words: str, said: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=said, env={"COLUMNS": "100", "TERM": "dumb"})


def test_a_pipe_asks_and_is_answered_and_the_session_goes_on(stub: OpenAIStub, url: str) -> None:
    stub.script(Say("Hello Ada!"), Say("You are Ada."))
    talk = ("--url", url, "--user", "ada", "chat", "s1", *MODEL)
    assert run(*talk, "--system", "Be brief.", said="I am Ada.\n").stdout == "Hello Ada!\n"
    again = run(*talk, said="\nWho am I?\n/quit\nnever asked\n")
    assert (again.exit_code, again.stdout) == (0, "You are Ada.\n")
    assert "session s1, " in again.stderr
    assert [request.texts for request in stub.requests] == [
        ["Be brief.", "I am Ada."],
        ["I am Ada.", "Hello Ada!", "Who am I?"],
    ]
    with SessionService(url) as sessions:
        assert [each.text for each in sessions.as_user("ada").messages("s1")][-1] == "You are Ada."
    refused = run("--url", url, "--user", "grace", "chat", "s1", *MODEL, said="hello\n")
    assert (refused.exit_code, refused.stdout, len(stub.requests)) == (1, "", 2)
    assert stub.complaints == []


def test_what_is_typed_with_a_slash(stub: OpenAIStub, url: str) -> None:
    stub.script(Say("one"), Say("two"), Say("three"), Say("A short story."))
    told = run(
        "--url", url, "chat", "s1", *MODEL,
        said="first\nsecond passport\n/search passport\n/undo\n//slash\n/history 2\n/compact\n/nonsense\n/help\n",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    for each in ("passport", "as it was at", "/slash", "three", "tokens before", "/undo            take"):
        assert each in told.output, (each, told.output)
    assert "no such command: /nonsense" in told.stderr
    assert stub.requests[2].texts == ["first", "one", "/slash"]
    empty = run("--url", url, "chat", "s2", *MODEL, said="/undo\n/history\n/search x\n")
    assert (empty.exit_code, "No session 's2'" in empty.stderr) == (1, True)


def test_programs_get_json_and_a_new_id(stub: OpenAIStub, url: str) -> None:
    stub.script(Say("Hi\x1b[2J."))
    told = run("--url", url, "--jsonl", "chat", *MODEL, said="hello\n")
    answer = json.loads(told.stdout)
    assert (answer["role"], answer["text"]) == ("assistant", "Hi\\x1b[2J.")
    with SessionService(url) as sessions:
        assert [each.id for each in sessions.list_sessions()] == [answer["session_id"]]


def _no_longer_there(name: str) -> object:
    """As langchain-community's module answers for what it gave away."""
    raise AttributeError(f"module langchain_community.chat_models has no attribute {name}")


def test_what_is_missing_is_told_with_the_way_to_get_it(
    stub: OpenAIStub, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stub.script(Refuse(401, {"error": {"message": "Incorrect API key provided: sk-local"}}))
    wrong = run("--url", url, "chat", *MODEL, said="hello\n")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "it refused the key (401)" in wrong.stderr
    monkeypatch.delenv("OPENAI_API_KEY")
    for model, way in (
        ("openai:gpt-4o-mini", "export OPENAI_API_KEY=…"),
        ("huggingface:a/b", "pip install langchain-huggingface"),
        ("nonsense", "give PROVIDER:NAME"),
    ):
        told = run("--url", url, "chat", "--model", model)
        assert (told.exit_code, told.stderr.count("\n")) == (1, 1), told.output
        assert way in told.stderr
    community = types.ModuleType("langchain_community.chat_models")
    community.__getattr__ = _no_longer_there  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "langchain_ollama", None)
    monkeypatch.setitem(sys.modules, "langchain_community", types.ModuleType("langchain_community"))
    monkeypatch.setitem(sys.modules, "langchain_community.chat_models", community)
    lost = run("--url", url, "chat", "--model", "ollama:llama3.2")
    assert (lost.exit_code, "pip install langchain-ollama" in lost.stderr) == (1, True), lost.stderr
    missing = run("--url", f"sqlite:///{tmp_path / 'mistyped.db'}", "chat", *MODEL)
    assert (missing.exit_code, "no such file" in missing.stderr) == (1, True)
    assert run("--url", url, "chat").exit_code == 2
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    bare = run("--url", url, "chat", *MODEL)
    assert (bare.exit_code, "langchain-sessions[agents,openai]" in bare.stderr) == (1, True)


class Terminal:
    """The command at a terminal of its own."""

    def __init__(self, *words: str) -> None:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", "from langchain_sessions.cli.entry import main; main()", *words]
        environment = {**os.environ, "TERM": "dumb", "COLUMNS": "60"}
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self._ours, self.told = ours, ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):
            while True:
                self.told += os.read(self._ours, 1000).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str, since: int = 0) -> int:
        for _ in range(600):
            if (at := self.told.find(text, since)) >= 0:
                return at + len(text)
            time.sleep(0.05)
        raise AssertionError(self.told)

    def end(self) -> int:
        code = self.process.wait(30)
        os.close(self._ours)
        return code


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_terminal_shows_the_history_and_is_broken_off_cleanly(stub: OpenAIStub, url: str) -> None:
    release = threading.Event()
    stub.script(Say("Hello Ada!"), Hold("slowly it is said", release, after=2), Say("Still here."))
    run("--url", url, "chat", "s1", *MODEL, said="I am Ada.\n")
    terminal = Terminal("--url", url, "chat", "s1", *MODEL)
    at = terminal.wait_for("you> ")
    assert "I am Ada." in terminal.told
    terminal.type("tell me\n")
    terminal.wait_for("slow", at)
    terminal.process.send_signal(signal.SIGINT)
    at = terminal.wait_for("(broken off)", at)
    release.set()
    terminal.wait_for("you> ", at)
    terminal.process.send_signal(signal.SIGINT)
    at = terminal.wait_for("Ctrl-D or /quit ends", at)
    terminal.type("and now?\n")
    at = terminal.wait_for("Still here.", at)
    terminal.wait_for("you> ", at)
    terminal.type("\x04")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.told
    with SessionService(url) as sessions:
        standing: list[Any] = [
            (event.message.text, event.standing.value) for event in sessions.events("s1") if event.message
        ]
    assert ("Still here.", "live") in standing
    assert any(text.startswith("slow") for text, _ in standing)
