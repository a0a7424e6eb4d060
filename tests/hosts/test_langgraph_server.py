"""Issue 17, item 1: LangGraph's server, configured as the page says, on every route that it supports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from langchain_sessions import SessionNotFoundError, SessionService
from tests.hosts.langgraph_server import PAGE, running_server, write_app
from tests.hosts.routes import STEPS, Drive, drive_every_route, name_of, script
from tests.openai_stub.replies import call
from tests.openai_stub.server import OpenAIStub

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("langgraph_api", reason="LangGraph's server needs Python 3.11")
pytestmark = pytest.mark.timeout(400)

_ROW = re.compile(r"^\| ([a-z ]+?) \| ((?:yes|no)(?: \| (?:yes|no)){4}) \|$", re.MULTILINE)
_IDENTITY = """
from langchain_sessions import ANYONE

def identity(config):
    return config["configurable"].get("langgraph_auth_user_id") or ANYONE
"""
_FACTORY = "checkpointer_factory(DATABASE_URL, owner=identity)"
_COLUMNS = {"own": 0, "sqlite": 1, "postgres": 3}


def column(name: str, *, with_auth: bool) -> dict[str, str]:
    """What the page's table says of one configuration."""
    at = _COLUMNS[name] + (name != "own" and with_auth)
    return {route: cells.split(" | ")[at] for route, cells in _ROW.findall(PAGE.read_text())}


def drive_all(directory: Path, url: str, *, with_auth: bool, with_our_saver: bool = True) -> tuple[dict[str, str], str]:
    """What every route answers, and the thread that was talked in."""
    write_app(directory, with_auth=with_auth, with_our_saver=with_our_saver)
    with OpenAIStub(several_questions=True, allow_repeats=True) as stub:
        release = script(stub)
        with (
            running_server(directory, database_url=url, model_url=stub.base_url) as base,
            Drive(base, stub, release, "ada" if with_auth else None) as drive,
            Drive(base, stub, release, "grace" if with_auth else None) as other,
        ):
            found = drive_every_route(drive)
            if with_auth:
                assert drive.may_see(drive.thread)
                assert not other.may_see(drive.thread)
        assert stub.complaints == []
    return found, drive.thread


@pytest.mark.backends("sqlite", "postgres")
@pytest.mark.parametrize("auth", ["none", "auth"])
def test_item_1_every_route_of_the_server(backend: str, fresh_database_url: str, tmp_path: Path, auth: str) -> None:
    with_auth = auth == "auth"
    with SessionService(fresh_database_url) as sessions:
        sessions.create_schema()
    found, thread = drive_all(tmp_path, fresh_database_url, with_auth=with_auth)
    assert found == {name_of(step): "yes" for step in STEPS}
    assert found == column(backend, with_auth=with_auth), "the table of docs/langgraph-server.md says otherwise"
    with SessionService(fresh_database_url) as sessions:
        # Middleware and saver write one log: no message stands in it twice.
        said = [event.message for event in sessions.events(thread) if event.message is not None]
        assert len({message.id for message in said}) == len(said)
        assert sessions.verify(thread) == []
        assert sessions.get(thread).user_id is None
        # Runs without a thread of their own leave nothing behind.
        assert [s.id for s in sessions.list_sessions(limit=200) if "Just once." in _texts(sessions, s.id)] == []


@pytest.mark.backends("sqlite")
def test_item_1_threads_of_the_identity_are_searched_together(fresh_database_url: str, tmp_path: Path) -> None:
    write_app(tmp_path, with_auth=True)
    (tmp_path / "identity.py").write_text(_IDENTITY)
    database, agent = tmp_path / "database.py", tmp_path / "agent.py"
    owned = database.read_text().replace("(DATABASE_URL)\nmake", "(DATABASE_URL)\nfrom identity import identity\nmake")
    database.write_text(owned.replace("checkpointer_factory(DATABASE_URL)", _FACTORY))
    crossing = agent.read_text().replace("create_conversation_search_tool", "create_cross_session_search_tool")
    agent.write_text("from identity import identity\n" + crossing.replace('"ignore"', "identity"))
    with (
        OpenAIStub() as stub,
        running_server(tmp_path, database_url=fresh_database_url, model_url=stub.base_url) as base,
        Drive(base, stub, script(stub), "ada") as ada,
        Drive(base, stub, script(stub), "grace") as grace,
    ):
        stub.answers["Where is"] = call("cross_session_search", query="passport drawer")
        ada.ask("My passport is in the blue drawer.")
        assert ada.texts() == ["My passport is in the blue drawer.", "I will remember that."]
        found = {drive: drive.ask("Where is my passport?", drive.new_thread())["messages"][2] for drive in (ada, grace)}
        assert "blue drawer" in found[ada]["content"]
        assert "blue drawer" not in found[grace]["content"]
        with SessionService(fresh_database_url) as sessions:
            assert sessions.get(ada.thread).user_id == "ada"
            ada.client.threads.delete(ada.thread)
            with pytest.raises(SessionNotFoundError):
                sessions.get(ada.thread)


@pytest.mark.soak
def test_item_1_what_the_server_itself_supports(tmp_path: Path) -> None:
    """The first column of the table: the same with the saver that the server brings."""
    found, _ = drive_all(tmp_path, f"sqlite:///{tmp_path}/chat.db", with_auth=False, with_our_saver=False)
    expected = column("own", with_auth=False)
    assert {name: said if said == "yes" else "no" for name, said in found.items()} == expected


def _texts(sessions: SessionService, session_id: str) -> list[str]:
    return [str(message.text) for message in sessions.messages(session_id)]
