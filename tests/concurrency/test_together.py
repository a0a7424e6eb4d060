"""Appends that wait for one session travel together: each is told what it would have been told alone."""

from __future__ import annotations

import asyncio
import random
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import EventConflictError, SessionNotFoundError, SessionService
from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.rows import ANYONE, SessionKey
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.log import together
from langchain_sessions.stores._values import AppendBatch, Appended
from tests.faults.drills import assert_whole, checked_out, in_threads, make_service, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITERS, EACH = 8, 12


@pytest.fixture
def service(database_url: str, table_prefix: str) -> Iterator[SessionService]:
    """A service whose connections have all come back at the end, and whose journeys are over."""
    made = make_service(database_url, table_prefix=table_prefix)
    made.create_schema()
    yield made
    assert checked_out(made) == 0
    assert journeys(made) == {}
    made.close()


def journeys(service: SessionService) -> Any:
    """What is under way."""
    travelling = getattr(log_of(service).store, "travelling", None)
    return {} if travelling is None else travelling._journeys


def test_each_writer_is_told_its_own_events(service: SessionService) -> None:
    service.open("s")

    def writer(number: int) -> Callable[[], list[tuple[int, str]]]:
        def write() -> list[tuple[int, str]]:
            told = []
            for at in range(EACH):
                said = [HumanMessage(f"{number}-{at}-{part}") for part in range(1 + at % 3)]
                events = service.append("s", said)
                assert [event.message and event.message.text for event in events] == [each.text for each in said]
                assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(said)))
                told += [(event.seq, str(event.message and event.message.text)) for event in events]
            return told

        return write

    told = sorted(each for found in in_threads([writer(number) for number in range(WRITERS)]) for each in found)
    assert told == [(event.seq, str(event.message and event.message.text)) for event in service.events("s").items]
    own = [[text for _, text in told if text.startswith(f"{number}-")] for number in range(WRITERS)]
    for number, said in enumerate(own):
        assert said == [f"{number}-{at}-{part}" for at in range(EACH) for part in range(1 + at % 3)]
    assert_whole(service, "s")


def test_counters_move_by_all_of_them(service: SessionService) -> None:
    service.open("s")
    in_threads([lambda: [service.append("s", HumanMessage("hello")) for _ in range(EACH)] for _ in range(WRITERS)])
    count = service.count("s")
    assert (count.events, count.turns) == (WRITERS * EACH, WRITERS * EACH)
    assert service.verify("s") == []


def test_the_same_message_from_many_is_stored_once(service: SessionService) -> None:
    service.open("s")

    def writer() -> list[int]:
        return [service.append("s", [message(f"m{at}"), AIMessage("yes", id=f"a{at}")])[0].seq for at in range(EACH)]

    told = in_threads([writer] * WRITERS)
    assert all(each == told[0] for each in told)
    assert assert_whole(service, "s") == [name for at in range(EACH) for name in (f"m{at}", f"a{at}")]


def test_a_conflict_is_told_to_whom_it_concerns(service: SessionService) -> None:
    service.open("s")
    service.append("s", HumanMessage("mine", id="taken"))

    def writer(number: int) -> Callable[[], int]:
        def write() -> int:
            refused = 0
            for at in range(EACH):
                said = HumanMessage(f"{number}-{at}", id="taken" if (number + at) % 4 == 0 else f"{number}-{at}")
                try:
                    service.append("s", said)
                except EventConflictError:
                    refused += 1
                    assert said.id == "taken"
                else:
                    assert said.id != "taken"
            return refused

        return write

    refused = sum(in_threads([writer(number) for number in range(WRITERS)]))
    assert refused == WRITERS * EACH // 4
    assert len(assert_whole(service, "s")) == 1 + WRITERS * EACH - refused


def test_who_waits_for_a_session_that_goes_hears_so(service: SessionService) -> None:
    service.open("s")
    outcomes: list[str] = []

    def write() -> None:
        try:
            for _ in range(EACH):
                service.append("s", HumanMessage("hello"))
        except SessionNotFoundError:
            outcomes.append("gone")

    in_threads([*([write] * WRITERS), lambda: service.delete("s")])
    assert len(outcomes) <= WRITERS
    with pytest.raises(SessionNotFoundError):
        service.get("s")


async def test_tasks_and_threads_wait_for_each_other(database_url: str, table_prefix: str) -> None:
    service = make_service(database_url, table_prefix=table_prefix)
    await service.acreate_schema()
    await service.aopen("s")

    async def task(number: int) -> None:
        for at in range(EACH):
            await service.aappend("s", message(f"task-{number}-{at}"))

    def thread(number: int) -> None:
        for at in range(EACH):
            service.append("s", message(f"thread-{number}-{at}"))

    threads = [asyncio.to_thread(thread, number) for number in range(3)]
    await asyncio.gather(*(task(number) for number in range(5)), *threads)
    names = await asyncio.to_thread(assert_whole, service, "s")
    assert len(names) == WRITERS * EACH
    assert checked_out(service) == 0
    assert journeys(service) == {}
    await service.aclose()


async def test_who_is_cancelled_takes_nobody_along(database_url: str, table_prefix: str) -> None:
    chance = random.Random()  # noqa: S311 - the moment of a cancellation is no secret
    service = make_service(database_url, table_prefix=table_prefix)
    await service.acreate_schema()
    await service.aopen("s")
    returned: list[str] = []

    async def append(name: str) -> None:
        await service.aappend("s", message(name))
        returned.append(name)

    for start in range(0, 160, 16):
        tasks = {at: asyncio.create_task(append(f"m{at}")) for at in range(start, start + 16)}
        for at, task in tasks.items():
            await asyncio.sleep(chance.uniform(0, 0.002))
            if at % 3 == 0:
                task.cancel()
        outcomes = await asyncio.gather(*tasks.values(), return_exceptions=True)
        for at, outcome in zip(tasks, outcomes, strict=True):
            assert outcome is None or (at % 3 == 0 and isinstance(outcome, asyncio.CancelledError)), outcome
        assert journeys(service) == {}
    assert checked_out(service) == 0
    await asyncio.to_thread(assert_whole, service, "s", returned)
    await service.aclose()


KEY = SessionKey("default", "s", ANYONE)
BATCH = AppendBatch((), 0, lambda _session, _one, _other: True)
DONE = Appended((), 0)


def _stuck(travelling: together.Travelling, started: threading.Event, goes_on: threading.Event) -> threading.Thread:
    """Somebody who is under way for long."""

    def send(_key: SessionKey, _batch: AppendBatch) -> Flow[Any]:
        started.set()
        goes_on.wait(30)
        return DONE
        yield  # pragma: no cover - a workflow

    return threading.Thread(target=lambda: drive(travelling.append(KEY, BATCH, send, send)))


def _at_once(_key: SessionKey, _batch: AppendBatch) -> Flow[Any]:
    return DONE
    yield  # pragma: no cover - a workflow


def test_who_waits_for_somebody_that_is_gone_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_PATIENCE", 0.05)
    travelling, started, goes_on = together.Travelling(), threading.Event(), threading.Event()
    gone = _stuck(travelling, started, goes_on)
    gone.start()
    assert started.wait(30)
    assert drive(travelling.append(KEY, BATCH, _at_once, _at_once)) is DONE
    assert travelling._journeys == {}, "and the next one does not wait"
    goes_on.set()
    gone.join(30)
    assert travelling._journeys == {}


def test_what_was_under_way_before_a_fork_is_not_so_after_it() -> None:
    travelling, started, goes_on = together.Travelling(), threading.Event(), threading.Event()
    gone = _stuck(travelling, started, goes_on)
    gone.start()
    assert started.wait(30)
    travelling.leave_all()  # as a child does
    assert drive(travelling.append(KEY, BATCH, _at_once, _at_once)) is DONE
    goes_on.set()
    gone.join(30)


def _said(text: str) -> Any:
    return SimpleNamespace(seq=1, text=text, body=None)


class _Server:
    """Takes a moment for each batch, and notes how many rows it had."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def pause(self) -> None:
        raise AssertionError

    async def apause(self) -> None:
        await asyncio.sleep(0.001)

    def send(self, _key: SessionKey, batch: AppendBatch) -> Flow[Any]:
        self.sizes.append(len(batch.rows))
        yield from ask(self.pause)
        return Appended(batch.rows, len(batch.rows))


async def test_writers_that_arrived_together_go_together_again() -> None:
    travelling, server = together.Travelling(), _Server()
    batch = BATCH._replace(rows=(_said(""),))

    async def write() -> None:
        for _ in range(EACH):
            await adrive(travelling.append(KEY, batch, server.send, server.send))

    await asyncio.gather(*(write() for _ in range(WRITERS)))
    # The very first goes alone, and comes back in time for those that waited for it.
    assert server.sizes == [1, *[WRITERS] * (EACH - 1), WRITERS - 1]
    assert travelling._journeys == {}


async def test_what_goes_together_is_bounded_by_what_it_says() -> None:
    """Writers of megabytes each hold the session for no longer than they would alone."""
    travelling, server = together.Travelling(), _Server()
    half = together._MOST_SAID // 2
    sizes = [1, half, half, 1, 3 * half, half, 1, 1]
    batches = [BATCH._replace(rows=(_said("x" * size),)) for size in sizes]
    told = await asyncio.gather(*(adrive(travelling.append(KEY, each, server.send, server.send)) for each in batches))
    assert [each.rows for each in told] == [each.rows for each in batches]
    assert server.sizes == [1, 2, 1, 1, 3]
    assert travelling._journeys == {}
