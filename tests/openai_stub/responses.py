"""The responses API: what a reply looks like on the wire."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from tests.openai_stub.chat import as_words, shape, usage
from tests.openai_stub.replies import Truncated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.openai_stub.replies import Reply

_ids = itertools.count(1)


def _items(body: dict[str, Any], reply: Reply) -> tuple[str, list[dict[str, Any]]]:
    text, calls = shape(body, reply)
    items: list[dict[str, Any]] = []
    if text:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{next(_ids)}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    items += [
        {
            "type": "function_call",
            "id": f"fc_{next(_ids)}",
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
            "status": "completed",
        }
        for call in calls
    ]
    return text, items


def _document(body: dict[str, Any], text: str, items: list[dict[str, Any]], status: str) -> dict[str, Any]:
    bill = usage(body, text)
    return {
        "id": f"resp_{next(_ids)}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": body["model"],
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": bill["prompt_tokens"],
            "output_tokens": bill["completion_tokens"],
            "total_tokens": bill["total_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def whole(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """The answer in one piece."""
    text, items = _items(body, reply)
    if not isinstance(reply, Truncated):
        return _document(body, text, items, "completed")
    return {**_document(body, text, items, "incomplete"), "incomplete_details": {"reason": "max_output_tokens"}}


def stream(body: dict[str, Any], reply: Reply) -> Iterator[str]:
    """The answer as server-sent events."""
    text, items = _items(body, reply)
    numbers = itertools.count()

    def event(kind: str, **fields: Any) -> str:
        data = {"type": kind, "sequence_number": next(numbers), **fields}
        return f"event: {kind}\ndata: {json.dumps(data)}"

    yield event("response.created", response=_document(body, "", [], "in_progress"))
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        if item["type"] == "message":
            part = item["content"][0]
            yield event("response.output_item.added", output_index=at, item={**item, "content": []})
            yield event("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
            for word in as_words(text):
                yield event("response.output_text.delta", **place, content_index=0, delta=word, logprobs=[])
            yield event("response.output_text.done", **place, content_index=0, text=text, logprobs=[])
            yield event("response.content_part.done", **place, content_index=0, part=part)
        else:
            yield event("response.output_item.added", output_index=at, item={**item, "arguments": ""})
            yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"])
        yield event("response.output_item.done", output_index=at, item=item)
    yield event("response.completed", response=_document(body, text, items, "completed"))
