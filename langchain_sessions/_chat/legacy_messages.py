"""Messages of kinds that only some clients know, as those that all do."""

from __future__ import annotations

import json
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    ToolMessage,
)

_ASSISTANTS = frozenset({"assistant", "ai", "model", "bot", "chatbot"})
# Functions had no ids: a result answers the call before it, which the renaming of ids keeps together.
_FUNCTION = "call_function"


def of_known_kind(message: BaseMessage) -> BaseMessage:
    """A message that is of none of the kinds that all clients know, or calls a function, as one of them.

    The call of a function, as OpenAI had them before tools, and its result are those of a tool.
    """
    if isinstance(message, AIMessage):
        return _with_call(message)
    if isinstance(message, FunctionMessage):
        return ToolMessage(message.content, tool_call_id=_FUNCTION, name=message.name, id=message.id)
    role = message.role.lower() if isinstance(message, ChatMessage) else message.type
    speaks = AIMessage if role in _ASSISTANTS else HumanMessage
    return speaks(message.content, name=message.name, id=message.id)


def _with_call(message: AIMessage) -> AIMessage:
    kwargs = {name: value for name, value in message.additional_kwargs.items() if name != "function_call"}
    call = message.additional_kwargs["function_call"]
    if message.tool_calls or message.invalid_tool_calls or not isinstance(call, dict):
        return message.model_copy(update={"additional_kwargs": kwargs})
    given = cast("dict[str, Any]", call)
    asked: dict[str, Any] = {
        "name": str(given.get("name") or ""),
        "args": _args(given.get("arguments")),
        "id": _FUNCTION,
    }
    calls = [{**asked, "type": "tool_call"}]
    return message.model_copy(update={"additional_kwargs": kwargs, "tool_calls": calls})


def _args(given: object) -> dict[str, Any]:
    try:
        value = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
