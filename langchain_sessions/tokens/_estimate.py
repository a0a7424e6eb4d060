"""What a message costs once a text can be counted, and an estimate of that from the shape of a text.

The frame of a message follows OpenAI's published recipe, as `ChatOpenAI.get_num_tokens_from_messages`
applies it; other providers differ by a few tokens a message, which calibration learns.

A byte-pair vocabulary cuts a text in ways that depend on the script: about one token per short
English word, one per group of digits, around one per Han character. So every character is mapped
to a one-byte class (for other scripts the lead byte of its UTF-8 form tells the script), and the
classes and their borders are counted. All passes run in C; there is no loop over characters.

What each costs in which vocabulary is in `_weights`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions._core.edge import require
from langchain_sessions.tokens._base import MediaCosts, TokenTotal, Tool
from langchain_sessions.tokens._weights import (
    ACCENTED,
    ARABIC,
    CYRILLIC,
    EMOJI,
    EXTENDED,
    GREEK,
    HAN,
    HANGUL,
    HEBREW,
    INDIC,
    KANA,
    SYMBOL,
    WEIGHTS,
    WIDE,
    Vocabulary,
    Weights,
)

_FRAME = 4  # <start>, role, separator, <end>
_NAME = 1
_CALL_ID = 3
_MOST_TEXTS = 4_096
_REPLY = 3  # every reply is primed with the opening of an assistant message

_MAX_PRINTED = 10_000
"""The codec keeps so many characters of what has no form of its own."""

_IMAGES = frozenset({"image", "image_url", "input_image"})
_FILES = frozenset({"audio", "input_audio", "video", "file", "input_file", "document", "media"})
_CALLS = frozenset({"tool_call", "tool_call_chunk", "tool_use", "function_call"})
# Never shown to a model as text: bytes, provider bookkeeping, signatures.
_HIDDEN = frozenset({"base64", "data", "file_data", "signature", "encrypted_content", "extras", "id", "index"})


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
        if type(message) is HumanMessage and isinstance(content, str) and not message.name:
            return _FRAME + self.count_text(content)  # nearly every question
        count = _FRAME
        if isinstance(content, str):
            count += self.count_text(content)
        else:
            has_calls = isinstance(message, AIMessage) and bool(message.tool_calls or message.invalid_tool_calls)
            count += sum(map(self._price, _all_parts(content, skip_calls=has_calls)))
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


class RememberingCounter(TextCounter):
    """Counts as another one does, and remembers what texts count for: a prompt is mostly the one before."""

    def __init__(self, counter: TextCounter) -> None:
        """Nothing was counted yet."""
        super().__init__(media=counter._media)  # noqa: SLF001 - another counter of texts
        self._texts = counter
        self._known: dict[tuple[int, int], int] = {}

    @property
    def exact(self) -> bool:
        """As that counter is."""
        return self._texts.exact

    def count_text(self, text: str) -> int:
        """Count a bare text, the same one once."""
        known, key = self._known, (hash(text), len(text))
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST_TEXTS:
                known.clear()
            found = known[key] = self._texts.count_text(text)
        return found


@dataclass(frozen=True)
class _Media:
    is_image: bool


_IMAGE = _Media(is_image=True)
_FILE = _Media(is_image=False)


def holds_media(content: Iterable[str | dict[str, Any]]) -> bool:
    """Whether some part of a content is priced by the piece and not by its text."""
    return any(isinstance(part, _Media) for part in _all_parts(content, skip_calls=True))


def _all_parts(content: Iterable[str | dict[str, Any]], *, skip_calls: bool) -> list[str | _Media]:
    """`_content_parts`; of blocks that cannot be walked, such as one that is in itself, their text as it is stored."""
    try:
        return list(_content_parts(content, skip_calls=skip_calls))
    except Exception:  # noqa: BLE001 - whatever an object raises that is asked for its text
        return [_printed(content)]


def _printed(value: object) -> str:
    try:
        return str(value)[:_MAX_PRINTED]
    except Exception:  # noqa: BLE001 - as above
        return ""


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
        try:
            yield json.dumps(call["args"], ensure_ascii=False, default=str)
        except Exception:  # noqa: BLE001 - keys that JSON does not know, a list in itself, an object that raises
            yield _printed(call["args"])
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


# Lead bytes of UTF-8 up to and including the first number, from the previous one on.
_LEADS = (
    (0xC2, SYMBOL),
    (0xCD, ACCENTED),
    (0xCF, GREEK),
    (0xD3, CYRILLIC),
    (0xD7, HEBREW),
    (0xDF, ARABIC),
    (0xE0, INDIC),
    (0xE1, EXTENDED),
    (0xE2, SYMBOL),
    (0xE3, KANA),
    (0xE9, HAN),
    (0xED, HANGUL),
    (0xEE, SYMBOL),
    (0xEF, WIDE),
    (0xFF, EMOJI),
)

_UPPER, _MARK, _DIGIT, _NEWLINE = b"A.0\n"  # numbers: bytes are looked for several times as long
_FIRST_NOT_ASCII = 0x80
_FOUR = 4


def _class_of(byte: int) -> int:
    char = chr(byte)
    if byte >= _FIRST_NOT_ASCII:
        return next(kind for last, kind in _LEADS if byte <= last)[0]
    if char.isalpha():
        return ord("A" if char.isupper() else "a")
    if char.isdigit():
        return ord("0")
    if char == "\n":
        return ord("\n")
    return ord(" " if char.isspace() else ".")


_CLASSES = bytes(map(_class_of, range(256)))
_CONTINUATION = bytes(range(_FIRST_NOT_ASCII, 0xC0))
_START = b"\0\1"  # in a mask: the first character of a run


def _mask(*classes: bytes) -> bytes:
    """Make the translation that turns these classes into 1 and all others into 0."""
    return bytes(bytes([byte]) in classes for byte in range(256))


_LETTERS = _mask(b"a", b"A", ACCENTED, EXTENDED)
_DIGITS = _mask(b"0")
_MASKS = {script: _mask(script) for _, script in _LEADS}


class EstimatedTokenCounter(TextCounter):
    """Counts by the shape of the text: no vocabulary, no dependency, microseconds per message.

    On English chat, program text, JSON, Chinese and mixtures of them the error over a few thousand
    tokens is within 10 %, mostly 3 %; `benchmarks/tokens.py` prints the table. A single short text,
    random data or a language that the vocabulary knows badly can be further off.

    Args:
        vocabulary: Whose counts to estimate: `o200k_base` (current OpenAI models), `cl100k_base` (GPT-4, GPT-3.5),
            which needs half as many tokens again for most scripts but Latin, `llama3`, `llama2`, `mistral_v3` (Tekken),
            `mistral_v1` (before it), `gemma3` (Gemini too), `qwen3`, `deepseek_v3`, `glm4` or `kimi_k2`. `unknown` is
            rather too much than too little for those that are cut like OpenAI's, `claude` a quarter more than that.
        media: The price of images and files.
    """

    def __init__(self, vocabulary: Vocabulary = "o200k_base", *, media: MediaCosts | None = None) -> None:
        """Estimate the counts of `vocabulary`."""
        super().__init__(media=media)
        require(vocabulary in WEIGHTS, "vocabulary", f"must be one of {', '.join(WEIGHTS)}")
        self.vocabulary = vocabulary
        self._weights = WEIGHTS[vocabulary]

    def __repr__(self) -> str:
        """Name the vocabulary that is estimated."""
        return f"EstimatedTokenCounter({self.vocabulary!r})"

    @property
    def exact(self) -> bool:
        """Always False."""
        return False

    def count_text(self, text: str) -> int:
        """Estimate a bare text; 0 for the empty one, at least 1 for any other."""
        if not text:
            return 0
        w = self._weights
        # The blank in front makes the first word start like every other.
        if text.isascii():
            classes = b" " + text.encode().translate(_CLASSES)
            tokens = 0.5
        else:
            classes = b" " + text.encode("utf-8", "surrogatepass").translate(_CLASSES, _CONTINUATION)
            tokens = 0.5 + _count_scripts(classes, w)
        count = classes.count
        letters = classes.translate(_LETTERS)
        words = w.letter * letters.count(b"\1") + w.word * letters.count(_START)
        # To look for a class that a text does not hold takes a hundredth of counting it.
        if _UPPER in classes:
            words = words + w.camel_hump * count(b"aA") + w.capital_pair * count(b"AA")
        tokens += words
        if _MARK in classes:
            marks = count(b".")
            tokens += w.mark * marks + w.mark_blank * count(b". ") + w.blank_mark * count(b" .")
            if marks >= _FOUR:
                tokens += w.four_marks * count(b"....")
        if _DIGIT in classes:
            digits = count(b"0")
            tokens += w.digit * digits + w.number * (classes.translate(_DIGITS).count(_START) if digits > 1 else 1)
            if digits >= _FOUR:
                tokens += w.four_digits * count(b"0000")
        if _NEWLINE in classes:
            tokens += w.newline * count(b"\n") + w.indent * count(b"\n ")
        return int(tokens) or 1


def _count_scripts(classes: bytes, weights: Weights) -> float:
    tokens = 0.0
    for script, per_char, per_run in weights.scripts:
        if chars := classes.count(script):
            tokens += per_char * chars
            if per_run:
                tokens += per_run * classes.translate(_MASKS[script]).count(_START)
    return tokens
