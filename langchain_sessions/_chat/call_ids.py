"""Ids of tool calls that no provider refuses: each names one call of the prompt, in letters that all take.

Local servers number the calls of each reply from 0, and some give no ids at all, so two turns of one conversation
have calls of the same name. The log keeps what was said; in the copy for a prompt calls and results are renamed in
pairs. The first call of an id keeps it, and the new ids follow from the old, so that a prompt's beginning stays the
same from turn to turn.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_TAKEN_BY_ALL = re.compile(r"[A-Za-z0-9_-]{1,40}")  # Anthropic and Bedrock say the letters, OpenAI the length
_BLOCKS = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "function_call"})


def is_taken_by_all(call_id: str | None) -> bool:
    """Whether every provider takes an id."""
    return bool(call_id) and _TAKEN_BY_ALL.fullmatch(call_id or "") is not None


def rename_calls(messages: Sequence[BaseMessage], taken: Iterable[str] = ()) -> Sequence[BaseMessage]:
    """The messages with ids of calls that all providers take; the same object where that is so already.

    Args:
        messages: A prompt or a part of it.
        taken: Ids that stand elsewhere in the prompt.
    """
    renaming = _Renaming(set(taken))
    renamed = [renaming.apply(message) for message in messages]
    return renamed if renaming.changed else messages


class _Renaming:
    """The ids so far, and which calls still wait for a result."""

    def __init__(self, taken: set[str]) -> None:
        self.changed = False
        self._taken = taken
        self._uses: dict[str, int] = {}
        # By the old id the new ones of each message that asked, as far as they are not answered.
        self._open: dict[str, list[list[str]]] = {}

    def apply(self, message: BaseMessage) -> BaseMessage:
        if isinstance(message, AIMessage):
            return self._asked(message)
        return self._answered(message) if isinstance(message, ToolMessage) else message

    def _asked(self, message: AIMessage) -> AIMessage:
        calls = (*message.tool_calls, *message.invalid_tool_calls)
        if not calls:
            return message
        new: dict[str, list[str]] = {}
        for call in calls:
            old = call["id"] or ""
            new.setdefault(old, []).append(self._name(old))
        for old, ids in new.items():
            self._open.setdefault(old, []).append(list(ids))
        if all(ids == [old] for old, ids in new.items()):
            return message
        self.changed = True
        return _with_ids(message, new)

    def _answered(self, message: ToolMessage) -> ToolMessage:
        groups = self._open.get(message.tool_call_id)
        if not groups:
            return message  # answers nothing: left out where calls and results are paired
        # The nearest message that asked under this id, its calls in order.
        new = groups[-1].pop(0)
        if not groups[-1]:
            groups.pop()
        if new == message.tool_call_id:
            return message
        self.changed = True
        return message.model_copy(update={"tool_call_id": new})

    def _name(self, old: str) -> str:
        new = old
        while new in self._taken or not is_taken_by_all(new):
            uses = self._uses[old] = self._uses.get(old, 0) + 1
            seed = f"{old}\0{uses}".encode("utf-8", "surrogatepass")
            new = f"call_{hashlib.sha256(seed).hexdigest()[:24]}"
        self._taken.add(new)
        return new


def _with_ids(message: AIMessage, new: dict[str, list[str]]) -> AIMessage:
    """A copy whose calls have new ids, wherever a message repeats them."""

    def namer() -> Callable[[str | None], str]:
        left = {old: list(ids) for old, ids in new.items()}

        def name(old: str | None) -> str:
            ids = left.get(old or "")
            # The last one again where another form of the same call follows.
            return str(old) if not ids else ids.pop(0) if len(ids) > 1 else ids[0]

        return name

    calls, blocks, raw = namer(), namer(), namer()
    changes: dict[str, Any] = {
        "tool_calls": [{**call, "id": calls(call["id"])} for call in message.tool_calls],
        "invalid_tool_calls": [{**call, "id": calls(call["id"])} for call in message.invalid_tool_calls],
    }
    if isinstance(message.content, list):
        changes["content"] = [_renamed_block(block, blocks) for block in message.content]
    given = message.additional_kwargs.get("tool_calls")
    if isinstance(given, list):
        renamed = [{**call, "id": raw(call.get("id"))} for call in cast("list[dict[str, Any]]", given)]
        changes["additional_kwargs"] = {**message.additional_kwargs, "tool_calls": renamed}
    return message.model_copy(update=changes)


def _renamed_block(block: str | dict[Any, Any], name: Callable[[str | None], str]) -> str | dict[Any, Any]:
    if isinstance(block, str) or str(block.get("type")) not in _BLOCKS:
        return block
    # OpenAI's items have an id of their own beside that of the call.
    key = "call_id" if "call_id" in block else "id"
    if not isinstance(block.get(key), (str, type(None))):
        return block
    return {**block, key: name(block.get(key))}
