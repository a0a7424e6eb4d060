"""Many threads on one store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import EventConflictError, NewEvent, SessionService
from langchain_sessions._log.log import log_of
from langchain_sessions.testing.archiving import archive
from tests.conftest import MEMORY_URL
from tests.faults.drills import archive_some, assert_whole, checked_out, in_threads, make_service, message, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def service(database_url: str, table_prefix: str) -> Iterator[SessionService]:
    """A service whose pool is found full at the end."""
    made = make_service(database_url, table_prefix=table_prefix)
    made.create_schema()
    yield made
    assert checked_out(made) == 0
    made.close()


def test_threads_append_beside_a_reader(service: SessionService) -> None:
    """C01."""
    _append_beside_a_reader(service, threads=16, appends=10)


@pytest.mark.soak
def test_sixty_four_threads_append_twenty_each(service: SessionService) -> None:
    _append_beside_a_reader(service, threads=64, appends=20)


def _append_beside_a_reader(service: SessionService, threads: int, appends: int) -> None:
    service.open("s")
    done = threading.Event()
    reads: list[list[str]] = []

    def writer(number: int) -> Callable[[], None]:
        def append() -> None:
            for at in range(appends):
                name = f"{number}-{at}"
                event = service.append("s", message(name))[0]
                mine = service.events("s", cursor=None).items if at == appends - 1 else ()
                assert not mine or mine[event.seq - 1].id == name, "what was acknowledged is read"

        return append

    def reader() -> None:
        while not done.is_set():
            reads.append(texts(service, "s"))

    beside = threading.Thread(target=reader)
    beside.start()
    try:
        in_threads([writer(number) for number in range(threads)])
    finally:
        done.set()
        beside.join()
    ids = assert_whole(service, "s")
    assert len(ids) == threads * appends
    for number in range(threads):
        assert [name for name in ids if name.startswith(f"{number}-")] == [f"{number}-{at}" for at in range(appends)]
    assert reads
    assert all(read == ids[: len(read)] for read in reads)


def test_one_event_id_at_once_is_one_event(service: SessionService) -> None:
    """C03."""
    service.open("s")
    same = [lambda: service.append("s", HumanMessage("once", id="m"))] * 16
    events = [found for events in in_threads(same) for found in events]
    assert {event.seq for event in events} == {1}
    assert assert_whole(service, "s") == ["m"]
    named = [lambda: service.append("s", NewEvent(id="e", message=HumanMessage("twice", id="m2")))] * 16
    assert {event.seq for events in in_threads(named) for event in events} == {2}
    assert assert_whole(service, "s") == ["m", "m2"]


def test_one_event_id_with_other_contents_keeps_the_first(service: SessionService) -> None:
    """C04."""
    service.open("s")

    def append(number: int) -> Callable[[], str | None]:
        def attempt() -> str | None:
            try:
                service.append("s", NewEvent(id="e", message=HumanMessage(f"text {number}")))
            except EventConflictError as error:
                assert "'e'" in str(error)  # noqa: PT017
                return None
            return f"text {number}"

        return attempt

    won = [text for text in in_threads([append(number) for number in range(8)]) if text is not None]
    assert texts(service, "s") == won
    assert len(won) == 1
    assert service.get("s").version == 1


def test_one_of_several_compactions_of_a_version_commits(service: SessionService) -> None:
    """C06."""
    service.open("s")
    for number in range(8):
        service.append("s", message(f"m{number}"))
    base = service.context("s")

    def commit() -> bool:
        summary = [NewEvent(message=AIMessage("so far"))]
        return archive(service, "s", range(1, 7), base=base, summary=summary) is not None

    assert sorted(in_threads([commit] * 8)) == [False] * 7 + [True]
    assert texts(service, "s") == ["so far", "m6", "m7"]
    assert_whole(service, "s")


def test_archivers_and_appenders_get_through(service: SessionService) -> None:
    service.open("s")
    finished = threading.Event()
    commits: list[bool | None] = []

    def appender(number: int) -> Callable[[], None]:
        def append() -> None:
            for at in range(12):
                service.append("s", message(f"{number}-{at}"))

        return append

    def archiver() -> None:
        while not finished.is_set():
            commits.append(archive_some(service, "s"))

    beside = [threading.Thread(target=archiver) for _ in range(2)]
    for thread in beside:
        thread.start()
    try:
        in_threads([appender(number) for number in range(8)])
    finally:
        finished.set()
        for thread in beside:
            thread.join()
    commits.append(archive_some(service, "s"))
    assert True in commits
    ids = assert_whole(service, "s")
    assert len(ids) == 96
    context = texts(service, "s")
    assert context[0] == f"summary up to {context[0].rsplit(' ', 1)[1]}"
    assert context[1:] == ids[-len(context[1:]) :]


def test_what_one_connection_appended_another_reads(
    backend: str, database_url: str, table_prefix: str, service: SessionService
) -> None:
    """C07."""
    other = SessionService(log_of(service).store)
    if backend != "memory":
        other = make_service(database_url, table_prefix=table_prefix)
    service.open("s")
    for number in range(50):
        service.append("s", message(f"m{number}"))
        assert texts(other, "s")[-1] == f"m{number}"
    other.close()


def test_parallel_sessions_do_not_mix(service: SessionService) -> None:
    """C10."""

    def converse(number: int) -> Callable[[], None]:
        def talk() -> None:
            ada = service.as_user(f"user-{number}")
            ada.open(f"s{number}")
            for at in range(5):
                ada.append(f"s{number}", [message(f"{number}-{at}"), AIMessage("ok")], state_delta={"app:n": at})

        return talk

    in_threads([converse(number) for number in range(32)])
    for number in range(32):
        ids = assert_whole(service, f"s{number}")
        assert ids == [f"{number}-{at}" for at in range(5)]


def test_pairs_are_never_interleaved(service: SessionService) -> None:
    """C15."""
    service.open("s")

    def ask(number: int) -> Callable[[], None]:
        def talk() -> None:
            for at in range(10):
                service.append("s", [message(f"q{number}-{at}"), AIMessage(f"a{number}-{at}", id=f"a{number}-{at}")])

        return talk

    in_threads([ask(number) for number in range(6)])
    ids = assert_whole(service, "s")
    assert len(ids) == 120
    assert all(question[1:] == answer[1:] for question, answer in zip(ids[::2], ids[1::2], strict=True))


def test_first_sessions_of_a_new_app_are_created_at_once(backend: str, fresh_database: Callable[[], str]) -> None:
    """A13: nothing exists yet, not even the tables."""
    url = fresh_database()
    made = make_service(url, app="fresh") if url != MEMORY_URL else make_service(url)

    def first(number: int) -> Callable[[], Any]:
        return lambda: made.as_user("ada").create(f"s{number}", state={"app:theme": "dark", "user:n": number, "k": 1})

    created = in_threads([first(number) for number in range(20)])
    assert {session.id for session in created} == {f"s{number}" for number in range(20)}
    assert made.as_user("ada").state("s0")["app:theme"] == "dark"
    opened_at_once = in_threads([lambda: made.as_user("ada").open("shared")] * 12)
    assert {session.created_at for session in opened_at_once} == {made.get("shared").created_at}
    assert checked_out(made) == 0
    made.close()
