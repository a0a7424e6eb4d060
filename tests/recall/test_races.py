"""One session, many at work on it: writers, searchers, those who compact it, build its index, compare it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import EventFilter, NewEvent, SessionService
from langchain_sessions._recall.index.indexing import Indexer
from langchain_sessions._sql.index import writing
from langchain_sessions._sql.index.deflated import rows_of
from langchain_sessions.errors import StoreUnavailableError
from langchain_sessions.testing.archiving import archive

if TYPE_CHECKING:
    from collections.abc import Callable

WRITERS = 3
APPENDS = 25
BATCH = 8


def write(ada: SessionService, writer: int) -> None:
    for number in range(APPENDS):
        name = f"w{writer}n{number}"
        ada.append("s1", [HumanMessage(f"kettle {name}m{at} of topic {at}") for at in range(BATCH)])
        # What was appended is found at once, whatever the index is doing.
        assert ada.search(f"{name}m3", session_id="s1", limit=1)[0].text.startswith(f"kettle {name}m3")


def compare(ada: SessionService) -> None:
    with suppress(StoreUnavailableError):  # it says that the index kept changing
        assert ada.verify("s1") == []


def compact(ada: SessionService) -> None:
    context = ada.context("s1")
    turns = [event.seq for event in context.events if not event.is_synthetic][:-4]
    if turns:
        archive(ada, "s1", turns, base=context, summary=[NewEvent(message=AIMessage("A summary of kettles."))])


def search(ada: SessionService) -> None:
    assert ada.search("kettle topic", session_id="s1").total is not None
    assert ada.search("of topic 3", mode="literal").total is not None
    assert ada.search("kettle", where=EventFilter(archived=True), order="time").total is not None


def search_all(ada: SessionService) -> None:
    assert ada.search("topic 5", neighbours=3, recency=1.0).total is not None


def index(ada: SessionService) -> None:
    ada.reindex("s1")


def test_nobody_trips_over_anybody(ada: SessionService) -> None:
    written = threading.Event()

    def meanwhile(work: Callable[[SessionService], None]) -> int:
        rounds = 0
        while not written.is_set():
            work(ada)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(WRITERS + 5) as pool:
        others = [pool.submit(meanwhile, work) for work in (index, compare, compact, search, search_all)]
        writers = [pool.submit(write, ada, writer) for writer in range(WRITERS)]
        wait(writers)
        written.set()
        for writer in writers:
            writer.result()
        assert all(other.result() > 0 for other in others)
    ada.reindex("s1")
    assert ada.verify("s1") == []
    assert ada.search("of topic", mode="literal").total == WRITERS * APPENDS * BATCH
    assert ada.search("w1n7m2").total


@pytest.mark.backends("postgres", "mariadb")
def test_what_a_step_of_the_index_stores_is_made_before_it_holds_others_up(
    ada: SessionService, database_url: str, table_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_timeout = timedelta(seconds=1)
    made: list[int] = []
    with SessionService(database_url, table_prefix=table_prefix, search=False, lock_timeout=lock_timeout) as elsewhere:

        def beside_an_append(*given: Any) -> list[tuple[str, bytes]]:
            made.append(elsewhere.as_user("ada").append("s1", HumanMessage("meanwhile"))[0].seq)
            return [*rows_of(*given)]

        monkeypatch.setattr(writing, "rows_of", beside_an_append)
        ada.append("s1", [HumanMessage(f"kettle {number}") for number in range(600)])
    assert made == [601]
    assert ada.verify("s1") == []


@pytest.mark.backends("memory")
@pytest.mark.asyncio
async def test_others_of_a_loop_have_their_turn_while_an_append_moves_the_index(ada: SessionService) -> None:
    turns, is_over = 0, False

    async def others() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await asyncio.sleep(0)
    await ada.aappend("s1", [HumanMessage(f"kettle {number}") for number in range(600)])
    during, is_over = turns, True
    await running
    assert during > 4


def test_what_was_blanked_while_a_first_index_was_made_is_not_in_it(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has no index yet, whose generation the erasure could count up."""
    ada = service.as_user("ada")
    ada.create("s1")
    ada.append("s1", [HumanMessage(f"kettle {n}") for n in range(5)])
    ada.append("s1", HumanMessage("zebra", id="secret"))
    plan, blanked = Indexer._plan, list[int]()

    def later(self: Indexer, *given: Any) -> object:
        if not blanked:
            blanked.extend(ada.blank("s1", "secret").seqs)
        return plan(self, *given)

    monkeypatch.setattr(Indexer, "_plan", later)
    ada.reindex("s1")
    assert blanked
    assert ada.verify("s1") == []
    assert [hit.text for hit in ada.search("zebra", session_id="s1")] == []
    ada.reindex("s1")
    assert len([hit for hit in ada.search("kettle", session_id="s1") if "kettle" in hit.text]) == 5
