"""Issue 17, item 2: whatever people put into messages, state, metadata and filters: drawn, the same each time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_sessions import NewEvent, SessionCheckpointSaver, SessionService, Standing
from langchain_sessions._core.codec.same import is_same
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.runnables import RunnableConfig

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


class State(MessagesState):
    """Messages beside anything."""

    value: Any


class Tensor:
    """Compares as a tensor does: item by item, and its truth is ambiguous."""

    __hash__ = object.__hash__

    def __init__(self, *data: float) -> None:
        """Hold numbers."""
        self.data = data

    def __eq__(self, other: object) -> Any:
        data: Any = getattr(other, "data")  # noqa: B009 - raises for what is no tensor
        return Tensor(*(one == its for one, its in zip(self.data, data, strict=True)))

    def __bool__(self) -> bool:
        raise RuntimeError

    def __len__(self) -> int:
        return len(self.data)


class Frame:
    """A table that answers nothing as others do."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Proxy:
    """Says that there is no request, whatever it is asked, as a web framework's object does outside of one."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__dict__"):
            raise RuntimeError
        return object.__getattribute__(self, name)


class Unprintable:
    """Has no text."""

    def __repr__(self) -> str:
        raise RuntimeError


class Uncopied:
    """Cannot be taken apart."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError


class Mapped(dict[Any, Any]):
    """A dictionary that cannot be compared."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


def _around(width: int) -> list[Any]:
    found: list[Any] = []
    found.extend([found] * width)
    return found


def _call_in_itself() -> dict[str, Any]:
    found: dict[str, Any] = {"name": "look", "id": "c"}
    found["args"] = found
    return found


def _deep(depth: int) -> Any:
    found: Any = "bottom"
    for _ in range(depth):
        found = {"in": [found]}
    return found


HOSTILE: list[Callable[[], Any]] = [
    *(lambda: Tensor(1, 2), Frame, Proxy, Unprintable, Uncopied, object, lambda: len, lambda: Mapped(a=1)),
    *(lambda: _around(1), lambda: _around(3), _call_in_itself, lambda: _deep(150), lambda: _deep(3000)),
    *(lambda: (item for item in "ab"), lambda: np.array([Tensor(1)], dtype=object)),
    lambda: np.ma.array([1], mask=[True]),
]
EXACT: list[Callable[[], Any]] = [
    *(lambda: np.arange(6).reshape(2, 3), lambda: np.array([(1, 2.5)], dtype=[("a", "<i4"), ("b", ">f8", (2,))])),
    *(lambda: np.array([(1, "x")], dtype=[("a", "<i4"), ("b", "U3")]), lambda: np.datetime64("2020-01-01")),
    *(lambda: {1, "a"}, lambda: frozenset({(1, 2)}), lambda: float("nan"), lambda: float("-inf"), lambda: b"\x00"),
    *(
        lambda: {(1, 2): 3, None: 4},
        lambda: {"\ud800": "\ud83d"},
        lambda: 10**400,
        lambda: (1, [2, (3,)]),
        lambda: "text",
    ),
]


def drawn(draw: random.Random, leaves: list[Callable[[], Any]], depth: int = 0) -> Any:
    """Something with a leaf at each end."""
    kind = draw.randrange(5) if depth < 3 else 4
    if kind == 4:
        return draw.choice(leaves)()
    inner = [drawn(draw, leaves, depth + 1) for _ in range(draw.randrange(1, 4))]
    if kind == 0:
        return tuple(inner)
    return inner if kind < 3 else {draw.choice(["a", "b", "type", "text", (1, 2), 7]): item for item in inner}


def frames() -> list[Callable[[], Any]]:
    """Tables of pandas, where it is installed."""
    pd = pytest.importorskip("pandas")
    return [
        lambda: pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["r", "s"]),
        lambda: pd.DataFrame({("a", "b"): [1]}),
        lambda: pd.DataFrame({"o": [{"a": 1}, [1]], "i": pd.array([1, None], dtype="Int64")}),
        lambda: pd.DataFrame({"t": pd.date_range("2020", periods=2, tz="Europe/Berlin")}),
        pd.DataFrame,
        lambda: pd.Series([1.5, float("nan")], name="n"),
        lambda: pd.Series(["a", "b", "a"], dtype="category"),
    ]


def bearing(value: Any, number: int) -> list[BaseMessage]:
    """Messages that carry a value wherever a message carries any."""
    call = {"name": "look", "args": {"v": value}, "id": f"c{number}", "type": "tool_call"}
    return [
        HumanMessage([{"type": "text", "text": f"question {number}"}, {"type": "other", "v": value}], id=f"h{number}"),
        AIMessage(
            "", tool_calls=[call], additional_kwargs={"k": value}, response_metadata={"m": [value]}, id=f"a{number}"
        ),
        ToolMessage("found", tool_call_id=f"c{number}", artifact=value, id=f"t{number}"),
        AIMessage("done", id=f"d{number}"),
    ]


def graph_of(sessions: SessionService, answer: Any) -> Any:
    """A graph of one node, over a saver that knows nothing yet."""
    builder = StateGraph(State)
    builder.add_node("work", answer)
    builder.add_edge(START, "work")
    return builder.compile(checkpointer=SessionCheckpointSaver(sessions))


def giving(**update: Any) -> Callable[[State], dict[str, Any]]:
    """A node that always says the same."""
    return lambda state: update


def refusal(act: Callable[..., Any], *given: Any) -> str | None:
    """What an input error says of what was given; None where it was taken."""
    try:
        act(*given)
    except InvalidInputError as error:
        return str(error)
    return None


@pytest.fixture
def sessions() -> Iterator[SessionService]:
    with SessionService("sqlite://") as opened:
        yield opened


@pytest.mark.parametrize("seed", range(4))
def test_item_2_a_message_is_stored_and_read_whatever_it_carries(sessions: SessionService, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a seed makes a scenario
    for number in range(6):
        value = drawn(draw, HOSTILE + EXACT)
        said = bearing(value, number)
        graph_of(sessions, giving(messages=said[1:])).invoke({"messages": said[:1]}, CONFIG)
    thread = graph_of(sessions, giving()).get_state(CONFIG).values["messages"]
    # What cannot be compared at all may have an earlier revision: it is superseded once, not with every turn.
    events = [event for event in sessions.events("t") if event.message is not None]
    log = [event.message for event in events if event.standing is Standing.LIVE and event.message is not None]
    assert len(events) - len(log) <= 6
    for found in (thread, log, sessions.messages("t")):
        assert [message.id for message in found] == [f"{kind}{number}" for number in range(6) for kind in "hatd"]
        made = [call for message in found if isinstance(message, AIMessage) for call in message.tool_calls]
        calls = [(call["name"], call["id"], set(call["args"])) for call in made]
        assert calls == [("look", f"c{number}", {"v"}) for number in range(6)]
    hits = [hit for hit in sessions.search("question", session_id="t", limit=50) if hit.why == "match"]
    assert {str(hit.event.message.id) for hit in hits if hit.event.message} == {f"h{number}" for number in range(6)}
    assert sessions.verify("t") == []


@pytest.mark.parametrize("of_frames", [False, True])
def test_item_2_arrays_and_frames_in_messages_come_back_equal(sessions: SessionService, *, of_frames: bool) -> None:
    for number, make in enumerate(frames() if of_frames else EXACT):
        sessions.open("t")
        sessions.append("t", bearing(make(), number))
        found: list[Any] = sessions.messages("t")[-4:]
        said, call, result = found[:3]
        places = [said.content[1]["v"], call.tool_calls[0]["args"]["v"], call.additional_kwargs["k"], result.artifact]
        for value in places:
            assert is_same(value, make()), number


@pytest.mark.parametrize("seed", range(4))
def test_item_2_a_channel_gives_back_what_it_was_given_or_says_what_it_cannot(
    sessions: SessionService, seed: int
) -> None:
    draw = random.Random(100 + seed)  # noqa: S311 - a seed makes a scenario
    refused = kept = 0
    for _ in range(10):
        value = drawn(draw, EXACT * 2 + HOSTILE)
        before = graph_of(sessions, giving()).get_state(CONFIG).values.get("value")
        problem = refusal(graph_of(sessions, giving(value=value)).invoke, {"messages": [HumanMessage("go")]}, CONFIG)
        assert problem is None or problem.startswith("value: ")
        refused, kept = refused + (problem is not None), kept + (problem is None)
        expected = value if problem is None else before
        found = graph_of(sessions, giving()).get_state(CONFIG).values.get("value")
        assert is_same(found, expected), (found, expected)
    assert refused
    assert kept
    assert sessions.verify("t") == []


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: getattr(make, "__name__", "value"))
def test_item_2_metadata_and_filters_refuse_or_match_nothing(sessions: SessionService, make: Callable[[], Any]) -> None:
    value = make()
    sessions.create("t", metadata={"a": 1})
    if type(value) is dict and "in" in value:
        return  # it has an end, and JSON
    for act in (
        lambda: sessions.append("t", NewEvent(message=HumanMessage("q"), metadata={"k": value})),
        lambda: sessions.update("t", metadata={"k": [value]}),
        lambda: sessions.append("t", [], state_delta={"k": value}),
    ):
        with pytest.raises(InvalidInputError, match=r"metadata|state"):
            act()
    assert sessions.get("t").version == 0
    graph_of(sessions, giving()).invoke({"messages": [HumanMessage("go")]}, {**CONFIG, "metadata": {"a": 1}})
    saver = SessionCheckpointSaver(sessions)
    found: list[Any] = []
    problem = refusal(lambda: found.extend(saver.list(CONFIG, filter={"a": value})))
    assert not found
    assert problem is None or "filter" in problem
