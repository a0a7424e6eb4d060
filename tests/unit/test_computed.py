"""What takes long is computed beside an event loop: as its caller would do it, and of what he gave."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest
from langchain_core.messages import AIMessage

from langchain_sessions import InMemoryStore, SessionService
from langchain_sessions._core.flow import LARGE, adrive, computed, drive

TENANT: ContextVar[str] = ContextVar("tenant")


def asked() -> tuple[str, int]:
    return TENANT.get(), threading.get_ident()


def test_somebody_who_calls_computes_it_himself() -> None:
    TENANT.set("ada")
    assert drive(computed(LARGE, asked)) == ("ada", threading.get_ident())


async def test_a_loop_does_not_and_what_the_caller_set_is_there() -> None:
    TENANT.set("grace")
    assert await adrive(computed(LARGE - 1, asked)) == ("grace", threading.get_ident())
    tenant, thread = await adrive(computed(LARGE, asked))
    assert tenant == "grace"
    assert thread != threading.get_ident()


@pytest.mark.parametrize("how", ["aappend", "aedit"])
async def test_a_message_is_stored_as_it_was_given(how: str) -> None:
    async with SessionService(InMemoryStore()) as service:
        await service.acreate("s")
        await service.aappend("s", AIMessage("before", id="m"))
        message = AIMessage("word " * LARGE, id="m" if how == "aedit" else "n")
        under_way = asyncio.create_task(getattr(service, how)("s", message))
        await asyncio.sleep(0)
        message.content = "changed"
        await under_way
        newest = (await service.amessages("s"))[-1]
        assert newest.text == "word " * LARGE
        event = (await service.aevents("s"))[-1]
        assert event.tokens > LARGE / 2
