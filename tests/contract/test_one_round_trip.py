"""A server is asked for a session and its newest messages at once; what does not belong together is asked for again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import make_url

from benchmarks.measure import CountingProxy
from langchain_sessions import InvocationStatus, SessionNotFoundError, SessionService
from langchain_sessions._sql.log import contexts, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import SessionLog

pytestmark = pytest.mark.backends("postgres", "mariadb")


@pytest.fixture
def wire(database_url: str, table_prefix: str) -> Iterator[tuple[SessionService, CountingProxy]]:
    """A view of ada's behind a proxy that counts, with a log of five plain messages."""
    target = make_url(database_url)
    proxy = CountingProxy(str(target.host), int(target.port or 0))
    url = target.set(host="127.0.0.1", port=proxy.port)
    with SessionService(url, table_prefix=table_prefix, create_schema=True) as service:
        ada = service.as_user("ada")
        ada.create("s")
        ada.append("s", [HumanMessage("1"), AIMessage("2"), HumanMessage("3"), AIMessage("4"), HumanMessage("5")])
        yield ada, proxy
    proxy.close()


def said(ada: SessionService, **how: Any) -> list[Any]:
    return [message.content for message in ada.messages("s", **how)]


def test_the_newest_messages_are_one_round_trip(wire: tuple[SessionService, CountingProxy]) -> None:
    ada, proxy = wire
    for _ in range(8):  # a driver prepares what comes back
        assert said(ada, last_n=3) == ["3", "4", "5"]
    before = proxy.round_trips
    assert said(ada, last_n=3) == ["3", "4", "5"]
    assert proxy.round_trips - before == 1
    assert said(ada) == ["1", "2", "3", "4", "5"]


def test_what_is_no_plain_message_is_read_in_full(wire: tuple[SessionService, CountingProxy]) -> None:
    ada, _ = wire
    ada.append("s", AIMessage("6", name="ann"), author="ann", metadata={"of": 6}, branch="ann")
    assert said(ada, last_n=3) == ["3", "4", "5"]
    assert [event.metadata for event in ada.context("s", branch="ann", last_n=2).events] == [{}, {"of": 6}]
    ada.rewind("s", to_seq=4)
    assert said(ada, last_n=3) == ["2", "3", "4"]
    ada.append("s", HumanMessage("7"), invocation_id="run", invocation_status=InvocationStatus.OPEN)
    assert said(ada, last_n=3) == ["2", "3", "4"]
    assert said(ada, last_n=3, invocation_id="run") == ["3", "4", "7"]


def test_what_was_appended_between_both_answers_is_of_a_later_version(
    wire: tuple[SessionService, CountingProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, _ = wire
    told = lookup.view_told

    def a_moment_before(*given: Any) -> tuple[SessionLog, LogView]:
        session, view = told(*given)
        return session._replace(last_seq=session.last_seq - 1), view

    monkeypatch.setattr(contexts, "view_told", a_moment_before)
    context = ada.context("s", last_n=3)
    assert ([message.content for message in context], context.version) == (["2", "3", "4"], 4)


def test_a_session_that_is_not_there_is_missing(wire: tuple[SessionService, CountingProxy]) -> None:
    ada, _ = wire
    with pytest.raises(SessionNotFoundError):
        ada.messages("t", last_n=3)
