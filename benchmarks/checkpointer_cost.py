"""CPU of a turn beside a saver that stores nothing, and times of reading, on SQLite at 1,000 turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.checkpointer_graphs import CONFIG, OFFICIAL, NullSaver, graph_over, play, sqlite_url
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = tuple[str, ...]
TURNS, OFFICIAL_TURNS, ROUNDS = 1_000, 200, 20


def cost(directory: Path) -> list[Row]:
    """CPU per turn and of reads, ours warm and cold, and LangGraph's own at fewer turns."""
    url = sqlite_url(directory, "cost")
    base, warm, cold = (_in_a_process(kind, url) for kind in ("floor", "warm", "cold"))
    rows: list[Row] = [
        ("CPU of a turn, warm", *_beside(warm, base), "2.3x"),
        ("CPU of a turn, cold", *_beside(cold, base), "5.5x"),
    ]
    with SessionService(url) as service:
        graph = graph_over(SessionCheckpointSaver(service))
        graph.get_state(CONFIG)
        rows += _reads(service, graph)
    return [*rows, *_official(directory)]


def _in_a_process(kind: str, url: str) -> float:
    """`alone` in a process of its own: a floor that runs after a cold turn pays for that one's garbage."""
    code = f"from benchmarks.checkpointer_cost import alone; print(alone({kind!r}, {url!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    return float(done.stdout)


def alone(kind: str, url: str) -> float:
    """The CPU milliseconds of a turn, the median of some: of the floor, or of ours on what `warm` left behind."""
    if kind == "floor":
        graph = graph_over(NullSaver())
        play(graph, TURNS)
        return statistics.median(play(graph, ROUNDS))
    with SessionService(url) as service:
        if kind == "warm":
            graph = graph_over(SessionCheckpointSaver(service))
            play(graph, TURNS)
            return statistics.median(play(graph, ROUNDS))
        # All are kept to the end: freeing one is nothing that a turn does.
        graphs = [graph_over(SessionCheckpointSaver(service)) for _ in range(ROUNDS)]
        return statistics.median(spent for graph in graphs for spent in play(graph, 1))


def _beside(spent: float, floor: float) -> tuple[str, str, str]:
    return f"{spent:.2f} ms", f"{floor:.2f} ms", f"{spent / floor:.1f}x"


def _reads(service: SessionService, warm: Any) -> list[Row]:
    cold = [graph_over(SessionCheckpointSaver(service)) for _ in range(10)]
    left = iter(cold)
    state = _best(lambda: warm.get_state(CONFIG), ROUNDS), _best(lambda: next(left).get_state(CONFIG), 5)
    ten = _best(lambda: _history(warm), ROUNDS), _best(lambda: _history(next(left)), 5)
    return [
        ("get_state of 2,000 messages, warm", state[0], "", "", "1 ms"),
        ("get_state, cold", state[1], "", "", "8 ms"),
        ("get_state_history(limit=10), warm", ten[0], "", "", "6 ms"),
        ("get_state_history(limit=10), cold", ten[1], "", "", "20 ms"),
    ]


def _history(graph: Any) -> int:
    return len(list(graph.get_state_history(CONFIG, limit=10)))


def _best(act: Callable[[], Any], rounds: int) -> str:
    """The best of some rounds: what it took the process, and how long that was on a machine that others use too."""
    spent, passed = [], []
    for _ in range(rounds):
        begin, at = time.process_time(), time.perf_counter()
        act()
        spent.append((time.process_time() - begin) * 1000)
        passed.append((time.perf_counter() - at) * 1000)
    return f"{min(spent):.2f} ms ({min(passed):.2f} by the clock)"


def _official(directory: Path) -> list[Row]:
    contender = OFFICIAL["sqlite"]
    floor = graph_over(NullSaver())
    play(floor, OFFICIAL_TURNS)
    with contender.open(sqlite_url(directory, "official-cost")) as saver:
        graph = graph_over(saver)
        play(graph, OFFICIAL_TURNS)
        spent = [[*play(floor, 1), *play(graph, 1)] for _ in range(ROUNDS)]
        base, own = (statistics.median(column) for column in zip(*spent, strict=True))
        state, ten = _best(lambda: graph.get_state(CONFIG), ROUNDS), _best(lambda: _history(graph), ROUNDS)
    label = f"{contender.name} at {OFFICIAL_TURNS} turns"
    return [
        (f"{label}: CPU of a turn", *_beside(own, base), ""),
        (f"{label}: get_state", state, "", "", ""),
        (f"{label}: get_state_history(limit=10)", ten, "", "", ""),
    ]
