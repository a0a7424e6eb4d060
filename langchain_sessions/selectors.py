"""Small composable choices: which messages are stored, and which of the stored ones a prompt shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions._core.edge import require
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.view import call_ids, pair_tool_calls, without_calls
from langchain_sessions.errors import InvalidInputError

Selector = Callable[[Sequence[BaseMessage]], Sequence[BaseMessage]]
"""Chooses from the messages of a conversation: before they are stored, or before a prompt shows them."""


class MessageFilter:
    """A question about one message, to be combined with `&`, `|` and `~`. It is a `Selector` too.

    Example:
        >>> wanted = by_type("human", "ai") & ~containing("secret")
        >>> [m.content for m in wanted([HumanMessage("hi"), AIMessage("a secret"), SystemMessage("be brief")])]
        ['hi']
    """

    def __init__(self, accepts: Callable[[BaseMessage], bool]) -> None:
        """Keep the messages that `accepts` says yes to."""
        self.accepts = accepts

    def __call__(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Those of the messages that it accepts."""
        return [message for message in messages if self.accepts(message)]

    def __and__(self, other: MessageFilter) -> MessageFilter:
        """What both accept."""
        return MessageFilter(lambda message: self.accepts(message) and other.accepts(message))

    def __or__(self, other: MessageFilter) -> MessageFilter:
        """What either accepts."""
        return MessageFilter(lambda message: self.accepts(message) or other.accepts(message))

    def __invert__(self) -> MessageFilter:
        """What it does not accept."""
        return MessageFilter(lambda message: not self.accepts(message))


def _says_something(message: BaseMessage) -> bool:
    if not isinstance(message, AIMessage):
        return True
    blocks = [] if isinstance(message.content, str) else message.content
    media = any(isinstance(block, dict) and block.get("type") != "text" for block in blocks)
    if str(message.text).strip() or media or message.tool_calls or message.invalid_tool_calls:
        return True
    # Beside the content stand the call of a function, as OpenAI had them before tools, and what was spoken or refused.
    return any(map(message.additional_kwargs.get, ("function_call", "audio", "refusal")))


all_messages: MessageFilter = MessageFilter(lambda _: True)
"""Accepts everything."""
not_empty: MessageFilter = MessageFilter(_says_something)
"""Leaves out assistant messages without text, calls and media: the empty end frames of some providers."""
no_system: MessageFilter = MessageFilter(lambda message: not isinstance(message, SystemMessage))
"""Leaves out system messages."""


def by_type(*types: str) -> MessageFilter:
    """Accepts messages of these types: `human`, `ai`, `tool`, `system`.

    Raises:
        InvalidInputError: No type is given.
    """
    require(types, "types", "give at least one message type")
    wanted = {kind.removesuffix("MessageChunk").lower() for kind in types}
    return MessageFilter(lambda message: message.type.removesuffix("MessageChunk").lower() in wanted)


def containing(text: str) -> MessageFilter:
    """Accepts messages whose text holds `text`, whatever its case.

    Raises:
        InvalidInputError: The text is blank.
    """
    if not text.strip():
        raise InvalidInputError("text", "must not be blank")
    needle = text.casefold()
    return MessageFilter(lambda message: needle in str(message.text).casefold())


def without_tool_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Leave out all tool calls and their results; what an assistant said beside a call stays."""
    kept = [without_calls(m, call_ids(m)) if call_ids(m) else m for m in messages if not isinstance(m, ToolMessage)]
    return [message for message in kept if message is not None]


def without_failed_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Leave out tool results that report an error, and the calls that they answer."""
    failed = [m.tool_call_id for m in messages if isinstance(m, ToolMessage) and m.status == "error"]
    kept = (
        without_calls(m, failed) if any(call in failed for call in call_ids(m)) else m
        for m in messages
        if not (isinstance(m, ToolMessage) and m.tool_call_id in failed)
    )
    return [message for message in kept if message is not None]


def without_unpaired_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Leave out calls without results and results without calls. Prompts are made so in any case."""
    return [message for _, message in pair_tool_calls(messages)]


def message_window(last_n: int = 20) -> Selector:
    """The newest messages, at most `last_n`, beginning with a question; system messages are not counted and stay.

    Raises:
        InvalidInputError: The number is not above 0.
    """
    require(type(last_n) is int and last_n > 0, "last_n", "give a whole number above 0")

    def select(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        spoken = [message for message in messages if not isinstance(message, SystemMessage)]
        if len(spoken) <= last_n:
            return list(messages)
        starts = [at for at, message in enumerate(spoken) if isinstance(message, HumanMessage)]
        cut = next((at for at in starts if at >= len(spoken) - last_n), starts[-1] if starts else 0)
        return [message for message in messages if isinstance(message, SystemMessage)] + spoken[cut:]

    return select


class WholeRuns:
    """Stores a run when it is whole, and not before: its question, and an answer that no tool is to follow.

    Given as `store`, nothing of a run is stored before its answer is there: what failed, was broken off or gave up in
    the middle of its tools leaves no message, and a crash in between leaves no question either. On a list of messages
    it is a `Selector` that leaves out runs that are not whole.

    Args:
        then: Chooses among the messages of a whole run.
    """

    def __init__(self, then: Selector = not_empty) -> None:
        """See the class."""
        self.then = then

    def __call__(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages of whole runs; system messages stay."""
        kept: list[BaseMessage] = []
        for run in _runs_of(messages):
            system = [message for message in run if isinstance(message, SystemMessage)]
            kept += self.then(run) if _is_whole(run) else system
        return kept


def _runs_of(messages: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """Messages by run: from what somebody says to before they speak again."""
    runs: list[list[BaseMessage]] = [[]]
    for message in messages:
        said = runs[-1]
        if isinstance(message, HumanMessage) and any(not isinstance(m, (HumanMessage, SystemMessage)) for m in said):
            runs.append([])
        runs[-1].append(message)
    return runs


def _is_whole(run: Sequence[BaseMessage]) -> bool:
    """Whether a run has a question and ends with an answer."""
    last = next((m for m in reversed(run) if not isinstance(m, SystemMessage)), None)
    asked = any(isinstance(message, HumanMessage) for message in run)
    if isinstance(last, ToolMessage):
        # Structured output and tools that answer themselves: the result is the answer.
        return asked
    return asked and isinstance(last, AIMessage) and _says_something(last) and not call_ids(last)


def chain(*selectors: Selector) -> Selector:
    """Several selectors, one after the other."""

    def select(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        for selector in selectors:
            messages = selector(messages)
        return messages

    return select


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
