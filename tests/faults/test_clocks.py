"""Clocks that are behind others, or go back: what was acknowledged is read."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions import InMemoryStore, NewEvent, SessionService
from langchain_sessions.stores._partitioned import log as partitioned_log
from langchain_sessions.stores._partitioned import shared_state
from tests.conftest import MEMORY_URL
from tests.faults.drills import FACES, Face, make_service, message

if TYPE_CHECKING:
    from langchain_sessions._core.flow import Flow


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 29, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        """The present."""
        return self.now


def service_of(url: str, prefix: str, clock: Clock) -> SessionService:
    """A service with a clock of its own."""
    if url == MEMORY_URL:
        return SessionService(InMemoryStore(), clock=clock)
    return make_service(url, table_prefix=prefix, clock=clock)


@pytest.mark.parametrize("face", FACES)
def test_the_last_writer_of_shared_state_wins_though_its_clock_is_behind(
    database_url: str, table_prefix: str, face: str
) -> None:
    service, call = service_of(database_url, table_prefix, clock := Clock()), Face(face)
    call(service, "open", "s", user_id="ada")
    call(service, "append", "s", message("m1"), state_delta={"app:k": 1, "user:k": 1, "app:other": 1})
    clock.now -= timedelta(hours=1)  # as where summer time was in it, or on another machine
    call(service, "append", "s", message("m2"), state_delta={"app:k": 2, "user:k": None, "k": 2})
    assert call(service, "state", "s") == {"app:k": 2, "app:other": 1, "k": 2}
    clock.now -= timedelta(hours=1)
    assert call(service, "update_shared_state", {"app:k": 3, "user:k": 3}, user_id="ada")["app:k"] == 3
    assert call(service, "state", "s") == {"app:k": 3, "app:other": 1, "user:k": 3, "k": 2}
    clock.now -= timedelta(hours=1)
    call(service, "create", "t", user_id="ada", state={"app:k": 4})
    assert call(service, "shared_state", user_id="ada") == {"app:k": 4, "app:other": 1, "user:k": 3}
    assert [call(service, "verify", name) for name in "st"] == [[], []]
    call.close(service)


@pytest.mark.parametrize("face", FACES)
def test_of_several_changes_in_one_append_the_last_one_counts(database_url: str, table_prefix: str, face: str) -> None:
    service, call = service_of(database_url, table_prefix, clock := Clock()), Face(face)
    call(service, "open", "s", user_id="ada")
    for name in "xy":  # one of them is known to be later than the other
        clock.now += timedelta(hours=1)
        call(service, "append", "s", message(name), state_delta={f"app:{name}": 0})
    clock.now -= timedelta(hours=5)
    both = NewEvent(message=message("m1"), state_delta={"app:x": 1, "app:y": 1, "user:z": 1})
    call(service, "append", "s", [both, NewEvent(message=message("m2"), state_delta={"app:x": 2, "user:z": 2})])
    assert call(service, "state", "s") == {"app:x": 2, "app:y": 1, "user:z": 2}
    call.close(service)


class CutError(ConnectionError):
    """The process ended here."""


@pytest.mark.backends("memory", "files")
def test_what_was_cut_short_and_is_repeated_counts_as_the_last(
    database_url: str, table_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_of(database_url, table_prefix, clock := Clock())
    service.open("s", user_id="ada")
    service.append("s", message("m1"), state_delta={"app:k": "before"})
    clock.now -= timedelta(hours=1)

    def cut(*_: object) -> Flow[None]:
        yield from ()
        raise CutError

    monkeypatch.setattr(partitioned_log, "write_owed", cut)
    with pytest.raises(CutError):
        service.append("s", message("m2"), state_delta={"app:k": "acknowledged"})
    monkeypatch.undo()
    clock.now += timedelta(seconds=1)
    service.append("s", message("m2"), state_delta={"app:k": "acknowledged"})
    assert service.state("s") == {"app:k": "acknowledged"}
    service.close()


@pytest.mark.backends("memory")
def test_who_writes_for_another_one_takes_nothing_from_him(monkeypatch: pytest.MonkeyPatch) -> None:
    store, early, late = InMemoryStore(), Clock(), Clock()
    one, other = (SessionService(store, clock=clock) for clock in (early, late))
    one.open("s", user_id="ada")
    late.now += timedelta(hours=1)
    other.append("s", message("m1"), state_delta={"app:k": "before"})
    write_shared = shared_state._write_shared
    met = False

    def meeting(*args: Any, **options: Any) -> Flow[int | None]:
        nonlocal met
        found = yield from write_shared(*args, **options)
        if not met:
            met = True
            other.append("s", message("m2"))
        return found

    monkeypatch.setattr(shared_state, "_write_shared", meeting)
    one.append("s", message("m3"), state_delta={"app:k": "acknowledged"})
    assert one.state("s") == {"app:k": "acknowledged"}
