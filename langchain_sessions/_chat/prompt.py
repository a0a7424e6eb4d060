"""A prompt that every provider accepts: one system block, what was remembered, what is being said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions._core.view import call_ids, pair_tool_calls, without_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._chat.news import News, Remembered

STRUCTURED = "structured_output"
"""Names, in the metadata of a tool message, the call that a structured output was made from."""


def merge_system(messages: Sequence[BaseMessage]) -> SystemMessage | None:
    """Several system messages as one block; a single one stays as it is."""
    if not messages:
        return None
    if len(messages) == 1 and isinstance(messages[0], SystemMessage):
        return messages[0]
    contents = [message.content for message in messages]
    if all(isinstance(content, str) for content in contents):
        return SystemMessage("\n\n".join(str(content) for content in contents))
    blocks: list[Any] = []
    for content in contents:
        blocks.extend([{"type": "text", "text": content}] if isinstance(content, str) else content)
    return SystemMessage(blocks)


def remembered(context: Sequence[Remembered], appended: frozenset[int], news: News) -> list[Remembered]:
    """What of a context a request does not carry itself.

    Where the request carries the running turn, what other writers logged since it began belongs behind it.
    """
    return [
        event for event in context if event.seq not in appended and (news.start is None or event.position < news.start)
    ]


def newest_system(context: Sequence[Remembered]) -> list[SystemMessage]:
    """The system message that stands in a log: a newer one replaces the older."""
    return [event.message for event in context if isinstance(event.message, SystemMessage)][-1:]


def assemble(
    system: SystemMessage | None,
    examples: Sequence[BaseMessage],
    history: Sequence[BaseMessage],
    tail: Sequence[BaseMessage],
) -> list[BaseMessage]:
    """Put a prompt together: the system block, few-shots, what is remembered, what is being said."""
    before = [*examples, *(m for m in history if not isinstance(m, SystemMessage))]
    valid = settle([*before, *tail], over=len(before))
    return valid if system is None else [system, *valid]


def settle(messages: Sequence[BaseMessage], over: int | None = None) -> list[BaseMessage]:
    """The messages as every provider takes them: results directly after their calls, no call that nobody answered.

    A call whose structured output was taken from it is shown as that output. Some providers refuse a question behind
    a result: a turn that ended with results, because a tool answers directly or an agent made a structured output, is
    shown as the words that it amounts to.

    Args:
        messages: What is remembered and what is being said.
        over: How many of them belong to turns that are over; all of them where nothing is said.
    """
    if not any(type(message) is ToolMessage or call_ids(message) for message in messages):
        return list(messages)
    over = len(messages) if over is None else over
    paired = pair_tool_calls(messages)
    settled: list[BaseMessage] = []
    spoken = [message for _, message in paired]
    for at, (index, message) in enumerate(paired):
        if isinstance(message, ToolMessage):
            continue  # stands with its call
        calls = call_ids(message)
        if not calls or not isinstance(message, AIMessage):
            settled.append(message)
            continue
        results = _results_after(spoken, at)
        if any(STRUCTURED in result.additional_kwargs for result in results):
            settled.append(as_text(message))
            continue
        behind = spoken[at + 1 + len(results) :][:1]
        ends_turn = isinstance(behind[0], HumanMessage) if behind else over == len(messages)
        if results and index < over and ends_turn and (answer := _as_answer(message, results)) is not None:
            settled.append(answer)
            continue
        answered = {result.tool_call_id for result in results}
        dead = [call for call in calls if call not in answered]
        kept = without_calls(message, dead) if dead else message
        settled += [message for message in (kept, *results) if message is not None]
    return settled


def _results_after(messages: Sequence[BaseMessage], at: int) -> list[ToolMessage]:
    found: list[ToolMessage] = []
    for message in messages[at + 1 :]:
        if not isinstance(message, ToolMessage):
            break
        found.append(message)
    return found


def _as_answer(message: AIMessage, results: Sequence[ToolMessage]) -> AIMessage | None:
    """Calls and their results as what was said by them; None where that is nothing."""
    texts = [str(said.text) for said in (message, *results)]
    text = "\n".join(text for text in texts if text.strip())
    return AIMessage(text, id=message.id, name=message.name) if text else None


def as_text(message: AIMessage) -> AIMessage:
    """A structured output as the words that it amounts to."""
    values = [call["args"] for call in message.tool_calls]
    shown = json.dumps(values[0] if len(values) == 1 else values, ensure_ascii=False, default=str)
    text = str(message.text)
    return AIMessage(f"{text}\n{shown}" if text else shown, id=message.id, name=message.name)


def acknowledgement(call_id: str) -> ToolMessage:
    """The result of a call that was no tool's: the application took a structured output from it."""
    return ToolMessage("Structured output taken.", tool_call_id=call_id, additional_kwargs={STRUCTURED: True})
