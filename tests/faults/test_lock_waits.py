"""Somebody else holds a lock and never gives it back: a call waits as long as it may, and then says what to do."""

from __future__ import annotations

import sqlite3
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import create_engine, make_url, text

from langchain_sessions import InvalidInputError, SessionCheckpointSaver, SessionService
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions.errors import StoreUnavailableError
from tests.faults.drills import FACES, Face, assert_whole, checked_out, in_threads, make_service, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

SHORT = timedelta(seconds=1)
PATIENCE = 20
"""Seconds of a slow machine within which everything that waits has been told."""
on_servers = pytest.mark.backends("postgres", "mariadb")


@pytest.fixture
def service(database_url: str, table_prefix: str) -> Iterator[SessionService]:
    made = make_service(database_url, table_prefix=table_prefix, lock_timeout=SHORT)
    made.open("s")
    made.open("other")
    made.append("s", message("before"))
    yield made
    made.close()


@pytest.fixture
def foreign(database_url: str) -> Iterator[Connection]:
    """A connection of somebody else's."""
    engine = create_engine(database_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@on_servers
@pytest.mark.parametrize("face", FACES)
def test_a_session_that_is_locked_for_ever_is_told(
    service: SessionService, foreign: Connection, table_prefix: str, face: str
) -> None:
    call = Face(face)
    foreign.execute(text(f"SELECT * FROM {table_prefix}sessions WHERE id = 's' FOR UPDATE"))
    began = time.monotonic()
    for name, given in (("append", {"messages": message("a")}), ("update", {"title": "b"}), ("rewind", {"to_seq": 0})):
        with pytest.raises(StoreUnavailableError, match=r"than lock_timeout; nothing was written\. .*then try again"):
            call(service, name, "s", **given)
    assert time.monotonic() - began < PATIENCE
    assert [each.id for each in call(service, "messages", "s")] == ["before"], "whoever reads waits for nobody"
    assert call(service, "append", "other", message("beside"))
    foreign.rollback()
    call(service, "append", "s", message("a"))
    assert assert_whole(service, "s") == ["before", "a"]
    assert checked_out(service) == 0
    call.close(service)


@on_servers
def test_all_that_wait_for_it_are_told(service: SessionService, foreign: Connection, table_prefix: str) -> None:
    """Appends that wait for one session travel together, and find out alone what became of it."""
    foreign.execute(text(f"SELECT * FROM {table_prefix}sessions WHERE id = 's' FOR UPDATE"))

    def append(number: int) -> Callable[[], None]:
        def work() -> None:
            with pytest.raises(StoreUnavailableError, match="lock_timeout"):
                service.append("s", message(f"m{number}"))

        return work

    in_threads([append(number) for number in range(8)], timeout=PATIENCE)
    foreign.rollback()
    assert assert_whole(service, "s") == ["before"]


@on_servers
@pytest.mark.parametrize("face", FACES)
def test_a_graph_is_told(service: SessionService, foreign: Connection, table_prefix: str, face: str) -> None:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [("ai", "hello")]})
    graph = builder.add_edge(START, "answer").compile(checkpointer=SessionCheckpointSaver(service))
    config: Any = {"configurable": {"thread_id": "s"}}
    call = Face(face)
    foreign.execute(text(f"SELECT * FROM {table_prefix}sessions WHERE id = 's' FOR UPDATE"))
    with pytest.raises(StoreUnavailableError, match="lock_timeout"):
        call(graph, "invoke", {"messages": [HumanMessage("hi")]}, config)
    foreign.rollback()
    answer = call(graph, "invoke", {"messages": [HumanMessage("hi")]}, config)
    assert answer["messages"][-1].text == "hello"
    call.close(service)


@on_servers
@pytest.mark.parametrize("face", FACES)
def test_a_table_that_is_locked_for_ever_is_told(
    service: SessionService, foreign: Connection, table_prefix: str, backend: str, face: str
) -> None:
    """As by somebody who alters it: then readers wait, too."""
    how = "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE" if backend == "postgres" else "LOCK TABLES {} WRITE"
    foreign.execute(text(how.format(f"{table_prefix}events")))
    call = Face(face)
    with pytest.raises(StoreUnavailableError, match="lock_timeout"):
        call(service, "events", "s")
    if backend == "mariadb":
        foreign.execute(text("UNLOCK TABLES"))
    foreign.rollback()
    assert len(call(service, "events", "s")) == 1
    call.close(service)


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("face", FACES)
def test_postgresql_waits_for_a_minute_unless_it_was_told(database_url: str, table_prefix: str, face: str) -> None:
    url = make_url(database_url)
    its_own = url.update_query_dict({"options": "-c lock_timeout=7s"})
    cases: list[tuple[Any, timedelta | None, str]] = [
        (url, None, "1min"),
        (url, timedelta(milliseconds=1500), "1500ms"),
        (its_own, None, "7s"),
        (its_own, timedelta(seconds=9), "9s"),
    ]
    for given, asked, expected in cases:
        service, call = SessionService(given, table_prefix=table_prefix, lock_timeout=asked), Face(face)
        assert _asked(service, call, "SHOW lock_timeout") == (expected,)
        call.close(service)


@pytest.mark.backends("mariadb")
@pytest.mark.parametrize("face", FACES)
def test_mariadb_waits_for_a_minute_unless_it_was_told(database_url: str, table_prefix: str, face: str) -> None:
    for asked, expected in ((None, (50, 60)), (timedelta(milliseconds=1500), (2, 2))):
        service, call = SessionService(database_url, table_prefix=table_prefix, lock_timeout=asked), Face(face)
        assert _asked(service, call, "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout") == expected
        call.close(service)


def _asked(service: SessionService, call: Face, sql: str) -> Any:
    store: Any = log_of(service).store
    return tuple(call(store._runner, "run_on_any", TransactionKind.READ, lambda tx: tx.ask(sql)[0]))


@pytest.mark.parametrize("words", ["", "?timeout=0.2"])
@pytest.mark.parametrize("face", FACES)
def test_a_file_that_is_locked_for_ever_is_told(tmp_path: Any, words: str, face: str) -> None:
    path, call = tmp_path / "chat.db", Face(face)
    SessionService(f"sqlite:///{path}").open("s")
    asked = None if words else timedelta(milliseconds=200)
    service = SessionService(f"sqlite:///{path}{words}", lock_timeout=asked)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="locked by another process"):
        call(service, "append", "s", message("a"))
    assert time.monotonic() - began < PATIENCE
    other.execute("ROLLBACK")
    other.close()
    call(service, "append", "s", message("a"))
    call.close(service)
    service.close()


@pytest.mark.parametrize("wrong", [timedelta(0), timedelta(seconds=-1), 5, "5s"])
def test_what_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="lock_timeout"):
        SessionService("sqlite://", lock_timeout=wrong)
