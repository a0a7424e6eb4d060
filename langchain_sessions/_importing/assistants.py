"""Conversations that people had in ChatGPT and in Claude, as their exports have them: trees, each end one talk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from langchain_sessions._importing.values import BROKEN, History, SourceError
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_STRANGE = (ValueError, TypeError, KeyError, AttributeError, LookupError, OverflowError, OSError, RecursionError)
_ALL = "all"  # whom ChatGPT speaks to where it calls no tool
_POINTERS = {"image_asset_pointer": "image", "audio_asset_pointer": "audio"}
_WORDS = ("text", "result", "output_str", "content")
# Instructions of their author, which each conversation repeats, and what may be empty.
_SILENT = {"user_editable_context", "model_editable_context", "text", "multimodal_text", "code", "execution_output"}
_THOUGHTS = {"thoughts", "reasoning_recap"}
_SPOKEN = "real_time_user_audio_video_asset_pointer"


@dataclass(frozen=True, slots=True)
class _Tree:
    """A conversation in which some was asked or answered anew.

    Attributes:
        said: What was said, by its name; None where a place says nothing.
        before: The name of what stands before each.
        shown: The end that was looked at last.
        read: What makes messages of what was said, given those of them that stand before.
    """

    said: Mapping[str, Any]
    before: Mapping[str, str | None]
    shown: str | None
    read: Callable[[Mapping[str, Any], Sequence[BaseMessage]], list[BaseMessage]]

    def way_to(self, end: str) -> list[str]:
        """The names from the beginning to an end."""
        found: dict[str, None] = {}
        at: str | None = end
        while at is not None and at in self.said and at not in found:
            found[at] = None
            at = self.before.get(at)
        return list(reversed(found))

    def last_names(self) -> list[str]:
        """The names behind which nothing stands, the one that was looked at last first."""
        followed = set(self.before.values())
        ends = [name for name in self.said if name not in followed]
        if self.said and not ends:
            raise ValueError("what follows what goes round in a circle")
        # Who looked at something in the middle saw what stands behind it, or left it there.
        first = next((name for name in ends if self.shown in self.way_to(name)), None)
        if first is None:
            return [*ends[-1:], *ends[:-1]]
        return [first, *(name for name in ends if name != first)]

    def events(self, end: str) -> Iterator[NewEvent | SourceError]:
        """What was said on the way to an end."""
        so_far: list[BaseMessage] = []
        for name in self.way_to(end):
            if not (said := self.said[name]):
                continue
            try:
                at, messages = _moment(said), self.read(said, so_far)
            except SourceError as problem:
                yield SourceError(f"message {name}: {problem}")
                continue
            except _STRANGE:
                yield SourceError(f"message {name}: it is no message of this form")
                continue
            for nth, message in enumerate(messages):
                named = message.model_copy(update={"id": name if nth == 0 else f"{name}/{nth}"})
                so_far.append(named)
                yield NewEvent(message=named, timestamp=at)


def is_of_assistant(element: Any) -> bool:
    """Whether an element of a list is a conversation of such an export."""
    return isinstance(element, dict) and ("mapping" in element or "chat_messages" in element)


def assistant_histories(element: Any, name: str) -> Iterator[History]:
    """A conversation of an export, and each other end of it as one beside it.

    Args:
        element: The conversation.
        name: Its name, where it has none.
    """
    if isinstance(element, dict) and BROKEN in element:
        yield History(name, None, {}, iter([SourceError(element[BROKEN])]))
        return
    try:
        found = element.get("conversation_id") or element.get("id") or element.get("uuid") or name
        title = element.get("title") or element.get("name")
        tree = _of_chatgpt(element) if "mapping" in element else _of_claude(element)
        ends = tree.last_names()
    except _STRANGE:
        yield History(name, None, {}, iter([SourceError("it is no conversation of this form")]))
        return
    for at, end in enumerate(ends):
        session = str(found) if at == 0 else f"{found}/{end}"
        yield History(session, None, {}, tree.events(end), title if isinstance(title, str) else None)


def _moment(said: Mapping[str, Any]) -> datetime | None:
    at = said.get("create_time") or said.get("created_at")
    if isinstance(at, str):
        return datetime.fromisoformat(at.replace("Z", "+00:00"))
    return datetime.fromtimestamp(at, timezone.utc) if at else None


# -- ChatGPT ---------------------------------------------------------------------------------------------------


def _of_chatgpt(element: Mapping[str, Any]) -> _Tree:
    nodes: dict[str, Any] = element["mapping"]
    said = {name: node.get("message") for name, node in nodes.items()}
    before = {name: node.get("parent") for name, node in nodes.items()}
    return _Tree(said, before, element.get("current_node"), _chatgpt_messages)


def _chatgpt_messages(said: Mapping[str, Any], so_far: Sequence[BaseMessage]) -> list[BaseMessage]:
    role, content, kind = said["author"]["role"], said["content"], said["content"]["content_type"]
    blocks = _chatgpt_blocks(content)
    if not blocks:
        if kind not in _SILENT:
            raise SourceError(f"its kind {kind!r} is not known here")
        return []
    words = "\n".join(block.get("text", "") for block in blocks).strip()
    shown: Any = words if all(block["type"] == "text" for block in blocks) else blocks
    if role == "user":
        return [HumanMessage(shown)]
    if role == "system":
        return [SystemMessage(words)]
    if role == "tool":
        return _chatgpt_results(said, shown, so_far)
    if kind in _THOUGHTS:
        return [AIMessage("", additional_kwargs={"reasoning_content": words})]
    return [_chatgpt_answer(said, shown, words)]


def _chatgpt_results(said: Mapping[str, Any], shown: Any, so_far: Sequence[BaseMessage]) -> list[BaseMessage]:
    called, tool = _newest_call(so_far), str(said["author"].get("name") or "tool")
    if called is not None:
        return [ToolMessage(shown, tool_call_id=called, name=tool)]
    # Browsing, say, goes on by itself. A result of no call is shown to nobody, so it gets one.
    call = tool_call(name=tool, args={}, id=str(said["id"]))
    return [AIMessage("", tool_calls=[call]), ToolMessage(shown, tool_call_id=str(said["id"]), name=tool)]


def _chatgpt_answer(said: Mapping[str, Any], shown: Any, words: str) -> AIMessage:
    """What was said to people, or to a tool."""
    model = (said.get("metadata") or {}).get("model_slug")
    about = {"model_name": model} if model else {}
    tool = said.get("recipient") or _ALL
    if tool == _ALL:
        return AIMessage(shown, response_metadata=about)
    call = tool_call(name=tool, args=_called_with(words), id=str(said["id"]))
    return AIMessage("", tool_calls=[call], response_metadata=about)


def _chatgpt_blocks(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a message says, in LangChain's blocks; what lies in a file of the export keeps its place there."""
    given: list[Any] = [*(content.get("parts") or ()), *(content.get(name) for name in _WORDS)]
    given += [f"{each.get('summary', '')}\n{each.get('content', '')}" for each in content.get("thoughts") or ()]
    blocks: list[dict[str, Any]] = []
    for part in given:
        if isinstance(part, str):
            blocks += [{"type": "text", "text": part}] if part.strip() else []
        elif isinstance(part, dict) and (part.get("text") or "").strip():
            blocks.append({"type": "text", "text": part["text"]})
        elif isinstance(part, dict):
            held = part.get("audio_asset_pointer") or {} if part.get("content_type") == _SPOKEN else part
            kind = _POINTERS.get(str(held.get("content_type")))
            blocks += [{"type": kind, "url": held["asset_pointer"]}] if kind else []
    return blocks


def _called_with(words: str) -> dict[str, Any]:
    try:
        found = json.loads(words)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"input": words}


def _newest_call(so_far: Sequence[BaseMessage]) -> str | None:
    """The call that nobody answered yet."""
    for message in reversed(so_far):
        if isinstance(message, HumanMessage):
            return None
        if isinstance(message, AIMessage) and message.tool_calls:
            call = str(message.tool_calls[-1]["id"])
            answered = any(isinstance(each, ToolMessage) and each.tool_call_id == call for each in so_far)
            return None if answered else call
    return None


# -- Claude ----------------------------------------------------------------------------------------------------


def _of_claude(element: Mapping[str, Any]) -> _Tree:
    messages: list[Any] = element["chat_messages"]
    said = {str(each["uuid"]): each for each in messages}
    names = list(said)
    in_order: dict[str, str | None] = dict(zip(names, [None, *names], strict=False))
    # Older exports do not say what a message follows.
    before = {name: each.get("parent_message_uuid", in_order[name]) for name, each in said.items()}
    return _Tree(said, before, element.get("current_leaf_message_uuid"), _claude_messages)


def _claude_messages(said: Mapping[str, Any], _: Sequence[BaseMessage]) -> list[BaseMessage]:
    blocks: list[Any] = said.get("content") or [{"type": "text", "text": said.get("text") or ""}]
    if said["sender"] == "human":
        shown = [{"type": "text", "text": block["text"]} for block in blocks if block.get("text")]
        shown += [
            {"type": "text", "text": f"{each.get('file_name') or ''}\n{each['extracted_content']}"}
            for each in said.get("attachments") or ()
            if each.get("extracted_content")
        ]
        shown += [{"type": "file", "filename": str(each.get("file_name"))} for each in said.get("files") or ()]
        is_plain = len(shown) == 1 and shown[0]["type"] == "text"
        return [HumanMessage(shown[0]["text"] if is_plain else [*shown])] if shown else []
    return _claude_answer(blocks, str(said["uuid"]))


def _claude_answer(blocks: Sequence[Any], name: str) -> list[BaseMessage]:
    """What Claude said, called and was given: one message in an export, and several here."""
    found: list[BaseMessage] = []
    spoken, waiting = AIMessage(""), list[str]()
    for at, block in enumerate(blocks):
        kind = block.get("type")
        if kind == "text":
            spoken.content = "\n".join(filter(None, [str(spoken.content), block["text"]]))
        elif kind == "thinking":
            kept = spoken.additional_kwargs.get("reasoning_content") or ""
            spoken.additional_kwargs["reasoning_content"] = "\n".join(filter(None, [kept, block["thinking"]]))
        elif kind == "tool_use":
            call = tool_call(name=block["name"], args=block.get("input") or {}, id=block.get("id") or f"{name}:{at}")
            spoken.tool_calls.append(call)
            waiting.append(str(call["id"]))
        elif kind == "tool_result":
            if _says(spoken):
                found.append(spoken)
                spoken = AIMessage("")
            # Exports of some years do not say which call a result answers; it is the first that nobody did.
            told = block.get("tool_use_id")
            answered = str(told) if told in waiting or not waiting else waiting[0]
            waiting = [call for call in waiting if call != answered]
            found.append(ToolMessage(_given_back(block.get("content")), tool_call_id=answered))
    return [*found, spoken] if _says(spoken) else found


def _says(message: AIMessage) -> bool:
    return bool(message.content or message.tool_calls or message.additional_kwargs)


def _given_back(content: Any) -> str:
    """What a tool gave back, as text."""
    parts: list[Any] = content if isinstance(content, list) else [content]
    texts = [each.get("text") if isinstance(each, dict) else each for each in parts]
    known = [each for each in texts if isinstance(each, str)]
    return "\n".join(known) if len(known) == len(parts) else json.dumps(content, ensure_ascii=False)
