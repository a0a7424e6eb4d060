# ruff: noqa: ANN401 - a place is a URL or a store
"""Runs that were never done stay in a log for ever, and a call reads those that the rows it looks at belong to."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import (
    Compaction,
    EventFilter,
    InMemoryStore,
    InvocationStatus,
    SessionService,
    SlidingWindow,
    TokenCount,
)
from langchain_sessions._log.log import log_of
from langchain_sessions.events import Standing
from langchain_sessions.stores._memory import MemoryEngine
from langchain_sessions.stores._partitioned import runs
from langchain_sessions.stores._partitioned.store import PartitionedStore
from tests.length.calls import CALLS, said
from tests.length.meter import Cost, Meter
from tests.length.test_length import ALLOWED, cost_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from langchain_sessions.stores.engine import Head, Partition, Range, Row
    from tests.conftest import Databases

NOT_DONE = (InvocationStatus.FAILED, InvocationStatus.INTERRUPTED, InvocationStatus.OPEN)
FEW, MANY = 20, 400
COMPARED = ("calls", "statements", "rows", "size")
ON_PARTITIONS = (
    *("append a message", "append with an id", "append what is stored", "append 40", "edit", "rewind", "blank"),
    *("a run opens", "a run is done", "a run is failed", "messages", "events", "events that stand", "get", "count"),
    *("compact, which is not due", "update", "a step of a graph", "advisor that fails"),
    *("search for something rare", "the search tool"),
)


def _lost(place: Any, times: int, *, branch: str | None = None, **how: object) -> Any:
    """A log with so many runs that were never done behind its beginning."""
    with SessionService(place, **how) as service:  # type: ignore[arg-type]
        ada = service.as_user("ada")
        ada.create("s", state={"mood": "calm"})
        ada.append("s", [said(at, id=f"m{at}") for at in range(60)])
        for at in range(times):
            ada.append("s", said(at), branch=branch, invocation_id=f"lost {at}", invocation_status=NOT_DONE[at % 3])
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
    # What ends beside a call may fall into it: then it is counted again.
    grown = {
        call: more
        for call in CALLS
        if _growth(call, backend, few, many, tmp_path) and (more := _growth(call, backend, few, many, tmp_path))
    }
    assert grown == {}


@pytest.mark.backends("postgres", "mariadb")
def test_a_server_is_asked_for_no_more_of_them(backend: str, all_databases: Databases, tmp_path: Path) -> None:
    few, many = (_lost(all_databases.create(backend), times, create_schema=True) for times in (FEW, MANY))
    calls = [
        *("messages", "events", "events that stand", "edit", "a run is failed", "advisor", "advisor that fails"),
        *("search for something rare", "the search tool"),
    ]
    # What ends beside a call may fall into it: then it is counted again.
    grown = {
        call: more
        for call in calls
        if _growth(call, backend, few, many, tmp_path) and (more := _growth(call, backend, few, many, tmp_path))
    }
    assert grown == {}


@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
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
        # One that failed is taken up again and done, one is interrupted, and one that was open fails.
        for number, status in ((0, InvocationStatus.OPEN), (0, InvocationStatus.DONE), (1, InvocationStatus.FAILED)):
            ada.append("s", said(1), invocation_id=f"lost {number}", invocation_status=status)
        ada.append("s", said(1), invocation_id="lost 2", invocation_status=InvocationStatus.INTERRUPTED)
        assert len(ada.messages("s")) == 123  # two of each, and one that was interrupted less
        assert ada.verify("s") == []
        ada.fork("s", new_id="copy")
        assert ada.messages("copy") == ada.messages("s")
        assert ada.verify("copy") == []
        assert [event.standing for event in ada.events("copy").items] == [
            event.standing for event in ada.events("s").items
        ]


class _Counting(MemoryEngine):
    """Counts what it is asked for and given: rows, and the bytes of rows and heads."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = self.size = 0

    def read_heads(self, partitions: Sequence[Partition]) -> list[Head | None]:
        found = super().read_heads(partitions)
        self.size += sum(len(head.body) for head in found if head is not None)
        return found

    def read_rows(self, partition: Partition, ranges: Sequence[Range]) -> list[list[Row]]:
        found = super().read_rows(partition, ranges)
        self.rows += sum(map(len, found))
        self.size += sum(len(row.value) for rows in found for row in rows)
        return found

    def commit(self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]) -> bool:
        self.rows += len(rows)
        self.size += sum(len(value or b"") for value in rows.values()) + (0 if head is None else len(head.body))
        return super().commit(partition, expected, head, rows)


def _asked(engine: _Counting, call: str) -> dict[str, int]:
    """What a call asks of a copy of partitions the third time, and the functions that it passes."""
    own = _Counting()
    for partition, kept in engine._kept.items():
        own._kept[partition] = replace(kept, rows=dict(kept.rows), keys=list(kept.keys))
    with SessionService(PartitionedStore(own)) as service:
        act, meter = CALLS[call](service), Meter()
        for at in range(2):
            act(at)
        own.rows = own.size = 0
        calls = meter.of(lambda: act(2), lambda: None).calls
    return {"calls": calls, "rows": own.rows, "size": own.size}


def test_partitions_are_asked_for_no_more_of_them() -> None:
    few, many = _Counting(), _Counting()
    for engine, times in ((few, FEW), (many, MANY)):
        _lost(PartitionedStore(engine), times)
    grown: dict[str, dict[str, tuple[int, int]]] = {}
    for call in ON_PARTITIONS:
        short, long = _asked(few, call), _asked(many, call)
        if more := {name: (short[name], long[name]) for name in short if long[name] > ALLOWED * short[name]}:
            grown[call] = more
    assert grown == {}


@pytest.mark.backends("sqlite")
def test_a_compaction_that_is_due_reads_no_more_of_them(backend: str, tmp_path: Path) -> None:
    """They are on a branch, and the rest of the log is compacted."""
    found: list[Cost] = []
    for times in (FEW, MANY):
        meter = Meter()
        with SessionService(_lost(f"{backend}:///{tmp_path / f'{times}.db'}", times, branch="aside")) as service:
            meter.attach(log_of(service).store._engines.sync)  # type: ignore[attr-defined]
            ada = service.as_user("ada")
            compact = partial(ada.compact, "s", Compaction(TokenCount(1), SlidingWindow(20)))
            found.append(meter.of(compact, lambda: None))
            assert ada.count("s").events < 20
    assert found[1].rows <= ALLOWED * found[0].rows


def test_a_head_that_knew_all_of_them_is_read_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """As heads were before there was a bound."""
    engine = _Counting()
    with monkeypatch.context() as patched:
        patched.setattr(runs, "FEW", 1_000)
        _lost(PartitionedStore(engine), 150)
    with SessionService(PartitionedStore(engine)) as service:
        ada = service.as_user("ada")
        stood = [event.standing for event in ada.events("s").items]
        ada.append("s", said(1))
        assert [event.standing for event in ada.events("s").items] == [*stood, Standing.LIVE]
        for at in range(3):
            ada.append("s", said(at), invocation_id=f"lost {at}", invocation_status=NOT_DONE[at])
        after = [event.standing for event in ada.events("s").items]
        assert after[: len(stood)] == stood
        assert ada.verify("s") == []
        engine.size = 0
        ada.append("s", said(1))
        assert engine.size < 5_000
