"""No block of the docs is left out: it runs, or says on the page why it does not. Examples are in `test_examples`."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from packaging.requirements import Requirement

from langchain_sessions import SessionService
from tests.docs.blocks import BLOCKS, PAGES, ROOT, Block
from tests.hosts.langgraph_server import PAGE, write_app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PACKAGE = "langchain-sessions"
# What is declared, not what some environment was once made of.
DECLARED = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1].split("\n[")[0]
EXTRAS = set(re.findall(r"^([\w-]+) = \[", DECLARED, re.MULTILINE))
PASSPORT = (HumanMessage("Where is my passport?", id="q1"), AIMessage("In the blue drawer.", id="a1"))
INCLUDED = {'--8<-- "examples/fastapi_app.py"\n': "tests/docs/test_fastapi.py"}


def of_kind(*kinds: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind in kinds]


def test_every_block_is_of_a_kind_that_somebody_runs() -> None:
    assert [block.name for block in BLOCKS if block.kind.startswith("unknown")] == []
    # What the pattern did not see is not forgotten, either.
    fences = sum(len(re.findall(r"^ *```", page.read_text(), re.MULTILINE)) for page in PAGES)
    assert fences == 2 * len(BLOCKS)


@pytest.mark.parametrize("block", of_kind("not run"), ids=lambda block: block.name)
def test_what_does_not_run_is_written_right(block: Block) -> None:
    if block.info == "python":
        ast.parse(block.code)
    assert len(block.code.splitlines()) <= 8, "a long example deserves to run"


@pytest.mark.parametrize("block", of_kind("picture"), ids=lambda block: block.name)
def test_a_picture_hides_no_code(block: Block) -> None:
    assert "$ " not in block.code
    with pytest.raises(SyntaxError):
        ast.parse(block.code)


def test_every_output_follows_an_example() -> None:
    assert len(of_kind("output")) == sum(block.printed is not None for block in of_kind("example"))


@pytest.mark.parametrize("block", of_kind("data"), ids=lambda block: block.name)
def test_data_can_be_read(block: Block) -> None:
    assert json.loads(block.code)


@pytest.mark.parametrize("block", of_kind("include"), ids=lambda block: block.name)
def test_an_included_file_has_a_test(block: Block) -> None:
    assert (ROOT / INCLUDED[block.code]).exists()


def test_the_files_of_a_page_are_those_that_its_test_writes(tmp_path: Path) -> None:
    shown = of_kind("file")
    assert {block.page for block in shown} == {PAGE}
    write_app(tmp_path, with_auth=True)
    for block in shown:
        name = block.code.partition("\n")[0].removeprefix("# ")
        assert (tmp_path / name).read_text() == block.code.partition("\n")[2], block.name


# -- the terminal ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages speak of: a database, a folder, and a database of LangGraph's own saver."""
    path = tmp_path_factory.mktemp("terminal")
    for url in (f"sqlite:///{path / 'chat.db'}", (path / "chat").as_uri()):
        with SessionService(url) as sessions:
            ada = sessions.as_user("ada")
            ada.open("s1")
            ada.append("s1", PASSPORT)
    builder: Any = StateGraph(MessagesState)
    builder.add_node("say", lambda _state: {"messages": [("ai", "Hello!")]})
    builder.add_edge(START, "say")
    config = {"configurable": {"thread_id": "t1"}, "metadata": {"user_id": "ada"}}
    with SqliteSaver.from_conn_string(str(path / "old.db")) as saver:
        builder.compile(checkpointer=saver).invoke({"messages": "Hi"}, config)
    other_libraries(path)
    return path


def other_libraries(path: Path) -> None:
    """What other libraries stored, as they lay it out; `tests/coming` has their own databases."""
    said = {"role": "user", "content": "Hi"}
    (path / "history.json").write_text(json.dumps(messages_to_dict(PASSPORT)))
    (path / "chats.jsonl").write_text(json.dumps({"id": "c1", "messages": [said]}) + "\n")
    asked = {"uuid": "m1", "sender": "human", "text": "Hi", "created_at": "2025-01-01T10:00:00Z"}
    exported = {"uuid": "c1", "name": "Hi", "created_at": "2025-01-01T10:00:00Z", "chat_messages": [asked]}
    (path / "conversations.json").write_text(json.dumps([exported]))
    at = "2025-01-01 10:00:00"
    event = json.dumps({"author": "user", "content": {"role": "user", "parts": [{"text": "Hi"}]}})
    for name, statements in {
        "history.db": (
            "CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id, message)",
            f"INSERT INTO message_store VALUES (1, 'h1', '{json.dumps(messages_to_dict(PASSPORT)[0])}')",
        ),
        "conversations.db": (
            "CREATE TABLE agent_sessions (session_id, created_at)",
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data, created_at)",
            f"INSERT INTO agent_messages VALUES (1, 'a1', '{json.dumps(said)}', '{at}')",
        ),
        "adk.db": (
            "CREATE TABLE sessions (app_name, user_id, id, state)",
            "CREATE TABLE app_states (app_name, state)",
            "CREATE TABLE user_states (app_name, user_id, state)",
            "CREATE TABLE events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)",
            "INSERT INTO sessions VALUES ('app', 'ada', 'adk1', '{}')",
            f"INSERT INTO events VALUES ('e1', 'app', 'ada', 'adk1', 'i', '{at}', '{event}')",
        ),
    }.items():
        with closing(sqlite3.connect(path / name)) as connection, connection:
            for statement in statements:
                connection.execute(statement)


def run(command: str, folder: Path) -> None:
    """In a shell, with the environment of these tests; it ends well and says something."""
    bin_folder = os.path.dirname(sys.executable)  # noqa: PTH120 - a link would lead out of the environment
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(  # noqa: S602 - our own documentation
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def installs(command: str, _: Path) -> None:
    """Nothing is installed: what it names is declared, and a job of CI installs the wheel with it."""
    for word in command.split("#", maxsplit=1)[0].replace("'", "").split()[2:]:
        if word.startswith("-"):
            continue
        wanted = Requirement(word)
        if wanted.name == PACKAGE:
            assert wanted.extras <= EXTRAS
        else:
            assert wanted.name in {*re.findall(r'"([\w-]+)', DECLARED), "uvicorn"}


def makes(command: str, _: Path) -> None:
    """`make` knows how, and would; the tests are not run by themselves."""
    run(f"make -n {command.split('#', maxsplit=1)[0].split()[1]}", ROOT)


RUNNERS: dict[str, Callable[[str, Path], None]] = {
    "grep": run,
    "jq": run,
    "langchain-sessions": run,
    "make": makes,
    "pip": installs,
}


@pytest.mark.parametrize("block", of_kind("commands"), ids=lambda block: block.name)
def test_what_is_typed_works_twice(block: Block, folder: Path) -> None:
    assert block.commands
    programs = {command: command.split()[0] for command in block.commands}
    if missing := {name for name in programs.values() if name in {"grep", "jq"} and shutil.which(name) is None}:
        pytest.skip(f"not on this machine: {', '.join(missing)}")
    for _ in range(2):
        for command, program in programs.items():
            RUNNERS[program](command, folder)


TYPED = sorted({block.page for block in BLOCKS for each in block.commands if each.startswith(f"{PACKAGE} ")})


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_a_page_that_types_the_command_says_what_brings_it(page: Path) -> None:
    assert re.search(rf"pip install '{PACKAGE}\[[\w,]*\bcli\b", page.read_text())
