"""Twelve things that graphs do with their state, each as a graph and the calls that are made of it."""

from __future__ import annotations

import base64
import functools
import operator
import random
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

import numpy as np
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 4_000
"""Words of a real text repeat, and are not all alike: these are drawn once, and drawn from by rank."""


class Workload(NamedTuple):
    """What is run.

    Attributes:
        name: What it is called.
        build: Makes the uncompiled graph; told whether its growing channels are `DeltaChannel`s.
        play: Runs a compiled graph on threads of a name.
    """

    name: str
    build: Callable[..., Any]
    play: Callable[[Any, str], None]


@functools.cache
def _words() -> tuple[list[str], list[float]]:
    draw = random.Random(11)
    syllables = ["ka", "lo", "mi", "ren", "sta", "vor", "ti", "un", "bel", "da", "gro", "pe", "shi", "wen", "ox", "qua"]
    words = ["".join(draw.choices(syllables, k=draw.choice((1, 2, 2, 3, 4)))) for _ in range(VOCABULARY)]
    return words, [1 / (rank + 3) for rank in range(VOCABULARY)]


def text(size: int, draw: random.Random) -> str:
    """Text of a real vocabulary."""
    words, weights = _words()
    return " ".join(draw.choices(words, weights, k=size // 4))[:size].ljust(size, ".")


def noise(size: int, draw: random.Random) -> str:
    """Text that cannot be made much smaller."""
    return base64.b64encode(draw.randbytes(size)).decode()[:size]


def _folded(reducer: Callable[[Any, Any], Any]) -> Any:
    """A reducer of one write as one of many."""

    def fold(value: Any, writes: Any) -> Any:
        return functools.reduce(reducer, writes, value)

    return fold


def _union(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
    return {**(left or {}), **(right or {})}


def _channel(kind: Any, reducer: Any, *, delta: bool) -> Any:
    return Annotated[kind, DeltaChannel(_folded(reducer)) if delta else reducer]


def one_node(state: dict[str, Any], node: Callable[[Any], Any]) -> Any:
    """A graph that does one thing."""
    builder: Any = StateGraph(TypedDict("State", state, total=False))  # type: ignore[misc, operator]
    builder.add_node("work", node)
    builder.add_edge(START, "work")
    return builder


def _messages(*, delta: bool) -> Any:
    return _channel(list[AnyMessage], add_messages, delta=delta)


def _turns(count: int, made: Callable[[int], Any]) -> Callable[[Any, str], None]:
    def play(graph: Any, thread: str) -> None:
        config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": 2_000}
        for turn in range(count):
            graph.invoke(made(turn), config)

    return play


def _say(turn: int) -> Any:
    return {"messages": [HumanMessage(text(300, random.Random(turn)), id=f"h{turn}")]}


# -- the workloads -----------------------------------------------------------------------------------------


def _tools(*, delta: bool) -> Any:
    def work(state: Any) -> Any:
        draw = random.Random(len(state["messages"]))
        at = len(state["messages"])
        calls = [{"name": "look", "args": {"q": text(30, draw)}, "id": f"c{at}-{n}"} for n in range(5)]
        found = [ToolMessage(text(20_000, draw), tool_call_id=f"c{at}-{n}", id=f"t{at}-{n}") for n in range(5)]
        return {"messages": [AIMessage("", tool_calls=calls, id=f"a{at}"), *found, AIMessage(text(400, draw))]}

    return one_node({"messages": _messages(delta=delta)}, work)


def _subgraph(*, delta: bool) -> Any:
    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(text(400, random.Random(len(state["messages"]))))]}

    inner = one_node({"messages": _messages(delta=delta)}, answer).compile()
    return one_node({"messages": _messages(delta=delta)}, inner)


def _removing(*, delta: bool) -> Any:
    def work(state: Any) -> Any:
        at = len(state["messages"])
        old = [RemoveMessage(id=each.id) for each in state["messages"][:-20] if isinstance(each, ToolMessage)]
        draw = random.Random(at)
        call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": f"c{at}"}])
        return {"messages": [*old, call, ToolMessage(text(1_000, draw), tool_call_id=f"c{at}"), AIMessage("done")]}

    return one_node({"messages": _messages(delta=delta)}, work)


def files_graph(*, delta: bool) -> Any:
    """A deep agent's files, of which a step changes one."""

    def work(state: Any) -> Any:
        draw = random.Random(state["turn"])
        return {"files": {f"src/file_{draw.randrange(50)}.py": text(20_000, draw)}}

    return one_node({"files": _channel(dict, _union, delta=delta), "turn": int}, work)


def files_input(turn: int) -> Any:
    """50 files of 20 KB at first; then the number of the turn."""
    if turn:
        return {"turn": turn}
    draw = random.Random(99)
    return {"turn": 0, "files": {f"src/file_{number}.py": text(20_000, draw) for number in range(50)}}


def _documents(*, delta: bool) -> Any:
    def work(state: Any) -> Any:
        draw = random.Random(state["turn"])
        new = [Document(text(1_000, draw), metadata={"source": f"{state['turn']}-{n}"}) for n in range(4)]
        return {"documents": new}

    return one_node({"documents": _channel(list, operator.add, delta=delta), "turn": int}, work)


def _frame(*, delta: bool) -> Any:
    del delta  # an array has no reducer that could be folded

    def work(state: Any) -> Any:
        new = np.random.default_rng(state["turn"]).normal(size=(250, 8))
        before = state.get("frame")
        return {"frame": new if before is None else np.vstack([before, new])}

    return one_node({"frame": Any, "turn": int}, work)


def _dicts(*, delta: bool) -> Any:
    def work(state: Any) -> Any:
        return {"history": [{"role": "assistant", "content": text(400, random.Random(len(state["history"])))}]}

    return one_node({"history": _channel(list, operator.add, delta=delta)}, work)


def _loop(*, delta: bool) -> Any:
    del delta
    builder = one_node({"count": int}, lambda state: {"count": state["count"] + 1})
    builder.add_conditional_edges("work", lambda state: "work" if state["count"] < 500 else END)
    return builder


def _fan_out(*, delta: bool) -> Any:
    def task(given: Any) -> Any:
        return {"results": [{"n": given["n"], "answer": text(1_000, random.Random(given["n"]))}]}

    def spread(state: Any) -> Any:
        draw = random.Random(state["turn"])
        return [Send("task", {"n": number, "body": text(1_000, draw)}) for number in range(200)]

    builder = one_node({"results": _channel(list, operator.add, delta=delta), "turn": int}, lambda _: {})
    builder.add_node("task", task)
    builder.add_conditional_edges("work", spread, ["task"])
    return builder


def _edited(*, delta: bool) -> Any:
    def work(state: Any) -> Any:
        draw = random.Random(state["turn"])
        said = state["messages"][-1].content
        return {"messages": [AIMessage(said + text(1_000, draw), id="draft")]}

    return one_node({"messages": _messages(delta=delta), "turn": int}, work)


def _edit(turn: int) -> Any:
    return (
        {"turn": turn} if turn else {"turn": 0, "messages": [HumanMessage("write", id="h"), AIMessage("", id="draft")]}
    )


def _chat(*, delta: bool) -> Any:
    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(text(400, random.Random(len(state["messages"]))))]}

    return one_node({"messages": _messages(delta=delta)}, answer)


def _one_turn(graph: Any, thread: str) -> None:
    for number in range(1_000):
        graph.invoke(_say(number), {"configurable": {"thread_id": f"{thread}-{number}"}})


def _numbered(turn: int) -> Any:
    return {"turn": turn}


def _asked(turn: int) -> Any:
    return {"history": [{"role": "user", "content": text(400, random.Random(-turn))}]}


WORKLOADS = (
    Workload("40 turns x 5 tools x 20 KB", _tools, _turns(40, _say)),
    Workload("subgraph, 100 turns", _subgraph, _turns(100, _say)),
    Workload("removing old tool messages, 200", _removing, _turns(200, _say)),
    Workload("files 50 x 20 KB, one changed, 40", files_graph, _turns(40, files_input)),
    Workload("documents, 100 turns", _documents, _turns(100, _numbered)),
    Workload("table with rows added, 40", _frame, _turns(40, _numbered)),
    Workload(
        "messages as dicts, 150",
        _dicts,
        _turns(150, _asked),
    ),
    Workload("counter loop, 500 steps", _loop, _turns(1, lambda _: {"count": 0})),
    Workload("Send x 200, 1 KB dicts", _fan_out, _turns(1, _numbered)),
    Workload("one message edited 150 times", _edited, _turns(150, _edit)),
    Workload("one message edited 400 times", _edited, _turns(400, _edit)),
    Workload("one-turn threads, 1 000", _chat, _one_turn),
)
