"""The one gate that every prompt leaves through: valid for the strictest provider, whatever the log holds.

Nothing of the log changes; what has to be said differently is said differently in a copy. A prompt that is valid goes
out as it is, its messages the same objects, after one look at each.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions._chat.blocks import sendable, whole_blocks
from langchain_sessions._chat.call_ids import is_taken_by_all, rename_calls
from langchain_sessions._chat.legacy_messages import of_known_kind
from langchain_sessions._chat.names import kwargs_with_taken_names, taken_name, with_taken_names
from langchain_sessions._chat.own_blocks import SPOKEN, as_read_by, standing_alone
from langchain_sessions._core.message_types import MESSAGES
from langchain_sessions._core.view import call_ids, is_thought, pair_tool_calls, without_calls
from langchain_sessions._core.whole import clip, whole_text, whole_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import InvalidToolCall

STRUCTURED = "structured_output"
"""Names, in the metadata of a tool message, the call that a structured output was made from."""
EMPTY = "(empty)"
"""What stands for a question or a result without a word."""
BEGINNING = "(The conversation begins.)"
"""What the assistant answers where it spoke first."""

_KINDS = tuple(kind.cls for kind in MESSAGES if kind.cls is not None and kind.is_common)


def made_valid(
    messages: Sequence[BaseMessage],
    over: int | None = None,
    *,
    taken: Iterable[str] = (),
    joins: bool = True,
    reader: BaseChatModel | None = None,
    tools: Sequence[object] = (),
    is_shortened: bool = False,
) -> list[BaseMessage]:
    """The messages as every provider takes them.

    Calls have ids of their own and results directly behind them; there is no call that nobody answered, no message
    without a word, no text that cannot be encoded and no media that nobody can fetch. A call whose structured output
    was taken from it is shown as that output. Some providers refuse a question behind a result: a turn that ended
    with results, because a tool answers directly or an agent made a structured output, is shown as the words that it
    amounts to.

    Args:
        messages: What is remembered and what is being said.
        over: How many of them belong to turns that are over; all of them where nothing is said.
        taken: Ids of calls that stand elsewhere in the prompt.
        joins: Make one message of what the assistant said in two.
        reader: The model that is asked, where it is known: what only others understand is left out.
        tools: What goes out with them.
        is_shortened: Whether it was shown more of them a moment ago.
    """
    over = len(messages) if over is None else over
    valid = _valid_messages(messages, over, taken=taken, joins=joins, reader=reader, tools=tools)
    # Such a client names its provider's newest reply, and sends nothing of what stands before it.
    goes_on_there = getattr(reader, "use_previous_response_id", False) is True
    return standing_alone(valid, () if is_shortened else messages[over:]) if goes_on_there else valid


def _valid_messages(
    messages: Sequence[BaseMessage],
    over: int,
    *,
    taken: Iterable[str],
    joins: bool,
    reader: BaseChatModel | None,
    tools: Sequence[object],
) -> list[BaseMessage]:
    if _may_be_own(messages):
        messages = as_read_by(reader, messages, tools)
    # Nearly every prompt is, and this runs with each call.
    if is_valid(messages, over, taken):
        return list(messages)
    valid: list[BaseMessage] = []
    known = rename_calls([of_known_kind(message) if _is_odd(message) else message for message in messages], taken)
    # What says nothing goes first: it may stand between a result and the question behind it.
    said = [message for message in map(mended, known) if not _is_left_out(message)]
    spoken = [message for _, message in pair_tool_calls(said) if not _is_left_out(message)]
    for at, message in enumerate(spoken):
        if isinstance(message, ToolMessage):
            continue  # stands with its call
        calls = call_ids(message)
        if not calls or not isinstance(message, AIMessage):
            valid.append(message)
            continue
        results = _results_after(spoken, at)
        if any(STRUCTURED in result.additional_kwargs for result in results):
            valid.append(as_text(message))
            continue
        behind = spoken[at + 1 + len(results) :][:1]
        ends_turn = isinstance(behind[0], HumanMessage) if behind else over == len(messages)
        if results and ends_turn:
            valid.append(_as_answer(message, results))
            continue
        answered = {result.tool_call_id for result in results}
        dead = [call for call in calls if call not in answered]
        kept = without_calls(message, dead) if dead else message
        valid += [message for message in (kept, *results) if message is not None]
    return _finished(valid, joins=joins)


def _may_be_own(messages: Sequence[BaseMessage]) -> bool:
    """Whether a reply among some messages may hold what only one provider takes."""
    for message in messages:
        if isinstance(message, AIMessage) and (
            isinstance(message.content, list)
            or (message.additional_kwargs and not SPOKEN.isdisjoint(message.additional_kwargs))
        ):
            return True
    return False


def _results_after(messages: Sequence[BaseMessage], at: int) -> list[ToolMessage]:
    found: list[ToolMessage] = []
    for message in messages[at + 1 :]:
        if not isinstance(message, ToolMessage):
            break
        found.append(message)
    return found


def _as_answer(message: AIMessage, results: Sequence[ToolMessage]) -> AIMessage:
    """Calls and their results as what was said by them."""
    texts = [str(said.text) for said in (message, *results)]
    text = "\n".join(text for text in texts if text.strip())
    return AIMessage(text or EMPTY, id=message.id, name=message.name)


def as_text(message: AIMessage) -> AIMessage:
    """A structured output as the words that it amounts to."""
    values = [call["args"] for call in message.tool_calls]
    shown = json.dumps(values[0] if len(values) == 1 else values, ensure_ascii=False, default=str)
    text = str(message.text)
    return AIMessage(f"{text}\n{shown}" if text else shown, id=message.id, name=message.name)


def acknowledgement(call_id: str) -> ToolMessage:
    """The result of a call that was no tool's: the application took a structured output from it."""
    return ToolMessage("Structured output taken.", tool_call_id=call_id, additional_kwargs={STRUCTURED: True})


def is_valid(messages: Sequence[BaseMessage], over: int, taken: Iterable[str] = ()) -> bool:
    """Whether messages can go out as they are; the arguments are those of `made_valid`."""
    named: set[str] = set(taken)
    awaited: set[str] = set()
    before: type[BaseMessage] | None = None
    for message in messages:
        kind = _kind(message)
        if kind is SystemMessage and before is None and _says_something_whole(message):
            continue
        if kind is BaseMessage or not (_follows(kind, before) and _says_something_whole(message)):
            return False
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in awaited or STRUCTURED in message.additional_kwargs:
                return False
            awaited.discard(message.tool_call_id)
        elif awaited:
            return False
        elif isinstance(message, AIMessage) and (asked := _asked_by(message)):
            awaited = {call for call in asked if call is not None}
            if len(awaited) < len(asked) or not named.isdisjoint(awaited) or not all(map(is_taken_by_all, awaited)):
                return False
            named |= awaited
        before = kind
    return not awaited and not (before is ToolMessage and over == len(messages))


def _asked_by(message: AIMessage) -> list[str | None]:
    """The ids of the calls of a message, and None for each that has none."""
    if isinstance(message.content, list):
        nameless = sum(not call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls))
        return [*call_ids(message), *[None] * nameless]
    return [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]


def _kind(message: BaseMessage) -> type[BaseMessage]:
    """Which of the kinds that all clients know a message is of; `BaseMessage` where it is of none."""
    own = type(message)
    if own in _KINDS:
        return own
    return next((kind for kind in _KINDS if isinstance(message, kind)), BaseMessage)


def _is_odd(message: BaseMessage) -> bool:
    """Whether a message is of another kind, or calls as only some clients know it."""
    if isinstance(message, AIMessage):
        return "function_call" in message.additional_kwargs
    return _kind(message) is BaseMessage


def _is_bare(message: AIMessage) -> bool:
    return not (message.tool_calls or message.invalid_tool_calls or message.additional_kwargs)


def _says_something_whole(message: BaseMessage) -> bool:
    text = message.content
    # Most messages are plain words, and this runs with every call.
    is_plain = type(text) is str and bool(text) and text.isascii() and not text.isspace()
    if is_plain and message.name is None and (not isinstance(message, AIMessage) or _is_bare(message)):
        return True
    return not _is_odd(message) and mended(message) is message and not _is_empty(message)


def _follows(kind: type[BaseMessage], before: type[BaseMessage] | None) -> bool:
    """Whether every provider takes a message of a kind behind one of another."""
    if kind is AIMessage:
        return before not in (None, AIMessage)
    return kind is not HumanMessage or before is not ToolMessage


def _finished(messages: Sequence[BaseMessage], *, joins: bool) -> list[BaseMessage]:
    """Messages none of which is empty, the assistant never twice in a row nor first."""
    made: list[BaseMessage] = []
    for given in messages:
        message = _with_words(given)
        if isinstance(message, AIMessage):
            before = made[-1] if made else None
            if before is None or isinstance(before, SystemMessage):
                made.append(HumanMessage(BEGINNING))
            elif joins and isinstance(before, AIMessage):
                made[-1] = _joined(before, message)
                continue
        made.append(message)
    return made


def _joined(first: AIMessage, second: AIMessage) -> AIMessage:
    """What an assistant said in two messages, the first of them without calls, as one."""
    contents = (first.content, second.content)
    if all(isinstance(content, str) for content in contents):
        joined: Any = "\n\n".join(str(content) for content in contents if content)
    else:
        joined = [block for content in contents for block in _as_blocks(content)]
    return second.model_copy(update={"content": joined})


def _as_blocks(content: str | list[Any]) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return content


def mended(message: BaseMessage) -> BaseMessage:
    """A message with whole texts, no empty blocks and no media that nobody can fetch; itself where it has that."""
    changes: dict[str, Any] = {}
    content = message.content
    asked = call_ids(message) if isinstance(message, AIMessage) else None
    whole: Any = _whole_words(content) if isinstance(content, str) else whole_blocks(content, asked)
    if whole is not content:
        changes["content"] = whole
    if message.name is not None and _speaker(message) is not message.name:
        changes["name"] = _speaker(message)
    if isinstance(message, AIMessage):
        given: list[Any] = message.tool_calls
        calls = [*given, *map(_as_called, message.invalid_tool_calls)] if message.invalid_tool_calls else given
        if calls and (made := with_taken_names(sendable(calls))) is not given:
            changes |= {"tool_calls": made, "invalid_tool_calls": []}
        kwargs = kwargs_with_taken_names(whole_value(message.additional_kwargs))
        if "tool_calls" in kwargs and not (calls and isinstance(kwargs["tool_calls"], list)):
            # OpenAI's and Mistral's clients send it where a message has no calls, and nobody answers what it says.
            kwargs = {name: value for name, value in kwargs.items() if name != "tool_calls"}
        if kwargs is not message.additional_kwargs:
            changes["additional_kwargs"] = kwargs
    return message.model_copy(update=changes) if changes else message


def _as_called(broken: InvalidToolCall) -> dict[str, Any]:
    """A malformed call as one: some clients leave it out and send its result, which then answers nothing."""
    args = {"malformed": broken["args"]} if broken["args"] else {}
    return {"name": broken["name"], "args": args, "id": broken["id"], "type": "tool_call"}


def _speaker(message: BaseMessage) -> str | None:
    """Who speaks, or the tool that a result is of, in letters that every provider takes."""
    if message.name is None:
        return None
    return taken_name(whole_text(message.name)) if message.name or isinstance(message, ToolMessage) else None


def mended_input(value: object, max_characters: int | None = None) -> object:
    """What fills the place of the question in a template, a text or messages, as it can be sent."""
    if isinstance(value, str):
        whole = whole_text(value)
        return whole if max_characters is None else clip(whole, max_characters)
    if isinstance(value, BaseMessage):
        return mended_message(value, max_characters)
    if isinstance(value, (list, tuple)):
        given = cast("Sequence[Any]", value)
        if all(isinstance(part, (str, BaseMessage)) for part in given):
            return [mended_input(part, max_characters) for part in given]
    return whole_value(value, max_characters) if isinstance(value, (list, tuple, dict)) else value


def mended_message(message: BaseMessage, max_characters: int | None = None) -> BaseMessage:
    """A message as it can be sent alone, whoever stands before it."""
    return _with_words(mended(message if max_characters is None else bounded(message, max_characters)))


def _with_words(message: BaseMessage) -> BaseMessage:
    # A question or a result cannot be left out: the call or the turn beside it would stand alone.
    return message.model_copy(update={"content": EMPTY}) if _is_empty(message) else message


def bounded(message: BaseMessage, max_characters: int) -> BaseMessage:
    """A message whose texts are at most so long: what is longer goes without its middle; itself where none is."""
    changes: dict[str, Any] = {}
    content = message.content
    if isinstance(content, str):
        shorter: Any = clip(content, max_characters)
    else:
        shorter = [_bounded_block(block, max_characters) for block in content]
        if all(a is b for a, b in zip(content, shorter, strict=True)):
            shorter = content
    if shorter is not content:
        changes["content"] = shorter
    if isinstance(message, AIMessage):
        for name in ("tool_calls", "invalid_tool_calls"):
            calls: list[Any] = getattr(message, name)
            made = [_bounded_part(call, "args", max_characters) for call in calls]
            if any(a is not b for a, b in zip(calls, made, strict=True)):
                changes[name] = made
    return message.model_copy(update=changes) if changes else message


def _bounded_block(block: str | dict[Any, Any], max_characters: int) -> str | dict[Any, Any]:
    if isinstance(block, str):
        return clip(block, max_characters)
    for name in ("text", "input", "args", "arguments"):
        block = _bounded_part(block, name, max_characters)
    return block


def _bounded_part(holder: dict[Any, Any], name: str, max_characters: int) -> dict[Any, Any]:
    """What holds a text or arguments, with those bounded."""
    given = holder.get(name)
    made = _bounded_json(given, max_characters) if name == "arguments" else whole_value(given, max_characters)
    return holder if made is given else {**holder, name: made}


def _bounded_json(given: object, max_characters: int) -> object:
    """Arguments in the words of JSON, which stay JSON."""
    if not isinstance(given, str) or len(given) <= max_characters:
        return whole_value(given, max_characters)
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        return clip(given, max_characters)
    shorter = whole_value(value, max_characters)
    return given if shorter is value else json.dumps(shorter, ensure_ascii=False)


def _whole_words(text: str) -> str:
    """Beside calls nothing may be said, but no blanks."""
    return "" if text.isspace() else whole_text(text)


def _is_left_out(message: BaseMessage) -> bool:
    return _is_empty(message) and not isinstance(message, (HumanMessage, ToolMessage))


def _is_empty(message: BaseMessage) -> bool:
    """Whether a message says nothing, and calls nothing."""
    if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
        return False
    content = message.content
    if isinstance(content, str):
        return not content or content.isspace()
    # A reply that was cut within its thoughts: some clients leave them out, and others send nothing but them.
    is_of_thoughts = isinstance(message, AIMessage) and all(map(is_thought, content))
    return not content or is_of_thoughts
