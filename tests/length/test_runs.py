"""Runs that were never done stay in a log for ever, and a call reads those that the rows it looks at belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import EventFilter, InMemoryStore, InvocationStatus, SessionService
from langchain_sessions.events import Standing
from tests.length.calls import CALLS, said
from tests.length.test_length import ALLOWED, cost_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Databases

NOT_DONE = (InvocationStatus.FAILED, InvocationStatus.INTERRUPTED, InvocationStatus.OPEN)
FEW, MANY = 20, 400
OF_ALL_LOGS = frozenset({"search for something rare", "the search tool"})
"""A search says of a whole scope where its events stand: it reads every run of it that is not done."""
COMPARED = ("calls", "statements", "rows", "size")


def _lost(place: str, times: int, **how: object) -> str:
    """A log with so many runs that were never done behind its beginning."""
    with SessionService(place, **how) as service:  # type: ignore[arg-type]
        ada = service.as_user("ada")
        ada.create("s", state={"mood": "calm"})
        ada.append("s", [said(at, id=f"m{at}") for at in range(60)])
        for at in range(times):
            ada.append("s", said(at), invocation_id=f"lost {at}", invocation_status=NOT_DONE[at % 3])
        ada.append("s", [*map(said, range(60)), HumanMessage("Is it going to rain?", id="q")])
        ada.reindex("s")
    return place


def _growth(call: str, backend: str, few: str, many: str, directory: Path) -> dict[str, tuple[int, int]]:
    """What a call takes more of where many runs were never done."""
    short, long = (cost_of(call, backend, place, directory)._asdict() for place in (few, many))
    return {name: (short[name], long[name]) for name in COMPARED if long[name] > ALLOWED * short[name]}


@pytest.mark.backends("sqlite")
def test_runs_that_were_never_done_cost_nothing(backend: str, tmp_path: Path) -> None:
    few, many = (_lost(f"sqlite:///{tmp_path / f'{times}.db'}", times, synchronous="NORMAL") for times in (FEW, MANY))
    calls = CALLS.keys() - OF_ALL_LOGS
    # What ends beside a call may fall into it: then it is counted again.
    grown = {
        call: more
        for call in calls
        if _growth(call, backend, few, many, tmp_path) and (more := _growth(call, backend, few, many, tmp_path))
    }
    assert grown == {}


@pytest.mark.backends("postgres", "mariadb")
def test_a_server_is_asked_for_no_more_of_them(backend: str, all_databases: Databases, tmp_path: Path) -> None:
    few, many = (_lost(all_databases.create(backend), times, create_schema=True) for times in (FEW, MANY))
    calls = ("messages", "events", "events that stand", "edit", "a run is failed", "advisor", "advisor that fails")
    # What ends beside a call may fall into it: then it is counted again.
    grown = {
        call: more
        for call in calls
        if _growth(call, backend, few, many, tmp_path) and (more := _growth(call, backend, few, many, tmp_path))
    }
    assert grown == {}


@pytest.mark.backends("memory", "sqlite", "postgres", "mariadb")
def test_what_belongs_to_a_run_stands_as_it_does(backend: str, all_databases: Databases) -> None:
    place = InMemoryStore() if backend == "memory" else all_databases.create(backend)
    with SessionService(place, **({} if backend == "memory" else {"create_schema": True})) as service:  # type: ignore[arg-type]
        ada = service.as_user("ada")
        ada.create("s")
        ada.append("s", HumanMessage("asked before", id="before"))
        ada.append("s", said(1), invocation_id="turn:before", invocation_status=InvocationStatus.FAILED)
        for at in range(90):
            ada.append("s", said(at), invocation_id=f"lost {at}", invocation_status=NOT_DONE[at % 3])
            ada.append("s", said(at, id=f"m{at}"))
        events = ada.events("s").items
        assert events[0].standing is Standing.FAILED
        told = {event.invocation_id: event.standing for event in events[2:] if event.invocation_id is not None}
        assert list(told.values()) == [Standing.FAILED, Standing.INTERRUPTED, Standing.OPEN] * 30
        for standing in (Standing.LIVE, Standing.FAILED, Standing.INTERRUPTED, Standing.OPEN):
            wanted = EventFilter(standings=frozenset({standing}))
            assert ada.events("s", wanted).items == tuple(each for each in events if each.standing is standing)
        whole = ada.messages("s")
        assert len(whole) == 120
        assert [ada.messages("s", last_n=n) for n in (1, 20, 119, 120, 130)] == [
            whole[-n:] for n in (1, 20, 119, 120, 130)
        ]
        within = ada.messages("s", last_n=130, invocation_id="lost 2")
        assert len(within) == 121
