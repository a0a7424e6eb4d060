"""How much one run shows a summariser: so many tokens, and bytes, since blanks are cheap in tokens.

`ModelSummarizer` divides and shortens its record itself. Any other summariser is shown events whose texts are bounded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_sessions._compaction.model_summarizer import BYTES_PER_TOKEN, ModelSummarizer
from langchain_sessions._compaction.triggers import DEFAULT_CONTEXT_WINDOW
from langchain_sessions._core.codec.text import searchable_text
from langchain_sessions._core.whole import clip, whole_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_sessions._compaction.summarizer import Summarizer, SummaryLimits
    from langchain_sessions._tokens.base import TokenCounter
    from langchain_sessions.events import SessionEvent

_RECORD_FACTOR = 1.3  # a message in the record, its dividing line included, against the message in a prompt
_LEAF_BYTES = 8
_LEAST = 64
"""However many events there are, each is shown with so many bytes."""


def room_of(summarizer: Summarizer, limits: SummaryLimits, counter: TokenCounter) -> int:
    """How many tokens of the record one run can show a summariser."""
    if isinstance(summarizer, ModelSummarizer):
        return summarizer.room(limits, counter) * limits.max_calls
    return (limits.max_input_tokens or DEFAULT_CONTEXT_WINDOW) * limits.max_calls


def cost_of(summarizer: Summarizer, events: Iterable[SessionEvent]) -> int:
    """What events take of that room."""
    if isinstance(summarizer, ModelSummarizer):
        return int(sum(event.tokens for event in events) * _RECORD_FACTOR)
    return sum(max(int(event.tokens * _RECORD_FACTOR), _size(event.message) // BYTES_PER_TOKEN) for event in events)


def shown_to(
    summarizer: Summarizer, events: Sequence[SessionEvent], limits: SummaryLimits, counter: TokenCounter
) -> tuple[SessionEvent, ...]:
    """Events as a summariser is shown them: where they are more than one run may show, the longest lose their middle.

    A strategy archives no more than fits, but for a single turn larger than that; the log keeps all of it.
    """
    if isinstance(summarizer, ModelSummarizer):
        return tuple(events)
    room = room_of(summarizer, limits, counter) * BYTES_PER_TOKEN
    sizes = [_size(event.message) for event in events]
    cap = max(sizes, default=0)
    while cap > _LEAST and sum(min(size, cap) for size in sizes) > room:
        cap //= 2
    return tuple(
        event if size <= cap or event.message is None else replace(event, message=_cut(event.message, cap))
        for event, size in zip(events, sizes, strict=True)
    )


def _cut(message: BaseMessage, size: int) -> BaseMessage:
    """A copy of a message that is about so large: its texts without their middle, else its words alone."""
    length = size // 4  # of a character's bytes the most
    kept = {name: value for name, value in message.__dict__.items() if name in type(message).model_fields}
    if isinstance(message, ToolMessage):
        kept["artifact"] = None  # of no use to a model
    while length >= _LEAST:
        shorter = message.model_copy(update={name: whole_value(value, length) for name, value in kept.items()})
        if _size(shorter) <= size:
            return shorter
        length //= 4
    bare: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
    if isinstance(message, AIMessage):
        bare |= {"tool_calls": [], "invalid_tool_calls": []}
    if isinstance(message, ToolMessage):
        bare["artifact"] = None
    return message.model_copy(update={**bare, "content": clip(searchable_text(message), size // 4)})


def _size(message: BaseMessage | None) -> int:
    """How many bytes a message's texts are, and a few for whatever else it holds."""
    return 0 if message is None else sum(_sizes(message))


def _sizes(message: BaseMessage) -> Iterator[int]:
    waiting: list[object] = [*message.__dict__.values()]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, (bytes, bytearray)):
            yield len(value)
        elif not isinstance(value, (dict, list, tuple, set, frozenset)):
            yield _LEAF_BYTES
        elif id(value) not in seen:
            seen.add(id(value))
            yield _LEAF_BYTES
            held = cast("dict[object, object] | list[object]", value)
            waiting += held
            waiting += held.values() if isinstance(held, dict) else ()
