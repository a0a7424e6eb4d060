"""The contract of a token counter, and how a message is priced once a text can be counted.

The frame of a message follows OpenAI's published recipe, as `ChatOpenAI.get_num_tokens_from_messages`
applies it; other providers differ by a few tokens a message, which calibration learns.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_sessions._core.edge import require

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

Tool: TypeAlias = "dict[str, Any] | type | Callable[..., Any] | BaseTool"
"""Whatever `bind_tools` takes: a schema, a tool, a function, a pydantic model."""

_FRAME = 4  # <start>, role, separator, <end>
_NAME = 1
_CALL_ID = 3
_REPLY = 3  # every reply is primed with the opening of an assistant message

_IMAGES = frozenset({"image", "image_url", "input_image"})
_FILES = frozenset({"audio", "input_audio", "video", "file", "input_file", "document", "media"})
_CALLS = frozenset({"tool_call", "tool_call_chunk", "tool_use", "function_call"})
# Never shown to a model as text: bytes, provider bookkeeping, signatures.
_HIDDEN = frozenset({"base64", "data", "file_data", "signature", "encrypted_content", "extras", "id", "index"})


@dataclass(frozen=True, kw_only=True)
class MediaCosts:
    """What is charged for content that is not text, whatever its length in bytes.

    Attributes:
        image: Tokens per image; 85 is OpenAI's price at low detail.
        file: Tokens per audio clip, video or document that carries no text of its own.
    """

    image: int = 85
    file: int = 500

    def __post_init__(self) -> None:
        """Refuse negative prices."""
        require(self.image >= 0, "image", "must not be negative")
        require(self.file >= 0, "file", "must not be negative")


@dataclass(frozen=True, kw_only=True)
class TokenTotal:
    """What one model call would send.

    Attributes:
        tokens: The whole prompt, reply priming included.
        messages: The part of the messages.
        system: The part of the system prompt that was passed beside the messages.
        tools: The part of the tool schemas.
        exact: Whether every text was counted with a vocabulary. The frame of a message, media
            and tool schemas follow fixed rules either way.
    """

    tokens: int
    messages: int
    system: int
    tools: int
    exact: bool


class TokenCounter(Protocol):
    """Anything that counts tokens: pure, thread-safe, free of I/O once constructed.

    To write one, subclass `TextCounter`: it needs `exact` and `count_text` only.
    """

    @property
    def exact(self) -> bool:
        """Whether `count_text` is the count of a real vocabulary rather than an estimate."""
        ...

    def count_text(self, text: str) -> int:
        """Count a bare text; 0 for the empty one, never negative."""
        ...

    def count_message(self, message: BaseMessage) -> int:
        """Count one message with its frame, name, calls and media; additive over a prompt."""
        ...

    def count_messages(
        self,
        messages: Iterable[BaseMessage],
        *,
        system: str | SystemMessage | None = None,
        tools: Sequence[Tool] = (),
    ) -> TokenTotal:
        """Count a whole prompt: the sum of its messages, system prompt, tools and reply priming."""
        ...


class TextCounter(ABC):
    """A `TokenCounter` made from a way to count texts."""

    def __init__(self, *, media: MediaCosts | None = None) -> None:
        """Price media as `media` says, by default an image at 85 tokens and a file at 500."""
        self._media = media or MediaCosts()

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether `count_text` is the count of a real vocabulary rather than an estimate."""

    @abstractmethod
    def count_text(self, text: str) -> int:
        """Count a bare text; 0 for the empty one, never negative."""

    def count_message(self, message: BaseMessage) -> int:
        """Count one message with its frame, name, calls and media; additive over a prompt."""
        content = message.content
        count = _FRAME
        if isinstance(content, str):
            count += self.count_text(content)
        else:
            has_calls = isinstance(message, AIMessage) and bool(message.tool_calls or message.invalid_tool_calls)
            count += sum(map(self._price, _content_parts(content, skip_calls=has_calls)))
        if message.name:
            count += self.count_text(message.name) + _NAME
        if isinstance(message, AIMessage):
            count += sum(map(self.count_text, _call_texts(message)))
        elif isinstance(message, ToolMessage):
            count += _CALL_ID
        return count

    def count_messages(
        self,
        messages: Iterable[BaseMessage],
        *,
        system: str | SystemMessage | None = None,
        tools: Sequence[Tool] = (),
    ) -> TokenTotal:
        """Count a whole prompt: the sum of its messages, system prompt, tools and reply priming.

        Tools are counted as the compact JSON of their OpenAI schema. Converting a `BaseTool` costs
        far more than counting it: pass the converted dict where the same tools are counted often.
        """
        of_messages = sum(map(self.count_message, messages))
        if isinstance(system, str):
            of_system = self.count_text(system) + _FRAME
        else:
            of_system = 0 if system is None else self.count_message(system)
        of_tools = sum(self.count_text(_compact(_schema_of(tool))) for tool in tools)
        return TokenTotal(
            tokens=of_messages + of_system + of_tools + _REPLY,
            messages=of_messages,
            system=of_system,
            tools=of_tools,
            exact=self.exact,
        )

    def _price(self, part: str | _Media) -> int:
        if isinstance(part, str):
            return self.count_text(part)
        return self._media.image if part.is_image else self._media.file


@dataclass(frozen=True)
class _Media:
    is_image: bool


_IMAGE = _Media(is_image=True)
_FILE = _Media(is_image=False)


def _content_parts(content: Iterable[str | dict[str, Any]], *, skip_calls: bool) -> Iterator[str | _Media]:
    for block in content:
        if isinstance(block, str):
            yield block
        elif not (skip_calls and block.get("type") in _CALLS):
            yield from _block_parts(block)


def _block_parts(block: Mapping[str, Any]) -> Iterator[str | _Media]:
    kind = block.get("type")
    text = block.get("text")
    if kind in _IMAGES:
        yield _IMAGE
    elif isinstance(text, str):
        yield text
    elif kind in _FILES or kind == "text-plain":
        yield _FILE
    elif kind in ("reasoning", "thinking") and isinstance(thought := block.get(kind), str):
        yield thought
    elif kind == "tool_result":
        yield from _value_parts(block.get("content"))
    else:
        yield from _value_parts({key: value for key, value in block.items() if key != "type"})


def _value_parts(value: object) -> Iterator[str | _Media]:
    """Walk a block of unknown shape: what can be text counts as text, bytes never do."""
    if isinstance(value, str):
        yield _FILE if value.startswith("data:") and ";base64," in value[:128] else value
    elif isinstance(value, Mapping):
        block = cast("Mapping[str, Any]", value)
        if "type" in block:
            yield from _block_parts(block)
            return
        for key, item in block.items():
            if key not in _HIDDEN:
                yield str(key)
                yield from _value_parts(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value):
            yield from _value_parts(item)
    elif value is not None and not isinstance(value, (bytes, bytearray)):
        yield str(value)


def _call_texts(message: AIMessage) -> Iterator[str]:
    for call in message.tool_calls:
        yield call["name"]
        yield json.dumps(call["args"], ensure_ascii=False, default=str)
    for broken in message.invalid_tool_calls:
        yield broken["name"] or ""
        yield broken["args"] or ""
    legacy = message.additional_kwargs.get("function_call")
    if isinstance(legacy, dict) and not message.tool_calls:
        asked = cast("dict[str, object]", legacy)
        yield str(asked.get("name") or "")
        yield str(asked.get("arguments") or "")


def _is_schema(tool: Tool) -> TypeGuard[dict[str, Any]]:
    return isinstance(tool, dict)


def _schema_of(tool: Tool) -> dict[str, Any]:
    if _is_schema(tool):
        return tool
    # The schema machinery of pydantic is not needed to count messages.
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415

    return convert_to_openai_tool(tool)


def _compact(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"), default=str)
