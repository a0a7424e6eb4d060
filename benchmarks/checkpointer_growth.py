"""Bytes that a thread takes per message, at two lengths: what grows is stored again and again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage

from benchmarks.checkpointer_graphs import (
    CONFIG,
    OFFICIAL,
    OURS,
    Contender,
    as_dict,
    graph_over,
    human,
    letters,
    play,
    size,
)
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable

Row = tuple[str, ...]
SHORT, LONG = 100, 1_000
GROWING = 250
"""How far a saver is followed that stores the whole list again at every step: it takes gigabytes at 1,000 turns."""


def growth(backend: str, fresh: Callable[[str], str]) -> list[Row]:
    """Bytes per message of ours and of LangGraph's own saver on one backend; `fresh` makes empty databases."""
    goal = "1500" if backend == "sqlite" else "2000"
    rows = [
        _row(f"{backend}, ours", fresh, OURS, goal=goal, turns=LONG),
        _row(f"{backend}, ours, dicts as input", fresh, OURS, goal=goal, turns=LONG, made=as_dict),
        _interleaved(backend, fresh),
    ]
    if backend in OFFICIAL:
        rows.append(_row(f"{backend}, {OFFICIAL[backend].name}", fresh, OFFICIAL[backend], goal="", turns=GROWING))
    return rows


def _row(
    label: str,
    fresh: Callable[[str], str],
    contender: Contender,
    *,
    goal: str,
    turns: int,
    made: Callable[[str], Any] = human,
) -> Row:
    url = fresh(label)
    with contender.open(url) as saver:
        graph = graph_over(saver)
        play(graph, SHORT, made)
        short = size(url) / (2 * SHORT)
        play(graph, turns - SHORT, made)
        long = size(url) / (2 * turns)
    return label, f"{short:.0f}", f"{long:.0f} at {turns}", goal


def _interleaved(backend: str, fresh: Callable[[str], str]) -> Row:
    """One to six events of somebody else before each turn; theirs are taken off, as measured by themselves."""
    chance = random.Random(1)
    url, beside = fresh("interleaved"), fresh("beside")
    with SessionService(url, create_schema=True) as service, SessionService(beside, create_schema=True) as other:
        graph = graph_over(SessionCheckpointSaver(service))
        other.open("bench")
        found = []
        for turns in (SHORT, LONG - SHORT):
            for turn in range(turns):
                graph.invoke({"messages": [HumanMessage(letters(turn))]}, CONFIG)
                messages = [HumanMessage(letters(at)) for at in range(chance.randint(1, 6))]
                service.append("bench", messages)
                other.append("bench", messages)
            found.append(size(url) - size(beside))
    short, long = found[0] / (2 * SHORT), found[1] / (2 * LONG)
    return f"{backend}, ours, interleaved", f"{short:.0f}", f"{long:.0f} at {LONG}", "2500"
