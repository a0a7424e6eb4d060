"""How late a web server's loop is while 200 chats stream: `python -m tests.servers run -- python -m benchmarks.sse`.

The server is the FastAPI example of the documentation, with a model that says twenty words in five seconds; a process
of its own talks to it as a browser does, three turns per chat. A task in the server's loop sleeps for 5 ms again and
again, and notes by how much it was late; beside it the same without memory. `--chats` and `--turns` change the load.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from fastapi.responses import StreamingResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from benchmarks.measure import memory_directory
from examples.fastapi_app import make_app
from tests.servers import databases
from tests.servers.environment import server_url
from tests.servers.machine import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from fastapi import FastAPI

WORDS, PAUSE, PROBE = 20, 0.25, 0.005


class Slow(BaseChatModel):
    """Answers as a model does: a word now and then."""

    @property
    def _llm_type(self) -> str:
        return "slow"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        del messages, args, options
        return ChatResult(generations=[ChatGeneration(message=AIMessage("word " * WORDS))])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        del messages, args, options
        for _ in range(WORDS):
            await asyncio.sleep(PAUSE)
            yield ChatGenerationChunk(message=AIMessageChunk("word "))


def without_memory() -> FastAPI:
    """The example's application, whose answers come from the model alone."""
    app, model = make_app("sqlite://", Slow()), Slow()
    app.router.routes = [each for each in app.router.routes if not getattr(each, "path", "").endswith("messages")]

    @app.post("/sessions/{session_id}/messages")
    async def ask(session_id: str) -> StreamingResponse:
        async def answer() -> AsyncIterator[str]:
            async for chunk in model.astream(session_id):
                yield f"data: {chunk.text}\n\n"

        return StreamingResponse(answer(), media_type="text/event-stream")

    return app


async def lateness(app: FastAPI, chats: int, turns: int) -> list[float]:
    """By how many milliseconds the loop was late, each time that it was asked, in order of size."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", timeout_keep_alive=300))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.05)
    command = [sys.executable, "-m", "benchmarks.sse", "--talk-to", str(port)]
    options = ["--chats", str(chats), "--turns", str(turns)]
    client = await asyncio.create_subprocess_exec(*command, *options)
    late: list[float] = []
    over = asyncio.create_task(client.wait())
    while not over.done():
        before = time.perf_counter()
        await asyncio.sleep(PROBE)
        late.append((time.perf_counter() - before - PROBE) * 1000)
    server.should_exit = True
    await serving
    if over.result():
        raise subprocess.CalledProcessError(over.result(), command)
    return sorted(late)


async def talk(port: int, chats: int, turns: int) -> None:
    """Be as many browsers, which come one after the other within the time of an answer."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=300, limits=limits) as client:

        async def chat(number: int) -> None:
            await asyncio.sleep(random.uniform(0, WORDS * PAUSE))  # noqa: S311 - no secret
            for turn in range(turns):
                headers = {"Authorization": f"Bearer user{number}"}
                path, question = f"/sessions/s{number}/messages", {"text": f"Question {turn}?"}
                async with client.stream("POST", path, json=question, headers=headers) as answer:
                    answer.raise_for_status()
                    count = 0
                    async for line in answer.aiter_lines():
                        count += line.startswith("data:")
                if count < WORDS:
                    message = f"{count} of {WORDS} words came"
                    raise RuntimeError(message)

        await asyncio.gather(*map(chat, range(chats)))


def _report(name: str, late: Sequence[float]) -> None:
    half, most, last = (late[int(len(late) * part)] for part in (0.5, 0.95, 0.99))
    print(f"{name:14}{half:10.2f}{most:10.2f}{last:10.2f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--talk-to", type=int, default=0, help="the port of a server: be its browsers")
    given = parser.parse_args()
    if given.talk_to:
        asyncio.run(talk(given.talk_to, given.chats, given.turns))
        return
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {given.chats} chats, milliseconds late\n")
    print(f"{'':14}{'p50':>10}{'p95':>10}{'p99':>10}")
    _report("no memory", asyncio.run(lateness(without_memory(), given.chats, given.turns)))
    with memory_directory() as directory:
        url = f"sqlite:///{directory / 'chat.db'}"
        _report("SQLite", asyncio.run(lateness(make_app(url, Slow()), given.chats, given.turns)))
    for backend, name in (("postgres", "PostgreSQL"), ("mariadb", "MariaDB")):
        server = server_url(backend)
        if server is None:
            continue
        url = databases.create_database(server, "sse")
        try:
            _report(name, asyncio.run(lateness(make_app(url, Slow()), given.chats, given.turns)))
        finally:
            databases.drop_database(url)


if __name__ == "__main__":
    main()
