"""Random conversations with compactions and rewinds: the database does what the store in memory does."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_sessions import (
    Compaction,
    EventFilter,
    EventKind,
    InMemoryStore,
    Interval,
    SessionService,
    SlidingWindow,
    Summarize,
    TokenWindow,
    TurnWindow,
)
from langchain_sessions._core.view import pair_tool_calls
from langchain_sessions.errors import EventNotFoundError
from tests.compaction.models import ScriptedModel

HOWS: list[Any] = [
    SlidingWindow(3),
    TurnWindow(2),
    TokenWindow(60),
    Interval(3, 1),
    Summarize(ScriptedModel(replies=["Summed up."]), keep_events=3),
    Summarize(ScriptedModel(replies=["Summed up otherwise."]), window=TurnWindow(1)),
]
BRANCHES = st.sampled_from([None, "orch", "orch.writer"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("talk"), BRANCHES, st.integers(1, 3)),
        st.tuples(st.just("tools"), BRANCHES, st.booleans()),
        st.tuples(st.just("compact"), BRANCHES, st.integers(0, len(HOWS) - 1)),
        st.tuples(st.just("rewind"), st.floats(0, 1)),
        st.tuples(st.just("undo")),
        st.tuples(st.just("edit"), st.integers(0, 5)),
    ),
    max_size=18,
)


class Player:
    """Plays steps on one service; ids are counted, so that two services get the same."""

    def __init__(self, service: SessionService) -> None:
        self.service = service
        self.said: list[str] = []
        service.open("s1")

    def message(self, kind: type[BaseMessage], text: str, **fields: Any) -> BaseMessage:
        self.said.append(f"{text} #{len(self.said)}.")
        return kind(content=self.said[-1], id=f"m{len(self.said)}", **fields)

    def play(self, step: tuple[Any, ...]) -> object:
        """What the step answers."""
        action, *given = step
        return getattr(self, action)(*given)

    def talk(self, branch: str | None, turns: int) -> None:
        for _ in range(turns):
            turn = [self.message(HumanMessage, "question"), self.message(AIMessage, "answer")]
            self.service.append("s1", turn, branch=branch)

    def tools(self, branch: str | None, is_answered: bool) -> None:  # noqa: FBT001
        name = f"c{len(self.said)}"
        calls = [{"name": "look", "args": {}, "id": name}]
        turn = [self.message(HumanMessage, "look"), self.message(AIMessage, "looking", tool_calls=calls)]
        if is_answered:
            turn += [self.message(ToolMessage, "found", tool_call_id=name), self.message(AIMessage, "seen")]
        self.service.append("s1", turn, branch=branch)

    def compact(self, branch: str | None, how: int) -> object:
        result = self.service.compact("s1", Compaction(None, HOWS[how]), branch=branch)
        return result.outcome, [event.seq for event in result.archived], result.tokens_after, result.record

    def rewind(self, share: float) -> int:
        return self.service.rewind("s1", to_seq=int(self.service.get("s1").version * share)).seq

    def undo(self) -> object:
        try:
            return self.service.undo_rewind("s1").seq
        except EventNotFoundError:
            return None

    def edit(self, number: int) -> object:
        try:
            return self.service.edit("s1", HumanMessage(f"edited {len(self.said)}", id=f"m{number}")).seq
        except EventNotFoundError:
            return None

    def views(self) -> object:
        """What everybody sees."""
        return [
            [(event.seq, event.standing, event.covers) for event in self.service.context("s1", branch=branch).events]
            for branch in (None, "orch", "orch.writer", "orch.reader")
        ]


@given(STEPS)
def test_the_database_does_what_memory_does(steps: list[tuple[Any, ...]]) -> None:
    with SessionService("sqlite://") as database:
        players = Player(SessionService(InMemoryStore())), Player(database)
        for step in steps:
            answers = [player.play(step) for player in players]
            assert answers[0] == answers[1]
            assert players[0].views() == players[1].views()
        for player in players:
            assert player.service.verify("s1") == []
            kinds = frozenset({EventKind.MESSAGE})
            log = player.service.events("s1", EventFilter(kinds=kinds, synthetic=False)).items
            texts = {event.message.text for event in log if event.message is not None}
            assert set(player.said) <= texts
            for branch in (None, "orch.writer"):
                messages = player.service.messages("s1", branch=branch)
                assert [message for _, message in pair_tool_calls(messages)] == messages
