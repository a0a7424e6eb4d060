"""The command with odd sources, odd terminals and odd words: one line each, and nothing half said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from typer.testing import CliRunner, Result

from langchain_sessions import SessionService
from langchain_sessions.cli._app import app
from langchain_sessions.cli._words import in_words
from langchain_sessions.errors import EventNotFoundError, StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

ID = "lisbon-2026-with-the-whole-family"
CHAT = '{"messages": [{"role": "user", "content": "hello"}], "id": "s", "metadata": {"user_id": "ada"}}\n'


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with SessionService(url) as sessions:
        ada = sessions.as_user("ada")
        ada.create(ID, title="Lisbon")
        ada.append(ID, [HumanMessage("Where is my passport?", id="m1"), AIMessage("In the blue drawer.")])
    return url


def run(*words: str, width: int = 120) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": str(width), "TERM": "dumb"})


@pytest.mark.parametrize("words", [["list"], ["stats"], ["search", "passport"], ["show", ID, "--log"]])
def test_ids_are_whole_on_a_narrow_terminal(url: str, words: list[str]) -> None:
    shown = run(*words, "--url", url, width=60)
    for width in (40, 80, 120):
        shown = run(*words, "--url", url, width=width)
        assert shown.exit_code == 0, shown.output
        assert "…" not in shown.output
        assert max(len(line.rstrip()) for line in shown.output.splitlines()) <= width
        if words[0] != "show":
            assert ID in shown.output
    assert ("passport" in shown.output) == (words[0] in {"search", "show"})


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_text_that_no_terminal_can_hold_is_shown_as_its_code(tmp_path: Path, encoding: str) -> None:
    source, url = tmp_path / "odd.jsonl", f"sqlite:///{tmp_path / 'new.db'}"
    source.write_text('{"messages": [{"role": "user", "content": "half \\ud83d of é"}], "id": "s"}\n', encoding="utf-8")
    assert run("import", str(source), "--url", url).exit_code == 0
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for words in (["show", "s", "--json"], ["show", "s", "--jsonl"], ["show", "s"], ["show", "s", "--log"], ["export"]):
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-c", "from langchain_sessions.cli.entry import main; main()", "--url", url, *words],
            capture_output=True,
            env=environment,
            check=False,
        )
        assert (done.returncode, b"half" in done.stdout) == (0, True), (words, done.stderr)
        if words[-1].startswith("--json") or words == ["export"]:
            written = done.stdout.decode(encoding)
            parsed = json.loads(written) if words[-1] == "--json" else [json.loads(x) for x in written.splitlines()]
            assert "half \ud83d of é" in repr(parsed) or "half \\ud83d of é" in repr(parsed)
    file = tmp_path / "out.jsonl"
    for words in (["--to", str(file)], ["--to", str(tmp_path / "out.md"), "--format", "markdown"]):
        assert run("export", "--url", url, *words).exit_code == 0
    assert run("import", str(file), "--url", f"sqlite:///{tmp_path / 'back.db'}").exit_code == 0


def test_what_an_import_says_of_owners_and_sizes(tmp_path: Path) -> None:
    source, url = tmp_path / "chat.jsonl", f"sqlite:///{tmp_path / 'new.db'}"
    source.write_text(CHAT, encoding="utf-8")
    first = run("import", str(source), "--url", url, "--user-from", "metadata.usr_id")
    assert (first.exit_code, first.stderr) == (
        0,
        f"created {tmp_path / 'new.db'}\n1 thread has no owner; give --user\n",
    )
    total = first.stdout.partition("before, ")[2].partition(" after")[0]
    assert f"{total} after (+{total})" in first.stdout
    again = run("import", str(source), "--url", url)
    assert "B after (+0 bytes)" in again.stdout
    owned = run("import", str(source), "--url", url, "--user", "ada")
    assert (
        owned.exit_code,
        "nobody's: import it without --user, or `langchain-sessions delete s`" in owned.stderr,
    ) == (
        3,
        True,
    )
    folder = (tmp_path / "folder").as_uri()
    told = json.loads(run("import", str(source), "--url", folder, "--json").stdout)
    assert (told["unowned"], told["bytes_total"], told["bytes_after"]) == (1, told["bytes_total"], told["bytes_total"])
    assert told["bytes_total"] > 0


def test_a_refused_import_creates_nothing_and_says_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("hello", encoding="utf-8")
    refused = run("import", str(tmp_path / "text.txt"), "--url", f"sqlite:///{tmp_path / 'new.db'}")
    assert (refused.exit_code, refused.stderr.count("\n"), "new.db" in refused.stderr) == (1, 1, False), refused.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["text.txt"]


def test_a_source_on_a_server_that_is_not_there_names_it_and_no_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    source = "postgresql://ada:secret@127.0.0.1:9/chat"
    refused = run("import", source, "--url", f"sqlite:///{tmp_path / 'new.db'}")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1), refused.output
    assert "127.0.0.1:9 cannot be opened: nothing listens there" in refused.stderr
    assert "secret" not in refused.stderr
    target = run("list", "--url", source)
    assert (target.exit_code, "see the cause" in target.stderr, "secret" in target.stderr) == (1, False, False)
    assert "127.0.0.1:9 cannot be reached: nothing listens there." in target.stderr


def test_a_cause_is_told_or_left_out() -> None:
    error = StoreUnavailableError("The database at h:1 cannot be reached; see the cause.")
    assert in_words(error) == "The database at h:1 cannot be reached."
    error.__cause__ = OSError(13, "Permission denied")
    assert in_words(error) == "The database at h:1 cannot be reached: permission denied."
    other = StoreUnavailableError("The database could not do it; see the cause.")
    other.__cause__ = RuntimeError('column "x" does not exist')
    assert in_words(other) == "The database could not do it."


def test_a_file_in_the_place_of_a_folder_is_one_line(url: str, tmp_path: Path) -> None:
    refused = run("list", "--url", (tmp_path / "chat.db").as_uri())
    assert (refused.exit_code, refused.stderr.count("\n"), "no folder" in refused.stderr) == (1, 1, True)
    assert url in refused.stderr


def test_a_database_as_uri_is_not_created(url: str, tmp_path: Path) -> None:
    missing = tmp_path / "mistyped.db"
    refused = run("list", "--url", f"sqlite:///file:{missing}?uri=true")
    assert (refused.exit_code, "no such file" in refused.stderr, missing.exists()) == (1, True, False)
    assert ID in run("list", "--url", url.replace("sqlite:///", "sqlite:///file:") + "?uri=true").output


def test_words_of_the_command(url: str) -> None:
    for words, code, way in (
        (["tail", ID, "-n", "-3"], 1, "-n: give 0"),
        (["list", "--limit", "0"], 1, "--limit: "),
        (["compact", ID, "--keep", "0"], 1, "--keep: "),
        (["show", ID, "--last", "0"], 1, "--last: "),
        (["blank", ID, "--yes"], 1, "MESSAGE: name one, or give --superseded"),
        (["list", "--user"], 2, "'--user' requires an argument"),
        (["list", "--user", "--json"], 2, "'--user' requires an argument"),
    ):
        refused = run("--url", url, *words)
        assert (refused.exit_code, way in refused.output) == (code, True), (words, refused.output)
    assert run("tail", ID, "-n", "0", "--url", url).output == ""
    told = json.loads(run("blank", ID, "m1", "--yes", "--json", "--url", url).stdout)
    assert told == {"session_id": ID, "seqs": [1], "summaries": []}


def test_what_a_log_has_not_is_told_with_the_command_that_shows_it() -> None:
    told = in_words(EventNotFoundError("s1", "position 9"))
    assert told == "Session 's1' has no position 9. `langchain-sessions show s1 --log` shows what it has."
