"""The web application of the how-to, served on a socket and asked by a client that reads a stream."""

from __future__ import annotations

import importlib.util
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.language_models import FakeListChatModel

uvicorn = pytest.importorskip("uvicorn", reason="the example needs fastapi and uvicorn")
pytest.importorskip("fastapi", reason="the example needs fastapi and uvicorn")

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ADA, GRACE = ({"Authorization": f"Bearer {name}"} for name in ("ada", "grace"))


@pytest.fixture
def client(fresh_database_url: str) -> Iterator[httpx.Client]:
    """A client of the application, which runs on a loop of its own."""
    spec = importlib.util.spec_from_file_location("fastapi_app", ROOT / "examples" / "fastapi_app.py")
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model = FakeListChatModel(responses=["Noted.", "In the blue drawer."], sleep=0.02)
    app = example.make_app(fresh_database_url, model)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as made:
        yield made
    server.should_exit = True
    thread.join()


def ask(client: httpx.Client, text: str, session: str = "s1", who: dict[str, str] = ADA) -> tuple[int, str]:
    with client.stream("POST", f"/sessions/{session}/messages", json={"text": text}, headers=who) as answer:
        lines = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")]
        return len(lines), "".join(line["text"] for line in lines)


@pytest.mark.backends("sqlite", "postgres")
def test_the_example_streams_remembers_and_keeps_users_apart(client: httpx.Client) -> None:
    assert ask(client, "My passport is in the blue drawer.") == (len("Noted."), "Noted.")
    chunks, answer = ask(client, "Where is my passport?")
    assert (chunks, answer) == (len(answer), "In the blue drawer.")
    said = client.get("/sessions/s1/messages", headers=ADA).json()
    assert [line["type"] for line in said] == ["human", "ai"] * 2
    assert client.get("/search", params={"q": "passport"}, headers=ADA).json()[0]["session"] == "s1"
    assert [each["id"] for each in client.get("/sessions", headers=ADA).json()["sessions"]] == ["s1"]

    assert client.get("/sessions").status_code == 401
    assert client.get("/sessions/s1/messages", headers=GRACE).status_code == 404
    assert client.post("/sessions/s1/messages", json={"text": "Let me in."}, headers=GRACE).status_code == 404
    assert client.get("/search", params={"q": "passport"}, headers=GRACE).json() == []
    assert client.get("/sessions", headers=GRACE).json()["sessions"] == []
    assert client.delete("/sessions/s1", headers=GRACE).json() == {"deleted": False}
    assert client.delete("/sessions/s1", headers=ADA).json() == {"deleted": True}


@pytest.mark.backends("sqlite", "postgres")
@pytest.mark.timeout(60)
def test_a_tab_that_is_closed_keeps_the_question_and_what_was_answered(client: httpx.Client) -> None:
    ask(client, "Hello.", "s2")
    with client.stream("POST", "/sessions/s2/messages", json={"text": "Where is it?"}, headers=ADA) as answer:
        next(answer.iter_lines())
    said: list[dict[str, str]] = []
    while len(said) < 4:
        time.sleep(0.05)
        said = client.get("/sessions/s2/messages", headers=ADA).json()
    assert said[2] == {"type": "human", "text": "Where is it?"}
    assert "In the blue drawer.".startswith(said[3]["text"])
    assert len(said[3]["text"]) < len("In the blue drawer.")
    assert ask(client, "Go on.", "s2")[1]
