"""The server: records what comes in, checks it, and answers from a script."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.openai_stub import chat, responses, rules
from tests.openai_stub.replies import Cut, Fail, Hold, Overflow, Refuse, Reply, Say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

_PATIENCE = 20.0


@dataclass(frozen=True)
class Recorded:
    """One request that came in."""

    path: str
    body: dict[str, Any]
    messages: list[dict[str, Any]]

    @property
    def roles(self) -> list[str]:
        """Who speaks, in order."""
        return [message["role"] for message in self.messages]

    @property
    def texts(self) -> list[str]:
        """The texts, in order."""
        return [rules.text_of(message.get("content")) for message in self.messages]


@dataclass
class OpenAIStub:
    """A provider on this machine. Use as a context manager.

    Attributes:
        requests: Everything that came in.
        complaints: Every rule that some request broke.
        several_questions: Allow user messages in a row.
        may_quote: Allow that system messages quote users; tests then look at the fences themselves.
        allow_repeats: Allow the same text twice.
        answers: What to answer to a question that holds a text, whenever it comes.
    """

    requests: list[Recorded] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    several_questions: bool = False
    may_quote: bool = False
    allow_repeats: bool = False
    answers: dict[str, Reply] = field(default_factory=dict[str, Reply])
    _script: deque[Reply] = field(default_factory=deque)
    _said: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        """Start to listen."""
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        """Where a client finds it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def script(self, *replies: Reply | str) -> None:
        """Answer the next requests so, one each."""
        self._script.extend(Say(reply) if isinstance(reply, str) else reply for reply in replies)

    @property
    def last(self) -> Recorded:
        """The newest request."""
        return self.requests[-1]

    def receive(self, path: str, body: dict[str, Any]) -> Reply:
        """Record and check a request; the answer to give."""
        with self._lock:
            messages = rules.from_responses(body) if path.endswith("/responses") else rules.from_chat(body)
            found = rules.violations(messages, several_questions=self.several_questions)
            if self.allow_repeats:
                found = [line for line in found if "occurs twice" not in line]
            if not self.may_quote:
                found += [
                    f"a system message quotes {text[:40]!r}" for text in rules.system_quotes(messages, self._said)
                ]
            self._said |= {rules.text_of(m.get("content")) for m in messages if m["role"] == "user"}
            self.requests.append(Recorded(path, body, messages))
            self.complaints += [f"request {len(self.requests)}: {line}" for line in found]
            asked = rules.text_of(messages[-1].get("content")) if messages and messages[-1]["role"] == "user" else ""
            for text, answer in self.answers.items():
                if text in asked:
                    return answer
            return self._script.popleft() if self._script else Say(f"reply {len(self.requests)}")


class _Handler(BaseHTTPRequestHandler):
    owner: OpenAIStub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.owner.receive(self.path, body)
        self.close_connection = True
        try:
            self._answer(body, reply, responses if self.path.endswith("/responses") else chat)
        except (BrokenPipeError, ConnectionResetError):
            return  # the reader left

    def _answer(self, body: dict[str, Any], reply: Reply, protocol: Any) -> None:
        if isinstance(reply, Overflow):
            message = "This model's maximum context length is 1000 tokens. However, your messages resulted in more."
            self._error(400, "context_length_exceeded", message)
        elif isinstance(reply, Fail):
            self._error(reply.status, reply.code, "Try again later.")
        elif isinstance(reply, Refuse):
            self._send(reply.status, reply.body if isinstance(reply.body, str) else json.dumps(reply.body))
        elif body.get("stream"):
            self._stream(protocol.stream(body, reply), reply)
        else:
            if isinstance(reply, Hold):
                reply.release.wait(_PATIENCE)
            if isinstance(reply, Cut):
                self.connection.close()
                return
            self._json(200, protocol.whole(body, reply))

    def _stream(self, events: Iterator[str], reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for at, event in enumerate(events):
            if isinstance(reply, Cut) and at == reply.after:
                self.wfile.flush()
                self.connection.close()
                return
            if isinstance(reply, Hold) and at == reply.after:
                self.wfile.flush()
                reply.release.wait(_PATIENCE)
            data = f"{event}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _error(self, status: int, code: str, message: str) -> None:
        self._json(
            status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
        )

    def _json(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document))

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if text.startswith(("{", "[")) else "text/html")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Stay quiet."""
