"""What others make of a request before it reaches us: shown to the model in this call, and stored nowhere."""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_sessions._chat.news import likeness, message_of
from langchain_sessions._core.codec.any_message import same_message

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from langchain_sessions._tokens.base import TokenCounter
    from langchain_sessions.events import SessionEvent


class Asides(NamedTuple):
    """How what is asked differs from what was said.

    Attributes:
        changed: What is shown in the place of what was said, by the name of that.
        left_out: The names of what is not shown.
        asked: What is asked, in order: the name of what was said, or a message that nobody said.
    """

    changed: Mapping[Hashable, BaseMessage]
    left_out: frozenset[Hashable]
    asked: tuple[tuple[Hashable, BaseMessage | None], ...]

    def of_messages(self, messages: Iterable[BaseMessage]) -> list[BaseMessage]:
        """What is shown of some messages."""
        if not self.changed and not self.left_out:
            return list(messages)
        named = ((_name(message), message) for message in messages)
        return [self.changed.get(name, message) for name, message in named if name not in self.left_out]

    def of_events(self, events: Sequence[SessionEvent], counter: TokenCounter) -> list[SessionEvent]:
        """What is shown of stored messages; what is changed counts for what it is."""
        shown: list[SessionEvent] = []
        for event in events:
            for message in self.of_messages([message_of(event)]):
                is_said = message is event.message
                shown.append(
                    event if is_said else replace(event, message=message, tokens=counter.count_message(message))
                )
        return shown

    def put_between(self, *parts: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
        """Parts of a prompt with what was added: before what it stood before that is shown, or at the end."""
        if all(message is None for _, message in self.asked):
            return [list(part) for part in parts]
        present = {_name(message) for part in parts for message in part}
        before: dict[Hashable, list[BaseMessage]] = {}
        waiting: list[BaseMessage] = []
        for name, message in self.asked:
            if message is not None:
                waiting.append(message)
            elif name in present and waiting:
                before[name], waiting = waiting, []
        filled = [[one for message in part for one in (*before.get(_name(message), ()), message)] for part in parts]
        filled[-1] += waiting
        return filled


def tell_apart(
    asked: Sequence[BaseMessage], held: Sequence[BaseMessage]
) -> tuple[Sequence[BaseMessage], Asides | None]:
    """What was said of what a model is asked, and what is for this call alone.

    Args:
        asked: The messages of a request.
        held: Those of the state that it was made of; where there are none, what is asked is what was said.
    """
    if not held or (len(asked) == len(held) and all(map(is_, asked, held))):
        return asked, None
    said = _with_results_of_agent(held, asked)
    known = {_name(message): message for message in said if not isinstance(message, SystemMessage)}
    named = [(_name(message), message) for message in asked if not isinstance(message, SystemMessage)]
    changed = {name: one for name, one in named if name in known and not same_message(one, known[name])}
    left_out = frozenset(known.keys() - {name for name, _ in named})
    if not changed and not left_out and len(named) == len(known):
        return said, None
    return said, Asides(changed, left_out, tuple((name, None if name in known else one) for name, one in named))


def _with_results_of_agent(held: Sequence[BaseMessage], asked: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """A state with the results that `create_agent` gives to calls that could not be read: they are in no state."""
    answered = {message.tool_call_id for message in held if isinstance(message, ToolMessage)}
    unread = {
        call["id"]
        for message in held
        if isinstance(message, AIMessage)
        for call in message.invalid_tool_calls
        if call["id"] not in answered
    }
    if not unread:
        return held
    results = {one.tool_call_id: one for one in asked if isinstance(one, ToolMessage) and one.tool_call_id in unread}
    said: list[BaseMessage] = []
    for message in held:
        said.append(message)
        if isinstance(message, AIMessage):
            said += [results[call["id"]] for call in message.invalid_tool_calls if call["id"] in results]
    return said


def _name(message: BaseMessage) -> Hashable:
    """What tells that two messages are one: the id, which a graph gives each of its own."""
    return message.id or likeness(message)
