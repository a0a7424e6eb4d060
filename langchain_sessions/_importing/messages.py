"""Messages of other libraries' forms, as LangChain's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    messages_from_dict,
)
from langchain_core.messages.tool import tool_call

from langchain_sessions._core.codec.values import unpack
from langchain_sessions._importing.media import adk_block, openai_block
from langchain_sessions._importing.undecoded import NotDecodedError, UndecodedSerializer
from langchain_sessions._importing.values import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SEALED = "__enc__"
_RESULT = {"call_id", "output"}
_SHOWN = ("input_text", "input_image", "input_file", "computer_screenshot")
"""What a tool can show a model; a tool of the application may give back other things that name a type."""
_STRANGE = (ValueError, TypeError, KeyError, AttributeError, LookupError, NotImplementedError, RecursionError)


def read_with(convert: Callable[[Any], BaseMessage], value: Any) -> BaseMessage:
    """A message by one of the functions below.

    Raises:
        SourceError: It is none.
    """
    try:
        given = json.loads(value) if isinstance(value, (str, bytes)) else value
        return convert(given)
    except (*_STRANGE, NotDecodedError) as error:
        raise SourceError("it is no message of this form") from error


def langchain_message(value: Mapping[str, Any]) -> BaseMessage:
    """What `message_to_dict` or LangChain's `dumpd` wrote."""
    if "lc" in value:
        return _checked(UndecodedSerializer().loads_typed(("json", json.dumps(value).encode())))
    return messages_from_dict([dict(value)])[0]


def exported_message(value: Mapping[str, Any]) -> BaseMessage:
    """What our own export wrote."""
    return langchain_message(unpack(value))


def openai_message(value: Mapping[str, Any]) -> BaseMessage:
    """One message of OpenAI's chat format; a call whose arguments are none is kept as such."""
    whole: list[Any] = []
    broken: list[InvalidToolCall] = []
    for call in value.get("tool_calls") or ():
        function = call.get("function", {})
        given = function.get("arguments")
        if _arguments(given) is None:
            broken.append(_malformed(call.get("id"), function.get("name"), given))
        else:
            # LangChain reads no call whose arguments are an empty text, as some clients write for none.
            whole.append({**call, "function": {**function, "arguments": given or "{}"}} if function else call)
    if not whole and not broken:
        return convert_to_messages([dict(value)])[0]
    content = value.get("content") or ""
    said = convert_to_messages([{**value, "tool_calls": whole or None, "content": content}])[0]
    return said.model_copy(update={"invalid_tool_calls": broken}) if broken else said


def _arguments(given: Any) -> dict[str, Any] | None:
    """The arguments of a call; None where what a model wrote for them is none."""
    if given is None or given == "":
        return {}
    try:
        found = json.loads(given, strict=False) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _malformed(call_id: Any, name: Any, args: Any) -> InvalidToolCall:
    problem = "its arguments are no object of JSON"
    return InvalidToolCall(type="invalid_tool_call", id=call_id, name=name, args=str(args), error=problem)


def agents_message(item: Mapping[str, Any]) -> BaseMessage:
    """One item of OpenAI's responses format, as the agents library stores it."""
    if _SEALED in item:
        raise SourceError("it is encrypted, by the library's EncryptedSession: store it without that first")
    kind, name = str(item.get("type") or "message"), item.get("id")
    if kind in {"function_call", "custom_tool_call"}:
        return _agents_call(item, name)
    if kind.endswith("_call_output") and _RESULT.issubset(item):
        # Which tool of OpenAI's a result is of says its client by this; of functions nothing has to be said.
        about = {key: held for key, held in item.items() if key not in _RESULT and key != "id"}
        about = {} if kind == "function_call_output" else about
        return ToolMessage(_agents_output(item["output"]), tool_call_id=item["call_id"], additional_kwargs=about)
    if kind != "message":
        return AIMessage([dict(item)], id=name)
    content = _agents_content(item["content"])
    role = item["role"]
    if role == "user":
        return HumanMessage(content, id=name)
    return AIMessage(content, id=name) if role == "assistant" else SystemMessage(content, id=name)


def _agents_call(item: Mapping[str, Any], name: str | None) -> AIMessage:
    if item["type"] == "custom_tool_call":
        # As OpenAI's client has it: the input has no other name.
        call = tool_call(name=item["name"], args={"__arg1": item["input"]}, id=item["call_id"])
        return AIMessage([dict(item)], id=name, tool_calls=[call])
    args = _arguments(item["arguments"])
    if args is None:
        broken = _malformed(item["call_id"], item["name"], item["arguments"])
        return AIMessage("", id=name, invalid_tool_calls=[broken])
    return AIMessage("", id=name, tool_calls=[tool_call(name=item["name"], args=args, id=item["call_id"])])


def _agents_output(output: Any) -> Any:
    """What a tool gave back: words, or what it shows."""
    parts = [output] if isinstance(output, dict) else output
    is_shown = isinstance(parts, list) and all(isinstance(part, dict) and part.get("type") in _SHOWN for part in parts)
    if parts and is_shown:
        return _agents_content(parts)
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _agents_content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    blocks = list(map(openai_block, content))
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0].get("type") == "text" else blocks


def adk_message(content: Mapping[str, Any], author: str | None) -> list[BaseMessage]:
    """The messages of one event of Google's ADK: a result stands for itself, all else is one message."""
    parts = content.get("parts") or []
    said = [str(part["text"]) for part in parts if part.get("text") and not part.get("thought")]
    calls = [call for part in parts if (call := part.get("function_call"))]
    results = [result for part in parts if (result := part.get("function_response"))]
    other = [adk_block(part) for part in parts if not {"text", "function_call", "function_response"} & part.keys()]
    thought = "\n".join(str(part["text"]) for part in parts if part.get("text") and part.get("thought"))
    found: list[BaseMessage] = [
        ToolMessage(
            _adk_output(result),
            tool_call_id=str(result.get("id") or result["name"]),
            name=result["name"],
        )
        for result in results
    ]
    text: Any = "\n".join(said)
    if other:
        text = [*({"type": "text", "text": each} for each in said), *other]
    if author == "user" or content.get("role") == "user":
        return [*found, HumanMessage(text)] if said or other else found
    if not said and not calls and not other and not thought:
        return found
    made = [
        {"id": str(call.get("id") or call["name"]), "name": call["name"], "args": call.get("args") or {}}
        for call in calls
    ]
    # Where LangChain looks for a thought, and no client sends it to a provider that would refuse another one's.
    kwargs = {"reasoning_content": thought} if thought else {}
    return [
        *found,
        AIMessage(text, additional_kwargs=kwargs, tool_calls=[{**call, "type": "tool_call"} for call in made]),
    ]


def _adk_output(result: Mapping[str, Any]) -> Any:
    """What a tool gave back, with what it shows beside."""
    text, shown = json.dumps(result.get("response"), ensure_ascii=False), result.get("parts")
    return [{"type": "text", "text": text}, *map(adk_block, shown)] if shown else text


def _checked(value: Any) -> BaseMessage:
    if not isinstance(value, BaseMessage):
        raise SourceError("it is no message of this form")
    return value
