"""Nodes that die, hang, and come back with nothing, while sessions are written and read."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionService, StoreUnavailableError
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from tests.engines.conftest import URL
from tests.engines.histories import History, Operation, anomalies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.cassandra import Nodes

SESSIONS = ("s1", "s2", "s3")
WRITERS = 4


@pytest.fixture
def app() -> str:
    return f"app-{secrets.token_hex(6)}"


@pytest.fixture
def sessions(engine: CassandraEngine, app: str) -> SessionService:
    made = SessionService(PartitionedStore(engine), app=app, search=False).as_user("ada")
    for name in SESSIONS:
        made.create(name)
    return made


@pytest.fixture(autouse=True)
def all_nodes(nodes: Nodes, sessions: SessionService) -> Iterator[None]:
    """Whatever a test did, the next one begins with three nodes that answer."""
    del sessions
    yield
    for number in nodes.numbers:
        if nodes.is_running(number):
            nodes.send(number, signal.SIGCONT)
        else:
            nodes.start(number)
    wait_for_all(nodes)


def wait_for_all(nodes: Nodes, patience: float = 120) -> None:
    """Wait until each node sees the others, so that any two are a quorum."""
    from cassandra import ConsistencyLevel  # noqa: PLC0415 - an extra
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: PLC0415
    from cassandra.policies import WhiteListRoundRobinPolicy  # noqa: PLC0415

    for number in nodes.numbers:
        host = f"127.0.0.{number}"
        profile = ExecutionProfile(
            WhiteListRoundRobinPolicy([host]), consistency_level=ConsistencyLevel.ALL, request_timeout=10
        )
        end = time.monotonic() + patience
        while True:
            cluster = Cluster(
                [host], port=nodes.port, protocol_version=5, execution_profiles={EXEC_PROFILE_DEFAULT: profile}
            )
            try:
                cluster.connect("sessions").execute('SELECT * FROM "sessions_meta" WHERE "name" = \'version\'')
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(1)
            else:
                break
            finally:
                cluster.shutdown()


class Load:
    """Writers and readers that go on until they are told to stop."""

    def __init__(self, app: str) -> None:
        self.history = History()
        self.errors: list[Exception] = []
        self.slowest = 0.0
        self._app = app
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(WRITERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        # Each writer is another process as far as the engine can tell: it shares nothing with the others.
        engine = CassandraEngine(URL)
        sessions = SessionService(PartitionedStore(engine), app=self._app, search=False).as_user("ada")
        count = 0
        while not self._stop.is_set():
            name = SESSIONS[(number + count) % len(SESSIONS)]
            count += 1
            began = self.history.now()
            element = f"{number}-{count}"
            try:
                sessions.append(name, HumanMessage("x", id=element))
            except StoreUnavailableError as error:
                self.errors.append(error)
                self.history.add(Operation(began, None, name, element))
            else:
                self.history.add(Operation(began, self.history.now(), name, element))
            self.slowest = max(self.slowest, self.history.now() - began)
            self._read(sessions, name)
        engine.close()

    def _read(self, sessions: SessionService, name: str) -> None:
        began = self.history.now()
        try:
            read(sessions, name, self.history, began)
        except StoreUnavailableError as error:
            self.errors.append(error)


def read(sessions: SessionService, name: str, history: History, began: float) -> tuple[str, ...]:
    """Read a list, and note what was seen."""
    seen = tuple(str(event.id) for event in sessions.events(name))
    history.add(Operation(began, history.now(), name, seen=seen))
    return seen


@contextmanager
def under_load(app: str, sessions: SessionService) -> Iterator[Load]:
    """A load while something happens; afterwards all that it did has to be explained."""
    load = Load(app)
    load.start()
    try:
        time.sleep(2)
        yield load
        time.sleep(2)
    finally:
        load.end()
    for name in SESSIONS:
        read(sessions, name, load.history, load.history.now())
        assert sessions.verify(name) == []
    assert anomalies(load.history.operations) == []
    assert len(load.history.operations) > 20


def test_a_node_that_is_killed_and_started_again_costs_no_error(
    nodes: Nodes, sessions: SessionService, app: str, record_property: Callable[[str, object], None]
) -> None:
    with under_load(app, sessions) as load:
        nodes.kill(2)
        time.sleep(5)
        took = nodes.start(2)
        time.sleep(3)
    done = [each for each in load.history.operations if each.added is not None]
    said = f"{len(done)} appends, {len(load.errors)} errors, slowest {load.slowest:.1f} s, back after {took:.0f} s"
    record_property("figure", f"a node killed and started again under load: {said}")
    assert load.errors == []


def test_with_two_nodes_dead_calls_say_so_and_go_on_when_one_returns(
    nodes: Nodes, sessions: SessionService, app: str
) -> None:
    del app
    sessions.append("s1", HumanMessage("x", id="before"))
    nodes.kill(2)
    nodes.kill(3)
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="Repeat the call"):
        sessions.append("s1", HumanMessage("x", id="during"))
    with pytest.raises(StoreUnavailableError):
        sessions.messages("s1")
    assert time.monotonic() - began < 150
    nodes.start(2)
    deadline = time.monotonic() + 180
    while True:
        try:
            sessions.append("s1", HumanMessage("x", id="during"))
            break
        except StoreUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(1)
    assert [event.id for event in sessions.events("s1")] == ["before", "during"]
    assert sessions.verify("s1") == []


def test_a_node_that_hangs_stops_nobody(
    nodes: Nodes, sessions: SessionService, app: str, record_property: Callable[[str, object], None]
) -> None:
    with under_load(app, sessions) as load:
        nodes.send(3, signal.SIGSTOP)
        time.sleep(15)
        nodes.send(3, signal.SIGCONT)
        time.sleep(3)
    done = [each for each in load.history.operations if each.ended is not None and each.added is not None]
    said = f"{len(done)} appends, {len(load.errors)} errors, slowest {load.slowest:.1f} s"
    record_property("figure", f"a node hangs for 15 s: {said}")
    assert len(done) > 20


def test_a_node_that_comes_back_empty_is_given_its_data(nodes: Nodes, sessions: SessionService, app: str) -> None:
    with under_load(app, sessions) as load:
        nodes.kill(3)
        time.sleep(5)
        nodes.start_empty(3)
        time.sleep(3)
    assert load.errors == []
    wait_for_all(nodes)
    # Now a quorum needs the node that had nothing.
    nodes.kill(2)
    for name in SESSIONS:
        assert sessions.verify(name) == []
        sessions.append(name, HumanMessage("x", id="after"))
    expected = max((each.seen for each in load.history.operations if each.name == "s1"), key=len)
    assert [event.id for event in sessions.events("s1")] == [*expected, "after"]
