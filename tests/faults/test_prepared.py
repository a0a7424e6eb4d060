"""What PostgreSQL has prepared on a connection of our own, and what makes it forget that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine, text

from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver import libpq
from langchain_sessions._sql.driver import psycopg as psycopg_driver
from tests.faults.drills import FACES, Face, assert_whole, checked_out, make_service, message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions import SessionService
    from langchain_sessions._sql.driver.kept_connections import Held

pytestmark = pytest.mark.backends("postgres")
OFTEN = 8
"""Times after which a statement is prepared."""


class Interrupted(BaseException):
    """What a Ctrl-C raises where it falls, but no test runner listens to."""


@pytest.fixture(params=FACES)
def call(request: pytest.FixtureRequest) -> Face:
    """Both faces."""
    return Face(request.param)


@pytest.fixture
def warm(call: Face, database_url: str, table_prefix: str) -> Iterator[SessionService]:
    """A service of which one connection has prepared what it says often."""
    service = make_service(database_url, table_prefix=table_prefix)
    service.create_schema()
    call(service, "open", "s")
    for at in range(OFTEN):
        call(service, "append", "s", message(f"m{at}"))
        call(service, "messages", "s", last_n=5)
    assert cursor_of(service, call)._plans
    yield service
    assert checked_out(service) == 0
    call.close(service)


def cursor_of(service: SessionService, call: Face) -> Any:
    """The cursor of the connection that is used next."""
    runner: Any = log_of(service).store._runner  # type: ignore[attr-defined]
    kept = runner._kept if call._loop is None else runner._loops.kept[0]
    held: Held = kept._idle[-1]
    return held.cursor


def on_its_connection(service: SessionService, call: Face, statement: str) -> None:
    """Run a statement of somebody else's on the connection."""
    connection = cursor_of(service, call)._connection
    if call._loop is None:
        connection.execute(statement)
    else:
        call._loop.run_until_complete(connection.execute(statement))


def test_a_server_that_forgot_is_told_again(warm: SessionService, call: Face) -> None:
    on_its_connection(warm, call, "DEALLOCATE ALL")
    call(warm, "append", "s", message("after"))
    assert [found.text for found in call(warm, "messages", "s", last_n=1)] == ["after"]
    assert len(assert_whole(warm, "s")) == OFTEN + 1


def test_statements_are_said_in_full_where_a_pooler_mixes_connections(
    warm: SessionService, call: Face, database_url: str, table_prefix: str
) -> None:
    """PgBouncer's transactions may each meet another server's connection, with what others prepared there."""
    other = make_service(database_url, table_prefix=table_prefix)
    for _ in range(OFTEN):
        call(other, "messages", "s", last_n=5)
    names = [{plan.name for plan in cursor_of(each, call)._plans.values()} for each in (warm, other)]
    assert names[0]
    assert names[1]
    assert names[0].isdisjoint(names[1])
    on_its_connection(warm, call, "DEALLOCATE ALL")
    for at in range(OFTEN):
        call(warm, "append", "s", message(f"after {at}"))
        call(warm, "messages", "s", last_n=5)
    assert len(assert_whole(warm, "s")) == 2 * OFTEN
    assert cursor_of(warm, call)._plans == {}
    call(other, "close")


def test_tables_that_were_altered_are_read_on(warm: SessionService, call: Face, database_url: str) -> None:
    events = log_of(warm).store.tables.events.name  # type: ignore[attr-defined]
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.begin() as other:
        other.execute(text(f'ALTER TABLE "{events}" ALTER COLUMN body TYPE varchar'))
    assert [found.text for found in call(warm, "messages", "s", last_n=1)] == [f"m{OFTEN - 1}"]
    call(warm, "append", "s", message("after"))
    assert len(assert_whole(warm, "s")) == OFTEN + 1


def test_a_failed_transaction_leaves_a_connection_that_works(warm: SessionService, call: Face) -> None:
    cursor = cursor_of(warm, call)
    on_its_connection(warm, call, "BEGIN")
    with pytest.raises(psycopg.errors.DivisionByZero):
        on_its_connection(warm, call, "SELECT 1 / 0")
    if call._loop is None:
        cursor.rollback()
    else:
        from sqlalchemy.util import greenlet_spawn  # noqa: PLC0415 - as the library does

        call._loop.run_until_complete(greenlet_spawn(cursor.rollback))
    assert cursor._plans == {}
    for at in range(OFTEN):
        call(warm, "append", "s", message(f"after {at}"))
    assert cursor_of(warm, call) is cursor
    assert cursor._plans
    assert len(assert_whole(warm, "s")) == 2 * OFTEN


def test_a_connection_that_was_cut_is_replaced(warm: SessionService, call: Face, database_url: str) -> None:
    pid = cursor_of(warm, call)._connection.info.backend_pid
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.connect() as other:
        other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    call(warm, "append", "s", message("after"))
    assert cursor_of(warm, call)._connection.info.backend_pid != pid
    assert len(assert_whole(warm, "s")) == OFTEN + 1


def test_more_rows_than_wait_in_a_queue_are_written(warm: SessionService, call: Face) -> None:
    words = [f"{part}{at}" for at in range(400) for part in ("ash", "birch")]
    call(warm, "append", "s", message(" ".join(words)))
    assert call(warm, "reindex", "s") is not None
    assert warm.verify("s") == []
    found = call(warm, "search", "birch399", session_id="s")
    assert len(found.items) == 1


def test_values_go_as_they_are_or_by_psycopg() -> None:
    assert libpq._as_given(("ü", 7, None, b"\0")) == (["ü".encode(), b"7", None, b"\0"], [0, 0, 0, 1])
    assert libpq._as_given((-(2**63), "")) == ([b"-9223372036854775808", b""], None)
    for other in (True, 1.5, "a\0b", bytearray(b"a")):
        assert libpq._as_given((1, other)) is None


def test_who_is_interrupted_while_a_connection_opens_leaves_none_that_does_not_commit(
    database_url: str, table_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = psycopg_driver.cursor_of
    with make_service(database_url, table_prefix=table_prefix) as other:
        other.open("s")

    raised: list[bool] = []

    def interrupted(*given: Any) -> Any:
        if raised:
            return made(*given)
        raised.append(True)
        raise Interrupted

    monkeypatch.setattr(psycopg_driver, "cursor_of", interrupted)
    service = make_service(database_url, table_prefix=table_prefix, create_schema=False)
    with pytest.raises(Interrupted):
        service.append("s", message("not said"))
    service.append("s", message("acknowledged"))
    with make_service(database_url, table_prefix=table_prefix) as other:
        assert other.messages("s")[-1].text == "acknowledged"
    service.close()
