# ruff: noqa: ANN401 - stands in for what users pass, which may be anything
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions import (
    CompactionRequest,
    EstimatedTokenCounter,
    Interval,
    ModelCall,
    SessionEvent,
    SlidingWindow,
    Standing,
    Summarize,
    TokenWindow,
    TurnWindow,
)
from langchain_sessions._compaction.archivable import choose_archived, split_segments
from langchain_sessions._compaction.plan import NO_CALL
from langchain_sessions._core.rows import Counters
from langchain_sessions._core.view import pair_tool_calls
from langchain_sessions._tokens.usage import PromptUsage
from langchain_sessions.errors import InvalidInputError
from tests.compaction.models import ScriptedModel
from tests.compaction.test_triggers import NOON, SESSION


def message(code: str) -> BaseMessage:
    """u, a, s: human, AI, system; c7: an AI message that calls 7; r7: its result."""
    kind, name = code[0], code[1:]
    if kind == "c":
        return AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": name}])
    if kind == "r":
        return ToolMessage("found", tool_call_id=name)
    kinds: dict[str, type[BaseMessage]] = {"u": HumanMessage, "a": AIMessage, "s": SystemMessage}
    return kinds[kind](code)


def log(codes: str, **changes: Any) -> list[SessionEvent]:
    """Events 1, 2, 3 … of the codes; `S` stands for a summary."""
    events = []
    for seq, code in enumerate(codes.split(), start=1):
        is_summary = code == "S"
        fields: dict[str, Any] = {
            "message": AIMessage("summary") if is_summary else message(code),
            "is_synthetic": is_summary,
            "covers": ((0, 0),) if is_summary else (),
            "tokens": 10,
            **changes,
        }
        events.append(SessionEvent(id=str(seq), session_id="s1", seq=seq, position=seq, timestamp=NOON, **fields))
    return events


def archived(
    strategy: Any,
    events: list[SessionEvent],
    *,
    scope: str | None = None,
    again: bool = False,
    call: ModelCall = NO_CALL,
) -> list[int]:
    request = CompactionRequest(
        session=SESSION,
        scope=scope,
        counters=Counters(),
        now=NOON,
        counter=EstimatedTokenCounter(),
        last_compacted_at=NOON if again else None,
        call=call,
        events=tuple(events),
    )
    return [event.seq for event in choose_archived(events, scope, strategy.plan(request).archive)]


@pytest.mark.parametrize(
    ("strategy", "codes", "gone"),
    [
        (SlidingWindow(2), "u u u u u", [1, 2, 3]),
        (SlidingWindow(3), "u a u a u a", [1, 2, 3, 4]),
        (SlidingWindow(4), "u a a a u a", [1, 2, 3, 4]),
        (SlidingWindow(6), "u a u a u a", []),
        (SlidingWindow(2), "u a a a a a", []),  # one turn larger than the window stays whole
        (SlidingWindow(2), "u a u a a a", [1, 2]),
        (SlidingWindow(2), "a a a a", []),  # nobody spoke: there is no finished turn
        (SlidingWindow(2), "S u a u a", [2, 3]),  # a summary costs no place
        (SlidingWindow(2), "s u a u a", [2, 3]),  # nor does the newest system message, which stays
        (SlidingWindow(2), "s u a s u a", [1, 2, 3]),  # and replaces an older one
        (TurnWindow(1), "a u a u a", [2, 3]),  # the preamble is kept
        (TurnWindow(2), "u a u a", []),
        (TurnWindow(2), "u a u u a", [1, 2]),
        (TokenWindow(40), "u a u a u a", [1, 2]),
        (TokenWindow(1), "u a u a u a", [1, 2, 3, 4]),
        (TokenWindow(40), "S u a u a u a", [2, 3, 4, 5]),  # the summary uses up a part of the budget
        (Interval(3, 1), "u a u a", []),
        (Interval(3, 1), "u a u a u a", [1, 2, 3, 4]),
        (Interval(3, 0), "u a u a u a", [1, 2, 3, 4]),
    ],
)
def test_what_each_window_lets_go_of(strategy: Any, codes: str, gone: list[int]) -> None:
    assert archived(strategy, log(codes)) == gone


@pytest.mark.parametrize(
    ("call", "gone"),
    [
        (NO_CALL, []),
        (ModelCall(count_message=lambda message: 20 if message.type == "human" else 10), [1, 2]),
        (ModelCall(usage=PromptUsage(counted=1_000, reported=2_000)), [1, 2, 3, 4]),
        (ModelCall(count_message=lambda _: 5, usage=PromptUsage(counted=1_000, reported=2_000)), []),
    ],
)
def test_a_window_of_tokens_is_counted_as_the_prompt_of_its_call_is(call: ModelCall, gone: list[int]) -> None:
    assert archived(TokenWindow(60), log("u a u a u a"), call=call) == gone


def test_an_interval_counts_from_the_last_compaction() -> None:
    assert archived(Interval(3, 1), log("S u a u a u a"), again=True) == []
    assert archived(Interval(3, 1), log("S u a u a u a u a"), again=True) == [2, 3, 4, 5, 6, 7]


def test_turns_of_one_invocation_are_one_run() -> None:
    events = [*log("u a u a u a", invocation_id="one")]
    assert archived(Interval(2, 1), events) == []


@pytest.mark.parametrize(
    ("codes", "gone"),
    [
        ("u c1 r1 a u a", [1, 2, 3, 4]),
        ("u c1 u a u a", [1, 2, 3, 4]),  # a call that nobody ever answered is no obstacle
        ("u c1 u r1 a u a", [1, 2, 3, 4, 5]),
        ("u c1 u a u r1 a", [3, 4]),  # answered in the newest turn: both ends stay
        ("u a u c1", [1, 2]),  # an open call of the running turn stays
        ("u c1 r1 u c1 r1 u a", [1, 2, 3, 4, 5, 6]),  # ids are used again
        ("r9 u a u a", [1, 2, 3]),  # a result without a call goes like any other event
    ],
)
def test_tool_pairs_are_never_split(codes: str, gone: list[int]) -> None:
    everything = log(codes)
    assert [event.seq for event in choose_archived(everything, None, everything)] == gone


def test_an_open_long_running_call_stays_and_blocks_nothing() -> None:
    events = log("u c1 a u a u a")
    object.__setattr__(events[1], "long_running_tool_ids", ("1",))
    assert [event.seq for event in choose_archived(events, None, events)] == [4, 5]


def test_a_call_of_the_newest_run_may_still_be_answered() -> None:
    events = log("u c1 u a", invocation_id="now")
    assert choose_archived(events, None, events) == ()


def test_what_an_open_invocation_holds_stays() -> None:
    events = log("u a u a u a")
    object.__setattr__(events[2], "standing", Standing.OPEN)
    assert [event.seq for event in choose_archived(events, None, events)] == [1, 2]


def test_a_question_goes_only_with_its_whole_turn_and_half_a_pair_never() -> None:
    events = log("u c1 r1 a u a")
    assert [e.seq for e in choose_archived(events, None, events[:3])] == [2, 3]
    assert [e.seq for e in choose_archived(events, None, events[1:2])] == []
    assert [e.seq for e in choose_archived(events, None, events[:4])] == [1, 2, 3, 4]


def test_other_scopes_are_not_touched() -> None:
    events = [*log("u a u a"), *log("u a u a", branch="orch")]
    assert all(event.branch is None for event in choose_archived(events, None, events))


def test_a_branch_without_a_human_is_divided_by_its_answers() -> None:
    events = log("c1 r1 a c2 r2 a a", branch="orch.writer")
    assert [len(segment) for segment in split_segments(events, "orch.writer")] == [3, 3, 1]
    assert archived(SlidingWindow(4), events, scope="orch.writer") == [1, 2, 3]


codes = st.lists(st.sampled_from(["u", "a", "s", "c1", "r1", "c2", "r2", "S"]), max_size=25).map(" ".join)
strategies = st.one_of(
    st.builds(SlidingWindow, st.integers(1, 12)),
    st.builds(TurnWindow, st.integers(1, 4)),
    st.builds(TokenWindow, st.integers(1, 150)),
    st.builds(Interval, st.integers(3, 5), st.integers(0, 2)),
)


@given(codes, strategies, st.sampled_from([None, "orch"]))
def test_a_window_is_never_empty_and_its_prompt_always_valid(codes: str, strategy: Any, scope: str | None) -> None:
    events = log(codes, branch=scope)
    gone = set(archived(strategy, events, scope=scope))
    kept = [event for event in events if event.seq not in gone]
    assert bool(kept) == bool(events)
    spoken = [event for event in kept if not event.is_synthetic]
    if gone:
        assert spoken
    before = _exchanges(events)
    assert _exchanges(kept) == {pair for pair in before if pair[0] not in gone}
    assert all((call in gone) == (result in gone) for call, result in before)


def _exchanges(events: list[SessionEvent]) -> set[tuple[int, int]]:
    """The calls and results that a prompt shows together."""
    messages = [event.message for event in events if event.message is not None]
    shown = [events[index].seq for index, _ in pair_tool_calls(messages)]
    results = {event.seq for event in events if isinstance(event.message, ToolMessage)}
    pairs, caller = set(), 0
    for seq in shown:
        if seq in results:
            pairs.add((caller, seq))
        else:
            caller = seq
    return pairs


@pytest.mark.parametrize(
    "make",
    [
        lambda: SlidingWindow(0),
        lambda: TurnWindow(0),
        lambda: TokenWindow(0),
        lambda: Interval(0),
        lambda: Interval(2, 2),
        lambda: Summarize(ScriptedModel(), keep_events=2, overlap=2),
        lambda: Summarize(ScriptedModel(), keep_events=0),
        lambda: Summarize(ScriptedModel(), overlap=-1),
        lambda: Summarize(ScriptedModel(), schema={"type": "object", "properties": {"title": {"type": "string"}}}),
    ],
)
def test_nonsense_is_refused(make: Any) -> None:
    with pytest.raises(InvalidInputError):
        make()
