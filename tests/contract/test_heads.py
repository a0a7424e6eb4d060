"""SQLite moves a session on from where this process left it, and only where it still is."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import (
    InvocationStatus,
    SessionEndedError,
    SessionNotFoundError,
    SessionService,
    StaleSessionError,
)
from langchain_sessions.testing import SettableClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.backends("sqlite")
Both = tuple[SessionService, SessionService, SettableClock]


@pytest.fixture
def both(database_url: str) -> Iterator[Both]:
    """Ada's view from two services on one file, as two processes have it, after both appended."""
    clock = SettableClock()
    options: dict[str, Any] = {"clock": clock, "expiry": "sliding", "create_schema": True}
    with SessionService(database_url, **options) as one, SessionService(database_url, **options) as other:
        ada, again = one.as_user("ada"), other.as_user("ada")
        ada.create("s", time_to_live=None)
        for view in (ada, again, ada, ada):
            view.append("s", HumanMessage("hi"))
        yield ada, again, clock


def statements(view: SessionService, call: Callable[[], object]) -> list[str]:
    """What a call says to the database, by its first words."""
    kept = view._log.store._runner._writer.kept  # type: ignore[attr-defined]
    said: list[str] = []
    kept.connection.set_trace_callback(said.append)
    call()
    kept.connection.set_trace_callback(None)
    return [text.split()[0] for text in said]


def positions(view: SessionService) -> list[int]:
    return [event.seq for event in view.events("s").items]


def test_a_session_that_is_where_it_was_left_is_not_looked_for(both: Both) -> None:
    ada, _, clock = both
    assert statements(ada, lambda: ada.append("s", HumanMessage("5"))) == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]
    clock.advance(minutes=2)  # when its activity is due
    assert statements(ada, lambda: ada.append("s", HumanMessage("6"))).count("SELECT") == 1
    assert statements(ada, lambda: ada.append("s", HumanMessage("7"))).count("SELECT") == 0
    assert ada.get("s").updated_at == clock.moment


def test_what_others_append_meanwhile_is_not_overwritten(both: Both) -> None:
    ada, again, _ = both
    for number in range(8):
        (again if number % 3 else ada).append("s", [HumanMessage(f"{number}"), HumanMessage("and more")])
    assert positions(ada) == list(range(1, 21))
    session = again.get("s")
    assert (session.version, session.message_count, session.turn_count) == (20, 20, 20)
    with pytest.raises(StaleSessionError):
        ada.append("s", HumanMessage("late"), expected_version=19)
    again.append("s", HumanMessage("21"), expected_version=20)
    again.append("s", HumanMessage("22"), expected_version=21)
    assert positions(ada) == list(range(1, 23))


def test_a_session_that_is_over_meanwhile_takes_nothing(both: Both) -> None:
    ada, again, clock = both
    again.end("s")
    with pytest.raises(SessionEndedError):
        ada.append("s", HumanMessage("5"))
    again.reopen("s")
    ada.append("s", HumanMessage("5"))
    ada.append("s", HumanMessage("6"))
    again.delete("s")
    with pytest.raises(SessionNotFoundError):
        ada.append("s", HumanMessage("7"))
    clock.advance(days=2)
    again.create("s", time_to_live=None)
    ada.append("s", HumanMessage("1"))
    assert positions(again) == [1]


def test_a_time_that_is_set_meanwhile_slides_and_ends(both: Both) -> None:
    ada, again, clock = both
    again.update("s", time_to_live=timedelta(hours=3))
    clock.advance(seconds=30)
    ada.append("s", HumanMessage("5"))
    for _ in range(3):
        clock.advance(hours=2)
        ada.append("s", HumanMessage("more"))
    clock.advance(hours=4)
    with pytest.raises(SessionNotFoundError):
        ada.append("s", HumanMessage("late"))


def test_a_run_that_failed_meanwhile_comes_back(both: Both) -> None:
    ada, again, _ = both
    ada.append("s", HumanMessage("5"), invocation_id="run")
    ada.append("s", HumanMessage("6"), invocation_id="run")
    again.append("s", HumanMessage("7"), invocation_id="run", invocation_status=InvocationStatus.FAILED)
    assert len(ada.messages("s")) == 4
    ada.append("s", HumanMessage("8"), invocation_id="run")
    assert len(again.messages("s")) == again.get("s").message_count == 4
    ada.append("s", HumanMessage("9"), invocation_id="run", invocation_status=InvocationStatus.DONE)
    assert len(again.messages("s")) == again.get("s").message_count == 9


def test_another_owner_gains_nothing_by_what_is_remembered(both: Both) -> None:
    ada, _, _ = both
    service = SessionService(ada._log.store)
    with pytest.raises(SessionNotFoundError):
        service.as_user("bob").append("s", HumanMessage("mine?"))
    service.append("s", HumanMessage("the operator's"))
    service.append("s", HumanMessage("once more"))
    ada.append("s", HumanMessage("7"))
    assert positions(ada) == list(range(1, 8))


def test_a_change_of_state_is_one_short_transaction(both: Both) -> None:
    ada, again, _ = both
    ada.append("s", HumanMessage("5"), state_delta={"a": 1, "b": [1]})
    done = ["BEGIN", "SELECT", "UPDATE", "INSERT", "COMMIT"]
    assert statements(ada, lambda: ada.append("s", HumanMessage("6"), state_delta={"a": None, "c": "ü"})) == done
    # What another process changed meanwhile is what it changes.
    again.append("s", HumanMessage("7"), state_delta={"b": 2})
    ada.append("s", [HumanMessage("8"), HumanMessage("9")], state_delta={"c": True})
    assert again.state("s") == ada.state("s") == {"b": 2, "c": True}
    assert [event.state_delta for event in ada.events("s").items][-5:-2] == [
        {"a": 1, "b": [1]},
        {"a": None, "c": "ü"},
        {"b": 2},
    ]
    # It notes what it replaced, so that a rewind has it again.
    ada.rewind("s", to_seq=6)
    assert ada.state("s") == {"b": [1], "c": "ü"}
    # What others share goes the full way.
    ada.append("s", HumanMessage("10"), state_delta={"user:name": "Ada", "a": 2})
    assert ada.state("s") == {"b": [1], "c": "ü", "a": 2, "user:name": "Ada"}
