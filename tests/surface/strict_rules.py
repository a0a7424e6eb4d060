"""What five providers demand of a prompt, by their published rules and their clients' ways; and a model that insists.

Anthropic's and Bedrock's clients for LangChain join messages of one role in a row and put results into a user's turn,
so their rules are applied to that; the others send each message as it is.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_core.messages import ToolCall

Messages = "Sequence[BaseMessage]"
MOST_NESTED = 100
TEXTS = ("text", "input_text", "output_text")
MEDIA = (
    *("image", "image_url", "file", "input_audio", "video_url", "audio_url", "input_video", "text-plain"),
    *("input_image", "video", "audio"),
)
THOUGHTS = ("thinking", "reasoning", "redacted_thinking")
ROLES = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}


def role(message: BaseMessage) -> str:
    return next((name for kind, name in ROLES.items() if isinstance(message, kind)), message.type)


def calls(message: BaseMessage) -> list[ToolCall]:
    """What a client sends as calls; malformed ones go out too."""
    if not isinstance(message, AIMessage):
        return []
    broken: list[Any] = [{**call, "args": {}} for call in message.invalid_tool_calls]
    return [*message.tool_calls, *broken]


def blocks(message: BaseMessage) -> list[Any]:
    content = message.content
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def text_of(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    is_text = block.get("type") in TEXTS or ("type" not in block and "text" in block)
    return str(block.get("text") or "") if is_text else None


# -- what all demand -------------------------------------------------------------------------------------------


def _whole(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """HTTP clients encode what they send."""
    for at, message in enumerate(messages):
        sent = [message.content, message.name, calls(message), getattr(message, "tool_call_id", None)]
        if re.search("[\ud800-\udfff]", json.dumps(sent, ensure_ascii=False)):
            yield f"message {at} cannot be encoded"


def _media(messages: Sequence[BaseMessage]) -> Iterator[str]:
    for at, message in enumerate(messages):
        for block in blocks(message):
            if isinstance(block, dict) and block.get("type") in MEDIA:
                inner = block.get(block["type"])
                address = block.get("url") or (inner.get("url") if isinstance(inner, dict) else inner)
                if address and re.match(r"(https?|gs|s3)://\w|data:[^,]*,.", str(address), re.IGNORECASE):
                    continue
                if not address and any(block.get(key) for key in ("base64", "file_id", "data", "text")):
                    continue
                yield f"message {at}: media that nobody can fetch"


def _known(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Clients know four kinds of messages, and leave thoughts out or send them as nothing."""
    for at, message in enumerate(messages):
        if not isinstance(message, (HumanMessage, AIMessage, ToolMessage, SystemMessage)):
            yield f"message {at} is of a kind that clients refuse"
        said = [block for block in blocks(message) if not (isinstance(block, dict) and block.get("type") in THOUGHTS)]
        if blocks(message) and not said and not calls(message):
            yield f"message {at} has nothing but thoughts"


def _written(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """What is asked goes out as JSON, which has no infinite numbers and no bytes."""
    sent = [(calls(message), [b for b in blocks(message) if text_of(b) is not None]) for message in messages]
    try:
        json.dumps(sent, allow_nan=False)
    except (ValueError, TypeError) as error:
        yield f"cannot be written as JSON: {error}"


def _blocks_of_calls(messages: Sequence[BaseMessage]) -> Iterator[str]:
    for at, message in enumerate(messages):
        asked = [call["id"] for call in calls(message)]
        held = [b for b in blocks(message) if isinstance(b, dict) and b.get("type") in ("tool_use", "function_call")]
        if any(block.get("call_id", block.get("id")) not in asked for block in held):
            yield f"message {at} has a block of a call that nobody answers"
        if "function_call" in message.additional_kwargs:
            yield f"message {at} calls a function that nobody answers"


def _read(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """What was found by what the clients make of random logs: each refuses one of these."""
    for at, message in enumerate(messages):
        held = [block for block in blocks(message) if isinstance(block, dict)]
        if any(block.get("type") in TEXTS[1:] for block in held):
            yield f"message {at} has words under a name of OpenAI alone"
        made = [
            (b["type"], b.get("call_id", b.get("id"))) for b in held if b.get("type") in ("tool_use", "function_call")
        ]
        if len(set(made)) < len(made):
            yield f"message {at} holds a call twice"
        if role(message) == "assistant" and not calls(message) and held and held[-1].get("type") in THOUGHTS:
            yield f"message {at} ends with a thought"


def _paired(messages: Sequence[BaseMessage]) -> Iterator[str]:
    awaited: list[str | None] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id in awaited:
                awaited.remove(message.tool_call_id)
            else:
                yield f"result {at} does not follow its call"
            continue
        if awaited:
            yield f"calls {awaited} before {at} have no result"
        awaited = [call["id"] for call in calls(message)]
    if awaited:
        yield f"calls {awaited} have no result"


def _named(messages: Sequence[BaseMessage], pattern: str) -> Iterator[str]:
    seen: set[str] = set()
    for message in messages:
        for call in calls(message):
            if not re.fullmatch(pattern, call["id"] or ""):
                yield f"call id {call['id']!r} does not match {pattern}"
            if call["id"] in seen:
                yield f"call id {call['id']!r} twice"
            seen.add(call["id"] or "")


def _names(message: BaseMessage) -> Iterator[str]:
    """Every name that a client may send with a message: of the speaker, of tools, of the copies of calls."""
    yield from [] if message.name is None else [message.name]
    yield from (call["name"] or "" for call in calls(message))
    for block in blocks(message):
        if isinstance(block, dict) and block.get("type") in ("tool_use", "function_call", "tool_call"):
            yield block.get("name") or ""
    for call in message.additional_kwargs.get("tool_calls") or []:
        yield call["function"].get("name") or ""


def _deep(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Encoders and servers give up at some depth; protocol buffers do at a hundred."""
    for at, message in enumerate(messages):
        if any(_depth(call["args"]) > MOST_NESTED for call in calls(message)):
            yield f"the arguments of message {at} nest too deeply"


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        inside = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in inside for part in parts]
        depth += 1
    return depth


def _system_first(messages: Sequence[BaseMessage]) -> Iterator[str]:
    if any(isinstance(message, SystemMessage) for message in messages[1:]):
        yield "a system message that is not first"


# -- by provider -----------------------------------------------------------------------------------------------


def openai(messages: Sequence[BaseMessage]) -> Iterator[str]:
    yield from _named(messages, r".{1,40}")
    for at, message in enumerate(messages):
        for name in _names(message):
            if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", name):
                yield f"the name {name!r} in message {at} does not match"
    for at, message in enumerate(messages):
        if not blocks(message) and not calls(message):
            yield f"message {at} has no content"


def anthropic(messages: Sequence[BaseMessage]) -> Iterator[str]:
    yield from _named(messages, r"[a-zA-Z0-9_-]+")
    yield from _joined_rules(messages)
    for at, message in enumerate(messages):
        for block in blocks(message):
            text = text_of(block)
            if text is not None and not text.strip():
                yield f"message {at}: text content blocks must contain non-whitespace text"


def bedrock(messages: Sequence[BaseMessage]) -> Iterator[str]:
    yield from _named(messages, r"[a-zA-Z0-9_-]{1,64}")
    yield from _joined_rules(messages)
    for at, message in enumerate(messages):
        if any(text is not None and not text.strip() for text in map(text_of, blocks(message))):
            yield f"message {at}: the text field is blank"


def _joined_rules(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """The conversation starts with the user, alternates, says something in each turn, and ends with the user."""
    spoken = [message for message in messages if not isinstance(message, SystemMessage)]
    turns = [
        (name, list(group))
        for name, group in itertools.groupby(spoken, lambda m: "user" if role(m) == "tool" else role(m))
    ]
    if [name for name, _ in turns[:1]] != ["user"]:
        yield "does not start with the user"
    if [name for name, _ in turns[-1:]] != ["user"]:
        yield "does not end with the user"
    for name, group in turns:
        if not any(blocks(message) or calls(message) or role(message) == "tool" for message in group):
            yield f"a turn of {name} without content"


def gemini(messages: Sequence[BaseMessage]) -> Iterator[str]:
    spoken = [message for message in messages if not isinstance(message, SystemMessage)]
    if not spoken or role(spoken[0]) != "user":
        yield "contents do not begin with the user"
    if not spoken or role(spoken[-1]) not in ("user", "tool"):
        yield "contents do not end with the user or a response"
    for before, after in itertools.pairwise(spoken):
        if calls(after) and role(before) not in ("user", "tool"):
            yield "a function call turn that follows neither a user turn nor a function response turn"
    for at, message in enumerate(spoken):
        if not blocks(message) and not calls(message):
            yield f"message {at} has no parts"


def mistral(messages: Sequence[BaseMessage]) -> Iterator[str]:
    spoken = [message for message in messages if not isinstance(message, SystemMessage)]
    if not spoken or role(spoken[-1]) not in ("user", "tool"):
        yield "expected last role user or tool"
    for before, after in itertools.pairwise(spoken):
        pair = (role(before), role(after))
        if pair in {("tool", "user"), ("user", "tool"), ("assistant", "assistant")}:
            yield f"unexpected role {pair[1]} after {pair[0]}"
    for message in spoken:
        if (
            role(message) == "assistant"
            and not calls(message)
            and not str(message.text).strip()
            and not blocks(message)
        ):
            yield "assistant message must have either content or tool_calls"


PROVIDERS: dict[str, Callable[[Sequence[BaseMessage]], Iterator[str]]] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "mistral": mistral,
    "bedrock": bedrock,
}
_ALL = (_known, _read, _written, _whole, _media, _paired, _blocks_of_calls, _system_first, _deep)


def violations(messages: Sequence[BaseMessage]) -> list[str]:
    """Every rule of every provider that a prompt breaks."""
    found = [f"all: {line}" for rule in _ALL for line in rule(messages)]
    return found + [f"{name}: {line}" for name, rule in PROVIDERS.items() for line in rule(messages)]


class InsistingModel(BaseChatModel):
    """A model that refuses a prompt which any of the five would refuse."""

    seen: list[Any] = []  # noqa: RUF012 - a field of pydantic, copied for each model

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        broken = violations(messages)
        if broken:
            raise AssertionError(broken)
        self.seen.append(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("yes"))])

    @property
    def _llm_type(self) -> str:
        return "insisting"
