"""What a provider's client writes into a reply that only the same provider takes: thoughts, searches, code, signatures.

A session may be answered by one model today and by another tomorrow. What was written for another provider goes out as
what was said: its words, and its calls of tools. A reply for the provider that wrote it goes out as it is, but for
what that provider itself refuses, such as a search of its own that nobody finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.language_models import BaseChatModel

_CLIENT = "langchain_"
# What clients call those that their replies come from, where that is not the name of the client's package.
_OTHER_NAMES = {
    "azure": "openai",
    "google_genai": "google",
    "google_vertexai": "google",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "amazon_bedrock": "aws",
    "mistral": "mistralai",
}
# Who writes what, for replies that do not say who wrote them; what is nobody's own is LangChain's form of such parts.
_WRITERS = {
    **dict.fromkeys(("redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_result"), "anthropic"),
    **dict.fromkeys(("web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"), "anthropic"),
    **dict.fromkeys(("web_search_call", "file_search_call", "code_interpreter_call", "computer_call"), "openai"),
    **dict.fromkeys(("image_generation_call", "mcp_call", "mcp_list_tools", "mcp_approval_request"), "openai"),
    **dict.fromkeys(("custom_tool_call", "function_call", "refusal"), "openai"),
    **dict.fromkeys(("executable_code", "code_execution_result", "image", "image_url", "audio", "media"), "google"),
    **dict.fromkeys(("reasoning_content", "citations_content"), "aws"),
    "reference": "mistralai",
    **dict.fromkeys(("server_tool_call", "server_tool_result", "non_standard", "video", "file"), ""),
}
# What OpenAI's older protocol does not know.
_OF_RESPONSES = frozenset(
    ("compaction", *(kind for kind in _WRITERS if kind.endswith(("_call", "_tools", "_request"))))
)
_OPTIONS: Final = ("context_management", "include", "reasoning", "truncation", "use_previous_response_id")
# What its client leaves out by itself where it speaks the older one.
_LEFT_OUT: Final = frozenset({"function_call"})
_TEXTS = frozenset({"text", "output_text"})
_PICTURES = frozenset({"image", "image_url", "image_generation_call"})
_MEDIA = {**dict.fromkeys(_PICTURES, "image"), "audio": "audio", "video": "video", "file": "file", "media": "file"}
_RESPONSE = "id"
SPOKEN = frozenset({"audio", "refusal"})
"""What stands beside the content of a reply that was spoken, or refused."""


def as_read_by(
    reader: BaseChatModel | None, messages: Sequence[BaseMessage], tools: Sequence[object] = ()
) -> list[BaseMessage]:
    """Messages as the provider of a model takes what others and itself wrote; the same objects where it does.

    Args:
        reader: The model that is asked; None where nobody knows it.
        messages: A prompt or a part of it.
        tools: What goes out with it.
    """
    readers = _providers_of(reader)
    unknown = _unknown_to(reader, tools) if "openai" in readers else frozenset[str]()
    read = [_as_words(message) if _is_foreign(message, readers, unknown) else _in_text(message) for message in messages]
    return _without_open_ends(read)


def standing_alone(messages: Sequence[BaseMessage], going_on: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages without the names under which a provider keeps what led to its replies.

    What it keeps knows of no window, edit, rewind or summary, and of calls that nobody answered. Within the running
    turn it is what was shown just then.

    Args:
        messages: A prompt.
        going_on: Those of them that keep their names, unless they are said differently.
    """
    kept = {id(message) for message in going_on}
    return [
        message if id(message) in kept or _RESPONSE not in message.response_metadata else _unnamed(message)
        for message in messages
    ]


def _unnamed(message: BaseMessage) -> BaseMessage:
    about = {name: value for name, value in message.response_metadata.items() if name != _RESPONSE}
    return message.model_copy(update={"response_metadata": about})


def _providers_of(reader: BaseChatModel | None) -> frozenset[str]:
    """The providers that a client is of, by the packages that it is made in; none for a model of one's own."""
    packages = (kind.__module__.partition(".")[0] for kind in type(reader).__mro__)
    names = [package.removeprefix(_CLIENT) for package in packages if package.startswith(_CLIENT)]
    found = [_OTHER_NAMES.get(name, name) for name in names if name not in ("core", "sessions")]
    # Many speak OpenAI's protocol by its client, and know nothing else of it.
    return frozenset(found if found[:1] == ["openai"] else (name for name in found if name != "openai"))


def _unknown_to(reader: BaseChatModel | None, tools: Sequence[object]) -> frozenset[str]:
    """The kinds of OpenAI's own parts that a call by its client refuses: it chooses one of two protocols."""
    chosen = getattr(reader, "use_responses_api", None)
    if chosen is False:
        return _OF_RESPONSES
    # Where it is not told, the client takes the newer one for the tools that only that has, and for its options.
    is_newer = chosen is True or any(map(_is_of_newer, tools)) or any(getattr(reader, name, None) for name in _OPTIONS)
    return frozenset() if is_newer else _OF_RESPONSES - _LEFT_OUT


def _is_of_newer(tool: object) -> bool:
    if isinstance(tool, Mapping):
        return cast("Mapping[str, object]", tool).get("type", "function") != "function"
    about = getattr(tool, "metadata", None)
    return isinstance(about, Mapping) and cast("Mapping[str, object]", about).get("type") == "custom_tool"


def _is_foreign(message: BaseMessage, readers: frozenset[str], unknown: frozenset[str]) -> bool:
    if not readers or not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return False
    kinds = [str(block.get("type")) for block in _blocks_of(message)]
    if not unknown.isdisjoint(kinds):
        return True
    name = message.response_metadata.get("model_provider")
    if isinstance(name, str):
        return _OTHER_NAMES.get(name, name) not in readers
    return any(kind in _WRITERS and _WRITERS[kind] not in readers for kind in kinds)


def _as_words(message: BaseMessage) -> BaseMessage:
    """A reply as what was said in it: its calls stand beside."""
    content = cast("list[str | dict[str, Any]]", message.content)
    said = [text for block in content if (text := _said(block)).strip()]
    if content == [_text(text) for text in said] and not message.additional_kwargs:
        return message
    return message.model_copy(update={"content": [_text(text) for text in said], "additional_kwargs": {}})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _said(block: str | dict[str, Any]) -> str:
    """What a block of a reply says to people; empty where it is for machines."""
    if isinstance(block, str):
        return block
    kind = str(block.get("type"))
    if kind in _TEXTS or kind == "refusal":
        return str(block.get("text") or block.get("refusal") or "")
    if kind == "citations_content":  # Bedrock's
        held: Any = block.get(kind)
        parts: Any = held.get("content") if isinstance(held, dict) else None
        return "".join(str(part.get("text", "")) for part in parts or () if isinstance(part, dict))
    return f"[{_MEDIA[kind]} left out]" if kind in _MEDIA else ""


def _in_text(message: BaseMessage) -> BaseMessage:
    """A reply that was spoken, or a refusal, as text: the recording is kept for an hour by those who made it."""
    kwargs = message.additional_kwargs
    if not isinstance(message, AIMessage) or SPOKEN.isdisjoint(kwargs):
        return message
    audio, refusal = kwargs.get("audio"), kwargs.get("refusal")
    told = audio.get("transcript") if isinstance(audio, dict) else None
    left = {name: value for name, value in kwargs.items() if name not in SPOKEN}
    return message.model_copy(
        update={"content": message.content or str(told or refusal or ""), "additional_kwargs": left}
    )


def _without_open_ends(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Messages without tools of the provider's own that nobody finished, and without results of none.

    What somebody spoke behind goes no further: the provider refuses it. What is going on stays.
    """
    begun: dict[str, int] = {}
    ended: set[str] = set()
    for at, message in enumerate(messages):
        for block in _blocks_of(message):
            if (use := _use_of(block)) is not None:
                begun.setdefault(use, at)
            elif (result := _result_of(block)) is not None:
                ended.add(result)
    asked = max((at for at, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
    gone = {use for use, at in begun.items() if use not in ended and at < asked} | (ended - begun.keys())
    return [_without(message, gone) for message in messages] if gone else messages


def _blocks_of(message: BaseMessage) -> Iterator[dict[str, Any]]:
    if isinstance(message, AIMessage) and isinstance(message.content, list):
        yield from (block for block in message.content if isinstance(block, dict))


def _use_of(block: dict[str, Any]) -> str | None:
    """The id of a use of the provider's own tools; None where a block is none."""
    kind = str(block.get("type"))
    is_own = kind == "server_tool_call" or (kind.endswith("_tool_use") and kind != "tool_use")
    return str(block.get("id")) if is_own else None


def _result_of(block: dict[str, Any]) -> str | None:
    """The id of the use that a block is the result of; None where it is no result."""
    if not str(block.get("type")).endswith("_tool_result"):
        return None
    return str(block.get("tool_use_id") or block.get("tool_call_id"))


def _without(message: BaseMessage, gone: set[str]) -> BaseMessage:
    content: Any = message.content
    if not any(_use_of(block) in gone or _result_of(block) in gone for block in _blocks_of(message)):
        return message
    kept = [b for b in content if isinstance(b, str) or (_use_of(b) not in gone and _result_of(b) not in gone)]
    return message.model_copy(update={"content": kept})
