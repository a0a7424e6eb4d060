"""What the strictest providers demand of a prompt."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]


def from_chat(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of a chat completions request."""
    return [dict(message) for message in body["messages"]]


def from_responses(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a responses request as chat messages."""
    given = body["input"]
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    found: list[dict[str, Any]] = []
    if body.get("instructions"):
        found.append({"role": "system", "content": body["instructions"]})
    for item in given:
        kind = item.get("type", "message")
        if kind == "function_call":
            asked = {"id": item["call_id"], "function": {"name": item["name"], "arguments": item["arguments"]}}
            if found and found[-1]["role"] == "assistant" and not found[-1].get("answered"):
                found[-1].setdefault("tool_calls", []).append(asked)
            else:
                found.append({"role": "assistant", "content": "", "tool_calls": [asked]})
        elif kind == "function_call_output":
            found[-1]["answered"] = True
            found.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"], "answered": True})
        elif kind == "message":
            found.append({"role": item["role"], "content": item["content"]})
    return found


def text_of(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text", "")) for block in content or () if isinstance(block, Mapping))


def violations(messages: Sequence[Message], *, several_questions: bool = False) -> list[str]:
    """Every rule that a prompt breaks; none is what all providers accept."""
    return [
        *_system_rules(messages),
        *_order_rules(messages, several_questions=several_questions),
        *_pair_rules(messages),
        *_repetitions(messages),
    ]


def _system_rules(messages: Sequence[Message]) -> Iterator[str]:
    places = [at for at, message in enumerate(messages) if message["role"] in ("system", "developer")]
    if places not in ([], [0]):
        yield f"system messages at {places}, not one block first"


def _order_rules(messages: Sequence[Message], *, several_questions: bool) -> Iterator[str]:
    spoken = [message for message in messages if message["role"] not in ("system", "developer")]
    if not spoken:
        yield "no message but the system prompt"
        return
    if spoken[0]["role"] != "user":
        yield f"begins with {spoken[0]['role']}"
    if spoken[-1]["role"] not in ("user", "tool"):
        yield f"ends with {spoken[-1]['role']}"
    for before, after in itertools.pairwise(spoken):
        pair = (before["role"], after["role"])
        if pair == ("user", "user") and several_questions:
            continue
        if pair in {("user", "user"), ("assistant", "assistant"), ("user", "tool"), ("tool", "user")}:
            yield f"{pair[0]} is followed by {pair[1]}"


def _pair_rules(messages: Sequence[Message]) -> Iterator[str]:
    awaited: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] in awaited:
                awaited.remove(message["tool_call_id"])
            else:
                yield f"result {message['tool_call_id']} at {at} does not follow its call"
            continue
        if awaited:
            yield f"calls {awaited} before {at} have no result"
        awaited = [call["id"] for call in message.get("tool_calls") or ()]
    if awaited:
        yield f"calls {awaited} have no result"


def _repetitions(messages: Sequence[Message]) -> Iterator[str]:
    """Tests say each thing once, so a text that comes twice was injected twice."""
    seen: set[tuple[str, str]] = set()
    for message in messages:
        text = text_of(message.get("content"))
        key = (message["role"], text)
        if text and message["role"] in ("user", "assistant") and key in seen:
            yield f"{message['role']} message occurs twice: {text[:40]!r}"
        seen.add(key)


def system_quotes(messages: Sequence[Message], said: Iterable[str]) -> list[str]:
    """What users said that stands in a system message."""
    system = "\n".join(text_of(m.get("content")) for m in messages if m["role"] in ("system", "developer"))
    return [text for text in said if len(text.strip()) > 3 and text in system]
