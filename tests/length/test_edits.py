"""What a message was before it was edited is not read again: a graph that writes on a text edits it with every step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState, StateGraph

from langchain_sessions import InMemoryStore, SessionCheckpointSaver, SessionService
from langchain_sessions._log.log import log_of
from tests.length.calls import CALLS, said
from tests.length.meter import Meter
from tests.length.test_length import ALLOWED, cost_of

if TYPE_CHECKING:
    from pathlib import Path

ASKED = (
    *("append a message", "append with an id", "a run opens", "a handle of a run", "get", "state", "count"),
    *("messages", "messages of a branch", "context", "events", "advisor", "middleware", "history"),
)
FEW, MANY = 20, 400
COMPARED = ("calls", "statements", "rows")
"""Not the bytes: which event took whose place is in the session's row, some fourteen bytes for each time."""


def _edited(path: Path, times: int, *, one: bool) -> str:
    """A log of many messages of which the newest, or one after the other from the oldest on, was edited."""
    url = f"sqlite:///{path}"
    with SessionService(url, synchronous="NORMAL") as service:
        ada = service.as_user("ada")
        ada.create("s", state={"mood": "calm"})
        ada.append("s", [said(2 * at, id=f"m{at}") for at in range(MANY + 60)])
        for at in range(times):
            ada.edit("s", HumanMessage(f"edited {at}", id=f"m{MANY + 59 if one else at}"))
        ada.append("s", [said(at) for at in range(10)])
        ada.reindex("s")
    return url


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("one", [True, False], ids=["one message", "many messages"])
def test_revisions_that_do_not_stand_are_not_read(backend: str, tmp_path: Path, *, one: bool) -> None:
    few, many = (_edited(tmp_path / f"{times}.db", times, one=one) for times in (FEW, MANY))
    grown = {}
    for call in ASKED:
        assert call in CALLS
        short, long = (cost_of(call, backend, place, tmp_path) for place in (few, many))
        for name in COMPARED:
            if getattr(long, name) > ALLOWED * getattr(short, name):
                grown[call, name] = getattr(short, name), getattr(long, name)
    assert grown == {}


@pytest.mark.backends("memory", "sqlite")
def test_a_window_over_edits_is_the_end_of_the_whole(backend: str, tmp_path: Path) -> None:
    place = InMemoryStore() if backend == "memory" else f"sqlite:///{tmp_path / 'window.db'}"
    with SessionService(place) as service:
        ada = service.as_user("ada")
        ada.create("s")
        ada.append("s", [said(at, id=f"m{at}") for at in range(60)])
        for at in range(30):
            ada.edit("s", HumanMessage(f"edited {at}", id=f"m{2 * (at % 7) + 46 * (at % 2)}"))
            if at % 5 == 0:
                ada.append("s", said(at))
            if at == 20:
                ada.rewind("s", to_seq=75)
        whole = ada.messages("s")
        assert [ada.messages("s", last_n=n) for n in range(1, 70)] == [whole[-n:] for n in range(1, 70)]


@pytest.mark.backends("sqlite")
def test_to_read_past_many_edits_compiles_nothing(tmp_path: Path) -> None:
    with SessionService(f"sqlite:///{tmp_path / 'scattered.db'}", synchronous="NORMAL") as service:
        service.create("s")
        service.append("s", [said(at, id=f"m{at}") for at in range(100)])
        for at in range(24):
            service.edit("s", HumanMessage(f"edited {at}", id=f"m{2 * at}"))
        whole = service.messages("s")
        known = log_of(service).store._runner.cache.known  # type: ignore[attr-defined]
        assert service.messages("s", last_n=90) == whole[-90:]
        size = len(known)
        assert [service.messages("s", last_n=n) for n in range(1, 90)] == [whole[-n:] for n in range(1, 90)]
        assert service.messages("s") == whole
        assert len(known) == size


@pytest.mark.backends("sqlite")
def test_an_edit_of_a_graph_costs_what_it_changes(tmp_path: Path) -> None:
    """However often the message was edited before: in functions of Python, of the step that writes it."""
    graph = StateGraph(MessagesState)
    graph.add_node("work", lambda state: {})
    graph.set_entry_point("work")
    config: Any = {"configurable": {"thread_id": "s"}}
    calls = dict[int, int]()
    with SessionService(f"sqlite:///{tmp_path / 'graph.db'}", create_schema=True, synchronous="NORMAL") as service:
        compiled = graph.compile(checkpointer=SessionCheckpointSaver(service))
        meter = Meter()
        for at in range(FEW + 81):
            edit = partial(compiled.update_state, config, {"messages": [AIMessage("x" * at, id="draft")]}, "work")
            if at in {FEW, FEW + 80}:
                calls[at] = meter.of(edit, bool).calls
            else:
                edit()
    assert calls[FEW + 80] <= ALLOWED * calls[FEW]
