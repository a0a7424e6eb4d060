"""Conversations of ChatGPT, as its export has them."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from langchain_sessions._importing.trees import Tree, content_of, text_block, unknown, with_call, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_sessions._importing.values import SourceError

_ALL = "all"  # whom ChatGPT speaks to where it calls no tool
_POINTERS = {
    "image_asset_pointer": "image",
    "audio_asset_pointer": "audio",
    "video_container_asset_pointer": "video",
}
_WORDS = ("text", "result", "output_str", "content")
# Instructions of their author, which each conversation repeats, and what may be empty.
_SILENT = {"user_editable_context", "model_editable_context", "text", "multimodal_text", "code", "execution_output"}
_THOUGHTS = {"thoughts", "reasoning_recap"}
# As LangChain has what a developer says: its client of OpenAI reads this.
_OF_DEVELOPER = {"__openai_role__": "developer"}
_ROLES: Mapping[str, Callable[[Any], BaseMessage]] = {
    "user": HumanMessage,
    "system": SystemMessage,
    "developer": partial(SystemMessage, additional_kwargs=_OF_DEVELOPER),
}
_SPOKEN = "real_time_user_audio_video_asset_pointer"


def chatgpt_tree(element: Mapping[str, Any]) -> Tree:
    nodes: dict[str, Any] = element["mapping"]
    before = {name: node.get("parent") for name, node in nodes.items()}
    # A place tells in which order what follows it came; where it does not, the file's order does.
    told = [child for node in nodes.values() for child in _children(node) if child in nodes]
    first = [name for name, parent in before.items() if parent not in nodes]
    said = {name: nodes[name].get("message") for name in (*first, *told, *nodes)}
    return Tree(said, before, element.get("current_node"), _chatgpt_messages)


def _children(node: Mapping[str, Any]) -> list[str]:
    found = node.get("children")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _chatgpt_messages(said: Mapping[str, Any], so_far: Sequence[BaseMessage]) -> list[BaseMessage | SourceError]:
    role, content, kind = said["author"]["role"], said["content"], said["content"]["content_type"]
    blocks, problems = _chatgpt_blocks(content)
    if not blocks:
        return [*problems] if problems or kind in _SILENT else [unknown("kind", kind)]
    if role == "tool":
        return [*problems, *_chatgpt_results(said, content_of(blocks), so_far)]
    if role == "assistant":
        return [*problems, _chatgpt_answer(said, blocks)]
    made = _ROLES.get(str(role))
    return [*problems, unknown("author's role", role) if made is None else made(content_of(blocks))]


def _chatgpt_results(said: Mapping[str, Any], shown: Any, so_far: Sequence[BaseMessage]) -> list[BaseMessage]:
    tool = str(said["author"].get("name") or "tool")
    called = _open_call(so_far, tool)
    if called is not None:
        return [ToolMessage(shown, tool_call_id=called, name=tool)]
    # Browsing, say, goes on by itself.
    return with_call(ToolMessage(shown, tool_call_id=str(said["id"]), name=tool), tool)


def _chatgpt_answer(said: Mapping[str, Any], blocks: Sequence[dict[str, Any]]) -> AIMessage:
    """What was thought, or said to people, or to a tool."""
    if said["content"]["content_type"] in _THOUGHTS:
        return AIMessage("", additional_kwargs={"reasoning_content": words_of(blocks)})
    model = (said.get("metadata") or {}).get("model_slug")
    about = {"model_name": model} if isinstance(model, str) else {}
    tool = said.get("recipient") or _ALL
    if tool == _ALL:
        return AIMessage(content_of(blocks), response_metadata=about)
    call = tool_call(name=tool, args=_called_with(words_of(blocks)), id=str(said["id"]))
    beside: Any = [block for block in blocks if block["type"] != "text"]
    return AIMessage(beside or "", tool_calls=[call], response_metadata=about)


def _chatgpt_blocks(content: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[SourceError]]:
    """What a message says, in LangChain's blocks, and what of it cannot be read.

    What lies in a file of the export keeps its place there.
    """
    given: list[Any] = [*(content.get("parts") or ()), *(content.get(name) for name in _WORDS)]
    thoughts = content.get("thoughts") or ()
    given += ["\n".join(filter(None, [each.get("summary"), each.get("content")])) for each in thoughts]
    blocks: list[dict[str, Any]] = []
    problems: list[SourceError] = []
    for part in filter(None, given):
        words = [part] if isinstance(part, str) else _words_in(part)
        lies = _pointer_in(part)
        if any(map(str.strip, words)):
            blocks.append(text_block(next(filter(str.strip, words))))
        elif lies is not None:
            blocks.append(lies)
        elif not words:
            problems.append(unknown("part of the kind", _kind_of(part)))
    return blocks, problems


def _kind_of(part: Any) -> str:
    return str(part.get("content_type")) if isinstance(part, dict) else type(part).__name__


def _pointer_in(part: Any) -> dict[str, Any] | None:
    """A block that names where something lies in the export; None where a part is of nothing there."""
    held = part.get("audio_asset_pointer") if _kind_of(part) == _SPOKEN else part
    kind = _POINTERS.get(_kind_of(held))
    return {"type": kind, "url": held["asset_pointer"]} if kind and isinstance(held.get("asset_pointer"), str) else None


def _words_in(part: Any) -> list[str]:
    """The words of a part, which may be empty; none where it has no place for them."""
    found = (part.get(name) for name in _WORDS) if isinstance(part, dict) else ()
    return [words for words in found if isinstance(words, str)]


def _called_with(words: str) -> dict[str, Any]:
    try:
        found = json.loads(words)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"input": words}


def _open_call(so_far: Sequence[BaseMessage], tool: str) -> str | None:
    """The call that nobody answered yet, among those between the last results and now: of this tool before another."""
    answered, calls = set[str](), list[Any]()
    for message in reversed(so_far):
        if isinstance(message, HumanMessage) or (calls and isinstance(message, ToolMessage)):
            break
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls += message.tool_calls
    waiting = [call for call in reversed(calls) if call["id"] not in answered]
    mine = [call for call in waiting if call["name"] == tool]
    return next((str(call["id"]) for call in (*mine, *waiting)), None)
