"""Many sessions and many processes: eight of them write all of sixty-four sessions."""

from __future__ import annotations

import multiprocessing
import random
import secrets
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionService
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from tests.engines.conftest import URL

if TYPE_CHECKING:
    from langchain_sessions import SessionService as Service

SESSIONS = 64
PROCESSES = 8


def service_on(engine: CassandraEngine, app: str) -> Service:
    return SessionService(PartitionedStore(engine), app=app, search=False).as_user("ada")


def write_all(url: str, app: str, process: int) -> None:
    """Append one message to each session, in an order of its own."""
    engine = CassandraEngine(url)
    sessions = service_on(engine, app)
    numbers = list(range(SESSIONS))
    random.Random(process).shuffle(numbers)  # noqa: S311 - an order
    for number in numbers:
        sessions.open(f"s{number}")
        sessions.append(f"s{number}", HumanMessage("x", id=f"p{process}"))
    engine.close()


def test_every_session_has_what_every_process_wrote(engine: CassandraEngine) -> None:
    app = f"app-{secrets.token_hex(6)}"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_all, args=(URL, app, number)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    sessions = service_on(engine, app)
    for number in range(SESSIONS):
        found = [str(event.id) for event in sessions.events(f"s{number}")]
        assert sorted(found) == sorted(f"p{each}" for each in range(PROCESSES))
    for number in range(0, SESSIONS, 16):
        assert sessions.verify(f"s{number}") == []
    assert {each.id for each in sessions.list_sessions(limit=100)} == {f"s{number}" for number in range(SESSIONS)}
