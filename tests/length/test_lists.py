"""A page of sessions is one statement, and one more where more were active in a minute than are read ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import Session, SessionService
from langchain_sessions._log.log import log_of
from langchain_sessions.testing import SettableClock
from tests.length.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

SESSIONS, LIMIT, AHEAD = 60, 20, 10


@pytest.mark.backends("sqlite", "postgres", "mariadb")
@pytest.mark.parametrize(("seconds", "statements"), [(61, 1), (0.5, 2)])
def test_a_page_takes_so_many_statements(
    backend: str, fresh_database: Callable[[], str], seconds: float, statements: int
) -> None:
    clock, meter = SettableClock(), Meter()
    with SessionService(fresh_database(), create_schema=True, clock=clock) as service:
        meter.attach(log_of(service).store._engines.sync)  # type: ignore[attr-defined]
        ada = service.as_user("ada")
        names = [f"s{at}" for at in range(SESSIONS)]
        for name in names:
            ada.create(name)
            clock.advance(seconds=seconds)
        ada.append("s0", HumanMessage("again"))
        newest = ["s0", *reversed(names[1:])]
        cursor = ada.list_sessions(limit=LIMIT).next_cursor
        found: list[Session] = []
        cost = meter.of(
            lambda: found.extend(ada.list_sessions(limit=LIMIT, cursor=cursor)),
            lambda: ada.list_sessions(limit=LIMIT, cursor=cursor),
        )
    assert [session.id for session in found] == newest[LIMIT : 2 * LIMIT]
    assert cost.statements == statements
    if backend != "mariadb":  # whose driver hands rows on without asking
        assert LIMIT <= cost.rows <= LIMIT * statements + AHEAD
