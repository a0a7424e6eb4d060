"""Issue 17, item 2: state as people write it comes back equal, or is refused before anything is written."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import random
import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_sessions import NewEvent, SessionCheckpointSaver
from langchain_sessions._core.codec.same import is_same
from langchain_sessions._core.codec.values import dump_json, pack
from langchain_sessions._threads.allowed import Allowed
from langchain_sessions._threads.forms import MARK, ValueForms
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langchain_sessions import SessionService

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Step:
    """One of a plan."""

    name: str
    after: tuple[int, ...] = ()


@dataclasses.dataclass
class Plan:
    """What a graph carries along."""

    steps: list[Step]
    colour: Colour
    notes: Any = None


class Report(BaseModel):
    """A model of somebody's own."""

    title: str
    parts: Any = None


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: Any


class Whole(TypedDict):
    """A graph's state, which names what is in it."""

    plan: Plan
    levels: dict[str, Level]
    points: list[Point]
    report: Report | None


class State(MessagesState):
    """Messages beside anything."""

    value: Any


class EqRaises:
    """Cannot be compared."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


class BoolRaises:
    """Answers a comparison with something that has no truth."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise RuntimeError


class ReduceRaises:
    """Cannot be copied."""

    def __reduce__(self) -> Any:
        raise RuntimeError


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def circle(width: int = 1) -> Any:
    found: list[Any] = []
    found.extend([found] * width)
    return found


HOSTILE = [EqRaises(), BoolRaises(), ReduceRaises(), threading.Lock(), lambda: 1, circle(), circle(3)]
EXACT = [
    np.arange(3),
    np.array([[1.5, float("nan")]], order="F"),
    np.array(["a", "bb"]),
    np.array([{"a": 1}, None], dtype=object),
    np.float32(1.5),
    np.float64(2.5),
    np.int64(7),
    {1, 2},
    {(1, 2), (3, 4)},
    frozenset({"a"}),
    float("nan"),
    float("-inf"),
    (1, (2, [3])),
    {"a": (1,), "b": [(2,)]},
    {1: "a", (2, 3): "b"},
    deque([1, 2], maxlen=3),
    2**80,
    -(2**80),
    "half \ud83d of an emoji",
    {"\ud800": 1},
    b"\x00\xff",
    1 + 2j,
    Document("text", metadata={"at": (1, 2)}, id="d"),
    nested(100),
    {"langchain_sessions:form": ["tuple", [1]]},
    {"langchain_sessions:ref": [0, 0, 1]},
    HumanMessage("q", additional_kwargs={"k": np.arange(2)}),
    {"deep": {"message": AIMessage("a", id="1", response_metadata={"score": np.float32(0.5)})}},
]


def play(sessions: SessionService, value: Any, **options: Any) -> Any:
    """What a graph keeps of a value, read by another saver, and in the middle of a second turn."""
    seen: list[Any] = []

    def work(state: State) -> dict[str, Any]:
        seen.append(state.get("value"))
        return {"value": value, "messages": [AIMessage("done")]}

    builder = StateGraph(State)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    graph: Any = builder.compile(checkpointer=SessionCheckpointSaver(sessions, **options))
    graph.invoke({"messages": [HumanMessage("one")]}, CONFIG)
    graph = builder.compile(checkpointer=SessionCheckpointSaver(sessions, **options))
    graph.invoke({"messages": [HumanMessage("two")]}, CONFIG)
    assert len(graph.get_state(CONFIG).values["messages"]) == 4
    assert len(list(graph.get_state_history(CONFIG))) == 6
    assert is_same(seen[1], graph.get_state(CONFIG).values["value"])
    return seen[1]


def carry(sessions: SessionService, message: BaseMessage) -> tuple[Any, Any]:
    """A message after two turns of a graph: as the thread has it, and as the log has it."""

    def work(state: State) -> dict[str, Any]:
        return {"messages": [message] if len(state["messages"]) == 1 else []}

    builder = StateGraph(State)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    graph: Any = builder.compile(checkpointer=SessionCheckpointSaver(sessions))
    graph.invoke({"messages": [HumanMessage("one")]}, CONFIG)
    graph = builder.compile(checkpointer=SessionCheckpointSaver(sessions))
    graph.invoke({"messages": [HumanMessage("two")]}, CONFIG)
    found = graph.get_state(CONFIG).values["messages"]
    assert len(found) == 3
    log = [event.message for event in sessions.events("t") if event.message]
    assert [each.text for each in log] == ["one", "r", "two"]
    return found[1], log[1]


@pytest.mark.parametrize("value", EXACT, ids=lambda value: type(value).__name__)
def test_item_2_a_channel_gives_back_what_it_was_given(service: SessionService, value: Any) -> None:
    assert is_same(play(service, value), value)


@pytest.mark.parametrize("value", [*EXACT[:-2], np.array([], dtype="f4")], ids=lambda value: type(value).__name__)
def test_item_2_artifacts_and_what_else_a_message_carries(service: SessionService, value: Any) -> None:
    tool = ToolMessage("r", tool_call_id="c", artifact=value, additional_kwargs={"k": {"in": value}})
    for found in carry(service, tool):
        assert is_same(found.artifact, value)
        assert is_same(found.additional_kwargs["k"]["in"], value)


@pytest.mark.backends("memory")
@pytest.mark.parametrize("value", [*HOSTILE, nested(400)], ids=lambda value: type(value).__name__)
def test_item_2_a_message_is_stored_whatever_it_carries(service: SessionService, value: Any) -> None:
    tool = ToolMessage("r", tool_call_id="c", artifact=value)
    thread, log = carry(service, tool)
    assert thread.content == log.content == "r"
    assert repr(thread.artifact) == repr(log.artifact)


@pytest.mark.parametrize("value", [*HOSTILE, nested(2000), ValueError("x")], ids=lambda value: type(value).__name__)
def test_item_2_what_would_not_come_back_is_refused_by_channel_and_type(service: SessionService, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=rf"^value: .*{type(value).__name__}") as caught:
        play(service, value)
    assert isinstance(caught.value, TypeError)  # as LangGraph's own savers raise
    assert [message.text for message in service.messages("t")] == ["one"]


def everything() -> Any:
    plan = Plan([Step("a"), Step("b", (0,))], Colour.BLUE, notes={"level": (1, 2)})
    return {"plan": plan, "points": [Point(1, (2,)), Point(3, None)], "report": Report(title="r", parts=[(1,), plan])}


def test_item_2_the_error_prints_the_line_to_add(service: SessionService) -> None:
    with pytest.raises(InvalidInputError) as caught:
        play(service, everything())
    line = str(caught.value).partition("allow=[")[2].partition("]")[0]
    assert line == "Plan, Step, Colour, Point, Report"
    allowed = eval(f"[{line}]")  # noqa: S307 - what a reader would paste
    service.delete("t")
    assert is_same(play(service, everything(), allow=allowed), everything())


@pytest.mark.parametrize("allow", [[Whole], [Plan, Report, Point], [Plan, Step, Colour, Point, Report]])
def test_item_2_what_is_allowed_comes_back(service: SessionService, allow: list[Any]) -> None:
    assert is_same(play(service, everything(), allow=allow), everything())
    names = [(kind.__module__, kind.__name__) for kind in (Plan, Step, Colour, Point, Report)]
    clone = SessionCheckpointSaver(service).with_allowlist(names)
    found = clone.get_tuple(CONFIG)
    assert found is not None
    assert is_same(found.checkpoint["channel_values"]["value"], everything())
    assert SessionCheckpointSaver(service).with_allowlist(names) is not clone
    assert clone.with_allowlist(names) is clone.with_allowlist(names)


def test_item_2_a_class_that_is_no_longer_allowed_is_named(service: SessionService) -> None:
    play(service, Level.LOW, allow=[Level])
    with pytest.raises(InvalidInputError, match=r"a Level.*allow=\[Level\]"):
        SessionCheckpointSaver(service).get_tuple(CONFIG)


@pytest.mark.backends("memory")
def test_item_2_a_class_of_a_function_and_one_that_cannot_be_allowed(service: SessionService) -> None:
    @dataclasses.dataclass
    class Inner:
        x: Any

    assert play(service, Inner((1,)), allow=[Inner]) == Inner((1,))
    with pytest.raises(InvalidInputError, match="EqRaises is no dataclass"):
        SessionCheckpointSaver(service, allow=[EqRaises])


@pytest.mark.backends("memory")
def test_item_2_dictionaries_that_remember_and_bytes_that_change_come_back_equal(service: SessionService) -> None:
    assert play(service, [OrderedDict(b=1, a=2), bytearray(b"x")]) == [{"b": 1, "a": 2}, b"x"]


@pytest.mark.backends("memory", "sqlite")
@pytest.mark.parametrize("size", [2, 200, 50_000])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_bytes_that_may_be_changed_may_be_changed_again(service: SessionService, size: int, *, is_sealed: bool) -> None:
    """A channel's own; within other values they come back as bytes, as with LangGraph's serializer."""
    given = bytearray(b"x" * size)
    if is_sealed:
        pytest.importorskip("Crypto")
    serde = EncryptedSerializer.from_pycryptodome_aes(JsonPlusSerializer(), key=b"0" * 16) if is_sealed else None
    found = play(service, given, serde=serde)
    assert (type(found), found) == (bytearray, given)


@pytest.mark.backends("memory")
def test_item_2_no_stored_name_is_called(service: SessionService) -> None:
    """What stored bytes name is compared with what the application allowed, and nothing else is done with it."""
    forged = {"langchain_sessions:form": ["object", "os:system", "touch /nowhere"]}
    assert play(service, forged) == forged
    saver = SessionCheckpointSaver(service, allow=[Plan])
    with pytest.raises(InvalidInputError, match="holds a system"):
        saver._forms.allowed.rebuild("os:system", "true")


@pytest.mark.backends("memory")
def test_item_2_an_encrypting_serializer_seals_every_form(service: SessionService) -> None:
    pytest.importorskip("Crypto")
    serde = EncryptedSerializer.from_pycryptodome_aes(JsonPlusSerializer(), key=b"0" * 16)
    value = {"who": "ada", "plan": everything(), "array": np.arange(3), "say": HumanMessage("a secret")}
    assert is_same(play(service, value, serde=serde, allow=[Whole]), value)


@pytest.mark.backends("memory")
def test_item_2_interrupts_carry_values_too(service: SessionService) -> None:
    def ask(state: State) -> dict[str, Any]:
        return {"value": interrupt({"plan": everything(), "at": (1, 2)})}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    graph: Any = builder.compile(checkpointer=SessionCheckpointSaver(service, allow=[Whole]))
    graph.invoke({"messages": [HumanMessage("one")]}, CONFIG)
    (asked,) = graph.get_state(CONFIG).interrupts
    assert is_same(asked.value, {"plan": everything(), "at": (1, 2)})
    assert graph.invoke(Command(resume=(np.int64(1), Colour.RED)), CONFIG)["value"] == (1, Colour.RED)


@pytest.mark.backends("memory")
def test_item_2_a_piece_of_a_stream_in_the_state(service: SessionService) -> None:
    piece = AIMessageChunk(content="a", id="1", additional_kwargs={"k": (1,)})
    found = play(service, [piece])
    assert found[0].text == "a"


def drawn(draw: random.Random, depth: int = 0) -> Any:
    """Any value that has a form."""
    if depth > 3 or draw.random() < 0.4:
        return draw.choice([*EXACT, everything(), Level.LOW, Colour.RED, None, True, 1, 1.0, "text", ""])
    inner = [drawn(draw, depth + 1) for _ in range(draw.randrange(4))]
    kind = draw.randrange(5)
    if kind == 0:
        return inner
    if kind == 1:
        return tuple(inner)
    if kind == 2:
        return {draw.choice(["a", "b", 1, (1, 2)]): item for item in inner}
    return Plan(inner, Colour.RED, notes=inner) if kind == 3 else Report.model_construct(title="t", parts=inner)


@pytest.mark.backends("memory")
@pytest.mark.parametrize("seed", range(12))
def test_item_2_values_of_any_shape(service: SessionService, seed: int) -> None:
    draw = random.Random(seed)
    value = [drawn(draw) for _ in range(20)]
    assert is_same(play(service, value, allow=[Whole, Level]), value)


@pytest.mark.backends("memory")
@pytest.mark.parametrize(
    "bad", [*HOSTILE, np.arange(2), {1, 2}, float("nan"), circle(2)], ids=lambda value: type(value).__name__
)
def test_item_2_metadata_and_filters_are_refused_by_name_or_match_nothing(service: SessionService, bad: Any) -> None:
    session = service.create()
    with pytest.raises(InvalidInputError, match="metadata"):
        service.append(session.id, NewEvent(message=HumanMessage("q"), metadata={"k": bad}))
    saver = SessionCheckpointSaver(service)
    play(service, 1)
    with contextlib.suppress(ValueError):
        assert not list(saver.list(None, filter={"source": bad}))


@pytest.mark.parametrize(
    "value",
    [
        [Document("text", metadata={"at": (1, {2}), "deep": [Document("in it")]}, id="d"), ("a", 1)],
        {"says": MARK, "holds": Document(MARK)},
        {MARK: ["document", "text", {}, None], "holds": Document("text")},
        [Document("half \ud800 a pair"), Send("node", {"given": (1, Document("text"))})],
        [Document("text", metadata={1: "a number"}), 1 << 63, 1 << 64],
    ],
)
def test_what_is_marked_in_c_is_what_was_marked_by_hand(value: Any) -> None:
    forms = ValueForms(JsonPlusSerializer(allowed_msgpack_modules=None), Allowed(()))
    assert is_same(forms.loads_typed(forms.dumps_typed(value)), value)


def test_documents_of_earlier_releases_are_read() -> None:
    forms = ValueForms(JsonPlusSerializer(allowed_msgpack_modules=None), Allowed(()))
    document = Document("text", metadata={"n": 1}, id="d")
    stored = ormsgpack.packb([{MARK: ["packed", dump_json(pack(document))]}])
    assert forms.loads_typed(("marked:msgpack", stored)) == [document]
