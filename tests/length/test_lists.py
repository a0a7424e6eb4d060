"""A page of sessions is one statement, and one more where more were active in a minute than are read ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import Session, SessionService
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction import Prepared, Transaction
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


@pytest.mark.backends("sqlite")
def test_a_session_that_is_touched_while_a_page_is_read_is_on_it(
    fresh_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, clock = fresh_database(), SettableClock()
    with SessionService(url, create_schema=True, clock=clock) as service, SessionService(url, clock=clock) as other:
        for at in range(SESSIONS):
            service.create(f"s{at}")
            clock.advance(seconds=0.5)
        # The last of the index, which says the minute, and the first of the list.
        service.append("s0", HumanMessage("again"))
        real, statements = Transaction.rows, list[Prepared]()

        def rows(tx: Transaction, statement: Prepared, values: dict[str, Any]) -> list[tuple[object, ...]]:
            found = real(tx, statement, values)
            statements.append(statement)
            if len(statements) == 1:
                clock.advance(seconds=61)
                other.append("s0", HumanMessage("meanwhile"))
            return found

        service.list_sessions(limit=1)
        monkeypatch.setattr(Transaction, "rows", rows)
        page = service.list_sessions(limit=LIMIT)
        monkeypatch.undo()
    assert page.items[0].id == "s0"
    assert len({session.id for session in page}) == LIMIT
