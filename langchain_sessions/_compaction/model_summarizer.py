"""Summaries by a chat model: every archived event is shown to it, in as many calls as its window asks for."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage

from langchain_sessions._compaction.plan import Outcome
from langchain_sessions._compaction.prompts import Entry, SummaryPrompts, entry_of, messages_for
from langchain_sessions._compaction.structured import (
    STRUCTURED_CHARACTERS,
    Schema,
    check_schema,
    read_json,
    read_structured,
    reply_behind,
    schema_text,
    unframed,
    without_thought,
)
from langchain_sessions._compaction.summarizer import (
    PLAIN_CHARACTERS,
    Summary,
    SummaryLimits,
    SummaryTask,
    cut_text,
    fit_text,
    whole_sentences,
)
from langchain_sessions._compaction.triggers import DEFAULT_CONTEXT_WINDOW, model_window
from langchain_sessions._core.flow import Flow, ask, declared, faces
from langchain_sessions._core.twins import told_alike
from langchain_sessions._core.view import is_cut
from langchain_sessions._core.whole import clip
from langchain_sessions.errors import SummaryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable, RunnableConfig

    from langchain_sessions._tokens.base import TokenCounter

_CHARACTERS_PER_TOKEN = 2  # of a reply, for the room that it needs: pessimistic for every script but Chinese
_SHARE = 0.9  # of the window; the count is an estimate
BYTES_PER_TOKEN = 8
"""Twice what texts have: a bound on what a call is shown, however few tokens it counts for."""
_LEAST = 200
"""However small a window is said to be, a call shows this many tokens of the record."""

# LangGraph leaves what is tagged so out of the messages that it streams to the user.
_CONFIG: RunnableConfig = {
    "tags": ["nostream"],
    "run_name": "summarize_session",
    "metadata": {"lc_source": "summarization"},
}


@told_alike
class ModelSummarizer:
    """Summarises with any LangChain chat model.

    Args:
        model: The model; a cheap one will do.
        prompts: The texts around the record.
        schema: For a structured summary: a pydantic model or a JSON schema with a text field `summary`. The model's
            own structured output is used; one that has none is asked for JSON.
    """

    def __init__(
        self, model: BaseChatModel, *, prompts: SummaryPrompts | None = None, schema: Schema | None = None
    ) -> None:
        """Summarise with `model`."""
        self.model = model
        self.prompts: SummaryPrompts = prompts or SummaryPrompts()
        self.schema: Schema | None = None if schema is None else check_schema(schema)

    def max_characters(self, limits: SummaryLimits) -> int:
        """How long a summary may be."""
        return limits.max_characters or (PLAIN_CHARACTERS if self.schema is None else STRUCTURED_CHARACTERS)

    def room(self, limits: SummaryLimits, counter: TokenCounter) -> int:
        """How many tokens of the record one call can be shown, beside its instructions and a full summary."""
        window = limits.max_input_tokens or model_window(self.model) or DEFAULT_CONTEXT_WINDOW
        frame = counter.count_text(self.prompts.system) + counter.count_text(self.prompts.request)
        frame += 0 if self.schema is None else counter.count_text(schema_text(self.schema))
        summaries = 2 * self.max_characters(limits) // _CHARACTERS_PER_TOKEN
        return max(int(window * _SHARE) - frame - summaries, _LEAST)

    def _summarize(self, task: SummaryTask) -> Flow[Summary]:
        """Summarise everything that is archived, folding in the summary before it."""
        limits = task.limits
        upcoming = [entry_of(event, limits.tool_characters) for event in task.upcoming]
        room = self.room(limits, task.counter)
        upcoming = _that_fit(upcoming, room // 4, task.counter)
        room -= sum(_cost(entry, task.counter) for entry in upcoming)
        entries = [entry_of(event, limits.tool_characters) for event in task.archived]
        chunks = chunk_record(entries, room, task.counter, max_calls=limits.max_calls)
        text, calls = task.previous, 0
        summary: Summary | None = None
        for number, chunk in enumerate(chunks, start=1):
            is_last = number == len(chunks)
            messages = messages_for(
                self.prompts,
                chunk,
                previous=text,
                upcoming=upcoming if is_last else (),
                part=(number, len(chunks)),
                max_characters=self.max_characters(limits),
            )
            summary, made = yield from self._attempts(messages, task, calls, is_structured=is_last)
            text, calls = summary.text, calls + made
        if summary is None:
            raise SummaryError(Outcome.SUMMARY_BLANK, "there is nothing to summarise")
        return replace(summary, calls=calls)

    _faces = faces(_summarize)

    @declared(_faces[0])
    def summarize(self) -> None:
        """See `Summarizer`."""

    @declared(_faces[1])
    def asummarize(self) -> None:
        """Async `summarize`."""

    def _attempts(
        self, messages: list[BaseMessage], task: SummaryTask, calls: int, *, is_structured: bool
    ) -> Flow[tuple[Summary, int]]:
        """Ask until there is a usable answer, the retries are used up or the time is over."""
        last: SummaryError | None = None
        for attempt in range(1, task.limits.retries + 2):
            if task.deadline is not None and time.monotonic() >= task.deadline:
                break
            try:
                return (yield from self._call(messages, task, is_structured=is_structured)), attempt
            except SummaryError as error:
                last = SummaryError(error.outcome, str(error), calls=calls + attempt)
            except Exception as error:  # noqa: BLE001 - providers raise what they like; it is reported
                reason = f"the summariser raised {type(error).__name__}"
                last = SummaryError(Outcome.SUMMARY_FAILED, reason, calls=calls + attempt)
                last.__cause__ = error
        raise last or SummaryError(Outcome.SUMMARY_FAILED, "the time for the summary is over", calls=calls)

    def _call(self, messages: list[BaseMessage], task: SummaryTask, *, is_structured: bool) -> Flow[Summary]:
        limit = self.max_characters(task.limits)
        if self.schema is None or not is_structured:
            reply = yield from ask(self.model.invoke, messages, _CONFIG)
            return _as_said(reply, limit)
        try:
            chain: Runnable[Any, Any] = self.model.with_structured_output(self.schema, include_raw=True)
        except NotImplementedError:
            reply = yield from ask(self.model.invoke, _asking_for_json(messages, self.schema), _CONFIG)
            return _from_raw(self.schema, reply, limit)
        try:
            answer = yield from ask(chain.invoke, messages, _CONFIG)
        except Exception as error:
            raw = reply_behind(error)
            if raw is None:
                raise
            return _from_raw(self.schema, raw, limit)
        if not isinstance(answer, dict) or "parsed" not in answer:
            return read_structured(self.schema, answer, limit)
        is_unread = answer.get("parsing_error") is not None or answer["parsed"] is None  # pyright: ignore[reportUnknownMemberType]
        if is_unread or is_cut(answer.get("raw")):  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
            return _from_raw(self.schema, answer.get("raw"), limit)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        return read_structured(self.schema, answer["parsed"], limit)  # pyright: ignore[reportUnknownArgumentType]


def _text_of(reply: object) -> str:
    """The text of a model's reply.

    Raises:
        SummaryError: It is no message, or has no text.
    """
    if reply is None or reply in ("", []):
        raise SummaryError(Outcome.SUMMARY_BLANK, "the summary is blank")
    if isinstance(reply, str):
        return reply
    if not isinstance(reply, BaseMessage):
        raise SummaryError(Outcome.SUMMARY_FAILED, f"the model returned {type(reply).__name__}, not a message")
    return str(reply.text)


def _as_said(reply: object, max_characters: int) -> Summary:
    """The summary in a reply; of one that the model's limit cut, its whole sentences.

    Raises:
        SummaryError: It is none.
    """
    text = without_thought(_text_of(reply))
    was_cut = is_cut(reply) and bool(text.strip())
    if was_cut:
        # It has no end that could be lost.
        text = cut_text(whole_sentences(text), max_characters)
        if not text:
            raise SummaryError(Outcome.SUMMARY_FAILED, "the summary was cut off within its first sentence")
    return Summary(text=fit_text(text, max_characters), is_cut=was_cut)


def _from_raw(schema: Schema, raw: object, max_characters: int) -> Summary:
    """What a parser failed on, read by hand: local models put fences or words around the JSON, or call no tool.

    Raises:
        SummaryError: There is no JSON in it that fits the schema.
    """
    answer = _json_in(raw)
    # A call that was parsed had its end; a text that was cut off is read as far as it goes.
    has_end = not is_cut(raw) or bool(getattr(raw, "tool_calls", ())) or _text_of(raw).rstrip(" \n`").endswith("}")
    return read_structured(schema, answer, max_characters) if has_end else _begun(answer, max_characters)


def _json_in(raw: object) -> object:
    """The JSON in a reply, as far as it goes."""
    if isinstance(raw, AIMessage) and raw.tool_calls:
        return unframed(raw.tool_calls[0]["args"])
    broken = raw.invalid_tool_calls if isinstance(raw, AIMessage) else []
    text = (broken[0]["args"] or "") if broken else _text_of(raw)
    if not text.strip():
        raise SummaryError(Outcome.SUMMARY_BLANK, "the summary is blank")
    try:
        return read_json(text)
    except ValueError as error:
        raise SummaryError(Outcome.SUMMARY_FAILED, "the answer does not fit the schema") from error


def _begun(answer: object, max_characters: int) -> Summary:
    """The summary in an answer that was cut off: all of it where more fields follow, else its whole sentences.

    Raises:
        SummaryError: It was cut off before that.
    """
    fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    whole = {name: fields[name] for name in [*fields][:-1]}
    text = whole.get("summary") or whole_sentences(str(fields.get("summary") or ""))
    if not isinstance(text, str) or not text.strip():
        raise SummaryError(Outcome.SUMMARY_FAILED, "the answer was cut off before its summary")
    given: Any = whole.get("keywords")
    keywords: list[Any] = given if isinstance(given, list) else []
    return Summary(
        text=cut_text(text, max_characters),
        title=whole.get("title"),
        keywords=tuple(keywords),
        is_cut=True,
    )


def _asking_for_json(messages: list[BaseMessage], schema: Schema) -> list[BaseMessage]:
    *first, request = messages
    asked = (
        f"{request.text}\n\nAnswer with one JSON object that fits this schema, and nothing else:\n{schema_text(schema)}"
    )
    return [*first, request.model_copy(update={"content": asked})]


def _cost(entry: Entry, counter: TokenCounter) -> int:
    """What an entry counts for: its tokens, and where those are cheap, as blanks are, its bytes."""
    text = entry.under("00000000")
    return max(counter.count_text(text), len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _that_fit(entries: Sequence[Entry], room: int, counter: TokenCounter) -> list[Entry]:
    kept: list[Entry] = []
    for entry in entries:
        room -= _cost(entry, counter)
        if room < 0:
            break
        kept.append(entry)
    return kept


def split_record(entries: Sequence[Entry], room: int, counter: TokenCounter) -> Iterator[list[Entry]]:
    """Divide a record into chunks that fit into a call each; an entry that fits into none is divided itself."""
    chunk: list[Entry] = []
    used = 0
    for entry in entries:
        for piece in _pieces(entry, room, counter):
            cost = _cost(piece, counter)
            if chunk and used + cost > room:
                yield chunk
                chunk, used = [], 0
            chunk.append(piece)
            used += cost
    if chunk:
        yield chunk


def _pieces(entry: Entry, room: int, counter: TokenCounter) -> Iterator[Entry]:
    cost = _cost(entry, counter)
    if cost <= room or len(entry.text) <= 1:
        yield entry
        return
    size = max(int(len(entry.text) * room / cost * _SHARE), 1)
    start = 0
    while start < len(entry.text):
        end = min(start + size, len(entry.text))
        space = entry.text.rfind(" ", start + size // 2, end) if end < len(entry.text) else -1
        end = space + 1 if space > 0 else end
        head = entry.head if start == 0 or entry.head.endswith("continued") else f"{entry.head}, continued"
        # Parts of a text differ in density, so a part may have to be divided again.
        yield from _pieces(Entry(head, entry.text[start:end]), room, counter)
        start = end


def chunk_record(entries: list[Entry], room: int, counter: TokenCounter, *, max_calls: int) -> list[list[Entry]]:
    """Divide a record into at most about `max_calls` chunks.

    A strategy archives no more than fits, but for a single turn larger than that. Of such a turn the longest texts
    lose their middle, which the log keeps: else it would be too dear for every run, and stay for ever.
    """
    chunks = list(split_record(entries, room, counter))
    cap = max((len(entry.text) for entry in entries), default=0)
    # Chunks are not filled to the brim, and estimates are no measurements: a half more is no reason to cut.
    while len(chunks) > max_calls + max(max_calls // 2, 1) and cap > room:
        cap = max(int(cap * max_calls / len(chunks)), room)
        entries = [Entry(entry.head, clip(entry.text, cap)) for entry in entries]
        chunks = list(split_record(entries, room, counter))
    return chunks
