"""What a model says to itself in a call of our tools: it is not stored with the message."""

from __future__ import annotations

import json
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

CONVERSATION_SEARCH: Final = "conversation_search"
CROSS_SESSION_SEARCH: Final = "cross_session_search"
PRIVATE_ARGUMENT: Final = "inner_thought"
_TOOLS: Final = frozenset({CONVERSATION_SEARCH, CROSS_SESSION_SEARCH})
_CALL_BLOCKS: Final = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta"})


def without_private(message: BaseMessage) -> BaseMessage:
    """The message without the private argument of its calls; itself where there is none."""
    if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
        return message
    calls = (*message.tool_calls, *message.invalid_tool_calls)
    if not any(call["name"] in _TOOLS for call in calls):
        return message
    content: Any = message.content
    return message.model_copy(
        update={
            "content": content if isinstance(content, str) else [_without(block) for block in content],
            "tool_calls": [_without(call) for call in message.tool_calls],
            "invalid_tool_calls": [_without(call) for call in message.invalid_tool_calls],
            "additional_kwargs": {name: _provided(value) for name, value in message.additional_kwargs.items()},
        }
    )


def _provided(value: Any) -> Any:
    """What a provider's own form of the calls repeats."""
    if isinstance(value, list):
        return [_provided(each) for each in value]
    if not isinstance(value, dict):
        return value
    inner = value.get("function")
    return {**value, "function": _without(inner)} if isinstance(inner, dict) else _without(value)


def without_private_argument(call: dict[str, Any]) -> dict[str, Any]:
    """A call of our tools without the argument; any other dict, and one that has none, is itself."""
    kept = _without(call)
    return call if kept == call else kept


def _without(call: Any) -> Any:
    """A call, a block or anything else; a call of our tools without the argument."""
    if not isinstance(call, dict) or call.get("type") not in (None, *_CALL_BLOCKS, "invalid_tool_call", "function"):
        return call
    if call.get("name") not in _TOOLS:
        return call
    return {name: _cut(value) if name in ("args", "input", "arguments") else value for name, value in call.items()}


def _cut(arguments: Any) -> Any:
    if isinstance(arguments, dict):
        return {name: value for name, value in arguments.items() if name != PRIVATE_ARGUMENT}
    if not isinstance(arguments, str) or PRIVATE_ARGUMENT not in arguments:
        return arguments
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return ""  # cut off in the middle of it, perhaps
    return json.dumps(_cut(parsed), ensure_ascii=False) if isinstance(parsed, dict) else ""
