"""Chat completions: what a reply looks like on the wire."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from tests.openai_stub.replies import Call, CallTools, Cut, Fill, Hold, Reply, Say, Truncated

if TYPE_CHECKING:
    from collections.abc import Iterator

_ids = itertools.count(1)


def as_words(text: str) -> list[str]:
    """A text in the pieces that a stream delivers."""
    words = text.split(" ")
    return [word if at == 0 else f" {word}" for at, word in enumerate(words)]


def call_id(call: Call) -> str:
    """The id of a call, made up where the script names none."""
    return call.id or f"call_{next(_ids)}"


def shape(body: dict[str, Any], reply: Reply) -> tuple[str, list[dict[str, Any]]]:
    """The text and the tool calls of a reply to a request."""
    if isinstance(reply, (Say, Cut, Hold, Truncated)):
        return reply.text, []
    if isinstance(reply, CallTools):
        return reply.text, [_call(call.tool, call.args, call_id(call)) for call in reply.calls]
    assert isinstance(reply, Fill)
    tools = [tool for tool in body.get("tools", ()) if tool["type"] == "function"]
    if tools and body.get("tool_choice") not in (None, "none", "auto"):
        name = tools[0].get("function", tools[0])["name"]
        return "", [_call(name, reply.value, f"call_{next(_ids)}")]
    return json.dumps(reply.value), []


def _call(name: str, args: dict[str, Any], id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}


def usage(body: dict[str, Any], text: str) -> dict[str, Any]:
    """A plausible bill."""
    prompt, answer = len(json.dumps(body.get("messages") or body.get("input"))) // 4, len(text) // 4 + 1
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _bill(body: dict[str, Any], reply: Reply, text: str) -> dict[str, Any]:
    if not isinstance(reply, Truncated):
        return usage(body, text)
    spent = reply.input_tokens + reply.output_tokens
    return {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens, "total_tokens": spent}


def _reason(reply: Reply, calls: list[dict[str, Any]]) -> str:
    if isinstance(reply, Truncated):
        return "length"
    return "tool_calls" if calls else "stop"


def whole(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """The answer in one piece."""
    text, calls = shape(body, reply)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _reason(reply, calls), "logprobs": None}
    return {
        "id": f"chatcmpl-{next(_ids)}",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": _bill(body, reply, text),
    }


def stream(body: dict[str, Any], reply: Reply) -> Iterator[str]:
    """The answer as server-sent events."""
    text, calls = shape(body, reply)
    head = {"id": f"chatcmpl-{next(_ids)}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def event(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return "data: " + json.dumps({**head, "choices": [choice]})

    yield event({"role": "assistant", "content": ""})
    for word in as_words(text) if text else ():
        yield event({"content": word})
    for at, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        first = {**call, "index": at, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield event({"tool_calls": [first]})
        for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield event({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    yield event({}, _reason(reply, calls))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield "data: " + json.dumps({**head, "choices": [], "usage": _bill(body, reply, text)})
    yield "data: [DONE]"
