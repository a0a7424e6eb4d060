"""Issue 17: what happens to a session while somebody looks at it, or holds a view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import SessionNotFoundError, SessionService
from langchain_sessions._core.flow import drive
from langchain_sessions._log.log import log_of
from langchain_sessions._log.verify import verify_session
from tests.faults.drills import make_service

if TYPE_CHECKING:
    from collections.abc import Callable


def written(sessions: SessionService, turns: int) -> None:
    """A session whose index is built."""
    sessions.create("s")
    for turn in range(turns):
        sessions.append("s", [HumanMessage(f"question {turn}"), AIMessage(f"answer {turn}")])
    sessions.reindex("s")


def interrupted(sessions: SessionService, at: int, meanwhile: Callable[[], Any]) -> tuple[Any, bool]:
    """What `verify` says where something happens before one of its requests, and whether it made so many."""
    flow = verify_session(log_of(sessions), "s")
    number = 0
    try:
        method, args, kwargs = next(flow)
        while True:
            if number == at:
                meanwhile()
            number += 1
            try:
                answer = method(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the workflow's to see, as it would be
                method, args, kwargs = flow.throw(error)
            else:
                method, args, kwargs = flow.send(answer)
    except StopIteration as done:
        return done.value, number > at
    except SessionNotFoundError:
        return [], number > at


@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
def test_a_session_that_comes_anew_under_its_id_meanwhile_is_no_damage(database_url: str, table_prefix: str) -> None:
    """Before each request of a check in turn, the session is deleted and another one made, longer and shorter."""
    options = {} if database_url.startswith(("memory:", "file:")) else {"table_prefix": table_prefix}
    with make_service(database_url, **options) as sessions:

        def anew(turns: int) -> None:
            sessions.delete("s")
            written(sessions, turns)

        written(sessions, 3)
        for turns in (1, 5) if database_url.startswith("memory:") else (5,):
            at, has_more = 0, True
            while has_more:
                found, has_more = interrupted(sessions, at, lambda turns=turns: anew(turns))  # type: ignore[misc]
                assert found == [], at
                anew(3)
                at += 1
            assert at > 3


def test_leaving_a_view_closes_nothing() -> None:
    with SessionService("sqlite://") as sessions:
        with sessions.as_user("ada") as ada:
            ada.create("s")
        ada.close()
        ada.append("s", HumanMessage("still here"))
        drive(ada._close())
        assert [message.text for message in sessions.as_user("ada").messages("s")] == ["still here"]
        assert [session.id for session in sessions.list_sessions()] == ["s"]
