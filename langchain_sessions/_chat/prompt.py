"""A prompt that every provider accepts: one system block, what was remembered, what is being said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_sessions._chat.outbound import mended, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._chat.news import News, Remembered


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
    return valid if system is None else [mended(system), *valid]
