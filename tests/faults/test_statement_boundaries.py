"""K04: an operation that fails at any statement or commit happened whole or not at all, and a retry settles it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import make_url

from langchain_sessions import Compaction, NewEvent, SessionService, StoreError, TurnCount, TurnWindow
from langchain_sessions._log.log import log_of
from langchain_sessions.testing.archiving import archiving
from tests.faults.drills import FACES, Face, assert_whole, checked_out, engines_of, look, make_service, message
from tests.faults.injection import FAULTS, Injector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Counted

INSTANT = timedelta(microseconds=1)

on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")


@dataclass(frozen=True)
class Operation:
    """An operation under test: what it does, and which session to look at afterwards."""

    run: Callable[[Face, SessionService, str, str], Any]
    seen: str = "s"
    repeatable: bool = False
    before: Callable[[SessionService, str, str], Any] = lambda service, s, other: None
    """What has to be there."""
    is_undone: bool = True
    """It happens whole or not at all; a compaction leaves a record of itself even so."""


def _append_fast(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "append", s, [message("new-1"), AIMessage("fine", id="new-2")], invocation_id="run")


def _append_fully(face: Face, service: SessionService, s: str, other: str) -> Any:
    events = [NewEvent(id="e-1", message=message("new-1"), branch="a.b"), message("edited")]
    return face(service, "append", s, events, state_delta={"k": 2, "user:k": 3, "app:k": 4}, expected_version=6)


def _edit(face: Face, service: SessionService, s: str, other: str) -> Any:
    return [face(service, "edit", s, HumanMessage("better", id="m1"))]


def _archive(face: Face, service: SessionService, s: str, other: str) -> Any:
    base = service.context(s)
    summary = [NewEvent(message=HumanMessage("so far?")), NewEvent(message=AIMessage("this much"))]
    return face.run(archiving(log_of(service), s, [event.seq for event in base.events][:3], base=base, summary=summary))


def _rewind(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "rewind", s, to_seq=3)


def _delete(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "delete", s)


def _create(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "create", other, title="new", state={"k": 1, "user:c": 1})


def _open(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "open", other)


def _fork(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "fork", s, at_seq=5, new_id=other)


def _update(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "update", s, title="other", metadata={"a": 1})


def _end(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "end", s)


def _reopen(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "reopen", s)


def _undo(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "undo_rewind", s)


def _compact(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "compact", s, Compaction(TurnCount(1), TurnWindow(max_turns=1)), force=True)


def _search(face: Face, service: SessionService, s: str, other: str) -> Any:
    return [hit.event for hit in face(service, "search", "three", session_id=s)]


def _reindex(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "reindex", s)


def _delete_user(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "delete_user")


def _purge(face: Face, service: SessionService, s: str, other: str) -> Any:
    return face(service, "purge_expired")


INSTANT = timedelta(microseconds=1)
OPERATIONS = {
    "append fast": Operation(_append_fast, repeatable=True),
    "append fully": Operation(_append_fully, repeatable=True),
    "edit": Operation(_edit),
    "archive": Operation(_archive),
    "rewind": Operation(_rewind),
    "delete": Operation(_delete),
    "create": Operation(_create, seen="other"),
    "open": Operation(_open, seen="other", repeatable=True),
    "fork": Operation(_fork, seen="other"),
    "update": Operation(_update, repeatable=True),
    "end": Operation(_end, repeatable=True),
    "reopen": Operation(_reopen, repeatable=True, before=lambda service, s, other: service.end(s)),
    "undo a rewind": Operation(_undo, before=lambda service, s, other: service.rewind(s, to_seq=3)),
    "compact": Operation(_compact, is_undone=False),
    "search": Operation(_search, repeatable=True),
    "reindex": Operation(_reindex, repeatable=True),
    "delete a user": Operation(_delete_user, repeatable=True, before=lambda service, s, other: service.open("first")),
    "purge": Operation(
        _purge, "other", repeatable=True, before=lambda service, s, other: service.create(other, time_to_live=INSTANT)
    ),
}


class Range:
    """One database with an injector, and a second service beside it that never fails."""

    def __init__(self, face: str, url: str, prefix: str) -> None:
        self.face = Face(face)
        self.service = make_service(url, table_prefix=prefix)
        self.injector = Injector(*engines_of(self.service))
        self.ada = self.service.as_user("ada")
        self.beside = make_service(url, table_prefix=prefix)
        self.witness = self.beside.as_user("ada")
        self.file = make_url(url).database if url.startswith("sqlite") else None
        self.witness.open("first")
        self.face(self.ada, "open", "first")
        self._made = 0

    def fresh(self) -> tuple[str, str]:
        """A session with a past, and an id that nothing has."""
        self._made += 1
        s, other = f"s{self._made}", f"other{self._made}"
        self.witness.open(s)
        self.witness.append(s, [message("m1"), AIMessage("one", id="m2")], state_delta={"k": 1}, invocation_id="old")
        self.witness.append(s, [message("m3"), AIMessage("two", id="m4")], branch="a")
        self.witness.append(s, [message("m5"), AIMessage("three", id="m6")])
        return s, other

    def assert_free(self) -> None:
        """Nothing is checked out, nothing is locked."""
        assert checked_out(self.service) == 0
        if self.file is not None:
            other = sqlite3.connect(self.file, timeout=0, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
            other.close()

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
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_fault_at_any_boundary_leaves_all_or_nothing(drill: Range, name: str) -> None:
    # Every kind of fault at the boundaries of what most appends are, elsewhere one after the other.
    _fail_everywhere(drill, name, kinds=4 if name == "append fast" else 2 if name == "append fully" else 1)


@pytest.mark.soak
@on_databases
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_fault_at_every_boundary(drill: Range, name: str, counted: Counted) -> None:
    counted("faults at boundaries", _fail_everywhere(drill, name, kinds=4))


def _fail_everywhere(drill: Range, name: str, *, kinds: int) -> int:
    """How many faults there were."""
    operation = OPERATIONS[name]
    s, other = drill.fresh()
    operation.before(drill.witness, s, other)
    with drill.injector.counting():
        operation.run(drill.face, drill.ada, s, other)
    boundaries = drill.injector.count
    assert boundaries
    after = _stripped(look(drill.witness, s if operation.seen == "s" else other))
    for at in range(boundaries):
        for fault in (FAULTS * 2)[at % 4 : at % 4 + kinds]:
            _one_fault(drill, operation, at, fault, after)
    return boundaries * kinds


def _one_fault(drill: Range, operation: Operation, at: int, fault: str, after: Any) -> None:
    s, other = drill.fresh()
    operation.before(drill.witness, s, other)
    seen = s if operation.seen == "s" else other
    before = _stripped(look(drill.witness, seen))
    where = f"{fault} boundary {at}"
    result: Any = None
    with drill.injector.failing(at, fault):
        try:
            result = operation.run(drill.face, drill.ada, s, other)
        except StoreError:
            failed = True
        else:
            failed = False
    assert drill.injector.fired, where
    drill.assert_free()
    now = _stripped(look(drill.witness, seen))
    if operation.is_undone:
        assert now in ((before, after) if failed else (after,)), where
    if operation.repeatable:
        result = operation.run(drill.face, drill.ada, s, other)
        assert _stripped(look(drill.witness, seen)) == after, where
    if isinstance(result, list):
        stored = {event.seq: event.id for event in drill.witness.events(s).items}
        assert {event.seq: event.id for event in result}.items() <= stored.items(), where
    if (left := look(drill.witness, seen)) is not None:
        if left[0][-1]:
            drill.witness.reopen(seen)
        version = drill.witness.get(seen).version
        assert [event.seq for event in drill.face(drill.ada, "append", seen, message("next"))] == [version + 1], where
        assert_whole(drill.witness, seen)


def _stripped(seen: Any) -> Any:
    """Without what earlier rounds left in the state that sessions share."""
    if seen is None:
        return None
    title, version, rows, state, counters, messages = seen
    own = {key: value for key, value in state.items() if ":" not in key}
    return title, version, rows, own, counters, messages
