"""Graphs whose process is killed, and calls of the saver that fail at any statement or commit."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions._chat.address import checkpoint_id
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import StoreError
from tests.checkpointer.talking import CONFIG, ask, talk_until_killed, talking
from tests.faults.drills import FACES, Face, checked_out, engines_of, make_service, opened
from tests.faults.injection import FAULTS, Injector
from tests.faults.processes import killed
from tests.faults.soaking import ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_sessions.service import SessionService
    from tests.conftest import Counted

on_disks = pytest.mark.backends("files", "sqlite", "postgres", "mariadb")
on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")


# -- killed ------------------------------------------------------------------------------------------------


@on_disks
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_killed_graph_goes_on_where_it_was(database_url: str, table_prefix: str, durability: str) -> None:
    _kill(database_url, table_prefix, durability, rounds=2)


@pytest.mark.soak
@on_disks
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_many_killed_graphs(database_url: str, table_prefix: str, durability: str, counted: Counted) -> None:
    """A third of the graphs each; a thread for twenty-five, since all of it is looked at."""
    for number in range(ROUNDS // 12 // 25 + 1):
        acknowledged = _kill(database_url, f"{table_prefix}{number}_", durability, rounds=25)
        counted("graphs killed", 25)
        counted("acknowledged", acknowledged)


def _kill(url: str, prefix: str, durability: str, rounds: int) -> int:
    """How many turns were acknowledged, before kills and between them."""
    chance = random.Random()
    acknowledged: list[str] = []
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        service.create_schema()
        for number in range(rounds):
            acknowledged += killed(chance.uniform(0, 0.1), talk_until_killed, url, prefix, f"w{number}", durability)
            graph = talking(SessionCheckpointSaver(service))
            # Where a task was done and its checkpoint was not, `next` is empty and the graph still goes on.
            graph.invoke(None, CONFIG)
            _assert_whole(service, graph, acknowledged)
            ask(graph, f"after-{number}")
            acknowledged.append(f"after-{number}")
            _assert_whole(service, graph, acknowledged)
    return len(acknowledged)


def _assert_whole(service: SessionService, graph: Any, acknowledged: list[str]) -> None:
    """Whole turns, in order, each message once, all that was acknowledged among them."""
    state = graph.get_state(CONFIG)
    assert state.next == ()
    ids = [message.id for message in state.values["messages"]]
    questions = ids[::3]
    assert ids == [name for question in questions for name in (question, f"{question}-think", f"{question}-say")]
    assert [question for question in questions if question in acknowledged] == acknowledged
    assert [message.id for message in service.messages("t")] == ids
    assert [event.seq for event in service.events("t").items] == list(range(1, service.get("t").version + 1))
    assert service.verify("t") == []
    assert SessionCheckpointSaver(service).head_conflicts("t") == []


# -- failing -----------------------------------------------------------------------------------------------


class Recorder(SessionCheckpointSaver):
    """Notes which calls a graph makes."""

    def __init__(self, service: SessionService) -> None:
        super().__init__(service)
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self.calls.append(("put", (config, checkpoint, metadata, new_versions)))
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.calls.append(("put_writes", (config, writes, task_id, task_path)))
        super().put_writes(config, writes, task_id, task_path)


class Range:
    """One database with an injector, and a second service beside it that never fails."""

    def __init__(self, face: str, url: str, prefix: str) -> None:
        self.face = Face(face)
        self.service = make_service(url, table_prefix=prefix)
        self.injector = Injector(*engines_of(self.service))
        self.beside = make_service(url, table_prefix=prefix)
        recorder = Recorder(self.beside)
        graph = talking(recorder)
        for name in ("q1", "q2"):
            ask(graph, name, durability="sync")
        self.calls = recorder.calls
        self.first = 1 + max(at for at, (name, _) in enumerate(self.calls[: len(self.calls) // 2]) if name == "put")
        # Connect, and learn what is learnt once.
        self.play(SessionCheckpointSaver(self.service), "warm", self.calls)

    def play(self, saver: SessionCheckpointSaver, thread: str, calls: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Make calls of the recorded conversation in another thread."""
        for name, (config, *rest) in calls:
            place = {**config.get("configurable", {}), "thread_id": thread}
            self.face(saver, name, {**config, "configurable": place}, *rest)

    def look(self, thread: str) -> Any:
        """Everything that can be seen of a thread."""
        config: Any = {"configurable": {"thread_id": thread, "user_id": "ada"}}
        saver = SessionCheckpointSaver(self.beside)
        tuples = [
            (
                found.checkpoint,
                found.pending_writes,
                checkpoint_id(found.parent_config),
            )
            for found in saver.list(config)
        ]
        if not tuples:
            return None
        events = [(event.seq, event.id, event.standing.value) for event in self.beside.events(thread).items]
        assert self.beside.verify(thread) == []
        return tuples, events, self.beside.count(thread), [m.id for m in self.beside.messages(thread)]

    def assert_whole_or_nothing(self, at: int, boundary: int, fault: str, thread: str) -> None:
        """Play the conversation with one call that fails at a boundary."""
        saver = SessionCheckpointSaver(self.service)
        self.play(saver, thread, self.calls[:at])
        before = self.look(thread)
        where = f"{fault} boundary {boundary} of call {at} ({self.calls[at][0]})"
        failed = False
        with self.injector.failing(boundary, fault):
            try:
                self.play(saver, thread, self.calls[at : at + 1])
            except StoreError:
                failed = True
        assert self.injector.fired, where
        assert checked_out(self.service) == 0, where
        now = self.look(thread)
        # Made once more it is done, whatever became of it before.
        self.play(saver, thread, self.calls[at : at + 1])
        after = self.look(thread)
        assert now in ((before, after) if failed else (after,)), where
        self.play(saver, thread, self.calls[at + 1 :])

    def close(self) -> None:
        """Close both services."""
        self.injector.close()
        self.beside.close()
        self.face.close(self.service)
        self.service.close()


@pytest.fixture(params=FACES)
def drill(request: pytest.FixtureRequest, database_url: str, table_prefix: str) -> Iterator[Range]:
    """The range of one face."""
    made = Range(request.param, database_url, table_prefix)
    yield made
    made.close()


@on_databases
def test_a_call_that_fails_at_any_boundary_happened_or_did_not(drill: Range) -> None:
    whole = drill.look("warm")
    number = 0
    for at in range(drill.first, len(drill.calls)):
        for boundary, fault in _boundaries(drill, at):
            number += 1
            drill.assert_whole_or_nothing(at, boundary, fault, f"f{number}")
            assert drill.look(f"f{number}") == whole, (at, boundary, fault)
    assert number > len(drill.calls) - drill.first


WHOLE_THREADS: dict[str, Callable[[Range, SessionCheckpointSaver, str], Any]] = {
    "copy": lambda drill, saver, thread: drill.face(saver, "copy_thread", thread, f"{thread}-copy"),
    "delete": lambda drill, saver, thread: drill.face(saver, "delete_thread", thread),
    "delete for runs": lambda drill, saver, thread: drill.face(saver, "delete_for_runs", [f"run of {thread}"]),
    "prune": lambda drill, saver, thread: drill.face(saver, "prune", [thread]),
    "trim": lambda drill, saver, thread: drill.face(saver, "trim", [thread], keep=2),
}


@on_databases
@pytest.mark.parametrize("name", WHOLE_THREADS)
def test_what_changes_a_whole_thread_and_fails_at_any_boundary(drill: Range, name: str) -> None:
    """It happened or it did not, and made once more it is done."""
    change, saver = WHOLE_THREADS[name], SessionCheckpointSaver(drill.service)
    seen = "{}-copy" if name == "copy" else "{}"
    drill.play(saver, "count", drill.calls)
    before = drill.look(seen.format("count"))
    with drill.injector.counting():
        change(drill, saver, "count")
    after = drill.look(seen.format("count"))
    for boundary in range(drill.injector.count):
        thread, fault = f"f{boundary}", FAULTS[boundary % len(FAULTS)]
        drill.play(saver, thread, drill.calls)
        failed = False
        with drill.injector.failing(boundary, fault):
            try:
                change(drill, saver, thread)
            except StoreError:
                failed = True
        where = f"{fault} boundary {boundary}"
        assert drill.injector.fired, where
        assert checked_out(drill.service) == 0, where
        now = drill.look(seen.format(thread))
        assert now in ((before, after) if failed else (after,)), where
        if now == before:
            change(drill, saver, thread)
            assert drill.look(seen.format(thread)) == after, where


def _boundaries(drill: Range, at: int) -> list[tuple[int, str]]:
    """Where a call may fail, and how; the kinds of faults take turns."""
    saver = SessionCheckpointSaver(drill.service)
    drill.play(saver, f"count{at}", drill.calls[:at])
    with drill.injector.counting():
        drill.play(saver, f"count{at}", drill.calls[at : at + 1])
    return [(boundary, FAULTS[(at + boundary) % len(FAULTS)]) for boundary in range(drill.injector.count)]
