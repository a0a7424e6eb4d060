"""Random threads with Send, subgraphs that wait, failures, forks, removals and delta channels: the same as before."""

from __future__ import annotations

import operator
import random
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Command, Send, interrupt
from sqlalchemy import make_url

from langchain_sessions import SessionCheckpointSaver, SessionService, import_threads

if TYPE_CHECKING:
    from pathlib import Path

REDUCE: Any = _messages_delta_reducer
SAID = ("hello", "fan out", "sub please", "ask", "forget", "fail", "hello again")
AT: Any = {"configurable": {"thread_id": "t"}}


@dataclass
class Feeling:
    """A class that nobody but its graph knows."""

    name: str
    level: int


SERDE = JsonPlusSerializer(allowed_msgpack_modules=[(__name__, "Feeling")])


class Whole(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    seen: Annotated[list[Any], operator.add]
    mood: Any


class Delta(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(REDUCE, snapshot_frequency=3)]
    seen: Annotated[list[Any], operator.add]
    mood: Any


def route(values: Any) -> Any:
    told = values["messages"][-1].text
    if told.startswith("fan"):
        return [Send("work", {"n": n, "turn": values["messages"][-1].id}) for n in range(3)]
    return "sub" if told.startswith("sub") else "answer"


def work(given: Any) -> Any:
    said = AIMessage(f"worked {given['n']}", id=f"w{given['n']}-{given['turn']}")
    return {"seen": [given["n"]], "messages": [said]}


def inner(values: Any) -> Any:
    n = len(values["messages"])
    return {"messages": [AIMessage(f"in {n}", id=f"i{n}", additional_kwargs={"odd": [1, 2]})]}


def pause(values: Any) -> Any:
    if len(values["messages"]) % 3 == 0:
        interrupt("inside")
    return {"seen": ["paused"]}


def graph(saver: Any, state: Any, *, own: bool) -> Any:
    def answer(values: Any) -> Any:
        n, told = len(values["messages"]), values["messages"][-1].text
        if told == "ask":
            return {"messages": [AIMessage(f"you said {interrupt({'q': n})}", id=f"a{n}")]}
        if told == "fail":
            raise ValueError(told)
        if told == "forget":
            return {"messages": [RemoveMessage(id=values["messages"][0].id)]}
        return {"messages": [AIMessage(f"answer {n}", id=f"a{n}")], "mood": Feeling("calm", n) if own else {"calm": n}}

    below: Any = StateGraph(state)
    below.add_node("inner", inner).add_node("pause", pause)
    sub = below.add_edge(START, "inner").add_edge("inner", "pause").compile()
    built: Any = StateGraph(state)
    built.add_node("answer", answer).add_node("work", work).add_node("sub", sub)
    built.add_node("last", lambda _: {"seen": ["last"]})
    built.add_conditional_edges(START, route, ["work", "sub", "answer"])
    for name in ("answer", "work", "sub"):
        built.add_edge(name, "last")
    return built.compile(checkpointer=saver)


def step(runs: Any, chance: random.Random, turn: int) -> None:
    state = runs.get_state(AT)
    drawn = chance.random()
    with suppress(ValueError):
        if any(task.interrupts for task in state.tasks) and drawn < 0.6:
            runs.invoke(Command(resume="red"), AT)
        elif drawn < 0.15 and state.values.get("messages"):
            past = chance.choice(list(runs.get_state_history(AT)))
            runs.update_state(past.config, {"messages": [HumanMessage("edited", id="h0")]}, as_node="answer")
        else:
            how: Any = chance.choice(["sync", "async", "exit"])
            runs.invoke({"messages": [HumanMessage(chance.choice(SAID), id=f"h{turn}")]}, AT, durability=how)


def told(state: Any) -> Any:
    """All that a snapshot says, with those of its subgraphs."""
    tasks = [
        (
            task.id,
            task.name,
            str(task.error),
            task.interrupts,
            told(task.state) if hasattr(task.state, "tasks") else None,
        )
        for task in state.tasks
    ]
    names = [each and each["configurable"]["checkpoint_id"] for each in (state.config, state.parent_config)]
    return (state.values, state.next, names, state.metadata, state.created_at, tasks)


@pytest.mark.parametrize("state", [Whole, Delta])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_came_over_is_what_was(tmp_path: Path, state: Any, seed: int, *, own: bool) -> None:
    path = tmp_path / "old.db"
    conn = sqlite3.connect(path, check_same_thread=False)
    comes_over(SqliteSaver(conn, serde=SERDE), path, tmp_path, state, seed, own=own)
    conn.close()


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("state", [Whole, Delta])
@pytest.mark.parametrize("own", [False, True])
def test_what_came_over_from_postgres_is_what_was(
    fresh_database_url: str, tmp_path: Path, state: Any, *, own: bool
) -> None:
    url = make_url(fresh_database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with PostgresSaver.from_conn_string(url) as old:
        old.serde = SERDE
        old.setup()
        comes_over(old, url, tmp_path, state, 3, own=own)


def comes_over(old: Any, source: Any, tmp_path: Path, state: Any, seed: int, *, own: bool) -> None:
    """A random thread of a saver, here and there."""
    chance = random.Random(f"{seed} {own} {state.__name__}")
    theirs = graph(old, state, own=own)
    for turn in range(7):
        step(theirs, chance, turn)
    with SessionService(f"sqlite:///{tmp_path / 'new.db'}") as sessions:
        assert import_threads(sessions, source).problems == ()
        new = SessionCheckpointSaver(sessions, serde=SERDE, owner="ignore")
        ours = graph(new, state, own=own)
        assert told(ours.get_state(AT, subgraphs=True)) == told(theirs.get_state(AT, subgraphs=True))
        assert list(map(told, ours.get_state_history(AT))) == list(map(told, theirs.get_state_history(AT)))
        for each in old.list(AT):
            found = new.get_tuple(each.config)
            assert found is not None
            assert (found.checkpoint, found.metadata) == (each.checkpoint, each.metadata)
            assert found.pending_writes == each.pending_writes
        for turn in range(3):
            ends = []
            for runs in (theirs, ours):
                asked: Any = {"messages": [HumanMessage(SAID[turn], id=f"n{turn}")]}
                waits = any(task.interrupts for task in runs.get_state(AT).tasks)
                with suppress(ValueError):
                    runs.invoke(Command(resume="blue") if waits else asked, AT)
                after = runs.get_state(AT)
                ends.append((after.values, after.next))
            assert ends[0] == ends[1]
        assert sessions.verify("t") == []
