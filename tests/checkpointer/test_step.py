"""A step of a graph reads what may have changed since this process looked, and nothing else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from sqlalchemy import event

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.service import SessionService
from tests.faults.drills import engines_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

pytestmark = pytest.mark.backends("sqlite", "postgres", "mariadb")
START: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def two(database_url: str, table_prefix: str) -> Iterator[tuple[SessionCheckpointSaver, SessionCheckpointSaver]]:
    """Two savers over one database that know nothing of each other, as of two processes."""
    with (
        SessionService(database_url, table_prefix=table_prefix, create_schema=True) as one,
        SessionService(database_url, table_prefix=table_prefix, create_schema=True) as other,
    ):
        yield SessionCheckpointSaver(one), SessionCheckpointSaver(other)


def put(saver: SessionCheckpointSaver, config: Any, version: int, *messages: Any) -> Any:
    """A checkpoint whose list is `messages`."""
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = {"messages": [*messages]}
    checkpoint["channel_versions"] = {"messages": version}
    return saver.put(config, checkpoint, {"source": "loop", "step": version}, {"messages": version})


def said(saver: SessionCheckpointSaver) -> list[tuple[str | None, str]]:
    """The id and the text of each event of the log."""
    said = [each.message for each in saver.sessions.events("t") if each.message is not None]
    return [(message.id, str(message.content)) for message in said]


def test_a_message_that_another_process_stored_meanwhile_is_stored_once(two: Any) -> None:
    one, other = two
    first = HumanMessage("hello", id="h")
    mine = put(one, START, 1, first)
    theirs = put(other, mine, 2, first, AIMessage("hi", id="a"))
    put(one, mine, 3, first, AIMessage("hi", id="a"))
    assert said(one) == [("h", "hello"), ("a", "hi")]
    # In other words it is a revision of theirs.
    put(one, theirs, 4, first, AIMessage("hi there", id="a"))
    assert said(one) == [("h", "hello"), ("a", "hi"), ("a", "hi there")]


def test_a_message_without_an_id_is_stored_once_where_its_checkpoint_is_put_again(two: Any) -> None:
    one, _ = two
    config = put(one, START, 1, HumanMessage("hello", id="h"))
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = {"messages": [HumanMessage("hello", id="h"), AIMessage("hi")]}
    checkpoint["channel_versions"] = {"messages": 2}
    for _ in range(2):
        one.put(config, checkpoint, {"source": "loop", "step": 2}, {"messages": 2})
    assert [text for _, text in said(one)] == ["hello", "hi"]


def test_the_same_thread_for_another_user_is_another_request(two: Any) -> None:
    one, _ = two
    thread, ada, bob = "t", "ada", "bob"
    place = {"thread_id": thread, "checkpoint_ns": ""}
    put(one, {"configurable": {**place, "user_id": ada}}, 1, HumanMessage("hello", id="h"))
    for config in ({**place, "user_id": bob}, place):
        with pytest.raises(SessionNotFoundError):
            one.get_tuple({"configurable": config})
    assert one.get_tuple({"configurable": {**place, "user_id": ada}}) is not None


@pytest.mark.backends("sqlite")
def test_a_step_reads_the_session_and_nothing_else(database_url: str, table_prefix: str) -> None:
    told: list[str] = []
    with SessionService(database_url, table_prefix=table_prefix, create_schema=True) as service:
        event.listen(engines_of(service)[0], "connect", lambda driver, _: driver.set_trace_callback(told.append))
        saver = SessionCheckpointSaver(service)
        messages: list[Any] = [HumanMessage("hello", id="h")]
        config = put(saver, START, 1, *messages)
        told.clear()
        put(saver, config, 2, *messages, AIMessage("hi", id="a"))
    read = [statement for statement in told if statement.startswith("SELECT")]
    assert len(read) == 1, read


@pytest.mark.backends("sqlite")
def test_a_step_asks_for_its_session_by_its_key_and_not_for_its_state(database_url: str, table_prefix: str) -> None:
    told: list[str] = []
    with SessionService(database_url, table_prefix=table_prefix, create_schema=True) as service:
        event.listen(engines_of(service)[0], "connect", lambda driver, _: driver.set_trace_callback(told.append))
        saver = SessionCheckpointSaver(service)
        config: Any = START
        for version in range(1, 5):
            told.clear()
            config = put(saver, config, version, HumanMessage("hello", id="h"))
    (read,) = [statement for statement in told if statement.startswith("SELECT")]
    assert '"skey" = 1' in read
    assert all(f'."{name}"' not in read for name in ("state", "initial_state", "metadata", "title"))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_thread_that_another_process_deleted_is_not_written_under_its_old_key(two: Any, *, is_there: bool) -> None:
    one, other = two
    config: Any = START
    for version in range(1, 4):
        config = put(one, config, version, HumanMessage("hello", id="h"))
    other.delete_thread("t")
    if is_there:
        put(other, START, 1, HumanMessage("anew", id="n"))
        put(one, config, 4, HumanMessage("hello", id="h"))
        assert said(other) == [("n", "anew"), ("h", "hello")]
    else:
        with pytest.raises(SessionNotFoundError):
            put(one, config, 4, HumanMessage("hello", id="h"))


def test_a_message_without_an_id_is_replaced_by_its_name_in_the_log(two: Any) -> None:
    one, _ = two
    config = put(one, START, 1, HumanMessage("hello"))
    ((name, _),) = said(one)
    assert name is None
    (found,) = one.sessions.events("t").items
    put(one, config, 2, HumanMessage("edited", id=found.id))
    assert (found.id, "edited") in said(one)


@pytest.mark.backends("sqlite")
def test_a_plain_step_enters_few_functions(database_url: str, table_prefix: str) -> None:
    entered: list[str] = []

    def look(frame: FrameType, happened: str, _: object) -> None:
        if happened == "call" and "langchain_sessions" in frame.f_code.co_filename:
            entered.append(frame.f_code.co_name)

    with SessionService(database_url, table_prefix=table_prefix, create_schema=True) as service:
        saver = SessionCheckpointSaver(service)
        config: Any = START
        for version in range(1, 9):
            checkpoint = empty_checkpoint()
            checkpoint["id"] = str(uuid6())
            checkpoint["channel_values"] = {"count": version, "branch:to:work": None}
            checkpoint["channel_versions"] = {"count": version, "branch:to:work": version}
            entered.clear()
            sys.setprofile(look)
            config = saver.put(config, checkpoint, {"source": "loop", "step": version}, {"count": version})
            sys.setprofile(None)
    # A step is written often, and each function that it enters is half of what a statement takes. It may only go down.
    assert len(entered) <= 115, entered
