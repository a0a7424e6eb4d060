"""What crosses between processes and is copied: errors and values say the same on the other side."""

from __future__ import annotations

import copy
import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import ANYONE, Compaction, EventFilter, NewEvent, SessionService, SlidingWindow, errors
from langchain_sessions.errors import SessionNotFoundError, SessionsError

if TYPE_CHECKING:
    from collections.abc import Iterator


def _all(kind: type[SessionsError]) -> Iterator[type[SessionsError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _all(below)


GIVEN: dict[str, Any] = {
    "int": 3,
    "int | None": 3,
    "Mapping[str, int]": {"question": 7},
    "Sequence[BaseMessage]": [HumanMessage("hi")],
}


def made(kind: type[SessionsError]) -> SessionsError:
    """An error of a class, given something for each argument."""
    if kind.__init__ is Exception.__init__:
        return kind("It went wrong.")
    _, *wanted = inspect.signature(kind.__init__).parameters.values()
    return kind(*(GIVEN.get(str(each.annotation), "x") for each in wanted if each.default is each.empty))


def again(value: object) -> list[Any]:
    return [pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)]  # noqa: S301 - made here


@pytest.mark.parametrize("kind", [kind for kind in _all(SessionsError) if kind.__module__ == errors.__name__])
def test_an_error_crosses_as_it_is(kind: type[SessionsError]) -> None:
    error = made(kind)
    for other in again(error):
        assert (type(other), str(other), other.args) == (kind, str(error), error.args)
        assert repr(other.__dict__) == repr(error.__dict__)


def _miss(session_id: str) -> None:
    with SessionService("sqlite://") as sessions:
        sessions.messages(session_id)


def test_a_pool_of_processes_lives_on() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(SessionNotFoundError, match="No session 's1'") as caught:
            pool.submit(_miss, "s1").result(60)
        assert caught.value.session_id == "s1"
        assert pool.submit(str, 1).result(60) == "1"


def test_what_is_returned_may_be_kept_and_copied() -> None:
    with SessionService("sqlite://") as sessions:
        ada = sessions.as_user("ada")
        session = ada.create(session_id="s", metadata={"k": [1]}, state={"n": 0})
        stored = ada.append("s", [HumanMessage("a zebra"), AIMessage("hello")], state_delta={"n": 1})
        found = ada.search("zebra", session_id="s")
        archived = ada.compact("s", Compaction(when=None, how=SlidingWindow(max_events=1)))
        told = [session, *stored, found, found.items[0], archived, ada.events("s"), ada.context("s"), ada.turns("s")]
        for value in [*told, ada.count("s"), EventFilter(roles={"human"}), NewEvent(message=HumanMessage("x"))]:
            assert all(other == value for other in again(value))
    assert all(other is ANYONE for other in again(ANYONE))
