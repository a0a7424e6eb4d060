"""LangGraph's savers beside ours: what a turn of a chat costs as its thread grows.

The savers run in turn, a few turns of each, in one process. `+ delta` is the same saver under a graph whose messages
are a `DeltaChannel`, which the application has to choose. The floor is a saver that stores nothing.
"""

from __future__ import annotations

import contextlib
import operator
import time
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph, add_messages

from benchmarks.checkpointer_graphs import CONFIG, OFFICIAL, OURS, NullSaver, letters, sqlite_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.kernel_counts import KernelCounts

_SLOWEST = 0.25
"""A saver whose turn takes more seconds of CPU is followed no further."""
_COUNTED = 5


class Turn(NamedTuple):
    """What a turn of two messages costs in a thread of some turns."""

    where: str
    name: str
    turns: int
    cpu_ms: float
    wall_ms: float
    bytes_written: float
    fsyncs: float
    packets: float


def _folded(value: Any, writes: Any) -> Any:
    return reduce(add_messages, writes, value)


def chat(saver: Any, *, delta: bool) -> Any:
    """A chat whose model answers at once."""
    state: Any = MessagesState
    if delta:
        from langgraph.channels.delta import DeltaChannel

        # The functional form: what is evaluated later does not find the channel.
        state = TypedDict("State", {"messages": Annotated[list[AnyMessage], DeltaChannel(_folded)]})  # type: ignore[misc]  # noqa: UP013
    builder: Any = StateGraph(state)
    builder.add_node("model", lambda state: {"messages": [AIMessage(letters(len(state["messages"])))]})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


@contextlib.contextmanager
def savers(folder: Path, server: dict[str, str], redis: str | None, mongodb: str | None) -> Iterator[dict[Any, Any]]:
    """Graphs over the savers that are there, by where they store and what they are called."""
    found: dict[tuple[str, str], Any] = {("none", "nothing stored"): chat(NullSaver(), delta=False)}
    with contextlib.ExitStack() as stack:
        for delta in (False, True):
            end = " + delta" if delta else ""
            official = stack.enter_context(OFFICIAL["sqlite"].open(sqlite_url(folder, f"theirs{delta}")))
            found["SQLite", f"SqliteSaver{end}"] = chat(official, delta=delta)
            if f"theirs{delta}" in server:
                official = stack.enter_context(OFFICIAL["postgres"].open(server[f"theirs{delta}"]))
                found["PostgreSQL", f"PostgresSaver{end}"] = chat(official, delta=delta)
        found["SQLite", "ours"] = chat(stack.enter_context(OURS.open(sqlite_url(folder, "ours"))), delta=False)
        if "ours" in server:
            found["PostgreSQL", "ours"] = chat(stack.enter_context(OURS.open(server["ours"])), delta=False)
        if redis is not None:
            from langgraph.checkpoint.redis import RedisSaver

            saver = stack.enter_context(RedisSaver.from_conn_string(redis))
            saver.setup()
            found["Redis", "RedisSaver"] = chat(saver, delta=False)
        if mongodb is not None:
            from langgraph.checkpoint.mongodb import MongoDBSaver

            saver = stack.enter_context(MongoDBSaver.from_conn_string(mongodb))
            found["MongoDB", "MongoDBSaver"] = chat(saver, delta=False)
        yield found


def measure(graphs: dict[tuple[str, str], Any], lengths: tuple[int, ...], kernel: KernelCounts) -> list[Turn]:
    """Every saver at every length that it reaches in reasonable time."""
    found: list[Turn] = []
    played = dict.fromkeys(graphs, 0)
    for length in lengths:
        for key in [*played]:
            begin, first = time.process_time(), played[key]
            for at in range(played[key], length - _COUNTED):
                _turn(graphs[key], at)
            played[key] = max(first, length - _COUNTED)
            if played[key] > first and (time.process_time() - begin) / (played[key] - first) > _SLOWEST:
                del played[key]
        rounds: dict[tuple[str, str], list[list[float]]] = {key: [] for key in played}
        for _ in range(_COUNTED):
            for key in played:
                before, wall, cpu = kernel.read(), time.perf_counter(), time.process_time()
                _turn(graphs[key], played[key])
                spent = [(time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3]
                spent += map(operator.sub, kernel.read(), before)
                rounds[key].append(spent)
                played[key] += 1
        for (where, name), each in rounds.items():
            middle = [round(sorted(column)[len(column) // 2], 2) for column in zip(*each, strict=True)]
            found.append(Turn(where, name, length, *middle))
    return found


def _turn(graph: Any, number: int) -> None:
    graph.invoke({"messages": [HumanMessage(letters(number))]}, CONFIG)
