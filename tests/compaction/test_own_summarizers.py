"""A summariser of one's own: any object that summarises, held to the bounds of the one that asks a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_sessions import Compaction, EventFilter, InMemoryStore, Outcome, SessionService, Summarize, SummaryLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_sessions import SummaryTask
    from langchain_sessions.events import SessionEvent


class Noting:
    """A summariser of one's own, which notes what it was shown."""

    def __init__(self) -> None:
        self.tasks: list[SummaryTask] = []

    def summarize(self, task: SummaryTask) -> str:
        self.tasks.append(task)
        return "They talked."

    async def asummarize(self, task: SummaryTask) -> str:
        return self.summarize(task)


def size_of(events: Iterable[SessionEvent]) -> int:
    """How long what was said, asked and found is, in characters."""
    messages: list[Any] = [event.message for event in events]
    return sum(len(str([m.content, getattr(m, "tool_calls", 0), getattr(m, "artifact", 0)])) for m in messages)


def blanks(length: int) -> str:
    return f"begin{' ' * length}end"


def in_many_texts(length: int) -> AIMessage:
    return AIMessage([{"type": "text", "text": "ab"} for _ in range(length // 10)])


def in_arguments(length: int) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "f", "args": {"q": ["x" * length]}, "id": "c1"}])


def in_an_artifact(length: int) -> ToolMessage:
    return ToolMessage("found", tool_call_id="c1", artifact={"raw": "x" * length})


@pytest.mark.parametrize(
    "turn",
    [
        lambda length: [HumanMessage(blanks(length)), AIMessage("b")],
        lambda length: [HumanMessage("a"), in_many_texts(length)],
        lambda length: [HumanMessage("a"), in_arguments(length), in_an_artifact(length), AIMessage("c")],
        lambda length: [HumanMessage("a"), *[AIMessage("b" * 500)] * (length // 500)],
    ],
    ids=["blanks", "many texts", "arguments", "many messages"],
)
@pytest.mark.parametrize(("length", "turns"), [(2_000, 30), (300_000, 2)])
def test_a_summariser_of_ones_own_is_shown_a_bounded_part(
    turn: Callable[[int], list[BaseMessage]], length: int, turns: int
) -> None:
    """Older turns first; of a single turn that is too large the longest texts lose their middle, in the copy alone."""
    service = SessionService(InMemoryStore())
    service.open("s1")
    for _ in range(turns):
        service.append("s1", turn(length))
    service.append("s1", [HumanMessage("d"), AIMessage("e")])
    before = [event.message for event in service.events("s1")]
    noting = Noting()
    limits = SummaryLimits(max_input_tokens=1_000, max_calls=2)
    how = Compaction(None, Summarize(noting, keep_events=2, limits=limits))
    while service.compact("s1", how, force=True).outcome is Outcome.COMPACTED:
        assert len(noting.tasks) <= turns
    assert noting.tasks
    assert max(size_of((*task.archived, *task.upcoming)) for task in noting.tasks) < 4 * 16_000
    assert [str(message.text) for message in service.messages("s1")][-2:] == ["d", "e"]
    assert len(service.messages("s1")) == 4
    assert [event.message for event in service.events("s1", EventFilter(synthetic=False))][: len(before)] == before
    assert sum(len(task.archived) for task in noting.tasks) == len(before) - 2


def test_a_summariser_of_ones_own_is_shown_the_events_themselves_where_they_fit() -> None:
    service = SessionService(InMemoryStore())
    service.open("s1")
    service.append("s1", [HumanMessage("a" * 5_000), in_arguments(5_000), in_an_artifact(50_000), AIMessage("c")])
    service.append("s1", [HumanMessage("d"), AIMessage("e")])
    noting = Noting()
    stored = [event.message for event in service.events("s1")]
    service.compact("s1", Compaction(None, Summarize(noting, keep_events=2)))
    assert [event.message for event in noting.tasks[0].archived] == stored[:4]
