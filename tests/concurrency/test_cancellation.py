"""C12: an append whose caller is cancelled happened whole or not at all, and takes no connection with it."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from langchain_core.messages import AIMessage

from tests.faults.drills import assert_whole, checked_out, make_service, message


async def test_cancelled_appends_are_whole_or_none(database_url: str, table_prefix: str) -> None:
    await _cancel(database_url, table_prefix, 200)


@pytest.mark.soak
async def test_many_cancelled_appends(database_url: str, table_prefix: str) -> None:
    await _cancel(database_url, table_prefix, 3000)


async def _cancel(url: str, prefix: str, appends: int) -> None:
    chance = random.Random()  # noqa: S311 - the moment of a cancellation is no secret
    service = make_service(url, table_prefix=prefix)
    await service.acreate_schema()
    await service.aopen("s")
    returned: list[str] = []

    async def append(number: int) -> None:
        pair = [message(f"q{number}"), AIMessage("yes", id=f"a{number}")]
        # With a state change every other one goes the full way, which takes several statements.
        await service.aappend("s", pair, state_delta={"n": number} if number % 2 else None)
        returned.append(f"q{number}")

    for start in range(0, appends, 20):
        tasks = [asyncio.create_task(append(number)) for number in range(start, start + 20)]
        for task in tasks:
            await asyncio.sleep(chance.uniform(0, 0.004))
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
    assert checked_out(service) == 0
    await service.aappend("s", message("next"))
    returned.append("next")
    service_ids = await asyncio.to_thread(assert_whole, service, "s", returned)
    questions = [name for name in service_ids if name.startswith("q")]
    answers = [name for name in service_ids if name.startswith("a")]
    assert [name[1:] for name in questions] == [name[1:] for name in answers]
    await service.aclose()
