"""Conversations of Claude, as its export has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call

from langchain_sessions._importing.trees import Tree, text_block, unknown, with_call
from langchain_sessions._importing.values import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SAYS_NOTHING = {"text", "thinking", "token_budget"}


def claude_tree(element: Mapping[str, Any]) -> Tree:
    messages: list[Any] = element["chat_messages"]
    said = {str(each["uuid"]): each for each in messages}
    names = list(said)
    in_order: dict[str, str | None] = dict(zip(names, [None, *names], strict=False))
    # Older exports do not say what a message follows.
    before = {name: each.get("parent_message_uuid", in_order[name]) for name, each in said.items()}
    return Tree(said, before, element.get("current_leaf_message_uuid"), _claude_messages)


def _claude_messages(said: Mapping[str, Any], _: Sequence[BaseMessage]) -> list[BaseMessage | SourceError]:
    blocks: list[Any] = said.get("content") or []
    if all(block.get("type") == "text" and not block.get("text") for block in blocks):
        blocks = [text_block(said.get("text") or "")]
    if said["sender"] == "human":
        return _claude_question(said, blocks)
    if said["sender"] != "assistant":
        return [unknown("author's role", said["sender"])]
    return _ClaudeAnswer(str(said["uuid"])).read(blocks)


def _claude_question(said: Mapping[str, Any], blocks: Sequence[Any]) -> list[BaseMessage | SourceError]:
    shown = [text_block(block["text"]) for block in blocks if block.get("text")]
    problems = [_unasked(block) for block in blocks if not block.get("text") and _is_unknown(block)]
    shown += [
        text_block(f"{each.get('file_name') or ''}\n{each['extracted_content']}")
        for each in said.get("attachments") or ()
        if each.get("extracted_content")
    ]
    for each in said.get("files") or ():
        shown.append({"type": "file", "filename": str(each.get("file_name") or "file")})
    is_plain = len(shown) == 1 and shown[0]["type"] == "text"
    return [*problems, *([HumanMessage(shown[0]["text"] if is_plain else [*shown])] if shown else [])]


def _is_unknown(block: Mapping[str, Any]) -> bool:
    return str(block.get("type")) not in _SAYS_NOTHING


def _unasked(block: Mapping[str, Any]) -> SourceError:
    return unknown("part of the kind", block.get("type"))


class _ClaudeAnswer:
    """What Claude said, called and was given: one message in an export, and several here."""

    def __init__(self, name: str) -> None:
        """Read the message of a name."""
        self._name = name
        self._found: list[BaseMessage | SourceError] = []
        self._waiting: list[str] = []
        self._said: list[str] = []
        self._thought: list[str] = []
        self._calls: list[ToolCall] = []

    def read(self, blocks: Sequence[Any]) -> list[BaseMessage | SourceError]:
        """The messages of its blocks, and what of them cannot be read."""
        for at, block in enumerate(blocks):
            kind, own = block.get("type"), f"{self._name}:{at}"
            if kind == "thinking":
                self._thought += filter(None, [block["thinking"]])
            elif kind == "tool_use":
                self._call(block, own)
            elif kind == "tool_result":
                self._result(block, own)
            elif (words := block.get("text")) and isinstance(words, str):
                self._said.append(words)
            elif words or _is_unknown(block):
                self._found.append(_unasked(block))
        self._speak()
        return self._found

    def _call(self, block: Mapping[str, Any], own: str) -> None:
        name, given = block.get("name"), block.get("input") or {}
        if not name or not isinstance(name, str):
            self._found.append(SourceError("a call in it names no tool"))
            return
        call = tool_call(
            name=name, args=given if isinstance(given, dict) else {"input": given}, id=str(block.get("id") or own)
        )
        self._calls.append(call)
        self._waiting.append(str(call["id"]))

    def _result(self, block: Mapping[str, Any], own: str) -> None:
        self._speak()
        given, tool = _given_back(block.get("content")), str(block.get("name") or "tool")
        if not self._waiting:
            self._found += with_call(ToolMessage(given, tool_call_id=own), tool)
            return
        # Exports of some years do not say which call a result answers; it is the first that nobody did.
        told = str(block.get("tool_use_id"))
        answered = told if told in self._waiting else self._waiting[0]
        self._waiting.remove(answered)
        self._found.append(ToolMessage(given, tool_call_id=answered))

    def _speak(self) -> None:
        """Make a message of what was said since the last one."""
        about = {"reasoning_content": "\n".join(self._thought)} if self._thought else {}
        if self._said or self._calls or about:
            self._found.append(AIMessage("\n".join(self._said), tool_calls=self._calls, additional_kwargs=about))
        self._said, self._thought, self._calls = [], [], []


def _given_back(content: Any) -> str:
    """What a tool gave back, as text."""
    parts: list[Any] = content if isinstance(content, list) else [content]
    texts = [each.get("text") if isinstance(each, dict) else each for each in parts]
    known = [each for each in texts if isinstance(each, str)]
    return "\n".join(known) if len(known) == len(parts) else json.dumps(content, ensure_ascii=False)
