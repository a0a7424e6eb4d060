# ruff: noqa: ANN401 - frames and connections are whatever they are
"""How long a change holds a session: what is done between the beginning of its transaction and its end, in counts."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import create_engine, event
from sqlalchemy.pool import StaticPool

from langchain_sessions import (
    Compaction,
    InMemoryStore,
    InvocationStatus,
    Outcome,
    SessionService,
    SlidingWindow,
    Summarize,
)
from tests.compaction.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Held(NamedTuple):
    """What was done while the write lock was held: statements, steps of SQLite's machine in tens, Python's calls."""

    statements: int
    steps: int
    calls: int


class Watch:
    """Counts what a connection does inside its write transactions."""

    def __init__(self) -> None:
        self._counted: list[int] | None = None
        self.held: list[Held] = []

    def attach(self, connection: Any, _record: object) -> None:
        connection.set_trace_callback(self._statement)
        connection.set_progress_handler(self._step, 10)

    def _statement(self, text: str) -> None:
        if text.startswith("BEGIN IMMEDIATE"):
            self._counted = [0, 0, 0]
            sys.setprofile(self._call)
        elif text.startswith(("COMMIT", "ROLLBACK")):
            sys.setprofile(None)
            if self._counted is not None:
                self.held.append(Held(*self._counted))
            self._counted = None
        elif self._counted is not None:
            self._counted[0] += 1

    def _step(self) -> int:
        if self._counted is not None:
            self._counted[1] += 1
        return 0

    def _call(self, frame: Any, kind: str, _arg: object) -> None:
        if kind == "call" and self._counted is not None and frame.f_code.co_filename != __file__:
            self._counted[2] += 1

    def of(self, act: Callable[[], Any]) -> Held:
        """The most of each that any one transaction of an act did."""
        self.held.clear()
        act()
        return Held(*map(max, zip(*self.held, strict=True)))


def held_by(path: Path, live: int, act: Callable[[SessionService], Any], *, turn: bool = False) -> Held:
    watch = Watch()
    engine = create_engine(f"sqlite:///{path}/{live}-{turn}.db", poolclass=StaticPool)
    event.listen(engine, "connect", watch.attach)
    with SessionService(engine, create_schema=True) as service:
        service.open("s1")
        for start in range(0, live, 500):
            said = [HumanMessage(f"m {n}") if n % 2 == 0 else AIMessage(f"m {n}") for n in range(start, start + 500)]
            service.append("s1", said[: live - start])
        service.append("s1", HumanMessage("warm"), state_delta={"k": 0})
        service.append("s1", HumanMessage("and plain"))
        # Statements are compiled once, by whoever comes first.
        service.open("warm")
        service.append("warm", [HumanMessage(f"m {n}") if n % 2 == 0 else AIMessage(f"m {n}") for n in range(40)])
        service.compact("warm", Compaction(None, summarizing()))
        if turn:
            service.append("s1", [HumanMessage("q"), AIMessage("a")], invocation_id="r1", state_delta={"k": 1})
        found = watch.of(lambda: act(service))
    engine.dispose()
    return found


def summarizing() -> Summarize:
    return Summarize(ScriptedModel(replies=["They spoke."] * 99), keep_events=10)


ACTS: dict[str, Callable[[SessionService], Any]] = {
    "a compaction": lambda s: s.compact("s1", Compaction(None, SlidingWindow(10))),
    "a compaction with a summary": lambda s: s.compact("s1", Compaction(None, summarizing())),
    "marking a run failed": lambda s: s.append("s1", [], invocation_id="r1", invocation_status=InvocationStatus.FAILED),
    "a rewind": lambda s: s.rewind("s1", before_invocation="r1"),
    "a rewind and its undoing": lambda s: (s.rewind("s1", before_invocation="r1"), s.undo_rewind("s1")),
}


@pytest.mark.parametrize("name", ACTS)
def test_a_session_is_held_no_longer_where_its_log_is_long(tmp_path: Path, name: str) -> None:
    short, long = (held_by(tmp_path, live, ACTS[name], turn=True) for live in (100, 5_000))
    assert long.statements == short.statements
    assert long.calls <= 1.2 * short.calls + 20
    assert long.steps <= 1.2 * short.steps + 20


def test_a_compaction_holds_its_session_about_as_long_as_an_append(tmp_path: Path) -> None:
    append = held_by(tmp_path, 1_000, lambda s: s.append("s1", [HumanMessage("x")], state_delta={"k": 2}))
    compaction = held_by(tmp_path, 1_001, ACTS["a compaction with a summary"])
    assert compaction.statements <= append.statements + 3
    assert compaction.calls <= 4 * append.calls


@pytest.mark.parametrize("branch", [None, "orch"])
def test_between_its_lock_and_its_commit_a_compaction_says_four_things(tmp_path: Path, branch: str | None) -> None:
    """Of which an append says two: what is where, the record, its mark, the session's row; a branch has one too."""

    def compact(service: SessionService) -> None:
        for number in range(20):
            service.append("s1", HumanMessage(f"b {number}"), branch=branch)
        result = service.compact("s1", Compaction(None, SlidingWindow(10)), branch=branch)
        assert result.is_compacted

    append = held_by(tmp_path, 1_000, lambda s: s.append("s1", [HumanMessage("x")]))
    assert append.statements == 2
    assert held_by(tmp_path, 1_001, compact).statements == (4 if branch is None else 5)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_compaction_gets_through_beside_busy_writers(kind: str, tmp_path: Path) -> None:
    """Four writers do not keep it from committing, nor it them, and everything is counted right afterwards."""
    store: Any = InMemoryStore() if kind == "memory" else f"sqlite:///{tmp_path}/busy.db"
    with SessionService(store) as service:
        service.open("s1")
        service.append("s1", [HumanMessage(f"m {n}") if n % 2 == 0 else AIMessage(f"m {n}") for n in range(2_000)])
        done = threading.Event()
        errors: list[BaseException] = []

        def write(name: int) -> None:
            number = 0
            try:
                while not done.is_set():
                    service.append("s1", [HumanMessage(f"w{name} {number}"), AIMessage("yes")])
                    number += 1
            except BaseException as error:  # noqa: BLE001 - told at the end
                errors.append(error)

        writers = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for writer in writers:
            writer.start()
        outcomes = []
        for _ in range(4):
            while service.count("s1").events < 40 and not errors:  # there has to be something to archive
                time.sleep(0.005)
            outcomes.append(service.compact("s1", Compaction(None, SlidingWindow(10))).outcome)
        done.set()
        for writer in writers:
            writer.join()
        assert errors == []
        assert outcomes == [Outcome.COMPACTED] * 4
        assert service.verify("s1") == []
