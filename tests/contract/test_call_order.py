"""Of what tasks of one loop append to one session, the first that was called is the first in the log."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import InvocationStatus
from langchain_sessions._core.flow import LARGE
from langchain_sessions._core.rows import SessionKey
from langchain_sessions._log.log import log_of
from langchain_sessions._log.order import CallOrder
from tests.faults.drills import make_service

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions import SessionService

LONG = "The harbour lies where the river ends. " * (LARGE // 20)


def said(name: str) -> HumanMessage:
    """A message of a name, which is long where the name begins with a capital."""
    return HumanMessage(LONG if name[0].isupper() else "short", id=name)


async def appended(made: SessionService, names: Iterable[str], *, cancelled: Iterable[str] = ()) -> list[str]:
    """Names in the order of the log, of messages that tasks appended in the order of their names."""
    tasks = {name: asyncio.create_task(made.aappend("s", said(name))) for name in names}
    await asyncio.sleep(0)
    for name in cancelled:
        tasks[name].cancel()
    for task in tasks.values():
        with suppress(asyncio.CancelledError):
            await task
    assert log_of(made).shared.under_way == {}
    return [message.id or "" for message in await made.amessages("s")]


def test_a_short_append_comes_after_a_long_one_that_was_called_before(database_url: str, table_prefix: str) -> None:
    async def act() -> None:
        made = make_service(database_url, table_prefix=table_prefix)
        await made.acreate("s")
        names = ["A", "b", "c", "D", "e", "F", "G", "h", "i"]
        assert await appended(made, names) == names
        edit = asyncio.create_task(made.aedit("s", HumanMessage(LONG + "edited", id="b")))
        assert await appended(made, ["j"]) == [*names, "j"]
        assert (await edit).seq == len(names) + 1
        await made.aclose()

    asyncio.run(act())


def test_who_is_cancelled_holds_nobody_up(database_url: str, table_prefix: str) -> None:
    async def act() -> None:
        made = make_service(database_url, table_prefix=table_prefix)
        await made.acreate("s")
        assert await appended(made, ["A", "b", "c", "D", "e"], cancelled=["A", "b"]) == ["c", "D", "e"]
        first = asyncio.create_task(made.aappend("s", said("F")))
        assert (await appended(made, ["g", "H", "i"], cancelled=["g", "H"]))[3:] == ["F", "i"]
        await first
        await made.aclose()

    asyncio.run(act())


OTHERS: dict[str, dict[str, Any]] = {
    "state": {"state_delta": {"k": 1}},
    "branch": {"branch": "root.helper"},
    "run": {"invocation_id": "r", "invocation_status": InvocationStatus.OPEN},
    "view": {},
}


@pytest.mark.parametrize("what", [*OTHERS, "edit"])
def test_what_cannot_travel_together_goes_in_turn(database_url: str, table_prefix: str, what: str) -> None:
    async def act() -> None:
        made = make_service(database_url, table_prefix=table_prefix)
        await made.aopen("s")
        await made.aappend("s", said("z"))

        async def other(number: int) -> int:
            if what == "edit":
                return (await made.aedit("s", HumanMessage(f"better {number}", id="z"))).seq
            view = made.as_user(None) if what == "view" else made
            (event,) = await view.aappend("s", said(f"x{number}"), **OTHERS[what])
            return event.seq

        async def short(number: int) -> int:
            return (await made.aappend("s", said(f"y{number}")))[0].seq

        async def long() -> int:
            return (await made.aappend("s", said("Long")))[0].seq

        called = [long(), *(do(number) for number in range(4) for do in (short, other))]
        seqs = await asyncio.gather(*called)
        assert seqs == sorted(seqs)
        await made.aclose()

    asyncio.run(act())


async def test_nothing_is_kept_of_a_loop_that_has_ended() -> None:
    under_way: dict[Any, Any] = {}
    order, key = CallOrder(under_way), SessionKey("app", "s", None)
    ended = asyncio.new_event_loop()
    await asyncio.to_thread(ended.run_until_complete, order.aenter(key))
    assert [loop for loop, *_ in under_way] == [ended]
    ended.close()
    place = await order.aenter(key)
    assert [loop for loop, *_ in under_way] == [asyncio.get_running_loop()]
    behind = asyncio.create_task(order.afollow(await order.aenter(key)))
    asyncio.get_running_loop().set_debug(True)
    await asyncio.to_thread(order.leave, place)  # as where what was left half done is collected elsewhere
    await asyncio.wait_for(behind, 5)


@pytest.mark.backends("sqlite")
async def test_a_service_that_was_closed_among_its_writers_keeps_no_connection(
    database_url: str, table_prefix: str
) -> None:
    made = make_service(database_url, table_prefix=table_prefix)
    await made.acreate("s")
    writing = [asyncio.create_task(made.aappend("s", said(f"m{at}"))) for at in range(100)]
    await asyncio.sleep(0)
    await made.aclose()
    await asyncio.gather(*writing, return_exceptions=True)
    assert log_of(made).store._runner._writer.kept is None  # type: ignore[attr-defined]


@pytest.mark.backends("sqlite")
def test_nobody_reads_behind_writers_that_wait(database_url: str, table_prefix: str) -> None:
    async def act() -> None:
        made = make_service(database_url, table_prefix=table_prefix)
        await made.acreate("s")
        names = [f"m{number}" for number in range(20)]
        with closing(sqlite3.connect(database_url.partition(":///")[2], isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(appended(made, names))
            await asyncio.sleep(0.05)
            reading = asyncio.create_task(made.amessages("s"))
            read, _ = await asyncio.wait([reading], timeout=5)
            other.execute("ROLLBACK")
        assert await reading == []
        assert read == {reading}
        assert await writing == names
        await made.aclose()

    asyncio.run(act())
