"""LangGraph's server as a process of its own, with the configuration that docs/langgraph-server.md shows."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "langgraph-server.md"
_FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_JSON = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What the page leaves to the reader: a model. Here it is a strict one on this machine.
_MODEL = """
import os
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="gpt-4o-mini", base_url=os.environ["MODEL_URL"], api_key="none", max_retries=0)
"""
_PATIENCE = 300.0


def write_app(directory: Path, *, with_auth: bool, with_our_saver: bool = True) -> None:
    """The files of the page; without what a configuration leaves out."""
    text = PAGE.read_text()
    config = json.loads(_JSON.findall(text)[0])
    if not with_auth:
        del config["auth"]
    if not with_our_saver:
        del config["checkpointer"]
    (directory / "langgraph.json").write_text(json.dumps(config))
    (directory / "chat_model.py").write_text(_MODEL)
    for name, code in _FILE.findall(text):
        (directory / name).write_text(code)


@contextmanager
def running_server(directory: Path, *, database_url: str, model_url: str) -> Iterator[str]:
    """`langgraph dev` in a directory; its address. What it said stands in `server.log`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = str(Path(sys.executable).with_name("langgraph"))
    options = ["--no-browser", "--no-reload", "--n-jobs-per-worker", "8", "--port", str(port)]
    environment = {
        **os.environ,
        "DATABASE_URL": database_url,
        "MODEL_URL": model_url,
        "PYTHONPATH": str(ROOT),
        "LANGSMITH_TRACING": "false",
        "NO_COLOR": "1",
    }
    with (directory / "server.log").open("wb") as log:
        server = subprocess.Popen(  # noqa: S603 - our own documentation
            [program, "dev", *options], cwd=directory, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}", server, directory / "server.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        if _answers(f"{url}/ok"):
            return
        time.sleep(0.1)
    raise RuntimeError(f"The server did not start:\n{log.read_text()[-4000:]}")


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False
