"""Clocks that are behind others, or go back: what was acknowledged is read."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from tests.conftest import MEMORY_URL
from tests.faults.drills import FACES, Face, make_service, message

if TYPE_CHECKING:
    from langchain_sessions import SessionService


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
        from langchain_sessions import InMemoryStore, SessionService  # noqa: PLC0415

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
